//! Server metrics: the Prometheus expositions of the servers during a run.
//!
//! An [endpoint](Endpoint) is scraped; the body is parsed to an
//! [`Exposition`](exposition::Exposition), which is converted to a
//! [`Snapshot`](snapshot::Snapshot), the form that files and statistics share. The
//! [`Store`](store::Store) keeps the snapshots as series, and the [report] summarizes them by
//! phase. What the metrics of known servers mean is declared in `server_family`; `watch`,
//! `conservation`, `limits`, `prefix_cache`, `speculation` and `time_breakdown` read these declarations.

pub mod collector;
pub mod conservation;
pub mod exposition;
mod fetch;
pub mod histogram_estimate;
pub mod limits;
pub mod prefix_cache;
pub mod report;
pub mod scrape;
pub mod snapshot;
pub mod span;
pub mod speculation;
pub mod statistics;
pub mod store;
#[cfg(test)]
mod tests;
pub mod time_breakdown;
pub mod unit;
pub mod watch;

pub use collector::{Collected, Collector, Config, EndpointConfig, Limits, LocalExporter, Source};
pub use scrape::{Endpoint, FetchTimes, PhaseMark, Scrape, ScrapeSink};
