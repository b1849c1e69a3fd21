use serde_json::json;
use uuid::Uuid;

use measure::metrics::Registry;
use measure::metrics::metric::{Distribution, MetricResult, Stats};
use measure::multi_run::evidence::Evidence;
use measure::multi_run::filter::Comparison as Operator;
use measure::multi_run::sweep::{Config, Parameter};
use measure::multi_run::{self, Member, Variation};

use super::*;
use crate::report::chart::{Chart, MarkedAxis, Shape};

const CONCURRENCY: &str = "phases.profiling.concurrency";
const OSL: &str = "datasets.main.prompts.osl.mean";

fn parameter(name: &str, path: &str) -> Parameter {
    Parameter { name: name.to_owned(), path: path.to_owned() }
}

/// A run with this throughput, and this p99 of the time to first token.
fn run(variation: &Variation, trial: u64, throughput: f64, latency: f64) -> RunResult {
    let result = |tag, avg: f64, p99: f64| {
        let distribution = Distribution { p50: avg, p99, ..Distribution::default() };
        let stats = Stats { avg, instant: None, distribution: Some(distribution) };
        MetricResult { metric: Registry::row(tag).unwrap(), stats }
    };
    let member = Member::new(Uuid::nil(), trial, Some(variation.clone()));
    let failure = measure::multi_run::Failure::Client(String::new());
    // A run whose requests are late beyond the limit misses it, of 5000 requests.
    let share = if latency > 200.0 { 0.5 } else { 0.0 };
    let evidence = Evidence { mean: share, weight: 5000.0, requests: 5000 };
    RunResult {
        failure: None,
        results: vec![
            result(tag::REQUEST_THROUGHPUT, throughput, throughput),
            result(tag::OUTPUT_TOKEN_THROUGHPUT, 10.0 * throughput, 10.0 * throughput),
            result(tag::TIME_TO_FIRST_TOKEN, latency / 2.0, latency),
        ],
        evidence: vec![Some(evidence)],
        ..RunResult::failed(member, PathBuf::from("nowhere"), failure)
    }
}

/// The sweep over `cells`: their values, the throughput of each run, and the latency.
fn swept(
    parameters: Vec<Parameter>,
    cells: &[(&[u64], &[f64], f64)],
    filters: Vec<Filter>,
) -> Comparison {
    let sweep = Config { parameters, filters, ..Config::default() };
    let runs = cells.iter().map(|(_, throughputs, _)| throughputs.len() as u64).max().unwrap_or(1);
    let config =
        multi_run::Config { runs, sweep: Some(sweep.clone()), ..multi_run::Config::default() };
    let cells = (0..).zip(cells).map(|(index, (values, throughputs, latency))| {
        let values: Vec<Value> = values.iter().map(|value| json!(value)).collect();
        let variation = sweep.cell(index, &values);
        let mut trials = Trials::new(config.clone(), Uuid::nil());
        let runs = (0..).zip(*throughputs);
        trials.runs = runs.map(|(at, it)| run(&variation, at, *it, *latency)).collect();
        (variation, trials)
    });
    Comparison::of_sweep(
        Path::new("nowhere"),
        &Results::from_cells(&config, &sweep, Uuid::nil(), cells),
    )
}

/// A sweep over the concurrency in no order, with an objective of 200 ms.
fn with_objective() -> Comparison {
    let objective = Filter::new(tag::TIME_TO_FIRST_TOKEN, "p99", Operator::AtMost, 200.0);
    swept(
        vec![parameter("concurrency", CONCURRENCY)],
        &[
            (&[8], &[79.0, 81.0, 83.0], 150.0),
            (&[1], &[10.0, 10.0, 10.0], 20.0),
            (&[16], &[84.0, 84.0, 84.0], 400.0),
            (&[4], &[78.0, 80.0, 82.0], 60.0),
        ],
        vec![objective],
    )
}

fn chart<'a>(charts: &'a [Chart], name: &str) -> &'a Chart {
    charts.iter().find(|chart| chart.name == name).unwrap()
}

