//! The results for each load, as JSON and as tables.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};

use measure::metrics::health::{Limits, SelfCheck};
use referee::Cores;
use results::console::{Style, Table, numbers};

use super::accuracy::{ErrorDistribution, Errors, METRICS};

/// A level of load to try.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// Concurrent streams; each sends its next request when one ends.
    Concurrency(u64),
    /// Requests per second, at equal intervals.
    RequestRate(u64),
}

impl Level {
    /// The load as a number.
    pub(super) const fn size(self) -> u64 {
        match self {
            Self::Concurrency(size) | Self::RequestRate(size) => size,
        }
    }
}

/// The results for one load.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Step {
    pub(super) load: Level,
    pub(super) requests: usize,
    failed: u64,
    /// Number of requests with a wrong output token count.
    miscounted: u64,
    /// Highest concurrency at the server, by its log.
    reached_concurrency: u64,
    /// Fraction of reads with a kernel timestamp.
    kernel_stamps: f64,
    /// Errors by arrival time, and by the time of the read.
    errors: Metrics,
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_slip: Option<ErrorDistribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slip_at_server: Option<ErrorDistribution>,
    /// Why the load failed; empty if it passed.
    pub(super) failures: Vec<String>,
}

/// The error distributions of each metric.
#[derive(Debug, Clone)]
struct Metrics([Option<Pair>; METRICS.len()]);

#[derive(Debug, Clone, Copy, Serialize)]
struct Pair {
    by_arrival: ErrorDistribution,
    by_read: ErrorDistribution,
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let named = METRICS.iter().zip(&self.0);
        serializer.collect_map(named.filter_map(|((tag, _), pair)| Some((tag, pair.as_ref()?))))
    }
}

impl Step {
    /// Evaluates `errors` against `bound_ms`.
    pub(super) fn judge(load: Level, requests: usize, errors: Errors, bound_ms: f64) -> Self {
        let Errors { by_arrival, by_read, slip, slip_at_server, .. } = errors;
        let mut pairs = by_arrival.into_iter().zip(by_read).map(|(by_arrival, by_read)| {
            Some(Pair {
                by_arrival: ErrorDistribution::from_errors(&by_arrival)?,
                by_read: ErrorDistribution::from_errors(&by_read)?,
            })
        });
        let mut step = Self {
            load,
            requests,
            failed: errors.failed + errors.unknown,
            miscounted: errors.miscounted,
            reached_concurrency: errors.reached_concurrency,
            kernel_stamps: errors.kernel_share,
            errors: Metrics(std::array::from_fn(|_| pairs.next().flatten())),
            schedule_slip: ErrorDistribution::from_errors(&slip),
            slip_at_server: ErrorDistribution::from_errors(&slip_at_server),
            failures: Vec::new(),
        };
        step.failures = step.failures(bound_ms);
        step
    }

    fn failures(&self, bound_ms: f64) -> Vec<String> {
        let mut failures = Vec::new();
        let named = METRICS.iter().zip(&self.errors.0);
        let errors = named.filter_map(|((_, name), pair)| Some((*name, pair.as_ref()?.by_arrival)));
        let slip = self.schedule_slip.map(|slip| ("schedule slip", slip));
        for (name, spread) in errors.chain(slip) {
            if spread.p99 > bound_ms {
                failures.push(format!("{name} is off by {:.2} ms at p99", spread.p99));
            }
        }
        if self.requests == 0 {
            failures.push("no request was sent".to_owned());
        }
        if self.failed > 0 {
            failures.push(format!("{} requests failed", self.failed));
        }
        if self.miscounted > 0 {
            failures.push(format!("{} requests have a wrong output token count", self.miscounted));
        }
        if let Level::Concurrency(asked) = self.load
            && self.reached_concurrency < asked
        {
            failures.push(format!(
                "only {} of {asked} concurrent streams were reached",
                self.reached_concurrency
            ));
        }
        failures
    }

    fn holds(&self) -> String {
        if self.failures.is_empty() { "yes" } else { "no" }.to_owned()
    }
}

/// The results of the self-check.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Report {
    /// The part that is saved for later runs.
    #[serde(flatten)]
    pub(super) found: SelfCheck,
    /// The cores of client and server.
    pub(super) cores: Cores,
    /// Results for numbers of streams, in order; a load that failed is listed twice.
    pub(super) streams: Vec<Step>,
    /// Results for rates, likewise.
    pub(super) rates: Vec<Step>,
}

