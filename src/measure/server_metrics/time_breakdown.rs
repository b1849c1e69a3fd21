//! Divides the client's mean latencies into what the server reports about its own times.

mod workers;

use std::collections::BTreeSet;

use thiserror::Error;

use base::redact::ShownUrl;
use client::schedule::Shard;
use client::server_family::{self, Families, Hidden, Quantity, ServerFamily, Time, Times, seconds};

use super::report::{ServerMetrics, Stats};
use super::store::Values;
use crate::metrics::metric::{Distribution, MetricResult};
use crate::metrics::time_breakdown::{Divided, Division, Part, Stage, TimeBreakdown};
use crate::metrics::{ClientHealth, MetricTag, tag};
use workers::{Stages, Workers};

/// The URLs of endpoints; all endpoints if there are none.
type Endpoints<'a> = BTreeSet<&'a str>;

/// Why latencies are not divided, though the server reports times.
#[derive(Debug, Clone, PartialEq, Error)]
pub(crate) enum Indivisible {
    /// The server counted other requests, too, or not all.
    #[error(
        "{metric} counts {server} {quantity}, the client {client}; the server's times are not \
         those of the client's requests"
    )]
    OtherRequests { metric: &'static str, quantity: &'static str, server: f64, client: f64 },
    /// The server counts tokens instead of requests, and the client cannot compare them.
    #[error(
        "{0} counts tokens, which some responses do not report; the server's times cannot be \
         attributed to the client's requests"
    )]
    NoUsage(&'static str),
    /// The server restarted.
    #[error("{0} decreased, because the server restarted")]
    Restarted(&'static str),
    /// The workers for prefill or for decode counted other requests, too, or not all.
    #[error(
        "{metric} counts {server} requests on the workers for {role}, the client {client}; either \
         not all requests have separate prefill and decode, or there were others"
    )]
    OtherWorkers { role: &'static str, metric: &'static str, server: f64, client: f64 },
    /// Each request is counted twice, and it is not known by whom.
    #[error(
        "{metric} counts {server} requests, twice the client's {client}, as separate workers for \
         prefill and decode do; no label and no count of tokens tells which worker is which"
    )]
    UnknownWorkers { metric: &'static str, server: f64, client: f64 },
}

impl Indivisible {
    /// Returns it as a reason of the workers for `role`.
    fn of_workers(self, role: &'static str) -> Self {
        match self {
            Self::OtherRequests { metric, server, client, .. } => {
                Self::OtherWorkers { role, metric, server, client }
            }
            other => other,
        }
    }
}

/// A time over all endpoints, in its own unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Observed {
    /// Number of observations; `None` for a counter.
    count: Option<f64>,
    sum: f64,
    /// Maximum error of the sum from rounding.
    rounding: f64,
    is_reset: bool,
}

impl Observed {
    /// Returns the mean of `time` over the requests of the client, as the part `stage`.
    fn part(
        self,
        stage: Stage,
        time: Time,
        omits_zeros: bool,
        requests: u64,
    ) -> Result<Part, Indivisible> {
        let metric = time.metric;
        if self.is_reset {
            return Err(Indivisible::Restarted(metric));
        }
        let client = requests as f64;
        if let Some(server) = self.count
            && (server > client || (server < client && !omits_zeros))
        {
            let quantity = "requests";
            return Err(Indivisible::OtherRequests { metric, quantity, server, client });
        }
        let mean = |sum: f64| sum * time.unit.as_millis() / client;
        Ok(Part { stage, mean_ms: mean(self.sum), bound_ms: mean(self.rounding) })
    }
}

/// The means that a server reports.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Means {
    queue: Option<Part>,
    prefill: Option<Part>,
    decode: Option<Part>,
    first_token: Option<Part>,
    whole: Option<Part>,
}

impl Means {
    /// Returns the time after the first token of streamed responses.
    fn after_first_token(&self) -> Option<Part> {
        self.whole
            .zip(self.first_token)
            .map(|(whole, first)| whole.without(&[first], Stage::Decode))
    }
}

