//! `profile_export.parquet`, read by the parquet crate, and by pyarrow if it is installed.

use std::fs::{self, File};
use std::path::Path;

use base::units::{Clock, Nanos};
use measure::metrics::metric::MetricKind;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, ListAccessor, Row, RowAccessor};
use results::artifacts::{ArtifactSet, ExportLevel, rebuild};
use uuid::Uuid;

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

/// Returns the cells of a row that are not null, without columns that are only in parts.
fn values(row: &Row) -> Vec<(&String, &Field)> {
    let is_value =
        |(name, field): &(&String, &Field)| **field != Field::Null && !name.starts_with("full_");
    row.get_column_iter().filter(is_value).collect()
}

#[test]
fn rows_are_the_requests() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    let file = File::open(run.directory().join("profile_export.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
    let left_out = pairs.iter().find(|pair| pair.key == "aiperf.left_out");
    let left_out = left_out.and_then(|pair| pair.value.clone());
    let rows: Vec<Row> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), run.measured.len());
    let first = &rows[0];
    let start = run.clock.wall_ns(run.measured[0].record.start);
    assert_eq!(*column(first, "request_start_ns").1, Field::Long(start.try_into().unwrap()));
    let id = run.description.benchmark_id.to_string();
    assert_eq!(*column(first, "benchmark_id").1, Field::Str(id));
    // No request has one.
    assert!(first.get_column_iter().all(|(name, _)| name != "run_label"));
    let metadata = left_out.expect("the names of columns that are left out");
    for name in ["run_label", "full_decode_duration"] {
        assert!(metadata.contains(&format!("\"{name}\"")), "{metadata}");
    }
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
    // The objective is a first token within 40 ms.
    assert_eq!(*column(first, "good").1, Field::Bool(true));
    let refused = &rows[5];
    assert_eq!(*column(refused, "good").1, Field::Bool(false));
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
        let is_of_requests =
            matches!(result.metric.kind, MetricKind::Record(_) | MetricKind::RecordList(_));
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
            set.record(measured);
        }
    }
    set.finish(&run.report(), "").unwrap();
    let file = File::open(run.directory().join("profile_export.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    assert!(reader.num_row_groups() > 1);
    let rows = reader.metadata().file_metadata().num_rows();
    assert_eq!(usize::try_from(rows).unwrap(), 200 * run.measured.len());
}

/// Returns the rows of the table at `path`.
fn rows(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

#[test]
fn the_rows_of_a_killed_run_are_in_parts() {
    let run = TestRun::new(ExportLevel::Records);
    let mut set = run.create();
    let rounds = 200;
    let mut ids = (1..).map(Uuid::from_u128);
    let mut record = |set: &mut ArtifactSet| {
        for measured in &run.measured {
            let mut another = measured.clone();
            another.record.request_id = ids.next().unwrap();
            set.record(&another);
        }
    };
    (0..rounds).for_each(|_| record(&mut set));
    let mut now = Clock::now();
    for _ in 0..10 {
        now = now + Nanos::from_millis(1000.0);
        set.tick(now);
    }
    // These are only in the lines.
    record(&mut set);
    set.tick(now + Nanos::from_millis(1000.0));
    std::mem::forget(set);
    let parts = run.directory().join("profile_export.parquet.parts");
    let [first, second] = [1, 2].map(|number| rows(&parts.join(format!("{number:06}.parquet"))));
    let saved = rounds * run.measured.len();
    assert_eq!(first.len() + second.len(), saved);
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 2);

    let table = run.directory().join("profile_export.parquet");
    let report = || {
        let mut rebuilt = rebuild::rebuild(run.directory()).unwrap();
        rebuild::write(&mut rebuilt, "").unwrap();
        let reader = SerializedFileReader::new(File::open(&table).unwrap()).unwrap();
        (reader.metadata().file_metadata().num_rows() as usize, rebuilt.notes.concat())
    };
    let all = saved + run.measured.len();
    let (count, notes) = report();
    assert!(notes.contains(&format!("has only the first {saved} of {all} rows")), "{notes}");
    let whole = rows(&table);
    assert_eq!([count, whole.len()], [all; 2]);
    let arrivals = |row: &Row| column(row, "content_arrival_ms").1.clone();
    for (ours, theirs) in whole[..8].iter().zip(&first) {
        assert_eq!(values(ours), values(theirs));
    }
    assert_eq!(arrivals(&whole[saved - 60]), arrivals(&first[0]));
    assert!(matches!(arrivals(&whole[saved - 60]), Field::ListInternal(_)));
    assert_eq!(arrivals(&whole[saved]), Field::Null);
    // With the lines up to there, the parts have everything.
    let records = run.directory().join("profile_export.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&records, lines[..saved].concat()).unwrap();
    fs::remove_file(&table).unwrap();
    let (count, notes) = report();
    assert_eq!((count, notes.as_str()), (saved, ""));
    // Rows are those of the lines, whatever was done to them: the second part starts elsewhere.
    fs::write(&records, [&lines[..8000], &lines[8001..saved]].concat().concat()).unwrap();
    fs::remove_file(&table).unwrap();
    let (count, notes) = report();
    assert_eq!(count, saved - 1);
    assert!(notes.contains("is missing"), "{notes}");
}

#[test]
fn parts_of_another_run_are_not_used() {
    let mut run = TestRun::new(ExportLevel::Records);
    let mut set = run.create();
    for measured in &run.measured {
        set.record(measured);
    }
    set.tick(Clock::now());
    std::mem::forget(set);
    let parts = run.directory().join("profile_export.parquet.parts");
    let kept = fs::read(parts.join("000001.parquet")).unwrap();
    run.description.benchmark_id = uuid::Uuid::from_u128(7);
    run.complete();
    // Those of the earlier run were moved aside, and those of this one are in the table.
    assert!(
        run.directory().join("previous-1/profile_export.parquet.parts/000001.parquet").exists()
    );
    assert!(!parts.exists());
    fs::create_dir(&parts).unwrap();
    fs::write(parts.join("000001.parquet"), kept).unwrap();
    fs::remove_file(run.directory().join("profile_export.parquet")).unwrap();
    let mut rebuilt = rebuild::rebuild(run.directory()).unwrap();
    rebuild::write(&mut rebuilt, "").unwrap();
    assert!(rebuilt.notes.concat().contains("is missing"), "{:?}", rebuilt.notes);
}

#[test]
fn pyarrow_reads_the_same() {
    let run = TestRun::new(ExportLevel::Records);
    run.complete();
    run_python("tests/read_parquet.py", run.directory());
}