impl Report {
    /// Renders the tables and the conclusion.
    pub(super) fn render(&self, style: Style) -> String {
        let mut text = self.streams_table(style);
        text.push('\n');
        text.push_str(&self.rates_table(style));
        for step in self.streams.iter().chain(&self.rates).filter(|step| !self.held(step.load)) {
            let load = match step.load {
                Level::Concurrency(streams) => format!("concurrency {streams}"),
                Level::RequestRate(rate) => format!("{rate} requests/s"),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{load}: {}", step.failures.join("; "));
        }
        text.push_str(&self.verdict());
        text
    }

    fn streams_table(&self, style: Style) -> String {
        let title = format!(
            "aiperf | Errors at p99 in ms, by arrival time / by read time (bound {} ms by arrival \
             time)",
            self.found.bound_ms
        );
        let columns = numbers(&[
            ("Streams", 0),
            ("Reached", 2),
            ("TTFT", 0),
            ("TTST", 4),
            ("ITL", 0),
            ("Req Latency", 0),
            ("ICL", 5),
            ("Kernel timestamps", 3),
            ("Wrong token counts", 1),
            ("Holds", 0),
        ]);
        let rows = self.streams.iter().map(|step| {
            let [first, second, itl, latency, icl] = step.errors.0.map(both);
            let share = format!("{:.0} %", step.kernel_stamps * 100.0);
            let load = step.load.size().to_string();
            let reached = step.reached_concurrency.to_string();
            [
                load,
                reached,
                first,
                second,
                itl,
                latency,
                icl,
                share,
                step.miscounted.to_string(),
                step.holds(),
            ]
        });
        Table::new(&title, columns).rows(rows).render(style)
    }

    fn rates_table(&self, style: Style) -> String {
        let title =
            format!("aiperf | Schedule slip in ms (bound {} ms at p99)", self.found.bound_ms);
        let columns = numbers(&[
            ("Requests/s", 0),
            ("Requests", 1),
            ("Slip p50", 2),
            ("Slip p99", 0),
            ("Slip max", 4),
            ("At the server p50", 3),
            ("At the server p99", 5),
            ("Req Latency error p99", 0),
            ("Holds", 0),
        ]);
        let column = |spread: Option<ErrorDistribution>, field: fn(ErrorDistribution) -> f64| {
            spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.3}", field(spread)))
        };
        let rows = self.rates.iter().map(|step| {
            let (slip, server) = (step.schedule_slip, step.slip_at_server);
            [
                step.load.size().to_string(),
                step.requests.to_string(),
                column(slip, |spread| spread.p50),
                column(slip, |spread| spread.p99),
                column(slip, |spread| spread.max),
                column(server, |spread| spread.p50),
                column(server, |spread| spread.p99),
                both(step.errors.0[3]),
                step.holds(),
            ]
        });
        Table::new(&title, columns).rows(rows).render(style)
    }

    /// Whether one of the attempts at `load` passed.
    fn held(&self, load: Level) -> bool {
        let mut tries = self.streams.iter().chain(&self.rates).filter(|step| step.load == load);
        tries.any(|step| step.failures.is_empty())
    }

    fn verdict(&self) -> String {
        let Limits { concurrency, request_rate } = self.found.limits;
        let streams = concurrency.map(|n| format!("up to {n} concurrent streams"));
        let rate = request_rate.map(|rate| format!("up to {rate} requests/s"));
        let bound = self.found.bound_ms;
        let with = match (streams, rate) {
            (Some(streams), Some(rate)) => format!("with {streams} and {rate}"),
            (Some(streams), None) => format!("with {streams}, but at no request rate tried"),
            (None, Some(rate)) => format!("with {rate}, but at no concurrency tried"),
            (None, None) => "at no load tried".to_owned(),
        };
        format!("On this machine errors stay within {bound} ms at p99 {with}.\n")
    }
}

fn both(pair: Option<Pair>) -> String {
    pair.map_or_else(
        || "-".to_owned(),
        |pair| format!("{:.2} / {:.2}", pair.by_arrival.p99, pair.by_read.p99),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors() -> Errors {
        Errors {
            by_arrival: std::array::from_fn(|_| vec![500_000.0; 100]),
            by_read: std::array::from_fn(|_| vec![3e6; 100]),
            reached_concurrency: 10,
            ..Errors::default()
        }
    }

    #[test]
    fn a_load_holds_by_arrival_within_the_bound() {
        let judge = |errors| Step::judge(Level::Concurrency(10), 100, errors, 0.5).failures;
        assert!(judge(errors()).is_empty());
        assert_eq!(judge(Errors { failed: 1, ..errors() }), ["1 requests failed"]);
        assert_eq!(
            judge(Errors { miscounted: 2, ..errors() }),
            ["2 requests have a wrong output token count"]
        );
        assert_eq!(
            judge(Errors { reached_concurrency: 9, ..errors() }),
            ["only 9 of 10 concurrent streams were reached"]
        );
        let mut late = errors();
        late.by_arrival[1] = vec![600_000.0; 100];
        assert_eq!(judge(late), ["TTST is off by 0.60 ms at p99"]);
        let rate = Errors { slip: vec![700_000.0; 3], ..errors() };
        let step = Step::judge(Level::RequestRate(99), 3, rate, 0.5);
        assert_eq!(step.failures, ["schedule slip is off by 0.70 ms at p99"]);
    }
}
