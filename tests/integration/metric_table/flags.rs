//! The effects of each flag and each console group.

use std::collections::{BTreeMap, BTreeSet};

use base::units::Unit;
use client::endpoint::{self, EndpointTraits, EndpointType};
use client::record::HttpTrace;
use measure::metrics::metric::{Objective, Settings};
use measure::metrics::steady::Unsteady;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{LongRun, Metric, MetricFlags as Flag, Registry};
use results::console;
use results::run::{RunDescription, RunOutcome, RunReport};

use super::{Run, requests};

static WITHOUT_TEXT: EndpointTraits = EndpointTraits {
    tokenizes_input: false,
    ..EndpointTraits::text("without-text", "/", |config| endpoint::build(config))
};

/// Enables everything that settings can enable.
fn all() -> Settings {
    Settings {
        objectives: vec![Objective { tag: tag::REQUEST_LATENCY, threshold: 65.0 }],
        fixed_schedule: true,
        developer_mode: true,
        ..Settings::default()
    }
}

fn chat(settings: Settings, streaming: bool) -> Registry {
    Registry::new(settings, EndpointType::CHAT.traits(), streaming).unwrap()
}

/// What servers report of requests, tool calls, and blocks, which the requests of these tests do not have.
const REPORTED: [&str; 8] = [
    "spec_decode_",
    "usage_prompt_cache_read_device",
    "usage_prompt_cache_read_host",
    "usage_prompt_cache_read_storage",
    "server_cache_hit_rate",
    "theoretical_prefix_",
    "tool_call_count",
    "invalid_tool_call_count",
];

#[test]
fn what_a_run_cannot_have_is_not_computed() {
    let full = chat(all(), true);
    let of = |endpoint| Registry::new(all(), endpoint, true).unwrap();
    let embeddings = EndpointType::EMBEDDINGS.traits();
    let goodput_off = Settings { objectives: Vec::new(), ..all() };
    let by_server = Settings { use_server_token_count: true, ..all() };
    let unscheduled = Settings { fixed_schedule: false, ..all() };
    for (flag, without) in [
        (Flag::STREAMING_ONLY, chat(all(), false)),
        (Flag::PRODUCES_TOKENS_ONLY, of(embeddings)),
        (Flag::SUPPORTS_AUDIO_ONLY, of(embeddings)),
        (Flag::SUPPORTS_IMAGE_ONLY, of(embeddings)),
        (Flag::TOKENIZES_INPUT_ONLY, of(&WITHOUT_TEXT)),
        (Flag::GOODPUT, chat(goodput_off, true)),
        (Flag::USAGE_DIFF_ONLY, chat(by_server, true)),
        (Flag::FIXED_SCHEDULE_ONLY, chat(unscheduled, true)),
    ] {
        let mut flagged = 0;
        for metric in Registry::catalogue().iter().filter(|metric| metric.flags.contains(flag)) {
            flagged += 1;
            assert!(full.position(metric.tag).is_some(), "{} is computed", metric.tag);
            assert!(without.position(metric.tag).is_none(), "{} without {flag:?}", metric.tag);
        }
        assert!(flagged > 0, "{flag:?}");
        let other = without.rows().iter().any(|metric| metric.tag == tag::REQUEST_LATENCY);
        assert!(other, "{flag:?} takes no others away");
    }
}

/// Rows of a test catalogue: none of the program's own has the flag for requests with video.
#[test]
fn media_need_an_endpoint_that_has_them() {
    const fn made_up(tag: MetricTag, flag: Flag) -> Metric {
        Metric::record(tag, "Made Up", Unit::Count, |_, _| Some(1.0)).flagged(flag)
    }
    static ROWS: [Metric; 3] = [
        made_up(tag::NUM_IMAGES, Flag::SUPPORTS_IMAGE_ONLY),
        made_up(tag::AUDIO_DURATION, Flag::SUPPORTS_VIDEO_ONLY),
        made_up(tag::VIDEO_INFERENCE_TIME, Flag::PRODUCES_VIDEO_ONLY),
    ];
    let rows: Vec<&'static Metric> = ROWS.iter().collect();
    for endpoint in [EndpointType::COMPLETIONS, EndpointType::EMBEDDINGS] {
        let registry =
            Registry::from_rows(&rows, Settings::default(), endpoint.traits(), true).unwrap();
        assert!(registry.rows().is_empty(), "{}", endpoint.traits().name);
    }
    for (endpoint, tags) in [
        (EndpointType::CHAT, vec![tag::NUM_IMAGES, tag::AUDIO_DURATION]),
        (EndpointType::IMAGE_EDIT, vec![tag::NUM_IMAGES]),
        (EndpointType::VIDEO_GENERATION, vec![tag::VIDEO_INFERENCE_TIME]),
    ] {
        let registry =
            Registry::from_rows(&rows, Settings::default(), endpoint.traits(), false).unwrap();
        let have: Vec<MetricTag> = registry.rows().iter().map(|metric| metric.tag).collect();
        assert_eq!(have, tags, "{}", endpoint.traits().name);
    }
}