#[test]
fn cells_are_joined_by_load_and_named_by_their_setting() {
    let comparison = with_objective();
    let charts = comparison.choices();
    let choice = chart(&charts, "output_throughput_by_latency");
    let [series] = choice.series.as_slice() else { panic!("{choice:?}") };
    assert_eq!(series.shape, Shape::Line);
    assert_eq!(series.labels, ["1", "4", "8", "16"]);
    let points: Vec<_> = series.points.iter().map(|point| (point.x, point.y.unwrap())).collect();
    assert_eq!(points, [(20.0, 100.0), (60.0, 800.0), (150.0, 810.0), (400.0, 840.0)]);
    // 4.3027 (t of 2 degrees) times 2 / √3, ten times as much in tokens.
    let half = 10.0 * 4.302_652_729_749_462 * 2.0 / 3.0_f64.sqrt();
    let interval = series.intervals[1].unwrap();
    assert!(
        (interval.low - (800.0 - half)).abs() < 1e-9
            && (interval.high - (800.0 + half)).abs() < 1e-9
    );
    let [objective] = choice.marks.as_slice() else { panic!("{choice:?}") };
    assert_eq!(
        (objective.on, objective.at, &*objective.label),
        (MarkedAxis::X, 200.0, "objective")
    );
    let curves = comparison.curves();
    let throughput = chart(&curves, "request_throughput_by_cell");
    let places: Vec<f64> = throughput.series[0].points.iter().map(|point| point.x).collect();
    assert_eq!(places, [1.0, 4.0, 8.0, 16.0]);
    assert_eq!(throughput.series[0].named, [0_usize; 0]);
    let [limit] = throughput.marks.as_slice() else { panic!("{throughput:?}") };
    assert_eq!((limit.on, limit.text("")), (MarkedAxis::X, "limit 8 (8 to 16)".to_owned()));
    let latency = chart(&curves, "time_to_first_token_by_cell");
    assert!(
        latency.marks.iter().any(|mark| mark.text("ms") == "p99 objective 200 ms"),
        "{latency:?}"
    );
}

#[test]
fn the_answer_is_above_the_figures() {
    let page = with_objective().document().unwrap();
    let answer = &page.notices[0];
    assert_eq!(answer.level, Level::Good);
    assert_eq!(
        answer.text,
        "The highest concurrency that meets the objectives is 8 (95% interval: 8 to 16): Time to first \
         token p99 at most 200.00 ms."
    );
    assert_eq!(
        page.facts[0],
        ("Objectives", "Time to first token p99 at most 200.00 ms".to_owned())
    );
    // It is not repeated.
    let [throughput, ..] = page.figures.as_slice() else { panic!("{:?}", page.figures) };
    // 81 at 8 is the highest that meets the objective, but cannot be told from 80 at 4.
    assert_eq!((&*throughput.title, throughput.value), ("Highest requests/s", 80.0));
    assert_eq!(
        throughput.detail,
        "at concurrency 4, 75.0 to 85.0 (95%); 4 and 8 cannot be told apart"
    );
}

#[test]
fn the_table_has_a_row_for_each_cell() {
    let page = with_objective().document().unwrap();
    let table = page.sections.iter().flat_map(|section| &section.tables).next().unwrap();
    assert_eq!(table.columns[..3], ["concurrency", "Requests/s", "Requests/s, 95% interval"]);
    let column = |name: &str| {
        let at = table.columns.iter().position(|column| column == name).unwrap();
        table.rows.iter().map(|row| row[at].clone()).collect::<Vec<_>>()
    };
    assert_eq!(column("concurrency"), [1, 4, 8, 16].map(|value| json!(value)));
    assert_eq!(column("TTFT p99 (ms)"), [20.0, 60.0, 150.0, 400.0].map(|value| json!(value)));
    assert_eq!(column(&table.columns[2])[1], json!("75.0 to 85.0"));
    assert_eq!(column("Feasible"), ["yes", "yes", "yes", "no"].map(|it| json!(it)));
}

#[test]
fn each_combination_of_other_settings_has_a_line() {
    let cells: [(&[u64], &[f64], f64); 4] = [
        (&[64, 1], &[10.0], 20.0),
        (&[64, 4], &[30.0], 30.0),
        (&[8, 4], &[60.0], 25.0),
        (&[8, 1], &[20.0], 15.0),
    ];
    let parameters = vec![parameter("osl", OSL), parameter("concurrency", CONCURRENCY)];
    let comparison = swept(parameters, &cells, Vec::new());
    let charts = comparison.trade_offs();
    let chart = chart(&charts, "time_to_first_token_by_throughput");
    let lines: Vec<(&str, &[String])> =
        chart.series.iter().map(|series| (&*series.name, &*series.labels)).collect();
    let one_and_four = ["1", "4"].map(str::to_owned);
    assert_eq!(lines[..2], [("osl 8", &one_and_four[..]), ("osl 64", &one_and_four[..])]);
    assert_eq!(comparison.cells[0].name, "osl 8, concurrency 1");
}

