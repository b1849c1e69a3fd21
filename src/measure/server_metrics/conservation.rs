//! Compares the server's counts with the client's.
//!
//! If both agree, the server received requests from this client only, and both count tokens alike.
//! `docs/server-metrics.md` describes what each server counts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use client::record::ErrorKind;
use client::schedule::PhaseKind;
use client::server_family::SeriesKind;
use client::server_family::{self, Count, Families, Quantity};

use super::report::Windows;
use super::span::LateCounts;
use super::store::{Column, EndpointStore, Labels, Store, Values};
use crate::metrics::Accumulator;
use crate::metrics::tag;

use Quantity::{CompletionTokens, PromptTokens, Requests};

/// The client's counts over the whole run, including the warmup and canaries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Number of requests that succeeded.
    pub succeeded: u64,
    /// Number of requests that failed, without cancelled ones.
    pub failed: u64,
    /// Number of requests that the client cancelled.
    pub cancelled: u64,
    /// Prompt tokens of successful requests, from the server's usage; `None` if some reported none.
    pub prompt_tokens: Option<u64>,
    /// Completion tokens of successful requests, from the server's usage; `None` if some reported
    /// none.
    pub completion_tokens: Option<u64>,
    /// Number of choices that each request asks for; 0 is 1.
    pub choices: u64,
}

impl ClientCounts {
    /// Counts `choices` in each request.
    #[must_use]
    pub const fn of_choices(self, choices: u64) -> Self {
        Self { choices, ..self }
    }

    #[must_use]
    pub fn in_phases(phases: [&Accumulator; 2]) -> Self {
        let totals_of = |tag| phases.into_iter().filter_map(move |phase| phase.totals_of(tag));
        let count = |tag| totals_of(tag).map(|totals| totals.sum).sum::<f64>() as u64;
        let canaries = || phases.into_iter().map(Accumulator::canaries);
        let succeeded =
            count(tag::REQUEST_COUNT) + canaries().map(|canaries| canaries.succeeded).sum::<u64>();
        let tokens = |tag| {
            let measured = totals_of(tag).map(|totals| (totals.count.unwrap_or(0), totals.sum));
            let all = measured.chain(canaries().map(|canaries| canaries.reported(tag)));
            let (known, sum) =
                all.fold((0, 0.0), |(known, sum), (more, tokens)| (known + more, sum + tokens));
            (known == succeeded).then_some(sum as u64)
        };
        let errors = phases.iter().flat_map(|phase| phase.errors());
        let cancelled = errors.filter(|(error, _)| error.kind == ErrorKind::Cancelled);
        let cancelled: u64 = cancelled.map(|(_, count)| count).sum();
        let failed = count(tag::ERROR_REQUEST_COUNT).saturating_sub(cancelled);
        Self {
            succeeded,
            failed: failed + canaries().map(|canaries| canaries.failed).sum::<u64>(),
            cancelled: cancelled + canaries().map(|canaries| canaries.cancelled).sum::<u64>(),
            prompt_tokens: tokens(tag::USAGE_PROMPT_TOKENS),
            completion_tokens: tokens(tag::USAGE_COMPLETION_TOKENS),
            choices: 1,
        }
    }

    /// Returns the client's number of what the server counts.
    fn counted(&self, count: &Count) -> Option<u64> {
        let counted = match count.quantity {
            Requests => self.succeeded,
            PromptTokens => self.prompt_tokens?,
            CompletionTokens => self.completion_tokens?,
        };
        let times = if count.by_choice { self.choices.max(1) } else { 1 };
        Some(counted.saturating_mul(times))
    }
}

impl Comparison {
    /// Returns the comparison of the server's count with that of all clients together, given the
    /// comparison with one of them.
    #[must_use]
    pub fn with_all(&self, clients: &ClientCounts) -> Option<Self> {
        let is_it =
            |count: &&Count| count.metric == &*self.metric && count.quantity == self.quantity;
        let count = server_family::ALL.iter().flat_map(|family| family.counts).find(is_it)?;
        let counted = clients.counted(count)?;
        let (least, most) = range(count, counted, clients, false);
        let agrees = (least..=most).contains(&self.server);
        Some(Self { client: counted as f64, agrees, ..self.clone() })
    }
}

/// The counts of one quantity on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Comparison {
    pub quantity: Quantity,
    /// The server's metric.
    pub metric: Arc<str>,
    /// Its increase over the run, summed over all series and endpoints.
    pub server: f64,
    /// The client's count.
    pub client: f64,
    /// Whether they agree, as far as it is known how the server counts.
    pub agrees: bool,
}

