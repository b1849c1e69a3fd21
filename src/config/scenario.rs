//! Scenarios: benchmarks that others define by their settings, and by what makes a result of theirs
//! valid. Each is a row of [`SCENARIOS`]; how they are applied is the same for all.

use results::run::scenario::Limits;

/// A benchmark that others define.
#[derive(Debug, PartialEq)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Groups of settings that apply unless others are given. A later group replaces settings of earlier
    /// ones.
    settings: &'static [&'static [Setting]],
    /// Members that each request body must have, as true.
    pub body: &'static [&'static str],
    /// Flags with the smallest value that they may have.
    pub at_least: &'static [(&'static str, f64)],
    /// Flags that must not be given.
    pub forbids: &'static [&'static str],
    /// The values of `--public-dataset` that may be replayed.
    pub public_datasets: &'static [&'static str],
    /// The repositories that `--hf-weka-dataset` may name.
    pub repositories: &'static [&'static str],
    /// What the results must keep.
    pub limits: Limits,
}

/// A setting of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The long name of its flag.
    pub flag: &'static str,
    /// The value of the flag; `None` for a switch.
    pub value: Option<&'static str>,
    /// Whether no other value is valid.
    pub is_locked: bool,
    /// Flags that replace it.
    pub unless: &'static [&'static str],
}

const fn set(flag: &'static str, value: &'static str) -> Setting {
    Setting { flag, value: Some(value), is_locked: false, unless: &[] }
}

const fn on(flag: &'static str) -> Setting {
    Setting { flag, value: None, is_locked: false, unless: &[] }
}

impl Setting {
    const fn locked(self) -> Self {
        Self { is_locked: true, ..self }
    }

    const fn unless(self, unless: &'static [&'static str]) -> Self {
        Self { unless, ..self }
    }
}

impl Scenario {
    /// Returns the scenario with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// Returns the settings, each flag once.
    pub fn settings(&self) -> impl Iterator<Item = &Setting> {
        let groups = self.settings.iter().enumerate();
        groups.flat_map(|(at, group)| {
            let later = &self.settings[at + 1..];
            group.iter().filter(move |setting| {
                !later.iter().flat_map(|group| *group).any(|other| other.flag == setting.flag)
            })
        })
    }
}

/// The scenarios.
pub static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "inferencex-agentx-mvp",
        about: "InferenceX's replay of the traces of coding agents, by AIPerf",
        settings: &[REPLAY],
        ..AGENTX
    },
    Scenario {
        name: "agentx",
        about: "InferenceX's replay of the traces of coding agents, by its own harness",
        settings: &[REPLAY, HARNESS],
        limits: Limits { coverage: 0.95, ..AGENTX.limits },
        ..AGENTX
    },
];

/// What the scenarios of InferenceX have in common.
const AGENTX: Scenario = Scenario {
    name: "",
    about: "",
    settings: &[],
    body: &["ignore_eos"],
    at_least: &[("benchmark-duration", 900.0)],
    forbids: &[
        "fixed-schedule",
        "ignore-trace-delays",
        "inter-turn-delay-cap-seconds",
        "request-rate",
        "request-rate-series",
        "synthesis-max-isl",
        "user-centric-rate",
    ],
    public_datasets: &[
        "semianalysis_cc_traces_weka_with_subagents",
        "semianalysis_cc_traces_weka_with_subagents_256k",
        "semianalysis_cc_traces_weka_with_subagents_060226",
        "semianalysis_cc_traces_weka_with_subagents_060226_256k",
        "semianalysis_cc_traces_weka_with_subagents_060526",
        "semianalysis_cc_traces_weka_with_subagents_060526_256k",
        "semianalysis_cc_traces_weka_with_subagents_060826",
        "semianalysis_cc_traces_weka_with_subagents_060826_256k",
        "semianalysis_cc_traces_weka_061326",
        "semianalysis_cc_traces_weka_061326_256k",
        "semianalysis_cc_traces_weka_061526",
        "semianalysis_cc_traces_weka_061526_256k",
        "semianalysis_cc_traces_weka_062126",
        "semianalysis_cc_traces_weka_062126_256k",
    ],
    repositories: &["semianalysisai/cc-traces-weka-062126"],
    limits: Limits { overflows: 0.01, coverage: 0.98, coverage_from: 900.0 },
};

/// The load of InferenceX.
const REPLAY: &[Setting] = &[
    on("agentic").locked(),
    on("streaming").locked(),
    set("cache-bust", "first_turn_prefix").locked(),
    set("system-idle-gap-cap-seconds", "10").locked(),
    set("benchmark-duration", "1800"),
    set("trajectory-start-min-ratio", "0"),
    set("trajectory-start-max-ratio", "1"),
    set("prompt-corpus", "coding"),
];

/// What InferenceX's harness sets by default.
const HARNESS: &[Setting] = &[
    set("endpoint", "/v1/chat/completions"),
    set("endpoint-type", "chat"),
    set("random-seed", "42"),
    set("num-dataset-entries", "393"),
    set("trajectory-start-min-ratio", "0.25"),
    set("trajectory-start-max-ratio", "0.75"),
    set("warmup-requests-per-lane", "10").unless(&["agentic-cache-warmup-duration"]),
    set("warmup-grace-period", "1800"),
    set("trace-idle-gap-cap-seconds", "300"),
    set("failed-request-threshold", "0.10"),
    on("use-server-token-count").unless(&["apply-chat-template"]),
    on("no-gpu-telemetry").unless(&["gpu-telemetry"]),
    set("slice-duration", "1.0"),
    set("stats-interval", "30"),
];

#[cfg(test)]
mod tests {
    use dataset::Public;

    use super::*;

    #[test]
    fn every_flag_and_dataset_of_a_scenario_exists() {
        for scenario in SCENARIOS {
            for name in scenario.public_datasets {
                assert!(Public::named(name).is_some_and(|it| it.name == *name), "{name}");
            }
            let ratio = scenario.settings().filter(|it| it.flag == "trajectory-start-max-ratio");
            assert_eq!(ratio.count(), 1, "{}", scenario.name);
        }
        assert_eq!(Scenario::named("agentx").unwrap().limits.coverage, 0.95);
        assert_eq!(Scenario::named("inferencex-agentx-mvp").unwrap().limits.coverage, 0.98);
        assert_eq!(Scenario::named("AgentX"), None);
    }
}
