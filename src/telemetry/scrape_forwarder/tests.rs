use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, SummaryDataPoint,
};
use proptest::prelude::*;
use prost::Message as _;
use uuid::Uuid;

use base::semconv::InstrumentKind;
use client::endpoint::EndpointType;
use measure::server_metrics::exposition::{Exposition, Format};

use super::pack::Request;
use super::queue::requests;
use super::unit::unit_of;
use super::*;

/// The time at which all bodies in these tests were scraped.
const TIME: u64 = 1_800_000_000_000_000_000;

fn run() -> Run {
    let identity = Identity {
        benchmark_id: Uuid::from_u128(7),
        sweep_id: None,
        shard: None,
        endpoint_type: EndpointType::CHAT,
        models: Vec::new(),
        urls: Vec::new(),
        phases: Vec::new(),
        tenants: Vec::new(),
        info: crate::RunSettings::default(),
        clock: base::units::Clock::start(),
    };
    Run::new(&Config::default(), &identity)
}

/// Returns the metrics that a collector decodes from a body, and the number of series that cannot
/// be represented.
fn converted(body: &str, format: Format) -> (ResourceMetrics, u64) {
    let exposition = Exposition::parse(body.as_bytes(), format).unwrap_or_else(|e| panic!("{e}"));
    let labels = convert::target_labels(&exposition);
    let resource = run().resource(SERVER, "http://10.0.0.1:8000/metrics", labels);
    let mut packer = Packer::new(&resource, scope(), MAX_REQUEST_BYTES);
    let inexpressible = convert::convert(&exposition, TIME, MetricSet::Full, None, &mut packer);
    let (requests, oversized) = packer.finish();
    let body = requests.first().map(|request| request.body.clone()).unwrap_or_default();
    let message = ExportMetricsServiceRequest::decode(body).unwrap_or_else(|e| panic!("{e}"));
    let resource = message.resource_metrics.into_iter().next().unwrap_or_default();
    (resource, inexpressible + oversized)
}

fn metrics(resource: &ResourceMetrics) -> Vec<&Metric> {
    resource.scope_metrics.iter().flat_map(|scope| &scope.metrics).collect()
}

/// Returns the only metric of an OpenMetrics body that lacks its end.
fn only(body: &str) -> Metric {
    let (resource, inexpressible) = converted(&format!("{body}# EOF\n"), Format::OpenMetrics);
    assert_eq!(inexpressible, 0);
    let metrics = metrics(&resource);
    assert_eq!(metrics.len(), 1, "{metrics:?}");
    metrics[0].clone()
}

fn numbers(metric: &Metric) -> &[NumberDataPoint] {
    match &metric.data {
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        Some(Data::Sum(sum)) => &sum.data_points,
        other => panic!("{other:?}"),
    }
}

fn histogram(metric: &Metric) -> &HistogramDataPoint {
    match &metric.data {
        Some(Data::Histogram(histogram)) => &histogram.data_points[0],
        other => panic!("{other:?}"),
    }
}

fn summary(metric: &Metric) -> &SummaryDataPoint {
    match &metric.data {
        Some(Data::Summary(summary)) => &summary.data_points[0],
        other => panic!("{other:?}"),
    }
}

fn value(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(Number::AsDouble(value)) => value,
        other => panic!("{other:?}"),
    }
}

fn pairs(attributes: &[KeyValue]) -> Vec<(&str, String)> {
    let text = |value: &KeyValue| match value.value.as_ref().and_then(|of| of.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.as_str(), text(pair))).collect()
}

#[test]
fn units_are_those_of_opentelemetry() {
    let table = [
        ("seconds", "s"),
        ("milliseconds", "ms"),
        ("bytes", "By"),
        ("ratio", "1"),
        ("bytes_per_second", "By/s"),
        ("tokens_per_minute", "tokens/min"),
        ("tokens", "tokens"),
    ];
    for (prometheus, opentelemetry) in table {
        assert_eq!(unit_of("name", prometheus, InstrumentKind::Gauge), opentelemetry);
    }
}

