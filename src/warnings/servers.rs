//! Servers that pause, and servers that are slower than others.

use crate::console::explain::causes::{silent, slowest_url};
use crate::metrics::silence::Silence;
use crate::redact::printable;
use crate::run::RunReport;

/// A time in which nothing arrived, although several responses were being streamed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Silent {
    pub(super) longest: Silence,
    /// Number of such times.
    pub(super) times: usize,
}

pub(super) const SILENT_ADVICE: &[&str] = &[
    "Look for long prefills, garbage collection, swapping or a restart in the server at that time; \
     `silences` of profile_export_aiperf.json has all such times.",
];

impl Silent {
    pub(super) fn of(report: &RunReport) -> Option<Self> {
        let longest = *report.silences.first()?;
        Some(Self { longest, times: report.silences.len() })
    }

    pub(super) fn example() -> Self {
        let longest = Silence { start_seconds: 6.0, duration_seconds: 1.5, streams: 8 };
        Self { longest, times: 1 }
    }

    pub(super) fn summary(&self) -> String {
        silent(&self.longest)
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let others = match self.times {
            0 | 1 => String::new(),
            times => format!(" It is the longest of {times} such times."),
        };
        vec![format!(
            "While responses were being streamed, there was {}: the whole server paused, or what is \
             between it and the client.{others} The latencies of the requests of that time contain it.",
            silent(&self.longest)
        )]
    }
}

/// One of several servers, which is slower than the fastest.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slower {
    pub(super) url: String,
    /// Its mean request latency, and that of the fastest, in milliseconds.
    pub(super) means_ms: [f64; 2],
}

pub(super) const TOGETHER_ADVICE: &[&str] = &[
    "Measure the server without the gateway, or configure the gateway not to buffer.",
    "Read time_to_first_token and inter_chunk_latency as times of the gateway.",
];

pub(super) const SLOWER_ADVICE: &[&str] =
    &["Compare the servers by `by_url` of profile_export_aiperf.json."];

impl Slower {
    pub(super) fn of(report: &RunReport) -> Option<Self> {
        let (url, mean, fastest) = slowest_url(&report.breakdowns.by_url)?;
        Some(Self { url: url.to_owned(), means_ms: [mean, fastest] })
    }

    pub(super) fn example() -> Self {
        Self { url: "http://localhost:8001".to_owned(), means_ms: [480.0, 240.0] }
    }

    pub(super) fn summary(&self) -> String {
        let Self { url, means_ms: [mean, fastest] } = self;
        let url = printable(url);
        format!("{url} took {mean:.1} ms a request, the fastest server {fastest:.1} ms")
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let Self { url, means_ms: [mean, fastest] } = self;
        vec![format!(
            "The mean request latency of {} is {mean:.1} ms, that of the fastest server {fastest:.1} ms. \
             Statistics of all requests are those of a mixture of both.",
            printable(url)
        )]
    }
}
