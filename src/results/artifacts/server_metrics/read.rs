//! Converts the lines of scrapes to series.

use base::redact::ShownUrl;
use client::schedule::PhaseKind;
use measure::server_metrics::report::{Window, Windows};
use measure::server_metrics::store::Store;

use super::line::{LineError, ScrapeLine, ScrapeLineReader};

/// The series of lines, which are read one after the other.
#[derive(Debug)]
pub(in crate::artifacts) struct Scrapes {
    reader: ScrapeLineReader,
    pub(in crate::artifacts) store: Store,
    /// Times of the first and the last request for a scrape of each phase.
    pub(in crate::artifacts) marked: Windows,
}

impl Scrapes {
    /// Creates the series of `endpoints`; further ones that lines name are added.
    pub(in crate::artifacts) fn new(endpoints: &[ShownUrl]) -> Self {
        Self {
            reader: ScrapeLineReader::default(),
            store: Store::new(endpoints.iter().cloned()),
            marked: Windows::default(),
        }
    }

    /// Adds the next line.
    pub(in crate::artifacts) fn take(&mut self, text: &[u8]) -> Result<(), LineError> {
        let line = self.reader.read(text)?;
        self.mark(&line);
        let endpoint = self.endpoint(&line.endpoint_url);
        if line.is_duplicate {
            self.store.repeat(endpoint, line.times);
        } else {
            self.store.push(endpoint, line.times, &line.snapshot);
        }
        Ok(())
    }

    /// Returns whether any line declared the type of a metric.
    pub(in crate::artifacts) fn has_types(&self) -> bool {
        self.reader.has_types()
    }

    fn mark(&mut self, line: &ScrapeLine<'_>) {
        let Some(phase) = line.phase else { return };
        let window = match phase.kind {
            PhaseKind::Warmup => &mut self.marked.warmup,
            PhaseKind::Profiling => &mut self.marked.profiling,
        };
        // The final scrape of a phase was requested after its end.
        let at = line.times.request_sent_ns;
        let before = window.unwrap_or(Window { start_ns: at, end_ns: at });
        *window = Some(Window { start_ns: before.start_ns.min(at), end_ns: before.end_ns.max(at) });
    }

    /// Returns the index of the endpoint that was scraped at `url`.
    fn endpoint(&mut self, url: &str) -> usize {
        let url = &ShownUrl::new(url);
        let endpoints = self.store.endpoints();
        if let Some(known) = endpoints.iter().position(|endpoint| endpoint.url == *url) {
            return known;
        }
        let configured = url.strip_suffix("/prometheus/metrics").map(|base| [base, "/metrics"]);
        let moved = configured.and_then(|configured| {
            let configured = configured.concat();
            endpoints.iter().position(|endpoint| *endpoint.configured_url == *configured)
        });
        let Some(moved) = moved else { return self.store.add(url.clone()) };
        self.store.moved(moved, url.clone());
        moved
    }
}
