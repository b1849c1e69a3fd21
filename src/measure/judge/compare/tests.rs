use crate::metrics::fixture;
use base::column::Store;
use client::record::{ErrorKind, RequestError};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::*;
use crate::metrics::Verdict;
use crate::metrics::health::{Bound, ClientBounds, ErrorBounds, LoadVerdict, MetricBounds};
use crate::metrics::metric::{Distribution, RecordValues, Stats, Value};
use crate::metrics::metric::{MetricResult, Observation};
use crate::metrics::prefix_cache::{CacheUse, PrefixCache};
use crate::metrics::steady::{SteadyState, Unsteady};

fn plan(gates: &[&str]) -> Plan {
    let gates: Vec<RelativeGate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
    Plan::new(&gates, &[], 0.95, TOLERANCE_PERCENT, 1)
}

fn single(tag: MetricTag, avg: f64) -> MetricResult {
    MetricResult { metric: Registry::row(tag).unwrap(), stats: Stats { avg, ..Stats::default() } }
}

/// Returns a run of `n` requests, one every 10 ms, whose latencies in milliseconds `latency`
/// returns; it fails the requests for which it returns `None`.
fn run(plan: &Plan, n: u64, latency: impl Fn(u64) -> Option<f64>) -> Trial {
    let mut requests = Requests::new(plan, &Store::default());
    let mut sum = (0.0, 0.0);
    // In another order than they started.
    for at in (0..n).rev() {
        let mut values = RecordValues::default();
        let latency = latency(at);
        if let Some(millis) = latency {
            sum = (sum.0 + millis, sum.1 + 1.0);
            values.set(tag::REQUEST_LATENCY, Value::Scalar(millis * 1e6));
        }
        let start_wall_ns = 1_000_000_000 + at * 10_000_000;
        requests.take(&Observation {
            start_wall_ns,
            end_wall_ns: start_wall_ns + 1,
            error: latency
                .is_none()
                .then(|| RequestError::new(ErrorKind::Timeout, "Timeout", "late")),
            values,
            ..fixture::observation()
        });
    }
    let seconds = (n - 1) as f64 * 0.01 + 1e-9;
    let mut mean = single(tag::REQUEST_LATENCY, sum.0 / sum.1);
    mean.stats.distribution = Some(Distribution { p50: sum.0 / sum.1, ..Distribution::UNKNOWN });
    let results = vec![
        mean,
        single(tag::REQUEST_THROUGHPUT, sum.1 / seconds),
        single(tag::REQUEST_ERROR_RATE, 100.0 * (n as f64 - sum.1) / n as f64),
        single(tag::BENCHMARK_DURATION, seconds),
    ];
    Trial {
        results,
        steady_state: Err(Unsteady::UnknownLoad),
        time_breakdown: None,
        prefix_cache: None,
        outputs: None,
        bounds: ClientBounds::default(),
        requested_rate: None,
        long_run: None,
        requests,
    }
}

/// Returns latencies of about `mean`, with a seed.
fn noisy(mean: f64, seed: u64) -> impl Fn(u64) -> Option<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let noise: Vec<f64> = (0..2000).map(|_| random.random_range(-5.0..5.0)).collect();
    move |at| Some(mean + noise[at as usize])
}

fn side(trials: Vec<Trial>) -> Side {
    Side { trials, verdict: Some(Verdict::Valid), load_verdict: None, failure: None }
}

fn row<'a>(compared: &'a Compared, metric: &str, statistic: &str) -> &'a Row {
    let mut rows = compared.rows.iter();
    rows.find(|row| row.metric.name() == metric && row.statistic == statistic).unwrap()
}

/// Compares runs with these mean latencies, whose noise is the same if `seeds` are equal.
fn compare_with(seeds: [u64; 2], gates: &[&str], base: f64, new: f64) -> Compared {
    let plan = plan(gates);
    let side_with = |mean, seed| side(vec![run(&plan, 400, noisy(mean, seed))]);
    plan.compare(&side_with(base, seeds[0]), &side_with(new, seeds[1]))
}

