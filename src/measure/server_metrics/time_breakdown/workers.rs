//! Separate workers for prefill and decode, each of which counts every request.

use std::collections::BTreeSet;

use client::server_family::{Quantity, ServerFamily, Times};

use super::{Endpoints, Indivisible, Sides};
use crate::metrics::time_breakdown::{Part, Stage};
use crate::server_metrics::report::{SeriesReport, Stats};

/// The endpoints of separate workers.
#[derive(Debug)]
pub(super) struct Workers<'a> {
    prefill: Endpoints<'a>,
    decode: Endpoints<'a>,
}

/// The stages of requests until the first token, and of whole requests.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) first_token: Vec<Option<Part>>,
    pub(super) whole: Vec<Option<Part>>,
}

impl<'a> Workers<'a> {
    /// Tells the workers of `engine` apart: by the label that it or its front end has for that, or
    /// because a worker for prefill generates one token of each request, which the client's requests
    /// do not consist of. `None` if that is not possible.
    pub(super) fn find(
        sides: &Sides<'a>,
        front_end: Option<&ServerFamily>,
        engine: &ServerFamily,
    ) -> Option<Self> {
        let stages: Vec<_> = engine.times.stages().collect();
        let all = sides.endpoints(&stages);
        let labels = [front_end, Some(engine)].into_iter().flatten();
        let labels = labels.filter_map(|family| family.worker_label);
        let mut prefill: Endpoints<'_> = labels
            .flat_map(|(metric, label)| {
                let series = sides.series(metric);
                series.filter(move |series| has(series, label, "prefill"))
            })
            .map(|series| &*series.endpoint_url)
            .collect();
        if prefill.is_empty() {
            let generates_one = |url: &&str| {
                let only = BTreeSet::from([*url]);
                let requests =
                    stages.first().and_then(|time| sides.observed(&only, *time, None, 1)?.count);
                requests.is_some_and(|requests| sides.generated(engine, url) == Some(requests))
            };
            prefill = all.iter().copied().filter(generates_one).collect();
        }
        let (prefill, decode): (Endpoints<'_>, Endpoints<'_>) =
            all.into_iter().partition(|url| prefill.contains(url));
        (!prefill.is_empty() && !decode.is_empty()).then_some(Self { prefill, decode })
    }

    /// Returns the mean stages of the client's `requests`, each by the worker that computes it.
    /// `is_streamed` is whether all of them have a time to the first token.
    pub(super) fn stages(
        &self,
        sides: &Sides<'_>,
        times: &Times,
        requests: u64,
        is_streamed: bool,
    ) -> Result<Stages, Indivisible> {
        let latency_of_role = |role: &'static str, among, stage, time| {
            let found = sides.part(among, stage, time, times, requests);
            found.map_err(|error| error.of_workers(role))
        };
        let prefill = |stage, time| latency_of_role("prefill", &self.prefill, stage, time);
        let decode = |stage, time| latency_of_role("decode", &self.decode, stage, time);
        let queue = prefill(Stage::Queue, times.queue)?;
        let prefilled = prefill(Stage::Prefill, times.prefill)?;
        // What the worker for decode does until the first token that it generates.
        let queue_after = decode(Stage::Queue, times.queue)?;
        let first_step = decode(Stage::Prefill, times.prefill)?;
        let decoded = match decode(Stage::Decode, times.decode)? {
            Some(decoded) => Some(decoded),
            None if is_streamed => {
                let first = decode(Stage::Server, times.first_token)?;
                let whole = decode(Stage::Server, times.whole)?;
                whole.zip(first).map(|(whole, first)| whole.without(&[first], Stage::Decode))
            }
            None => None,
        };
        let either: Endpoints<'_> = self.prefill.union(&self.decode).copied().collect();
        // Several transfers of a request may overlap.
        let transfer = sides.part(&either, Stage::KvTransfer, times.transfer, times, requests);
        let transfer = transfer.ok().flatten();
        let waited = match (transfer, queue_after) {
            (Some(transfer), Some(queue)) if times.queue_has_transfer => {
                Some(queue.without(&[transfer], Stage::Queue))
            }
            (_, queue) => queue,
        };
        // A transfer that lasts longer than the queue that it is in is of something else.
        let is_joined = times.queue_has_transfer
            && (transfer.is_none() || waited.is_none_or(|waited| waited.mean_ms < 0.0));
        let sum = |first: Option<Part>, second: Option<Part>, stage| {
            first.map(|first| first.with(second, stage))
        };
        Ok(if is_joined {
            let joined = Stage::KvTransferAndDecode;
            let begun = sum(queue_after, first_step, joined);
            Stages {
                first_token: vec![queue, prefilled, begun],
                whole: vec![
                    queue,
                    prefilled,
                    begun.zip(decoded).map(|(begun, decoded)| begun.with(Some(decoded), joined)),
                ],
            }
        } else {
            let queue = sum(queue, waited, Stage::Queue);
            let prefill = sum(prefilled, first_step, Stage::Prefill);
            Stages {
                first_token: vec![queue, prefill, transfer],
                whole: vec![queue, prefill, transfer, decoded],
            }
        })
    }
}

impl<'a> Sides<'a> {
    /// Returns the series of the profiling phase that `metric` has.
    fn series(&self, metric: &str) -> impl Iterator<Item = &'a SeriesReport> {
        let metrics = &self.server_metrics.report.metrics;
        metrics.iter().filter(move |report| *report.name == *metric).flat_map(|of| &of.series)
    }

    /// Returns the number of tokens that `engine` generated at the endpoint `url`.
    fn generated(&self, engine: &ServerFamily, url: &str) -> Option<f64> {
        let is_of = |quantity| quantity == Quantity::CompletionTokens;
        let count = engine.counts.iter().find(|count| is_of(count.quantity))?;
        let series = self.series(count.metric).filter(|series| *series.endpoint_url == *url);
        let totals = series.map(|series| match &series.stats {
            Stats::Counter(stats) => Some(stats.total),
            Stats::Histogram(stats) => Some(stats.sum),
            Stats::Gauge(_) | Stats::Summary(_) => None,
        });
        totals.sum()
    }
}

fn has(series: &SeriesReport, label: &str, value: &str) -> bool {
    series.labels.iter().any(|(name, of)| **name == *label && **of == *value)
}
