//! AIPerf's files.

use std::collections::BTreeSet;

use crate::cli::config_file::{find, settings};
use crate::config::Environment;
use crate::config::aiperf::{self, flags::refusal};

/// The flags of a file in alphabetical order.
pub(super) fn flags(text: &str) -> Result<Vec<String>, String> {
    let command = crate::cli::command();
    let profile = command.find_subcommand("profile").unwrap();
    let lookup = |name: &str| (name == "RATE").then(|| "4".to_owned());
    let settings = settings(text, profile, Environment::new(&lookup))?;
    let mut flags: Vec<String> = settings.into_iter().flat_map(|it| it.arguments).collect();
    flags.sort_unstable();
    Ok(flags)
}

pub(super) const FILE: &str = r#"
schemaVersion: "2.0"
randomSeed: 7
multiRun: {numRuns: 3, cooldownSeconds: 1.5}
benchmark:
  models: {strategy: random, items: [{name: a}, {name: b}]}
  endpoint:
    url: http://host:1
    type: chat
    streaming: ${STREAMING:true}
    timeout: 60
    headers: {X-Team: one}
    extra: {topP: 0.5, template: "{{ text }}"}
  dataset:
    name: main
    type: synthetic
    entries: 40
    isl: {mean: 128, stddev: 10}
    prompts: {osl: 64}
  phases:
    - {name: warmup, type: concurrency, requests: 5, concurrency: 2, excludeFromResults: true}
    - name: measured
      kind: profiling
      type: gamma
      rate: ${RATE}
      smoothness: 2
      duration: 2m
      rateRamp: 0.5
      cancellation: {rate: 10, delay: 0.5}
  slos: {request_latency: 2000}
  artifacts: {dir: out, summary: [json], records: false, sliceDuration: 30s, autoPlot: false}
  tokenizer: {name: builtin}
  serverMetrics: {enabled: false}
  gpuTelemetry: {enabled: false}
  runtime: {ui: none, workers: 2}
"#;

#[test]
fn models_may_have_weights() {
    let file = "benchmark: {models: {strategy: weighted, items: [{name: a, weight: 0.7}, \
                {name: b, weight: 0.3}]}}";
    let expected = [
        "--model-selection-strategy=weighted",
        "--model-weights=0.3",
        "--model-weights=0.7",
        "--model=a",
        "--model=b",
    ];
    assert_eq!(flags(file).unwrap(), expected);
}

#[test]
fn control_requests_are_a_switch_or_settings() {
    let file = |reset: &str, profiler: &str| {
        flags(&format!(
            "benchmark: {{endpoint: {{resetKvCache: {reset}, serverProfiler: {profiler}}}}}"
        ))
    };
    assert_eq!(file("true", "false").unwrap(), ["--reset-kv-cache"]);
    let expected = [
        "--reset-kv-cache",
        "--reset-kv-cache-path=/flush_cache",
        "--reset-kv-cache-timeout-seconds=5",
        "--server-profiler",
        "--server-profiler-start-path=/a",
    ];
    let found = file("{path: /flush_cache, timeoutSeconds: 5}", "{startPath: /a}");
    assert_eq!(found.unwrap(), expected);
    assert!(file("{maxRetrySeconds: 5}", "null").unwrap_err().contains("60 seconds"));
}

