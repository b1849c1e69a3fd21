//! `aiperf dataset synthesize`: writes a trace of generated sessions.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use chrono::Utc;
use serde_json::{Map, Value, json};

use base::input;
use base::statistics::Distribution;
use base::statistics::percentile::distribution;
use dataset::agentic_code::{AgenticCode, End, Session, generate};

use super::outcome::Outcome;
use crate::cli::Synthesize;

/// Writes the trace that `asked` describes, and what is in it, to a new directory.
pub(super) fn synthesize(asked: &Synthesize, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let (name, config) = config(asked)?;
    let sessions = generate(&config, asked.num_sessions, asked.seed).map_err(|why| anyhow!(why))?;
    let directory = new_directory(asked, &name)?;
    let wrote = |file: &str| {
        let path = directory.join(file);
        (path.clone(), format!("cannot write {}", path.display()))
    };
    let (dataset, why) = wrote("dataset.jsonl");
    write_lines(&dataset, &sessions).context(why)?;
    let manifest = json!({
        "seed": asked.seed,
        "num_sessions": sessions.len(),
        "config_name": name,
        "generation_params": config,
    });
    for (file, content) in
        [("manifest.json", manifest), ("quality.json", quality(&sessions, &config))]
    {
        let (path, why) = wrote(file);
        fs::write(path, format!("{content:#}\n")).context(why)?;
    }
    let turns: usize = sessions.iter().map(|session| session.turns.len()).sum();
    writeln!(out, "{} sessions with {turns} turns: {}", sessions.len(), dataset.display())?;
    let most = config.max_prompt_tokens;
    let is_cut = |session: &&Session| {
        session.turns.first().is_some_and(|turn| turn.input_tokens + 1 >= most)
    };
    let cut = sessions.iter().filter(is_cut).count();
    if cut > 0 {
        writeln!(
            out,
            "The first prompts of {cut} of them were cut to less than {most} tokens; raise --max-isl \
             (max_prompt_tokens) to keep their lengths."
        )?;
    }
    Ok(Outcome::Done)
}

/// Returns the name of the settings, and the settings.
fn config(asked: &Synthesize) -> anyhow::Result<(String, AgenticCode)> {
    let (name, config) = match &asked.config {
        None => ("default".to_owned(), AgenticCode::default()),
        Some(path) => {
            let shown = || format!("cannot use --config {}", path.display());
            let text = input::text(path, input::MAX_SETTINGS_BYTES).with_context(shown)?;
            let config =
                AgenticCode::parse(&text).map_err(|why| anyhow!(why)).with_context(shown)?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            (stem, config)
        }
    };
    let config = config.limited(asked.max_isl, asked.max_osl).map_err(|why| anyhow!(why))?;
    Ok((name, config))
}

/// Creates `<config>_<sessions>s_seed<seed>_<time>`; fails if it exists.
fn new_directory(asked: &Synthesize, name: &str) -> anyhow::Result<PathBuf> {
    let time = Utc::now().format("%Y%m%d-%H%M%S");
    let name = format!("{name}_{}s_seed{}_{time}", asked.num_sessions, asked.seed);
    let directory = asked.output.join(name);
    let shown = || format!("cannot create {}", directory.display());
    fs::create_dir_all(&asked.output).with_context(shown)?;
    fs::create_dir(&directory).with_context(shown)?;
    Ok(directory)
}

fn write_lines(path: &Path, sessions: &[Session]) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for line in sessions.iter().flat_map(Session::lines) {
        serde_json::to_writer(&mut file, &line)?;
        file.write_all(b"\n")?;
    }
    Ok(file.flush()?)
}

