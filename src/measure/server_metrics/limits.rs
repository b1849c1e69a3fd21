//! Limits by the client's times for histograms of the server: the server's part of a request does not take
//! longer than the request.

use client::server_family::{self, Time, Times};

use super::report::{HistogramStats, ServerMetricsReport, Stats};
use crate::metrics::{Accumulator, tag};

/// The longest times that the client measured, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientLimits {
    requests: u64,
    /// Absent if responses are not streamed.
    first_token: Option<f64>,
    request: f64,
}

impl ClientLimits {
    /// Returns the limits of the requests in `profiling`; `None` if one failed, since the server may
    /// have continued it.
    #[must_use]
    pub fn from_accumulator(profiling: &Accumulator) -> Option<Self> {
        let first_token = profiling.column(tag::TIME_TO_FIRST_TOKEN);
        let first_token = first_token.and_then(|column| column.iter().reduce(f64::max));
        let (requests, longest) = profiling.longest_request()?;
        Some(Self { requests, first_token, request: longest.0 as f64 })
            .filter(|_| profiling.errors().is_empty())
    }

    /// Limits the percentiles of the histograms that observed the client's requests and no others.
    pub fn apply(&self, report: &mut ServerMetricsReport) {
        for (time, most) in
            server_family::ALL.iter().flat_map(|family| self.limits_of(&family.times))
        {
            self.limit(report, time, most / time.unit.0 as f64);
        }
    }

    /// Returns the server's times that a time of the client contains, each with the longest of those.
    fn limits_of(&self, times: &Times) -> impl Iterator<Item = (Time, f64)> {
        let within = times.stages().chain(times.whole).chain(times.further.iter().copied());
        let within = within.map(|time| (time, self.request));
        times.first_token.zip(self.first_token).into_iter().chain(within)
    }

    /// Limits the percentiles of `time` to `most`, in its unit, if it was observed for the client's
    /// requests.
    fn limit(&self, report: &mut ServerMetricsReport, time: Time, most: f64) {
        let named = report.metrics.iter_mut().filter(|metric| *metric.name == *time.metric);
        for metric in named {
            let series = metric.series.iter_mut().filter(|series| time.includes(&series.labels));
            let histograms: Vec<&mut HistogramStats> = series
                .filter_map(|series| match &mut series.stats {
                    Stats::Histogram(histogram) => Some(histogram),
                    _ => None,
                })
                .collect();
            let count: f64 = histograms.iter().map(|histogram| histogram.count).sum();
            let is_doubtful = histograms.iter().any(|histogram| histogram.is_doubtful());
            if count == self.requests as f64 && !is_doubtful {
                for histogram in histograms {
                    histogram.limit(most);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