/// Divides a mean of the client, of which the time of the connection and of the end token are known. A front end and an engine report their own totals, of which the
/// `stages` are parts; `arrival_error_ms` is the client's mean error of the end of a latency.
fn parts(
    mean_ms: f64,
    [connection, end_token]: [Option<Part>; 2],
    [front_end, engine]: [Option<Part>; 2],
    stages: &[Option<Part>],
    arrival_error_ms: f64,
) -> Vec<Part> {
    let known: Vec<Part> = stages.iter().flatten().copied().collect();
    let has_all = known.len() == stages.len();
    let outer = front_end.or(engine);
    // A server that does not report all stages may spend the remainder in those.
    let outside = match (outer, engine) {
        (Some(outer), _) if has_all => Some(outer.without(&known, Stage::FrontEnd)),
        (Some(outer), Some(engine)) if front_end.is_some() => {
            Some(outer.without(&[engine], Stage::FrontEnd))
        }
        _ => None,
    };
    let undivided = engine.or(outer).filter(|_| !has_all);
    let undivided = undivided.map(|total| total.without(&known, Stage::Server));
    // The server's times end with the end token, if it reports them up to the end.
    let decodes = outer.is_some() || known.iter().any(|part| part.stage.is_decode());
    let end_token = end_token.filter(|_| decodes);
    let mut parts: Vec<Part> = connection
        .into_iter()
        .chain(outside)
        .chain(known)
        .chain(end_token)
        .chain(undivided)
        .collect();
    let whole = Part { stage: Stage::Unattributed, mean_ms, bound_ms: arrival_error_ms };
    parts.push(whole.without(&parts, Stage::Unattributed));
    parts
}

/// Returns the division of the client's mean latencies, which are among the `results` of the
/// profiling phase, by what the server reports of each request or in its metrics, whichever has
/// more parts; or why they are not divided. `None` if no server metrics were asked for. `asked` are
/// the endpoints that were to be scraped. Server metrics are not used if they may cover other shards.
pub fn time_breakdown(
    shard: Option<Shard>,
    results: &[MetricResult],
    asked: &[ShownUrl],
    server_metrics: Option<&ServerMetrics>,
    health: Option<&ClientHealth>,
) -> Option<TimeBreakdown> {
    let arrival = health.and_then(|health| health.arrival_error_ms.as_ref());
    let by_requests = Division::of_requests(results, arrival.map_or(0.0, |error| error.avg));
    let is_part = shard.is_some_and(|shard| shard.count() > 1);
    let server_metrics = server_metrics.filter(|_| !is_part);
    let by_metrics = server_metrics.and_then(|server_metrics| {
        let sides = Sides { results, server_metrics, health };
        let servers = sides.servers()?;
        let (latency, _) = sides.client(tag::REQUEST_LATENCY)?;
        Some(sides.divided(servers, latency.count))
    });
    // Metrics may cover what responses do not, such as a front end, and conversely.
    match (by_requests, by_metrics) {
        (Some(by_requests), Some(Ok(by_metrics))) if by_requests.parts() < by_metrics.parts() => {
            Some(TimeBreakdown::Found(by_metrics))
        }
        (Some(division), _) | (None, Some(Ok(division))) => Some(TimeBreakdown::Found(division)),
        (None, Some(Err(reason))) => {
            Some(TimeBreakdown::None { reason: reason.to_string(), is_unreported: false })
        }
        (None, None) if is_part => None,
        (None, None) => unreported(results, asked, server_metrics),
    }
}

/// Returns why nothing is known of the server's times; `None` if no server metrics were asked for, or
/// no request succeeded.
fn unreported(
    results: &[MetricResult],
    asked: &[ShownUrl],
    server_metrics: Option<&ServerMetrics>,
) -> Option<TimeBreakdown> {
    results.iter().find(|result| result.metric.tag == tag::REQUEST_LATENCY)?;
    let joined = |urls: &[ShownUrl]| {
        urls.iter().map(|url| (**url).to_owned()).collect::<Vec<_>>().join(", ")
    };
    if asked.is_empty() {
        return None;
    }
    let summary = server_metrics.map(|found| &found.report.summary);
    let reason = if Division::is_reported(results) {
        "the responses report different stages, or not all of them report any".to_owned()
    } else if let Some(summary) = summary.filter(|found| !found.endpoints_successful.is_empty()) {
        let divided = |family: &&&ServerFamily| family.times.stages().next().is_some();
        let known = server_family::ALL.iter().filter(divided).map(|family| family.title);
        format!(
            "the metrics at {} do not have the times of stages, as {} name them, and the responses \
             do not report any; name the endpoints of the engines with --server-metrics, or let the \
             server report its times in responses",
            joined(&summary.endpoints_successful),
            known.collect::<Vec<_>>().join(", ")
        )
    } else {
        format!(
            "there are no metrics at {}, and the responses do not report the server's times; name the \
             server's endpoints with --server-metrics, or let the server report its times in \
             responses",
            joined(asked)
        )
    };
    Some(TimeBreakdown::None { reason, is_unreported: true })
}

