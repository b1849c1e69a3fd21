//! The command line as users write it.

use std::ffi::OsString;
use std::fs;

use aiperf::cli::{CliError, Command, command, parse_with};
use aiperf::config::aiperf::flags;
use aiperf::config::{
    Benchmark, Cell, ConnectionReuse, Environment, IpVersion, LogLevel, RunConfig, Ui, WaitMode,
};
use base::units::Nanos;
use client::endpoint::EndpointType;
use client::schedule::PhaseKind;
use client::schedule::config::{
    ArrivalPattern, Cancellation, Limit, LoadPattern, Rate, StopCondition, UseOfTimestamps, Zero,
};
use client::transport::SocketOptions;
use dataset::{Length, Source};
use measure::multi_run::space::Direction;
use measure::multi_run::sweep::Choice;
use measure::multi_run::{Dimension, Filter, Load};
use results::report::plot::AutoPlot;
use results::run::setup::Setup;
use serde_json::json;
use tokens::tokenizer;

use crate::support::raw_server;

mod agentic;
mod gpu;
mod scenario;
mod server_metrics;
mod shown;

fn parse_in(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Command, CliError> {
    let lookup = |name: &str| {
        variables
            .iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| (*value).to_owned())
    };
    let arguments = ["aiperf"].iter().chain(arguments).map(OsString::from);
    parse_with(arguments, Environment::new(&lookup))
}

/// Returns what `aiperf profile --model m <flags>` performs; flags are separated by spaces.
fn benchmark(flags: &str) -> Benchmark {
    let arguments: Vec<&str> =
        "profile --model m".split(' ').chain(flags.split_whitespace()).collect();
    match parse_in(&arguments, &[]) {
        Ok(Command::Profile(benchmark)) => *benchmark,
        other => panic!("{flags}: {other:?}"),
    }
}

/// Returns the configuration of `aiperf profile --model m <flags>`, or of its first cell.
fn profile(flags: &str) -> RunConfig {
    benchmark(flags).config
}

/// Returns the error of `aiperf profile --model m <flags>`.
fn refusal(flags: &str) -> String {
    refusal_with(flags, 2)
}

/// The same with this exit code.
fn refusal_with(flags: &str, code: u8) -> String {
    let arguments: Vec<&str> =
        "profile --model m".split(' ').chain(flags.split_whitespace()).collect();
    let error = parse_in(&arguments, &[]).unwrap_err();
    assert_eq!(error.exit_code(), code, "{flags}");
    error.to_string()
}

/// Every flag of AIPerf 0.13's `profile`.
fn aiperf_flags() -> impl Iterator<Item = &'static str> {
    let list = include_str!("../golden/aiperf-0.13/profile_flags.txt");
    list.split_whitespace().filter(|word| word.starts_with('-'))
}

#[test]
fn every_flag_of_aiperf_is_ours_refused_or_accepted() {
    let mut command = command();
    command.build();
    let profile = command.find_subcommand("profile").unwrap();
    let is_ours = |flag: &str| {
        profile.get_arguments().any(|argument| {
            let long = argument.get_long_and_visible_aliases().unwrap_or_default();
            let short = argument.get_short().map(|letter| format!("-{letter}"));
            short.as_deref() == Some(flag) || long.iter().any(|name| format!("--{name}") == flag)
        })
    };
    // `-vv` is the same as `-v` twice.
    for flag in aiperf_flags().filter(|flag| *flag != "-vv") {
        let is_refused = flags::refused().any(|(refused, _)| refused == flag);
        assert!(
            is_ours(flag) != is_refused,
            "{flag}: ours {}, refused {is_refused}",
            is_ours(flag)
        );
    }
    for (flag, _) in flags::refused() {
        assert!(aiperf_flags().any(|known| known == flag), "{flag} is not AIPerf's");
    }
}

#[test]
fn flags_that_are_not_there_yet_are_refused_with_a_sentence() {
    assert_eq!(
        refusal("--zmq-host x"),
        "error: --zmq-host is an AIPerf flag that aiperf does not support: aiperf is a single process"
    );
    for flags in ["--wandb-tag x", "--search-sla-tier=x", "--zmq-ipc-path x"] {
        assert!(refusal(flags).contains("does not support"), "{flags}");
    }
    assert!(refusal("--public-dataset weka_hf").contains("with --hf-weka-dataset"));
    assert!(refusal("--public-dataset x").contains("`aiperf dataset list` lists them"));
    assert!(refusal("--workers-max 1,2").contains("--variant"));
    for (flags, why) in [
        ("--random-range-ratio 0.5 --isl 9", "--osl"),
        ("--random-range-ratio 0.5 --isl 9 --osl 9 --isl-stddev 1", "cannot be used with"),
        ("--random-range-ratio 1 --isl 9 --osl 9", "at least 0 and below 1, got 1"),
        ("--random-range-ratio x --isl 9 --osl 9", "expected a ratio"),
        ("--prompt-corpus verse", "sonnet"),
        ("--export-outputs-json --profile-export-prefix outputs", "choose another prefix"),
    ] {
        assert!(refusal(flags).contains(why), "{flags}: {}", refusal(flags));
    }
    assert!(refusal("--no-such-flag").contains("--no-such-flag"));
    assert!(refusal("--connection-reuse-strategy often").contains("sticky-user-sessions"));
}

#[test]
fn many_runs_and_what_is_the_same_in_them() {
    let config = profile("--num-profile-runs 5 --profile-run-cooldown-seconds 1.5");
    assert_eq!((config.multi_run.runs, config.multi_run.confidence_level), (5, 0.95));
    assert_eq!(config.multi_run.cooldown, Nanos(1_500_000_000));
    assert_eq!(config.dataset.random_seed, None);
    let recorded = serde_json::to_value(&config).unwrap();
    assert_eq!(recorded["multi_run"]["runs"], 5);
    assert_eq!(recorded["multi_run"]["cooldown"], 1_500_000_000);
    let given = profile("--num-profile-runs 2 --random-seed 7 --vary-seed-per-trial");
    assert_eq!(given.dataset.random_seed, Some(7));
    assert!(given.multi_run.varies_seed && !given.multi_run.repeats_warmup);
    for (flags, seed, varies) in [
        ("", None, true),
        ("--no-set-consistent-seed", None, true),
        ("--random-seed 7", Some(7), true),
        ("--vary-seed-per-trial", Some(42), true),
        ("--set-consistent-seed", Some(42), false),
        ("--no-vary-seed-per-trial", Some(42), false),
        ("--set-consistent-seed --random-seed 7", Some(7), false),
    ] {
        let config = profile(&format!("--num-profile-runs 2 {flags}"));
        let found = (config.dataset.random_seed, config.multi_run.varies_seed);
        assert_eq!(found, (seed, varies), "{flags}");
    }
    assert_eq!(profile("--num-profile-runs 1").dataset.random_seed, None);
    profile("--no-vary-seed-per-trial");
    for wrong in ["0", "11", "-1", "1.5", "x", "1,2"] {
        let said = refusal(&format!("--num-profile-runs {wrong}"));
        assert!(said.contains("--num-profile-runs"), "{wrong}: {said}");
    }
    for wrong in ["0", "1", "95", "nan"] {
        let said = refusal(&format!("--num-profile-runs 2 --confidence-level {wrong}"));
        assert!(said.contains("--confidence-level"), "{wrong}: {said}");
    }
    for alone in [
        "--profile-run-cooldown-seconds 1",
        "--confidence-level 0.9",
        "--set-consistent-seed",
        "--no-set-consistent-seed",
        "--vary-seed-per-trial",
        "--profile-run-disable-warmup-after-first",
        "--no-profile-run-disable-warmup-after-first",
    ] {
        assert!(refusal(alone).contains("--num-profile-runs 2 or more"), "{alone}");
    }
    let shard = "--num-profile-runs 2 --random-seed 1 --start-at 1795273445";
    assert!(refusal(shard).contains("--start-at: cannot be combined with several runs"));
    assert!(
        refusal(&format!("{shard} --shard 0/2 --concurrency 2"))
            .contains("--shard: cannot be combined")
    );
}

#[test]
fn a_sweep_has_a_configuration_for_each_cell() {
    let Benchmark { config, cells, .. } =
        benchmark("--concurrency 1,2,4 --request-rate 5,inf --num-profile-runs 2");
    let sweep = config.multi_run.sweep.as_ref().unwrap();
    assert_eq!(sweep.parameters[1].path, "phases.profiling.rate");
    let directory = config.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-sweep-concurrency-request_rate");
    assert_eq!(cells.len(), 6);
    let phase = |cell: usize| &cells[cell].config.schedule.phases[0];
    assert_eq!(phase(5).concurrency, Some(Limit::constant(4)));
    assert_eq!(
        (&phase(5).load, cells[5].variation.directory()),
        (&LoadPattern::ClosedLoop, "concurrency_4__rate_inf")
    );
    let seeds = |flags: &str| -> Vec<Option<u64>> {
        benchmark(flags).cells.iter().map(|cell| cell.config.dataset.random_seed).collect()
    };
    assert_eq!(seeds("--isl 1,2,3"), [None; 3]);
    assert_eq!(seeds("--isl 1,2,3 --random-seed 7"), [Some(7); 3]);
    let consistent = "--isl 1,2,3 --set-consistent-seed";
    assert_eq!(seeds(consistent), [Some(42), Some(43), Some(44)]);
    let same = format!("{consistent} --random-seed 7 --parameter-sweep-same-seed");
    assert_eq!(seeds(&same), [Some(7); 3]);
    assert_eq!(seeds("--isl 1,2 --no-set-consistent-seed"), [None; 2]);
    assert_eq!(seeds("--isl 1"), []);
    for (flags, said) in [
        ("--concurrency 1,0", "cell concurrency_0: "),
        ("--concurrency 1,2 --osl-stddev 3", "--osl"),
        ("--prefill-concurrency 1,2", "--streaming"),
        ("--sweep-type zip", "--sweep-type: requires a sweep"),
        ("--resume", "--resume: requires a sweep"),
        ("--concurrency 1,2 --resume --overwrite", "cannot be used with"),
        ("--concurrency 1,2 --resume --export-level summary", "requires the records"),
        (
            "--osl 1,2 --search-recipe max-goodput-under-slo --e2e-sla-ms 5",
            "--search-recipe: cannot",
        ),
        ("--isl 1,2 --sweep-type other", "possible values: grid, zip"),
        ("--isl 1,2 --start-at 1795273445", "cannot be combined with several runs"),
    ] {
        assert!(refusal(flags).contains(said), "{flags}: {}", refusal(flags));
    }
    profile("--no-sweep-table --no-parameter-sweep-same-seed");
}

