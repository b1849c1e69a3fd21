//! `input_config` as a file: it has the settings of the run that wrote it.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::json;

use super::in_file;
use crate::cli::{CliError, Command, parse_with};
use crate::config::{Environment, RunConfig, aiperf};

/// Dataset that is not read, since only its settings matter.
const FILE: &str = "--input-file data:,{}";

fn parsed(flags: &[String]) -> Result<RunConfig, CliError> {
    let arguments = ["aiperf", "profile"].into_iter().map(str::to_owned);
    let arguments = arguments.chain(flags.iter().cloned()).map(Into::into);
    match parse_with(arguments, Environment::new(&|_| None))? {
        Command::Profile(benchmark) => Ok(benchmark.config),
        other => panic!("{other:?}"),
    }
}

/// Draws one of the texts, in which `N` is a whole number and `R` is a real one.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    numbered(select(texts).prop_map(|text| vec![text]))
}

/// Draws any of the texts.
fn any_of(texts: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    numbered(subsequence(texts, 0..=texts.len()))
}

fn numbered(texts: impl Strategy<Value = Vec<&'static str>>) -> impl Strategy<Value = Vec<String>> {
    let numbers = (2_u64..500, 0.001..500.0_f64);
    (texts, numbers).prop_map(|(texts, (whole, real))| {
        let words = texts.into_iter().flat_map(|text| text.split(' '));
        let word = |word: &str| match word {
            "N" => whole.to_string(),
            "R" => real.to_string(),
            word => word.to_owned(),
        };
        words.filter(|word| !word.is_empty()).map(word).collect()
    })
}

/// Models, endpoint and what is sent to it.
fn endpoint() -> impl Strategy<Value = Vec<String>> {
    let models = one_of(&[
        "--model m",
        "--model a,b --model-selection-strategy random",
        "--model a,b --model-weights 0.25,0.75",
    ]);
    let kinds = one_of(&[
        "--endpoint-type chat --streaming",
        "--endpoint-type completions --use-legacy-max-tokens",
        "--endpoint-type chat --streaming --use-server-token-count --per-chunk-usage",
        "--endpoint-type template --extra-inputs \
         {\"payload_template\":\"{\\\"text\\\":\\\"{{text}}\\\"}\",\"response_field\":\"a.b\"}",
    ]);
    let others = any_of(&[
        "--url http://a:1/v1,https://b",
        "--endpoint /v2/x",
        "--request-timeout-seconds R",
        "--wait-for-model-timeout R --wait-for-model-mode both --wait-for-model-interval R",
        "--connection-reuse-strategy never",
        "--session-header X-Session",
        "--download-video-content",
        "--header X-Team:a --header X-Number:5",
        "--extra-inputs {\"number\":5,\"text\":\"5\",\"list\":[1,\"a,b:c\"],\"none\":null,\"a\":\"b,c:d\"}",
        "--reset-kv-cache --reset-kv-cache-path /flush --reset-kv-cache-timeout-seconds R",
        "--server-profiler --server-profiler-stop-path /stop",
    ]);
    (models, kinds, others).prop_map(|(a, b, c)| [a, b, c].concat())
}

