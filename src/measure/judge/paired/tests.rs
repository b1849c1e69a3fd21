use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, StandardNormal};

use base::column::Store;
use base::statistics::simulation;

use super::*;
use crate::judge::compare::{Conclusion, Finding, Requests};
use crate::judge::gate::RelativeGate;
use crate::metrics::Registry;
use crate::metrics::health::ClientBounds;
use crate::metrics::metric::{MetricResult, Stats};
use crate::metrics::steady::Unsteady;
use crate::metrics::tag::{self, MetricTag};

fn plan(gates: &[&str], tolerance_percent: f64) -> Plan {
    let gates: Vec<RelativeGate> = gates.iter().map(|gate| gate.parse().unwrap()).collect();
    Plan::new(&gates, &[], 0.95, tolerance_percent, 1)
}

/// A block with these results.
fn block(plan: &Plan, results: &[(MetricTag, f64)]) -> Trial {
    let result = |(tag, avg): &(MetricTag, f64)| MetricResult {
        metric: Registry::row(*tag).unwrap(),
        stats: Stats { avg: *avg, ..Stats::default() },
    };
    Trial {
        results: results.iter().map(result).collect(),
        steady_state: Err(Unsteady::UnknownLoad),
        time_breakdown: None,
        prefix_cache: None,
        outputs: None,
        bounds: ClientBounds::default(),
        requested_rate: None,
        long_run: None,
        requests: Requests::new(plan, &Store::default()),
    }
}

/// A machine that other programs keep busy: what it does to both blocks of a pair, what it does to each,
/// and how often it doubles the times of a block.
#[derive(Clone, Copy)]
struct Noise {
    common: f64,
    own: f64,
    stalls: f64,
}

const BUSY: Noise = Noise { common: 0.1, own: 0.03, stalls: 0.02 };

/// Returns blocks of servers of which the second takes `slower` times as long.
fn blocks(plan: &Plan, noise: Noise, slower: f64, pairs: usize, seed: u64) -> Vec<[Trial; 2]> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut normal = move || -> (f64, f64) {
        (StandardNormal.sample(&mut random), random.random_range(0.0..1.0))
    };
    let mut block_of = |common: f64, slower: f64| {
        let (_, stalls) = normal();
        let stalled = if stalls < noise.stalls { 2.0 } else { 1.0 };
        let mut time = |mean: f64| {
            let (own, _) = normal();
            mean * slower * stalled * (noise.common * common + noise.own * own).exp()
        };
        let (ttft, itl, latency) = (time(50.0), time(10.0), time(500.0));
        block(
            plan,
            &[
                (tag::TIME_TO_FIRST_TOKEN, ttft),
                (tag::INTER_TOKEN_LATENCY, itl),
                (tag::REQUEST_LATENCY, latency),
                (tag::REQUEST_THROUGHPUT, 8000.0 / latency),
                (tag::REQUEST_ERROR_RATE, 0.0),
            ],
        )
    };
    let mut drift = ChaCha8Rng::seed_from_u64(!seed);
    (0..pairs)
        .map(|_| {
            let common: f64 = StandardNormal.sample(&mut drift);
            [block_of(common, 1.0), block_of(common, slower)]
        })
        .collect()
}

/// Looks after each pair until it is decided; returns the number of pairs, and the comparison.
fn until_decided(paired: &mut Paired, noise: Noise, slower: f64, seed: u64) -> (usize, Compared) {
    let most = paired.max_pairs;
    let blocks = blocks(&paired.plan, noise, slower, most, seed);
    let pairs: Vec<[&Trial; 2]> = blocks.iter().map(|[base, new]| [base, new]).collect();
    let looks: Vec<usize> = (1..=most).filter(|count| paired.is_look(*count)).collect();
    for count in looks {
        let look = paired.look(&pairs[..count], None);
        if look.decision == Decision::Decided {
            return (count, look.compared);
        }
    }
    panic!("not decided after {most} pairs");
}

fn has(compared: &Compared, finding: Finding) -> bool {
    compared.rows.iter().any(|row| row.decides && row.finding == finding)
}

#[test]
fn a_slower_server_is_found_and_the_same_is_not() {
    let quiet = Noise { common: 0.1, own: 0.01, stalls: 0.02 };
    let mut paired = Paired::new(plan(&["request_latency<=2%"], 2.0), 40);
    let (pairs, compared) = until_decided(&mut paired, quiet, 1.05, 1);
    assert!(pairs < 40, "{pairs}");
    assert_eq!((compared.outcome, compared.method), (Conclusion::Regression, Method::Paired));
    let row = &compared.rows[0];
    let [low, high] = row.interval_percent.unwrap();
    assert!(low > 0.0 && low < 5.0 && high > 5.0, "{row:?}");
    assert!((row.difference_percent.unwrap() - 5.0).abs() < 2.0, "{row:?}");
    let (pairs, compared) = until_decided(&mut paired, quiet, 1.0, 2);
    assert!(pairs < 40, "{pairs}");
    assert_eq!(compared.rows[0].finding, Finding::WithinGate);
}

