use std::fmt::Write;

use proptest::prelude::*;

use super::*;

fn text(body: &str) -> Exposition<'_> {
    Exposition::parse(body.as_bytes(), Format::Text).unwrap()
}

fn open_metrics(body: &str) -> Exposition<'_> {
    Exposition::parse(body.as_bytes(), Format::OpenMetrics).unwrap()
}

fn refusal(body: &str, format: Format) -> (usize, Reason) {
    let error = Exposition::parse(body.as_bytes(), format).unwrap_err();
    (error.line, error.reason)
}

fn labels(exposition: &Exposition<'_>, sample: usize) -> Vec<(String, String)> {
    let labels = exposition.labels(&exposition.samples[sample]);
    labels.iter().map(|label| (label.name.to_string(), label.value.to_string())).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The example of the Prometheus documentation, unchanged.
const DOCUMENTED: &str = r#"# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9

# Minimalistic line:
metric_without_timestamp_and_labels 12.47

# A weird metric from before the epoch:
something_weird{problem="division by zero"} +Inf -3982045

# A histogram, which has a pretty complex representation in the text format:
# HELP http_request_duration_seconds A histogram of the request duration.
# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{le="0.05"} 24054
http_request_duration_seconds_bucket{le="+Inf"} 144320
http_request_duration_seconds_sum 53423
http_request_duration_seconds_count 144320

# Finally a summary, which has a complex representation, too:
# HELP rpc_duration_seconds A summary of the RPC duration in seconds.
# TYPE rpc_duration_seconds summary
rpc_duration_seconds{quantile="0.01"} 3102
rpc_duration_seconds_sum 1.7560473e+07
rpc_duration_seconds_count 2693
"#;

#[test]
fn the_documented_example_is_read() {
    let read = text(DOCUMENTED);
    let families: Vec<_> =
        read.families.iter().map(|family| (&*family.name, family.metric_type)).collect();
    assert_eq!(
        families,
        [
            ("http_requests_total", MetricType::Counter),
            ("msdos_file_access_time_seconds", MetricType::Unknown),
            ("metric_without_timestamp_and_labels", MetricType::Unknown),
            ("something_weird", MetricType::Unknown),
            ("http_request_duration_seconds", MetricType::Histogram),
            ("rpc_duration_seconds", MetricType::Summary),
        ]
    );
    assert_eq!(read.families[0].help.as_deref(), Some("The total number of HTTP requests."));
    let samples: Vec<_> =
        read.samples.iter().map(|sample| (sample.family, sample.part, sample.value)).collect();
    assert_eq!(
        samples,
        [
            (0, Part::Value, 1027.0),
            (0, Part::Value, 3.0),
            (1, Part::Value, 1.458_255_915e9),
            (2, Part::Value, 12.47),
            (3, Part::Value, f64::INFINITY),
            (4, Part::Bucket, 24054.0),
            (4, Part::Bucket, 144_320.0),
            (4, Part::Sum, 53423.0),
            (4, Part::Count, 144_320.0),
            (5, Part::Value, 3102.0),
            (5, Part::Sum, 1.756_047_3e7),
            (5, Part::Count, 2693.0),
        ]
    );
    assert_eq!(read.samples[0].timestamp, Some(1_395_066_363.0));
    assert_eq!(read.samples[4].timestamp, Some(-3982.045));
    assert_eq!(labels(&read, 0), pairs(&[("method", "post"), ("code", "200")]));
    assert_eq!(
        labels(&read, 2),
        pairs(&[("path", r"C:\DIR\FILE.TXT"), ("error", "Cannot find file:\n\"FILE.TXT\"")])
    );
    assert_eq!(labels(&read, 3), []);
}

#[test]
fn open_metrics_has_suffixes_units_and_exemplars() {
    let read = open_metrics(
        "# TYPE foo_seconds counter\n# UNIT foo_seconds seconds\n# HELP foo_seconds A \"foo\".\n\
         foo_seconds_total{a=\"b\"} 17.5 1520879607.789 # {trace_id=\"KOO5\",b=\"c\"} 0.67 1.5\n\
         foo_seconds_created{a=\"b\"} 1520430000.123\n# TYPE build info\nbuild_info{v=\"1\"} 1\n\
         # TYPE bar gaugehistogram\nbar_bucket{le=\"+Inf\"} 4 # {} 3\nbar_gcount 4\nbar_gsum 9\n\
         # TYPE up stateset\nup{up=\"yes\"} 1\n# EOF\n",
    );
    let parts: Vec<_> = read.samples.iter().map(|sample| (sample.family, sample.part)).collect();
    assert_eq!(
        parts,
        [
            (0, Part::Value),
            (0, Part::Created),
            (1, Part::Value),
            (2, Part::Bucket),
            (2, Part::Count),
            (2, Part::Sum),
            (3, Part::Value),
        ]
    );
    assert_eq!(read.families[0].unit, Some("seconds"));
    assert_eq!(read.families[0].help.as_deref(), Some("A \"foo\"."));
    assert_eq!(read.samples[0].timestamp, Some(1_520_879_607.789));
    let exemplar = read.samples[0].exemplar.as_ref().unwrap();
    assert_eq!((exemplar.value, exemplar.timestamp), (0.67, Some(1.5)));
    assert_eq!(exemplar.labels[0].value, "KOO5");
    assert_eq!(read.samples[3].exemplar.as_ref().unwrap().labels, []);
    // The labels of an exemplar are not those of the sample.
    assert_eq!(labels(&read, 1), pairs(&[("a", "b")]));
}

#[test]
fn names_in_quotes_may_have_any_character() {
    let read = text(
        "# TYPE \"my.metric\" gauge\n# HELP \"my.metric\" With \\\\ and \\n.\n\
         {\"my.metric\",\"a.b\"=\"1\", c=\"2\"} 3\n{\"my.metric\"} 4\n{\"ünï\\\"\",} 5\n",
    );
    assert_eq!(read.families[0].name, "my.metric");
    assert_eq!(read.families[0].help.as_deref(), Some("With \\ and \n."));
    assert_eq!(labels(&read, 0), pairs(&[("a.b", "1"), ("c", "2")]));
    assert_eq!(read.samples[1].family, 0);
    assert_eq!(read.samples[2].name, "ünï\"");
}

#[test]
fn what_servers_really_send_is_taken() {
    // Blanks in all allowed places, CRLF, `Nan`, an empty label value, a comma before the brace,
    // `le` in any position, a histogram whose name ends in `_total`.
    let read = text(
        "\r\n # HELP  a  words  here\r\n\ta { x = \"\" , y=\"}\" , } \t Nan \r\n\
         # TYPE vllm:tokens_total histogram\nvllm:tokens_total_bucket{le=\"1.0\",m=\"q\"} 2e0\n",
    );
    assert_eq!(read.families[0].help.as_deref(), Some("words  here"));
    assert!(read.samples[0].value.is_nan());
    assert_eq!(labels(&read, 0), pairs(&[("x", ""), ("y", "}")]));
    assert_eq!((read.samples[1].family, read.samples[1].part), (1, Part::Bucket));
    assert_eq!(read.families[1].name, "vllm:tokens_total");
}

#[test]
fn samples_out_of_order_find_their_family() {
    let read = text(
        "# TYPE h histogram\n# TYPE c counter\nc 1\nh_sum 2\nh_count 3\nc_total 4\nh_other 5\n\
         h_bucket{le=\"+Inf\"} 6\n",
    );
    let found: Vec<_> = read
        .samples
        .iter()
        .map(|sample| (&*read.family(sample).unwrap().name, sample.part))
        .collect();
    assert_eq!(
        found,
        [
            ("c", Part::Value),
            ("h", Part::Sum),
            ("h", Part::Count),
            ("c", Part::Value),
            ("h_other", Part::Value),
            ("h", Part::Bucket),
        ]
    );
}

#[test]
fn what_cannot_be_read_is_an_error_that_names_its_line() {
    let bad = |body| refusal(body, Format::Text);
    assert_eq!(bad("a 1\n\n1a 2\n"), (3, Reason::MetricName));
    assert_eq!(bad("[{\"iter\": 1}]"), (1, Reason::MetricName));
    assert_eq!(bad("{\"iter\": 1}"), (1, Reason::Label));
    assert_eq!(bad("a{b} 1"), (1, Reason::Label));
    assert_eq!(bad("a{b=c} 1"), (1, Reason::Label));
    assert_eq!(bad("a{b=\"c\" d=\"e\"} 1"), (1, Reason::Label));
    assert_eq!(bad("a{b=\"c\""), (1, Reason::OpenLabels));
    assert_eq!(bad("a{b=\"c} 1\nd 1"), (1, Reason::OpenQuote));
    assert_eq!(bad("a{b=\"c\\"), (1, Reason::OpenQuote));
    assert_eq!(bad("a{b=\"c\"}"), (1, Reason::MissingValue));
    assert_eq!(bad("a one"), (1, Reason::Number("one".into())));
    assert_eq!(bad("a 1 x"), (1, Reason::Number("x".into())));
    assert_eq!(bad("a 1 2 # x"), (1, Reason::Trailing("2 # x".into())));
    assert_eq!(bad("a{b=\"c\",,d=\"e\"} 1"), (1, Reason::Label));
    assert_eq!(bad("a{__name__=\"b\"} 1"), (1, Reason::Label));
    assert_eq!(bad("a{\"b\"} 1"), (1, Reason::Label));
    assert_eq!(bad("{b=\"c\"} 1"), (1, Reason::MetricName));
    assert_eq!(bad("{\"a\",__name__=\"b\"} 1"), (1, Reason::MetricName));
    assert_eq!(bad("{\"\"} 1"), (1, Reason::MetricName));
    assert_eq!(bad("# TYPE a.b gauge"), (1, Reason::MetricName));
    assert_eq!(bad("# TYPE"), (1, Reason::MetricName));
    assert_eq!(bad("a {count:1,sum:2}"), (1, Reason::Label));
    assert_eq!(bad("a 1\n# TYPE b speed"), (2, Reason::Type("speed".into())));
    let error = Exposition::parse(b"a 1\nb{c=\"\xff\"} 1\n", Format::Text).unwrap_err();
    assert_eq!((error.line, &error.reason), (2, &Reason::NotUtf8));
    assert_eq!(error.to_string(), "line 2: not valid UTF-8");
    let long = refusal(&format!("a {}", "x".repeat(1 << 20)), Format::Text).1;
    assert_eq!(long, Reason::Number(format!("{}…", "x".repeat(40))));
}

/// `prometheus_client` accepts these too, and nothing in them is lost.
#[test]
fn what_is_against_the_rules_and_plain_is_read_and_told() {
    let read = open_metrics("a 1\nb 2\n");
    assert_eq!((read.samples.len(), read.has_eof), (2, false));
    assert_eq!(read.faults, [Fault::MissingEof]);
    let read = open_metrics("a 1\n# EOF\n\nb 2\n# EOF\nc 3\n");
    assert_eq!((read.samples.len(), read.faults), (3, vec![Fault::AfterEof]));
    // The last type applies.
    let read =
        text("# TYPE b gauge\n# TYPE b counter\nb_total 1\n# TYPE b gauge\n# TYPE c gauge\n");
    assert_eq!(read.faults, [Fault::TwoTypes("b".into())]);
    let read = text("# TYPE b gauge\n# TYPE b counter\nb_total 1\n# TYPE b counter\n");
    assert_eq!(read.families[0].metric_type, MetricType::Counter);
    assert_eq!((read.samples[0].family, read.samples[0].part), (0, Part::Value));
    let (body, is_repaired) = as_text(b"a{b=\"x\xff\"} 1\nc 2\n".to_vec());
    assert!(is_repaired);
    let read = Exposition::parse(&body, Format::Text).unwrap();
    assert_eq!((read.samples.len(), labels(&read, 0)), (2, pairs(&[("b", "x\u{fffd}")])));
    assert_eq!(as_text(b"a 1\n".to_vec()), (b"a 1\n".to_vec(), false));
    assert_eq!(text("a 1\n# EOF\n").faults, []);
    let told = [Fault::MissingEof, Fault::NotUtf8].map(|fault| fault.to_string());
    assert_eq!(told[0], "ends without `# EOF`");
    assert_eq!(told[1], "is not valid UTF-8; invalid bytes are replaced by U+FFFD");
}

/// `prometheus_client` accepts each of these, and so does Prometheus some.
#[test]
fn odd_forms_with_one_meaning_are_read() {
    let read = text("\u{feff}# HELP\na{,} 1\na{,b=\"c\", ,d=\"e\",} 2\n");
    assert_eq!(read.samples.iter().map(|one| one.value).collect::<Vec<_>>(), [1.0, 2.0]);
    assert_eq!(labels(&read, 1), pairs(&[("b", "c"), ("d", "e")]));
    let read = text("{__name__=\"a\"} 1\n{b=\"c\",__name__=\"d.e\"} 2\n{b=\"c\",\"f\"} 3\n");
    let names: Vec<&str> = read.samples.iter().map(|sample| &*sample.name).collect();
    assert_eq!(names, ["a", "d.e", "f"]);
    assert_eq!(labels(&read, 1), pairs(&[("b", "c")]));
    assert_eq!(labels(&read, 2), pairs(&[("b", "c")]));
    let read = text("a 1 2 3\n");
    assert_eq!((read.samples[0].value, read.samples[0].timestamp), (1.0, Some(0.003)));
    assert_eq!(read.faults, [Fault::BeforeTimestamp]);
    let read = text("a.b{c=\"d\"} 1\n1a{} 2\n");
    assert_eq!((&*read.samples[0].name, &*read.samples[1].name), ("a.b", "1a"));
    // Without a blank it is only a comment; a unit is one in Prometheus text.
    let read = text("#TYPE a counter\n#HELP 1 2\n# UNIT 1 2\n# UNIT\na 1\n");
    assert_eq!(read.families[0].metric_type, MetricType::Unknown);
    let read = open_metrics(
        "# TYPE a histogram\na {count:24,sum:100,schema:0,zero_threshold:0.001,zero_count:4}\n\
         a{b=\"c\"} {count:24,sum:100, schema:0}\nd 1\n# EOF\n",
    );
    assert_eq!((read.samples.len(), read.families.len()), (1, 2));
    assert_eq!(read.faults, [Fault::NativeHistogram("a".into())]);
}

#[test]
fn the_content_type_tells_the_format() {
    let format = Format::of_content_type;
    assert_eq!(format("application/openmetrics-text; version=1.0.0"), Format::OpenMetrics);
    assert_eq!(format("Application/OpenMetrics-Text"), Format::OpenMetrics);
    assert_eq!(format("text/plain; version=1.0.0; charset=utf-8"), Format::Text);
    assert_eq!(format(""), Format::Text);
}

/// A generated series.
#[derive(Debug, Clone)]
struct Made {
    name: String,
    labels: Vec<(String, String)>,
    value: f64,
    timestamp: Option<i32>,
}

fn made() -> impl Strategy<Value = Made> {
    let labels =
        prop::collection::vec(("[a-z_][a-z0-9_]{0,8}", "\\PC{0,12}|[\"\\\\\n]{0,4}"), 0..4);
    let value = prop_oneof![any::<f64>(), (0u32..10_000).prop_map(f64::from)];
    ("[a-zA-Z_:][a-zA-Z0-9_:]{0,12}", labels, value, any::<Option<i32>>())
        .prop_map(|(name, labels, value, timestamp)| Made { name, labels, value, timestamp })
}

fn written(series: &[Made]) -> String {
    let mut body = String::new();
    for made in series {
        let escaped =
            |value: &str| value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
        let labels: Vec<_> = made
            .labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let timestamp = made.timestamp.map(|at| format!(" {at}")).unwrap_or_default();
        let labels = labels.join(",");
        writeln!(body, "{}{{{labels}}} {:e}{timestamp}", made.name, made.value).unwrap();
    }
    body
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(series in prop::collection::vec(made(), 0..8)) {
        let body = written(&series);
        let read = text(&body);
        prop_assert_eq!(read.samples.len(), series.len());
        for (index, (made, sample)) in series.iter().zip(&read.samples).enumerate() {
            prop_assert_eq!(&sample.name, &made.name);
            prop_assert!(sample.value == made.value || made.value.is_nan() && sample.value.is_nan());
            prop_assert_eq!(sample.timestamp, made.timestamp.map(|at| f64::from(at) / 1e3));
            prop_assert_eq!(labels(&read, index), made.labels.clone());
        }
    }

    #[test]
    fn no_bytes_are_too_strange(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in [Format::Text, Format::OpenMetrics] {
            let _ = Exposition::parse(&body, format);
        }
    }

    #[test]
    fn no_text_is_too_strange(body in "([a-z_]{0,3}|[ {}=,\"\\\\#\n]|# (HELP|TYPE|UNIT|EOF) |\\PC){0,40}") {
        for format in [Format::Text, Format::OpenMetrics] {
            if let Ok(read) = Exposition::parse(body.as_bytes(), format) {
                prop_assert!(read.samples.iter().all(|sample| read.family(sample).is_some()));
            }
        }
    }

    /// `prometheus-parse` gives the same result for names without `:` and labels without `,`, `=`
    /// and escapes, which is all that it supports.
    #[test]
    fn prometheus_parse_reads_the_same(
        series in prop::collection::vec(
            ("[a-z_]{1,8}", prop::collection::btree_map("[a-z_]{1,4}", "[a-z0-9/.]{0,6}", 0..3),
             0.001f64..1e6),
            1..8,
        ),
    ) {
        let mut body = String::new();
        for (name, labels, value) in &series {
            let labels: Vec<_> =
                labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
            let labels =
                if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            writeln!(body, "{name}{labels} {value}").unwrap();
        }
        let oracle =
            prometheus_parse::Scrape::parse(body.lines().map(|line| Ok(line.to_owned()))).unwrap();
        let read = text(&body);
        prop_assert_eq!(read.samples.len(), oracle.samples.len());
        for (index, (ours, theirs)) in read.samples.iter().zip(&oracle.samples).enumerate() {
            prop_assert_eq!(&ours.name, &theirs.metric);
            prop_assert_eq!(prometheus_parse::Value::Untyped(ours.value), theirs.value.clone());
            let mut labels = labels(&read, index);
            labels.sort();
            let mut expected: Vec<(String, String)> = theirs
                .labels
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            expected.sort();
            prop_assert_eq!(labels, expected);
        }
    }
}

/// The faults for which `prometheus-parse` is not used at run time
/// (docs/decisions/server-metrics.md). If this fails, a later version has mended them, and the
/// page is no longer true.
#[test]
fn prometheus_parse_has_the_faults_that_the_decision_names() {
    let parse = |line: &str| prometheus_parse::Scrape::parse([Ok(line.to_owned())].into_iter());
    let colon = r#"vllm:num_requests_running{model_name="m"} 3"#;
    assert_eq!(text(colon).samples.len(), 1);
    assert!(parse(colon).unwrap().samples.is_empty(), "a name with `:` is read");
    for (value, line) in [("a,b", r#"up{path="a,b"} 1"#), ("a=b", r#"up{path="a=b"} 1"#)] {
        assert_eq!(labels(&text(line), 0), pairs(&[("path", value)]));
        let theirs = parse(line).unwrap();
        let read = theirs.samples.first().and_then(|sample| sample.labels.get("path"));
        assert_ne!(read, Some(value), "a label value with `{value}` is read");
    }
    assert_eq!(refusal("up{ 1", Format::Text).0, 1);
    assert!(parse("up{ 1").unwrap().samples.is_empty(), "a broken line is reported");
}