#[test]
fn a_search_and_what_it_needs() {
    let search = "--search-recipe max-goodput-under-slo --goodput request_latency:100";
    let config = profile(search);
    let sweep = config.multi_run.sweep.clone().unwrap();
    let wanted = sweep.search().unwrap();
    assert_eq!((wanted.range.min, wanted.range.max), (1.0, 1000.0));
    assert_eq!(
        serde_json::to_value(&sweep.filters).unwrap(),
        json!([{"metric_tag": "good_request_fraction", "stat": "avg", "op": "ge", "threshold": 0.95}])
    );
    assert_eq!(config.dataset.random_seed, None);
    let directory = config.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-max_goodput_under_slo");
    // Ten rounds of the sessions in flight; the warmup has them too.
    let warm = profile(&format!("{search} --request-count 30 --warmup-request-count 8"));
    let at = warm.cell_at(0, Load::Concurrency(20)).config;
    let [warmup, measured] = &at.schedule.phases[..] else { panic!() };
    assert_eq!(
        (measured.concurrency, measured.stop.requests),
        (Some(Limit::constant(20)), Some(200))
    );
    assert_eq!((warmup.concurrency, warmup.stop.requests), (Some(Limit::constant(8)), Some(8)));
    assert_eq!(
        // A share of 95% cannot be told of fewer: 0.95^71 is above 2.5%, 0.95^72 is not.
        warm.cell_at(0, Load::Concurrency(2)).config.schedule.phases[1].stop.requests,
        Some(72)
    );
    let own = format!("{search} --warmup-request-count 8 --warmup-concurrency 3");
    let own = profile(&own).cell_at(0, Load::Concurrency(20)).config;
    assert_eq!(own.schedule.phases[0].concurrency, Some(Limit::constant(3)));
    let named = profile(
        "--search-recipe MAX_GOODPUT_UNDER_SLO --ttft-sla-ms 5 --tpot-sla-ms 6 --e2e-sla-ms 7 \
         --streaming --slo-attainment-fraction 1 --concurrency-min 2 --concurrency-max 9",
    );
    let objectives = named.metrics.objectives.iter().map(|o| (o.tag.name(), o.threshold));
    assert_eq!(
        objectives.collect::<Vec<_>>(),
        [("time_to_first_token", 5.0), ("inter_token_latency", 6.0), ("request_latency", 7.0)]
    );
    for (flags, said) in [
        ("--search-recipe max-goodput-under-slo", "--goodput"),
        ("--search-recipe nothing", "max-goodput-under-slo, max-throughput-ttft-sla"),
        ("--concurrency-min 2", "--search-recipe"),
        ("--ttft-sla-ms 2", "--search-recipe"),
    ] {
        assert!(refusal(flags).contains(said), "{flags}: {}", refusal(flags));
    }
    for (flags, said) in [
        ("--concurrency 4", "--concurrency-min and --concurrency-max"),
        ("--request-rate 4", "--request-rate-max to vary the rate"),
        ("--request-rate-max 4 --concurrency-max 4", "cannot be used with"),
        ("--request-rate-max 4 --request-rate 3", "--request-rate-min and --request-rate-max"),
        (
            "--request-rate-max 0.5",
            "--request-rate-min: must be less than --request-rate-max (0.5), got 1",
        ),
        (
            "--request-rate-max 4 --user-centric-rate 2 --num-users 3 --session-turns-mean 2",
            "it varies the request rate",
        ),
        ("--concurrency-min 5 --concurrency-max 5", "must be less than"),
        ("--concurrency-max 16777217", "at most 16777216"),
        ("--slo-attainment-fraction 0", "above 0"),
        ("--slo-attainment-fraction 1.1", "at most 1"),
        ("--e2e-sla-ms 100", "--goodput sets an objective for request_latency too"),
    ] {
        let all = format!("{search} {flags}");
        assert!(refusal(&all).contains(said), "{all}: {}", refusal(&all));
    }
}

#[test]
fn recipes_and_what_they_need() {
    let filters = |flags: &str| -> Vec<String> {
        let sweep = profile(flags).multi_run.sweep.unwrap();
        let text =
            |it: &Filter| format!("{} {} {:?} {}", it.metric, it.statistic, it.op, it.threshold);
        sweep.filters.iter().map(text).collect()
    };
    assert_eq!(
        filters("--search-recipe max-throughput-ttft-sla --ttft-sla-ms 200 --streaming"),
        ["time_to_first_token p95 Below 200"]
    );
    assert_eq!(
        filters(
            "--search-recipe max_concurrency_under_sla --itl-sla-ms 20 --e2e-sla-ms 2s --streaming \
             --error-rate-sla 0.05 --search-sla request_throughput:avg:ge:3"
        ),
        [
            "inter_token_latency p95 Below 20",
            "request_latency p99 Below 2000",
            "request_error_rate avg Below 5",
            "request_throughput avg AtLeast 3"
        ]
    );
    // A list of a sweep may have conditions too.
    assert_eq!(
        filters("--concurrency 1,2 --search-sla request_latency:p99:lt:5"),
        ["request_latency p99 Below 5"]
    );
    let cells = |flags: &str| -> Vec<String> {
        let name = |cell: &Cell| cell.variation.directory().to_owned();
        benchmark(flags).cells.iter().map(name).collect()
    };
    let ramp = cells("--search-recipe concurrency-ramp");
    assert_eq!((ramp.len(), &*ramp[0], &*ramp[7]), (8, "concurrency_1", "concurrency_1000"));
    let grid = "--search-recipe max-concurrency-under-sla --search-style grid --e2e-sla-ms 5 \
                --concurrency-min 2 --concurrency-max 8 --concurrency-steps 3";
    assert_eq!(cells(grid), ["concurrency_2", "concurrency_4", "concurrency_8"]);
    assert_eq!(
        cells("--search-recipe prefill-ttft-curve --streaming --isl-max 1024 --isl-steps 2"),
        ["mean_256", "mean_1024"]
    );
    let decode = "--search-recipe decode-itl-curve --streaming --osl-min 4 --osl-max 8 \
                  --osl-steps 2 --concurrency 1,3";
    assert_eq!(
        cells(decode),
        [
            "mean_4__concurrency_1",
            "mean_4__concurrency_3",
            "mean_8__concurrency_1",
            "mean_8__concurrency_3"
        ]
    );
    let pareto = cells("--search-recipe pareto-sweep --streaming --isl-osl-pairs 128:64,8:4");
    assert_eq!((pareto.len(), &*pareto[9]), (10, "isl_8__osl_4__concurrency_256"));
    for (flags, said) in [
        ("max-throughput-ttft-sla --streaming", "requires --ttft-sla-ms"),
        ("max-throughput-itl-sla --streaming", "requires --itl-sla-ms"),
        ("max-throughput-ttft-sla --ttft-sla-ms 5", "time_to_first_token requires --streaming"),
        ("max-concurrency-under-sla", "requires --ttft-sla-ms, --itl-sla-ms"),
        ("max-concurrency-under-sla --e2e-sla-ms 5 --search-style optuna", "use monotonic"),
        ("max-concurrency-under-sla --e2e-sla-ms 5 --concurrency-steps 3", "does not use it"),
        ("max-concurrency-under-sla --search-sla ttft:p95:lt", "expected METRIC:STATISTIC"),
        ("pareto-sweep --streaming", "requires --isl-osl-pairs"),
        ("prefill-ttft-curve", "time_to_first_token requires --streaming"),
        ("prefill-ttft-curve --streaming --isl 100", "--isl: --search-recipe sets it"),
        ("prefill-ttft-curve --streaming --isl-osl-pairs 1:2,3:4", "--search-recipe sets --isl"),
        ("prefill-ttft-curve --streaming --isl-steps 1", "must be from 2"),
        ("prefill-ttft-curve --streaming --isl-min 5 --isl-max 5", "less than --isl-max (5)"),
        ("concurrency-ramp --degradation-stat mode", "request_latency does not have \"mode\""),
        ("concurrency-ramp --request-rate-max 5", "concurrency-ramp does not use it"),
        ("concurrency-ramp --slo-attainment-fraction 0.5", "does not use it"),
        ("concurrency-ramp --variant a:isl=1 --variant b:isl=2", "cannot be combined with a list"),
    ] {
        let flags = format!("--search-recipe {flags}");
        assert!(refusal(&flags).contains(said), "{flags}: {}", refusal(&flags));
    }
    assert!(refusal("--search-sla request_latency:p99:lt:5").contains("requires a sweep"));
}