/// What is sent.
fn dataset() -> impl Strategy<Value = Vec<String>> {
    let lengths = one_of(&[
        "--isl N --isl-stddev R",
        "--isl N --osl N --osl-stddev R",
        "--seq-dist 128|10,64|5:60;512~400,128:40",
        "--isl N --osl N --random-range-ratio 0.25",
        "--isl N --osl N --random-range-ratio {\"input\":0.25,\"output\":0.5}",
    ]);
    let others = any_of(&[
        "--num-dataset-entries N",
        "--prompt-corpus sonnet",
        "--session-turn-delay-mean N --session-turn-delay-stddev R",
        "--session-delay-ratio R",
        "--num-prefix-prompts N --prefix-prompt-length N",
        "--user-context-prompt-length N",
        "--system-prompt Be-brief:-{yes}",
        "--image-width-mean N --image-height-mean N --image-height-stddev R --image-format png",
        "--audio-length-mean R --audio-sample-rates 8,44.1 --audio-depths 16,32 --audio-num-channels 2",
    ]);
    let generated = (lengths, others).prop_map(|(lengths, others)| [lengths, others].concat());
    let file = any_of(&[
        "--custom-dataset-type mooncake-trace --isl-block-size N",
        "--osl N --osl-stddev R",
        "--synthesis-speedup-ratio R --synthesis-max-isl N",
        "--synthesis-prefix-root-multiplier N --synthesis-output-len-multiplier R",
        "--replay-speedup R",
        "--ignore-trace-delays",
        "--inter-turn-delay-cap-seconds R",
    ]);
    let file =
        file.prop_map(|flags| FILE.split(' ').map(str::to_owned).chain(flags).collect::<Vec<_>>());
    let public = one_of(&[
        "--public-dataset sharegpt",
        "--public-dataset spec_al_gsm8k --dataset-filter split_name=a --num-dataset-entries N",
        "--hf-weka-dataset org/name --osl N",
    ]);
    let sampling =
        one_of(&["--dataset-sampling-strategy sequential", "--dataset-sampling-strategy shuffle"]);
    let all = prop_oneof![4 => generated, 2 => file, 1 => public];
    (all, sampling).prop_map(|(all, sampling)| [all, sampling].concat())
}

/// When requests are sent.
fn load() -> impl Strategy<Value = Vec<String>> {
    // The default concurrency of a file depends on whether it has timestamps.
    let load = one_of(&[
        "--concurrency N",
        "--concurrency N --concurrency-ramp-duration R",
        "--request-rate R",
        "--request-rate R --arrival-pattern constant --request-rate-ramp-duration R",
        "--request-rate R --concurrency N --arrival-pattern gamma --arrival-smoothness R",
    ]);
    let stop = one_of(&[
        "",
        "--request-count N",
        "--num-sessions N",
        "--benchmark-duration R --benchmark-grace-period R",
        "--benchmark-duration R --request-count N",
    ]);
    let warmup = one_of(&[
        "",
        "--warmup-request-count N",
        "--warmup-duration R --warmup-grace-period R",
        "--num-warmup-sessions N --warmup-concurrency N",
        "--warmup-request-count N --warmup-request-rate R --warmup-arrival-pattern gamma",
    ]);
    let others = any_of(&[
        "--request-cancellation-rate 10.5 --request-cancellation-delay R",
        "--failed-request-threshold 0.25",
        "--end-failed-sessions",
    ]);
    (load, stop, warmup, others).prop_map(|(a, b, c, d)| [a, b, c, d].concat())
}

/// Files, telemetry and the program itself.
fn rest() -> impl Strategy<Value = Vec<String>> {
    let files = any_of(&[
        "--profile-export-prefix p",
        "--export-http-trace",
        "--export-outputs-json",
        "--slice-duration R",
        "--show-trace-timing",
        "--goodput time_to_first_token:200 request_latency:2000.5",
        "--ui none",
        "--workers-max N",
        "--record-processors N",
        "--log-level debug",
    ]);
    let each = [
        &["", "--export-level summary", "--export-level raw"][..],
        &["--tokenizer builtin", "--tokenizer org/name --tokenizer-revision v1"][..],
        &["", "--no-gpu-telemetry", "--gpu-telemetry h:9400,http://g/metrics"][..],
        &["", "--no-server-metrics", "--server-metrics h:1 --server-metrics-formats jsonl,csv"][..],
        &[
            "",
            "--network-latency-mean R",
            "--network-latency-automatic --network-latency-ping-interval R",
        ][..],
        &[
            "",
            "--otel-url h:4317 --stream timing --gen-ai-provider p",
            "--otel-url http://h:4318 --otel-resource-attributes a=1,b=c",
        ][..],
    ];
    let each: Vec<_> = each.into_iter().map(|texts| one_of(texts).boxed()).collect();
    (files, each).prop_map(|(files, each)| [files, each.concat()].concat())
}

