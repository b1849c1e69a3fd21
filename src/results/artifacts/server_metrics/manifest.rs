//! The data that `aiperf report` needs in addition to the scrapes.

use serde::{Deserialize, Serialize};

use base::redact::ShownUrl;
use base::units::Nanos;
use measure::server_metrics::conservation::Comparison;
use measure::server_metrics::report::{ServerMetrics, Windows};
use measure::server_metrics::span::LateCounts;
use measure::server_metrics::store::EndpointStore;

use super::{Formats, JsonLayout, ServerMetricsFiles};

/// The configuration of scraping and of its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::artifacts) struct ServerMetricsSection {
    formats: Formats,
    json_layout: JsonLayout,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    slice_duration_ns: Option<u64>,
    /// URLs without credentials, in the order of the configuration.
    endpoints: Vec<ShownUrl>,
}

/// The outcome of scraping.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(in crate::artifacts) struct ServerMetricsOutcome {
    pub(in crate::artifacts) windows: Windows,
    /// In the order of the configuration.
    pub(in crate::artifacts) endpoints: Vec<EndpointOutcome>,
    #[serde(default)]
    pub(in crate::artifacts) conservation: Vec<Comparison>,
    /// Of all endpoints, in files that do not have it for each.
    #[serde(default, skip_serializing)]
    late_counts: LateCounts,
    /// Time of the last scrape's response, for the endpoint where it was earliest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(in crate::artifacts) last_scrape_ns: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::artifacts) struct EndpointOutcome {
    /// The URL that was scraped at the end.
    pub(in crate::artifacts) url: ShownUrl,
    pub(in crate::artifacts) fetches: u64,
    pub(in crate::artifacts) failed_fetches: u64,
    #[serde(default)]
    late_counts: Option<LateCounts>,
}

impl ServerMetricsSection {
    /// Returns `None` if nothing is scraped.
    pub(in crate::artifacts) fn from_files(files: &ServerMetricsFiles) -> Option<Self> {
        (!files.endpoints.is_empty()).then(|| Self {
            formats: files.formats,
            json_layout: files.json_layout,
            slice_duration_ns: files.slice_duration.map(|duration| duration.0),
            endpoints: files.endpoints.clone(),
        })
    }

    /// Returns the files to be rewritten.
    pub(in crate::artifacts) fn files(&self) -> ServerMetricsFiles {
        ServerMetricsFiles {
            formats: self.formats,
            json_layout: self.json_layout,
            endpoints: self.endpoints.clone(),
            slice_duration: self.slice_duration_ns.filter(|slice| *slice > 0).map(Nanos),
            ..ServerMetricsFiles::default()
        }
    }
}

impl ServerMetricsOutcome {
    /// Returns the outcome of a run that has ended.
    pub(in crate::artifacts) fn from_metrics(metrics: &ServerMetrics) -> Self {
        let endpoints = metrics.store.endpoints().iter().map(|endpoint| EndpointOutcome {
            url: endpoint.url.clone(),
            fetches: endpoint.scrapes().len() as u64,
            failed_fetches: endpoint.failures(),
            late_counts: Some(endpoint.late_counts()),
        });
        let last = |endpoint: &EndpointStore| Some(endpoint.scrapes().last()?.first_byte_ns);
        Self {
            last_scrape_ns: metrics.store.endpoints().iter().filter_map(last).min(),
            windows: metrics.report.summary.windows,
            endpoints: endpoints.collect(),
            conservation: metrics.conservation.clone(),
            late_counts: LateCounts::default(),
        }
    }

    /// Returns, for each endpoint, whose requests it counted after the final scrape of the measurement.
    pub(in crate::artifacts) fn late_counts(&self) -> impl Iterator<Item = LateCounts> {
        self.endpoints.iter().map(|endpoint| endpoint.late_counts.unwrap_or(self.late_counts))
    }
}