#[test]
fn a_counter_of_openmetrics_keeps_the_name_of_its_samples() {
    let metric = only(
        "# TYPE vllm:spent_seconds counter\n# UNIT vllm:spent_seconds seconds\n\
         # HELP vllm:spent_seconds Time \"spent\".\n\
         vllm:spent_seconds_total{b=\"2\",a=\"1\"} 3.5 1799999999.25\n\
         vllm:spent_seconds_created{a=\"1\",b=\"2\"} 1799999000.5\n",
    );
    assert_eq!(metric.name, "vllm:spent_seconds_total");
    assert_eq!((metric.unit.as_str(), metric.description.as_str()), ("s", "Time \"spent\"."));
    assert_eq!(pairs(&metric.metadata), [("prometheus.type", "counter".to_owned())]);
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
    assert!(sum.is_monotonic);
    // Cumulative.
    assert_eq!(sum.aggregation_temporality, 2);
    let [point] = sum.data_points.as_slice() else { panic!("{sum:?}") };
    assert_eq!(value(point), 3.5);
    assert_eq!(pairs(&point.attributes), [("b", "2".to_owned()), ("a", "1".to_owned())]);
    assert_eq!(point.time_unix_nano, 1_799_999_999_250_000_000);
    assert_eq!(point.start_time_unix_nano, 1_799_999_000_500_000_000);
}

#[test]
fn the_time_is_the_scrapes_and_the_start_is_unknown_where_nothing_else_is_said() {
    let metric = only("# TYPE a counter\na_total 1\n");
    let point = &numbers(&metric)[0];
    assert_eq!((point.time_unix_nano, point.start_time_unix_nano), (TIME, 0));
}

#[test]
fn a_gauge_beside_a_counter_says_when_that_began_and_goes_out_too() {
    let (resource, _) = converted(
        "# TYPE a_total counter\na_total{x=\"1\"} 5\na_total{x=\"2\"} 6\n\
         # TYPE a_created gauge\na_created{x=\"2\"} 1.7999e9\n\
         # TYPE jobs_total counter\njobs_total 5\n# TYPE jobs_created gauge\njobs_created 8\n",
        Format::Text,
    );
    let metrics = metrics(&resource);
    let names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["a_total", "a_created", "jobs_total", "jobs_created"]);
    let starts = |metric| -> Vec<u64> {
        numbers(metric).iter().map(|point| point.start_time_unix_nano).collect()
    };
    assert_eq!(starts(metrics[0]), [0, 1_799_900_000_000_000_000]);
    // Eight jobs, not eight seconds after 1970.
    assert_eq!(starts(metrics[2]), [0]);
}

#[test]
fn gauges_and_unknowns_are_gauges_whatever_their_value() {
    for (declared, said) in [("# TYPE a gauge\n", "gauge"), ("", "unknown")] {
        let metric = only(&format!("{declared}a{{x=\"1\"}} NaN\na{{x=\"2\"}} -Inf\n"));
        assert!(matches!(metric.data, Some(Data::Gauge(_))), "{metric:?}");
        assert_eq!(pairs(&metric.metadata), [("prometheus.type", said.to_owned())]);
        let [first, second] = numbers(&metric) else { panic!("{metric:?}") };
        assert!(value(first).is_nan() && first.flags == 0);
        assert_eq!(value(second), f64::NEG_INFINITY);
    }
}

#[test]
fn infos_and_state_sets_are_sums_that_may_fall() {
    let info = only("# TYPE build info\nbuild_info{version=\"1\"} 1\n");
    let states = only("# TYPE mode stateset\nmode{mode=\"a\"} 1\nmode{mode=\"b\"} 0\n");
    for (metric, name, points) in [(info, "build_info", 1), (states, "mode", 2)] {
        assert_eq!(metric.name, name);
        let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
        assert!(!sum.is_monotonic);
        assert_eq!(sum.data_points.len(), points);
    }
}