/// Returns the events of the profiling phase whose time is within a stage, with their number.
pub fn hidden(server_metrics: &ServerMetrics) -> Vec<(&'static Hidden, f64)> {
    let known = server_family::ALL.iter().flat_map(|family| family.hidden);
    let counted = known.map(|hidden| {
        let named = server_metrics.report.metrics.iter().filter(|of| *of.name == *hidden.metric);
        let totals = named.flat_map(|of| &of.series).map(|series| match &series.stats {
            Stats::Counter(stats) => stats.total,
            _ => 0.0,
        });
        (hidden, totals.sum())
    });
    counted.filter(|(_, count)| *count > 0.0).collect()
}

/// The measurements of client and server.
struct Sides<'a> {
    results: &'a [MetricResult],
    server_metrics: &'a ServerMetrics,
    health: Option<&'a ClientHealth>,
}

impl<'a> Sides<'a> {
    /// Returns the front end and the engine that processed the requests, as far as their times are
    /// known; `None` without any. The totals of an engine that reports no stages are of use only behind
    /// a front end.
    fn servers(&self) -> Option<[Option<&'static ServerFamily>; 2]> {
        let has = |time: Time| self.observed(&self.endpoints(&[time]), time, None, 1).is_some();
        let found = Families::found(|family| family.times.stages_and_totals().any(has));
        let front_end = found.front_end();
        let mut engines = found.engines().iter().copied();
        let undivided = engines.clone().next().filter(|_| front_end.is_some());
        let engine = engines.find(|engine| engine.times.stages().any(has)).or(undivided);
        (front_end.is_some() || engine.is_some()).then_some([front_end, engine])
    }