/// Returns the counts that both sides have, over the whole run.
///
/// A server's count is its increase from the first scrape of each endpoint to the last. A series
/// that is not in the first scrape started at 0, and a decrease is a restart. For an increase, an
/// endpoint needs at least two scrapes.
#[must_use]
pub fn compare(store: &Store, client: &ClientCounts) -> Vec<Comparison> {
    counts(store).into_iter().filter_map(|count| beside(count, store, client)).collect()
}

/// Returns, for each endpoint, whose requests it counted after the final scrape of the measurement: others', if
/// the servers with the same count then counted more than the client's, as far as both count requests.
/// Tokens decide if the server does not count requests, since both may count them differently.
///
/// Servers behind others count a request once in each of its stages, so that only what one of them alone
/// counts is compared, unless those in front of them have not counted what the client sent: these are then
/// not between the client and them. An endpoint without a count shares the verdict on the others.
#[must_use]
pub fn late(store: &Store, windows: &Windows, client: &ClientCounts) -> Vec<LateCounts> {
    let outermost = counts(store);
    let has_all = |count: &&Count| {
        let all = of_server(count, store, &anywhere, whole).map_or(0.0, |(all, _)| all);
        client.counted(count).is_some_and(|counted| all >= counted as f64)
    };
    let are_in_front = outermost.iter().any(has_all);
    let found = store.endpoints().iter().map(|endpoint| {
        let side = |count: &'static Count| {
            let is_summed = !are_in_front || outermost.iter().any(|it| std::ptr::eq(*it, count));
            late_at(count, endpoint, store, windows, client, is_summed)
        };
        let sides = |of_requests: bool| {
            let counts = server_family::ALL.iter().flat_map(|family| family.counts);
            let wanted = counts.filter(|count| (count.quantity == Requests) == of_requests);
            worst(wanted.filter_map(side))
        };
        sides(true).or_else(|| sides(false))
    });
    let found: Vec<Option<LateCounts>> = found.collect();
    let of_all = worst(found.iter().flatten().copied()).unwrap_or_default();
    found.into_iter().map(|one| one.unwrap_or(of_all)).collect()
}

/// Returns others' if any is, otherwise the first.
fn worst(all: impl Iterator<Item = LateCounts>) -> Option<LateCounts> {
    all.reduce(|one, other| if one == LateCounts::Others { one } else { other })
}

/// Returns the counts of the servers in `store` that received the requests from the client.
fn counts(store: &Store) -> Vec<&'static Count> {
    let has = |count: &Count| rise(store, &anywhere, whole, count.metric, |_| Some("")).is_some();
    let families = Families::found(|family| family.counts.iter().any(has));
    families.outermost().iter().flat_map(|family| family.counts).collect()
}

/// Chooses all endpoints.
const fn anywhere(_: &EndpointStore) -> bool {
    true
}

/// Returns the number of scrapes of an endpoint.
fn whole(endpoint: &EndpointStore) -> usize {
    endpoint.scrapes().len()
}

fn beside(count: &Count, store: &Store, client: &ClientCounts) -> Option<Comparison> {
    let counted = client.counted(count)?;
    let (server, has_cached) = of_server(count, store, &anywhere, whole)?;
    let (least, most) = range(count, counted, client, has_cached);
    Some(Comparison {
        quantity: count.quantity,
        metric: Arc::from(count.metric),
        server,
        client: counted as f64,
        agrees: (least..=most).contains(&server),
    })
}

/// Returns whose requests `endpoint` counted after the final scrape of the measurement; `None` if it does
/// not have the count. If the count `is_summed`, it is that of all endpoints together.
fn late_at(
    count: &Count,
    endpoint: &EndpointStore,
    store: &Store,
    windows: &Windows,
    client: &ClientCounts,
    is_summed: bool,
) -> Option<LateCounts> {
    let until = |endpoint: &EndpointStore| {
        let last = endpoint.span(windows, PhaseKind::Profiling).and_then(|span| span.last());
        last.map_or(0, |last| last + 1)
    };
    let is_same = |other: &EndpointStore| std::ptr::eq(other, endpoint);
    let counted = client.counted(count)?;
    let (all, _) = of_server(count, store, &is_same, whole)?;
    let (before, _) = of_server(count, store, &is_same, until)?;
    let among: &dyn Fn(&EndpointStore) -> bool = if is_summed { &anywhere } else { &is_same };
    let (together, cached) = of_server(count, store, among, whole)?;
    let (_, most) = range(count, counted, client, cached);
    let are_others = all > before && together > most;
    Some(if are_others { LateCounts::Others } else { LateCounts::Own })
}

