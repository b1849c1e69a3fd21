//! `aiperf dataset analyze`: the lengths of a trace's requests, and what its prompts share.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use base::platform::replace;
use base::redact::printable;
use base::statistics::Distribution;
use base::statistics::percentile::distribution;
use dataset::{Sessions, TraceAnalysis};
use results::console::{self, Column, Style, Table, numbers};
use results::terminal::terminal_style;
use tokens::tokenizer::TokenCounter;

use super::gates;
use super::outcome::Outcome;
use crate::cli::AnalyzeTrace;

/// The statistics, and the order in which a narrow terminal does without them.
const COLUMNS: [(&str, u8); 7] =
    [("Mean", 0), ("Std Dev", 1), ("Min", 4), ("P25", 2), ("Median", 0), ("P75", 3), ("Max", 0)];

/// Prints the analysis, and writes it and its page to the files that `asked` names.
pub(super) fn analyze(asked: &AnalyzeTrace, out: &mut impl Write) -> anyhow::Result<Outcome> {
    if let Some(page) = &asked.page {
        gates::check_file(page, "--html")?;
    }
    let counter = TokenCounter::builtin();
    let analysis = dataset::analyze_trace(&asked.file, asked.block_tokens, &counter)?;
    out.write_all(rendered(&analysis, terminal_style()).as_bytes())?;
    if let Some(path) = &asked.output {
        write(path, &format!("{:#}\n", report(&analysis)))
            .with_context(|| format!("cannot write {}", path.display()))?;
        writeln!(out, "\nAnalysis report saved to {}", printable(&path.display().to_string()))?;
    }
    if let Some(page) = &asked.page {
        let name = asked.file.file_name().unwrap_or(asked.file.as_os_str()).to_string_lossy();
        results::report::write_trace(page, &name, &analysis)
            .with_context(|| format!("cannot write {}", page.display()))?;
        writeln!(out, "\nPage saved to {}", printable(&page.display().to_string()))?;
    }
    Ok(Outcome::Done)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    replace::replace(path, |file| file.write_all(text.as_bytes()))
}

fn statistics(values: &[f64]) -> Option<Distribution> {
    distribution(|| values.iter().copied())
}

/// The statistics of a table's row, in the order of its columns.
fn statistics_row(it: &Distribution) -> [f64; 7] {
    [it.sum / it.count as f64, it.std, it.min, it.p25, it.p50, it.p75, it.max]
}

fn rendered(analysis: &TraceAnalysis, style: Style) -> String {
    let none = Sessions::default();
    let sessions = analysis.sessions.as_ref().unwrap_or(&none);
    let of_sessions = [
        ("Turns per Session", &sessions.each(|tree| tree.turns)),
        ("Sub-Agents per Session", &sessions.each(|tree| tree.agents)),
        ("Time between Sessions (s)", &sessions.gaps()),
    ];
    let of_sessions = of_sessions.into_iter().filter(|(_, values)| !values.is_empty());
    let rows = [
        ("Input Length", &analysis.input),
        ("Context Length", &analysis.context),
        ("Unique Prompt Length", &analysis.unique),
        ("Output Length", &analysis.output),
        ("Theoretical Hit Rates", &analysis.hit_rates),
    ];
    let rows = rows.into_iter().chain(of_sessions).map(|(name, values)| {
        let cells = statistics(values)
            .map(|it| statistics_row(&it).map(|value| console::number(Some(value))));
        let cells = cells.unwrap_or_else(|| [0; 7].map(|_| console::number(None)));
        std::iter::once(name.to_owned()).chain(cells)
    });
    let columns = [Column::label("Metric")].into_iter().chain(numbers(&COLUMNS));
    let count = |count: u64| console::count(count);
    let heading = analysis.sessions.as_ref().map(|sessions| {
        let burstiness = sessions.variation();
        let burstiness = burstiness.map(|cv| format!("\nArrivals:         {}", arrivals(cv)));
        format!(
            "Sessions:         {}\nDepth of trees:   {}{}\n",
            count(sessions.trees.len() as u64),
            count(sessions.depth()),
            burstiness.unwrap_or_default()
        )
    });
    format!(
        "Trace Analysis Report\n{}Total requests:   {}\nUnique prefixes:  {}\nPrefix groups:    {}\n\n{}",
        heading.unwrap_or_default(),
        count(analysis.input.len() as u64),
        count(analysis.prefixes),
        count(analysis.groups),
        Table::new("Trace Statistics", columns).rows(rows).render(style),
    )
}

/// Describes arrivals with this coefficient of variation.
fn arrivals(variation: f64) -> String {
    let words = match variation {
        ..0.5 => "regular",
        ..1.5 => "like independent ones",
        _ => "in bursts",
    };
    format!("{words} (coefficient of variation {variation:.2})")
}

/// The analysis with the keys of AIPerf.
fn report(analysis: &TraceAnalysis) -> Value {
    let [input, context, unique, output, hit_rates] = [
        &analysis.input,
        &analysis.context,
        &analysis.unique,
        &analysis.output,
        &analysis.hit_rates,
    ]
    .map(|values| statistics(values));
    let or_zero = |stats: &Option<Distribution>, at: usize| {
        stats.as_ref().map_or(0.0, |stats| statistics_row(stats)[at])
    };
    let [mean, min, max] = [0, 2, 6];
    let whole = |value: f64| value as u64;
    let object = |stats: Option<Distribution>| {
        stats.map(|stats| {
            let [mean, std_dev, min, p25, median, p75, max] = statistics_row(&stats);
            json!({"mean": mean, "std_dev": std_dev, "min": min, "p25": p25, "median": median,
                   "p75": p75, "max": max})
        })
    };
    let mut report = json!({
        "total_requests": analysis.input.len(),
        "unique_prefixes": analysis.prefixes,
        "num_prefix_groups": analysis.groups,
        "cache_hit_rate": or_zero(&hit_rates, mean),
        "min_isl": whole(or_zero(&input, min)),
        "max_isl": whole(or_zero(&input, max)),
        "avg_isl": or_zero(&input, mean),
        "min_osl": whole(or_zero(&output, min)),
        "max_osl": whole(or_zero(&output, max)),
        "avg_osl": or_zero(&output, mean),
        "prefix_reuse_ratio": analysis.reuse,
        "isl_stats": object(input),
        "osl_stats": object(output),
        "context_length_stats": object(context),
        "unique_prompt_length_stats": object(unique),
        "hit_rate_stats": object(hit_rates),
    });
    if let (Some(sessions), Value::Object(report)) = (&analysis.sessions, &mut report) {
        let stats = |values: Vec<f64>| json!(object(statistics(&values)));
        report.insert("total_sessions".to_owned(), sessions.trees.len().into());
        report.insert("turns_stats".to_owned(), stats(sessions.each(|tree| tree.turns)));
        report.insert("sub_agents_stats".to_owned(), stats(sessions.each(|tree| tree.agents)));
        report.insert("max_tree_depth".to_owned(), sessions.depth().into());
        report.insert("session_gap_seconds_stats".to_owned(), stats(sessions.gaps()));
        report.insert("arrival_variation".to_owned(), json!(sessions.variation()));
    }
    report
}
