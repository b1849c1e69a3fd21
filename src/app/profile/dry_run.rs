//! `--dry-run`: what a run would send.

use std::fmt::Write as _;
use std::io::Write;
use std::mem;

use serde_json::{Value, json};

use base::statistics::Distribution;
use base::statistics::percentile::distribution;
use client::schedule::PhaseKind;
use client::schedule::config::PhaseConfig;
use dataset::preview::{BLOCK_TOKENS, Look, Preview, Walk};
use dataset::{Account, CacheBust};
use results::console::{self, Column, Table, numbers};
use results::terminal::terminal_style;

use super::RunInputs;
use crate::app::outcome::Outcome;
use crate::config::{DryRun, RunConfig};

/// The statistics, and the order in which a narrow terminal does without them.
const COLUMNS: [(&str, u8); 8] = [
    ("avg", 0),
    ("min", 3),
    ("p25", 1),
    ("p50", 0),
    ("p75", 2),
    ("p90", 4),
    ("p99", 0),
    ("max", 0),
];

/// Loads the dataset and prints what a run of `config` would send, without sending it.
pub(super) fn show(
    mut config: RunConfig,
    form: DryRun,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    if config.multi_run.is_many() {
        anyhow::bail!(
            "--dry-run shows a single run; remove the lists of values, or the flags that make \
             several runs"
        );
    }
    let inputs = RunInputs::load(&mut config)?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let summary = Summary::new(&config, &inputs);
    match form {
        DryRun::Table => out.write_all(summary.table().as_bytes())?,
        DryRun::Json => writeln!(out, "{:#}", summary.json())?,
    }
    Ok(Outcome::Done)
}

/// What a run would send.
struct Summary {
    conversations: usize,
    /// The requests of the dataset, if it is read.
    account: Option<Account>,
    preview: Preview,
    tokenizer: String,
    random_seed: Option<u64>,
}

impl Summary {
    fn new(config: &RunConfig, inputs: &RunInputs) -> Self {
        let dataset = &inputs.dataset;
        let parts = &config.dataset.parts;
        let is_marked = !matches!(
            config.dataset.cache_bust,
            CacheBust::None
                | CacheBust::WarmupIsolationSystem
                | CacheBust::WarmupIsolationFirstTurn
        );
        let traits = config.endpoint.endpoint_type.traits();
        let look = Look {
            counter: &inputs.counter,
            repeats_history: traits.repeats_history,
            compares: traits.tokenizes_input && !is_marked,
        };
        let phases = config.schedule.own_phases();
        let mut walks = Vec::new();
        // Warmups draw, too. Only if they have a number of sessions is it known which.
        let mut skipped = vec![0; parts.len()];
        for PhaseConfig { kind, dataset: part, stop, .. } in phases {
            if kind == PhaseKind::Warmup {
                skipped[part] += stop.sessions.or(stop.requests).unwrap_or(0);
                continue;
            }
            let sampler = dataset.sampler(part, &parts[part], inputs.seed);
            let all = sampler.len();
            walks.push(Walk {
                part,
                sampler,
                skipped: mem::take(&mut skipped[part]),
                requests: stop.requests,
                // Without any limit, each conversation is sent once.
                sessions: stop.sessions.or_else(|| stop.is_unset().then_some(all)),
                is_accounted: parts[part].source.is_read(),
            });
        }
        let preview = Preview::for_walks(dataset, &walks, look);
        // What a warmup sends besides is not known.
        let sent = preview.sent.filter(|_| walks.len() == config.schedule.phases.len());
        let account = inputs.account.clone();
        Self {
            conversations: (0..parts.len()).map(|part| dataset.roots(part).len()).sum(),
            account: account.map(|account| match sent {
                Some(sent) => account.after(sent),
                None => account,
            }),
            preview,
            tokenizer: inputs.counter.name().to_owned(),
            random_seed: Some(inputs.seed.0),
        }
    }

