//! What the server's log says of a run: the figures that a client should have reported.

use std::collections::BTreeMap;

use mock_server::{EventKind, EventLog, Nanos, RequestLog, in_flight};

use super::client::{Choices, Counting, Definition, End, Failed, FirstToken, Gaps, Start, Weights};
use super::figure::{Figure, Figures, Percentiles, Statistic};
use super::hazard::Arrivals;

/// The requests of a load as the server saw them, in order of arrival.
#[derive(Debug, Clone)]
pub(crate) struct Truth {
    requests: Vec<RequestLog>,
    /// Number of output tokens that each request asked for.
    osl: u64,
}

/// A way in which to look at the requests: the client's definitions, or a deviation from them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct View {
    /// How the figures are defined.
    pub(crate) definition: Definition,
    /// Number of the slowest successful requests that are left out.
    pub(crate) without_slowest: usize,
    /// Whether a failed request counts as a successful one.
    pub(crate) takes_failures: bool,
    /// Whether only the first choice counts.
    pub(crate) first_choice: bool,
    /// Whether the inter-token latency is divided by events rather than tokens.
    pub(crate) divides_by_events: bool,
}

impl Truth {
    /// Takes the requests of a log without the first `own` ones, which are not part of the load.
    pub(crate) fn new(mut log: Vec<RequestLog>, own: u64, osl: u64) -> Self {
        log.sort_unstable_by_key(|request| request.number);
        let own = usize::try_from(own).unwrap_or(usize::MAX).min(log.len());
        Self { requests: log.split_off(own), osl }
    }