#[test]
fn a_search_over_several_settings() {
    let search = "--search-space phases.profiling.concurrency:1,64:int --search-space \
                  isl:100,200 --search-metric request_throughput --streaming";
    let config = profile(search);
    let sweep = config.multi_run.sweep.as_ref().unwrap();
    let Choice::Space(space) = &sweep.choice else { panic!("{sweep:?}") };
    assert_eq!((space.iterations, space.initial, space.seed), (30, 5, 42));
    let paths: Vec<&str> = sweep.parameters.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, ["phases.profiling.concurrency", "datasets.main.prompts.isl.mean"]);
    assert_eq!(space.objectives[0].direction, Direction::Maximize);
    let directory = config.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-search-concurrency-isl");
    let two = profile(&format!(
        "{search} --search-metric ttft --search-stat avg --search-stat p99 --search-random-seed 7"
    ));
    let Choice::Space(space) = two.multi_run.sweep.unwrap().choice else { panic!() };
    assert_eq!(space.objectives[1].direction, Direction::Minimize);
    assert_eq!((space.objectives[1].statistic.as_str(), space.seed), ("p99", 7));
    for (flags, said) in [
        ("--search-space concurrency:1,9", "--search-metric"),
        ("--search-space concurrency:1 --search-metric ttft", "expected PATH:LOWER,UPPER"),
        ("--search-space concurrency:9,1 --search-metric ttft", "must be less than"),
        ("--search-space concurrency:1,9:real --search-metric ttft", "use :int"),
        ("--search-space nothing:1,9 --search-metric ttft", "use one of benchmark-duration"),
        ("--search-space concurrency:0,9 --search-metric request_latency", "at least 1"),
        ("--search-space concurrency:1,9 --search-metric ttft", "requires --streaming"),
        ("--search-space concurrency:1,9 --search-metric goodput", "requires --goodput"),
        ("--search-space concurrency:1,9 --search-metric nothing", "unknown metric"),
        (
            "--search-space concurrency:1,9 --search-metric request_latency --concurrency 3",
            "--search-space varies it",
        ),
        (
            "--search-space concurrency:1,9 --search-metric request_latency --isl 1,2",
            "--search-space: cannot be combined with a list",
        ),
        (
            "--search-space isl:1,9 --search-space isl:1,5 --search-metric request_latency",
            "varies --isl twice",
        ),
        (
            "--search-space isl:1,9 --search-metric request_latency --search-max-iterations 5 \
             --search-initial-points 5",
            "less than the number",
        ),
        (
            "--search-space isl:1,9 --search-metric request_latency --search-planner optuna",
            "bayesian",
        ),
        ("--search-space isl:1,9 --search-metric request_latency --sweep-auto", "cannot be used"),
    ] {
        assert!(refusal(flags).contains(said), "{flags}: {}", refusal(flags));
    }
}

#[test]
fn a_condition_for_enough_runs() {
    use measure::multi_run::convergence::Mode;
    let condition = |flags: &str| {
        let flags = format!("--num-profile-runs 5 --convergence-metric {flags}");
        let found = profile(&flags).multi_run.convergence.unwrap();
        (found.metric.name(), found.statistic, found.mode, found.threshold)
    };
    let named =
        |metric, statistic: &str, mode, threshold| (metric, statistic.to_owned(), mode, threshold);
    assert_eq!(condition("ttft"), named("time_to_first_token", "avg", Mode::CiWidth, 0.1));
    assert_eq!(
        condition("request_latency --convergence-stat p99 --convergence-mode CV"),
        named("request_latency", "p99", Mode::Cv, 0.05)
    );
    let of_latency =
        condition("request_latency --convergence-mode distribution --convergence-threshold 0.2");
    assert_eq!(of_latency, named("request_latency", "avg", Mode::Distribution, 0.2));
    for (flags, said) in [
        ("--convergence-metric ttft", "--num-profile-runs 2 or more"),
        ("--num-profile-runs 2 --convergence-metric ttft", "--num-profile-runs 3 or more"),
        ("--num-profile-runs 3 --convergence-metric nothing", "unknown metric"),
        ("--num-profile-runs 3 --convergence-mode cv", "--convergence-metric"),
        (
            "--num-profile-runs 3 --convergence-metric goodput --convergence-stat p99",
            "goodput does not have \"p99\"",
        ),
        (
            "--num-profile-runs 3 --convergence-metric goodput --convergence-mode distribution",
            "one value per request",
        ),
        (
            "--num-profile-runs 3 --convergence-metric ttft --convergence-mode distribution \
             --convergence-stat p99",
            "distribution compares all values",
        ),
        (
            "--num-profile-runs 3 --convergence-metric ttft --convergence-threshold 1",
            "must be below 1",
        ),
    ] {
        assert!(refusal(flags).contains(said), "{flags}: {}", refusal(flags));
    }
}

#[test]
fn a_sweep_that_chooses_its_loads() {
    let config = profile("--sweep-auto --request-count 30");
    let sweep = config.multi_run.sweep.as_ref().unwrap();
    let Choice::Knee(range) = sweep.choice else { panic!("{sweep:?}") };
    assert_eq!((range.min, range.max), (1.0, 1000.0));
    let directory = config.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-sweep-concurrency");
    // Ten requests of each session, and at least 100.
    let requests = |load| config.cell_at(3, load).config.schedule.phases[0].stop.requests;
    assert_eq!(requests(Load::Concurrency(2)), Some(100));
    assert_eq!(requests(Load::Concurrency(20)), Some(200));
    let cell = config.cell_at(3, Load::Concurrency(20));
    assert_eq!(cell.variation.directory(), "concurrency_20");
    assert_eq!(cell.config.dataset.random_seed, None);
    let consistent = profile("--sweep-auto --request-count 30 --set-consistent-seed");
    let cell = consistent.cell_at(3, Load::Concurrency(20));
    assert_eq!(cell.config.dataset.random_seed, Some(45));
    let flags = "--request-rate-max 50 --set-consistent-seed --parameter-sweep-same-seed";
    let same = profile(&format!("--sweep-auto {flags}"));
    let cell = same.cell_at(3, Load::RequestRate(20.0));
    assert_eq!(cell.variation.directory(), "rate_20.0");
    assert_eq!(cell.config.dataset.random_seed, Some(42));
    for (flags, said) in [
        ("--sweep-auto --concurrency 1,2", "cannot be combined with a list"),
        ("--sweep-auto --concurrency 4", "--sweep-auto sets it; use --concurrency-min"),
        ("--sweep-auto --parameter-sweep-mode repeated", "use independent"),
        ("--sweep-auto --request-rate 4", "--sweep-auto: it varies the concurrency"),
        ("--sweep-auto --concurrency-min 8 --concurrency-max 8", "must be less than"),
    ] {
        assert!(refusal(flags).contains(said), "{flags}: {}", refusal(flags));
    }
}

#[test]
fn a_search_for_a_rate() {
    let search = "--search-recipe max-goodput-under-slo --goodput request_latency:100 \
                  --request-rate-min 0.5 --request-rate-max 40 --arrival-pattern constant";
    let config = profile(&format!("{search} --concurrency 7 --warmup-request-count 8"));
    let sweep = config.multi_run.sweep.clone().unwrap();
    let wanted = sweep.search().unwrap();
    assert_eq!(
        (wanted.range.dimension, wanted.range.min, wanted.range.max),
        (Dimension::RequestRate, 0.5, 40.0)
    );
    let rate = |rate| LoadPattern::Rate(Rate::constant(rate, ArrivalPattern::Constant));
    assert_eq!(config.schedule.phases[1].load, rate(0.5));
    // Five seconds at the rate, still with at most seven in flight; the warmup has the rate too.
    let at = config.cell_at(0, Load::RequestRate(20.0)).config;
    let [warmup, measured] = &at.schedule.phases[..] else { panic!() };
    assert_eq!((&warmup.load, &measured.load), (&rate(20.0), &rate(20.0)));
    assert_eq!((warmup.stop.requests, measured.stop.requests), (Some(8), Some(100)));
    assert_eq!(measured.concurrency, Some(Limit::constant(7)));
    let own = profile(&format!(
        "{search} --warmup-request-count 8 --warmup-request-rate 2 --benchmark-duration 3"
    ));
    let own = own.cell_at(0, Load::RequestRate(20.0)).config;
    let [warmup, measured] = &own.schedule.phases[..] else { panic!() };
    assert_eq!((&warmup.load, &measured.load), (&rate(2.0), &rate(20.0)));
    assert_eq!(measured.stop.requests, None);
}

#[test]
fn switches_for_what_is_never_on_are_accepted() {
    profile(
        "--no-gpu-telemetry --no-auto-plot --no-fixed-schedule --url-strategy round-robin \
         --cache-bust none",
    );
}

#[test]
fn one_value_flags_take_aiperfs_spellings_and_say_what_to_do_instead_of_another() {
    profile("--url-strategy round_robin --request-content-type application/json --transport HTTP");
    assert!(refusal("--request-content-type application-json").contains("application/json"));
    // AIPerf exits with 1 for options that do not fit the endpoint type.
    let form = refusal_with("--request-content-type multipart/form-data", 1);
    let usage = refusal_with(
        "--per-chunk-usage --use-server-token-count --endpoint-type responses --streaming",
        1,
    );
    assert!(usage.contains("use chat or completions"), "{usage}");
    assert!(form.contains("chat requests are always application/json"), "{form}");
}