#[test]
fn buckets_are_made_exclusive_and_bear_exemplars() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let metric = only(&format!(
        "# TYPE a histogram\n\
         a_bucket{{le=\"0.1\",x=\"1\"}} 2 # {{trace_id=\"{trace}\",span_id=\"b7ad6b7169203331\",\
         user=\"u\"}} 0.07 1799999999.5\n\
         a_bucket{{x=\"1\",le=\"+Inf\"}} 9 # {{trace_id=\"short\"}} 3\n\
         a_bucket{{le=\"1\",x=\"1\"}} 5\n\
         a_count{{x=\"1\"}} 9\na_sum{{x=\"1\"}} 4.5\na_created{{x=\"1\"}} 1799999000\n"
    ));
    let point = histogram(&metric);
    assert_eq!(point.explicit_bounds, [0.1, 1.0]);
    assert_eq!(point.bucket_counts, [2, 3, 4]);
    assert_eq!((point.count, point.sum), (9, Some(4.5)));
    assert_eq!(point.start_time_unix_nano, 1_799_999_000_000_000_000);
    assert_eq!(pairs(&point.attributes), [("x", "1".to_owned())]);
    let [full, bare] = point.exemplars.as_slice() else { panic!("{point:?}") };
    assert_eq!(full.trace_id[..3], [0x0a, 0xf7, 0x65]);
    assert_eq!(full.span_id, [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]);
    assert_eq!(pairs(&full.filtered_attributes), [("user", "u".to_owned())]);
    assert_eq!(full.time_unix_nano, 1_799_999_999_500_000_000);
    // A value that is not an identifier is an attribute like any other.
    assert_eq!(pairs(&bare.filtered_attributes), [("trace_id", "short".to_owned())]);
    assert_eq!((bare.trace_id.len(), bare.time_unix_nano), (0, 0));
}

#[test]
fn counters_bear_exemplars() {
    let metric = only("# TYPE a counter\na_total 3 # {user=\"u\"} 1.5\n");
    let [exemplar] = numbers(&metric)[0].exemplars.as_slice() else { panic!("{metric:?}") };
    assert_eq!(pairs(&exemplar.filtered_attributes), [("user", "u".to_owned())]);
}

#[test]
fn histograms_that_otlp_cannot_express_are_left_out_and_counted() {
    let broken = [
        (
            "falling",
            "a_bucket{le=\"1\"} 5\na_bucket{le=\"2\"} 4\na_bucket{le=\"+Inf\"} 5\na_count 5\n",
        ),
        ("more than the count", "a_bucket{le=\"1\"} 5\na_count 4\n"),
        ("another count", "a_bucket{le=\"1\"} 5\na_bucket{le=\"+Inf\"} 6\na_count 7\n"),
        ("no count", "a_bucket{le=\"1\"} 5\na_bucket{le=\"+Inf\"} 6\na_sum 3\n"),
        ("twice", "a_bucket{le=\"1\"} 5\na_bucket{le=\"1.0\"} 5\na_count 6\n"),
        ("no bound", "a_bucket 5\na_count 6\n"),
        ("a fraction", "a_bucket{le=\"1\"} 0.5\na_count 6\n"),
        ("no number", "a_bucket{le=\"1\"} NaN\na_count 6\n"),
        ("negative", "a_bucket{le=\"1\"} -1\na_count 6\n"),
    ];
    for (what, lines) in broken {
        let whole = "a_bucket{x=\"1\",le=\"+Inf\"} 1\na_count{x=\"1\"} 1\na_sum{x=\"1\"} 1\n";
        let body = format!("# TYPE a histogram\n{lines}{whole}");
        let (resource, inexpressible) = converted(&body, Format::Text);
        assert_eq!(inexpressible, 1, "{what}");
        let metrics = metrics(&resource);
        assert_eq!(pairs(&histogram(metrics[0]).attributes).len(), 1, "{what}");
    }
    let body = "# TYPE a gaugehistogram\na_bucket{le=\"+Inf\"} 3\na_gcount 3\na_gsum 2\n# EOF\n";
    let (resource, inexpressible) = converted(body, Format::OpenMetrics);
    assert_eq!((metrics(&resource).len(), inexpressible), (0, 1));
}

