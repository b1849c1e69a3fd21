//! Scenarios on the command line.

use aiperf::cli::Command;
use aiperf::config::RunConfig;
use base::units::Nanos;
use client::schedule::config::{AgenticPart, EntryRange, LoadPattern};
use dataset::CacheBust;
use serde_json::json;

use super::{parse_in, profile, refusal};
use crate::support::run::inferencex_command;

const NAME: &str = "inferencex-agentx-mvp";
const DATASET: &str = "--public-dataset semianalysis_cc_traces_weka_062126";

fn with(flags: &str) -> RunConfig {
    profile(&format!("--scenario {NAME} {DATASET} {flags}"))
}

/// Returns the violations for which a run is rejected, and those that it has with `--unsafe-override`.
fn violations(flags: &str) -> Vec<String> {
    let told = refusal(&format!("--scenario {NAME} {flags}"));
    let text =
        told.split("does not allow these settings: ").nth(1).unwrap_or_else(|| panic!("{told}"));
    let text = text.split("; change them, or add --unsafe-override").next().unwrap();
    let told: Vec<String> = text.split("; ").map(str::to_owned).collect();
    let run = profile(&format!("--scenario {NAME} --unsafe-override {flags}"));
    assert_eq!(run.scenario.unwrap().violations, told);
    told
}

fn entry(config: &RunConfig) -> EntryRange {
    let LoadPattern::Agentic(load) = config.schedule.phases[0].load else { panic!() };
    load.entry
}

#[test]
fn a_scenario_sets_what_is_not_given() {
    let config = with("");
    let LoadPattern::Agentic(load) = config.schedule.phases[1].load else { panic!() };
    assert_eq!(load.part, AgenticPart::Replay);
    assert_eq!(load.entry, EntryRange { min: 0.0, max: 1.0 });
    assert_eq!(load.system_idle_cap, Some(Nanos::from_seconds(10.0)));
    assert_eq!(config.schedule.phases[1].stop.duration, Some(Nanos::from_seconds(1800.0)));
    assert!(config.endpoint.streaming);
    assert_eq!(config.endpoint.extra_inputs, [("ignore_eos".to_owned(), json!(true))]);
    assert_eq!(config.dataset.cache_bust, CacheBust::FirstTurnPrefix);
    let scenario = config.scenario.as_ref().unwrap();
    assert_eq!((&*scenario.name, scenario.violations.len()), (NAME, 0));
    assert_eq!(
        serde_json::to_value(&scenario.dataset).unwrap(),
        json!({"source_type": "public_dataset", "loader": "semianalysis_cc_traces_weka_062126",
               "hf_dataset_name": "semianalysisai/cc-traces-weka-062126", "hf_split": "train"})
    );
    let given = with(
        "--benchmark-duration 3600 --trajectory-start-max-ratio 0.5 --num-dataset-entries 393 \
         --extra-inputs top_k:3 ignore_eos:1 --streaming=true",
    );
    assert_eq!(given.schedule.phases[1].stop.duration, Some(Nanos::from_seconds(3600.0)));
    assert_eq!(entry(&given), EntryRange { min: 0.0, max: 0.5 });
    let inputs = [("top_k".to_owned(), json!(3)), ("ignore_eos".to_owned(), json!(1))];
    assert_eq!(given.endpoint.extra_inputs, inputs);
    assert_eq!(given.scenario.unwrap().dataset.num_dataset_entries, Some(393));
    // Without a scenario nothing is set.
    assert_eq!(profile("").scenario, None);
}

#[test]
fn the_harness_has_defaults_of_its_own() {
    let config =
        profile(&format!("--scenario agentx {DATASET} --apply-chat-template --tokenizer x"));
    assert_eq!(entry(&config), EntryRange { min: 0.25, max: 0.75 });
    let LoadPattern::Agentic(load) = config.schedule.phases[1].load else { panic!() };
    assert_eq!(load.part, AgenticPart::CacheRequests(10));
    assert_eq!(load.tree_idle_cap, Some(Nanos::from_seconds(300.0)));
    assert_eq!(config.schedule.phases[0].grace_period, Some(Nanos::from_seconds(1800.0)));
    assert_eq!(config.schedule.phases[2].failed_request_threshold, Some(0.1));
    assert_eq!(config.dataset.random_seed, Some(42));
    assert!(!config.endpoint.use_server_token_count);
    assert_eq!(config.scenario.unwrap().limits.coverage, 0.95);
    let other = profile(&format!("--scenario agentx {DATASET} --agentic-cache-warmup-duration 60"));
    let LoadPattern::Agentic(load) = other.schedule.phases[1].load else { panic!() };
    assert_eq!(load.part, AgenticPart::CacheDuration(Nanos::from_seconds(60.0)));
    assert!(other.endpoint.use_server_token_count);
}

