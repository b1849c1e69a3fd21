use base::units::Nanos;
use client::schedule::{LaneLoad, PhaseKind, PhaseStats};
use client::server_family;
use measure::judge::{Basis, Facts, Gate, Judged};
use measure::metrics::health::ClientBounds;
use measure::metrics::live::{LiveError, LiveRate, LiveStatistics, LiveTime, Percentiles};
use measure::metrics::metric::{Distribution, MetricResult, Stats};
use measure::metrics::name_counts::NameCounts;
use measure::metrics::steady::Unsteady;
use measure::metrics::tag::{self, MetricTag};
use measure::metrics::{ClientHealth, Registry};
use measure::server_metrics::watch::LiveGauge;

use super::draw::{Choice, Page, draw};
use super::sheet::Chart;
use super::*;
use crate::status::snapshot::{Silence, Snapshot, Stage};

const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (200, 60)];

fn rate(tag: MetricTag, recent: f64) -> LiveRate {
    LiveRate {
        metric: Registry::row(tag).unwrap(),
        recent: Some(recent),
        whole: Some(recent * 0.9),
        by_second: (0..150_u32).map(|second| recent * f64::from(second % 16) / 16.0).collect(),
    }
}

fn time(tag: MetricTag, p50: f64) -> LiveTime {
    let percentiles = Percentiles { count: 100, p50, p90: 1.5 * p50, p99: 3.0 * p50 };
    LiveTime {
        metric: Registry::row(tag).unwrap(),
        recent: Some(percentiles),
        whole: Some(Percentiles { count: 12_000, p50: 0.5 * p50, ..percentiles }),
        by_second: (0..150)
            .map(|second| (second % 20 > 2).then(|| p50 * f64::from(second % 11)))
            .collect(),
    }
}

fn gauge(name: &str, value: f64, series: usize) -> LiveGauge {
    let all = server_family::ALL.iter().flat_map(|family| family.watched);
    LiveGauge { watched: all.into_iter().find(|it| it.name == name).unwrap(), value, series }
}