    /// Returns the number of requests sent.
    pub(crate) fn sent(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of requests that the client ended before the server did.
    pub(crate) fn abandoned(&self) -> usize {
        self.requests.iter().filter(|request| is_abandoned(request)).count()
    }

    /// Returns the number of requests that failed.
    pub(crate) fn failed(&self) -> usize {
        self.requests.iter().filter(|request| has_failed(request)).count()
    }

    /// Returns the figures of the requests.
    pub(crate) fn figures(&self, view: &View) -> Figures {
        let View { definition, .. } = view;
        let includes_failed = view.takes_failures || definition.failed_requests == Failed::Included;
        let seen: Vec<_> = self.requests.iter().filter(|request| !is_abandoned(request)).collect();
        let successful = seen.iter().filter(|it| view.takes_failures || !has_failed(it)).count();
        let mut counted: Vec<_> = seen
            .iter()
            .filter(|request| includes_failed || !has_failed(request))
            .map(|request| Response::new(request, view, self.osl))
            .collect();
        if view.without_slowest > 0 {
            counted.sort_by_cached_key(Response::latency);
            counted.truncate(counted.len().saturating_sub(view.without_slowest));
        }
        let successful = successful.saturating_sub(view.without_slowest);

        let mut figures = Figures::new();
        let mut distribution = |figure, values: Vec<f64>| {
            definition.percentiles.add(&mut figures, figure, values);
        };
        let counted = counted.iter();
        distribution(
            Figure::TimeToFirstToken,
            counted.clone().filter_map(Response::ttft).collect(),
        );
        let latencies = counted.clone().filter_map(Response::latency).map(Nanos::as_seconds);
        distribution(Figure::RequestLatency, latencies.collect());
        distribution(
            Figure::InterTokenLatency,
            counted.clone().flat_map(Response::weighted_itl).collect(),
        );
        distribution(Figure::InterChunkLatency, counted.clone().flat_map(Response::gaps).collect());

        let mut value = |figure, value| figures.insert((figure, Statistic::Value), value);
        let tokens: u64 = counted.clone().filter_map(Response::tokens).sum();
        // A client that includes failed requests in its times has them in its rate.
        let in_rate = if includes_failed { counted.len() } else { successful };
        value(Figure::InputTokens, counted.map(|it| it.log.prompt_tokens as f64).sum());
        value(Figure::OutputTokens, tokens as f64);
        value(Figure::RequestCount, successful as f64);
        value(Figure::ErrorRequestCount, seen.len().saturating_sub(successful) as f64);
        if let Some(seconds) = self.duration(definition) {
            value(Figure::BenchmarkDuration, seconds);
            value(Figure::OutputTokenThroughput, tokens as f64 / seconds);
            value(Figure::RequestThroughput, in_rate as f64 / seconds);
        }
        figures
    }

    /// Returns the time from the first start to the last end, in seconds.
    fn duration(&self, definition: &Definition) -> Option<f64> {
        let first = self.requests.iter().map(|request| start(request, Start::Call)).min()?;
        let end = |request| match definition.duration_end {
            None => end_of_stream(request),
            Some(end) => last(request, end).unwrap_or_else(|| end_of_stream(request)),
        };
        let last = self.requests.iter().map(end).max()?;
        Some(last.since(first).as_seconds()).filter(|seconds| *seconds > 0.0)
    }

    /// Returns how the requests were really sent.
    pub(crate) fn sent_figures(&self, arrivals: Arrivals) -> Figures {
        let mut figures = Figures::new();
        figures.insert((Figure::RequestsSent, Statistic::Value), self.requests.len() as f64);
        match arrivals {
            Arrivals::Closed(streams) => {
                let (peak, mean) = self.concurrency(streams);
                figures.insert((Figure::Concurrency, Statistic::Value), peak as f64);
                figures.extend(mean.map(|mean| ((Figure::Concurrency, Statistic::Mean), mean)));
            }
            Arrivals::Open(rate) => {
                let times: Vec<_> = self.requests.iter().map(|it| it.came().as_seconds()).collect();
                if let [first, .., last] = times[..] {
                    let measured = (times.len() - 1) as f64 / (last - first).max(1e-9);
                    figures.insert((Figure::RequestRate, Statistic::Value), measured);
                }
                Percentiles::Linear.add(&mut figures, Figure::Lateness, lateness(&times, rate));
            }
        }
        figures
    }

    /// Returns the highest concurrency at the server, and its mean from when the asked one is reached
    /// to the last arrival.
    fn concurrency(&self, asked: u64) -> (u64, Option<f64>) {
        let counts = in_flight(&self.requests);
        let peak = counts.iter().map(|(_, count)| *count).max().unwrap_or_default();
        let last = self.requests.iter().map(RequestLog::came).max();
        let within = counts.iter().position(|(_, count)| *count >= asked).zip(last);
        let mean = within.and_then(|(reached, last)| {
            let loaded: Vec<_> =
                counts[reached..].iter().take_while(|(at, _)| *at <= last).collect();
            let held = loaded
                .windows(2)
                .map(|pair| pair[0].1 as f64 * pair[1].0.since(pair[0].0).as_seconds());
            let seconds = last.since(counts[reached].0).as_seconds();
            (seconds > 0.0).then(|| held.sum::<f64>() / seconds)
        });
        (peak, mean)
    }
}

/// Returns how late each of sorted `times` is, in seconds, against a schedule of `rate` per second
/// that begins so that no time is early.
fn lateness(times: &[f64], rate: f64) -> Vec<f64> {
    let offsets: Vec<_> = (0..).zip(times).map(|(at, time)| time - f64::from(at) / rate).collect();
    let origin = offsets.iter().copied().fold(f64::INFINITY, f64::min);
    offsets.into_iter().map(|offset| offset - origin).collect()
}

/// Whether the server failed, or refused, a request.
fn has_failed(request: &RequestLog) -> bool {
    request.cut
        || request.status.is_some_and(|status| status >= 400)
        || request.events.iter().any(|event| event.kind == EventKind::Error)
}

/// Whether the client left before the end of the response.
fn is_abandoned(request: &RequestLog) -> bool {
    !request.complete && !request.cut
}

/// Returns when a request started. A call is not seen before its connection; a server with many of them
/// may accept it only after the request has come.
fn start(request: &RequestLog, start: Start) -> Nanos {
    match start {
        Start::Call => request.connected.unwrap_or(Nanos(u64::MAX)).min(request.came()),
        Start::Send => request.came(),
    }
}

fn end_of_stream(request: &RequestLog) -> Nanos {
    request.events.iter().rev().find_map(|event| event.written).unwrap_or(request.arrival)
}

/// Returns when the last event by a definition was sent.
fn last(request: &RequestLog, end: End) -> Option<Nanos> {
    let mut events = request.events.iter().rev().filter(|event| event.written.is_some());
    let last = match end {
        End::Content => events.find(|event| has_token(event.kind, FirstToken::Content)),
        End::Choice => events.find(|event| has_token(event.kind, FirstToken::Choice)),
        End::Event => events.find(|event| event.kind != EventKind::End),
        End::Stream => events.next(),
    };
    last?.written
}

/// A response, as seen by the definitions of a client.
struct Response<'l> {
    log: &'l RequestLog,
    view: &'l View,
    osl: u64,
    /// The times of the events in which the client looks for tokens, with the number of these, for each choice if it
    /// keeps them apart.
    sequences: Vec<Vec<(Nanos, u64)>>,
}

