use super::*;
use crate::endpoint::EndpointType;
use crate::metrics::metric::{ConsoleGroup, Objective};
use crate::units::Unit;

const CHAT: &EndpointTraits = EndpointType::CHAT.traits();
const EMBEDDINGS: &EndpointTraits = EndpointType::EMBEDDINGS.traits();
const IMAGE_RETRIEVAL: &EndpointTraits = EndpointType::IMAGE_RETRIEVAL.traits();

static ONE: Metric = Metric::record("one", "One", Unit::Count, |_, _| None).requires(&["two"]);
static TWO: Metric = Metric::record("two", "Two", Unit::Count, |_, _| None).requires(&["three"]);
static THREE: Metric = Metric::record("three", "Three", Unit::Count, |_, _| None);
static THREE_AFTER_ONE: Metric =
    Metric::record("three", "Three", Unit::Count, |_, _| None).requires(&["one"]);
static THREE_STREAMED: Metric =
    Metric::record("three", "Three", Unit::Count, |_, _| None).flagged(MetricFlags::STREAMING_ONLY);

fn of_rows(rows: &[&'static Metric]) -> Result<Registry, MetricsError> {
    Registry::from_rows(rows, Settings::default(), CHAT, false)
}

fn tags(registry: &Registry) -> Vec<&'static str> {
    registry.rows().iter().map(|metric| metric.tag).collect()
}

fn with_objective(tag: MetricTag) -> Settings {
    Settings { objectives: vec![Objective { tag, threshold: 1.0 }], ..Settings::default() }
}

#[test]
fn rows_come_after_those_they_require() {
    let registry = of_rows(&[&ONE, &TWO, &THREE]).unwrap();
    assert_eq!(tags(&registry), ["three", "two", "one"]);
    assert_eq!(registry.presentation(), [2, 1, 0]);
}

#[test]
fn a_missing_requirement_is_an_error() {
    let error = of_rows(&[&ONE, &TWO]).unwrap_err();
    assert_eq!(error, MetricsError::MissingRequirement { tag: "two", required: "three" });
}

#[test]
fn a_circle_is_an_error() {
    let error = of_rows(&[&ONE, &TWO, &THREE_AFTER_ONE]).unwrap_err();
    assert_eq!(error, MetricsError::Circular(vec!["one", "two", "three"]));
}

#[test]
fn a_tag_is_there_once() {
    let error = of_rows(&[&THREE, &THREE_AFTER_ONE]).unwrap_err();
    assert_eq!(error, MetricsError::Duplicate("three"));
}

#[test]
fn what_reads_a_metric_that_does_not_apply_does_not_apply() {
    assert!(of_rows(&[&ONE, &TWO, &THREE_STREAMED]).unwrap().rows().is_empty());
}

#[test]
fn flags_choose_the_rows() {
    let streamed = Registry::new(Settings::default(), CHAT, true).unwrap();
    let plain = Registry::new(Settings::default(), CHAT, false).unwrap();
    let embeddings = Registry::new(Settings::default(), EMBEDDINGS, false).unwrap();
    let by_server = Settings { use_server_token_count: true, ..Settings::default() };
    let by_server = Registry::new(by_server, CHAT, true).unwrap();
    let has = |registry: &Registry, tag| registry.position(tag).is_some();
    assert!(has(&streamed, "time_to_first_token") && !has(&plain, "time_to_first_token"));
    assert!(has(&plain, "output_sequence_length") && !has(&embeddings, "output_sequence_length"));
    assert!(has(&embeddings, "request_latency") && has(&embeddings, "input_sequence_length"));
    let images = Registry::new(Settings::default(), IMAGE_RETRIEVAL, false).unwrap();
    assert!(has(&images, "request_latency") && !has(&images, "input_sequence_length"));
    assert!(has(&streamed, "usage_discrepancy_count"));
    assert!(!has(&by_server, "usage_discrepancy_count"));
    assert!(!has(&by_server, "usage_prompt_tokens_diff_pct"));
    assert!(!has(&streamed, "goodput"));
    let replay = Settings { fixed_schedule: true, ..Settings::default() };
    let replay = Registry::new(replay, CHAT, true).unwrap();
    for tag in ["replay_send_schedule_offset", "replay_sched_lag_p50", "replay_sched_degraded"] {
        assert!(has(&replay, tag) && !has(&streamed, tag), "{tag}");
    }
    let goodput = Registry::new(with_objective("request_latency"), CHAT, false).unwrap();
    assert!(has(&goodput, "goodput") && has(&goodput, "good_request_fraction"));
}

#[test]
fn media_choose_the_rows() {
    use EndpointType as Type;

    let has = |endpoint: EndpointType, tag| {
        let registry = Registry::new(Settings::default(), endpoint.traits(), false).unwrap();
        registry.position(tag).is_some()
    };
    for tag in ["num_images", "image_throughput", "image_latency"] {
        assert!(has(Type::CHAT, tag) && has(Type::IMAGE_EDIT, tag), "{tag}");
        assert!(has(Type::IMAGE_RETRIEVAL, tag) && has(Type::NIM_EMBEDDINGS, tag), "{tag}");
        assert!(!has(Type::COMPLETIONS, tag) && !has(Type::IMAGE_GENERATION, tag), "{tag}");
    }
    for tag in ["audio_duration", "rtfx"] {
        assert!(has(Type::CHAT, tag) && has(Type::AUDIO_TRANSCRIPTION, tag), "{tag}");
        assert!(!has(Type::EMBEDDINGS, tag) && !has(Type::VIDEO_GENERATION, tag), "{tag}");
    }
    for tag in ["video_inference_time", "video_peak_memory"] {
        assert!(has(Type::VIDEO_GENERATION, tag) && !has(Type::CHAT, tag), "{tag}");
    }
}

#[test]
fn an_objective_that_nothing_can_meet_is_an_error() {
    let error = Registry::new(with_objective("time_to_first_token"), CHAT, false).unwrap_err();
    assert!(error.to_string().contains("--streaming"), "{error}");
}

#[test]
fn the_catalogue_is_complete_and_each_row_says_what_it_is() {
    for metric in Registry::catalogue() {
        assert!(!metric.brief.is_empty() && metric.brief.ends_with('.'), "{}", metric.tag);
        assert!(!metric.formula.is_empty() && metric.formula.ends_with('.'), "{}", metric.tag);
        assert!(!metric.header.is_empty() && !metric.short_header.is_empty(), "{}", metric.tag);
        assert!(std::ptr::eq(Registry::find(metric.tag).unwrap(), *metric));
        let shown = metric.group == ConsoleGroup::None
            || metric.order.is_some()
            || metric.flags.intersects(MetricFlags::ERROR_ONLY | MetricFlags::EXPERIMENTAL)
            || matches!(metric.kind, Kind::WithFailures(_));
        assert!(shown, "{} has no place in its table", metric.tag);
    }
    assert!(Registry::find("no_such_metric").is_none());
}