#[test]
fn each_setting_is_a_flag() {
    let mut expected = [
        "--random-seed=7",
        "--num-profile-runs=3",
        "--profile-run-cooldown-seconds=1.5",
        "--model-selection-strategy=random",
        "--model=a",
        "--model=b",
        "--url=http://host:1",
        "--endpoint-type=chat",
        "--streaming",
        "--request-timeout-seconds=60",
        "--header=X-Team:one",
        "--extra-inputs=topP:0.5",
        "--extra-inputs=template:{{ text }}",
        "--num-dataset-entries=40",
        "--isl=128",
        "--isl-stddev=10",
        "--osl=64",
        "--warmup-request-count=5",
        "--warmup-concurrency=2",
        "--arrival-pattern=gamma",
        "--request-rate=4",
        "--arrival-smoothness=2",
        "--benchmark-duration=120",
        "--request-rate-ramp-duration=0.5",
        "--request-cancellation-rate=10",
        "--request-cancellation-delay=0.5",
        "--goodput=request_latency:2000",
        "--artifact-dir=out",
        "--export-level=summary",
        "--slice-duration=30",
        "--no-auto-plot",
        "--tokenizer=builtin",
        "--no-server-metrics",
        "--no-gpu-telemetry",
        "--ui=none",
        "--workers-max=2",
    ];
    expected.sort_unstable();
    assert_eq!(flags(FILE).unwrap(), expected);
    // Names in snake case are the same.
    let snake = FILE
        .replace("schemaVersion", "schema_version")
        .replace("randomSeed", "random_seed")
        .replace(
            "multiRun: {numRuns: 3, cooldownSeconds",
            "multi_run: {num_runs: 3, cooldown_seconds",
        )
        .replace("rateRamp", "rate_ramp")
        .replace("sliceDuration", "slice_duration");
    assert_eq!(flags(&snake).unwrap(), expected);
}

/// The flags of a benchmark, apart from those that all have here.
pub(super) fn flags_for(benchmark: &str, rest: &str) -> Result<Vec<String>, String> {
    flags(&format!("{rest}\nbenchmark:\n  model: m\n{benchmark}\n")).map(|mut flags| {
        flags.retain(|flag| flag != "--model=m");
        flags
    })
}

#[test]
fn phases_have_types() {
    for (phases, expected) in [
        ("  phases: {type: concurrency, concurrency: 2}", "--concurrency=2"),
        ("  profiling: {type: constant, rate: 2}", "--arrival-pattern=constant --request-rate=2"),
        (
            "  profiling: {type: user_centric, rate: 2, users: 3}",
            "--num-users=3 --user-centric-rate=2",
        ),
        (
            "  phases: [{name: profiling, type: fixed_schedule}]",
            "--fixed-schedule --fixed-schedule-auto-offset",
        ),
        (
            "  profiling: {type: fixed_schedule, startOffset: 5}",
            "--fixed-schedule --fixed-schedule-start-offset=5",
        ),
        (
            "  profiling: {type: concurrency, timingMode: request_rate, concurrency: 2}",
            "--concurrency=2",
        ),
        (
            "  profiling: {type: concurrency, timingMode: agentic_replay, concurrency: 4, duration: 30m, \
             trajectoryStartMinRatio: 0.1, trajectoryStartMaxRatio: 0.9, burstPhaseStarts: true, \
             systemIdleGapCapSeconds: 10, agenticCacheWarmupDuration: 60, agenticWarmupGracePeriod: 1m}",
            "--agentic --agentic-cache-warmup-duration=60 --agentic-warmup-grace-period=60 \
             --benchmark-duration=1800 --burst-phase-starts --concurrency=4 \
             --system-idle-gap-cap-seconds=10 --trajectory-start-max-ratio=0.9 \
             --trajectory-start-min-ratio=0.1",
        ),
        (
            "  profiling: {type: agentic_replay, burstPhaseStarts: false, warmupRequestsPerLane: 10}",
            "--agentic --warmup-requests-per-lane=10",
        ),
        (
            "  scenario: inferencex-agentx-mvp\n  unsafeOverride: true\n  profiling: {type: concurrency}",
            "--scenario=inferencex-agentx-mvp --unsafe-override",
        ),
        (
            "  dataset: {type: file, path: a, format: weka_trace, traceIdleGapCapSeconds: 300, \
             cacheBust: {target: first_turn_prefix}, openLoopReplay: false, omitKvHints: true, \
             synthesis: {allowDatasetWrap: true}}",
            "--cache-bust=first_turn_prefix --custom-dataset-type=weka_trace --input-file=a \
             --no-fixed-schedule --omit-kv-hints --trace-idle-gap-cap-seconds=300",
        ),
        (
            "  dataset: {type: file, path: a, format: baseten_trace, forceMinTokens: false, \
             omitKvHints: false}",
            "--custom-dataset-type=baseten_trace --input-file=a --no-force-min-tokens",
        ),
        (
            "  dataset: {type: file, path: a, format: baseten_trace, forceMinTokens: true}",
            "--custom-dataset-type=baseten_trace --force-min-tokens --input-file=a",
        ),
    ] {
        assert_eq!(flags_for(phases, "").unwrap().join(" "), expected, "{phases}");
    }
}