fn compare(gates: &[&str], base: f64, new: f64) -> Compared {
    compare_with([1, 2], gates, base, new)
}

#[test]
fn latencies_of_a_saturated_load_decide_nothing() {
    let plan = plan(&[]);
    let side_with = |mean, seed, load_verdict| Side {
        load_verdict: Some(load_verdict),
        ..side(vec![run(&plan, 400, noisy(mean, seed))])
    };
    let sustained = side_with(100.0, 1, LoadVerdict::Sustained);
    let compared = plan.compare(&sustained, &side_with(110.0, 2, LoadVerdict::Saturated));
    let latency = row(&compared, "request_latency", "avg");
    assert_eq!(latency.finding, Finding::CannotTell);
    let note = latency.note.as_deref().unwrap();
    assert_eq!(note, "NEW: the load is saturated, so latencies depend on the length of the run");
    assert_eq!(row(&compared, "request_throughput", "avg").finding, Finding::NoDifference);
    let compared = plan.compare(&sustained, &side_with(110.0, 2, LoadVerdict::NotStationary));
    assert_eq!(row(&compared, "request_latency", "avg").finding, Finding::Regression);
}

/// Returns what decides if so many of 2,000 outputs of each side have `fault`.
fn compare_outputs(fault: &str, counts: [u64; 2]) -> (Conclusion, Vec<String>) {
    let plan = plan(&[]);
    let [base, new] = counts.map(|count| {
        let mut trial = run(&plan, 400, noisy(100.0, 1));
        let faults = json!([{"fault": fault, "count": count, "first": 0, "is_reason": false}]);
        let health = json!({"outputs": 2000, "corrupted_outputs": 0, "faults": faults});
        trial.outputs = Some(serde_json::from_value(health).unwrap());
        side(vec![trial])
    });
    let compared = plan.compare(&base, &new);
    (compared.outcome, compared.outputs.iter().map(OutputRow::sentence).collect())
}

#[test]
fn corrupt_outputs_of_one_side_are_a_regression() {
    // 4 are more than a model has by itself, 3 are not. Of 4 on one side, 1/16 would be there by chance.
    let (outcome, sentences) = compare_outputs("repetition", [0, 4]);
    assert_eq!(outcome, Conclusion::Regression);
    let sentence = "NEW: 4 of 2000 outputs repeat the same text until their end; BASE: 0 of 2000.";
    assert_eq!(sentences, [sentence]);
    assert_eq!(compare_outputs("repetition", [0, 3]).0, Conclusion::NoRegression);
    // Of 6, 5 or more would be in NEW in 7 of 64 cases by chance.
    assert_eq!(compare_outputs("repetition", [1, 5]).0, Conclusion::NoRegression);
    // By scipy.stats.binom.sf(new - 1, 4 + new, 0.5): 0.0013 for 19, 0.0008 for 20.
    assert_eq!(compare_outputs("repetition", [4, 19]).0, Conclusion::NoRegression);
    assert_eq!(compare_outputs("repetition", [4, 20]).0, Conclusion::Regression);
    assert_eq!(compare_outputs("repetition", [4, 0]).0, Conclusion::NoRegression);
    assert_eq!(compare_outputs("crosstalk", [0, 1]).0, Conclusion::Regression);
}

#[test]
fn a_difference_that_chance_does_not_explain_decides() {
    let same = compare(&[], 100.0, 100.0);
    assert_eq!(same.outcome, Conclusion::NoRegression, "{same:#?}");
    assert_eq!(same.method, Method::Batches);
    let slower = compare(&[], 100.0, 103.0);
    assert_eq!(slower.outcome, Conclusion::Regression);
    let latency = row(&slower, "request_latency", "avg");
    let [low, high] = latency.interval.unwrap();
    assert!(0.0 < low && low < 3.0 && 3.0 < high + 0.5, "{latency:?}");
    assert_eq!(latency.finding, Finding::Regression);
    assert_eq!(row(&slower, "request_throughput", "avg").finding, Finding::NoDifference);
    let faster = compare(&[], 100.0, 97.0);
    assert_eq!(faster.outcome, Conclusion::NoRegression);
    assert_eq!(row(&faster, "request_latency", "avg").finding, Finding::Improvement);
    // Bonferroni over latency, throughput and error rate, the deciding rows that the runs have.
    assert!((same.interval_level - (1.0 - 0.05 / 3.0)).abs() < 1e-12, "{}", same.interval_level);
    assert!(!row(&same, "request_latency", "p50").decides);
}

