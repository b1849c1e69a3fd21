use super::super::exposition::Format;
use super::*;

fn read(body: &str) -> (Snapshot<'_>, Vec<Cow<'_, str>>) {
    let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
    Snapshot::and_dropped(&exposition)
}

/// Formats `kind name{labels} value` for each series, with labels and buckets in their order.
fn lines(snapshot: &Snapshot<'_>) -> Vec<String> {
    let line = |family: &Family<'_>, point: &Point<'_>| {
        let labels: Vec<String> =
            point.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let named = |named: &[(Cow<'_, str>, f64)]| {
            let parts: Vec<String> =
                named.iter().map(|(at, value)| format!("{at}:{value} ")).collect();
            parts.concat()
        };
        let value = match &point.value {
            Value::Number(number) => number.to_string(),
            Value::Histogram { buckets, sum, count } => {
                format!("{}sum {sum} count {count}", named(buckets))
            }
            Value::Summary { quantiles, sum, count } => {
                format!("{}sum {sum:?} count {count:?}", named(quantiles))
            }
        };
        format!("{:?} {}{{{}}} {value}", family.kind, family.name, labels.join(","))
    };
    let families = snapshot.families.iter();
    families.flat_map(|family| family.series.iter().map(move |point| line(family, point))).collect()
}

#[test]
fn only_counters_lose_total() {
    let (snapshot, dropped) = read(
        "# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{e=\"0\"} 7\n\
         # TYPE llamacpp:n_tokens_max counter\nllamacpp:n_tokens_max 9\n\
         # TYPE held_total gauge\nheld_total 2\n\
         loose_total 3\n\
         # TYPE vllm:iteration_tokens_total histogram\n\
         vllm:iteration_tokens_total_bucket{le=\"+Inf\"} 4\n\
         vllm:iteration_tokens_total_sum 40\nvllm:iteration_tokens_total_count 4\n",
    );
    assert_eq!(
        lines(&snapshot),
        [
            "Counter vllm:prompt_tokens{e=0} 7",
            "Counter llamacpp:n_tokens_max{} 9",
            "Gauge held_total{} 2",
            "Unknown loose_total{} 3",
            "Histogram vllm:iteration_tokens_total{} +Inf:4 sum 40 count 4",
        ]
    );
    assert!(dropped.is_empty());
}

#[test]
fn a_histogram_is_whole_in_whatever_order_it_comes() {
    let (snapshot, _) = read(
        "# HELP h How long.\n# TYPE h histogram\n\
         h_count{b=\"2\",a=\"1\"} 5\n\
         h_bucket{le=\"+Inf\",a=\"1\",b=\"2\"} 5\nh_bucket{a=\"1\",le=\"10\",b=\"2\"} 4\n\
         h_bucket{a=\"9\",b=\"2\",le=\"2.0\"} 1\n\
         h_bucket{b=\"2\",a=\"1\",le=\"2.0\"} 3\n\
         h_sum{a=\"9\",b=\"2\"} 1.5\nh_sum{b=\"2\",a=\"1\"} 6.5\nh_count{a=\"9\",b=\"2\"} 2\n",
    );
    assert_eq!(
        lines(&snapshot),
        [
            "Histogram h{a=1,b=2} 2.0:3 10:4 +Inf:5 sum 6.5 count 5",
            "Histogram h{a=9,b=2} 2.0:1 +Inf:2 sum 1.5 count 2",
        ]
    );
    assert_eq!(snapshot.families[0].description.as_deref(), Some("How long."));
}

#[test]
fn what_no_statistic_can_use_is_dropped_and_named_once() {
    let (snapshot, dropped) = read(
        "# TYPE g gauge\ng{a=\"1\"} NaN\ng{a=\"2\"} +Inf\ng{a=\"3\"} 1\n\
         # TYPE h histogram\n\
         h_bucket{k=\"nan\",le=\"1\"} NaN\nh_bucket{k=\"nan\",le=\"+Inf\"} 1\n\
         h_sum{k=\"nan\"} 1\nh_count{k=\"nan\"} 1\n\
         h_bucket{k=\"no count\",le=\"+Inf\"} 3\nh_sum{k=\"no count\"} 2\n\
         h_bucket{k=\"no sum\",le=\"+Inf\"} 3\nh_count{k=\"no sum\"} 3\n\
         h_bucket{k=\"bound\",le=\"far\"} 3\nh_sum{k=\"bound\"} 3\nh_count{k=\"bound\"} 3\n\
         h_sum{k=\"nothing\"} 3\n\
         # TYPE s summary\ns{quantile=\"0.9\"} 2\ns{quantile=\"0.5\"} Nan\ns_sum 3\ns_count 2\n\
         # TYPE start_created gauge\nstart_created 1\n\
         # TYPE jobs_created_total counter\njobs_created_total 4\n\
         # TYPE process_uptime gauge\nprocess_uptime 1\n\
         # TYPE x_uptime_seconds_total counter\nx_uptime_seconds_total 1\n",
    );
    assert_eq!(
        lines(&snapshot),
        [
            "Gauge g{a=3} 1",
            "Histogram h{k=no count} +Inf:3 sum 2 count 3",
            "Summary s{} 0.9:2 sum Some(3.0) count Some(2.0)",
            "Counter jobs_created{} 4",
        ]
    );
    assert_eq!(dropped, ["g", "h"]);
}

#[test]
fn what_is_said_last_counts() {
    let (snapshot, _) = read(
        "# TYPE g gauge\ng{a=\"1\",b=\"\"} 1\ng 5\ng{b=\"\",a=\"1\"} 2\n\
         # TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"1.0\"} 2\nh_bucket{le=\"inf\"} 2\n\
         h_sum 1\nh_sum 2\nh_count 2\n\
         # TYPE c counter\nc 1\n# TYPE c_total counter\nc_total 2\n",
    );
    assert_eq!(
        lines(&snapshot),
        [
            "Gauge g{a=1,b=} 2",
            "Gauge g{} 5",
            "Histogram h{} 1.0:2 +Inf:2 sum 2 count 2",
            "Counter c{} 2",
        ]
    );
}

#[test]
fn kinds_of_open_metrics() {
    let body = "# TYPE build info\nbuild_info{v=\"1\"} 1\n# TYPE old_info gauge\nold_info 1\n\
        # TYPE power stateset\npower{power=\"on\"} 1\npower{power=\"off\"} 0\n\
        # TYPE deep gaugehistogram\ndeep_bucket{le=\"+Inf\"} 1\ndeep_gcount 1\ndeep_gsum 1\n\
        # TYPE t_seconds counter\n# UNIT t_seconds seconds\nt_seconds_total 2\nt_seconds_created 9\n\
        # TYPE odd unknown\nodd{le=\"1\"} 3\n# EOF\n";
    let exposition = Exposition::parse(body.as_bytes(), Format::OpenMetrics).unwrap();
    let snapshot = Snapshot::from_exposition(&exposition);
    assert_eq!(
        lines(&snapshot),
        [
            "Info build_info{v=1} 1",
            "Info old_info{} 1",
            "Gauge power{power=on} 1",
            "Gauge power{power=off} 0",
            "Counter t_seconds{} 2",
            "Unknown odd{le=1} 3",
        ]
    );
    assert_eq!(snapshot.families[3].unit.as_deref(), Some("seconds"));
}
