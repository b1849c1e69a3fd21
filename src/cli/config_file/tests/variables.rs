//! Templates in AIPerf's files, and the older form of these files.

use super::of_aiperf::{FILE, flags, flags_for};
use crate::cli::config_file::{find, shown};
use crate::config::aiperf;

#[test]
fn templates_use_variables_and_settings() {
    let file = r#"
variables:
  total: "{{ per_gpu * gpus }}"
  per_gpu: ${RATE}
  gpus: 2
  lengths: {isl: "{{ total * 10 }}"}
multiRun: {numRuns: "{{ gpus + 1 }}"}
benchmark:
  model: "m{% if gpus > 1 %}-tp{{ gpus }}{% endif %}"
  endpoint: {url: "http://h:1", extra: {payload_template: "{{ text }}"}}
  dataset: {type: synthetic, isl: "{{ lengths.isl }}", osl: {mean: "{{ variables.total // 3 }}"}}
  phases:
    - {name: warmup, type: concurrency, concurrency: 1, requests: "{{ phases.profiling.requests // 4 }}"}
    - {name: profiling, type: poisson, rate: "{{ total / 16 }}", requests: 20}
"#;
    // From AIPerf 0.13: total 8, lengths.isl 80, 8 // 3 = 2, 8 / 16 = 0.5, 20 // 4 = 5.
    let expected = [
        "--arrival-pattern=poisson",
        "--extra-inputs=payload_template:{{ text }}",
        "--isl=80",
        "--model=m-tp2",
        "--num-profile-runs=3",
        "--osl=2",
        "--request-count=20",
        "--request-rate=0.5",
        "--url=http://h:1",
        "--warmup-concurrency=1",
        "--warmup-request-count=5",
    ];
    assert_eq!(flags(file).unwrap(), expected);
}

#[test]
fn variables_that_cannot_be_resolved_are_named() {
    for (variables, why) in [
        ("{a: '{{ b }}', b: '{{ a }}', c: 1}", "variables: a, b use each other"),
        ("{a: '{{ a }}'}", "variables: a use each other"),
        ("{a: '{{ none_such + 1 }}'}", "variables.a: none_such is not set"),
        ("5", "variables: expected settings"),
        ("{a: '{{ 1 | none_such }}'}", "variables.a: line 1: unknown filter"),
        (
            "{a: '{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}'}",
            "variables.a: line 1: it exceeds 5000000 steps",
        ),
    ] {
        let error = flags_for("", &format!("variables: {variables}")).unwrap_err();
        assert!(error.contains(why), "{variables}: {error}");
    }
    // Each step doubles: the values of all together are limited.
    let first = format!("variables:\n  v0: {}\n", "x".repeat(1 << 16));
    let steps =
        (1..12).map(|step| format!("  v{step}: '{{{{ v{} ~ v{} }}}}'\n", step - 1, step - 1));
    let file: String = std::iter::once(first).chain(steps).collect();
    assert_eq!(
        flags_for("", &file).unwrap_err(),
        "variables.v6: the values of variables exceed 4 MiB"
    );
}

