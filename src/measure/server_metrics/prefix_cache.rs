//! The hit rate of the prefix cache by the server's own counters.

use client::server_family::{self, PrefixCounters, Role};

use super::report::{ServerMetricsReport, Stats};
use crate::metrics::prefix_cache::ServerCache;

/// Returns what the servers counted in the profiling phase, added up over all series: the engines, or
/// else the front end. `None` if no tokens were looked up.
pub fn counted(report: &ServerMetricsReport) -> Option<ServerCache> {
    let total = |name: &str| {
        let has_name = |found: &str| found.strip_suffix("_total").unwrap_or(found) == name;
        let metrics = report.metrics.iter().filter(|metric| has_name(&metric.name));
        let series = metrics.flat_map(|metric| &metric.series);
        series.filter_map(|series| increase(&series.stats)).sum::<f64>()
    };
    let count = |PrefixCounters { queries, hits }: PrefixCounters| {
        let found: Vec<(&str, f64)> = hits.iter().map(|name| (*name, total(name))).collect();
        let counting =
            found.iter().enumerate().filter(|(nth, (_, tokens))| *nth == 0 || *tokens > 0.0);
        let names: Vec<&str> = counting.map(|(_, (name, _))| *name).collect();
        ServerCache {
            metric: names.join(" + ").into(),
            queried_tokens: queries.iter().map(|name| total(name)).sum(),
            cached_tokens: found.iter().map(|(_, tokens)| tokens).sum(),
        }
    };
    let families = |role| server_family::ALL.iter().filter(move |family| family.role == role);
    let known = families(Role::Engine).chain(families(Role::FrontEnd));
    known.filter_map(|it| it.prefix_cache).map(count).find(|cache| cache.queried_tokens > 0.0)
}

/// Returns by how much a counter increased, or the sum of a histogram's observations.
fn increase(stats: &Stats) -> Option<f64> {
    stats.named("total").or_else(|| stats.named("sum"))
}

#[cfg(test)]
mod tests {
    use client::server_family::SeriesKind;

    use super::*;
    use crate::server_metrics::report::{CounterStats, HistogramStats, MetricReport, SeriesReport};

    fn counter(name: &str, totals: &[f64]) -> MetricReport {
        let stats = |total| Stats::Counter(CounterStats { total, ..CounterStats::default() });
        metric(name, SeriesKind::Counter, totals.iter().map(|total| stats(*total)).collect())
    }

    fn histogram(name: &str, sum: f64) -> MetricReport {
        let stats = Stats::Histogram(HistogramStats { sum, ..HistogramStats::default() });
        metric(name, SeriesKind::Histogram, vec![stats])
    }

    fn metric(name: &str, kind: SeriesKind, stats: Vec<Stats>) -> MetricReport {
        let series = stats.into_iter().map(|stats| SeriesReport {
            endpoint_url: "http://a/metrics".into(),
            labels: [].into(),
            stats,
        });
        MetricReport {
            name: name.into(),
            kind,
            description: "".into(),
            unit: None,
            series: series.collect(),
        }
    }

    fn hits_and_queries(metrics: Vec<MetricReport>) -> Option<(String, f64, f64)> {
        let found = counted(&ServerMetricsReport { metrics, ..Default::default() })?;
        Some((found.metric.to_string(), found.queried_tokens, found.cached_tokens))
    }

    #[test]
    fn all_series_of_an_engine_are_added_up() {
        let queries = || counter("vllm:prefix_cache_queries", &[100.0, 300.0]);
        let hits = || counter("vllm:prefix_cache_hits", &[16.0, 84.0]);
        let found = ("vllm:prefix_cache_hits".to_owned(), 400.0, 100.0);
        assert_eq!(hits_and_queries(vec![queries(), hits()]), Some(found.clone()));
        let other = |tokens| counter("vllm:external_prefix_cache_hits", &[tokens]);
        assert_eq!(hits_and_queries(vec![queries(), hits(), other(0.0)]), Some(found));
        let both = "vllm:prefix_cache_hits + vllm:external_prefix_cache_hits".to_owned();
        assert_eq!(
            hits_and_queries(vec![queries(), hits(), other(60.0)]),
            Some((both, 400.0, 160.0))
        );
        assert_eq!(hits_and_queries(vec![counter("vllm:prefix_cache_queries", &[0.0])]), None);
        assert_eq!(hits_and_queries(Vec::new()), None);
    }

    /// llama.cpp counts computed and cached tokens apart; the others count all tokens of prompts.
    #[test]
    fn other_servers_count_differently() {
        let llama = vec![
            counter("llamacpp:prompt_tokens", &[80.0]),
            counter("llamacpp:prompt_tokens_cached", &[331.0]),
        ];
        let found = ("llamacpp:prompt_tokens_cached".to_owned(), 411.0, 331.0);
        assert_eq!(hits_and_queries(llama), Some(found));
        let sglang = || {
            vec![
                counter("sglang:prompt_tokens", &[4096.0]),
                counter("sglang:cached_tokens", &[3000.0, 168.0]),
            ]
        };
        let found = Some(("sglang:cached_tokens".to_owned(), 4096.0, 3168.0));
        assert_eq!(hits_and_queries(sglang()), found);
        let dynamo = || {
            vec![
                histogram("dynamo_frontend_input_sequence_tokens", 359.0),
                histogram("dynamo_frontend_cached_tokens", 256.0),
            ]
        };
        let of_frontend = ("dynamo_frontend_cached_tokens".to_owned(), 359.0, 256.0);
        assert_eq!(hits_and_queries(dynamo()), Some(of_frontend));
        // The engines behind the front end know better.
        assert_eq!(hits_and_queries(dynamo().into_iter().chain(sglang()).collect()), found);
    }
}
