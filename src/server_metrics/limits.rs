//! What the client knows about histograms of the server: the server's part of a request does not take
//! longer than the request.

use super::report::{HistogramStats, ServerMetricsReport, Stats};
use crate::metrics::{Accumulator, tag};
use crate::units::Nanos;

/// The longest times that the client measured, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ClientLimits {
    requests: u64,
    /// Absent if responses are not streamed.
    first_token: Option<f64>,
    request: f64,
}

/// A time of the client's that contains one of the server's.
#[derive(Debug, Clone, Copy)]
enum Containing {
    FirstToken,
    Request,
}

/// Histograms with one observation for each request, of a time within it.
const CONTAINED: [(&str, Containing); 14] = [
    ("vllm:time_to_first_token_seconds", Containing::FirstToken),
    ("vllm:e2e_request_latency_seconds", Containing::Request),
    ("vllm:request_queue_time_seconds", Containing::Request),
    ("vllm:request_prefill_time_seconds", Containing::Request),
    ("vllm:request_decode_time_seconds", Containing::Request),
    ("vllm:request_inference_time_seconds", Containing::Request),
    ("dynamo_frontend_time_to_first_token_seconds", Containing::FirstToken),
    ("dynamo_frontend_request_duration_seconds", Containing::Request),
    ("sglang:time_to_first_token_seconds", Containing::FirstToken),
    ("sglang:e2e_request_latency_seconds", Containing::Request),
    ("trtllm_time_to_first_token_seconds", Containing::FirstToken),
    ("trtllm_e2e_request_latency_seconds", Containing::Request),
    ("trtllm_request_queue_time_seconds", Containing::Request),
    ("tgi_request_duration", Containing::Request),
];

impl ClientLimits {
    /// Returns the limits of the requests in `profiling`; `None` if one failed, since the server may
    /// have continued it.
    #[must_use]
    pub(crate) fn of(profiling: &Accumulator) -> Option<Self> {
        let first_token = profiling.column(tag::TIME_TO_FIRST_TOKEN);
        let first_token = first_token.and_then(|column| column.iter().reduce(f64::max));
        let (requests, longest) = profiling.longest_request()?;
        Some(Self {
            requests,
            first_token: first_token.map(|nanos| nanos / 1e9),
            request: Nanos::as_seconds(longest),
        })
        .filter(|_| profiling.errors().is_empty())
    }

    const fn of_time(&self, containing: Containing) -> Option<f64> {
        match containing {
            Containing::FirstToken => self.first_token,
            Containing::Request => Some(self.request),
        }
    }

    /// Limits the percentiles of the histograms that observed the client's requests and no others.
    pub(crate) fn apply(&self, report: &mut ServerMetricsReport) {
        for metric in &mut report.metrics {
            let containing = CONTAINED.iter().find(|(name, _)| **name == *metric.name);
            let Some(most) = containing.and_then(|(_, time)| self.of_time(*time)) else { continue };
            let histograms = || {
                metric.series.iter().filter_map(|series| match &series.stats {
                    Stats::Histogram(histogram) => Some(histogram),
                    _ => None,
                })
            };
            let count: f64 = histograms().map(|histogram| histogram.count).sum();
            if count != self.requests as f64 || histograms().any(HistogramStats::is_doubtful) {
                continue;
            }
            for series in &mut metric.series {
                if let Stats::Histogram(histogram) = &mut series.stats {
                    histogram.limit(most);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::redact::ShownUrl;
    use crate::server_metrics::report::{Doubts, MetricReport, SeriesReport};
    use crate::server_metrics::snapshot::Kind;

    fn report(name: &str, stats: HistogramStats) -> ServerMetricsReport {
        let series = SeriesReport {
            endpoint_url: ShownUrl::new("http://a/metrics"),
            labels: Arc::default(),
            stats: Stats::Histogram(stats),
        };
        let metric = MetricReport {
            name: name.into(),
            kind: Kind::Histogram,
            description: "".into(),
            unit: None,
            series: vec![series],
        };
        ServerMetricsReport { metrics: vec![metric], ..ServerMetricsReport::default() }
    }

    /// 200 observations, of which the last one is estimated at 0.609 s.
    fn first_tokens() -> HistogramStats {
        let buckets = [("0.5", 190.0), ("0.75", 200.0), ("+Inf", 200.0)];
        HistogramStats {
            count: 200.0,
            percentiles: Some([0.1, 0.1, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.609]),
            buckets: Some(buckets.map(|(bound, count)| (bound.into(), count)).to_vec()),
            ..HistogramStats::default()
        }
    }

    fn limited(name: &str, stats: HistogramStats) -> HistogramStats {
        let limits = ClientLimits { requests: 200, first_token: Some(0.56), request: 2.0 };
        let mut report = report(name, stats);
        limits.apply(&mut report);
        match report.metrics.remove(0).series.remove(0).stats {
            Stats::Histogram(histogram) => histogram,
            _ => HistogramStats::default(),
        }
    }

    #[test]
    fn no_estimate_is_beyond_what_the_client_measured() {
        let name = "vllm:time_to_first_token_seconds";
        let found = limited(name, first_tokens());
        let percentiles = found.percentiles.unwrap();
        assert_eq!((percentiles[7], percentiles[8]), (0.5, 0.56));
        // The 198th and 199th value are in the bucket from 0.5 to 0.75 s.
        assert_eq!(found.percentile_bounds().unwrap()[8], (0.5, Some(0.56)));
        assert_eq!(first_tokens().percentile_bounds().unwrap()[8], (0.5, Some(0.75)));
        assert_eq!(first_tokens().percentile_bounds().unwrap()[0], (0.0, Some(0.5)));
    }

    #[test]
    fn other_requests_and_other_times_are_not_limited() {
        let name = "vllm:time_to_first_token_seconds";
        let unchanged = |name: &str, stats: HistogramStats| {
            assert_eq!(limited(name, stats.clone()), stats, "{name}");
        };
        unchanged("vllm:inter_token_latency_seconds", first_tokens());
        unchanged("vllm:e2e_request_latency_seconds", {
            HistogramStats { count: 201.0, ..first_tokens() }
        });
        let doubts = Doubts { has_inexact_start: true, ..Doubts::default() };
        unchanged(name, HistogramStats { doubts, ..first_tokens() });
        // The server's own counts contradict the client's time.
        let buckets = Some(vec![("1".into(), 0.0), ("2".into(), 200.0), ("+Inf".into(), 200.0)]);
        unchanged(name, HistogramStats { buckets, ..first_tokens() });
    }

    #[test]
    fn above_the_last_bound_only_the_client_knows() {
        let buckets = Some(vec![("0.1".into(), 100.0), ("+Inf".into(), 200.0)]);
        let stats = HistogramStats { buckets, ..first_tokens() };
        assert_eq!(stats.percentile_bounds().unwrap()[8], (0.1, None));
        let found = limited("vllm:e2e_request_latency_seconds", stats);
        assert_eq!(found.percentile_bounds().unwrap()[8], (0.1, Some(2.0)));
        // The median is between the last value of one bucket and the first of the other.
        assert_eq!(found.percentile_bounds().unwrap()[4], (0.05, Some(1.05)));
    }
}