#[test]
fn sweeps_over_variables_render_the_file_for_each_cell() {
    let benchmark = "  dataset: {type: synthetic, isl: '{{ n * 10 }}', osl: '{{ n }}'}\n  \
                     phases: {type: concurrency, concurrency: 2, requests: 8}";
    let grid = |kind: &str| {
        format!(
            "variables: {{n: 4}}\nsweep: {{type: {kind}, iterationOrder: independent, parameters: \
             {{variables.n: [4, 5], concurrency: ['{{{{ n }}}}', 9]}}}}"
        )
    };
    // As AIPerf orders them: parameters by name, the last one fastest.
    let expected = [
        "--concurrency=2",
        "--isl=40",
        "--osl=4",
        "--parameter-sweep-mode=independent",
        "--request-count=8",
        "--variant=concurrency_9__n_4: isl=40, osl=4, concurrency=9",
        "--variant=concurrency_9__n_5: isl=50, osl=5, concurrency=9",
        "--variant=concurrency_{{ n }}__n_4: isl=40, osl=4, concurrency=4",
        "--variant=concurrency_{{ n }}__n_5: isl=50, osl=5, concurrency=5",
    ];
    assert_eq!(flags_for(benchmark, &grid("grid")).unwrap(), expected);
    let zipped = flags_for(benchmark, &grid("zip")).unwrap();
    let zipped: Vec<&String> = zipped.iter().filter(|flag| flag.starts_with("--variant")).collect();
    assert_eq!(
        zipped,
        [
            "--variant=concurrency_9__n_5: isl=50, osl=5, concurrency=9",
            "--variant=concurrency_{{ n }}__n_4: isl=40, osl=4, concurrency=4"
        ]
    );
    let scenarios = "variables: {n: 4, deep: {k: 1}}\nsweep: {type: scenarios, runs: [{name: a}, \
                     {variables: {n: 6}}, {name: c, variables: {n: 7}, benchmark: {profiling: \
                     {requests: '{{ n + 2 }}'}}}, {values: {isl: 1, x.osl: 2}, variables: {n: 1}}]}";
    let found = flags_for(benchmark, scenarios).unwrap();
    let found: Vec<&String> = found.iter().filter(|flag| flag.starts_with("--variant")).collect();
    assert_eq!(
        found,
        [
            "--variant=a: isl=40, osl=4, request-count=8",
            "--variant=c: isl=70, osl=7, request-count=9",
            "--variant=isl_1__osl_2: isl=10, osl=1, request-count=8",
            "--variant=scenario_1: isl=60, osl=6, request-count=8",
        ]
    );
    for (sweep, why) in [
        ("{parameters: {variables.m: [1, 2]}}", "no template uses the variables"),
        ("{type: zip, parameters: {variables.n: [1, 2], isl: [1]}}", "the same length"),
        ("{parameters: {variables.n: 5}}", "sweep.parameters.variables.n: expected a list"),
        ("{parameters: {variables.n: []}}", "sweep.parameters.variables.n: expected a list"),
        ("{type: scenarios, runs: [{variables: {n: 1}, other: 2}]}", "use name, variables"),
        ("{type: sobol, parameters: {variables.n: [1]}}", "grid, zip and scenarios"),
    ] {
        let rest = format!("variables: {{n: 4}}\nsweep: {sweep}");
        let error = flags_for(benchmark, &rest).unwrap_err();
        assert!(error.contains(why), "{sweep}: {error}");
    }
    let list = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    let many = format!(
        "variables: {{n: 4}}\nsweep: {{parameters: {{variables.n: [{list}], concurrency: [{list}]}}}}"
    );
    assert!(flags_for(benchmark, &many).unwrap_err().contains("more than 1000 cells"));
}

#[test]
fn older_files_have_the_settings_of_the_benchmark_at_their_top() {
    let older = FILE.replace("\n  ", "\n").replace("benchmark:\n", "");
    assert_eq!(flags(&older).unwrap(), flags(FILE).unwrap());
    // What the benchmark has is not replaced.
    let both = "model: a\nslos: {request_latency: 5}\nbenchmark: {model: b}";
    assert_eq!(flags(both).unwrap(), ["--goodput=request_latency:5", "--model=b"]);
    // A file with the names of flags is not one of AIPerf's.
    assert_eq!(
        flags("model: a\nendpoint: {url: 'http://h'}").unwrap(),
        ["--model=a", "--url=http://h"]
    );
    let command = crate::cli::command();
    let profile = command.find_subcommand("profile").unwrap();
    let groups = shown::groups(profile);
    for key in aiperf::OF_AIPERF {
        let name = key.replace('_', "-");
        assert!(find(profile, &name).is_none() && !groups.contains(&name), "{key}");
    }
}
