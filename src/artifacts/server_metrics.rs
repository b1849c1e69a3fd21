//! The server's side of a run in files: JSON, CSV, JSONL and Parquet.

mod jsonl;

pub use jsonl::ScrapeLines;

/// Which files there are of the server's metrics, and how they are laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerMetricsFiles {
    /// `--server-metrics-formats`.
    pub formats: Formats,
    /// `--server-metrics-json-layout`.
    pub json_layout: JsonLayout,
    /// Scrapes between two flushes of the lines
    /// (`AIPERF_SERVER_METRICS_EXPORT_BATCH_SIZE`, 100).
    pub batch_size: usize,
}

/// The formats that are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats {
    /// Statistics as JSON.
    pub json: bool,
    /// Statistics as a table.
    pub csv: bool,
    /// Every scrape, a line each.
    pub jsonl: bool,
    /// Every sample of the profiling phase.
    pub parquet: bool,
}

/// How the JSON export is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum JsonLayout {
    /// Statistics in an object of their own in each series.
    #[default]
    Nested,
    /// Statistics beside the labels of each series: an earlier layout.
    Flat,
}

impl Default for ServerMetricsFiles {
    fn default() -> Self {
        Self {
            formats: Formats { json: true, csv: true, jsonl: false, parquet: true },
            json_layout: JsonLayout::Nested,
            batch_size: 100,
        }
    }
}
