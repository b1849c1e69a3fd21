//! The results as Prometheus text (exposition format 0.0.4), with the names that AIPerf gives
//! them.
//!
//! A metric with a distribution is a summary `aiperf_<tag>_<unit>`, and gauges
//! `aiperf_<tag>_<statistic>_<unit>`; any other is the gauge of its `avg`.

use std::fmt::Write;

use base::units::Unit;
use measure::metrics::metric::{MetricResult, Statistic};

/// The statistics that are quantiles of a summary.
const QUANTILES: &[(&str, &str)] = &[
    ("p1", "0.01"),
    ("p5", "0.05"),
    ("p10", "0.1"),
    ("p25", "0.25"),
    ("p50", "0.5"),
    ("p75", "0.75"),
    ("p90", "0.9"),
    ("p95", "0.95"),
    ("p99", "0.99"),
];

/// The statistics that are gauges, and their names in descriptions.
const GAUGES: &[(&str, &str)] =
    &[("avg", "mean"), ("min", "minimum"), ("max", "maximum"), ("std", "standard deviation")];

/// Returns the text of `results`, whose samples have `labels`, and of `aiperf_info`.
pub(super) fn exposition(labels: &[(&str, String)], results: &[MetricResult]) -> String {
    let mut text = String::new();
    let version = [("version", env!("CARGO_PKG_VERSION").to_owned())];
    let info: Vec<_> = labels.iter().cloned().chain(version).collect();
    head(&mut text, "aiperf_info", "gauge", "The run and the program");
    sample(&mut text, "aiperf_info", &info, 1.0);
    for result in results {
        metric(&mut text, labels, result);
    }
    text
}

fn metric(text: &mut String, labels: &[(&str, String)], result: &MetricResult) {
    let (tag, unit) = (result.metric.tag.name(), suffix(result.metric.display_unit));
    let header = format!("{} ({})", result.metric.header, result.metric.display_unit.label());
    let value = |name: &str| {
        Statistic::named(name)?.value_in(&result.stats).filter(|value| value.is_finite())
    };
    let quantiles = QUANTILES.iter().filter_map(|(name, at)| Some((*at, value(name)?)));
    let quantiles: Vec<_> = quantiles.collect();
    if !quantiles.is_empty() {
        let name = format!("aiperf_{tag}_{unit}");
        head(text, &name, "summary", &header);
        for (at, value) in quantiles {
            let quantile = [("quantile", at.to_owned())];
            let labels: Vec<_> = labels.iter().cloned().chain(quantile).collect();
            sample(text, &name, &labels, value);
        }
        for part in ["sum", "count"] {
            if let Some(value) = value(part) {
                sample(text, &format!("{name}_{part}"), labels, value);
            }
        }
    }
    for &(statistic, what) in GAUGES {
        if let Some(value) = value(statistic) {
            let name = format!("aiperf_{tag}_{statistic}_{unit}");
            head(text, &name, "gauge", &format!("{header}: {what}"));
            sample(text, &name, labels, value);
        }
    }
}

/// Writes the declaration of a family.
fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let help = help.replace('\\', r"\\").replace('\n', r"\n");
    // Writing to a string does not fail.
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

/// Writes a sample.
fn sample(text: &mut String, name: &str, labels: &[(&str, String)], value: f64) {
    text.push_str(name);
    for (at, (label, value)) in labels.iter().enumerate() {
        let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
        let _ = write!(text, "{}{label}=\"{value}\"", if at == 0 { '{' } else { ',' });
    }
    if !labels.is_empty() {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

/// Returns a unit as the end of a name: `tokens/sec/user` is `tps_per_user`.
fn suffix(unit: Unit) -> String {
    let label = unit.label().replace('%', "percent").replace('/', "_per_");
    let label = label.replace("tokens_per_sec", "tps").to_lowercase();
    label.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

#[cfg(test)]
mod tests {
    use measure::metrics::Registry;
    use measure::metrics::metric::{Distribution, Stats};

    use super::*;

    fn result(tag: &str, avg: f64, distribution: Option<Distribution>) -> MetricResult {
        let metric = Registry::find(tag).unwrap();
        MetricResult { metric, stats: Stats { avg, instant: None, distribution } }
    }

    #[test]
    fn a_distribution_is_a_summary_with_gauges_and_a_single_value_is_a_gauge() {
        let latencies = Distribution {
            count: 2,
            sum: 30.0,
            min: 10.0,
            max: 20.0,
            p50: 15.0,
            ..Distribution::UNKNOWN
        };
        let results = [
            result("request_latency", 15.0, Some(latencies)),
            result("output_token_throughput", 2.5, None),
        ];
        let labels = [("model", "a \"b\"\\\n".to_owned())];
        let label = r#"model="a \"b\"\\\n""#;
        let expected = format!(
            r#"# HELP aiperf_info The run and the program
# TYPE aiperf_info gauge
aiperf_info{{{label},version="{}"}} 1
# HELP aiperf_request_latency_ms Request Latency (ms)
# TYPE aiperf_request_latency_ms summary
aiperf_request_latency_ms{{{label},quantile="0.5"}} 15
aiperf_request_latency_ms_sum{{{label}}} 30
aiperf_request_latency_ms_count{{{label}}} 2
# HELP aiperf_request_latency_avg_ms Request Latency (ms): mean
# TYPE aiperf_request_latency_avg_ms gauge
aiperf_request_latency_avg_ms{{{label}}} 15
# HELP aiperf_request_latency_min_ms Request Latency (ms): minimum
# TYPE aiperf_request_latency_min_ms gauge
aiperf_request_latency_min_ms{{{label}}} 10
# HELP aiperf_request_latency_max_ms Request Latency (ms): maximum
# TYPE aiperf_request_latency_max_ms gauge
aiperf_request_latency_max_ms{{{label}}} 20
# HELP aiperf_output_token_throughput_avg_tps Output Token Throughput (tokens/sec): mean
# TYPE aiperf_output_token_throughput_avg_tps gauge
aiperf_output_token_throughput_avg_tps{{{label}}} 2.5
"#,
            env!("CARGO_PKG_VERSION")
        );
        assert_eq!(exposition(&labels, &results), expected);
    }

    #[test]
    fn units_are_parts_of_names() {
        let units = [
            (Unit::TokensPerSecondPerUser, "tps_per_user"),
            (Unit::Percent, "percent"),
            (Unit::RequestsPerSecond, "requests_per_sec"),
            (Unit::GoodRequestsPerSecondPerWatt, "good_req_per_s_per_w"),
        ];
        for (unit, expected) in units {
            assert_eq!(suffix(unit), expected);
        }
    }
}