/// A streaming run, after half of its requests.
fn streaming() -> Snapshot {
    Snapshot {
        title: "mock-model at http://127.0.0.1:8000/v1/chat/completions".to_owned(),
        phase_name: "profiling".to_owned(),
        load: "200 req/s, 24000 requests".to_owned(),
        phase: Some(PhaseStats {
            phase: PhaseKind::Profiling,
            start: Nanos(5_000_000_000),
            now: Nanos(65_000_000_000),
            total_expected_requests: Some(24_000),
            requests_sent: 12_064,
            requests_returned: 12_000,
            ..PhaseStats::default()
        }),
        stage: Stage::Sending,
        statistics: LiveStatistics {
            succeeded: 12_000,
            rates: vec![
                rate(tag::REQUEST_THROUGHPUT, 200.0),
                rate(tag::OUTPUT_TOKEN_THROUGHPUT, 25_600.0),
            ],
            times: vec![
                time(tag::TIME_TO_FIRST_TOKEN, 61.25),
                time(tag::INTER_TOKEN_LATENCY, 5.125),
                time(tag::REQUEST_LATENCY, 712.5),
            ],
            ..LiveStatistics::default()
        },
        gauges: vec![
            gauge("vllm:num_requests_running", 12.0, 1),
            gauge("vllm:num_requests_waiting", 52.0, 2),
            gauge("vllm:kv_cache_usage_perc", 0.4321, 1),
        ],
        health: serde_json::from_str(r#"{"verdict": "valid", "retries": 0}"#).unwrap(),
        good_percent: Some(16.7),
        gates: gates(&[
            ("time_to_first_token:p99<=200ms", 183.8),
            ("request_latency:p50<=300ms", 356.2),
        ]),
        ..Snapshot::default()
    }
}

/// Gates, each with the value of its statistic.
fn gates(all: &[(&str, f64)]) -> Vec<Judged> {
    let judged = |&(gate, value): &(&str, f64)| {
        let gate: Gate = gate.parse().unwrap();
        let text = gate.to_string();
        let metric = Registry::find(text.split(':').next().unwrap()).unwrap();
        let distribution = Some(Distribution { p50: value, p99: value, ..Distribution::UNKNOWN });
        let stats = Stats { avg: value, instant: None, distribution };
        gate.judge(&Facts {
            results: &[MetricResult { metric, stats }],
            phases: &[],
            steady_state: Err(&Unsteady::UnknownLoad),
            server: None,
            verdict: None,
            load_verdict: None,
            outputs: None,
            finish_reasons: &NameCounts::default(),
            bounds: ClientBounds::default(),
            basis: Basis::default(),
        })
    };
    all.iter().map(judged).collect()
}

/// A run whose server fails and stalls.
fn failing() -> Snapshot {
    let whole = streaming();
    let error = |code, name: &str, count, message: &str| LiveError {
        code,
        name: name.to_owned(),
        count,
        message: message.to_owned(),
    };
    let health: ClientHealth = serde_json::from_value(serde_json::json!({
        "verdict": "suspect",
        "reasons": [{
            "verdict": "suspect",
            "finding": "requests left 31 ms late at p99, 51% of the median time to first token (61 ms)",
            "advice": "raise --workers-max above 1, or lower the rate",
        }],
        "schedule_slip_ms": {"count": 9, "avg": 1.0, "p50": 1.0, "p90": 2.0, "p99": 31.0, "max": 40.0},
    }))
    .unwrap();
    let load = serde_json::json!({
        "verdict": "saturated",
        "offered_rate": 260.0,
        "served_rate": 180.0,
        "queue_slope": {"value": 80.0, "low": 70.0, "high": 90.0},
        "since_seconds": 3.5,
    });
    Snapshot {
        load_health: serde_json::from_value(load).unwrap(),
        member: Some("Run 2 of 5: concurrency_64".to_owned()),
        stage: Stage::Draining,
        is_behind: true,
        silence: Some(Silence { seconds: 3.21, is_unusual: true }),
        statistics: LiveStatistics {
            failed: 3_012,
            cancelled: 17,
            failed_recently: 402,
            errors: vec![
                error(Some(503), "Service Unavailable", 2_990, "the queue is full\x1b[2J, retry"),
                error(None, "ConnectionReset", 20, "connection reset by peer"),
                error(Some(500), "Internal Server Error", 1, &"a long story ".repeat(20)),
                error(Some(429), "Too Many Requests", 1, "slow down"),
            ],
            ..whole.statistics.clone()
        },
        health: Some(health),
        log: (1..=40).map(|line| format!("WARN line {line} of the log")).collect(),
        ..whole
    }
}

/// A run without streaming and without server metrics, before its first response.
fn plain() -> Snapshot {
    let whole = streaming();
    let times = vec![LiveTime {
        recent: None,
        whole: None,
        by_second: Vec::new(),
        ..time(tag::REQUEST_LATENCY, 1.0)
    }];
    let rates = vec![LiveRate {
        recent: None,
        whole: None,
        by_second: Vec::new(),
        ..rate(tag::REQUEST_THROUGHPUT, 1.0)
    }];
    let phase = PhaseStats {
        phase: PhaseKind::Warmup,
        start: Nanos(5_000_000_000),
        now: Nanos(6_500_000_000),
        total_expected_requests: Some(10),
        requests_sent: 1,
        ..PhaseStats::default()
    };
    Snapshot {
        phase: Some(phase),
        phase_name: "warmup".to_owned(),
        silence: Some(Silence { seconds: 1.5, is_unusual: false }),
        statistics: LiveStatistics { rates, times, ..LiveStatistics::default() },
        gauges: Vec::new(),
        health: None,
        ..whole
    }
}

/// A run in which lanes replay the traces of agents.
fn replaying() -> Snapshot {
    let whole = streaming();
    let lanes = LaneLoad {
        lanes: 16,
        conversations: 41,
        depth: Some(2),
        context_tokens: 2_123_456,
        theoretical_hit_percent: Some(96.71),
    };
    let phase = whole.phase.map(|stats| PhaseStats { lanes: Some(lanes), ..stats });
    Snapshot { phase, ..whole }
}

/// The text of a screen, without colours.
fn text(snapshot: &Snapshot, choice: Choice, size: (u16, u16)) -> String {
    let buffer = draw(snapshot, choice, size);
    let rows = buffer.content().chunks(usize::from(size.0).max(1));
    let row = |cells: &[ratatui_core::buffer::Cell]| {
        let row: String = cells.iter().map(ratatui_core::buffer::Cell::symbol).collect();
        format!("|{row}|\n")
    };
    rows.map(row).collect()
}

#[test]
fn each_page_at_each_size() {
    let choice = |page| Choice { page, ..Choice::default() };
    for (columns, rows) in SIZES {
        let at = |name: &str| format!("{name}_{columns}x{rows}");
        let shown = |snapshot: &Snapshot, choice| text(snapshot, choice, (columns, rows));
        insta::assert_snapshot!(at("streaming"), shown(&streaming(), choice(Page::Overview)));
        insta::assert_snapshot!(at("failing"), shown(&failing(), choice(Page::Overview)));
        insta::assert_snapshot!(at("plain"), shown(&plain(), choice(Page::Overview)));
    }
    let smallest = |snapshot: &Snapshot, choice| text(snapshot, choice, SIZES[0]);
    insta::assert_snapshot!("errors", smallest(&failing(), choice(Page::Errors)));
    insta::assert_snapshot!("server", smallest(&failing(), choice(Page::Server)));
    insta::assert_snapshot!("replaying", smallest(&replaying(), choice(Page::Overview)));
    let help = Choice { shows_help: true, is_paused: true, ..Choice::default() };
    insta::assert_snapshot!("help", smallest(&failing(), help));
}

#[test]
fn a_screen_of_any_size_can_be_drawn() {
    for size in [(0, 0), (1, 1), (5, 3), (79, 2), (12, 200), (500, 1)] {
        for page in Page::ALL {
            for snapshot in [Snapshot::default(), streaming(), failing(), plain(), replaying()] {
                let _ = draw(&snapshot, Choice { page, ..Choice::default() }, size);
            }
        }
    }
}

#[test]
fn only_a_terminal_with_colours_gets_them() {
    use ratatui_core::style::Color;
    for has_colour in [false, true] {
        let choice = Choice { has_colour, ..Choice::default() };
        let buffer = draw(&failing(), choice, SIZES[0]);
        assert_eq!(buffer.content().iter().any(|cell| cell.fg != Color::Reset), has_colour);
        assert!(buffer.content().iter().all(|cell| cell.bg == Color::Reset));
    }
}

/// The largest value fills all rows, and a small one has the lowest bar.
#[test]
fn a_chart_has_eight_steps_in_each_row() {
    let values = [Some(9.0), Some(0.0), None, Some(0.1), Some(4.0), Some(5.0), Some(8.0)];
    let chart = |rows| Chart::draw(&values, 6, rows);
    assert_eq!(chart(1).rows, ["▁ ▁▄▅█"]);
    assert_eq!(chart(2).rows, ["    ▂█", "▁ ▁███"]);
    assert_eq!(chart(2).most, Some(8.0));
    assert_eq!(Chart::draw(&[Some(0.0), None], 5, 2).rows, ["  ", "▁ "]);
    let none = Chart::draw(&[], 5, 3);
    assert_eq!((none.rows, none.most), (vec![String::new(); 3], None));
}

#[test]
fn pages_follow_one_another() {
    let pages = [Page::Overview, Page::Errors, Page::Server, Page::Overview];
    assert!(pages.windows(2).all(|pair| pair[0].next() == pair[1]));
}

#[test]
fn durations_are_rounded_up() {
    assert_eq!(duration(11.2), "12 s");
    assert_eq!(duration(200.0), "3 min 20 s");
    assert_eq!(duration(7500.0), "2 h 5 min");
}