#[test]
fn sweeps_are_lists_and_scenarios() {
    let phase = "  dataset: {type: synthetic, isl: 8}\n  phases: {type: poisson, rate: 2}";
    let grid = "sweep: {type: zip, iterationOrder: independent, parameters: \
                {datasets.default.prompts.isl: [1, 2], phases.profiling.rate: [3, 4]}}";
    let found = flags_for(phase, grid).unwrap();
    let expected = "--arrival-pattern=poisson --isl=1,2 --parameter-sweep-mode=independent \
                    --request-rate=3,4 --sweep-type=zip";
    assert_eq!(found.join(" "), expected);
    let list = flags_for("  phases: {type: concurrency, concurrency: [1, 2]}", "").unwrap();
    assert_eq!(list, ["--concurrency=1,2"]);
    let scenarios = "sweep:\n  type: scenarios\n  runs:\n    - name: short\n      benchmark:\n        \
                     dataset: {prompts: {isl: 4}}\n        phases: [{name: profiling, rate: 9}]\n    \
                     - benchmark: {profiling: {duration: 1m}}\n";
    let found = flags_for(phase, scenarios).unwrap();
    assert_eq!(
        found,
        [
            "--arrival-pattern=poisson",
            "--isl=8",
            "--request-rate=2",
            "--variant=scenario_1: benchmark-duration=60",
            "--variant=short: isl=4, request-rate=9",
        ]
    );
}

#[test]
fn services_and_trackers_become_flags() {
    let found = flags_for(
        "  runtime: {apiPort: 9090, apiHost: 0.0.0.0, statsInterval: 5}\n  mlflow: {trackingUri: \
         'http://m:5000', runName: r, tags: {team: a}, artifactGlobs: ['*.json', '*.csv']}",
        "",
    );
    assert_eq!(
        found.unwrap(),
        [
            "--api-host=0.0.0.0",
            "--api-port=9090",
            "--mlflow-artifact-glob=*.csv",
            "--mlflow-artifact-glob=*.json",
            "--mlflow-run-name=r",
            "--mlflow-tag=team:a",
            "--mlflow-tracking-uri=http://m:5000",
            "--stats-interval=5",
        ]
    );
}

#[test]
fn the_network_is_measured_or_given() {
    for (settings, expected) in [
        ("{enabled: false, pingInterval: 2, meanMs: 3}", &[][..]),
        (
            "{enabled: true, pingInterval: 2}",
            &["--network-latency-automatic", "--network-latency-ping-interval=2"],
        ),
        // A given mean takes precedence over connects.
        ("{enabled: true, pingInterval: 1.0, meanMs: 2.5}", &["--network-latency-mean=2.5"]),
        ("{enabled: true, meanMs: null}", &["--network-latency-automatic"]),
    ] {
        assert_eq!(
            flags_for(&format!("  networkLatency: {settings}"), "").unwrap(),
            expected,
            "{settings}"
        );
    }
}

