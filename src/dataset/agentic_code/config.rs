//! The distributions of generated sessions, in AIPerf's format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Settings of generated sessions of coding agents; defaults are those of AIPerf 0.13.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgenticCode {
    #[serde(alias = "newTokensPerTurn")]
    pub new_tokens_per_turn: NewTokens,
    #[serde(alias = "generationLength")]
    pub generation_length: Lognormal,
    #[serde(alias = "interTurnDelay")]
    pub(crate) inter_turn_delay: Delays,
    pub reset: Option<Reset>,
    pub turns: Option<Turns>,
    #[serde(alias = "maxPromptTokens")]
    pub max_prompt_tokens: u64,
    #[serde(alias = "blockSize")]
    pub block_size: u64,
    pub cache: Cache,
    #[serde(alias = "restartInitialProbability", alias = "restart_fraction")]
    restart_initial_probability: f64,
}

/// A lognormal distribution by its mean and median, or by the mean and deviation of its logarithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lognormal {
    mu: Option<f64>,
    sigma: Option<f64>,
    pub mean: f64,
    pub median: f64,
    /// Limits: values outside are drawn again.
    pub min: Option<f64>,
    pub max: Option<f64>,
}

/// Tokens that a turn adds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewTokens {
    #[serde(flatten)]
    pub tokens: Lognormal,
    /// Factor of mean and median, to make up for turns that the context limit cuts.
    #[serde(default = "one")]
    pub bias: f64,
}

/// Delays before later turns, in milliseconds: of the agent, or of its user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Delays {
    pub(crate) agentic_fraction: f64,
    pub(crate) agentic_delay: Lognormal,
    pub(crate) human_delay: Lognormal,
    pub max: Option<f64>,
}

/// Probability that a session ends before a turn, which grows with the context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reset {
    pub(crate) base_probability: f64,
    pub(crate) context_scaling: f64,
}

/// Number of turns of a session, instead of random ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    pub mean: u64,
    pub median: u64,
    pub min: u64,
    pub max: u64,
    #[serde(default)]
    pub(crate) allow_truncation: bool,
    max_session_attempts: Option<u64>,
}

/// Tokens of the parts of a first prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// Number of tokens that all sessions share.
    pub layer1_tokens: u64,
    /// Number of tokens that the sessions of a group share.
    pub layer1_5_tokens: u64,
    /// Number of tokens that only one session has.
    pub layer2: Lognormal,
    pub(crate) layer1_5_groups: Groups,
}

/// How sessions are distributed among groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Groups {
    pub(crate) num_groups: u64,
    pub(crate) zipf_alpha: f64,
}

const fn one() -> f64 {
    1.0
}

impl Default for AgenticCode {
    fn default() -> Self {
        Self {
            new_tokens_per_turn: NewTokens { tokens: Lognormal::new(3500.0, 1800.0), bias: 1.0 },
            generation_length: Lognormal::new(500.0, 300.0),
            inter_turn_delay: Delays::default(),
            reset: Some(Reset::default()),
            turns: None,
            max_prompt_tokens: 200_000,
            block_size: 512,
            cache: Cache::default(),
            restart_initial_probability: 0.0,
        }
    }
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            agentic_fraction: 0.7,
            agentic_delay: Lognormal::new(2500.0, 1800.0),
            human_delay: Lognormal::new(40_000.0, 25_000.0),
            max: None,
        }
    }
}

impl Default for Reset {
    fn default() -> Self {
        Self { base_probability: 0.02, context_scaling: 2.0 }
    }
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            layer1_tokens: 32_000,
            layer1_5_tokens: 20_000,
            layer2: Lognormal::new(10_000.0, 5000.0),
            layer1_5_groups: Groups::default(),
        }
    }
}

impl Default for Groups {
    fn default() -> Self {
        Self { num_groups: 50, zipf_alpha: 1.2 }
    }
}