/// Returns the count of the servers `among` all in the first scrapes of each endpoint, as many as `until`
/// returns, and whether it includes cached tokens.
fn of_server(
    count: &Count,
    store: &Store,
    among: &dyn Fn(&EndpointStore) -> bool,
    until: impl Fn(&EndpointStore) -> usize,
) -> Option<(f64, bool)> {
    let server = rise(store, among, &until, count.metric, |labels| group_of(count, labels))?;
    let cached = count.cached.and_then(|metric| rise(store, among, &until, metric, |_| Some("")));
    Some((server + cached.unwrap_or(0.0), cached.is_some()))
}

/// Returns the group in which a series with `labels` is counted; `None` if it does not count
/// successes.
fn group_of<'a>(count: &Count, labels: &'a Labels) -> Option<&'a str> {
    let value = |name: &str| label(labels, name);
    let is_out = count
        .except
        .is_some_and(|(name, values)| value(name).is_some_and(|value| values.contains(&value)));
    let is_in = count.only.is_none_or(|(name, only)| value(name) == Some(only));
    (is_in && !is_out).then(|| count.parallel.and_then(value).unwrap_or(""))
}

/// Returns the minimum and maximum that agree with the client's count.
///
/// A request that the client cancelled may have succeeded on the server, and its work may have
/// been counted. In this case only a count that is too low, or more successes than requests, is
/// a disagreement.
fn range(count: &Count, counted: u64, client: &ClientCounts, has_cached: bool) -> (f64, f64) {
    let times = if count.by_choice { client.choices.max(1) } else { 1 };
    let given_up = (client.failed + client.cancelled).saturating_mul(times);
    let counted = counted as f64;
    let least = if count.cached.is_some() && !has_cached { 0.0 } else { counted };
    let most = match count.quantity {
        Requests => counted + given_up as f64,
        PromptTokens | CompletionTokens if given_up > 0 => f64::INFINITY,
        PromptTokens | CompletionTokens => counted,
    };
    (least, most)
}

fn label<'a>(labels: &'a Labels, name: &str) -> Option<&'a str> {
    labels.iter().find(|(label, _)| **label == *name).map(|(_, value)| &**value)
}

/// Returns the increase of the metric at the endpoints `among` all, if one has it, in the first scrapes of each, as
/// many as `until` returns: the largest sum among the groups to which `group` assigns its series. Series
/// without a group are left out.
fn rise(
    store: &Store,
    among: &dyn Fn(&EndpointStore) -> bool,
    until: impl Fn(&EndpointStore) -> usize,
    metric: &str,
    group: impl for<'a> Fn(&'a Labels) -> Option<&'a str>,
) -> Option<f64> {
    let mut groups: Vec<(String, f64)> = Vec::new();
    let mut is_there = false;
    let scraped = store.endpoints().iter().filter(|endpoint| endpoint.scrapes().len() > 1);
    for endpoint in scraped.filter(|endpoint| among(endpoint)) {
        let named = endpoint.families.iter().filter(|family| {
            *family.name == *metric
                && matches!(family.kind, SeriesKind::Counter | SeriesKind::Histogram)
        });
        for series in named.flat_map(|family| &family.series) {
            is_there = true;
            let Some(group) = group(&series.labels) else { continue };
            let rise = match &series.values {
                Values::Number(column) => total(column, until(endpoint)),
                Values::Histogram(columns) => total(&columns.sum, until(endpoint)),
                Values::Summary(_) => 0.0,
            };
            match groups.iter_mut().find(|(name, _)| name == group) {
                Some((_, sum)) => *sum += rise,
                None => groups.push((group.to_owned(), rise)),
            }
        }
    }
    let greatest = groups.iter().map(|(_, sum)| *sum).fold(0.0, f64::max);
    is_there.then_some(greatest)
}

/// Returns the increase of `column` over the first `scrapes`.
fn total(column: &Column, scrapes: usize) -> f64 {
    let mut before = column.at(0).unwrap_or(0.0);
    let mut total = 0.0;
    for (_, value) in column.iter(0..scrapes) {
        total += if value < before { value } else { value - before };
        before = value;
    }
    total
}

#[cfg(test)]
mod tests;
