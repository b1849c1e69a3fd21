//! Accuracy: compares the client's results with the log of the mock server's writes.
//!
//! A byte was sent between the timestamps just before and just after its write, so each true
//! value is known as an interval. The error of a reported value is its distance from that
//! interval, and 0 inside it.

use std::collections::HashMap;

use serde::Serialize;

use base::statistics::percentile;
use base::units::Nanos;

use measure::metrics::metric::{MeasuredRecord, Value};
use measure::metrics::tag::{self, MetricTag};
use mock_server::{RequestLog, in_flight};

/// The metrics that are compared.
pub(super) const METRICS: [(MetricTag, &str); 5] = [
    (tag::TIME_TO_FIRST_TOKEN, "TTFT"),
    (tag::TIME_TO_SECOND_TOKEN, "TTST"),
    (tag::INTER_TOKEN_LATENCY, "ITL"),
    (tag::REQUEST_LATENCY, "Req Latency"),
    (tag::INTER_CHUNK_LATENCY, "ICL"),
];

const TTFT: usize = 0;
const TTST: usize = 1;
const ITL: usize = 2;
const LATENCY: usize = 3;
const ICL: usize = 4;

/// The client's results for one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    pub(super) request_id: String,
    pub(super) start: Nanos,
    pub(super) due: Option<Nanos>,
    pub(super) failed: bool,
    /// Values in nanoseconds, in the order of [`METRICS`].
    pub(super) values: [Vec<f64>; METRICS.len()],
    pub(super) output_tokens: Option<f64>,
    /// Delay between the arrival and the read of each event, in nanoseconds.
    pub(super) read_lags: Vec<u32>,
    pub(super) socket_reads: u64,
    pub(super) kernel_stamps: u64,
}

impl Sample {
    /// Returns the results of a request.
    pub(super) fn from_record(measured: &MeasuredRecord) -> Self {
        let MeasuredRecord { record, observation, .. } = measured;
        let values = |tag| match observation.values.get(tag) {
            Some(Value::Scalar(value)) => vec![*value],
            Some(Value::List(values)) => values.clone(),
            None => Vec::new(),
        };
        Self {
            request_id: record.request_id.to_string(),
            start: record.start,
            due: record.due,
            failed: observation.error.is_some(),
            values: METRICS.map(|(tag, _)| values(tag)),
            output_tokens: observation.values.scalar(tag::OUTPUT_SEQUENCE_LENGTH),
            read_lags: record.body.events.iter().map(|event| event.arrival.read_lag).collect(),
            socket_reads: record.trace.socket_reads,
            kernel_stamps: record.trace.kernel_stamps,
        }
    }
}

/// Returns the requests of a write log by their IDs.
pub(super) fn by_id(log: Vec<RequestLog>) -> HashMap<String, RequestLog> {
    log.into_iter().filter_map(|served| Some((served.request_id.clone()?, served))).collect()
}

/// Absolute errors in nanoseconds, unordered.
#[derive(Debug, Clone, Default)]
pub(super) struct Errors {
    /// Errors by arrival time, in the order of [`METRICS`].
    pub(super) by_arrival: [Vec<f64>; METRICS.len()],
    /// Errors as if the time of the read had been used.
    pub(super) by_read: [Vec<f64>; METRICS.len()],
    /// From the due time to the hand-over to the transport.
    pub(super) slip: Vec<f64>,
    /// From the due time to the request's arrival at the server.
    pub(super) slip_at_server: Vec<f64>,
    /// Number of requests with a wrong output token count.
    pub(super) miscounted: u64,
    /// Number of failed requests.
    pub(super) failed: u64,
    /// Number of requests missing from the server's log.
    pub(super) unknown: u64,
    /// Highest concurrency at the server, by its own log.
    pub(super) reached_concurrency: u64,
    /// Fraction of reads with a kernel timestamp.
    pub(super) kernel_share: f64,
}

/// The interval of a metric from one content event to another, divided by `divisor`.
struct Span {
    metric: usize,
    /// The first event; the request's start if absent.
    from: Option<usize>,
    to: usize,
    divisor: f64,
}

fn spans(pieces: usize, tokens: u64) -> Vec<Span> {
    let span = |metric, from, to| Span { metric, from, to, divisor: 1.0 };
    let Some(last) = pieces.checked_sub(1) else { return Vec::new() };
    let mut spans = vec![span(TTFT, None, 0), span(LATENCY, None, last)];
    if last > 0 && tokens > 1 {
        spans.push(span(TTST, Some(0), 1));
        spans.push(Span { divisor: (tokens - 1) as f64, ..span(ITL, Some(0), last) });
    }
    spans.extend((0..last).map(|piece| span(ICL, Some(piece), piece + 1)));
    spans
}

impl Errors {
    /// Compares each sample with the server's log of its request.
    pub(super) fn compare(samples: &[Sample], served: &HashMap<String, RequestLog>) -> Self {
        let reached = in_flight(served.values()).into_iter().map(|(_, count)| count).max();
        let mut errors =
            Self { reached_concurrency: reached.unwrap_or_default(), ..Self::default() };
        let (mut reads, mut stamps) = (0, 0);
        for sample in samples {
            reads += sample.socket_reads;
            stamps += sample.kernel_stamps;
            match served.get(&sample.request_id) {
                _ if sample.failed => errors.failed += 1,
                None => errors.unknown += 1,
                Some(served) => errors.add(sample, served),
            }
        }
        errors.kernel_share = if reads == 0 { 0.0 } else { stamps as f64 / reads as f64 };
        errors
    }

