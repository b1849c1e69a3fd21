//! The ledger of the prefix cache: what prompts repeat, what was cached, and what the rest cost.

use base::redact::printable;
use measure::metrics::prefix_cache::{CacheUse, PrefixCache};

use super::format::{count, four_digits};
use super::{Cell, Column, Table};
use crate::run::RunReport;

/// Maximum number of prefixes that are shown; the summary has more.
const MAX_PREFIXES: usize = 5;

/// The columns, their names on a narrow terminal, and the order in which it does without them.
const COLUMNS: [(&str, &str, u8); 6] = [
    ("Requests", "Requests", 3),
    ("Prompt tokens", "Tokens", 2),
    ("Repeated (%)", "Repeated %", 0),
    ("Cached (%)", "Cached %", 0),
    ("Computed again (%)", "Again %", 1),
    ("TTFT avg (ms)", "TTFT", 0),
];

/// Returns a row for all requests, for each turn and for the most repeated prefixes; `None` if nothing
/// is repeated and nothing is known to be cached.
pub(super) fn prefix_cache(report: &RunReport) -> Option<Table> {
    let cache = report.outcome.prefix_cache.as_ref()?;
    if cache.cached_ratio().is_none() && cache.total.expected_ratio == 0.0 {
        return None;
    }
    let numbers = COLUMNS.map(|(name, short, spare)| Column::number(name).or(short).spare(spare));
    let all = CacheUse { cached_ratio: cache.cached_ratio(), ..cache.total };
    let turns = cache.by_turn.iter().map(|of| (format!("turn {}", of.turn), of.cache));
    let prefixes = cache.by_prefix.iter().take(MAX_PREFIXES).map(|of| {
        let name = format!("{} B: {}…", count(of.prefix_bytes), printable(&of.starts_with));
        (name, of.cache)
    });
    let rows = std::iter::once(("all".to_owned(), all)).chain(turns).chain(prefixes);
    Some(Table {
        title: "Prefix Cache".to_owned(),
        note: "Repeated is what a cache that started empty and kept everything would have found."
            .to_owned(),
        columns: std::iter::once(Column::name("Prompts")).chain(numbers).collect(),
        rows: rows.map(|(name, cache)| row(name, &cache)).collect(),
        findings: findings(cache),
        ..Table::default()
    })
}

fn row(name: String, cache: &CacheUse) -> Vec<Cell> {
    vec![
        Cell::Text(name),
        Cell::Count(cache.requests),
        Cell::Count(cache.prompt_tokens as u64),
        Cell::percent(Some(cache.expected_ratio)),
        Cell::percent(cache.cached_ratio),
        Cell::percent(cache.repeated_prefill_ratio),
        cache.mean_ttft_ms.into(),
    ]
}

/// Returns what the numbers show.
fn findings(cache: &PrefixCache) -> Vec<String> {
    let again = cache.total.repeated_prefill_ratio;
    let again = again.map(|ratio| format!("{:.1}% of prefill was repeated work.", 100.0 * ratio));
    let cost = cache.prefill.map(|cost| {
        format!(
            "A computed prompt token takes {} ± {} ms: repeated work was {} ms of the mean time to \
             first token, and the cache saved {} ms.",
            four_digits(cost.ms_per_token),
            four_digits(cost.half_width),
            four_digits(cost.repeated_ms),
            four_digits(cost.saved_ms)
        )
    });
    let server = cache.server.as_ref().and_then(|server| {
        Some(format!(
            "The server's counters say that {:.1}% of {} tokens were cached ({}).",
            100.0 * server.ratio()?,
            count(server.queried_tokens as u64),
            printable(&server.metric)
        ))
    });
    [again, cost, server].into_iter().flatten().collect()
}
