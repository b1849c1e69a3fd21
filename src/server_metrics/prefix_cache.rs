//! What the server's own counters say of its prefix cache.

use std::sync::Arc;

use super::report::ServerMetricsReport;
use crate::metrics::prefix_cache::ServerCache;
use crate::server_family::{self, PrefixCounters};

/// Returns the counters of the servers in the profiling phase, added up over all series; `None` if no
/// tokens were looked up.
pub(crate) fn counted(report: &ServerMetricsReport) -> Option<ServerCache> {
    let total = |name: &str| {
        let is_it = |found: &str| found.strip_suffix("_total").unwrap_or(found) == name;
        let metrics = report.metrics.iter().filter(|metric| is_it(&metric.name));
        let series = metrics.flat_map(|metric| &metric.series);
        series.filter_map(|series| series.stats.named("total")).sum::<f64>()
    };
    let known = server_family::ALL.iter().filter_map(|family| family.prefix_cache);
    let mut counted = known.map(|PrefixCounters { queries, hits }| ServerCache {
        metric: Arc::from(hits),
        queried_tokens: total(queries),
        cached_tokens: total(hits),
    });
    counted.find(|cache| cache.queried_tokens > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server_family::Kind;
    use crate::server_metrics::report::{CounterStats, MetricReport, SeriesReport, Stats};

    fn counter(name: &str, totals: &[f64]) -> MetricReport {
        let series = totals.iter().map(|total| SeriesReport {
            endpoint_url: "http://a/metrics".into(),
            labels: [].into(),
            stats: Stats::Counter(CounterStats { total: *total, ..CounterStats::default() }),
        });
        MetricReport {
            name: name.into(),
            kind: Kind::Counter,
            description: "".into(),
            unit: None,
            series: series.collect(),
        }
    }

    #[test]
    fn vllms_counters_are_added_up() {
        let of = |metrics| counted(&ServerMetricsReport { metrics, ..Default::default() });
        let queries = counter("vllm:prefix_cache_queries", &[100.0, 300.0]);
        let found = of(vec![queries, counter("vllm:prefix_cache_hits", &[16.0, 84.0])]).unwrap();
        assert_eq!((&*found.metric, found.ratio()), ("vllm:prefix_cache_hits", Some(0.25)));
        assert_eq!(of(vec![counter("vllm:prefix_cache_queries", &[0.0])]), None);
        assert_eq!(of(Vec::new()), None);
    }
}