/// Settings with a schedule or users, which go with few others.
fn scheduled() -> impl Strategy<Value = Vec<String>> {
    one_of(&[
        "--model m --input-file data:,{} --fixed-schedule --fixed-schedule-auto-offset",
        "--model m --input-file data:,{} --fixed-schedule-start-offset R \
         --fixed-schedule-end-offset 1000 --warmup-request-count N",
        "--model m --input-file data:,{} --fixed-schedule --open-loop-strict",
        "--model m --input-file data:,{} --concurrency N --cache-bust first_turn_prefix \
         --trace-idle-gap-cap-seconds R --max-idle-gap-cap-seconds R",
        "--model m --input-file data:,{} --agentic --concurrency N --benchmark-duration R \
         --trajectory-start-min-ratio 0.125 --trace-idle-gap-cap-seconds R",
        "--model m --input-file data:,{} --agentic --concurrency N --request-count N \
         --system-idle-gap-cap-seconds R --burst-phase-starts --warmup-requests-per-lane N",
        "--model m --input-file data:,{} --agentic --num-sessions N --agentic-cache-warmup-duration R \
         --agentic-warmup-grace-period R",
        "--model m --num-users N --user-centric-rate R --session-turns-mean 3 \
         --session-turns-stddev R",
        "--model m --session-turns-mean 3 --concurrency N --warmup-duration R --warmup-num-users N \
         --warmup-user-centric-rate R",
        "--model m --endpoint-type nim_rankings --rankings-passages-mean N \
         --rankings-passages-stddev R --rankings-query-prompt-token-mean N",
        "--model m --streaming --concurrency N --prefill-concurrency 2 --warmup-duration R \
         --prefill-concurrency-ramp-duration R --warmup-prefill-concurrency 2",
        "--model m --video-width 64 --video-height 32 --video-duration R --video-codec libx264 \
         --video-format mp4 --video-audio-num-channels 2 --video-audio-sample-rate 48",
        "--model m --input-file data:,{} --custom-dataset-type single-turn --uuid-and-strip \
         --concurrency N",
    ])
}