#[test]
fn switches_take_a_value() {
    assert!(profile("--streaming=true").endpoint.streaming);
    assert!(!profile("--streaming=False").endpoint.streaming);
    let run = profile(
        "--auto-plot=false --no-gpu-telemetry=true --plot-required=no --fixed-schedule=false",
    );
    assert_eq!(run.auto_plot, AutoPlot::Off);
    assert_eq!(profile("--no-auto-plot=false").auto_plot, AutoPlot::On);
    assert_eq!(profile("--auto-plot=true --plot-required=1").auto_plot, AutoPlot::Required);
    let ramp = "--streaming --search-recipe concurrency-ramp";
    assert_eq!(profile(ramp).auto_plot, AutoPlot::On);
    assert_eq!(profile(&format!("{ramp} --no-auto-plot")).auto_plot, AutoPlot::Off);
    assert!(refusal("--uuid-and-strip=true").contains("--uuid-and-strip"));
    assert!(refusal("--streaming=on").contains("--streaming"));
    assert!(refusal("--streaming true").contains("'true'"));
    assert!(refusal("--streaming --streaming=false").contains("--streaming"));
    // The command line is stored unchanged.
    assert!(profile("--streaming=false").cli_command.contains("--streaming=false"));
}

#[test]
fn a_rate_of_inf_sends_all_at_once_or_as_there_is_room() {
    let config = profile("--request-rate inf --request-count 20");
    let phase = &config.schedule.phases[0];
    assert_eq!((&phase.load, phase.concurrency), (&LoadPattern::ClosedLoop, None));
    assert_eq!(phase.stop.requests, Some(20));
    // The name in AIPerf 0.13.
    let directory = config.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-request_rateinf");
    let phase = |flags: &str| profile(flags).schedule.phases[0].clone();
    let capped = phase("--request-rate inf --concurrency 4 --arrival-pattern constant");
    assert_eq!(
        (capped.load, capped.concurrency),
        (LoadPattern::ClosedLoop, Some(Limit::constant(4)))
    );
    assert_eq!(phase("--request-rate Infinity").stop.requests, Some(10));
    let warmup = phase("--request-rate inf --warmup-request-count 3");
    assert_eq!((warmup.concurrency, warmup.stop.requests), (None, Some(3)));
    let warmup = phase("--request-rate 2 --warmup-request-rate inf --warmup-request-count 3");
    assert_eq!((warmup.load, warmup.concurrency), (LoadPattern::ClosedLoop, None));
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = profile(&format!("--request-rate inf --input-file {}", file.path().display()));
    assert_eq!(config.schedule.replay.schedule, UseOfTimestamps::Never);
    for flags in [
        "--request-rate inf --benchmark-duration 5",
        "--request-rate inf --request-rate-ramp-duration 5",
        "--request-rate 5 --warmup-request-rate inf --warmup-duration 5",
        "--request-rate inf --request-count 9 --warmup-duration 5",
        "--warmup-request-rate inf --warmup-request-count 5 --warmup-request-rate-ramp-duration 1",
    ] {
        assert!(refusal(flags).contains("inf"), "{flags}: {}", refusal(flags));
    }
    profile("--request-rate inf --benchmark-duration 5 --concurrency 4");
    assert!(refusal("--request-rate nan").contains("finite"));
    assert!(
        refusal("--user-centric-rate inf --num-users 2 --session-turns-mean 2").contains("finite")
    );
}

#[test]
fn a_prompt_is_generated_for_each_request() {
    let entries = |flags: &str| match profile(flags).dataset.parts.remove(0).source {
        Source::Synthetic(synthetic) => synthetic.entries,
        other => panic!("not synthetic: {other:?}"),
    };
    assert_eq!(entries("--request-count 640 --concurrency 8"), 640);
    assert_eq!(entries("--request-count 640 --warmup-request-count 64"), 704);
    assert_eq!(entries("--request-count 640 --num-sessions 20"), 20);
    assert_eq!(entries("--request-count 640 --num-sessions 20 --num-prompts 7"), 7);
    assert_eq!(entries("--request-count 640 --num-sessions 20 --warmup-request-count 4"), 24);
    assert_eq!(entries("--benchmark-duration 10"), 100);
    assert_eq!(entries("--benchmark-duration 10 --concurrency 300"), 300);
    assert_eq!(entries("--request-count 100000"), 10_000);
    // More are generated while the run goes on, unless their number is given.
    let grows = |flags: &str| profile(flags).dataset.parts[0].grows;
    assert!(grows("--benchmark-duration 10") && grows("--request-count 100000"));
    assert!(!grows("--benchmark-duration 10 --num-dataset-entries 100"));
}

#[test]
fn defaults() {
    let config = profile("");
    assert_eq!(config.endpoint.endpoint_type, EndpointType::CHAT);
    assert!(!config.endpoint.streaming);
    assert_eq!(config.server.urls[0].expose().as_str(), "http://localhost:8000/");
    assert_eq!(config.transport.request_timeout, Nanos(21_600_000_000_000));
    assert_eq!(config.transport.connections.limit, 2500);
    assert_eq!(config.server.wait_for_model.mode, WaitMode::Inference);
    assert!(config.transport.connections.tls.verify && config.transport.quick_ack);
    assert!(config.transport.kernel_timestamps);
    assert_eq!(config.transport.ip_version, IpVersion::V4);
    assert_eq!((config.ui, config.log_level), (Ui::Dashboard, LogLevel::Info));
    assert_eq!(config.artifacts.directory.to_str(), Some("artifacts/m-openai-chat-concurrency1"));
    let Source::Synthetic(synthetic) = &config.dataset.parts[0].source else { panic!() };
    assert_eq!(synthetic.entries, 10);
    assert_eq!(synthetic.input_tokens, Length::exactly(550.0));
    let [phase] = &config.schedule.phases[..] else { panic!() };
    assert_eq!(phase.concurrency, Some(Limit::constant(1)));
    assert_eq!(phase.load, LoadPattern::ClosedLoop);
    assert_eq!(phase.stop.requests, Some(10), "max(10, 2 × 1)");
    assert_eq!(phase.grace_period, Some(Nanos(30_000_000_000)));
}

#[test]
fn load_and_its_end() {
    let phase = |flags| profile(flags).schedule.phases[0].clone();
    assert_eq!(phase("--concurrency 50").stop.requests, Some(100));
    let by_rate = phase("--request-rate 4.5");
    let rate = |rate, pattern| LoadPattern::Rate(Rate::constant(rate, pattern));
    assert_eq!(by_rate.concurrency, None);
    assert_eq!(by_rate.load, rate(4.5, ArrivalPattern::Poisson));
    let gamma = rate(2.0, ArrivalPattern::Gamma { shape: 3.0 });
    assert_eq!(phase("--request-rate 2 --arrival-smoothness 3").load, gamma);
    let constant = phase("--request-rate 2 --request-rate-mode CONSTANT --concurrency 3");
    assert_eq!(constant.load, rate(2.0, ArrivalPattern::Constant));
    assert_eq!(constant.concurrency, Some(Limit::constant(3)));
    assert_eq!(phase("--arrival-pattern concurrency-burst").load, LoadPattern::ClosedLoop);
    let timed = phase("--benchmark-duration 1.5 --benchmark-grace-period inf").stop;
    let expected = StopCondition { duration: Some(Nanos(1_500_000_000)), ..Default::default() };
    assert_eq!(timed, expected);
    assert_eq!(phase("--num-conversations 7").stop.sessions, Some(7));
    let few = profile("--request-count 5 --concurrency 6").warnings;
    assert!(few.iter().any(|text| text.starts_with("--request-count 5 is less than")), "{few:?}");
    let without_effect = profile("--arrival-pattern poisson");
    assert_eq!(without_effect.schedule.phases[0].load, LoadPattern::ClosedLoop);
    assert!(without_effect.warnings.iter().any(|text| text.contains("without --request-rate")));
    assert!(
        refusal("--user-centric-rate 3 --num-users 6 --session-turns-mean 2 --request-count 5")
            .contains("number of users (6)")
    );
    assert!(refusal("--endpoint-type image_retrieval --isl 5").contains("do not contain text"));
    let with_units =
        "--benchmark-duration 1m --benchmark-grace-period 500ms --request-count 100_000";
    let stop = profile(with_units).schedule.phases[0].stop;
    assert_eq!((stop.duration, stop.requests), (Some(Nanos::from_seconds(60.0)), Some(100_000)));
    assert!(refusal("--concurrency 0").contains("at least 1"));
    assert!(refusal("--request-rate -1").contains("--request-rate"));
    assert!(refusal("--request-rate 1e7").contains("--request-rate"));
    // With a rate beyond the range of numbers, all times between requests would be zero.
    assert!(refusal("--request-rate 1e-320").contains("--request-rate"));
    assert!(refusal("--request-rate 1 --arrival-smoothness 1e-320").contains("-smoothness"));
}

#[test]
fn ramps_and_bounds() {
    let seconds = |seconds: f64| Some(Nanos::from_seconds(seconds));
    let config = profile(
        "--streaming --concurrency 20 --concurrency-ramp-duration 4 --prefill-concurrency 5 \
         --prefill-concurrency-ramp-duration 2 --warmup-request-count 8 \
         --warmup-concurrency-ramp-duration 1",
    );
    let [warmup, profiling] = &config.schedule.phases[..] else { panic!() };
    assert_eq!(profiling.concurrency, Some(Limit { most: 20, ramp: seconds(4.0) }));
    assert_eq!(profiling.prefill_concurrency, Some(Limit { most: 5, ramp: seconds(2.0) }));
    assert_eq!(warmup.concurrency, Some(Limit { most: 8, ramp: seconds(1.0) }));
    assert_eq!(warmup.prefill_concurrency, Some(Limit { most: 5, ramp: seconds(2.0) }));
    let config = profile(
        "--request-rate 9 --request-rate-ramp-duration 3 --warmup-duration 2 \
         --warmup-request-rate 4 --warmup-arrival-pattern constant",
    );
    let [warmup, profiling] = &config.schedule.phases[..] else { panic!() };
    let ramped = |rate, pattern| {
        LoadPattern::Rate(Rate { ramp: seconds(3.0), ..Rate::constant(rate, pattern) })
    };
    assert_eq!(profiling.load, ramped(9.0, ArrivalPattern::Poisson));
    assert_eq!(profiling.steady_rate(), None);
    assert_eq!(warmup.load, ramped(4.0, ArrivalPattern::Constant));
    assert!(refusal("--prefill-concurrency 2 --concurrency 4").contains("--streaming"));
    assert!(refusal("--streaming --prefill-concurrency 5 --concurrency 4").contains("at most"));
    assert!(refusal("--concurrency-ramp-duration 5").contains("--concurrency"));
    assert!(refusal("--request-rate-ramp-duration 5").contains("--request-rate"));
    assert!(refusal("--arrival-smoothness 2").contains("--arrival-smoothness"));
    let shaped = refusal("--request-rate 2 --arrival-pattern constant --arrival-smoothness 2");
    assert!(shaped.contains("--arrival-smoothness"), "{shaped}");
    assert!(refusal("--warmup-concurrency-ramp-duration 5").contains("--warmup-request-count"));
}