impl<'l> Response<'l> {
    fn new(log: &'l RequestLog, view: &'l View, osl: u64) -> Self {
        let mut response = Self { log, view, osl, sequences: Vec::new() };
        let Definition { first_token, choices, .. } = response.definition();
        let mut sequences: BTreeMap<u64, Vec<(Nanos, u64)>> = BTreeMap::new();
        for (event, at) in response.events().filter(|(it, _)| has_token(it.kind, *first_token)) {
            let choice = if *choices == Choices::Each { event.choice } else { 0 };
            sequences.entry(choice).or_default().push((at, event.tokens));
        }
        response.sequences = sequences.into_values().collect();
        response
    }

    fn definition(&self) -> &Definition {
        &self.view.definition
    }

    /// Returns the events that were sent, of the first choice if only that counts.
    fn events(&self) -> impl Iterator<Item = (&'l EventLog, Nanos)> {
        let first = self.view.first_choice;
        let events = self.log.events.iter().filter(move |event| !first || event.choice == 0);
        events.filter_map(|event| Some((event, event.written?)))
    }

    fn start(&self) -> Nanos {
        start(self.log, self.definition().start)
    }

    fn latency(&self) -> Option<Nanos> {
        Some(last(self.log, self.definition().end)?.since(self.start()))
    }

    fn ttft(&self) -> Option<f64> {
        let start = self.start();
        let sequences = &self.sequences;
        let firsts = sequences.iter().filter_map(|sequence| sequence.first());
        let sum: f64 = firsts.map(|(at, _)| at.since(start).as_seconds()).sum();
        (!sequences.is_empty()).then(|| sum / sequences.len() as f64)
    }

    fn itl(&self) -> Option<f64> {
        let definition = self.definition();
        let sequences = &self.sequences;
        let count = if self.view.divides_by_events {
            sequences.iter().map(|sequence| sequence.len() as u64).sum()
        } else {
            self.tokens()?
        };
        let rest = count.checked_sub(sequences.len() as u64).filter(|rest| *rest > 0)?;
        let seconds: f64 = match (definition.choices, &sequences[..]) {
            (Choices::Together, [only]) => {
                let end = definition.last_token.unwrap_or(definition.end);
                last(self.log, end)?.since(only.first()?.0).as_seconds()
            }
            _ => sequences
                .iter()
                .filter_map(|all| Some(all.last()?.0.since(all.first()?.0).as_seconds()))
                .sum(),
        };
        (!sequences.is_empty()).then(|| seconds / rest as f64)
    }

    /// Returns the inter-token latency as often as it counts.
    fn weighted_itl(&self) -> Vec<f64> {
        let count = match self.definition().inter_token_latency_weights {
            Weights::Requests => 1,
            Weights::Tokens => self.tokens().unwrap_or(0).saturating_sub(1),
        };
        self.itl().map(|itl| vec![itl; count as usize]).unwrap_or_default()
    }

    fn gaps(&self) -> Vec<f64> {
        let pairs = self.sequences.iter().flat_map(|sequence| sequence.windows(2));
        let between = pairs.map(|pair| pair[1].0.since(pair[0].0).as_seconds());
        let within = match self.definition().gaps {
            Gaps::Events => 0,
            Gaps::Tokens => {
                self.sequences.iter().flatten().map(|(_, tokens)| tokens.saturating_sub(1)).sum()
            }
        };
        between.chain(std::iter::repeat_n(0.0, within as usize)).collect()
    }

    /// Returns the number of output tokens; `None` if the client cannot count them.
    fn tokens(&self) -> Option<u64> {
        let events = self.events();
        let has_usage = self.log.events.iter().any(|event| event.kind == EventKind::Usage);
        Some(match self.definition().output_tokens.of(has_usage)? {
            Counting::Usage | Counting::Text => events.map(|(event, _)| event.tokens).sum(),
            Counting::Content => events
                .filter(|(event, _)| event.kind == EventKind::Content)
                .map(|(event, _)| event.tokens)
                .sum(),
            Counting::Requested => self.osl,
            Counting::Events => self.sequences.iter().map(|all| all.len() as u64).sum(),
        })
    }
}