fn settings() -> impl Strategy<Value = Vec<String>> {
    let usual = (endpoint(), dataset(), load()).prop_map(|(a, b, c)| [a, b, c].concat());
    let scheduled = scheduled().prop_map(|mut flags| {
        flags.extend(["--dataset-sampling-strategy", "random"].map(str::to_owned));
        flags
    });
    (prop_oneof![3 => usual, 1 => scheduled], rest()).prop_map(|(settings, rest)| {
        let directory = ["--artifact-dir".to_owned(), "out".to_owned()];
        [settings, rest, directory.to_vec()].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_file_with_the_input_config_of_a_run_has_its_settings(flags in settings()) {
        let config = match parsed(&flags) {
            Ok(config) => config,
            Err(error) => panic!("{}: {error}", flags.join(" ")),
        };
        let input_config = config.input_config();
        let file = in_file(&json!({ "benchmark": input_config }).to_string());
        let again = parsed(&["--config".to_owned(), file.path().display().to_string()]);
        let again = match again {
            Ok(again) => again,
            Err(error) => panic!("{}: {error}: {input_config}", flags.join(" ")),
        };
        prop_assert_eq!(again.input_config(), input_config, "{}", flags.join(" "));
        prop_assert_eq!(json!(again), json!(config), "{}", flags.join(" "));
    }
}

/// Command lines that have all settings of `input_config` between them.
const ALL: &[&str] = &[
    "--model a --streaming --use-server-token-count --per-chunk-usage --api-key k --endpoint /v2 \
     --session-header X --reset-kv-cache --server-profiler --isl 10 --osl 5 --system-prompt x \
     --num-dataset-entries 3 --num-prefix-prompts 2 --prefix-prompt-length 3 \
     --user-context-prompt-length 2 --prompt-corpus sonnet --cache-bust first_turn_prefix \
     --concurrency 2 --concurrency-ramp-duration 1 --prefill-concurrency 2 --num-sessions 4 \
     --prefill-concurrency-ramp-duration 1 --request-cancellation-rate 5 --end-failed-sessions \
     --failed-request-threshold 0.5 --benchmark-duration 5 --profile-export-prefix p \
     --export-outputs-json --slice-duration 1 --goodput request_latency:5 --otel-url h:1 \
     --gen-ai-provider p --network-latency-automatic --workers-max 2 --record-processors 1",
    "--model m --seq-dist 8,4:100 --shared-system-prompt-length 4 --tokenizer org/name \
     --network-latency-mean 5 --request-rate 5 --request-rate-ramp-duration 1 \
     --arrival-smoothness 2 --request-count 9",
    "--model m --isl 9 --osl 8 --random-range-ratio 0.5 --num-users 2 --user-centric-rate 1 \
     --session-turns-mean 2",
    "--model m --image-source src --image-width-mean 8 --image-height-mean 8 \
     --audio-length-mean 1 --video-width 64 --video-height 64 --video-audio-num-channels 1",
    "--model m --endpoint-type template --extra-inputs \
     {\"payload_template\":\"{}\",\"response_field\":\"a\"}",
    "--model m --endpoint-type nim_rankings",
    "--model m --input-file data:,{} --custom-dataset-type mooncake-trace --osl 5 \
     --isl-block-size 4 --synthesis-speedup-ratio 2 \
     --synthesis-prefix-len-multiplier 2 --synthesis-prefix-root-multiplier 2 \
     --synthesis-prompt-len-multiplier 2 --synthesis-output-len-multiplier 2 \
     --synthesis-max-isl 9 --synthesis-max-osl 9 --replay-speedup 2 \
     --inter-turn-delay-cap-seconds 1 --max-idle-gap-cap-seconds 1 \
     --trace-idle-gap-cap-seconds 1 --cache-bust first_turn_prefix \
     --fixed-schedule-start-offset 1 --fixed-schedule-end-offset 9",
    "--model m --input-file data:,{} --custom-dataset-type single-turn --uuid-and-strip",
    "--model m --public-dataset spec_al_gsm8k --hf-subset s --dataset-filter split_name=a",
    "--model m --hf-weka-dataset o/n",
    "--model m --input-file data:,{} --agentic --concurrency 1 --num-sessions 2 \
     --burst-phase-starts --system-idle-gap-cap-seconds 1 --warmup-requests-per-lane 2 \
     --agentic-warmup-grace-period 3",
    "--model m --input-file data:,{} --agentic --benchmark-duration 9 \
     --agentic-cache-warmup-duration 2",
    "--model m --adaptive-scale --concurrency 9 --adaptive-scale-sla request_latency:p95:le:9 \
     --adaptive-step-policy sla_margin",
    "--model m --adaptive-scale --concurrency 9 --adaptive-scale-sla request_latency:p95:le:9 \
     --adaptive-step-policy fixed-percent-step",
    "--model m --phase a:concurrency=2,benchmark-duration=5,seamless=true --phase b:concurrency=3",
];

#[test]
fn each_setting_has_a_value_in_some_run() {
    let series = in_file(r#"{"points": [{"time_s": 0, "qps": 5}, {"time_s": 60, "qps": 20}]}"#);
    let series = format!("--model m --request-rate-series {}", series.path().display());
    let lines = ALL.iter().copied().chain([series.as_str()]);
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let runs: Vec<_> = lines.map(|line| parsed(&words(line)).unwrap().input_config()).collect();
    for (group, path) in aiperf::shown_settings() {
        let pointer = format!("/{}", path.replace('.', "/"));
        let is_shown = |run: &serde_json::Value| match group {
            None => run.pointer(&pointer).is_some(),
            Some(group) => {
                run[group].as_array().unwrap().iter().any(|it| it.pointer(&pointer).is_some())
            }
        };
        assert!(runs.iter().any(is_shown), "{group:?} {path}");
    }
}