#[test]
fn several_phases_are_listed() {
    let file = "  phases:\n    - {name: warmup, type: concurrency, requests: 5, concurrency: 2}\n    \
                - {name: calm, type: poisson, rate: 4, duration: 1m, seamless: true}\n    \
                - {name: storm, type: concurrency, concurrency: 64, requests: 9, \
                cancellation: {rate: 10}}\n    \
                - {name: rest, type: concurrency, requests: 1, excludeFromResults: true}";
    // Their settings are in no particular order.
    let in_order = |flag: &String| {
        let (name, settings) = flag.split_once(": ").unwrap();
        let mut settings: Vec<String> = settings.split(", ").map(str::to_owned).collect();
        settings.sort_unstable();
        (name.to_owned(), settings.join(" "))
    };
    let found: Vec<(String, String)> = flags_for(file, "").unwrap().iter().map(in_order).collect();
    let expected = [
        (
            "--phase=calm",
            "arrival-pattern=poisson benchmark-duration=60 request-rate=4 seamless=true",
        ),
        ("--phase=rest", "kind=warmup request-count=1"),
        ("--phase=storm", "concurrency=64 request-cancellation-rate=10 request-count=9"),
        ("--phase=warmup", "concurrency=2 kind=warmup request-count=5"),
    ];
    assert_eq!(found, expected.map(|(name, settings)| (name.to_owned(), settings.to_owned())));
}

#[test]
fn what_is_not_supported_is_named() {
    for (benchmark, why) in [
        ("  endpoint: {nonsense: 1}", "does not support endpoint.nonsense"),
        ("  accuracy: {x: 1}", "does not support accuracy of AIPerf's files"),
        ("  gpuTelemetry: {collector: pynvml}", "gpu_telemetry.collector"),
        ("  dataset: {isl: {mean: 4, median: 2}}", "requires an osl"),
        ("  dataset: {osl: 2, isl: {peaks: []}}", "at least one weight"),
        ("  dataset: {osl: 2, isl: {points: [{value: 3, weight: x}]}}", "a weight must be"),
        ("  dataset: {osl: 2, isl: {mean: 4, median: 2, max: 8}}", "dataset.prompts.isl.max"),
        ("  dataset: {records: 5}", "dataset.records: expected a list of requests"),
        ("  dataset: {type: public, dataset: sharegpt, x: 1}", "dataset.x"),
        ("  dataset: {isl: 1, prompts: {isl: 1}}", "dataset.isl and dataset.prompts.isl"),
        (
            "  dataset: {entries: '{{ n * 2 }}'}",
            "dataset.entries: n is not set; add it to variables",
        ),
        ("  dataset: {entries: '{{ 1'}", "dataset.entries: line 1: syntax error"),
        ("  datasets: [{name: a}, {name: b}]", "several datasets need phases"),
        ("  phases: [{type: poisson}, {type: poisson}]", "needs a name"),
        ("  phases: [{name: a, x: 1}, {name: b}]", "does not support profiling.x"),
        ("  profiling: {type: adaptive}", "is not a type of phase"),
        ("  profiling: {type: poisson, timingMode: fixed_schedule}", "is not the timing of phases"),
        ("  profiling: {type: concurrency, excludeFromResults: true}", "exclude_from_results"),
        ("  profiling: {type: poisson, rateRamp: soon}", "--request-rate-ramp-duration"),
        (
            "  profiling: {type: user_centric, adaptiveScale: {control: {variable: users}}}",
            "profiling.adaptive_scale: aiperf cannot change the number of users",
        ),
        (
            "  profiling: {type: concurrency, adaptiveScale: {enabled: true}, sla: {ttft: 5}}",
            "profiling.sla: expected conditions such as",
        ),
        (
            "  profiling: {type: concurrency, adaptiveScale: {strategy: {type: bisect}}}",
            "strategy.type: must be ramp_until_fail",
        ),
        (
            "  profiling: {type: concurrency, adaptiveScale: {enabled: true, limit: 9}, sla: {}}",
            "does not support profiling.adaptive_scale.limit",
        ),
        ("  models: [{name: a, lora: b}]", "models.items.lora"),
        ("  endpoint: 5", "does not support endpoint"),
    ] {
        match flags_for(benchmark, "") {
            Err(error) => assert!(error.contains(why), "{benchmark}: {error}"),
            // The flag's own check follows.
            Ok(flags) => assert!(flags.join(" ").contains(why), "{benchmark}: {flags:?}"),
        }
    }
    let search = flags_for("", "sweep: {type: sobol}").unwrap_err();
    assert!(search.contains("grid, zip and scenarios"), "{search}");
}

