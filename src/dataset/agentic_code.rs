//! Sessions of coding agents, generated as a trace in the format of Mooncake.
//!
//! A session begins with blocks that all sessions have (tools and system prompt), blocks of its
//! group (a repository) and blocks of its own (files). Each later turn adds the response before it
//! and new tokens, until the context is full, the session is reset at random, or it has its number
//! of turns.

mod config;

use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::Seed;
pub use config::AgenticCode;
use config::{Delays, Lognormal};

/// Minimum number of output tokens, unless the configured maximum is less.
const MIN_OUTPUT: f64 = 30.0;

/// How often a value outside its limits is drawn again before it is set to the limit.
const MAX_DRAWS: usize = 100;

/// Maximum number of turns of a session, which ends one that never fills its context.
const MAX_TURNS: usize = 100_000;

/// A session and its turns.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub id: String,
    pub group: u64,
    /// The turns, at least one.
    pub turns: Vec<Turn>,
    pub end: End,
}

/// A turn of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Tokens of the prompt with its history.
    pub input_tokens: u64,
    /// Tokens that this turn adds.
    pub new_tokens: u64,
    pub output_tokens: u64,
    /// Delay after the previous turn, in milliseconds.
    pub delay_ms: f64,
    /// Blocks of the new tokens.
    pub hash_ids: Vec<u64>,
}

/// Why a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The next turn would not have fitted.
    Full,
    /// At random.
    Reset,
    /// It had its number of turns.
    Turns,
}

/// A line of the trace.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    session_id: &'a str,
    input_length: u64,
    output_length: u64,
    hash_ids: &'a [u64],
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<f64>,
}

impl Session {
    /// Returns the lines of the trace, one for each turn. The length of a line is that of its new
    /// tokens, since a session repeats its history.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.turns.iter().enumerate().map(|(index, turn)| Line {
            session_id: &self.id,
            input_length: turn.new_tokens,
            output_length: turn.output_tokens,
            hash_ids: &turn.hash_ids,
            timestamp: (index == 0).then_some(0.0),
            group_id: (index == 0).then_some(self.group),
            delay: (index > 0).then_some((turn.delay_ms * 10.0).round() / 10.0),
        })
    }
}

/// Generates `count` sessions.
///
/// # Errors
///
/// Fails if prompts may not be longer than what all of a group begin with, or if no session has the number of turns
/// that was drawn for it.
pub fn generate(config: &AgenticCode, count: u64, seed: u64) -> Result<Vec<Session>, String> {
    let mut generator = Generator::new(config, seed);
    generator.check()?;
    (0..count).map(|_| generator.session()).collect()
}

struct Generator<'a> {
    config: &'a AgenticCode,
    rng: ChaCha8Rng,
    /// Blocks that all sessions have, and blocks of each group.
    shared_blocks: u64,
    group_blocks: u64,
    /// Sum of the weights of the groups up to each.
    group_weights: Vec<f64>,
    next_block: u64,
}

impl<'a> Generator<'a> {
    fn new(config: &'a AgenticCode, seed: u64) -> Self {
        let cache = &config.cache;
        let shared_blocks = cache.layer1_tokens.div_ceil(config.block_size);
        let group_blocks = cache.layer1_5_tokens.div_ceil(config.block_size);
        let groups = cache.layer1_5_groups.num_groups;
        // Zipf: the weight of the k-th group is 1 / k^alpha.
        let weights = (1..=groups).scan(0.0, |sum, k| {
            *sum += (k as f64).powf(-cache.layer1_5_groups.zipf_alpha);
            Some(*sum)
        });
        Self {
            config,
            rng: Seed(seed).stream("dataset.agentic_code"),
            shared_blocks,
            group_blocks,
            group_weights: weights.collect(),
            next_block: shared_blocks + groups * group_blocks,
        }
    }

