//! `profile_export_network_latency.jsonl`: one line per probe of the network, written during the
//! run.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use client::network_latency::{Probe, ProbeSink};
use client::record::RequestError;

use super::error::{ArtifactError, WriteFailure};
use super::sink::LineSink;

/// The open file of probes.
#[derive(Debug)]
pub struct ProbeLines(LineSink);

/// A line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    timestamp_ns: u64,
    target_url: &'a str,
    target_host: &'a str,
    target_port: u16,
    probe_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt_ns: Option<u64>,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RequestError>,
}

/// What is read of a line.
#[derive(Debug, Deserialize)]
pub(super) struct ProbeLine {
    success: bool,
    #[serde(default)]
    rtt_ns: Option<u64>,
}

impl ProbeLines {
    /// Creates the file `path`.
    pub(super) fn create(path: &Path) -> Result<Self, ArtifactError> {
        LineSink::create(path).map(Self)
    }

    /// Flushes and closes the file; returns its path.
    pub(super) fn finish(self) -> Result<PathBuf, WriteFailure> {
        self.0.finish()
    }
}

impl ProbeSink for ProbeLines {
    /// Appends a line and passes it to the operating system, since there are few.
    fn probe(&mut self, probe: &Probe) {
        match line(probe) {
            Ok(line) => self.0.append(Ok(&line)),
            Err(error) => self.0.append(Err(error)),
        }
        self.0.flush();
    }
}

/// Returns the line of a probe, including its line feed.
fn line(probe: &Probe) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line {
        timestamp_ns: probe.start_wall_ns,
        target_url: &probe.server.url,
        target_host: &probe.server.host,
        target_port: probe.server.port,
        probe_type: "tcp_connect",
        rtt_ns: probe.outcome.as_ref().ok().map(|rtt| rtt.0),
        success: probe.outcome.is_ok(),
        error: probe.outcome.as_ref().err(),
    })?;
    line.push(b'\n');
    Ok(line)
}

impl ProbeLine {
    /// Parses a line.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with it.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let parsed: Self = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if parsed.success && parsed.rtt_ns.is_none() {
            return Err("a successful probe without rtt_ns".to_owned());
        }
        Ok(parsed)
    }

    /// Returns the round-trip time in nanoseconds of a successful probe.
    pub(super) fn round_trip(&self) -> Option<u64> {
        self.rtt_ns.filter(|_| self.success)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use base::units::Nanos;
    use client::network_latency::Server;
    use client::record::ErrorKind;

    use super::*;

    fn probe(outcome: Result<Nanos, RequestError>) -> Probe {
        let server = Server { url: "http://a:80/".into(), host: "a".into(), port: 80 };
        Probe { server: Arc::new(server), start_wall_ns: 7, outcome }
    }

    fn refused(message: String) -> RequestError {
        RequestError::new(ErrorKind::Other, "ConnectionRefused", message)
    }

    #[test]
    fn a_line_has_the_keys_of_aiperf() {
        let parsed =
            |probe: &Probe| serde_json::from_slice::<Value>(&line(probe).unwrap()).unwrap();
        let target = |rest: Value| {
            let mut line = json!({
                "timestamp_ns": 7,
                "target_url": "http://a:80/",
                "target_host": "a",
                "target_port": 80,
                "probe_type": "tcp_connect",
            });
            let members = line.as_object_mut().unwrap();
            members.extend(rest.as_object().unwrap().clone());
            line
        };
        let succeeded = probe(Ok(Nanos(120_000)));
        assert_eq!(parsed(&succeeded), target(json!({"rtt_ns": 120_000, "success": true})));
        let failed = probe(Err(refused("no".to_owned())));
        let error = json!({"type": "ConnectionRefused", "message": "no", "error_type": "_OTHER"});
        assert_eq!(parsed(&failed), target(json!({"success": false, "error": error})));
    }

    #[test]
    fn only_successful_lines_have_a_round_trip() {
        let round_trip =
            |text: &str| ProbeLine::parse(text.as_bytes()).map(|line| line.round_trip());
        assert_eq!(round_trip(r#"{"success":true,"rtt_ns":5}"#), Ok(Some(5)));
        // AIPerf writes null.
        assert_eq!(round_trip(r#"{"success":false,"rtt_ns":null}"#), Ok(None));
        assert_eq!(round_trip(r#"{"success":false,"rtt_ns":5}"#), Ok(None));
        assert!(round_trip(r#"{"success":true}"#).is_err());
        assert!(round_trip(r#"{"rtt_ns":5}"#).is_err());
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_rejected(text: Vec<u8>) {
            let _ = ProbeLine::parse(&text);
        }

        #[test]
        fn what_is_written_is_read(outcome: Result<u64, String>) {
            let written = line(&probe(outcome.clone().map(Nanos).map_err(refused))).unwrap();
            let read = ProbeLine::parse(&written).unwrap();
            prop_assert_eq!(read.round_trip(), outcome.ok());
        }
    }
}