#[test]
fn adaptive_loads_have_several_forms() {
    let nested = "  profiling:
    type: concurrency
    concurrency: 8
    duration: 1h
    adaptiveScale:
      control: {variable: concurrency, min: 2, max: 20}
      assessmentPeriod: 1m
      sustainDuration: 30
      strategy: {type: ramp_until_fail, stepPolicy: fixed_percent_step, stepPercent: 50}
      sla: {request_latency: {p95: {le: 1000}}, goodput_ratio: {avg: {ge: 0.75}}}";
    let expected = [
        "--adaptive-assessment-period=60",
        "--adaptive-control-min=2",
        "--adaptive-control-variable=concurrency",
        "--adaptive-min-completed-requests=1",
        "--adaptive-scale",
        "--adaptive-scale-sla=request_error_rate:avg:le:25",
        "--adaptive-scale-sla=request_latency:p95:le:1000",
        "--adaptive-step-percent=50",
        "--adaptive-step-policy=fixed_percent_step",
        "--adaptive-sustain-duration=30",
        "--benchmark-duration=3600",
        "--concurrency=20",
    ];
    assert_eq!(flags_for(nested, "").unwrap(), expected);
    let flat = "  phases:
    - {name: base, type: concurrency, concurrency: 1, requests: 5, adaptive_scale: {enabled: false}}
    - name: rise
      type: poisson
      rate: 64
      adaptive_scale: {enabled: true, control_variable: request_rate, window: 5, min_concurrency: 4}
      sla:
        - {metric_tag: time_to_first_token, op: lt, threshold: 200}
        - {metricTag: error_rate, stat: avg, op: le, threshold: 0.5}";
    let phases = flags_for(flat, "").unwrap();
    assert_eq!(phases[0], "--phase=base: concurrency=1, request-count=5");
    let mut rise: Vec<&str> =
        phases[1].strip_prefix("--phase=rise: ").unwrap().split(", ").collect();
    rise.sort_unstable();
    let expected = [
        "adaptive-assessment-period=5",
        "adaptive-control-min=4",
        "adaptive-control-variable=request_rate",
        "adaptive-min-completed-requests=1",
        "adaptive-scale-sla=request_error_rate:avg:le:50",
        "adaptive-scale-sla=time_to_first_token:p95:lt:200",
        "adaptive-scale=true",
        "adaptive-step-policy=sla_margin",
        "arrival-pattern=poisson",
        "request-rate=64",
    ];
    assert_eq!(rise, expected);
}

#[test]
fn each_setting_is_there_once_and_names_flags_that_exist() {
    let command = crate::cli::command();
    let profile = command.find_subcommand("profile").unwrap();
    let mut paths = BTreeSet::new();
    for (path, flags) in aiperf::known_flags() {
        for flag in flags {
            let is_known = find(profile, flag).is_some() || refusal(&format!("--{flag}")).is_some();
            assert!(is_known, "{path}: --{flag} is not a flag");
        }
        assert!(paths.insert(path.clone()), "{path} is there twice");
    }
}

#[test]
fn pairs_of_lengths_are_a_distribution() {
    let file = "  dataset: {prompts: {sequenceDistribution: [{isl: 8, islStddev: 2, osl: 4, \
                probability: 60}, {isl: 16, osl: 2, probability: 40}]}}";
    assert_eq!(flags_for(file, "").unwrap(), ["--seq-dist=8|2,4:60;16,2:40"]);
}

