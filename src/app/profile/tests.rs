use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ::measure::metrics::metric::MeasuredRecord;
use mock_server::MockServer;
use results::follow::{Began, Delivered, Ended, Follower};

use super::*;
use crate::cli::{self, Command};

/// An exporter of records: the size of the output of each request, to a file of its own.
#[derive(Default)]
struct Lengths {
    began: AtomicU64,
    lines: Mutex<BTreeMap<String, u64>>,
    delivered: AtomicU64,
}

impl Follower for Lengths {
    fn began(&self, run: &Began<'_>) {
        assert!(run.workers >= 1 && run.name.is_none());
        self.began.fetch_add(1, Ordering::Relaxed);
    }

    fn record(&self, record: &MeasuredRecord) {
        let id = record.record.request_id.to_string();
        let tokens = record.observation.values.scalar(::measure::metrics::tag::OUTPUT_TOKEN_COUNT);
        self.lines.lock().unwrap().insert(id, tokens.unwrap() as u64);
    }

    fn ended(&self, run: &mut Ended<'_>) {
        let path = run.layout.directory.join("lengths.json");
        let text = serde_json::to_vec(&*self.lines.lock().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        run.files.push(path);
    }

    fn delivered(&self, command: &Delivered<'_>) {
        assert!(command.files.contains(&command.directory.join("lengths.json")));
        assert!(command.files.contains(&command.directory.join("profile_export_aiperf.json")));
        assert!(!command.is_partial);
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_follower_exports_each_record_and_its_file_is_listed() {
    let server = MockServer::start(mock_server::Config::default()).unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().display().to_string();
    let flags = "aiperf profile --model mock-model --tokenizer builtin --isl 20 --osl 3 --ui none \
                 --request-count 7 --warmup-request-count 2 --no-gpu-telemetry --files --url";
    let url = server.url();
    let flags = flags.split_whitespace().chain([&*url, "--artifact-dir", &directory]);
    let Command::Profile(benchmark) =
        cli::parse(flags.map(Into::into).collect::<Vec<_>>()).unwrap()
    else {
        panic!("another command")
    };
    let exporter = Arc::new(Lengths::default());
    let mut followers = Followers::default();
    followers.add(Arc::<Lengths>::clone(&exporter));
    let mut out = Vec::new();
    let outcome = followed(benchmark.config, &Interrupt::never(), followers, &mut out).unwrap();
    assert_eq!(outcome, Outcome::Done);
    let counts = [&exporter.began, &exporter.delivered].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(counts, [1, 1]);
    let text = std::fs::read(place.path().join("lengths.json")).unwrap();
    let lines: BTreeMap<String, u64> = serde_json::from_slice(&text).unwrap();
    assert_eq!(lines.len(), 9, "each request of both phases");
    assert!(lines.values().all(|tokens| *tokens == 3), "{lines:?}");
    assert!(String::from_utf8(out).unwrap().contains("lengths.json"));
}
