//! `profile_export.parquet`, read by the parquet crate, and by pyarrow if it is installed.

use std::fs::File;

use aiperf::artifacts::ExportLevel;
use aiperf::metrics::metric::Kind;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, ListAccessor, Row, RowAccessor};

use super::run::TestRun;
use crate::support::python::run_python;

fn column<'a>(row: &'a Row, name: &str) -> (usize, &'a Field) {
    let found = row.get_column_iter().enumerate().find(|(_, (column, _))| *column == name);
    let (at, (_, field)) = found.unwrap_or_else(|| panic!("no column {name}"));
    (at, field)
}

fn list(row: &Row, name: &str) -> Vec<f64> {
    let values = row.get_list(column(row, name).0).unwrap();
    (0..values.len()).map(|at| values.get_double(at).unwrap()).collect()
}

#[test]
fn rows_are_the_requests() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let file = File::open(run.directory().join("profile_export.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), run.measured.len());
    let first = &rows[0];
    let start = run.clock.wall_ns(run.measured[0].record.start);
    assert_eq!(*column(first, "request_start_ns").1, Field::Long(start.try_into().unwrap()));
    assert_eq!(*column(first, "conversation_id").1, Field::Str("first".to_owned()));
    assert_eq!(*column(first, "benchmark_phase").1, Field::Str("warmup".to_owned()));
    assert_eq!(*column(first, "time_to_first_token").1, Field::Double(29.998_766));
    assert_eq!(*column(first, "output_sequence_length").1, Field::Long(4));
    assert_eq!(*column(first, "clock").1, Field::Str("mixed".to_owned()));
    assert_eq!(*column(first, "max_read_lag_ns").1, Field::Long(3_500));
    assert_eq!(*column(first, "max_uncertainty_ns").1, Field::Long(4_500));
    assert_eq!(*column(first, "error_code").1, Field::Null);
    assert_eq!(list(first, "inter_chunk_latency"), [10.0, 10.170_119, 10.340_238]);
    assert_eq!(list(first, "content_arrival_ms"), [29.998_766, 39.998_766, 50.168_885, 60.509_123]);
    let refused = &rows[5];
    assert_eq!(*column(refused, "error_code").1, Field::Long(500));
    assert_eq!(*column(refused, "time_to_first_token").1, Field::Null);
    assert_eq!(*column(refused, "inter_chunk_latency").1, Field::Null);
    assert_eq!(list(refused, "content_arrival_ms"), [0.0; 0]);
    assert_eq!(*column(&rows[7], "was_cancelled").1, Field::Bool(true));
}

#[test]
fn the_file_says_what_it_is_of() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let file = File::open(run.directory().join("profile_export.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let value = |key: &str| {
        metadata.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone())
    };
    let id = run.description.benchmark_id.to_string();
    assert_eq!(value("aiperf.benchmark_id"), Some(id));
    assert_eq!(value("aiperf.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    let report = run.report();
    let health: serde_json::Value =
        serde_json::from_str(&value("aiperf.client_health").unwrap()).unwrap();
    assert_eq!(health, serde_json::to_value(&report.outcome.client_health).unwrap());
    for result in &report.results {
        let kept = value(&format!("aiperf.metric.{}", result.metric.tag));
        // The metrics of each request can be computed from the rows.
        let is_of_requests = matches!(result.metric.kind, Kind::Record(_) | Kind::RecordList(_));
        assert_eq!(kept.is_some(), !is_of_requests, "{}", result.metric.tag);
        if let Some(kept) = kept {
            let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
            let avg = Some(result.stats.avg).filter(|avg| avg.is_finite());
            assert_eq!(kept["avg"].as_f64(), avg, "{}", result.metric.tag);
        }
    }
}

#[test]
fn a_long_run_is_several_row_groups() {
    let run = TestRun::new(ExportLevel::Records);
    let mut set = run.create();
    for _ in 0..200 {
        for measured in &run.measured {
            set.record(measured, &run.clock);
        }
    }
    set.finish(&run.report(), "").unwrap();
    let file = File::open(run.directory().join("profile_export.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert!(reader.num_row_groups() > 1);
    let rows = reader.metadata().file_metadata().num_rows();
    assert_eq!(usize::try_from(rows).unwrap(), 200 * run.measured.len());
}

#[test]
fn pyarrow_reads_the_same() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    run_python("tests/read_parquet.py", run.directory());
}