#[test]
fn mixtures_of_lengths_are_pairs() {
    let file = "  dataset: {prompts: {isl: {peaks: [{mean: 100, median: 80, weight: 75}, {mean: 8, \
                stddev: 2, weight: 25}]}, osl: {mean: 16, median: 10}}}";
    assert_eq!(flags_for(file, "").unwrap(), ["--seq-dist=100~80,16~10:0.75;8|2,16~10:0.25"]);
    // Without weights, all are as likely; points are lengths.
    let file = "  dataset: {isl: {peaks: [{mean: 3}, {mean: 5}]}, osl: {points: [{value: 7, \
                weight: 1}, {value: 9, weight: 3}]}}";
    assert_eq!(
        flags_for(file, "").unwrap(),
        ["--seq-dist=3|0,7|0:0.125;3|0,9|0:0.375;5|0,7|0:0.125;5|0,9|0:0.375"]
    );
    let file = "  dataset: {osl: {mean: 4, median: 3}}";
    assert_eq!(flags_for(file, "").unwrap(), ["--seq-dist=550|0,4~3:1"]);
}

#[test]
fn scenarios_with_mixtures_have_pairs_throughout() {
    let sweep = "sweep: {type: scenarios, runs: [{name: a, benchmark: {dataset: {prompts: {isl: \
                 {mean: 20, median: 10}}}}}, {name: b, benchmark: {dataset: {prompts: {osl: 6}}, \
                 phases: [{name: profiling, rate: 5}]}}]}";
    let benchmark = "  dataset: {prompts: {isl: {mean: 8, stddev: 1}, osl: 4}}\n  profiling: {type: \
                     poisson, rate: 9}";
    let flags = flags_for(benchmark, sweep).unwrap();
    for expected in [
        "--seq-dist=8|1,4|0:1",
        "--variant=a: seq-dist=\"20~10,4|0:1\"",
        "--variant=b: seq-dist=\"8|1,6|0:1\", request-rate=5",
    ] {
        assert!(flags.iter().any(|flag| flag == expected), "{expected}: {flags:?}");
    }
}

#[test]
fn the_rest_of_what_templates_have_is_read() {
    let file = "  dataset: {format: single_turn, records: [{text: a b}, {text: \"c\", \
                outputLength: 2}]}";
    let flags = flags_for(file, "").unwrap();
    let given = flags.iter().find_map(|flag| flag.strip_prefix("--input-file=")).unwrap();
    let content = dataset::inline(given.as_ref()).unwrap();
    let lines: Vec<serde_json::Value> = std::str::from_utf8(&content)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let second = serde_json::json!({"text": "c", "output_length": 2});
    assert_eq!(lines, [serde_json::json!({"text": "a b"}), second]);
    let warmup = "  warmup: {type: user_centric, users: 3, rate: 1.5, duration: 30}";
    let expected =
        ["--warmup-duration=30", "--warmup-num-users=3", "--warmup-user-centric-rate=1.5"];
    let mut flags = flags_for(warmup, "").unwrap();
    flags.sort();
    assert_eq!(flags, expected);
    // A ramp without a limit is nothing.
    let ramp = "  profiling: {type: concurrency, prefillRamp: 30s}";
    assert_eq!(flags_for(ramp, "").unwrap(), [""; 0]);
    let ramp = "  profiling: {type: concurrency, prefillRamp: 30s, prefillConcurrency: 2}";
    assert_eq!(flags_for(ramp, "").unwrap().len(), 2);
    assert_eq!(flags_for("", "plot: {visualization: {x: 1}}").unwrap(), ["--auto-plot"]);
    assert_eq!(
        flags_for("  artifacts: {autoPlot: false}", "plot: p.yaml").unwrap(),
        ["--no-auto-plot"]
    );
    let formats = "sweep: {type: grid, parameters: {datasets.main.format: [speed_bench_qa, \
                   speed_bench_rag]}}";
    let expected = [
        "--variant=speed_bench_qa: custom-dataset-type=speed_bench_qa",
        "--variant=speed_bench_rag: custom-dataset-type=speed_bench_rag",
    ];
    assert_eq!(flags_for("", formats).unwrap(), expected);
}
