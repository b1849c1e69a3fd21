use base::units::Unit;
use client::endpoint::EndpointType;

use super::*;
use crate::metrics::metric::{ConsoleGroup, Objective};
use crate::metrics::tag;

const CHAT: &EndpointTraits = EndpointType::CHAT.traits();
const EMBEDDINGS: &EndpointTraits = EndpointType::EMBEDDINGS.traits();
const IMAGE_RETRIEVAL: &EndpointTraits = EndpointType::IMAGE_RETRIEVAL.traits();

static FIRST: Metric = Metric::record(tag::OUTPUT_TOKEN_COUNT, "First", Unit::Count, |_, _| None)
    .flagged(MetricFlags::STREAMING_ONLY);
static SECOND: Metric = Metric::record(tag::DECODE_DURATION, "Second", Unit::Count, |_, _| None)
    .requires(&[tag::OUTPUT_TOKEN_COUNT]);
static THIRD: Metric =
    Metric::derived(tag::GOODPUT, "Third", Unit::Count, |_| None).requires(&[tag::DECODE_DURATION]);

fn of_rows(rows: &[&'static Metric]) -> Result<Registry, MetricsError> {
    Registry::from_rows(rows, Settings::default(), CHAT, false)
}

fn with_objective(tag: MetricTag) -> Settings {
    Settings { objectives: vec![Objective { tag, threshold: 1.0 }], ..Settings::default() }
}

#[test]
fn every_tag_has_one_row_which_requires_tags_before_it() {
    let mut slots: Vec<usize> = CATALOGUE.iter().map(|metric| metric.tag.slot()).collect();
    slots.sort_unstable();
    assert_eq!(slots, (0..MetricTag::COUNT).collect::<Vec<_>>());
    for metric in CATALOGUE.iter() {
        let tag = metric.tag;
        assert_eq!(MetricTag::find(tag.name()), Some(tag));
        assert!(metric.requires.iter().all(|required| required.slot() < tag.slot()), "{tag}");
    }
    let mut kinds: Vec<&str> = slots
        .iter()
        .map(|slot| BY_TAG.get(MetricTag::in_slot(*slot)).unwrap().kind.label())
        .collect();
    kinds.dedup();
    assert_eq!(kinds, ["record", "aggregate", "derived"]);
}

#[test]
fn rows_are_computed_in_the_order_of_tags_and_presented_in_that_of_the_catalogue() {
    let registry =
        Registry::from_rows(&[&THIRD, &SECOND, &FIRST], Settings::default(), CHAT, true).unwrap();
    let tags: Vec<_> = registry.rows().iter().map(|metric| metric.tag).collect();
    assert_eq!(tags, [tag::OUTPUT_TOKEN_COUNT, tag::DECODE_DURATION, tag::GOODPUT]);
    assert_eq!(registry.presentation(), [2, 1, 0]);
}

#[test]
fn what_reads_a_metric_that_does_not_apply_does_not_apply() {
    assert!(of_rows(&[&THIRD, &SECOND, &FIRST]).unwrap().rows().is_empty());
}

#[test]
fn flags_choose_the_rows() {
    let streamed = Registry::new(Settings::default(), CHAT, true).unwrap();
    let plain = Registry::new(Settings::default(), CHAT, false).unwrap();
    let embeddings = Registry::new(Settings::default(), EMBEDDINGS, false).unwrap();
    let by_server = Settings { use_server_token_count: true, ..Settings::default() };
    let by_server = Registry::new(by_server, CHAT, true).unwrap();
    let has = |registry: &Registry, tag| registry.position(tag).is_some();
    assert!(has(&streamed, tag::TIME_TO_FIRST_TOKEN) && !has(&plain, tag::TIME_TO_FIRST_TOKEN));
    assert!(
        has(&plain, tag::OUTPUT_SEQUENCE_LENGTH) && !has(&embeddings, tag::OUTPUT_SEQUENCE_LENGTH)
    );
    assert!(has(&embeddings, tag::REQUEST_LATENCY) && has(&embeddings, tag::INPUT_SEQUENCE_LENGTH));
    let images = Registry::new(Settings::default(), IMAGE_RETRIEVAL, false).unwrap();
    assert!(has(&images, tag::REQUEST_LATENCY) && !has(&images, tag::INPUT_SEQUENCE_LENGTH));
    assert!(has(&streamed, tag::USAGE_DISCREPANCY_COUNT));
    assert!(!has(&by_server, tag::USAGE_DISCREPANCY_COUNT));
    assert!(!has(&by_server, tag::USAGE_PROMPT_TOKENS_DIFF_PCT));
    assert!(!has(&streamed, tag::GOODPUT));
    let replay = Settings { fixed_schedule: true, ..Settings::default() };
    let replay = Registry::new(replay, CHAT, true).unwrap();
    for tag in
        [tag::REPLAY_SEND_SCHEDULE_OFFSET, tag::REPLAY_SCHED_LAG_P50, tag::REPLAY_SCHED_DEGRADED]
    {
        assert!(has(&replay, tag) && !has(&streamed, tag), "{tag}");
    }
    let goodput = Registry::new(with_objective(tag::REQUEST_LATENCY), CHAT, false).unwrap();
    assert!(has(&goodput, tag::GOODPUT) && has(&goodput, tag::GOOD_REQUEST_FRACTION));
}

#[test]
fn media_choose_the_rows() {
    use EndpointType as Type;

    let has = |endpoint: EndpointType, tag| {
        let registry = Registry::new(Settings::default(), endpoint.traits(), false).unwrap();
        registry.position(tag).is_some()
    };
    for tag in [tag::NUM_IMAGES, tag::IMAGE_THROUGHPUT, tag::IMAGE_LATENCY] {
        assert!(has(Type::CHAT, tag) && has(Type::IMAGE_EDIT, tag), "{tag}");
        assert!(has(Type::IMAGE_RETRIEVAL, tag) && has(Type::NIM_EMBEDDINGS, tag), "{tag}");
        assert!(!has(Type::COMPLETIONS, tag) && !has(Type::IMAGE_GENERATION, tag), "{tag}");
    }
    for tag in [tag::AUDIO_DURATION, tag::RTFX] {
        assert!(has(Type::CHAT, tag) && has(Type::AUDIO_TRANSCRIPTION, tag), "{tag}");
        assert!(!has(Type::EMBEDDINGS, tag) && !has(Type::VIDEO_GENERATION, tag), "{tag}");
    }
    for tag in [tag::USAGE_PROMPT_AUDIO_TOKENS, tag::USAGE_COMPLETION_AUDIO_TOKENS] {
        assert!(has(Type::CHAT, tag) && !has(Type::COMPLETIONS, tag), "{tag}");
    }
    for tag in [tag::USAGE_TOTAL_TOKENS, tag::TOTAL_USAGE_TOTAL_TOKENS] {
        assert!(has(Type::CHAT, tag) && has(Type::EMBEDDINGS, tag), "{tag}");
    }
    for tag in [tag::VIDEO_INFERENCE_TIME, tag::VIDEO_PEAK_MEMORY] {
        assert!(has(Type::VIDEO_GENERATION, tag) && !has(Type::CHAT, tag), "{tag}");
    }
}

#[test]
fn an_objective_that_nothing_can_meet_is_an_error() {
    let error = Registry::new(with_objective(tag::TIME_TO_FIRST_TOKEN), CHAT, false).unwrap_err();
    assert!(error.to_string().contains("--streaming"), "{error}");
}

#[test]
fn the_catalogue_is_complete_and_each_row_says_what_it_is() {
    for metric in Registry::catalogue() {
        assert!(!metric.brief.is_empty() && metric.brief.ends_with('.'), "{}", metric.tag);
        assert!(!metric.formula.is_empty() && metric.formula.ends_with('.'), "{}", metric.tag);
        assert!(!metric.header.is_empty() && !metric.short_header.is_empty(), "{}", metric.tag);
        assert!(std::ptr::eq(Registry::row(metric.tag).unwrap(), *metric));
        let shown = metric.group == ConsoleGroup::None
            || metric.order.is_some()
            || metric.flags.intersects(MetricFlags::ERROR_ONLY | MetricFlags::EXPERIMENTAL)
            || matches!(metric.kind, MetricKind::WithFailures(_));
        assert!(shown, "{} is missing from its table", metric.tag);
    }
    assert!(Registry::find("no_such_metric").is_none());
}