#[test]
fn sweeps_of_the_same_setting_are_lines_of_the_same_charts() {
    let one = |throughput: f64| {
        let cells: [(&[u64], &[f64], f64); 2] =
            [(&[4], &[4.0 * throughput], 30.0), (&[1], &[throughput], 20.0)];
        swept(vec![parameter("concurrency", CONCURRENCY)], &cells, Vec::new())
    };
    let mut both = Comparison::of_others();
    both.join("old", one(10.0));
    both.join("new", one(20.0));
    let charts = both.trade_offs();
    let trade_off = chart(&charts, "time_to_first_token_by_throughput");
    let lines: Vec<(&str, Vec<f64>)> = (trade_off.series.iter())
        .map(|series| (&*series.name, series.points.iter().map(|point| point.x).collect()))
        .collect();
    assert_eq!(lines, [("old", vec![10.0, 40.0]), ("new", vec![20.0, 80.0])]);
    let curves = both.curves();
    let names = chart(&curves, "time_to_first_token_by_cell").series.iter();
    let names: Vec<&str> = names.map(|series| &*series.name).collect();
    assert_eq!(names, ["old, p50", "new, p50", "old, p99", "new, p99"]);
}

#[test]
fn the_knee_is_marked_by_its_load_and_its_throughput() {
    let range = measure::multi_run::Range {
        dimension: measure::multi_run::Dimension::Concurrency,
        min: 1.0,
        max: 8.0,
        warmup_follows: true,
    };
    let sweep = Config {
        parameters: vec![parameter("concurrency", CONCURRENCY)],
        choice: sweep::Choice::Knee(range),
        ..Config::default()
    };
    let config = multi_run::Config { sweep: Some(sweep.clone()), ..multi_run::Config::default() };
    // 20 requests/s for each until 4, of which each has 10 tokens.
    let loads = [(1, 20.0), (2, 40.0), (4, 80.0), (8, 80.0)];
    let cells = (0..).zip(loads).map(|(index, (load, throughput))| {
        let variation = sweep.cell(index, &[json!(load)]);
        let mut trials = Trials::new(config.clone(), Uuid::nil());
        let estimate = base::statistics::Estimate { value: throughput, half_width: 1.0 };
        let run = run(&variation, 0, throughput, 20.0 + f64::from(load));
        trials.runs.push(RunResult { throughput: Ok(estimate), ..run });
        (variation, trials)
    });
    let results = Results::from_cells(&config, &sweep, Uuid::nil(), cells);
    let comparison = Comparison::of_sweep(Path::new("nowhere"), &results);
    let curves = comparison.curves();
    let [knee] = chart(&curves, "request_throughput_by_cell").marks.as_slice() else { panic!() };
    assert_eq!((knee.on, knee.at), (MarkedAxis::X, 4.0));
    let choices = comparison.choices();
    let chart = chart(&choices, "output_throughput_by_latency");
    let [knee] = chart.marks.as_slice() else { panic!("{chart:?}") };
    // 80 ± 1 / √2 requests/s, from two loads.
    assert_eq!((knee.on, knee.at), (MarkedAxis::Y, 800.0));
    let interval = knee.interval.unwrap();
    assert!((interval.high - 800.0 - 10.0 / 2.0_f64.sqrt()).abs() < 1e-9, "{interval:?}");
}

#[test]
fn the_front_of_interactivity_has_the_cells_that_no_other_beats_in_both_rates() {
    let mut comparison = swept(
        vec![parameter("concurrency", CONCURRENCY)],
        &[(&[1], &[10.0], 1.0), (&[4], &[30.0], 1.0), (&[8], &[20.0], 1.0), (&[16], &[50.0], 1.0)],
        Vec::new(),
    );
    // The rates of a user. The third cell is below the second in both, and the last one has the
    // highest throughput.
    for (cell, user) in comparison.cells.iter_mut().zip([100.0, 80.0, 70.0, 20.0]) {
        let metric = Registry::row(tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER).unwrap();
        let mut row = cell.row(tag::REQUEST_THROUGHPUT, "avg").unwrap().clone();
        (row.metric, row.across.mean) = (metric, user);
        cell.rows.push(row);
    }
    let charts = comparison.choices();
    let front = chart(&charts, "output_throughput_by_interactivity").series.last().unwrap();
    let points: Vec<_> = front.points.iter().map(|point| (point.x, point.y.unwrap())).collect();
    assert_eq!(
        (&*front.name, front.labels.as_slice()),
        ("Pareto front", ["16", "4", "1"].map(str::to_owned).as_slice())
    );
    assert_eq!(points, [(20.0, 500.0), (80.0, 300.0), (100.0, 100.0)]);
}