#[test]
fn a_late_client_makes_no_difference() {
    let plan = plan(&[]);
    let compared = |base_above, new_below| {
        let side_with = |mean, seed, below, above| {
            let bound = Bound { below, above, ..Bound::default() };
            let latency = MetricBounds { count: 400, avg: bound, ..MetricBounds::default() };
            let latencies =
                Some(ErrorBounds { request_latency: Some(latency), ..ErrorBounds::default() });
            let bounds = ClientBounds { latencies, rates: None };
            side(vec![Trial { bounds, ..run(&plan, 400, noisy(mean, seed)) }])
        };
        plan.compare(&side_with(100.0, 1, 0.5, base_above), &side_with(103.0, 2, new_below, 0.25))
    };
    assert_eq!(compared(0.0, 0.0).outcome, Conclusion::Regression);
    // BASE may be up to 1 ms higher, and NEW up to 4 ms lower.
    let unknown = compared(1.0, 4.0);
    assert_eq!(unknown.outcome, Conclusion::CannotTell);
    let found = row(&unknown, "request_latency", "avg");
    assert_eq!(found.client_errors, Some([[0.5, 1.0], [4.0, 0.25]]));
    assert_eq!(
        (found.finding, found.note.as_deref()),
        (Finding::CannotTell, Some(finding::LATE_CLIENTS))
    );
    assert_eq!(row(&unknown, "request_throughput", "avg").client_errors, None);
}

#[test]
fn a_gate_permits_a_difference() {
    let gate = ["request_latency<=5%"];
    let finding = |gates: &[&str], new| {
        let compared = compare_with([1, 1], gates, 100.0, new);
        (compared.outcome, row(&compared, "request_latency", "avg").finding)
    };
    assert_eq!(finding(&gate, 103.0), (Conclusion::NoRegression, Finding::WithinGate));
    assert_eq!(finding(&gate, 108.0), (Conclusion::Regression, Finding::Regression));
    assert_eq!(finding(&gate, 90.0), (Conclusion::NoRegression, Finding::Improvement));
    // The interval contains the limit: neither of both is shown.
    assert_eq!(finding(&gate, 104.9), (Conclusion::CannotTell, Finding::CannotTell));
    // Only the metric of the gate decides.
    let throughput = compare(&["request_throughput>=-5%"], 100.0, 150.0);
    assert_eq!(throughput.outcome, Conclusion::NoRegression);
    assert_eq!(throughput.interval_level, 0.95);
}

#[test]
fn too_little_data_is_never_a_pass() {
    let plan_of = |gates: &[&str]| plan(gates);
    let few = plan_of(&[]);
    let short = side(vec![run(&few, 49, noisy(100.0, 1))]);
    let long = side(vec![run(&few, 400, noisy(100.0, 1))]);
    let compared = few.compare(&long, &short);
    assert_eq!(compared.outcome, Conclusion::CannotTell);
    let note = row(&compared, "request_latency", "avg").note.clone().unwrap();
    assert_eq!(note, "NEW: 49 requests, at least 50 required");
    let p99 = plan_of(&["request_latency:p99<=10%"]);
    let compared = p99.compare(
        &side(vec![run(&p99, 367, noisy(100.0, 1))]),
        &side(vec![run(&p99, 400, noisy(100.0, 2))]),
    );
    assert_eq!(compared.outcome, Conclusion::CannotTell);
    let note = compared.rows[0].note.clone().unwrap();
    assert_eq!(note, "BASE: 367 requests, at least 368 required for p99");
    let missing = plan_of(&["time_to_first_token<=5%"]);
    assert_eq!(missing.compare(&long, &long).outcome, Conclusion::CannotTell);
    for (verdict, failure) in [(Some(Verdict::Invalid), None), (None, Some("cancelled".to_owned()))]
    {
        let doubtful = Side { verdict, failure, ..long.clone() };
        assert_eq!(few.compare(&long, &doubtful).outcome, Conclusion::CannotTell);
        assert_eq!(few.compare(&doubtful, &long).outcome, Conclusion::CannotTell);
    }
    assert_eq!(few.compare(&Side::default(), &Side::default()).outcome, Conclusion::CannotTell);
}