impl Lognormal {
    const fn new(mean: f64, median: f64) -> Self {
        Self { mu: None, sigma: None, mean, median, min: None, max: None }
    }

    /// Returns the mean and the deviation of the logarithms: ln(median), and
    /// sqrt(2 · ln(mean / median)).
    pub(super) fn parameters(&self) -> (f64, f64) {
        match (self.mu, self.sigma) {
            (Some(mu), Some(sigma)) => (mu, sigma),
            _ => (self.median.ln(), (2.0 * (self.mean / self.median).ln()).max(0.0).sqrt()),
        }
    }

    fn check(&self, name: &str) -> Result<(), String> {
        let limits = [self.min, self.max];
        if !(self.median > 0.0 && self.mean >= self.median && self.mean <= MAX) {
            return Err(format!(
                "{name}: the median must be above 0, and the mean at least as much"
            ));
        }
        if self.mu.is_some() != self.sigma.is_some() || self.sigma.is_some_and(|it| it < 0.0) {
            return Err(format!("{name}: mu requires sigma, which must be at least 0"));
        }
        if limits.iter().flatten().any(|limit| *limit <= 0.0 || *limit > MAX)
            || matches!(limits, [Some(min), Some(max)] if min > max)
        {
            return Err(format!("{name}: min and max must be above 0, and max at least min"));
        }
        Ok(())
    }
}

/// Maximum of tokens, milliseconds and sessions; more would be a typing error.
const MAX: f64 = 1e9;

impl Turns {
    pub(super) fn attempts(&self) -> u64 {
        if self.allow_truncation { 1 } else { self.max_session_attempts.unwrap_or(100) }
    }

    pub(super) fn lognormal(&self) -> Lognormal {
        Lognormal {
            min: Some(self.min as f64),
            max: Some(self.max as f64),
            ..Lognormal::new(self.mean as f64, self.median as f64)
        }
    }

    fn check(&self) -> Result<(), String> {
        let is_ordered = (1..=self.median).contains(&self.min)
            && (self.median..=self.max).contains(&self.mean)
            && self.max as f64 <= MAX;
        if !is_ordered {
            return Err("turns: expected min <= median <= mean <= max, from 1 on".to_owned());
        }
        if self.allow_truncation && self.max_session_attempts.is_some() {
            return Err(
                "turns: allow_truncation makes max_session_attempts useless; remove it".to_owned()
            );
        }
        Ok(())
    }
}