/// What was generated beside what was configured, with the keys of AIPerf.
fn quality(sessions: &[Session], config: &AgenticCode) -> Value {
    let firsts: Vec<f64> = values_of_turns(sessions, |at| at == 0, |turn| turn.new_tokens as f64);
    let new: Vec<f64> = values_of_turns(sessions, |at| at > 0, |turn| turn.new_tokens as f64);
    let outputs: Vec<f64> = values_of_turns(sessions, |_| true, |turn| turn.output_tokens as f64);
    let delays: Vec<f64> = values_of_turns(sessions, |at| at > 0, |turn| turn.delay_ms);
    let turns: Vec<f64> = sessions.iter().map(|session| session.turns.len() as f64).collect();
    let cache = &config.cache;
    let prefix = (cache.layer1_tokens + cache.layer1_5_tokens) as f64;
    let tokens = &config.new_tokens_per_turn.tokens;
    let length = &config.generation_length;
    let of_turns = config.turns.as_ref().map(|turns| (turns.mean as f64, turns.median as f64));
    let first = (prefix + cache.layer2.mean, prefix + cache.layer2.median);
    let compared = [
        ("initial_context", &firsts, Some(first)),
        ("generation_length", &outputs, Some((length.mean, length.median))),
        ("new_tokens_per_turn", &new, Some((tokens.mean, tokens.median))),
        ("inter_turn_delay_ms", &delays, None),
        ("turns_per_session", &turns, of_turns),
    ];
    let compared: Map<String, Value> = compared
        .into_iter()
        .filter(|(_, values, _)| !values.is_empty())
        .map(|(name, values, target)| (name.to_owned(), comparison(values, target)))
        .collect();
    json!({
        "observed_vs_target": compared,
        "session_stats": statistics(&turns),
        "session_end_stats": ends(sessions, config),
    })
}

/// The values of the turns whose index is wanted.
fn values_of_turns(
    sessions: &[Session],
    is_wanted: impl Fn(usize) -> bool,
    value: impl Fn(&dataset::agentic_code::Turn) -> f64,
) -> Vec<f64> {
    let turns = sessions.iter().flat_map(|session| session.turns.iter().enumerate());
    turns.filter(|(at, _)| is_wanted(*at)).map(|(_, turn)| value(turn)).collect()
}

fn ends(sessions: &[Session], config: &AgenticCode) -> Value {
    let count = |end: End| sessions.iter().filter(|session| session.end == end).count();
    let share = |end: End| rounded(count(end) as f64 / sessions.len().max(1) as f64, 1e4);
    let filled = |session: &Session| {
        let last = session.turns.last().map_or(0, |turn| turn.input_tokens);
        last as f64 / config.max_prompt_tokens as f64
    };
    let filled: Vec<f64> = sessions.iter().map(filled).collect();
    json!({
        "total_sessions": sessions.len(),
        "forced_retires": count(End::Full),
        "probabilistic_resets": count(End::Reset),
        "target_turn_completions": count(End::Turns),
        "restart_splits": 0,
        "retire_fraction": share(End::Full),
        "reset_fraction": share(End::Reset),
        "target_turn_fraction": share(End::Turns),
        "restart_split_fraction": 0.0,
        "final_context_utilization": statistics(&filled),
    })
}

fn comparison(values: &[f64], target: Option<(f64, f64)>) -> Value {
    let found = distribution(|| values.iter().copied());
    let error = |target: f64, of: fn(&Distribution) -> f64| {
        let found = found.as_ref().map_or(0.0, of);
        rounded((found - target).abs() / target * 100.0, 100.0)
    };
    json!({
        "target_mean": target.map(|(mean, _)| mean),
        "target_median": target.map(|(_, median)| median),
        "observed": statistics(values),
        "pct_error_mean": target.map(|(mean, _)| error(mean, mean_of)),
        "pct_error_median": target.map(|(_, median)| error(median, |stats| stats.p50)),
    })
}

fn mean_of(stats: &Distribution) -> f64 {
    stats.sum / stats.count as f64
}

fn statistics(values: &[f64]) -> Value {
    let Some(stats) = distribution(|| values.iter().copied()) else { return Value::Null };
    let two = |value: f64| rounded(value, 100.0);
    json!({
        "count": stats.count,
        "mean": two(mean_of(&stats)),
        "std": two(stats.std),
        "median": two(stats.p50),
        "p05": two(stats.p5),
        "p25": two(stats.p25),
        "p75": two(stats.p75),
        "p95": two(stats.p95),
        "p99": two(stats.p99),
    })
}

/// Rounds to a multiple of `1 / parts`.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