#[test]
fn failures_are_an_error_rate_and_lower_the_throughput() {
    let plan = plan(&[]);
    let good = side(vec![run(&plan, 1000, noisy(100.0, 1))]);
    let bad = side(vec![run(&plan, 1000, |at| Some(100.0).filter(|_| at % 10 != 0))]);
    let compared = plan.compare(&good, &bad);
    assert_eq!(compared.outcome, Conclusion::Regression);
    let rate = row(&compared, "request_error_rate", "avg");
    assert_eq!((rate.base, rate.new, rate.difference_percent), (Some(0.0), Some(10.0), None));
    assert_eq!(rate.finding, Finding::Regression);
    let throughput = row(&compared, "request_throughput", "avg");
    assert!((throughput.base.unwrap() - 100.0).abs() < 1e-9, "{throughput:?}");
    assert!((throughput.difference_percent.unwrap() + 10.0).abs() < 1e-9, "{throughput:?}");
    assert_eq!(throughput.finding, Finding::Regression);
}

#[test]
fn three_runs_on_each_side_are_compared_by_their_means() {
    let plan = plan(&["request_latency<=100%"]);
    let of =
        |means: [f64; 3]| side(means.iter().map(|mean| run(&plan, 60, |_| Some(*mean))).collect());
    let compared = plan.compare(&of([10.0, 12.0, 14.0]), &of([20.0, 21.0, 25.0]));
    assert_eq!(compared.method, Method::Welch);
    let [low, high] = row(&compared, "request_latency", "avg").interval.unwrap();
    // By hand: means 12 and 22; variances of the means 4/3 and 7/3, relative to the squares of the means
    // 1/108 and 7/1452, together 0.014080; 0.014080² / ((1/108)²/2 + (7/1452)²/2) = 3.6385 degrees:
    // scipy.stats.t.ppf(0.975, 3.6385) = 2.888703. The logarithm of the ratio is known to t √0.014080.
    let half = 2.888_702_724_189_979 * (1.0_f64 / 108.0 + 7.0 / 1452.0).sqrt();
    let ends = [22.0 * (-half).exp() - 12.0, 22.0 * half.exp() - 12.0];
    assert!((low - ends[0]).abs() < 1e-9 && (high - ends[1]).abs() < 1e-9, "{low} {high}");
    let two = side(of([1.0, 2.0, 3.0]).trials.split_off(1));
    assert_eq!(plan.compare(&of([1.0, 2.0, 3.0]), &two).method, Method::Batches);
}

#[test]
fn limits_are_relative_and_have_a_direction() {
    let error = |text: &str| text.parse::<RelativeGate>().unwrap_err().to_string();
    for good in [
        "request_throughput:avg>=-5%",
        "ttft:p99<10%",
        "request_error_rate<=0%",
        "goodput > -1 %",
        "steady:ttft:p50<=5%",
    ] {
        let gate: RelativeGate = good.parse().unwrap();
        assert_eq!(gate.to_string(), good);
    }
    for (wrong, why) in [
        ("request_throughput", "is not a limit on a difference"),
        ("request_throughput>=-5", "is not a limit on a difference"),
        ("request_throughput>=-5ms", "is not a limit on a difference"),
        ("request_throughput<=5%", "write request_throughput>=-5%"),
        ("request_throughput>=5%", "write request_throughput>=-5%"),
        ("request_latency>=-5%", "write request_latency<=5%"),
        ("request_latency==5%", "write request_latency<=5%"),
        ("request_latency:max<=5%", "cannot be compared"),
        ("request_count>=-5%", "cannot be compared"),
        ("request_latencies<=5%", "did you mean request_latency"),
    ] {
        assert!(error(wrong).contains(why), "{wrong}: {}", error(wrong));
    }
}

