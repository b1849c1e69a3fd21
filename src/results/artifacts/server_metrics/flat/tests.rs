use serde_json::Value;

use base::redact::ShownUrl;
use measure::server_metrics::report::RateSpread;

use super::*;
use crate::artifacts::server_metrics::tests::golden;

/// The file as it is parsed.
type Document = Export<Pairs<Metric<Vec<Series>>>>;

const URL: &str = "http://localhost:10000/metrics";

fn examples() -> Vec<Value> {
    serde_json::from_str(&golden("server-metrics/flat_series.json")).unwrap()
}

#[test]
fn examples_are_read_and_written_the_same() {
    let series = golden("server-metrics/flat_series.json");
    let read: Vec<Series> = serde_json::from_str(&series).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), Value::Array(examples()));
    let text = golden("server-metrics/flat.json");
    let read: Document = serde_json::from_str(&text).unwrap();
    let theirs: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), theirs);
}

/// Percentiles: only p50, p90, p95 and p99.
fn percentiles([p50, p90, p95, p99]: [f64; 4]) -> [f64; 9] {
    [f64::NAN, f64::NAN, f64::NAN, f64::NAN, p50, f64::NAN, p90, p95, p99]
}

fn written(stats: Stats, labels: &Value) -> Value {
    let url: ShownUrl = URL.into();
    let ids = EndpointIds::from_urls(std::slice::from_ref(&url));
    let labels = labels.as_object().unwrap();
    let labels =
        labels.iter().map(|(name, value)| (name.as_str().into(), value.as_str().unwrap().into()));
    let series = SeriesReport { endpoint_url: url, labels: labels.collect(), stats };
    serde_json::to_value(Series::new(SeriesKind::Gauge, &series, &ids)).unwrap()
}

/// The numbers of the examples, entered by hand, reproduce the examples.
#[test]
fn each_kind_has_its_members() {
    let gauge = |avg, min, max, std, of| GaugeStats {
        avg,
        min,
        max,
        std,
        percentiles: percentiles(of),
        timeslices: Vec::new(),
    };
    let rates = RateSpread { avg: 263.02, min: 22.38, max: 2948.65, std: 804.92 };
    let counter = CounterStats {
        total: 5275.0,
        rate: 242.15,
        point_rates: Some(rates),
        ..CounterStats::default()
    };
    let idle = CounterStats { point_rates: Some(rates), ..CounterStats::default() };
    let buckets =
        [("0", 0.0), ("1.9", 4.0), ("3.4", 5.0), ("12", 8.0), ("22", 50.0), ("+Inf", 50.0)];
    let histogram = HistogramStats {
        count: 50.0,
        sum: 733.55,
        count_rate: 2.16,
        sum_rate: 31.66,
        percentiles: Some(percentiles([15.76, 20.43, 21.01, 21.48])),
        buckets: Some(buckets.map(|(bound, count)| (bound.into(), count)).into()),
        ..HistogramStats::default()
    };
    let quantiles = [("0.5", 0.12), ("0.9", 0.25), ("0.95", 0.35), ("0.99", 0.5)];
    let summary = SummaryStats {
        quantiles: quantiles.map(|(quantile, value)| (quantile.into(), value)).into(),
        count: 1000.0,
        sum: 150.0,
        count_rate: 45.9,
        sum_rate: 6.89,
    };
    let by_hand = [
        Stats::Gauge(gauge(35.31, 0.0, 48.0, 16.45, [42.5, 48.0, 48.0, 48.0])),
        Stats::Gauge(gauge(40960.0, 40960.0, 40960.0, 0.0, [40960.0; 4])),
        Stats::Counter(counter),
        Stats::Counter(idle),
        Stats::Histogram(histogram),
        Stats::Summary(summary),
    ];
    let examples = examples();
    assert_eq!(examples.len(), by_hand.len());
    for (theirs, stats) in examples.into_iter().zip(by_hand) {
        let mut ours = written(stats, &theirs["labels"]);
        if ours.get("buckets").is_some() {
            // 733.55 / 50; the example has two digits.
            assert_eq!(ours["avg"], 14.671);
            ours["avg"] = theirs["avg"].clone();
        }
        assert_eq!(ours, theirs);
    }
}

#[test]
fn without_observations_there_is_but_their_count() {
    let histogram =
        HistogramStats { buckets: Some(vec![("+Inf".into(), 0.0)]), ..HistogramStats::default() };
    for stats in [Stats::Histogram(histogram), Stats::Summary(SummaryStats::default())] {
        let expected = serde_json::json!({
            "endpoint": "localhost:10000", "endpoint_url": URL, "observation_count": 0,
        });
        assert_eq!(written(stats, &serde_json::json!({})), expected);
    }
}