/// Whether an event of this kind is one with a token for a client.
const fn has_token(kind: EventKind, first: FirstToken) -> bool {
    match (kind, first) {
        (EventKind::Content | EventKind::Whole, _)
        | (EventKind::Usage | EventKind::Error, FirstToken::Byte) => true,
        (EventKind::Reasoning | EventKind::ToolCall, _) => !matches!(first, FirstToken::Text),
        (EventKind::Open | EventKind::Empty, _) => {
            matches!(first, FirstToken::Byte | FirstToken::Choice)
        }
        _ => false,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::client::Countings;

    fn event(kind: EventKind, at_ms: u64, tokens: u64) -> EventLog {
        let at = Nanos(at_ms * 1_000_000);
        let written = Some(at);
        EventLog { due: at, write_start: written, written, tokens, bytes: 1, kind, choice: 0 }
    }

    /// A request at 100 ms, whose connection was accepted at 90 ms: the role at 110 ms, reasoning at
    /// 150 ms, content at 160 and 180 ms with two tokens each, usage and the end at 240 ms.
    fn request(number: u64) -> RequestLog {
        RequestLog {
            request_id: None,
            number,
            path: "/v1/chat/completions".into(),
            connected: Some(Nanos(90_000_000)),
            received: Some(Nanos(95_000_000)),
            arrival: Nanos(100_000_000),
            admitted: Nanos(100_000_000),
            status: Some(200),
            prompt_tokens: 7,
            events: vec![
                event(EventKind::Open, 110, 0),
                event(EventKind::Reasoning, 150, 1),
                event(EventKind::Content, 160, 2),
                event(EventKind::Content, 180, 2),
                event(EventKind::Usage, 240, 0),
                event(EventKind::End, 250, 0),
            ],
            cut: false,
            complete: true,
        }
    }

    /// A request whose times grow with its number; the last of 40 is much slower.
    pub(crate) fn varied(number: u64) -> RequestLog {
        let mut request = request(number);
        let extra = if number == 40 { 400 } else { number };
        for event in request.events.iter_mut().skip(1) {
            event.written = event.written.map(|at| at + Nanos(extra * 1_000_000));
        }
        request
    }

    fn at(figures: &Figures, figure: Figure, statistic: Statistic) -> f64 {
        (figures[&(figure, statistic)] * 1e6).round() / 1e6
    }

    fn means(definition: Definition) -> [f64; 4] {
        let view = View { definition, ..View::default() };
        let figures = Truth::new(vec![request(1)], 0, 9).figures(&view);
        let mean = |figure| at(&figures, figure, Statistic::Mean);
        [
            mean(Figure::TimeToFirstToken),
            mean(Figure::RequestLatency),
            mean(Figure::InterTokenLatency),
            mean(Figure::InterChunkLatency),
        ]
    }

    #[test]
    fn figures_follow_the_definition() {
        // From the call at 90 ms to reasoning at 150 ms and to the last content at 180 ms; 30 ms
        // for four further tokens, and in two gaps.
        assert_eq!(means(Definition::default()), [0.06, 0.09, 0.0075, 0.015]);
        let definition = Definition {
            start: Start::Send,
            first_token: FirstToken::Text,
            end: End::Stream,
            last_token: Some(End::Content),
            ..Definition::default()
        };
        assert_eq!(means(definition), [0.065, 0.155, 0.005, 0.02]);
        let definition =
            Definition { first_token: FirstToken::Byte, end: End::Event, ..Definition::default() };
        // Gaps of 40, 10, 20 and 60 ms.
        assert_eq!(means(definition), [0.02, 0.15, 0.0325, 0.0325]);
        let definition = Definition { end: End::Choice, ..Definition::default() };
        assert_eq!(means(definition)[1], 0.09);
        // Gaps of 10 and 20 ms, and two of 0 within events of two tokens.
        let definition = Definition { gaps: Gaps::Tokens, ..Definition::default() };
        assert_eq!(means(definition)[3], 0.0075);
    }

    #[test]
    fn tokens_are_counted_as_the_client_counts_them() {
        let tokens = |output_tokens: &str, request: RequestLog| {
            let output_tokens = serde_json::from_str(output_tokens).unwrap();
            let definition = Definition { output_tokens, ..Definition::default() };
            let view = View { definition, ..View::default() };
            at(
                &Truth::new(vec![request], 0, 9).figures(&view),
                Figure::OutputTokens,
                Statistic::Value,
            )
        };
        assert_eq!(tokens(r#""usage""#, request(1)), 5.0);
        assert_eq!(tokens(r#""content""#, request(1)), 4.0);
        let mut without = request(1);
        without.events.retain(|event| event.kind != EventKind::Usage);
        assert_eq!(tokens(r#"["usage", "content"]"#, without.clone()), 4.0);
        assert_eq!(tokens(r#""usage""#, without), 0.0);
        let counted = |counting, first_token| {
            let output_tokens = Countings::One(counting);
            let definition = Definition { first_token, output_tokens, ..Definition::default() };
            let view = View { definition, ..View::default() };
            let figures = Truth::new(vec![request(1)], 0, 9).figures(&view);
            at(&figures, Figure::OutputTokens, Statistic::Value)
        };
        assert_eq!(counted(Counting::Events, FirstToken::Content), 3.0);
        assert_eq!(counted(Counting::Events, FirstToken::Choice), 4.0);
        assert_eq!(counted(Counting::Requested, FirstToken::Content), 9.0);
    }

    #[test]
    fn failed_and_abandoned_requests_are_apart() {
        let refused = RequestLog { status: Some(503), ..request(2) };
        let mut cut = RequestLog { cut: true, complete: false, ..request(3) };
        cut.events.truncate(3);
        let left = RequestLog { complete: false, ..request(4) };
        let truth = Truth::new(vec![left, cut, refused, request(1), request(9)], 1, 9);
        // The first one is the client's own.
        assert_eq!((truth.sent(), truth.failed(), truth.abandoned()), (4, 2, 1));
        let count = |view: &View| {
            let figures = truth.figures(view);
            [Figure::RequestCount, Figure::ErrorRequestCount, Figure::OutputTokens]
                .map(|figure| at(&figures, figure, Statistic::Value))
        };
        assert_eq!(count(&View::default()), [1.0, 2.0, 5.0]);
        assert_eq!(count(&View { takes_failures: true, ..View::default() }), [3.0, 0.0, 13.0]);
        let definition = Definition { failed_requests: Failed::Included, ..Definition::default() };
        assert_eq!(count(&View { definition, ..View::default() }), [1.0, 2.0, 13.0]);
        assert_eq!(count(&View { without_slowest: 1, ..View::default() }), [0.0, 3.0, 0.0]);
    }

    #[test]
    fn choices_are_together_or_apart() {
        // One choice has tokens at 150 and 180 ms, the other at 160 and 200 ms.
        let mut two = request(1);
        let content = |at, choice| EventLog { choice, ..event(EventKind::Content, at, 1) };
        two.events = vec![content(150, 0), content(160, 1), content(180, 0), content(200, 1)];
        let means = |choices| {
            let definition = Definition { choices, ..Definition::default() };
            let view = View { definition, ..View::default() };
            let figures = Truth::new(vec![two.clone()], 0, 9).figures(&view);
            [Figure::TimeToFirstToken, Figure::InterTokenLatency, Figure::InterChunkLatency]
                .map(|figure| at(&figures, figure, Statistic::Mean))
        };
        assert_eq!(means(Choices::Together), [0.06, 0.016_667, 0.016_667]);
        assert_eq!(means(Choices::Each), [0.065, 0.035, 0.035]);
    }

    fn sent(arrival_ms: u64, end_ms: u64) -> RequestLog {
        let arrival = Nanos(arrival_ms * 1_000_000);
        let events = vec![event(EventKind::Content, end_ms, 1)];
        RequestLog { arrival, received: None, events, ..request(arrival_ms) }
    }

    #[test]
    fn concurrency_is_that_at_the_server() {
        // Two in flight from 10 to 50 ms, one until 60 ms, two until 90 ms.
        let truth = Truth::new(vec![sent(0, 50), sent(10, 90), sent(60, 100)], 0, 9);
        let figures = truth.sent_figures(Arrivals::Closed(2));
        assert_eq!(at(&figures, Figure::Concurrency, Statistic::Value), 2.0);
        // From 10 to 60 ms: (40 * 2 + 10 * 1) / 50.
        assert_eq!(at(&figures, Figure::Concurrency, Statistic::Mean), 1.8);
        assert_eq!(at(&figures, Figure::RequestsSent, Statistic::Value), 3.0);
        let figures = truth.sent_figures(Arrivals::Closed(3));
        assert!(!figures.contains_key(&(Figure::Concurrency, Statistic::Mean)));
    }

    #[test]
    fn lateness_is_against_the_earliest_schedule_that_explains_the_times() {
        // 100 per second: due at 5, 15 and 25 ms, since the second one is the earliest.
        let late = lateness(&[0.010, 0.015, 0.032], 100.0);
        let rounded: Vec<_> = late.iter().map(|late| (late * 1e6).round()).collect();
        assert_eq!(rounded, [5000.0, 0.0, 7000.0]);
        let truth = Truth::new(vec![sent(10, 20), sent(15, 20), sent(32, 40)], 0, 9);
        let figures = truth.sent_figures(Arrivals::Open(100.0));
        assert_eq!(at(&figures, Figure::RequestRate, Statistic::Value), 90.909_091);
        assert_eq!(at(&figures, Figure::Lateness, Statistic::P50), 0.005);
    }
}