#[test]
fn the_steady_state_is_compared_by_its_own_requests() {
    let gates = ["steady:request_latency<=5%", "steady:request_throughput>=-5%"];
    let plan = plan(&gates);
    // Of 400 requests, one every 10 ms, the first 100 take 500 ms and the others 100 ms. They are
    // said to end 1 ns after their start.
    let side_with = |seed| {
        let noise = noisy(100.0, seed);
        run(&plan, 400, |at| noise(at).map(|latency| latency + if at < 100 { 400.0 } else { 0.0 }))
    };
    let unsteady = plan.compare(&side(vec![side_with(1)]), &side(vec![side_with(2)]));
    assert_eq!(unsteady.outcome, Conclusion::CannotTell);
    let note = unsteady.rows[0].note.clone().unwrap();
    assert_eq!(note, "BASE does not have a steady state: the configured load is not known");
    // From the 101st request on for 2 s: the starts of requests 100 to 300, the ends of 100 to 299.
    let steady = |trial: Trial| Trial {
        steady_state: Ok(SteadyState {
            start_ns: 2_000_000_000,
            end_ns: 4_000_000_000,
            request_count: 201,
            request_share: 0.5,
            littles_law_residual_percent: None,
            request_throughput_half_width: None,
            results: Vec::new(),
        }),
        ..trial
    };
    let compared =
        plan.compare(&side(vec![steady(side_with(1))]), &side(vec![steady(side_with(1))]));
    assert_eq!(compared.outcome, Conclusion::NoRegression, "{compared:#?}");
    let [latency, throughput] = [&compared.rows[0], &compared.rows[1]];
    assert_eq!((latency.name().as_str(), latency.is_steady), ("steady:request_latency", true));
    let noise = noisy(100.0, 1);
    let expected = (100..=300).filter_map(noise).sum::<f64>() / 201.0;
    assert!((latency.base.unwrap() - expected).abs() < 1e-9, "{latency:?}");
    // 200 ends in 2 s.
    assert!((throughput.base.unwrap() - 100.0).abs() < 1e-9, "{throughput:?}");
}

#[test]
fn a_difference_within_the_tolerance_is_none() {
    let finding = |new: f64, tolerance: f64| {
        let plan = Plan::new(&[], &[], 0.95, tolerance, 1);
        let side_with = |mean, seed| side(vec![run(&plan, 400, noisy(mean, seed))]);
        let compared = plan.compare(&side_with(100.0, 1), &side_with(new, 1));
        let row = row(&compared, "request_latency", "avg").clone();
        (row.finding, row.needed, compared.outcome)
    };
    // The noise is the same; the interval is about ±0.5%.
    assert_eq!(finding(101.0, 2.0), (Finding::NoDifference, None, Conclusion::NoRegression));
    assert_eq!(finding(101.0, 0.3).0, Finding::Regression);
    assert_eq!(finding(99.0, 0.3).0, Finding::Improvement);
    let (found, needed, outcome) = finding(100.0, 0.4);
    assert_eq!((found, outcome), (Finding::Undecided, Conclusion::NoRegression));
    assert!(matches!(needed, Some(Needed::Requests(401..))), "{needed:?}");
    // Beyond the tolerance, but not by much.
    assert_eq!(finding(101.9, 2.0).0, Finding::Undecided);
}

#[test]
fn needed_amounts_are_rounded_up() {
    assert_eq!(finding::round_up(2501.0), Some(2600));
    assert_eq!(finding::round_up(2600.0), Some(2600));
    assert_eq!(finding::round_up(99.5), Some(100));
    assert_eq!(finding::round_up(7.2), Some(8));
    assert_eq!(finding::round_up(f64::INFINITY), None);
}