#[test]
fn a_rate_series_ends_the_run_with_its_last_point() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    fs::write(path, r#"{"points":[{"time_s":0,"qps":2},{"time_s":1.5,"qps":8}]}"#).unwrap();
    let config = profile(&format!(
        "--request-rate-series {path} --request-rate-ramp-duration 0.5 --arrival-pattern constant"
    ));
    let phase = &config.schedule.phases[0];
    let LoadPattern::Rate(rate) = &phase.load else { panic!() };
    let points: Vec<_> = rate.points.iter().map(|point| (point.at.0, point.rate)).collect();
    assert_eq!(points, [(0, 2.0), (1_500_000_000, 8.0)]);
    assert_eq!(rate.pattern, ArrivalPattern::Constant);
    assert_eq!(phase.stop.duration, Some(Nanos(2_000_000_000)));
    assert_eq!(
        config.input_config()["phases"][0]["rate_series"],
        json!({"points": [{"time_s": 0.0, "qps": 2.0}, {"time_s": 1.5, "qps": 8.0}]})
    );
    let directory = config.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-request_rate_series");
    fs::write(path, r#"[{"time_s":0,"qps":2}]"#).unwrap();
    let single = refusal(&format!("--request-rate-series {path}"));
    assert!(single.contains("--request-rate-series") && single.contains("two points"), "{single}");
    assert!(refusal("--request-rate-series /no/such/file").contains("/no/such/file"));
    let both = refusal(&format!("--request-rate-series {path} --request-rate 5"));
    assert!(both.contains("--request-rate-series"), "{both}");
}

#[test]
fn a_fixed_schedule_and_its_window() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let config = |flags: &str| profile(&format!("--input-file {path} {flags}"));
    let fixed = config(
        "--fixed-schedule --fixed-schedule-start-offset 500 --fixed-schedule-end-offset 2000.5 \
         --concurrency 4 --replay-speedup 2 --inter-turn-delay-cap-seconds 1.5",
    );
    assert!(fixed.schedule.is_fixed_schedule());
    let replay = &fixed.schedule.replay;
    assert_eq!(replay.schedule, UseOfTimestamps::Always);
    assert_eq!(
        (replay.zero, replay.from),
        (Zero::At(Nanos(500_000_000)), Some(Nanos(500_000_000)))
    );
    assert_eq!((replay.until, replay.speedup), (Some(Nanos(2_000_500_000)), 2.0));
    assert_eq!(replay.delay_cap, Some(Nanos(1_500_000_000)));
    assert_eq!(fixed.schedule.phases[0].concurrency, Some(Limit::constant(4)));
    assert_eq!(
        fixed.input_config()["phases"][0],
        json!({"name": "profiling", "kind": "profiling", "type": "fixed_schedule",
               "exclude_from_results": false, "auto_offset": false, "start_offset": 500, "end_offset": 2000.5, "concurrency": 4})
    );
    let directory = fixed.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-fixed_schedule");
    assert_eq!(config("--fixed-schedule-auto-offset").schedule.replay.zero, Zero::First);
    // Without the flag the dataset decides, unless a rate is given.
    let schedule = |flags: &str| config(flags).schedule.replay.schedule;
    assert_eq!(schedule(""), UseOfTimestamps::IfPresent(None));
    let capped = UseOfTimestamps::IfPresent(Some(Limit::constant(3)));
    assert_eq!(schedule("--concurrency 3"), capped);
    for flags in ["--no-fixed-schedule", "--request-rate 2", "--ignore-trace-delays"] {
        assert_eq!(schedule(flags), UseOfTimestamps::Never, "{flags}");
    }
    assert!(refusal("--fixed-schedule").contains("--input-file"));
    let refused = |flags: &str| refusal(&format!("--input-file {path} {flags}"));
    assert!(refused("--fixed-schedule --request-rate 2").contains("--request-rate"));
    assert!(refused("--fixed-schedule --no-fixed-schedule").contains("--no-fixed-schedule"));
    let offsets = "--fixed-schedule-auto-offset --fixed-schedule-start-offset 5";
    assert!(refused(offsets).contains("--fixed-schedule-start-offset"));
    let order = refused("--fixed-schedule-start-offset 9 --fixed-schedule-end-offset 5");
    assert!(order.contains("--fixed-schedule-end-offset"), "{order}");
}

#[test]
fn users_and_cancellations() {
    let config = profile("--user-centric-rate 3 --num-users 6 --session-turns-mean 4");
    let phase = &config.schedule.phases[0];
    assert_eq!(phase.load, LoadPattern::UserCentric { rate: 3.0, users: 6 });
    assert_eq!((phase.concurrency, phase.stop.sessions), (None, Some(6)));
    assert_eq!(phase.steady_rate(), Some(3.0));
    let directory = config.artifacts.directory.to_str().unwrap();
    assert_eq!(directory, "artifacts/m-openai-chat-user_centric-users6-qps3.0");
    assert_eq!(
        config.input_config()["phases"][0],
        json!({"name": "profiling", "kind": "profiling", "type": "user_centric",
               "exclude_from_results": false, "rate": 3.0, "users": 6, "sessions": 6})
    );
    assert!(refusal("--user-centric-rate 3 --num-users 6").contains("--session-turns-mean"));
    assert!(refusal("--user-centric-rate 3").contains("--num-users"));
    assert!(refusal("--num-users 3").contains("--user-centric-rate"));
    let both = refusal("--user-centric-rate 3 --num-users 6 --request-rate 2");
    assert!(both.contains("--request-rate"), "{both}");
    let config = profile(
        "--request-cancellation-rate 12.5 --request-cancellation-delay 0.25 \
         --failed-request-threshold 0.1 --warmup-request-count 1",
    );
    let [warmup, profiling] = &config.schedule.phases[..] else { panic!() };
    let cancellation = Cancellation { percent: 12.5, delay: Nanos(250_000_000) };
    assert_eq!((warmup.cancellation, profiling.cancellation), (None, Some(cancellation)));
    assert_eq!(warmup.failed_request_threshold, None);
    assert_eq!(profiling.failed_request_threshold, Some(0.1));
    assert!(refusal("--request-cancellation-rate 101").contains("100"));
    let alone = refusal("--request-cancellation-delay 1");
    assert!(alone.contains("--request-cancellation-rate"), "{alone}");
}

#[test]
fn a_warmup_takes_over_what_it_does_not_say() {
    let config = profile("--request-rate 10 --request-count 40 --warmup-request-count 3");
    let [warmup, profiling] = &config.schedule.phases[..] else { panic!() };
    assert_eq!((warmup.kind, profiling.kind), (PhaseKind::Warmup, PhaseKind::Profiling));
    assert_eq!((&warmup.load, warmup.stop.requests), (&profiling.load, Some(3)));
    assert_eq!(warmup.steady_rate(), Some(10.0));
    assert_eq!(warmup.grace_period, None);
    let config = profile("--request-rate 10 --warmup-duration 2 --warmup-concurrency 4");
    let warmup = &config.schedule.phases[0];
    assert_eq!(warmup.concurrency, Some(Limit::constant(4)));
    assert_eq!(warmup.load, LoadPattern::ClosedLoop);
    let capped = profile("--concurrency 8 --warmup-request-count 3");
    assert_eq!(capped.schedule.phases[0].concurrency, Some(Limit::constant(3)));
    assert!(refusal("--warmup-concurrency 4").contains("--warmup-request-count"));
}

#[test]
fn lists_by_blank_by_comma_and_repeated() {
    for flags in ["--url a:1 b:2", "--url a:1,b:2", "-u a:1 -u b:2"] {
        let urls: Vec<String> =
            profile(flags).server.urls.iter().map(|url| url.shown().to_string()).collect();
        assert_eq!(urls, ["http://a:1/", "http://b:2/"], "{flags}");
    }
    let config = profile("--extra-inputs temperature:0.7 ignore_eos=true --extra-inputs {\"n\":2}");
    let expected = [("temperature", json!(0.7)), ("ignore_eos", json!(true)), ("n", json!(2))];
    assert_eq!(
        config.endpoint.extra_inputs,
        expected.map(|(name, value)| (name.to_owned(), value))
    );
    let arguments = ["profile", "-m", "m", "-H", "A: b, c", "--header", "X-Y:z"];
    let Ok(Command::Profile(benchmark)) = parse_in(&arguments, &[]) else { panic!() };
    let config = benchmark.config;
    let expected = [("A", "b, c"), ("X-Y", "z")];
    assert_eq!(config.server.headers, expected.map(|(n, v)| (n.to_owned(), v.to_owned())));
}