#[test]
fn a_histogram_may_lack_its_sum_or_its_last_bucket() {
    let metric = only("# TYPE a histogram\na_bucket{le=\"1\"} 5\na_count 8\n");
    let point = histogram(&metric);
    assert_eq!((point.sum, point.count), (None, 8));
    assert_eq!(point.bucket_counts, [5, 3]);
}

#[test]
fn a_summary_may_lack_quantiles_but_not_its_count() {
    let metric = only("# TYPE a summary\na_count 8\na_sum 2.5\n");
    let point = summary(&metric);
    assert_eq!((point.count, point.sum, point.quantile_values.len()), (8, 2.5, 0));

    let metric =
        only("# TYPE a summary\na{quantile=\"0.9\"} NaN\na{quantile=\"0.5\"} 2\na_count 0\n");
    let point = summary(&metric);
    let quantiles: Vec<_> = point.quantile_values.iter().map(|at| at.quantile).collect();
    assert_eq!((quantiles, point.sum), (vec![0.5, 0.9], 0.0));
    assert!(point.quantile_values[1].value.is_nan());

    let (_, inexpressible) = converted("# TYPE a summary\na_sum 2\n", Format::Text);
    assert_eq!(inexpressible, 1);
}

#[test]
fn lines_of_one_histogram_need_not_stand_together() {
    let (resource, inexpressible) = converted(
        "# TYPE a histogram\n\
         a_bucket{x=\"1\",y=\"1\",le=\"+Inf\"} 1\na_bucket{x=\"2\",y=\"1\",le=\"+Inf\"} 2\n\
         b 1\n\
         a_count{y=\"1\",x=\"1\"} 1\na_count{y=\"1\",x=\"2\"} 2\n",
        Format::Text,
    );
    assert_eq!(inexpressible, 0);
    let metrics = metrics(&resource);
    let Some(Data::Histogram(histogram)) = &metrics[0].data else { panic!("{metrics:?}") };
    let counts: Vec<_> = histogram.data_points.iter().map(|point| point.count).collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn what_the_server_says_of_itself_is_on_the_resource() {
    let (resource, _) = converted(
        "# TYPE target info\ntarget_info{zone=\"b\",url.scheme=\"ftp\"} 1\na 1\n# EOF\n"
            .replace("url.scheme", "\"url.scheme\"")
            .as_str(),
        Format::OpenMetrics,
    );
    let names: Vec<_> = metrics(&resource).iter().map(|metric| metric.name.clone()).collect();
    assert_eq!(names, ["a"]);
    let attributes = &resource.resource.as_ref().map(|of| of.attributes.clone());
    let attributes = pairs(attributes.as_deref().unwrap_or_default());
    let expected = [
        ("zone", "b"),
        ("aiperf.benchmark.id", "00000000-0000-0000-0000-000000000007"),
        ("service.name", "inference-server"),
        ("service.instance.id", "10.0.0.1:8000"),
        ("server.address", "10.0.0.1"),
        ("server.port", "8000"),
        ("url.scheme", "http"),
    ];
    assert_eq!(attributes, expected.map(|(key, value)| (key, value.to_owned())));
    assert_eq!(resource.schema_url, base::semconv::SCHEMA_URL);
}

#[test]
fn addresses_of_all_kinds_tell_servers_apart() {
    let table = [
        ("https://llm.example/metrics", "llm.example:443", "llm.example", "443"),
        ("http://[::1]:8000/metrics", "[::1]:8000", "::1", "8000"),
        ("http://LLM:80/metrics", "llm:80", "llm", "80"),
    ];
    for (url, instance, address, port) in table {
        let resource = run().resource(SERVER, url, &[]).resource.unwrap_or_default();
        let attributes = pairs(&resource.attributes);
        for pair in
            [("service.instance.id", instance), ("server.address", address), ("server.port", port)]
        {
            assert!(attributes.contains(&(pair.0, pair.1.to_owned())), "{url}: {attributes:?}");
        }
    }
}

#[test]
fn labels_of_the_scope_are_not_attributes() {
    let (resource, _) = converted(
        "a{otel_scope_name=\"lib\",otel_scope_version=\"2\",otel_scope_animal=\"bear\",x=\"1\"} 1\n\
         a{x=\"1\"} 2\n\
         # TYPE otel_scope_info gauge\notel_scope_info{otel_scope_name=\"lib\"} 1\n",
        Format::Text,
    );
    let [ours, theirs] = resource.scope_metrics.as_slice() else { panic!("{resource:?}") };
    let named = |scope: &opentelemetry_proto::tonic::metrics::v1::ScopeMetrics| {
        scope.scope.clone().unwrap_or_default()
    };
    assert_eq!(named(ours).name, "aiperf");
    assert_eq!((named(theirs).name, named(theirs).version), ("lib".into(), "2".into()));
    assert_eq!(pairs(&named(theirs).attributes), [("animal", "bear".to_owned())]);
    for (scope, expected) in [(ours, 2.0), (theirs, 1.0)] {
        let [metric] = scope.metrics.as_slice() else { panic!("{scope:?}") };
        assert_eq!(value(&numbers(metric)[0]), expected);
        assert_eq!(pairs(&numbers(metric)[0].attributes), [("x", "1".to_owned())]);
    }
}

/// Packs gauges with these numbers of points into requests of `most_bytes`; returns the points of
/// each request by metric.
fn packed(metrics: &[usize], most_bytes: usize) -> (Vec<Vec<(String, usize)>>, u64) {
    use opentelemetry_proto::tonic::metrics::v1::Gauge;
    let resource = run().resource(SERVER, "http://a:1/metrics", &[]);
    let mut packer = Packer::new(&resource, scope(), most_bytes);
    for (number, points) in metrics.iter().enumerate() {
        let point = |n: usize| NumberDataPoint {
            attributes: vec![point::text("n", &n.to_string())],
            ..NumberDataPoint::default()
        };
        let data_points = (0..*points).map(point).collect();
        let data = Some(Data::Gauge(Gauge { data_points }));
        packer.push(0, Metric { name: number.to_string(), data, ..Metric::default() });
    }
    let (requests, oversized) = packer.finish();
    let contents = requests.iter().map(|request| {
        assert!(request.body.len() <= most_bytes, "{} > {most_bytes}", request.body.len());
        let message = ExportMetricsServiceRequest::decode(request.body.clone())
            .unwrap_or_else(|e| panic!("{e}"));
        let [of] = message.resource_metrics.as_slice() else { panic!("{message:?}") };
        assert_eq!(of.resource, resource.resource);
        let counts: Vec<_> = self::metrics(of)
            .iter()
            .map(|metric| (metric.name.clone(), numbers(metric).len()))
            .collect();
        let total: usize = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(request.points, total as u64);
        counts
    });
    (contents.collect(), oversized)
}

#[test]
fn a_point_that_no_request_holds_is_counted() {
    let (requests, oversized) = packed(&[3], 64);
    assert_eq!((requests.len(), oversized), (0, 3));
}

proptest! {
    /// For any sizes, every point is in exactly one request, and no request is too large.
    #[test]
    fn packing_loses_nothing(
        metrics in proptest::collection::vec(1usize..200, 1..20),
        most_bytes in 600usize..8_000,
    ) {
        let (requests, oversized) = packed(&metrics, most_bytes);
        prop_assert_eq!(oversized, 0);
        let mut found = vec![0; metrics.len()];
        for (name, count) in requests.into_iter().flatten() {
            found[name.parse::<usize>().unwrap_or_default()] += count;
        }
        prop_assert_eq!(found, metrics);
    }

    /// The conversion does not fail for anything that can be parsed.
    #[test]
    fn any_exposition_is_converted(lines in proptest::collection::vec(
        "(# TYPE [ab] (counter|histogram|summary|gauge|gaugehistogram|info)|\
         [ab](_bucket|_sum|_count|_total|_created)?(\\{(le|quantile)=\"(1|2|\\+Inf|x)\"\\})? \
         (-?[0-9]{1,18}|NaN|\\+Inf|0.5)( -?[0-9]{1,18})?)", 0..20)
    ) {
        let body = lines.join("\n");
        if let Ok(exposition) = Exposition::parse(body.as_bytes(), Format::Text) {
            let resource = run().resource(SERVER, "http://a:1/metrics", &[]);
            let mut packer = Packer::new(&resource, scope(), MAX_REQUEST_BYTES);
            convert::convert(&exposition, TIME, MetricSet::Full, None, &mut packer);
            for request in packer.finish().0 {
                prop_assert!(ExportMetricsServiceRequest::decode(request.body).is_ok());
            }
        }
    }
}

fn request(body: &'static [u8]) -> Request {
    Request { body: body.into(), points: 1 }
}

#[test]
fn the_queue_is_bounded_by_bytes_and_lets_the_oldest_go() {
    let queue = ScrapeQueue::with_room(10);
    queue.push(0, vec![request(b"aaaa")], 0);
    queue.push(1, vec![request(b"bb"), request(b"bb")], 0);
    queue.push(0, vec![request(b"cccc")], 2);
    queue.close();
    let batch = futures_now(queue.next());
    let bodies: Vec<_> = requests(&batch).iter().map(|request| request.body.clone()).collect();
    // Scrapes that fit into one request are sent in one.
    assert_eq!(bodies, [&b"bbbbcccc"[..]]);
    queue.taken(3, 1);
    queue.delivered(&batch);
    let expected = ScrapesReport {
        scrapes_forwarded: 2,
        scrapes_dropped: 1,
        points_forwarded: 2,
        points_rejected: 1,
        points_dropped: 1,
        points_inexpressible: 2,
        requests_ok: 1,
        requests_failed: 0,
        delivered_final: true,
    };
    assert_eq!(queue.report(), Some(expected));
}

#[test]
fn a_scrape_that_is_larger_than_the_queue_is_dropped() {
    let queue = ScrapeQueue::with_room(10);
    queue.push(0, vec![request(b"aaaaaaaaaaaaa")], 0);
    let report = queue.report().unwrap_or_default();
    assert_eq!((report.scrapes_dropped, report.points_dropped), (1, 1));
    assert!(!report.delivered_final);
}

/// Returns the batch of a queue that has one.
fn futures_now(next: impl Future<Output = Option<Vec<PackedScrape>>>) -> Vec<PackedScrape> {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.unwrap_or_else(|e| panic!("{e}")).block_on(next).unwrap_or_default()
}

/// As `otlptranslator` appends units to names.
#[test]
fn prometheus_does_not_repeat_a_unit_that_a_name_ends_with() {
    use base::semconv::prometheus_name;
    let cases = [
        ("a_bytes_per_second", "bytes_per_second", InstrumentKind::Gauge, ""),
        ("a_bytes_per_second_total", "bytes_per_second", InstrumentKind::Counter, ""),
        ("a_ms", "ms", InstrumentKind::Gauge, ""),
        ("a_seconds", "seconds", InstrumentKind::Histogram, "s"),
        ("a_seconds_total", "seconds", InstrumentKind::Counter, "s"),
        ("a_ratio", "ratio", InstrumentKind::Gauge, "1"),
    ];
    for (name, unit, kind, converted) in cases {
        assert_eq!(unit_of(name, unit, kind), converted, "{name}");
        assert_eq!(prometheus_name(name, converted, kind), name);
    }
    // A name without the unit gets it there.
    assert_eq!(unit_of("a", "bytes_per_second", InstrumentKind::Gauge), "By/s");
}