impl AgenticCode {
    /// Reads the settings, or the `generation_params` of a `manifest.json`. Unknown members are
    /// ignored, as AIPerf does.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut members: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        if let Some(inner) = members.remove("generation_params") {
            members = serde_json::from_value(inner).map_err(|error| error.to_string())?;
        }
        // A number of turns takes the place of random ends.
        let has_turns = members.get("turns").is_some_and(|turns| !turns.is_null());
        if has_turns && !members.contains_key("reset") {
            members.insert("reset".to_owned(), Value::Null);
        }
        let config: Self =
            serde_json::from_value(members.into()).map_err(|error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    /// Limits the tokens of prompts and outputs.
    pub fn limited(mut self, input: Option<u64>, output: Option<u64>) -> Result<Self, String> {
        if let Some(input) = input {
            self.max_prompt_tokens = input;
        }
        if let Some(output) = output {
            self.generation_length.max = Some(output as f64);
        }
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<(), String> {
        self.new_tokens_per_turn.tokens.check("new_tokens_per_turn")?;
        self.generation_length.check("generation_length")?;
        self.inter_turn_delay.agentic_delay.check("inter_turn_delay.agentic_delay")?;
        self.inter_turn_delay.human_delay.check("inter_turn_delay.human_delay")?;
        self.cache.layer2.check("cache.layer2")?;
        self.turns.as_ref().map_or(Ok(()), Turns::check)?;
        let whole = |value: u64, least: u64| (least..=MAX as u64).contains(&value);
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        let reset = self.reset.as_ref();
        let (cache, groups) = (&self.cache, &self.cache.layer1_5_groups);
        let rules = [
            (whole(self.max_prompt_tokens, 1), "max_prompt_tokens must be from 1 to 1e9"),
            (whole(self.block_size, 1), "block_size must be from 1 to 1e9"),
            (whole(cache.layer1_tokens, 0), "cache.layer1_tokens must be at most 1e9"),
            (whole(cache.layer1_5_tokens, 0), "cache.layer1_5_tokens must be at most 1e9"),
            ((1..=1000).contains(&groups.num_groups), "num_groups must be from 1 to 1000"),
            ((0.0..=100.0).contains(&groups.zipf_alpha), "zipf_alpha must be from 0 to 100"),
            (
                (1e-3..=1e3).contains(&self.new_tokens_per_turn.bias),
                "new_tokens_per_turn.bias must be from 0.001 to 1000",
            ),
            (
                is_share(self.inter_turn_delay.agentic_fraction),
                "agentic_fraction must be from 0 to 1",
            ),
            (
                self.inter_turn_delay.max.is_none_or(|max| (0.0..=MAX).contains(&max)),
                "inter_turn_delay.max must be at least 0",
            ),
            (
                reset.is_none_or(|reset| is_share(reset.base_probability)),
                "reset.base_probability must be from 0 to 1",
            ),
            (
                reset.is_none_or(|reset| (1.0..=MAX).contains(&reset.context_scaling)),
                "reset.context_scaling must be at least 1",
            ),
            (
                reset.is_none() || self.turns.is_none(),
                "turns cannot be combined with reset; remove one of the two",
            ),
            (
                self.restart_initial_probability == 0.0,
                "restart_initial_probability must be 0, since sessions are not split",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, why)) => Err(why.to_owned()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_has_the_settings_of_its_run() {
        let config = AgenticCode {
            max_prompt_tokens: 5,
            cache: Cache { layer1_tokens: 7, ..Cache::default() },
            ..AgenticCode::default()
        };
        let manifest = serde_json::json!({"seed": 3, "generation_params": config});
        assert_eq!(AgenticCode::parse(&manifest.to_string()), Ok(config));
        let camel = AgenticCode::parse(r#"{"maxPromptTokens": 9, "x": 1}"#).unwrap();
        assert_eq!(camel.max_prompt_tokens, 9);
    }

    /// ln(1800) = 7.4955; sqrt(2 · ln(3500 / 1800)) = 1.1533.
    #[test]
    fn parameters_follow_from_mean_and_median() {
        let (mu, sigma) = Lognormal::new(3500.0, 1800.0).parameters();
        assert!((mu - 7.495_54).abs() < 1e-4 && (sigma - 1.153_28).abs() < 1e-4, "{mu} {sigma}");
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, words) in [
            ("[]", "invalid type"),
            (r#"{"generation_length": {"mean": 1, "median": 2}}"#, "generation_length: the median"),
            (
                r#"{"generation_length": {"mean": 2, "median": 2, "min": 3, "max": 1}}"#,
                "min and max",
            ),
            (r#"{"generation_length": {"mean": 2, "median": 2, "mu": 3}}"#, "mu requires sigma"),
            (r#"{"block_size": 0}"#, "block_size"),
            (r#"{"cache": {"layer1_5_groups": {"num_groups": 0}}}"#, "num_groups"),
            (r#"{"reset": {"base_probability": 2}}"#, "base_probability"),
            (r#"{"turns": {"mean": 1, "median": 2, "min": 1, "max": 3}}"#, "turns: expected"),
            (
                r#"{"turns": {"mean": 2, "median": 2, "min": 1, "max": 3}, "reset": {}}"#,
                "cannot be combined",
            ),
            (r#"{"restart_initial_probability": 0.5}"#, "sessions are not split"),
        ] {
            let why = AgenticCode::parse(text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }
}