#[test]
fn few_pairs_decide_nothing() {
    let plan = plan(&[], 2.0);
    let blocks = blocks(&plan, BUSY, 2.0, 8, 1);
    let pairs: Vec<[&Trial; 2]> = blocks.iter().map(|[base, new]| [base, new]).collect();
    let mut paired = Paired::new(plan.clone(), 40);
    for count in 0..=7 {
        let look = paired.look(&pairs[..count], None);
        assert!(matches!(look.decision, Decision::Continue(_)), "{count}");
        assert!(!has(&look.compared, Finding::Regression), "{count}");
    }
    // At the end, the comparison is that of the pairs that there are.
    let mut short = Paired::new(plan, 8);
    assert_eq!(short.look(&pairs, None).decision, Decision::Decided);
    let look = short.look(&pairs, Some("NEW: client health is invalid".to_owned()));
    assert_eq!(look.compared.outcome, Conclusion::CannotTell);
}

#[test]
fn pairs_that_are_needed_are_estimated() {
    let plan = plan(&["request_latency<=2%"], 2.0);
    let blocks = blocks(&plan, BUSY, 1.0, 200, 3);
    let pairs: Vec<[&Trial; 2]> = blocks.iter().map(|[base, new]| [base, new]).collect();
    let mut paired = Paired::new(plan, 200);
    let look = paired.look(&pairs[..60], None);
    let Decision::Continue(Some(needed)) = look.decision else { panic!("{look:?}") };
    assert!((61..=200).contains(&needed), "{needed}");
    assert_eq!(look.compared.rows[0].needed, Some(Needed::Pairs(needed)));
}

#[test]
fn shares_are_compared_by_differences() {
    let plan = plan(&[], 2.0);
    let rate = |percent: f64| block(&plan, &[(tag::REQUEST_ERROR_RATE, percent)]);
    let blocks: Vec<[Trial; 2]> =
        (0..20).map(|at| [rate(0.0), rate(10.0 + f64::from(at % 3))]).collect();
    let pairs: Vec<[&Trial; 2]> = blocks.iter().map(|[base, new]| [base, new]).collect();
    let look = Paired::new(plan.clone(), 20).look(&pairs, None);
    let row = &look.compared.rows[0];
    assert_eq!((row.finding, row.difference_percent), (Finding::Regression, None));
    assert!((row.difference.unwrap() - 10.95).abs() < 1e-9, "{row:?}");
}

/// Of 40 with a true share of 5%, more than 6 have a probability of 0.3%.
#[test]
fn looking_again_and_again_finds_nothing_that_is_not_there() {
    let mut paired = Paired::new(plan(&["request_latency<=2%"], 2.0), 30);
    let noise = Noise { own: 0.02, ..BUSY };
    let found = (0..40).filter(|seed| {
        let (_, compared) = until_decided(&mut paired, noise, 1.0, *seed);
        has(&compared, Finding::Regression) || has(&compared, Finding::Improvement)
    });
    let found = found.count();
    assert!(found <= 6, "{found}");
}

/// Prints the table of `docs/decisions/comparing.md`.
#[test]
fn how_many_pairs_tell() {
    println!(
        "| noise | truth | tolerance | at most | regression | improvement | no difference | pairs: median, 90% |"
    );
    let calm = Noise { common: 0.05, own: 0.01, stalls: 0.0 };
    let wild = Noise { common: 0.15, own: 0.03, stalls: 0.05 };
    for (slower, tolerance, most, runs) in
        [(1.0, 2.0, 100, 200), (1.05, 2.0, 100, 100), (1.05, 2.0, 60, 100), (1.01, 0.5, 300, 20)]
    {
        for (name, noise) in [("calm", calm), ("busy", BUSY), ("busier", wild)] {
            let is_short = simulation::runs(runs) < runs;
            let runs = simulation::runs(runs);
            // All pairs take half a minute without optimization.
            let most = if is_short { most.min(40) } else { most };
            let mut paired = Paired::new(plan(&[], tolerance), most);
            let mut counts = [0; 3];
            let mut needed = Vec::new();
            for seed in 0..runs {
                let (pairs, compared) = until_decided(&mut paired, noise, slower, 10_000 + seed);
                counts[0] += usize::from(has(&compared, Finding::Regression));
                counts[1] += usize::from(has(&compared, Finding::Improvement));
                let all = compared.rows.iter().filter(|row| row.decides);
                let is_same = |row: &Row| row.finding == Finding::NoDifference;
                counts[2] += usize::from(all.into_iter().all(is_same));
                needed.push(pairs);
            }
            needed.sort_unstable();
            let at = |share: usize| needed[needed.len() * share / 100];
            println!(
                "| {name} | +{:.0}% | {tolerance}% | {most} | {} of {runs} | {} | {} | {}, {} |",
                (slower - 1.0) * 100.0,
                counts[0],
                counts[1],
                counts[2],
                at(50),
                at(90)
            );
            let is_same = slower == 1.0;
            let wrong = if is_same { counts[0] + counts[1] } else { counts[1] };
            assert!(wrong <= simulation::most_of(runs, 0.05), "{name}, {slower}: {counts:?}");
        }
    }
}