    /// Checks that a first prompt has room for tokens of its own.
    fn check(&self) -> Result<(), String> {
        let shared =
            (self.shared_blocks + self.group_blocks).saturating_mul(self.config.block_size);
        let most = self.config.max_prompt_tokens;
        if shared.saturating_add(1) < most {
            return Ok(());
        }
        Err(format!(
            "no prompt fits a maximum of {most} tokens: the first one of each session begins with {shared} \
             tokens that it shares (cache.layer1_tokens and layer1_5_tokens); raise --max-isl \
             (max_prompt_tokens) above {}, or lower those in --config",
            shared.saturating_add(1)
        ))
    }

    fn session(&mut self) -> Result<Session, String> {
        let Some(turns) = &self.config.turns else { return Ok(self.attempt(None)) };
        let drawn = draw(&turns.lognormal(), &mut self.rng).round() as u64;
        let target = drawn.clamp(turns.min, turns.max) as usize;
        for _ in 0..turns.attempts() {
            let session = self.attempt(Some(target));
            if turns.allow_truncation || session.end == End::Turns {
                return Ok(session);
            }
        }
        Err(format!(
            "no session of {target} turns fits {} tokens after {} attempts; raise \
             max_prompt_tokens, or set allow_truncation",
            self.config.max_prompt_tokens,
            turns.attempts()
        ))
    }

    /// Generates a session of at most `target` turns.
    fn attempt(&mut self, target: Option<usize>) -> Session {
        let id = format!("sess-{:012x}", self.rng.random::<u64>() >> 16);
        let group = self.group();
        let mut turns = vec![self.first_turn(group)];
        let end = loop {
            if target == Some(turns.len()) {
                break End::Turns;
            }
            let Some(last) = turns.last().filter(|_| turns.len() < MAX_TURNS) else {
                break End::Full;
            };
            let (input, output) = (last.input_tokens, last.output_tokens);
            let delay_ms = self.delay(input);
            let new_tokens = self.new_tokens();
            let input_tokens = input.saturating_add(output).saturating_add(new_tokens);
            if input_tokens >= self.config.max_prompt_tokens {
                break End::Full;
            }
            if target.is_none() && self.is_reset(input_tokens) {
                break End::Reset;
            }
            turns.push(Turn {
                input_tokens,
                new_tokens,
                output_tokens: self.output_tokens(),
                delay_ms,
                hash_ids: self.new_blocks(new_tokens),
            });
        };
        Session { id, group, turns, end }
    }

    /// The shared blocks are whole, so that the last block of a prompt, which may be partial, is
    /// one of its own.
    fn first_turn(&mut self, group: u64) -> Turn {
        let block = self.config.block_size;
        let prefix = (self.shared_blocks + self.group_blocks) * block;
        let own = (draw(&self.config.cache.layer2, &mut self.rng) as u64).max(1);
        let most = self.config.max_prompt_tokens.saturating_sub(1).max(1);
        let input_tokens = prefix.saturating_add(own).min(most);
        let total = input_tokens.div_ceil(block);
        let of_group = self.shared_blocks + group * self.group_blocks;
        let mut hash_ids: Vec<u64> = (0..self.shared_blocks)
            .chain(of_group..of_group + self.group_blocks)
            .take(total as usize)
            .collect();
        let own_blocks = total - hash_ids.len() as u64;
        hash_ids.extend(self.new_blocks(own_blocks * block));
        Turn {
            input_tokens,
            new_tokens: input_tokens,
            output_tokens: self.output_tokens(),
            delay_ms: 0.0,
            hash_ids,
        }
    }

    fn new_blocks(&mut self, tokens: u64) -> Vec<u64> {
        let first = self.next_block;
        self.next_block += tokens.div_ceil(self.config.block_size);
        (first..self.next_block).collect()
    }

    fn group(&mut self) -> u64 {
        let total = self.group_weights.last().copied().unwrap_or(1.0);
        let at = self.rng.random::<f64>() * total;
        let group = self.group_weights.partition_point(|sum| *sum <= at);
        group.min(self.group_weights.len().saturating_sub(1)) as u64
    }

    fn output_tokens(&mut self) -> u64 {
        let length = &self.config.generation_length;
        let least = length.max.map_or(MIN_OUTPUT, |max| MIN_OUTPUT.min(max.floor()));
        (draw(length, &mut self.rng).max(least) as u64).max(1)
    }