#[test]
fn failed_requests_have_what_is_for_errors_alone_and_others_the_rest() {
    let run = Run::of(EndpointType::CHAT, all(), true, &requests(true));
    for measured in &run.measured {
        let failed = measured.observation.error.is_some();
        let mut count = 0;
        for (tag, _) in measured.observation.values.iter() {
            let flags = Registry::row(tag).unwrap().flags;
            let of_exchange = failed && flags.contains(Flag::HTTP_TRACE_ONLY);
            assert_eq!(flags.contains(Flag::ERROR_ONLY) || of_exchange, failed, "{tag}");
            count += 1;
        }
        assert!(count > 0);
    }
    let clean = Run::of(EndpointType::CHAT, all(), true, &requests(true)[..2]);
    for metric in Registry::catalogue().iter().filter(|m| m.flags.contains(Flag::ERROR_ONLY)) {
        // Only a scenario leaves requests out, and the rejected request does not have content.
        let is_usual = ![tag::SKIPPED_CONTEXT_OVERFLOW_COUNT, tag::ERROR_OSL].contains(&metric.tag);
        assert_eq!(
            (run.has(metric.tag), clean.has(metric.tag)),
            (is_usual, false),
            "{}",
            metric.tag
        );
        assert!(!metric.is_on_console(true), "{}", metric.tag);
    }
}

#[test]
fn internal_and_experimental_metrics_are_for_developers() {
    let developer = Run::of(EndpointType::CHAT, all(), true, &requests(true));
    let user = Settings { developer_mode: false, ..all() };
    let user = Run::of(EndpointType::CHAT, user, true, &requests(true));
    let hidden = Flag::INTERNAL | Flag::EXPERIMENTAL;
    let mut found = BTreeSet::new();
    for metric in Registry::catalogue().iter().filter(|metric| metric.flags.intersects(hidden)) {
        found.insert(metric.flags.intersection(hidden).bits());
        assert!(developer.has(metric.tag) && !user.has(metric.tag), "{}", metric.tag);
        assert!(!metric.is_on_console(false), "{}", metric.tag);
        assert!(metric.main_instrument().is_none(), "{}", metric.tag);
        for measured in &user.measured {
            assert_eq!(measured.observation.values.get(metric.tag), None, "{}", metric.tag);
        }
    }
    assert_eq!(found.len(), 2);
    // Metrics that are computed from them are present nevertheless.
    assert!(user.has(tag::OSL_MISMATCH_COUNT) && user.has(tag::BENCHMARK_DURATION));
}

#[test]
fn reasoning_is_there_where_a_model_says_it() {
    let requests = requests(true);
    let with = Run::of(EndpointType::CHAT, all(), true, &requests[..1]);
    let without = Run::of(EndpointType::CHAT, all(), true, &requests[1..2]);
    for metric in
        Registry::catalogue().iter().filter(|m| m.flags.contains(Flag::SUPPORTS_REASONING))
    {
        assert!(with.has(metric.tag), "{}", metric.tag);
        // Without reasoning the first output token is the first token.
        let is_there =
            [tag::TIME_TO_FIRST_OUTPUT_TOKEN, tag::NETWORK_ADJUSTED_TIME_TO_FIRST_OUTPUT_TOKEN]
                .contains(&metric.tag);
        assert_eq!(without.has(metric.tag), is_there, "{}", metric.tag);
    }
}

#[test]
fn single_requests_do_not_have_what_is_of_all() {
    let run = Run::of(EndpointType::CHAT, all(), true, &requests(true));
    for metric in
        Registry::catalogue().iter().filter(|m| m.flags.contains(Flag::NO_INDIVIDUAL_RECORDS))
    {
        // Only a scenario leaves requests out.
        let is_usual = metric.tag != tag::SKIPPED_CONTEXT_OVERFLOW_COUNT;
        assert_eq!(run.has(metric.tag), is_usual, "{}", metric.tag);
        for measured in &run.measured {
            assert_eq!(measured.observation.values.get(metric.tag), None, "{}", metric.tag);
        }
    }
}

#[test]
fn http_timings_need_a_trace() {
    let mut bare = requests(true);
    for record in &mut bare {
        record.trace = HttpTrace::default();
    }
    let traced = Run::of(EndpointType::CHAT, all(), true, &requests(true));
    let bare = Run::of(EndpointType::CHAT, all(), true, &bare);
    for metric in Registry::catalogue().iter().filter(|m| m.flags.contains(Flag::HTTP_TRACE_ONLY)) {
        assert!(traced.has(metric.tag) && !bare.has(metric.tag), "{}", metric.tag);
    }
}