    fn add(&mut self, sample: &Sample, served: &RequestLog) {
        if let Some(due) = sample.due {
            self.slip.push(sample.start.since(due).0 as f64);
            self.slip_at_server.push(served.came().since(due).0 as f64);
        }
        let tokens: u64 = served.events.iter().map(|event| event.tokens).sum();
        self.miscounted += u64::from(sample.output_tokens != Some(tokens as f64));
        let content: Option<Vec<_>> = served
            .events
            .iter()
            .enumerate()
            .filter(|(_, event)| event.tokens > 0)
            .map(|(at, event)| Some((at, event.write_start?.0 as f64, event.written?.0 as f64)))
            .collect();
        let Some(content) = content else {
            self.unknown += 1;
            return;
        };
        let start = sample.start.0 as f64;
        let lag = |piece: usize| {
            sample.read_lags.get(content[piece].0).map_or(0.0, |lag| f64::from(*lag))
        };
        for Span { metric, from, to, divisor } in spans(content.len(), tokens) {
            // Gaps are a list; every other metric has a single value.
            let place = if metric == ICL { from.unwrap_or(0) } else { 0 };
            let Some(reported) = sample.values[metric].get(place) else { continue };
            let (earliest, latest) =
                from.map_or((start, start), |from| (content[from].1, content[from].2));
            let truth = ((content[to].1 - latest) / divisor, (content[to].2 - earliest) / divisor);
            let delay = (lag(to) - from.map_or(0.0, lag)) / divisor;
            self.by_arrival[metric].push(distance(*reported, truth));
            self.by_read[metric].push(distance(reported + delay, truth));
        }
    }
}

/// Distance of `value` from the interval; 0 inside.
fn distance(value: f64, (low, high): (f64, f64)) -> f64 {
    (low - value).max(value - high).max(0.0)
}

/// Distribution of errors, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct ErrorDistribution {
    #[serde(rename = "p50_ms")]
    pub(super) p50: f64,
    #[serde(rename = "p99_ms")]
    pub(super) p99: f64,
    #[serde(rename = "max_ms")]
    pub(super) max: f64,
}

impl ErrorDistribution {
    /// Returns the distribution of `errors` in nanoseconds; `None` if there are none.
    pub(super) fn from_errors(errors: &[f64]) -> Option<Self> {
        let spread = percentile::distribution(|| errors.iter().copied())?;
        Some(Self { p50: spread.p50 / 1e6, p99: spread.p99 / 1e6, max: spread.max / 1e6 })
    }
}

#[cfg(test)]
mod tests {
    use mock_server::read_write_log;

    use super::*;

    /// Role, three tokens in two events, `[DONE]`; written within 10 ns each.
    const LOG: &str = concat!(
        r#"{"request_id":"a","number":1,"path":"/","arrival_ns":110,"admitted_ns":110,"prompt_tokens":2,"events":["#,
        r#"{"kind":"open","due_ns":0,"write_start_ns":990,"written_ns":1000,"tokens":0,"bytes":1},"#,
        r#"{"kind":"content","due_ns":0,"write_start_ns":990,"written_ns":1000,"tokens":1,"bytes":1},"#,
        r#"{"kind":"content","due_ns":0,"write_start_ns":2990,"written_ns":3000,"tokens":2,"bytes":1},"#,
        r#"{"kind":"end","due_ns":0,"write_start_ns":2990,"written_ns":3000,"tokens":0,"bytes":1}],"complete":true}"#,
    );

    fn sample() -> Sample {
        Sample {
            request_id: "a".to_owned(),
            start: Nanos(100),
            due: Some(Nanos(60)),
            // Arrivals at 1005 and 3007.
            values: [vec![905.0], vec![2002.0], vec![1001.0], vec![2907.0], vec![2002.0]],
            output_tokens: Some(3.0),
            read_lags: vec![50, 40, 300, 300],
            socket_reads: 2,
            kernel_stamps: 1,
            ..Sample::default()
        }
    }

    #[test]
    fn errors_are_distances_from_the_servers_writes() {
        let served = by_id(read_write_log(LOG.as_bytes()).unwrap());
        let errors = Errors::compare(&[sample()], &served);
        // TTFT is true within 890 and 900; gaps within 1990 and 2010; latency within 2890 and 2900.
        let expected = [vec![5.0], vec![0.0], vec![0.0], vec![7.0], vec![0.0]];
        assert_eq!(errors.by_arrival, expected);
        // Read 40 and 300 later: 945, 2262, 1131 (true within 995 and 1005), 3207, 2262.
        let expected = [vec![45.0], vec![252.0], vec![126.0], vec![307.0], vec![252.0]];
        assert_eq!(errors.by_read, expected);
        assert_eq!((errors.slip, errors.slip_at_server), (vec![40.0], vec![50.0]));
        assert_eq!((errors.miscounted, errors.failed, errors.unknown), (0, 0, 0));
        assert_eq!((errors.reached_concurrency, errors.kernel_share), (1, 0.5));
    }

    #[test]
    fn what_cannot_be_compared_is_counted() {
        let served = by_id(read_write_log(LOG.as_bytes()).unwrap());
        let miscounted = Sample { output_tokens: Some(4.0), ..sample() };
        let failed = Sample { failed: true, ..sample() };
        let unknown = Sample { request_id: "b".to_owned(), ..sample() };
        let errors = Errors::compare(&[miscounted, failed, unknown], &served);
        assert_eq!((errors.miscounted, errors.failed, errors.unknown), (1, 1, 1));
        assert_eq!(errors.by_arrival[TTFT].len(), 1);
    }

    #[test]
    fn a_value_too_early_is_as_wrong_as_one_too_late() {
        assert_eq!(distance(3.0, (5.0, 9.0)), 2.0);
        assert_eq!(distance(11.0, (5.0, 9.0)), 2.0);
        assert_eq!(distance(7.0, (5.0, 9.0)), 0.0);
    }
}