    fn new_tokens(&mut self) -> u64 {
        let new = &self.config.new_tokens_per_turn;
        let drawn = draw_with(&new.tokens, new.bias.ln(), &mut self.rng);
        (drawn as u64).max(1)
    }

    /// The delay shrinks as the context fills, down to a fifth.
    fn delay(&mut self, input_tokens: u64) -> f64 {
        let Delays { agentic_fraction, agentic_delay, human_delay, max } =
            &self.config.inter_turn_delay;
        let is_agentic = self.rng.random::<f64>() < *agentic_fraction;
        let delay = draw(if is_agentic { agentic_delay } else { human_delay }, &mut self.rng);
        let most = max.unwrap_or(f64::INFINITY);
        let filled = input_tokens as f64 / self.config.max_prompt_tokens as f64;
        (delay.min(most) * (1.0 - 0.8 * filled).max(0.2)).min(most)
    }

    fn is_reset(&mut self, input_tokens: u64) -> bool {
        let Some(reset) = &self.config.reset else { return false };
        let filled = input_tokens as f64 / self.config.max_prompt_tokens as f64;
        let chance = reset.base_probability * (1.0 + (reset.context_scaling - 1.0) * filled);
        self.rng.random::<f64>() < chance
    }
}

fn draw(of: &Lognormal, rng: &mut impl Rng) -> f64 {
    draw_with(of, 0.0, rng)
}