#[test]
fn usage_is_compared_where_the_server_reports_it() {
    let mut silent = requests(true);
    for record in &mut silent {
        let text = String::from_utf8(record.body.bytes.clone()).unwrap();
        // The same number of bytes, so that events keep their positions.
        record.body.bytes = text.replace(r#""usage""#, r#""egasu""#).into_bytes();
    }
    let told = Run::of(EndpointType::CHAT, all(), true, &requests(true));
    let silent = Run::of(EndpointType::CHAT, all(), true, &silent);
    for metric in Registry::catalogue().iter().filter(|m| m.flags.contains(Flag::USAGE_DIFF_ONLY)) {
        assert!(told.has(metric.tag) && !silent.has(metric.tag), "{}", metric.tag);
    }
}

#[test]
fn an_objective_is_a_floor_where_larger_is_better() {
    let good = |tag, threshold| {
        let objectives = vec![Objective { tag, threshold }];
        let settings = Settings { objectives, ..Settings::default() };
        let run = Run::of(EndpointType::CHAT, settings, true, &requests(true));
        let count = run.results.iter().find(|result| result.metric.tag == tag::GOOD_REQUEST_COUNT);
        count.unwrap().stats.avg
    };
    for metric in Registry::catalogue() {
        if !matches!(metric.kind, measure::metrics::metric::MetricKind::Record(_))
            || !metric.is_exported(false)
            || metric.flags.intersects(
                Flag::ERROR_ONLY
                    | Flag::FIXED_SCHEDULE_ONLY
                    | Flag::PRODUCES_VIDEO_ONLY
                    | Flag::SERVER_TIMING,
            )
            || REPORTED.iter().any(|reported| metric.tag.name().starts_with(reported))
        {
            continue;
        }
        let run = Run::of(EndpointType::CHAT, Settings::default(), true, &requests(true));
        let have = run.results.iter().find(|result| result.metric.tag == metric.tag).unwrap();
        let have = have.stats.distribution.unwrap();
        let larger = metric.flags.contains(Flag::LARGER_IS_BETTER);
        let (none, every) = if larger {
            (have.max + 1.0, have.min - 1.0)
        } else {
            (have.min - 1.0, have.max + 1.0)
        };
        assert_eq!(good(metric.tag, none), 0.0, "{}", metric.tag);
        assert_eq!(good(metric.tag, every), have.count as f64, "{}", metric.tag);
    }
}

#[test]
fn each_group_has_a_table_with_its_title() {
    let titles = BTreeMap::from([
        ("effective", "LLM Metrics: Effective"),
        ("active", "LLM Metrics: Active"),
        ("usage", "LLM Metrics: Usage"),
        ("cache", "LLM Metrics: Cache"),
        ("prediction", "LLM Metrics: Prediction"),
        ("audio", "LLM Metrics: Audio"),
        ("reasoning", "LLM Metrics: Reasoning"),
        ("default", "LLM Metrics"),
    ]);
    let settings = Settings { developer_mode: false, ..all() };
    let run = Run::of(EndpointType::CHAT, settings.clone(), true, &requests(true));
    let text = console::render_file(&report(run.results.clone(), settings));
    let mut tables: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut order = Vec::new();
    let mut title = String::new();
    for line in text.lines() {
        if let Some(new) = line.trim().strip_prefix("aiperf | ") {
            new.clone_into(&mut title);
            order.push(title.clone());
        }
        tables.entry(title.clone()).or_default().push(line);
    }
    for result in &run.results {
        let metric = result.metric;
        for (group, title) in &titles {
            let Some(lines) = tables.get(*title) else { panic!("no table {title} in {text}") };
            let is_in = lines.iter().any(|line| {
                let cell = line.split('│').nth(1).unwrap_or_default().trim();
                cell == metric.header || cell.starts_with(&format!("{} (", metric.header))
            });
            let belongs =
                metric.group.as_str() == *group && !metric.flags.contains(Flag::ERROR_ONLY);
            assert_eq!(is_in, belongs, "{} in {title}", metric.tag);
        }
    }
    let in_order: Vec<&str> = order.iter().map(String::as_str).collect();
    let expected = [
        "LLM Metrics: Effective",
        "LLM Metrics: Active",
        "LLM Metrics: Usage",
        "LLM Metrics: Cache",
        "LLM Metrics: Prediction",
        "LLM Metrics: Audio",
        "LLM Metrics: Reasoning",
        "LLM Metrics",
    ];
    assert_eq!(in_order, expected);
}

fn report(results: Vec<measure::metrics::metric::MetricResult>, settings: Settings) -> RunReport {
    RunReport {
        coverage: None,
        run: RunDescription {
            streaming: true,
            settings,
            ..RunDescription::for_endpoint_type(EndpointType::CHAT)
        },
        outcome: RunOutcome::default(),
        results,
        bases: Vec::new(),
        long_run: LongRun::default(),
        missed_objectives: Vec::new(),
        steady_state: Err(Unsteady::UnknownLoad),
        by_phase: Vec::new(),
        levels: Vec::new(),
        slices: None,
        sessions: None,
        finish_reasons: measure::metrics::name_counts::NameCounts::default(),
        response_notes: measure::metrics::name_counts::NameCounts::default(),
        silences: Vec::new(),
        breakdowns: measure::metrics::breakdown::BreakdownResults::default(),
        warmup_results: Vec::new(),
        errors: Vec::new(),
        phases: Vec::new(),
        server_metrics: None,
    }
}