#[test]
fn choices_take_hyphens_and_underscores() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for name in ["single_turn", "single-turn", "SINGLE_TURN"] {
        let config = profile(&format!("--input-file {path} --custom-dataset-type {name}"));
        let Source::File { format, .. } = &config.dataset.parts[0].source else { panic!() };
        assert_eq!(*format, Some(dataset::FileFormat::SingleTurn));
        assert!(config.schedule.phases[0].stop.is_unset(), "each conversation once");
    }
    for (name, expected) in [
        ("mooncake_trace", dataset::FileFormat::MooncakeTrace),
        ("bailian-trace", dataset::FileFormat::BailianTrace),
        ("burst_gpt_trace", dataset::FileFormat::BurstGptTrace),
    ] {
        let config = profile(&format!(
            "--input-file {path} --custom-dataset-type {name} --isl-block-size 16 \
             --synthesis-max-isl 4096 --synthesis-max-osl 100 --session-delay-ratio 0.5"
        ));
        assert_eq!(config.dataset.parts[0].delay_ratio, 0.5);
        assert_eq!(config.input_config()["datasets"][0]["format"], name.replace('-', "_"));
        assert_eq!(config.input_config()["datasets"][0]["block_size"], 16);
        let expected_synthesis = json!({"max_isl": 4096, "max_osl": 100});
        assert_eq!(config.input_config()["datasets"][0]["synthesis"], expected_synthesis);
        let Source::File { format, traces, .. } = &config.dataset.parts[0].source else { panic!() };
        assert_eq!(*format, Some(expected));
        assert_eq!(traces.block_tokens, Some(16));
        assert_eq!((traces.max_input_tokens, traces.max_output_tokens), (Some(4096), Some(100)));
    }
    assert!(refusal("--isl-block-size 16").contains("--input-file"));
    let message = refusal("--endpoint-type telegram");
    assert!(message.contains("telegram") && message.contains("completions"), "{message}");
    assert!(refusal(&format!("--input-file {path} --isl 5")).contains("--isl"));
    assert!(refusal("--input-file /no/such/file").contains("/no/such/file"));
}

#[test]
fn connections_are_as_aiperf_has_them_by_default() {
    let connections = profile("").transport.connections;
    assert_eq!((connections.limit, connections.reuse), (2500, ConnectionReuse::Pooled));
    assert_eq!(connections.keepalive_timeout, Nanos::from_seconds(300.0));
    assert_eq!(connections.dns_cache_ttl, Some(Nanos::from_seconds(300.0)));
    let sockets = connections.sockets;
    assert_eq!((sockets.receive_buffer, sockets.send_buffer), (10_485_760, 10_485_760));
    assert_eq!(sockets.keepalive_idle, Nanos::from_seconds(60.0));
    assert_eq!(sockets.keepalive_interval, Nanos::from_seconds(30.0));
    assert_eq!(sockets.keepalive_count, 1);
    assert_eq!(sockets.user_timeout, Nanos::from_millis(30_000.0));
    assert!(connections.tls.authorities.is_none() && connections.tls.identity.is_none());
    assert!(!connections.proxies.are_used());
    let config = profile("--connection-reuse-strategy sticky_user_sessions --show-trace-timing");
    assert_eq!(config.transport.connections.reuse, ConnectionReuse::StickyUserSessions);
    let endpoint = &config.input_config()["endpoint"];
    assert_eq!(endpoint["connection_reuse"], "sticky-user-sessions");
    assert_eq!(config.input_config()["artifacts"]["show_trace_timing"], true);
}

#[test]
fn the_connection_limit_follows_the_load_unless_it_is_set() {
    let limit = |flags: &str| profile(flags).transport.connections.limit;
    assert_eq!(limit("--concurrency 2500 --request-count 10000"), 2500);
    assert_eq!(limit("--concurrency 4000 --request-count 10000"), 4000);
    // No more than there are requests.
    assert_eq!(limit("--concurrency 4000 --request-count 3000"), 3000);
    // A warmup with a higher concurrency.
    let warmup = "--warmup-request-count 9000 --warmup-concurrency 3500";
    assert_eq!(limit(&format!("--concurrency 3000 --request-count 10000 {warmup}")), 3500);
    let shard = "--shard 0/2 --random-seed 1 --start-at 1795273445";
    assert_eq!(limit(&format!("--concurrency 8000 --request-count 80000 {shard}")), 4000);
    let users = "--user-centric-rate 100 --num-users 4000 --session-turns-mean 2";
    assert_eq!(limit(&format!("{users} --request-count 10000")), 4000);
    assert_eq!(limit("--request-rate inf --request-count 5000"), 5000);
    assert_eq!(limit("--request-rate 1000 --concurrency 4000 --request-count 10000"), 4000);
    // Only the server limits the requests in flight.
    assert_eq!(limit("--request-rate 1000 --request-count 10000"), 2500);
    // Each request may go to each server.
    let servers = "-u http://a:1 -u http://b:1";
    assert_eq!(limit(&format!("{servers} --concurrency 4000 --request-count 10000")), 8000);
    let set = [("AIPERF_HTTP_CONNECTION_LIMIT", "7")];
    let flags = ["profile", "-m", "m", "--concurrency", "4000", "--request-count", "4000"];
    let Ok(Command::Profile(run)) = parse_in(&flags, &set) else { panic!("it is a run") };
    assert_eq!(run.config.transport.connections.limit, 7);
}