/// Draws from a distribution whose logarithms are shifted. Values outside its limits are drawn
/// again.
fn draw_with(of: &Lognormal, shift: f64, rng: &mut impl Rng) -> f64 {
    let (mu, sigma) = of.parameters();
    let (least, most) = (of.min.unwrap_or(0.0), of.max.unwrap_or(f64::MAX));
    let mut value = 0.0;
    for _ in 0..MAX_DRAWS {
        let normal: f64 = rng.sample(rand_distr::StandardNormal);
        value = (mu + shift + sigma * normal).exp();
        if (least..=most).contains(&value) {
            break;
        }
    }
    value.clamp(least, most)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn sessions(config: &str, count: u64) -> Vec<Session> {
        generate(&AgenticCode::parse(config).unwrap(), count, 42).unwrap()
    }

    fn mean(values: impl Iterator<Item = u64>) -> f64 {
        let values: Vec<u64> = values.collect();
        values.iter().sum::<u64>() as f64 / values.len() as f64
    }

    #[test]
    fn sessions_have_the_lengths_that_are_configured() {
        let all = sessions("{}", 2000);
        for session in &all {
            for (before, turn) in session.turns.iter().zip(session.turns.iter().skip(1)) {
                let grown = before.input_tokens + before.output_tokens + turn.new_tokens;
                assert_eq!(turn.input_tokens, grown);
                assert!(turn.input_tokens < 200_000 && turn.delay_ms > 0.0);
            }
            for turn in &session.turns {
                assert_eq!(turn.hash_ids.len() as u64, turn.new_tokens.div_ceil(512));
            }
        }
        // The prefix is 63 and 40 blocks. The mean of what follows is 10,000 with a deviation of
        // 10,000 · sqrt(e^(2 ln 2) − 1) = 17,300; the context limit cuts its tail.
        let first = mean(all.iter().map(|session| session.turns[0].new_tokens));
        assert!((first - 103.0 * 512.0 - 10_000.0).abs() < 1500.0, "{first}");
        let outputs = all.iter().flat_map(|session| &session.turns).map(|turn| turn.output_tokens);
        let outputs = mean(outputs);
        assert!((outputs - 500.0).abs() < 25.0, "{outputs}");
    }

    /// 32,000 and 20,000 tokens are 63 and 40 blocks of 512: 52,736.
    #[test]
    fn a_maximum_below_what_prompts_share_is_an_error() {
        let with_most = |most| AgenticCode::default().limited(Some(most), None).unwrap();
        for most in [100, 52_737] {
            let why = generate(&with_most(most), 1, 1).unwrap_err();
            assert!(why.contains("52736") && why.contains("--max-isl"), "{why}");
        }
        let sessions = generate(&with_most(52_738), 5, 1).unwrap();
        assert!(sessions.iter().all(|session| session.turns[0].new_tokens == 52_737));
    }

    #[test]
    fn sessions_share_the_blocks_of_all_and_of_their_group() {
        let all = sessions("{}", 300);
        let mut own = HashSet::new();
        for session in &all {
            let blocks = &session.turns[0].hash_ids;
            assert_eq!(blocks[..63], (0..63).collect::<Vec<u64>>());
            let group = 63 + session.group * 40;
            assert_eq!(blocks[63..103], (group..group + 40).collect::<Vec<u64>>());
            let later = session.turns[1..].iter().flat_map(|turn| &turn.hash_ids);
            assert!(blocks[103..].iter().chain(later).all(|block| own.insert(*block)));
        }
        assert!(own.iter().all(|block| *block >= 63 + 50 * 40));
        // The first of 50 groups has a share of 1 / sum(k^-1.2) = 0.30; standard deviation 8.
        let first = all.iter().filter(|session| session.group == 0).count();
        assert!(first.abs_diff(90) < 40, "{first}");
    }

    #[test]
    fn a_number_of_turns_is_kept() {
        let turns = r#"{"turns": {"mean": 4, "median": 4, "min": 4, "max": 4}}"#;
        let all = sessions(turns, 50);
        assert!(all.iter().all(|session| session.turns.len() == 4 && session.end == End::Turns));
        let cut = r#"{"turns": {"mean": 90, "median": 90, "min": 90, "max": 90,
            "allow_truncation": true}, "max_prompt_tokens": 70000}"#;
        assert!(sessions(cut, 20).iter().any(|session| session.end == End::Full));
        let never = cut.replace("true", "false").replace("70000", "66000");
        let config = AgenticCode::parse(&never).unwrap();
        assert!(generate(&config, 1, 1).unwrap_err().contains("no session of 90 turns fits"));
    }

    #[test]
    fn lines_are_those_of_a_mooncake_trace() {
        let session = Session {
            id: "s".to_owned(),
            group: 3,
            turns: vec![
                Turn {
                    input_tokens: 600,
                    new_tokens: 600,
                    output_tokens: 40,
                    delay_ms: 0.0,
                    hash_ids: vec![0, 9],
                },
                Turn {
                    input_tokens: 700,
                    new_tokens: 60,
                    output_tokens: 30,
                    delay_ms: 12.345,
                    hash_ids: vec![10],
                },
            ],
            end: End::Full,
        };
        let lines: Vec<String> =
            session.lines().map(|line| serde_json::to_string(&line).unwrap()).collect();
        assert_eq!(
            lines,
            [
                r#"{"session_id":"s","input_length":600,"output_length":40,"hash_ids":[0,9],"timestamp":0.0,"group_id":3}"#,
                r#"{"session_id":"s","input_length":60,"output_length":30,"hash_ids":[10],"delay":12.3}"#,
            ]
        );
    }

    #[test]
    fn the_same_seed_makes_the_same_sessions() {
        let config = AgenticCode::default();
        assert_eq!(generate(&config, 5, 1).unwrap(), generate(&config, 5, 1).unwrap());
        assert_ne!(generate(&config, 5, 1).unwrap(), generate(&config, 5, 2).unwrap());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_configuration_is_rejected_or_ends(
            text in "\\PC{0,40}", most in 1u64..300_000, block in 1u64..2000, mean in 1.0f64..1e6,
        ) {
            drop(AgenticCode::parse(&text));
            let config = serde_json::json!({
                "max_prompt_tokens": most,
                "block_size": block,
                "new_tokens_per_turn": {"mean": mean, "median": mean / 2.0},
            });
            let config = AgenticCode::parse(&config.to_string()).unwrap();
            for session in generate(&config, 2, 1).unwrap_or_default() {
                prop_assert!(session.turns.iter().all(|turn| turn.input_tokens <= most.max(1)));
            }
        }
    }
}