#[test]
fn scenarios_are_called_by_their_names_and_are_not_joined_by_load() {
    let parameters = vec![parameter("concurrency", CONCURRENCY), parameter("osl", OSL)];
    let sweep = Config { parameters, has_scenarios: true, ..Config::default() };
    let config = multi_run::Config { sweep: Some(sweep.clone()), ..multi_run::Config::default() };
    let scenarios =
        [("chat", 4, Some(64), 20.0), ("search", 1, Some(8), 30.0), ("v2", 2, None, 10.0)];
    let cells = (0..).zip(scenarios).map(|(index, (name, load, osl, throughput))| {
        let mut values = serde_json::Map::new();
        values.insert(CONCURRENCY.to_owned(), json!(load));
        values.extend(osl.map(|osl| (OSL.to_owned(), json!(osl))));
        let variation = Variation::named(index, name, values);
        let mut trials = Trials::new(config.clone(), Uuid::nil());
        trials.runs.push(run(&variation, 0, throughput, 2.0 * throughput));
        (variation, trials)
    });
    let results = Results::from_cells(&config, &sweep, Uuid::nil(), cells);
    let comparison = Comparison::of_sweep(Path::new("nowhere"), &results);
    let charts = comparison.trade_offs();
    let [series, ..] = &chart(&charts, "time_to_first_token_by_throughput").series[..] else {
        panic!("{charts:?}")
    };
    assert_eq!(series.shape, Shape::Points);
    assert_eq!(series.labels, ["chat", "search", "v2"]);
    let table = comparison.table();
    assert_eq!(
        table.columns[..3].iter().map(|it| &*it.name).collect::<Vec<_>>(),
        ["scenario", "concurrency", "osl"]
    );
    let first: Vec<String> =
        table.rows.iter().map(|row| row[0].shown(tables::Content::Label)).collect();
    assert_eq!(first, ["chat", "search", "v2"]);
}

#[test]
fn values_that_do_not_vary_are_not_a_trade_off() {
    let of = |cells: &[(&[u64], &[f64], f64)]| {
        let comparison = swept(vec![parameter("concurrency", CONCURRENCY)], cells, Vec::new());
        let names =
            |charts: Vec<Chart>| charts.into_iter().map(|chart| chart.name).collect::<Vec<_>>();
        names([comparison.choices(), comparison.trade_offs()].concat())
    };
    let both = ["output_throughput_by_latency", "time_to_first_token_by_throughput"];
    assert_eq!(of(&[(&[1], &[10.0], 20.0), (&[2], &[20.0], 30.0)]), both);
    assert_eq!(of(&[(&[1], &[10.0], 20.0), (&[2], &[20.0], 20.0)]), [""; 0]);
    assert_eq!(of(&[(&[1], &[10.0], 20.0)]), [""; 0]);
    // Runs of one load differ by chance.
    let mut trials = Trials::new(multi_run::Config::default(), Uuid::nil());
    let variation = Variation::named(0, "", serde_json::Map::new());
    trials.runs = (0..).zip([10.0, 20.0]).map(|(at, it)| run(&variation, at, it, it)).collect();
    let comparison = Comparison::of_trials(Path::new("nowhere"), &trials);
    assert!(comparison.choices().is_empty() && comparison.trade_offs().is_empty());
    assert!(!comparison.curves().is_empty());
}

#[test]
fn what_a_request_must_meet_is_a_line() {
    let mut comparison = with_objective();
    comparison.objectives.clear();
    comparison.of_requests = vec![Objective { tag: tag::TIME_TO_FIRST_TOKEN, threshold: 150.0 }];
    let choices = comparison.choices();
    let [limit] = &chart(&choices, "output_throughput_by_latency").marks[..] else {
        panic!("{choices:?}")
    };
    let said = limit.text("ms");
    assert_eq!((limit.on, &*said), (MarkedAxis::X, "objective of each request 150 ms"));
    let curves = comparison.curves();
    let latency = chart(&curves, "time_to_first_token_by_cell");
    assert!(latency.marks.iter().any(|mark| mark.on == MarkedAxis::Y && mark.at == 150.0));
    let throughput = chart(&curves, "request_throughput_by_cell");
    assert!(throughput.marks.iter().all(|mark| mark.on == MarkedAxis::X), "{throughput:?}");
}