#[test]
fn the_environment_says_how_connections_are_made() {
    let variables = [
        ("AIPERF_HTTP_CONNECTION_LIMIT", "7"),
        ("AIPERF_HTTP_KEEPALIVE_TIMEOUT", "1.5"),
        ("AIPERF_HTTP_USE_DNS_CACHE", "false"),
        ("AIPERF_HTTP_SO_RCVBUF", "0"),
        ("AIPERF_HTTP_SO_SNDBUF", "65536"),
        ("AIPERF_HTTP_TCP_KEEPIDLE", "5"),
        ("AIPERF_HTTP_TCP_KEEPINTVL", "6"),
        ("AIPERF_HTTP_TCP_KEEPCNT", "3"),
        ("AIPERF_HTTP_TCP_USER_TIMEOUT", "250"),
    ];
    let Ok(Command::Profile(benchmark)) = parse_in(&["profile", "-m", "m"], &variables) else {
        panic!("it is a run")
    };
    let connections = benchmark.config.transport.connections;
    assert_eq!((connections.limit, connections.dns_cache_ttl), (7, None));
    assert_eq!(connections.keepalive_timeout, Nanos::from_seconds(1.5));
    let expected = SocketOptions {
        receive_buffer: 0,
        send_buffer: 65_536,
        keepalive_idle: Nanos::from_seconds(5.0),
        keepalive_interval: Nanos::from_seconds(6.0),
        keepalive_count: 3,
        user_timeout: Nanos::from_millis(250.0),
    };
    assert_eq!(connections.sockets, expected);
    for (name, value) in [
        ("AIPERF_HTTP_SO_RCVBUF", "10M"),
        ("AIPERF_HTTP_TCP_KEEPCNT", "-1"),
        ("AIPERF_HTTP_TTL_DNS_CACHE", "for ever"),
    ] {
        let error = parse_in(&["profile", "-m", "m"], &[(name, value)]).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn the_recorded_configuration_has_every_module_and_no_secret() {
    let config = profile(
        "--url http://user:hunter2@host/v1 --api-key hunter2 --header Authorization:hunter2 \
         --extra-inputs api_key:hunter2,top_p:0.5 --endpoint /v1/chat?key=hunter2 \
         --server-metrics http://user:hunter2@node:9090 \
         --otel-resource-attributes api-key=hunter2,note=sk-hunter2-0123456789,team=a \
         --otel-url collector:4317 --trace-sample 5%,errors",
    );
    let recorded = serde_json::to_value(&config).unwrap();
    assert!(!recorded.to_string().contains("hunter2"), "{recorded}");
    let modules: Vec<&str> = recorded.as_object().unwrap().keys().map(String::as_str).collect();
    for module in [
        "dataset",
        "tokenizer",
        "endpoint",
        "schedule",
        "transport",
        "server",
        "runner",
        "metrics",
        "telemetry",
        "artifacts",
        "server_metrics",
        "judge",
        "multi_run",
    ] {
        assert!(modules.contains(&module), "{module} is missing from {modules:?}");
    }
    assert_eq!(recorded["endpoint"]["extra_inputs"]["top_p"], 0.5);
    assert_eq!(recorded["telemetry"]["resource_attributes"]["team"], "a");
    assert_eq!(recorded["telemetry"]["trace_sample"]["percent"], 5.0);
    // Defaults too.
    assert_eq!(recorded["transport"]["request_timeout"], 21_600_000_000_000_u64);
    assert_eq!(
        recorded["dataset"]["parts"][0]["source"]["synthetic"]["input_tokens"]["mean"],
        550.0
    );
}

#[test]
fn files_for_tls_are_read_and_what_is_none_is_told() {
    let file = raw_server::tls_file;
    let (authority, certificate, key) = (file("ca.pem"), file("client.pem"), file("client.key"));
    let config =
        profile(&format!("--ssl-ca-cert {authority} --ssl-cert {certificate} --ssl-key {key}"));
    let tls = &config.transport.connections.tls;
    assert_eq!(tls.authorities.as_ref().unwrap().len(), 1);
    assert!(tls.verify && tls.identity.is_some());
    let recorded = serde_json::to_value(&config.transport).unwrap();
    assert_eq!(
        recorded["connections"]["tls"],
        json!({"verify": true, "authorities_file": authority, "certificate_file": certificate})
    );
    for (flags, named) in [
        ("--ssl-ca-cert /no/such.pem".to_owned(), "--ssl-ca-cert: cannot read \"/no/such.pem\""),
        (format!("--ssl-ca-cert {key}"), "no PEM certificate found"),
        (format!("--ssl-cert {certificate}"), "--ssl-key"),
        (format!("--ssl-cert {certificate} --ssl-key {authority}"), "no PEM private key found"),
        (format!("--ssl-cert {key} --ssl-key {key}"), "--ssl-cert"),
        (format!("--ssl-cert {certificate} --ssl-key {}", file("server.key")), "--ssl-key"),
        (format!("--ssl-key {key}"), "--ssl-cert"),
    ] {
        assert!(refusal(&flags).contains(named), "{flags}: {}", refusal(&flags));
    }
    let verify = |flags: &str| profile(flags).transport.connections.tls.verify;
    assert!(!verify("--no-ssl-verify") && verify("--no-ssl-verify --ssl-verify"));
    let unset = [("AIPERF_HTTP_SSL_VERIFY", "0")];
    match parse_in(&["profile", "-m", "m", "--ssl-verify"], &unset) {
        Ok(Command::Profile(benchmark)) => {
            assert!(benchmark.config.transport.connections.tls.verify);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn proxies_are_used_when_the_environment_is_trusted_and_missed_when_not() {
    let run = |url: &str, variables: &[(&str, &str)]| {
        parse_in(&["profile", "-m", "m", "--tokenizer", "builtin", "--url", url], variables)
    };
    let config = |url: &str, variables: &[(&str, &str)]| match run(url, variables) {
        Ok(Command::Profile(benchmark)) => benchmark.config,
        other => panic!("{other:?}"),
    };
    let (model, proxy) =
        ("http://u:SECRET@model.example", ("http_proxy", "http://u:SECRET@proxy:1"));
    let trusting = [proxy, ("AIPERF_HTTP_TRUST_ENV", "true")];
    let trusted = config(model, &trusting);
    assert!(trusted.transport.connections.proxies.are_used());
    assert_eq!(trusted.warnings, [""; 0]);
    let warned = config(model, &[proxy]);
    assert!(!warned.transport.connections.proxies.are_used());
    let [warning] = &warned.warnings[..] else { panic!("{:?}", warned.warnings) };
    assert!(warning.contains("AIPERF_HTTP_TRUST_ENV") && warning.contains("model.example"));
    assert!(!format!("{warned:?}{trusted:?}").contains("SECRET"));
    for url in
        ["http://localhost:8000", "http://127.0.0.9", "http://[::1]", "https://model.example"]
    {
        assert_eq!(config(url, &[proxy]).warnings, [""; 0], "{url}");
    }
    let exempt = [proxy, ("NO_PROXY", "model.example")];
    assert_eq!(config(model, &exempt).warnings, [""; 0]);
    let socks = [("ALL_PROXY", "socks5://u:SECRET@proxy"), ("AIPERF_HTTP_TRUST_ENV", "1")];
    let error = run(model, &socks).unwrap_err().to_string();
    assert!(error.contains("ALL_PROXY") && !error.contains("SECRET"), "{error}");
}

#[test]
fn the_environment_gives_thresholds_and_flags_win() {
    let variables = [
        ("AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD", "2.5"),
        ("AIPERF_HTTP_SSL_VERIFY", "False"),
        ("AIPERF_HTTP_IP_VERSION", "6"),
        ("AIPERF_DEV_MODE", "1"),
        ("AIPERF_OTEL_FLUSH_INTERVAL_SECONDS", "0.5"),
        ("AIPERF_API_KEY", "of-environment"),
    ];
    let run = |arguments: &[&str]| match parse_in(arguments, &variables) {
        Ok(Command::Profile(benchmark)) => benchmark.config,
        other => panic!("{other:?}"),
    };
    let config = run(&["profile", "-m", "m"]);
    assert_eq!(config.metrics.usage_diff_threshold_percent, 2.5);
    assert_eq!(config.metrics.osl_mismatch_threshold_tokens, 50.0);
    assert!(config.metrics.developer_mode && !config.transport.connections.tls.verify);
    assert_eq!(config.transport.ip_version, IpVersion::V6);
    assert_eq!(config.telemetry.interval_seconds, 0.5);
    assert_eq!(config.server.api_key.unwrap().expose(), "of-environment");
    let config = run(&["profile", "-m", "m", "--api-key", "of-flag", "--otel-url", "http://o"]);
    assert_eq!(config.server.api_key.unwrap().expose(), "of-flag");
    assert_eq!(config.telemetry.url.unwrap().expose(), "http://o");
    let error = parse_in(&["profile", "-m", "m"], &[("AIPERF_HTTP_CONNECTION_LIMIT", "many")]);
    assert!(error.unwrap_err().to_string().contains("AIPERF_HTTP_CONNECTION_LIMIT"));
}

#[test]
fn streams_and_histograms() {
    let default = profile("").telemetry;
    assert!(
        default.streams.metrics
            && default.streams.timing
            && default.exponential_histograms.is_none()
    );
    let config = profile("--stream timing --otel-histograms exponential").telemetry;
    assert!(
        !config.streams.metrics
            && config.streams.timing
            && config.exponential_histograms == Some(true)
    );
    let both = profile("--stream metrics,timing --otel-histograms explicit").telemetry;
    assert!(
        both.streams.metrics && both.streams.timing && both.exponential_histograms == Some(false)
    );
}

#[test]
fn temporalities() {
    use telemetry::Temporality::{Cumulative, Delta, LowMemory};
    assert_eq!(profile("").telemetry.temporality, None);
    for (name, temporality) in [
        ("cumulative", Cumulative),
        ("Delta", Delta),
        ("low_memory", LowMemory),
        ("lowmemory", LowMemory),
    ] {
        let flag = format!("--otel-temporality {name}");
        assert_eq!(profile(&flag).telemetry.temporality, Some(temporality), "{name}");
    }
}

#[test]
fn objectives_are_read_by_the_catalogue() {
    let arguments =
        ["profile", "-m", "m", "--goodput", "time_to_first_token:50 request_latency:9.5"];
    let Ok(Command::Profile(benchmark)) = parse_in(&arguments, &[]) else { panic!() };
    let config = benchmark.config;
    let found: Vec<_> =
        config.metrics.objectives.iter().map(|o| (o.tag.name(), o.threshold)).collect();
    assert_eq!(found, [("time_to_first_token", 50.0), ("request_latency", 9.5)]);
    assert!(refusal("--goodput no_such_metric:1").contains("--goodput"));
}

#[test]
fn a_tokenizer_that_cannot_be_had_stops_nobody() {
    let cache = tempfile::tempdir().unwrap();
    let snapshot = cache.path().join("models--org--name/snapshots/abc");
    fs::create_dir_all(&snapshot).unwrap();
    fs::write(snapshot.join("tokenizer.json"), "{}").unwrap();
    let refs = cache.path().join("models--org--name/refs");
    fs::create_dir_all(&refs).unwrap();
    fs::write(refs.join("main"), "abc").unwrap();
    let source = |model: &str| {
        let variables = [("HF_HUB_CACHE", cache.path().to_str().unwrap())];
        match parse_in(&["profile", "-m", model], &variables) {
            Ok(Command::Profile(benchmark)) => benchmark.config.tokenizer,
            other => panic!("{other:?}"),
        }
    };
    let hub = tokenizer::Source::Hub { name: "org/name".into(), revision: "main".into() };
    assert_eq!(source("org/name"), hub);
    assert_eq!(source("org/other"), tokenizer::Source::Builtin);
    let path = snapshot.to_str().unwrap();
    assert_eq!(source(path), tokenizer::Source::Path(snapshot.clone()));
}

#[test]
fn what_results_depend_on_is_read_from_the_serialized_configuration() {
    let config = profile(
        "--url http://u:p@h/v1/,g:81 --lora-modules a --extra-inputs api_key:k --header X-Api-Key:k \
         --wait-for-model-timeout 3 --request-rate 10 --warmup-request-count 3 --artifact-dir out \
         --slice-duration 2 --network-latency-mean 0.5 --num-profile-runs 2",
    );
    let serialized = json!(config);
    let setup = Setup::read(&serialized).unwrap();
    assert_eq!(
        (setup.models.as_slice(), setup.lora_modules.as_slice()),
        (&["m".into()][..], &["a".into()][..])
    );
    assert_eq!(setup.urls, ["http://redacted@h/v1", "http://g:81"]);
    assert_eq!(json!(setup.extra_inputs), json!({"api_key": "<redacted>"}));
    assert!(setup.has_credentials && setup.waits_for_model);
    assert_eq!(setup.phases, config.schedule.phases);
    assert_eq!(setup.directory, config.artifacts.directory);
    assert_eq!(setup.slice_duration, Some(Nanos(2_000_000_000)));
    assert_eq!(setup.round_trip, Some(Nanos(500_000)));
    assert_eq!(setup.multi_run, config.multi_run);
    // A setting with another name is not one that was not given.
    for path in [
        "/dataset/models",
        "/dataset/lora_modules",
        "/endpoint/extra_inputs",
        "/schedule/phases",
        "/server/urls",
        "/server/headers",
        "/server/api_key",
        "/server/wait_for_model/timeout",
        "/artifacts/directory",
        "/artifacts/server_metrics/slice_duration",
        "/network_latency",
        "/multi_run",
    ] {
        let mut renamed = serialized.clone();
        let (parent, name) = path.rsplit_once('/').unwrap();
        let members = renamed.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        let value = members.remove(name).unwrap();
        members.insert(format!("{name}_"), value);
        assert!(Setup::read(&renamed).is_err(), "{path}");
    }
}

/// The command of AIPerf's sample, without unsupported flags, and its `input_config`.
#[test]
fn input_config_has_the_shape_of_aiperfs() {
    let config = profile(
        "--endpoint-type chat --streaming --url 127.0.0.1:18473 --request-count 40 \
         --request-rate 10 --isl 50 --osl 8 --warmup-request-count 3 --export-level raw \
         --num-prompts 40 --export-http-trace --goodput time_to_first_token:50 \
         --otel-url http://127.0.0.1:18473/v1/metrics --ui None --workers-max 2 \
         --artifact-dir artifacts/sample --tokenizer builtin --slice-duration 2 \
         --server-metrics-formats json csv parquet jsonl",
    );
    let length = |mean: f64| json!({"mean": mean, "stddev": 0.0});
    let expected = json!({
        "models": {"strategy": "round_robin", "items": [{"name": "m"}]},
        "endpoint": {"urls": ["http://127.0.0.1:18473"], "url_strategy": "round_robin",
            "type": "chat", "streaming": true, "headers": {}, "extra": {}, "timeout": 21600.0,
            "wait_for_model_timeout": 0.0, "wait_for_model_interval": 5.0,
            "wait_for_model_mode": "inference", "connection_reuse": "pooled",
            "use_legacy_max_tokens": false, "use_server_token_count": false,
            "download_video_content": false},
        "datasets": [{"name": "main", "type": "synthetic", "entries": 40,
            "prompts": {"batch_size": 1, "isl": length(50.0), "osl": length(8.0)},
            "turns": length(1.0), "turn_delay": length(0.0), "turn_delay_ratio": 1.0,
            "sampling": "sequential"}],
        "phases": [
            {"name": "warmup", "kind": "warmup", "type": "poisson", "exclude_from_results": true,
             "requests": 3, "rate": 10.0},
            {"name": "profiling", "kind": "profiling", "type": "poisson",
             "exclude_from_results": false, "requests": 40, "rate": 10.0},
        ],
        "artifacts": {"dir": "artifacts/sample", "summary": ["json"], "records": ["jsonl"],
            "raw": true, "trace": true, "slice_duration": 2.0, "show_trace_timing": false},
        "slos": {"time_to_first_token": 50.0},
        "tokenizer": {"name": "builtin", "apply_chat_template": false},
        "gpu_telemetry": {"enabled": true, "urls": []},
        "server_metrics": {"enabled": true, "urls": [],
            "formats": ["json", "csv", "parquet", "jsonl"]},
        "network_latency": {"enabled": false},
        "otel": {"metrics_url": "http://127.0.0.1:18473/v1/metrics",
            "stream_metrics_enabled": true, "stream_timing_enabled": true,
            "custom_resource_attributes": {}},
        "runtime": {"ui": "none", "workers": 2},
        "logging": {"level": "INFO"},
    });
    assert_eq!(config.input_config(), expected);
}

#[test]
fn no_secret_is_shown() {
    let arguments = [
        "profile",
        "-m",
        "m",
        "--api-key",
        "SECRET1",
        "--api-key=SECRET2",
        "-H",
        "Authorization: Bearer SECRET3",
        "-HX-Api-Key:SECRET4",
        "--url",
        "http://u:SECRET5@host:1",
        "--extra-inputs",
        "access_token:SECRET6",
        "--extra-inputs={\"a\":{\"password\":\"SECRET7\"}}",
        "--otel-url=http://u:SECRET8@o:4318",
        "--otel-resource-attributes",
        "api.key=SECRET9",
        "--header",
        "Cookie: a=b, SECRET10",
        "--extra-inputs",
        "max_tokens:5",
        "opts:{\"n\":1,\"api_key\":\"SECRET11\"}",
        "--endpoint",
        "/v1/x?key=SECRET12",
        "--server-metrics",
        "http://u:SECRET13@m:1",
        "m:2/metrics?token=SECRET14",
    ];
    // A flag given twice is rejected, and the error must not contain its value.
    let twice = parse_in(&arguments, &[]).unwrap_err().to_string();
    assert!(!twice.contains("SECRET"), "{twice}");
    let mut once: Vec<&str> =
        arguments.into_iter().filter(|argument| *argument != "--api-key=SECRET2").collect();
    let collector = parse_in(&once, &[]).unwrap_err().to_string();
    assert!(
        collector.contains("//redacted@o:4318/") && !collector.contains("SECRET"),
        "{collector}"
    );
    once.retain(|argument| !argument.starts_with("--otel-url"));
    let Ok(Command::Profile(benchmark)) = parse_in(&once, &[]) else { panic!() };
    let config = benchmark.config;
    for shown in
        [config.cli_command.clone(), config.input_config().to_string(), format!("{config:?}")]
    {
        assert!(!shown.contains("SECRET"), "{shown}");
    }
    assert!(config.cli_command.contains("max_tokens:5"), "{}", config.cli_command);
    assert_eq!(config.server.urls[0].expose().password(), Some("SECRET5"), "the wire gets it");
    assert_eq!(config.server.api_key.unwrap().expose(), "SECRET1");
}

#[test]
fn other_commands() {
    let demo = parse_in(&["demo", "--concurrency", "3", "--ttft", "20ms"], &[]);
    let Ok(Command::Demo(demo)) = demo else { panic!("{demo:?}") };
    assert_eq!(demo.server().script.ttft, Nanos(20_000_000));
    let arguments = demo.profile_arguments("http://127.0.0.1:9");
    assert!(arguments.windows(2).any(|pair| pair == ["--concurrency", "3"]), "{arguments:?}");
    assert!(parse_with(arguments, Environment::new(&|_| None)).is_ok());
    let report = parse_in(&["report", "some/dir"], &[]);
    let Ok(Command::Report(report)) = report else { panic!("{report:?}") };
    assert_eq!(report.directories, [std::path::PathBuf::from("some/dir")]);
    assert!(report.artifact_dir.is_none() && !report.overwrite && report.page.is_none());
    for names in [&["metrics"][..], &["list", "metrics"]] {
        let parsed = parse_in(&[names, &["--json"]].concat(), &[]);
        assert!(matches!(parsed, Ok(Command::Metrics { json: true })), "{parsed:?}");
    }
    for names in [&["datasets"][..], &["dataset", "list"]] {
        assert!(matches!(parse_in(names, &[]), Ok(Command::Datasets { json: false })), "{names:?}");
    }
    for names in [&["list", "some/dir"][..], &["list", "runs", "some/dir"]] {
        assert!(matches!(parse_in(names, &[]), Ok(Command::List(_))), "{names:?}");
    }
    for (name, group) in [
        ("analyze-trace", "dataset analyze"),
        ("anonymize", "dataset anonymize"),
        ("synthesize", "dataset synthesize"),
        ("validate", "dataset validate"),
        ("scenarios", "list scenarios"),
        ("plugins", "list plugins"),
    ] {
        let other: Vec<&str> = group.split(' ').collect();
        let help =
            |names: &[&str]| parse_in(&[names, &["--help"]].concat(), &[]).unwrap_err().to_string();
        assert_eq!(help(&[name]), help(&other));
        assert!(help(&[name]).contains(&format!("Usage: aiperf {group}")), "{name}");
        let man = |names: &[&str]| parse_in(&[&["man"], names].concat(), &[]);
        let (Ok(Command::Show(one)), Ok(Command::Show(same))) = (man(&[name]), man(&other)) else {
            panic!("{name}")
        };
        assert_eq!(one, same);
    }
    let mock = ["mock-server", "--port", "0", "--itl", "5ms", "--fault", "every=9:status=500"];
    let Ok(Command::MockServer(config)) = parse_in(&mock, &[]) else { panic!() };
    assert_eq!((config.address.port(), config.script.itl), (0, Nanos(5_000_000)));
    assert_eq!(config.script.faults.len(), 1);
    assert_eq!(parse_in(&["mock-server", "--fault", "x"], &[]).unwrap_err().exit_code(), 2);
    let flags = "mock-server --reasoning-place think --tool-calls --early-role --empty-first \
                 --end-delay 1ms --write-interval 2ms --accept-delay 3ms --tls-cert a --tls-key b \
                 --tls-delay 4ms";
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let Ok(Command::MockServer(config)) = parse_in(&flags, &[]) else { panic!() };
    let script = mock_server::Script {
        reasoning_place: mock_server::ReasoningPlace::Think,
        tool_calls: true,
        early_role: true,
        empty_first: true,
        end_delay: Nanos(1_000_000),
        write_interval: Nanos(2_000_000),
        accept_delay: Nanos(3_000_000),
        tls_delay: Nanos(4_000_000),
        ..mock_server::Script::default()
    };
    assert_eq!(config.script, script);
    assert_eq!(config.tls.map(|tls| (tls.certificate, tls.key)), Some(("a".into(), "b".into())));
    // One of the two files is not enough.
    let lone = parse_in(&["mock-server", "--tls-cert", "a"], &[]).unwrap_err();
    assert_eq!(lone.exit_code(), 2);
}

#[test]
fn help_and_version_are_not_errors() {
    for arguments in [&["--help"][..], &["--version"], &["profile", "--help"]] {
        assert_eq!(parse_in(arguments, &[]).unwrap_err().exit_code(), 0, "{arguments:?}");
    }
    let help = parse_in(&["profile", "--help"], &[]).unwrap_err().to_string();
    for heading in ["Endpoint:", "Input:", "Load Generator:", "Warmup:", "Prefix Prompt:", "TLS:"] {
        assert!(help.contains(heading), "{heading}");
    }
    assert!(!help.contains("--url-strategy"));
    for arguments in [&[][..], &["profile"], &["nonsense"]] {
        assert_eq!(parse_in(arguments, &[]).unwrap_err().exit_code(), 2, "{arguments:?}");
    }
}
