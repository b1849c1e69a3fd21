use serde_json::Value;

use super::*;
use crate::artifacts::server_metrics::tests::golden;

/// The file as it is parsed.
type Document = Export<Pairs<Metric<Vec<Series>>>>;

fn read_and_written<T: Serialize + for<'de> Deserialize<'de>>(text: &str) -> (Value, Value) {
    let read: T = serde_json::from_str(text).unwrap();
    (serde_json::to_value(&read).unwrap(), serde_json::from_str(text).unwrap())
}

#[test]
fn examples_are_read_and_written_the_same() {
    for name in [
        "server-metrics/minimal.json",
        "server-metrics/collection.json",
        "aiperf-0.13/server_metrics_export.json",
    ] {
        let (ours, theirs) = read_and_written::<Document>(&golden(name));
        assert_eq!(ours, theirs, "{name}");
    }
    let (ours, theirs) = read_and_written::<Vec<Series>>(&golden("server-metrics/series.json"));
    assert_eq!(ours, theirs);
    assert_eq!(ours.as_array().unwrap().len(), 6);
}

#[test]
fn null_buckets_are_not_absent_ones() {
    for text in [
        r#"{"endpoint_url":"u","stats":{"count":1},"buckets":null}"#,
        r#"{"endpoint_url":"u","stats":{"total":1.0}}"#,
    ] {
        let (ours, theirs) = read_and_written::<Series>(text);
        assert_eq!(ours, theirs);
    }
    let misspelt = r#"{"endpoint_url":"u","stats":{"totally":1.0}}"#;
    assert!(serde_json::from_str::<Series>(misspelt).is_err());
}