#[test]
fn every_row_that_is_planned_can_be_computed() {
    let planned = plan(&[]);
    assert_eq!(planned.measures.len(), DECIDING.len() + SHOWN.len());
}

#[test]
fn members_that_differ_have_a_path() {
    let found = differences(
        &json!({"a": {"b": 1, "c": [1, 2], "same": true}, "gone": "x", "list": [{"n": 1}, 2]}),
        &json!({"a": {"b": 2, "c": [1], "same": true}, "more": {"d": 3}, "list": [{"n": 4}, 2]}),
    );
    let shown: Vec<String> =
        found.iter().map(|one| format!("{} {} {}", one.path, one.base, one.new)).collect();
    assert_eq!(
        shown,
        ["a.b 1 2", "a.c [1,2] [1]", r#"gone "x" null"#, "list[0].n 1 4", "more.d null 3"]
    );
}

/// Returns a run whose server read `cached` of the prompt tokens from its cache, of which the prompts explain
/// `expected`.
fn with_cache(trial: Trial, [cached, expected]: [f64; 2]) -> Trial {
    let total = CacheUse {
        requests: 400,
        prompt_tokens: 1e5,
        expected_ratio: expected,
        expected_most_ratio: expected + 0.02,
        cached_ratio: Some(cached),
        ..CacheUse::default()
    };
    let cache = PrefixCache {
        block_bytes: 64,
        total,
        server: None,
        prefill: None,
        by_turn: Vec::new(),
        by_prefix: Vec::new(),
    };
    Trial { prefix_cache: Some(cache), ..trial }
}

#[test]
fn a_difference_that_the_cache_explains_is_not_told() {
    let plan = plan(&[]);
    let latency =
        |mean: f64, cache, seed| side(vec![with_cache(run(&plan, 400, noisy(mean, seed)), cache)]);
    let compare = |base, new, mean| {
        let compared = plan.compare(&latency(100.0, base, 1), &latency(mean, new, 2));
        let row = row(&compared, "request_latency", "avg");
        (row.finding, row.note.clone().unwrap_or_default())
    };
    let cold = [0.0, 0.0];
    assert_eq!(compare(cold, cold, 50.0).0, Finding::Improvement);
    let (finding, why) = compare(cold, [0.96, 0.0], 50.0);
    assert_eq!(finding, Finding::CannotTell);
    assert!(why.contains("0.0% of the prompt tokens of BASE and 96.0% of those of NEW"), "{why}");
    assert!(why.contains("--reset-kv-cache"), "{why}");
    // It may hide that NEW is slower.
    assert_eq!(compare(cold, [0.96, 0.0], 100.0).0, Finding::CannotTell);
    // It is slower although its cache was warmer.
    assert_eq!(compare(cold, [0.96, 0.0], 150.0).0, Finding::Regression);
    assert_eq!(compare([0.96, 0.0], cold, 150.0).0, Finding::CannotTell);
    assert_eq!(compare([0.96, 0.0], cold, 50.0).0, Finding::Improvement);
    // Both were as warm.
    assert_eq!(compare([0.96, 0.0], [0.95, 0.0], 50.0).0, Finding::Improvement);
    // The same prompts, of which one server caches more.
    assert_eq!(compare([0.1, 0.9], [0.9, 0.9], 50.0).0, Finding::Improvement);
    let (finding, why) = compare(cold, [0.9, 0.9], 50.0);
    assert_eq!(finding, Finding::CannotTell);
    assert!(why.contains("since its prompts repeat 0.0% and 90.0% of each other"), "{why}");
}

#[test]
fn failures_are_told_whatever_was_cached() {
    let plan = plan(&[]);
    let fails = |failing: bool| move |at: u64| (!failing || at.is_multiple_of(2)).then_some(100.0);
    let base = side(vec![with_cache(run(&plan, 400, fails(false)), [0.0, 0.0])]);
    let new = side(vec![with_cache(run(&plan, 400, fails(true)), [0.9, 0.0])]);
    let compared = plan.compare(&base, &new);
    assert_eq!(row(&compared, "request_error_rate", "avg").finding, Finding::Regression);
}