    /// Lengths, with their names in the table and in JSON.
    fn lengths(&self) -> [(&'static str, &'static str, &[f64]); 3] {
        [
            ("Input tokens", "input_sequence_length", &self.preview.input),
            ("Output tokens requested", "output_sequence_length", &self.preview.output),
            ("Turns of a session", "turns", &self.preview.turns),
        ]
    }

    /// Returns the number of tokens of all requests: those that were examined, or as many as all
    /// requests have if the others are like them.
    fn total(&self, tokens: &[f64]) -> f64 {
        let sum: f64 = tokens.iter().sum();
        let examined: f64 = self.preview.turns.iter().sum();
        match self.preview.requests {
            Some(requests) if examined > 0.0 => sum * requests as f64 / examined,
            _ => sum,
        }
    }

    fn table(&self) -> String {
        let rows = self.lengths().into_iter().map(|(name, _, values)| {
            let cells = statistics(values)
                .map(|it| statistics_row(&it).map(|value| console::number(Some(value))));
            let cells = cells.unwrap_or_else(|| [0; 8].map(|_| console::number(None)));
            std::iter::once(name.to_owned()).chain(cells)
        });
        let [input, output] = [&self.preview.input, &self.preview.output].map(|it| self.total(it));
        let requests = match self.preview.requests {
            Some(requests) => console::count(requests),
            None => "until the run ends; the figures are for each conversation once".to_owned(),
        };
        let mut text = format!(
            "Dry run: nothing was sent\nConversations:  {}\nRequests:       {requests}\n\
             Tokens:         {} input, {} output requested\n",
            console::count(self.conversations as u64),
            console::count(input.round() as u64),
            console::count(output.round() as u64),
        );
        if let Some(prefixes) = self.preview.prefixes {
            let share = 100.0 * prefixes.shared as f64 / prefixes.tokens as f64;
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "Shared prefix:  {share:.1}% of the tokens are in blocks of {BLOCK_TOKENS} at the \
                 start of a prompt that an earlier prompt has too",
            );
        }
        if let Some(account) = &self.account {
            let _ = writeln!(text, "Dataset:        {}", account.text());
        }
        let _ = writeln!(text, "Tokenizer:      {}\n", self.tokenizer);
        let columns = [Column::label("Length")].into_iter().chain(numbers(&COLUMNS));
        text.push_str(&Table::new("Lengths", columns).rows(rows).render(terminal_style()));
        text
    }

    fn json(&self) -> Value {
        let [input, output] = [&self.preview.input, &self.preview.output].map(|it| self.total(it));
        let mut object = json!({
            "conversations": self.conversations,
            "requests": self.preview.requests,
            "input_tokens": input.round(),
            "output_tokens_requested": output.round(),
            "prefixes": self.preview.prefixes.map(|prefixes| json!({
                "block_tokens": BLOCK_TOKENS,
                "prompts": prefixes.prompts,
                "tokens": prefixes.tokens,
                "shared_tokens": prefixes.shared,
                "shared_ratio": prefixes.shared as f64 / prefixes.tokens as f64,
            })),
            "dataset": self.account,
            "tokenizer": self.tokenizer,
            "random_seed": self.random_seed,
        });
        for (_, name, values) in self.lengths() {
            object[name] = statistics(values).map_or(Value::Null, |it| {
                let [avg, min, p25, p50, p75, p90, p99, max] = statistics_row(&it);
                json!({"avg": avg, "min": min, "p25": p25, "p50": p50, "p75": p75, "p90": p90,
                       "p99": p99, "max": max})
            });
        }
        object
    }
}

fn statistics(values: &[f64]) -> Option<Distribution> {
    distribution(|| values.iter().copied())
}

/// The statistics of a row, in the order of its columns.
fn statistics_row(it: &Distribution) -> [f64; 8] {
    [it.sum / it.count as f64, it.min, it.p25, it.p50, it.p75, it.p90, it.p99, it.max]
}
