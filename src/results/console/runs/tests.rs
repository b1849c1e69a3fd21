use std::path::PathBuf;

use serde_json::json;
use uuid::Uuid;

use measure::metrics::metric::{Distribution, MetricResult, Stats};
use measure::multi_run::evidence::Evidence;
use measure::multi_run::filter::Comparison;
use measure::multi_run::limit::{Level, Next, Standing};
use measure::multi_run::recipe::Recipe;
use measure::multi_run::search::{Config, History, Point, Tried};
use measure::multi_run::{self, Dimension, Failure, Load, Member, Variation, aggregate, sweep};

use super::search::*;
use super::*;

/// A load with 1,000 requests that are all good, or half of them.
fn level(load: Load, is_feasible: bool) -> Level {
    let mean = if is_feasible { 0.0 } else { 0.5 };
    let good = Evidence { mean, weight: 1000.0, requests: 1000 };
    let success = Evidence { mean: 0.0, weight: 1.0, requests: 0 };
    let evidence = vec![good, success];
    Level { load, runs: 1, is_believed: true, can_repeat: true, evidence }
}

fn history(points: &[(u64, f64, bool)]) -> History {
    let point = |(index, (concurrency, goodput, is_feasible)): (u64, &(u64, f64, bool))| Point {
        variation: Variation::of_search(index, Load::Concurrency(*concurrency).values()),
        observed: vec![(Some(if *is_feasible { 1.0 } else { 0.5 }), *is_feasible)],
        is_feasible: *is_feasible,
        verdict: None,
        error: None,
        tried: Tried {
            load: Load::Concurrency(*concurrency),
            objective: Some(*goodput),
            few: vec![false],
            level: level(Load::Concurrency(*concurrency), *is_feasible),
            standing: Standing::CannotTell,
            pace: Some((2.0, 100.0)),
        },
    };
    let range =
        Range { dimension: Dimension::Concurrency, min: 1.0, max: 8.0, warmup_follows: true };
    let config =
        Config { recipe: Recipe::MaxGoodput, range, objective: tag::GOODPUT, slos: Vec::new() };
    let filters = vec![Filter::new(tag::GOOD_REQUEST_FRACTION, "avg", Comparison::AtLeast, 0.95)];
    let mut found = History {
        filters,
        points: (0..).zip(points).map(point).collect(),
        ..History::new(&config, &sweep::Config::default())
    };
    found.judge();
    found
}

#[test]
fn a_search_says_what_it_found() {
    let mut found = history(&[(1, 10.0, true), (2, 19.5, true), (3, 12.0, false)]);
    assert_eq!(
        conclusion(&found),
        "Maximum Goodput: 19.50 requests/s at concurrency 2; Good requests 100.0% (0.00% to \
         0.37% of requests violate it) (required: Good requests at least 95.0%). The limit is \
         between 2 and 3 (95% interval)."
    );
    let table = render_search(&found, Style::FILE);
    let best = table.lines().find(|line| line.contains("best")).unwrap();
    assert!(best.contains("19.50") && best.contains("search_iter_0001"), "{table}");
    let line = render_point(&found, &found.points[2]);
    assert_eq!(line, "At concurrency 3: Goodput 12.00 requests/s, Good requests 50.0% (missed)\n");
    found.config.recipe = Recipe::MaxConcurrency;
    let text = conclusion(&found);
    assert!(text.starts_with("Highest concurrency: 2, with Goodput 19.50"), "{text}");
    let all = conclusion(&history(&[(8, 80.0, true)]));
    assert!(all.contains(" concurrency 8, the highest load"), "{all}");
    let none = conclusion(&history(&[(1, 1.0, false)]));
    assert!(none.starts_with("No load") && none.contains("the lowest load to try"), "{none}");
    let nothing = render_search(&history(&[]), Style::FILE);
    assert!(nothing.contains("interrupted"), "{nothing}");
    let open = history(&[(2, 10.0, true), (8, 12.0, false)]);
    let text = conclusion(&open);
    let more =
        "between 2 and 8 (95% interval). To narrow it takes about 3 more runs, 6 s; continue";
    assert!(text.contains(more), "{text}");
}

#[test]
fn a_limit_that_cannot_be_told_says_what_would_tell_it() {
    let mut found = history(&[(1, 10.0, true), (2, 12.0, false)]);
    found.points[1].tried.level.evidence[0] = Evidence { mean: 0.07, weight: 200.0, requests: 200 };
    found.points[1].tried.level.can_repeat = false;
    found.judge();
    // The lower end was tested and is met, so this is an answer.
    assert!(found.is_told());
    let text = conclusion(&found);
    let limit = "at least 1; between 1 and 2, but how much higher it is cannot be told with 95%";
    assert!(text.contains(limit), "{text}");
    // Of n requests, 0.07 n - 2 count, and the chance of 0.625% is 2.5 standard deviations of
    // 0.218 √n: 0.02 n - 2 = 0.545 √n for n = 924 by the normal approximation.
    let (_, rest) = text.split_once("about ").unwrap();
    let needed: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((800..=1300).contains(&needed), "{text}");
    assert!(text.contains(&format!("use --request-count {needed}")), "{text}");
}