    fn divided(
        &self,
        servers: [Option<&'static ServerFamily>; 2],
        requests: u64,
    ) -> Result<Division, Indivisible> {
        let means = |family: Option<&ServerFamily>| {
            family.map_or(Ok(Means::default()), |family| self.means(&family.times, requests))
        };
        let first = self.client(tag::TIME_TO_FIRST_TOKEN);
        // Requests without content do not have a time to the first token.
        let is_streamed = first.is_some_and(|(distribution, _)| distribution.count == requests);
        let front_end = means(servers[0])?;
        let (engine, stages) = match means(servers[1]) {
            Ok(engine) => {
                let Means { queue, prefill, decode, .. } = engine;
                let after = || engine.after_first_token().or_else(|| front_end.after_first_token());
                let decode = decode.or_else(|| is_streamed.then(after).flatten());
                let first_token = vec![queue, prefill];
                (engine, Stages { first_token, whole: vec![queue, prefill, decode] })
            }
            Err(error) => {
                let stages = self.separate(servers, requests, is_streamed).unwrap_or(Err(error))?;
                // What precedes the workers, and is between them, is not in their times.
                (Means::default(), stages)
            }
        };
        let first_token = ([front_end.first_token, engine.first_token], &stages.first_token);
        let whole = ([front_end.whole, engine.whole], &stages.whole);
        let metrics = [(tag::TIME_TO_FIRST_TOKEN, first_token), (tag::REQUEST_LATENCY, whole)];
        let metrics = metrics.into_iter().filter_map(|(tag, (totals, stages))| {
            let (distribution, result) = self.client(tag)?;
            (distribution.count == requests).then(|| self.rows(result, totals, stages))
        });
        Ok(Division { request_count: requests, metrics: metrics.collect() })
    }

    /// Returns the stages of requests that separate workers for prefill and decode count twice; `None`
    /// if they do not.
    fn separate(
        &self,
        [front_end, engine]: [Option<&'static ServerFamily>; 2],
        requests: u64,
        is_streamed: bool,
    ) -> Option<Result<Stages, Indivisible>> {
        let engine = engine?;
        if let Some(workers) = Workers::find(self, front_end, engine) {
            return Some(workers.stages(self, &engine.times, requests, is_streamed));
        }
        let time = engine.times.stages().next()?;
        let among = self.endpoints(&[time]);
        let server = self.observed(&among, time, None, requests)?.count?;
        let (metric, client) = (time.metric, requests as f64);
        let is_twice = among.len() > 1 && server == 2.0 * client;
        is_twice.then_some(Err(Indivisible::UnknownWorkers { metric, server, client }))
    }

    /// Divides the mean of `result`, of which servers report their own `totals` and `stages`.
    fn rows(
        &self,
        result: &MetricResult,
        totals: [Option<Part>; 2],
        stages: &[Option<Part>],
    ) -> Divided {
        let arrival = self.health.and_then(|health| health.arrival_error_ms.as_ref());
        let arrival_ms = arrival.map_or(0.0, |error| error.avg);
        let mean_ms = result.stats.avg;
        let end_token = self.end_token().filter(|_| result.metric.tag == tag::REQUEST_LATENCY);
        let parts = parts(mean_ms, [self.connection(), end_token], totals, stages, arrival_ms);
        Divided { metric: result.metric.tag, mean_ms, parts }
    }

    /// Returns the time of the end tokens, which is in the server's times but not in the latency.
    fn end_token(&self) -> Option<Part> {
        let (times, result) = self.client(tag::END_TOKEN_TIME)?;
        let (latencies, _) = self.client(tag::REQUEST_LATENCY)?;
        let of_all = result.stats.avg * times.count as f64 / latencies.count as f64;
        let mean_ms = Stage::EndToken.part_of_latency(of_all);
        Some(Part { stage: Stage::EndToken, mean_ms, bound_ms: 1e-6 })
    }

    /// Returns the time until a connection was available, by the client's clock of nanoseconds.
    fn connection(&self) -> Option<Part> {
        let (distribution, result) = self.client(tag::HTTP_REQ_CONNECTION_OVERHEAD)?;
        let (latencies, _) = self.client(tag::REQUEST_LATENCY)?;
        (distribution.count == latencies.count).then_some(Part {
            stage: Stage::Connection,
            mean_ms: result.stats.avg,
            bound_ms: 1e-6,
        })
    }

    /// Returns the means of `times` over the client's requests.
    fn means(&self, times: &Times, requests: u64) -> Result<Means, Indivisible> {
        self.check_counter(times, requests)?;
        // Another server in front of it, or a copy of it, would count each request again.
        let among = self.endpoints(&times.stages().collect::<Vec<_>>());
        let part = |stage, time| self.part(&among, stage, time, times, requests);
        Ok(Means {
            queue: part(Stage::Queue, times.queue)?,
            prefill: part(Stage::Prefill, times.prefill)?,
            decode: part(Stage::Decode, times.decode)?,
            first_token: part(Stage::Server, times.first_token)?,
            whole: part(Stage::Server, times.whole)?,
        })
    }

    /// Returns the mean of `time`, one of `times`, over the client's requests at the endpoints `among`,
    /// as the part `stage`; `None` if none of them has it.
    fn part(
        &self,
        among: &Endpoints<'_>,
        stage: Stage,
        time: Option<Time>,
        times: &Times,
        requests: u64,
    ) -> Result<Option<Part>, Indivisible> {
        // No request takes no time at all.
        let omits_zeros = times.omits_zeros && stage != Stage::Server;
        let found =
            time.and_then(|time| Some((time, self.observed(among, time, times.digits, requests)?)));
        found.map(|(time, observed)| observed.part(stage, time, omits_zeros, requests)).transpose()
    }

    /// Checks that the server's counter agrees with the client, if `times` has one.
    fn check_counter(&self, times: &Times, requests: u64) -> Result<(), Indivisible> {
        let Some((metric, quantity)) = times.counter else { return Ok(()) };
        let found = self.observed(&BTreeSet::new(), seconds(metric), None, requests);
        let server = found.map_or(0.0, |found| found.sum);
        let (quantity, client) = match quantity {
            Quantity::Requests => ("requests", requests as f64),
            Quantity::PromptTokens => {
                ("tokens", self.tokens(tag::USAGE_PROMPT_TOKENS, metric, requests)?)
            }
            Quantity::CompletionTokens => {
                ("tokens", self.tokens(tag::USAGE_COMPLETION_TOKENS, metric, requests)?)
            }
        };
        if server == client {
            return Ok(());
        }
        Err(Indivisible::OtherRequests { metric, quantity, server, client })
    }

    /// Returns the sum of the tokens `tag` over the client's requests, to compare with `metric`.
    fn tokens(
        &self,
        tag: MetricTag,
        metric: &'static str,
        requests: u64,
    ) -> Result<f64, Indivisible> {
        let usage = self.client(tag).filter(|(distribution, _)| distribution.count == requests);
        Ok(usage.ok_or(Indivisible::NoUsage(metric))?.0.sum)
    }

    /// Returns the client's statistics of `tag`.
    fn client(&self, tag: MetricTag) -> Option<(Distribution, &'a MetricResult)> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some((result.stats.distribution?, result))
    }

    /// Returns the endpoints that have one of `times` in the profiling phase.
    fn endpoints(&self, times: &[Time]) -> Endpoints<'a> {
        let reports = self.server_metrics.report.metrics.iter();
        let found = reports.filter(|of| times.iter().any(|time| *time.metric == *of.name));
        found.flat_map(|of| of.series.iter().map(|series| &*series.endpoint_url)).collect()
    }

    /// Returns the sum of all series of `time` in the profiling phase, of the endpoints `among`. A
    /// counter may cover `requests`, and sums may be written with a number of `digits`.
    fn observed(
        &self,
        among: &Endpoints<'_>,
        time: Time,
        digits: Option<i32>,
        requests: u64,
    ) -> Option<Observed> {
        let metrics = self.server_metrics;
        let reports = &metrics.report.metrics;
        let is_endpoint = |url: &str| among.is_empty() || among.contains(url);
        let mut all: Option<Observed> = None;
        let named = reports.iter().filter(|of| *time.metric == *of.name);
        let series = named.flat_map(|of| &of.series);
        for series in series.filter(|of| is_endpoint(&of.endpoint_url) && time.includes(&of.labels))
        {
            let (count, sum, resets) = match &series.stats {
                Stats::Histogram(stats) => (Some(stats.count), stats.sum, stats.resets),
                Stats::Counter(stats) => (None, stats.total, stats.resets),
                Stats::Gauge(_) | Stats::Summary(_) => continue,
            };
            let all = all.get_or_insert_default();
            all.count = count.map(|count| count + all.count.unwrap_or(0.0));
            all.sum += sum;
            all.is_reset |= resets.is_some();
        }
        let mut all = all?;
        let observations = all.count.unwrap_or(requests as f64);
        let endpoints = metrics.store.endpoints().iter();
        let series = endpoints.filter(|endpoint| is_endpoint(&endpoint.url)).flat_map(|endpoint| {
            let last = endpoint.scrapes().len().saturating_sub(1);
            let families = endpoint.families.iter().filter(|family| *family.name == *time.metric);
            families.flat_map(|family| &family.series).map(move |series| (last, series))
        });
        for (last, series) in series.filter(|(_, series)| time.includes(&series.labels)) {
            let sum = match &series.values {
                Values::Histogram(columns) => columns.sum.last_until(last),
                Values::Number(column) => column.last_until(last),
                Values::Summary(_) => None,
            };
            let sum = sum.unwrap_or(0.0).abs();
            // Each observation and the difference are rounded to the precision of the server's sum.
            all.rounding += (observations + 2.0) * sum * f64::EPSILON;
            // Each of two sums is wrong by at most half a unit of its last digit.
            if let Some(digits) = digits.filter(|_| sum > 0.0) {
                all.rounding += 10_f64.powf(sum.log10().floor() + 1.0 - f64::from(digits));
            }
        }
        Some(all).filter(|all| all.count.unwrap_or(all.sum) > 0.0)
    }
}

#[cfg(test)]
mod tests;