#[test]
fn all_violations_are_in_one_message() {
    let flags = format!(
        "{DATASET} --benchmark-duration 600 --ignore-trace-delays --streaming=false \
         --extra-inputs ignore_eos:false --system-idle-gap-cap-seconds 20 --cache-bust none \
         --synthesis-max-isl 5 --inter-turn-delay-cap-seconds 9"
    );
    assert_eq!(
        violations(&flags),
        [
            "--streaming must be on",
            "--cache-bust must be first_turn_prefix, got none",
            "--system-idle-gap-cap-seconds must be 10, got 20",
            "--extra-inputs ignore_eos must be true, got false",
            "--benchmark-duration must be at least 900, got 600",
            "--ignore-trace-delays must not be given",
            "--inter-turn-delay-cap-seconds must not be given",
            "--synthesis-max-isl must not be given",
        ]
    );
    // The same values in another form are allowed.
    with(
        "--system-idle-gap-cap-seconds 10.0 --cache-bust first-turn-prefix --benchmark-duration 900",
    );
    with("--ignore-trace-delays=false");
    for (flags, violation) in [
        ("--hf-weka-dataset a/b", "--hf-weka-dataset a/b is not one of its datasets"),
        (
            "--public-dataset semianalysis_cc_traces_weka",
            "--public-dataset semianalysis_cc_traces_weka is not one of its datasets",
        ),
        ("--input-file Cargo.toml", "--input-file is a dataset that nobody else can check"),
    ] {
        assert_eq!(violations(flags), [violation], "{flags}");
    }
    profile(&format!(
        "--scenario {NAME} --hf-weka-dataset semianalysisai/cc-traces-weka-062126@v1"
    ));
}

#[test]
fn some_errors_are_not_overridden() {
    for (flags, why) in [
        ("--scenario x", "\"x\" is not a scenario; use inferencex-agentx-mvp or agentx"),
        ("--scenario agentx", "agentx replays recorded traces, and not generated prompts"),
        ("--unsafe-override", "--scenario <NAME>"),
    ] {
        let told = refusal(
            &format!("{flags} --unsafe-override")
                .replace("--unsafe-override --unsafe-override", "--unsafe-override"),
        );
        assert!(told.contains(why), "{flags}: {told}");
    }
    let sweep =
        refusal(&format!("--scenario {NAME} {DATASET} --concurrency 1,2 --unsafe-override"));
    assert!(sweep.contains("is a single run; give each flag a single value"), "{sweep}");
    let rate = format!("--scenario {NAME} {DATASET} --request-rate 5");
    assert!(refusal(&rate).contains("--request-rate must not be given"), "{}", refusal(&rate));
    let told = refusal(&format!("{rate} --unsafe-override"));
    assert!(told.contains("cannot be used with"), "{told}");
}

#[test]
fn the_command_of_inferencex_is_read() {
    let flags = format!(
        "--concurrency 16 --benchmark-duration 3600 --warmup-requests-per-lane 10 {DATASET}"
    );
    let command = inferencex_command("http://localhost:8888", "x/y", &flags);
    let arguments: Vec<&str> = command.split_whitespace().collect();
    let Ok(Command::Profile(benchmark)) = parse_in(&arguments, &[]) else { panic!("{command}") };
    let config = benchmark.config;
    assert_eq!(entry(&config), EntryRange { min: 0.25, max: 0.75 });
    assert_eq!(config.schedule.phases.len(), 3);
    assert!(config.schedule.phases.iter().all(|it| it.concurrency.unwrap().most == 16));
    assert_eq!(config.server.session_copies, ["x-session-affinity", "x-dynamo-session-id"]);
    assert_eq!(config.scenario.unwrap().violations, [""; 0]);
}

#[test]
fn scenarios_are_listed_with_their_rules() {
    let Ok(Command::Show(text)) = parse_in(&["scenarios"], &[]) else { panic!() };
    let harness = text.split("agentx\n").last().unwrap();
    for words in [
        "  sets:\n    --benchmark-duration 1800",
        "  requires:\n    --agentic\n    --streaming\n    --cache-bust first_turn_prefix",
        "--extra-inputs ignore_eos:true\n    --benchmark-duration 900 or more",
        "  forbids:\n    --fixed-schedule",
        "    --hf-weka-dataset semianalysisai/cc-traces-weka-062126",
        "--warmup-requests-per-lane 10",
        "responses during 95% of a duration of 900 s or more",
    ] {
        assert!(harness.contains(words), "{words}\n{text}");
    }
    assert_eq!(text.matches("\n  requires:").count(), 2);
    assert_eq!(harness.matches("--trajectory-start-min-ratio").count(), 1);
    assert_eq!(harness.matches("coding").count(), 2);
}