#[test]
fn what_an_invalid_client_misses_does_not_count() {
    let mut found = history(&[(1, 10.0, true), (2, 12.0, false)]);
    found.points[1].verdict = Some(Verdict::Invalid);
    found.points[1].tried.level =
        Level { is_believed: false, ..found.points[1].tried.level.clone() };
    found.judge();
    assert_eq!(found.next(), Ok(Next::Again(Load::Concurrency(2))));
    found.points[1].tried.level.can_repeat = false;
    found.judge();
    let text = conclusion(&found);
    assert!(text.contains("The limit is at least 1; between 1 and 2, but"), "{text}");
    assert!(
        text.contains("At concurrency 2 the client was invalid in all runs (1), so a missed"),
        "{text}"
    );
}

/// Returns the result of a run with these values of all metrics in the table.
fn run(variation: &Variation, throughput: f64, latency: f64) -> RunResult {
    let unknown = Failure::Client(String::new());
    let member = Member::new(Uuid::nil(), 0, Some(variation.clone()));
    let result = |tag, avg: f64| {
        let distribution = Distribution { p50: avg, p99: 4.0 * avg, ..Distribution::default() };
        let stats = Stats { avg, instant: None, distribution: Some(distribution) };
        MetricResult { metric: Registry::row(tag).unwrap(), stats }
    };
    RunResult {
        failure: None,
        results: vec![
            result(tag::REQUEST_THROUGHPUT, throughput),
            result(tag::OUTPUT_TOKEN_THROUGHPUT, 128.0 * throughput),
            result(tag::GOODPUT, 0.9 * throughput),
            result(tag::TIME_TO_FIRST_TOKEN, latency),
            result(tag::INTER_TOKEN_LATENCY, latency / 10.0),
            result(tag::ERROR_REQUEST_COUNT, 3.0),
        ],
        steady_results: vec![result(tag::REQUEST_THROUGHPUT, 1.02 * throughput)],
        verdict: Some(Verdict::Invalid),
        ..RunResult::failed(member, PathBuf::new(), unknown)
    }
}

fn swept() -> Results {
    let path = "phases.profiling.concurrency".to_owned();
    let concurrency = sweep::Parameter { name: "concurrency".to_owned(), path };
    let sweep = sweep::Config { parameters: vec![concurrency], ..sweep::Config::default() };
    let cells = (0..3_u64).map(|index| {
        let variation = sweep.cell(index, &[json!(10_u64.pow(index as u32))]);
        let mut trials = Trials::new(multi_run::Config::default(), Uuid::nil());
        let latency = 21.5 * 3.0_f64.powi(index as i32);
        trials.add(run(&variation, 35.87 * (index + 1) as f64, latency));
        (variation, trials)
    });
    let cells: Vec<_> = cells.collect();
    Results::from_cells(&multi_run::Config::default(), &sweep, Uuid::nil(), cells)
}

#[test]
fn a_sweep_fits_into_80_columns_without_its_spare_columns() {
    let results = swept();
    let rendered = |width| render_sweep(&results, Style { width, colour: false });
    let narrow = rendered(80);
    assert!(narrow.contains("Left out for lack of width: Steady requests/s"), "{narrow}");
    let wide = rendered(140);
    let known = cells::of_sweep(&results).columns;
    let mut known = known.iter().filter(|column| !column.is_detail);
    assert!(known.all(|column| wide.contains(&*column.name)), "{wide}");
    assert!(!wide.contains("Left out"), "{wide}");
}

/// A sweep, its statistics over runs, and a search.
#[test]
fn the_tables_of_runs_at_four_widths() {
    let found = history(&[(1, 10.0, true), (2, 19.5, true), (3, 12.0, false)]);
    let swept = swept();
    let trials = &swept.cells[0].trials;
    let rows = aggregate::rows(trials);
    let shown = [60, 80, 100, 160].map(|width| {
        let style = Style { width, colour: false };
        let sweep = render_sweep(&swept, style);
        let over_runs = table(trials, &rows, 1, style);
        let search = render_search(&found, style);
        let is_screen = |text: &str| width < 80 || text.lines().count() <= 24;
        assert!(is_screen(&sweep) && is_screen(&search), "{width}\n{sweep}{search}");
        let text = format!("{sweep}{over_runs}{search}");
        assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
        format!("{width} columns\n{text}")
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn levels_have_no_digits_too_many() {
    assert_eq!([0.95, 0.995, 0.5, 0.9].map(percent), ["95", "99.5", "50", "90"]);
}
