//! The counters behind `/metrics`, with vLLM's names.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::OwnedSemaphorePermit;

use base::units::{Clock, Nanos};

use super::script::Arrival;
use super::timing::PendingSpans;

/// The counters of a server. All are updated before the last byte of a response is sent, so a
/// client that has the response reads final counts.
#[derive(Debug)]
pub(super) struct Activity {
    received: AtomicU64,
    served: AtomicU64,
    in_flight: AtomicU64,
    peak_in_flight: AtomicU64,
    running: AtomicU64,
    waiting: AtomicU64,
    kv_tokens: AtomicU64,
    prompt_tokens: AtomicU64,
    /// Prompt tokens looked up in the prefix cache, and those found.
    prefix_cache: [AtomicU64; 2],
    generation_tokens: AtomicU64,
    finished: [AtomicU64; Finish::ALL.len()],
    time_to_first_token: Histogram,
    inter_token_latency: Histogram,
    request_latency: Histogram,
}

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
    /// The client or the script aborted it.
    Abort,
    Error,
    /// Exists because vLLM exposes the series; always zero.
    Repetition,
}

impl Finish {
    const ALL: [Self; 5] = [Self::Stop, Self::Length, Self::Abort, Self::Error, Self::Repetition];

    /// Returns its name in the API and the metrics.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
            Self::Error => "error",
            Self::Repetition => "repetition",
        }
    }
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            received: AtomicU64::new(0),
            served: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            peak_in_flight: AtomicU64::new(0),
            running: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            kv_tokens: AtomicU64::new(0),
            prompt_tokens: AtomicU64::new(0),
            prefix_cache: Default::default(),
            generation_tokens: AtomicU64::new(0),
            finished: Default::default(),
            time_to_first_token: Histogram::new(TIME_TO_FIRST_TOKEN),
            inter_token_latency: Histogram::new(INTER_TOKEN_LATENCY),
            request_latency: Histogram::new(REQUEST_LATENCY),
        }
    }
}

impl Activity {
    pub(super) fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    pub(super) fn served(&self) -> u64 {
        self.served.load(Relaxed)
    }

    pub(super) fn peak_in_flight(&self) -> u64 {
        self.peak_in_flight.load(Relaxed)
    }

    /// Counts a prompt of `tokens` that was looked up in the prefix cache, which had `cached` of them.
    pub(super) fn looked_up(&self, tokens: u64, cached: u64) {
        for (count, more) in self.prefix_cache.iter().zip([tokens, cached]) {
            count.fetch_add(more, Relaxed);
        }
    }

    /// Adds a new request, which waits until it is [admitted](InFlight::admit).
    pub(super) fn arrive(self: &Arc<Self>, arrival: Nanos) -> InFlight {
        let number = self.received.fetch_add(1, Relaxed) + 1;
        let in_flight = self.in_flight.fetch_add(1, Relaxed) + 1;
        self.peak_in_flight.fetch_max(in_flight, Relaxed);
        self.waiting.fetch_add(1, Relaxed);
        InFlight {
            activity: self.clone(),
            beginning: Arrival { number, in_flight },
            arrival,
            stage: Stage::Waiting,
            kv_tokens: 0,
            last_chunk: None,
            permit: None,
            spans: None,
        }
    }
}

/// A request from its arrival to its end; counted as aborted if dropped earlier.
#[derive(Debug)]
pub(super) struct InFlight {
    activity: Arc<Activity>,
    beginning: Arrival,
    arrival: Nanos,
    stage: Stage,
    kv_tokens: u64,
    last_chunk: Option<Nanos>,
    permit: Option<OwnedSemaphorePermit>,
    /// What is sent when it has succeeded.
    spans: Option<PendingSpans>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Running,
    Over,
}

impl InFlight {
    /// Returns the request's number, and how many requests were in flight at its arrival.
    pub(super) const fn beginning(&self) -> Arrival {
        self.beginning
    }

    /// Admits the request, which holds `permit` until its end.
    pub(super) fn admit(&mut self, prompt_tokens: u64, permit: Option<OwnedSemaphorePermit>) {
        self.leave_stage();
        self.stage = Stage::Running;
        self.permit = permit;
        self.activity.running.fetch_add(1, Relaxed);
        self.activity.prompt_tokens.fetch_add(prompt_tokens, Relaxed);
        self.hold(prompt_tokens);
    }

    /// Has `spans` sent when the request has succeeded.
    pub(super) fn report(&mut self, spans: Option<PendingSpans>) {
        self.spans = spans;
    }

    /// Records that `tokens` are sent now. Gaps between chunks of the first choice (`lead`) are
    /// observed, divided by the number of tokens.
    pub(super) fn sent(&mut self, tokens: u64, lead: bool) {
        if tokens == 0 {
            return;
        }
        self.activity.generation_tokens.fetch_add(tokens, Relaxed);
        self.hold(tokens);
        if lead {
            self.chunk(tokens, Clock::now());
        }
    }

    /// Records a chunk of the first choice at `at`, only in the histograms.
    fn chunk(&mut self, tokens: u64, at: Nanos) {
        match self.last_chunk.replace(at) {
            None => self.activity.time_to_first_token.observe(at.since(self.arrival), 1),
            Some(last) => {
                let share = Nanos(at.since(last).0 / tokens);
                self.activity.inter_token_latency.observe(share, tokens);
            }
        }
    }

    /// Records `tokens` of all choices that were generated without being streamed: those of the
    /// first choice in chunks, the first of which ended at `first`, the `rest` tokens by `last`.
    pub(super) fn generated(&mut self, tokens: u64, first: Nanos, rest: u64, last: Nanos) {
        self.activity.generation_tokens.fetch_add(tokens, Relaxed);
        self.hold(tokens);
        self.chunk(1, first);
        if rest > 0 {
            self.chunk(rest, last);
        }
    }

    /// Ends the request; its last byte is about to be sent.
    pub(super) fn finish(&mut self, finish: Finish) {
        if self.stage == Stage::Over {
            return;
        }
        let activity = &self.activity;
        activity.kv_tokens.fetch_sub(self.kv_tokens, Relaxed);
        activity.finished[finish as usize].fetch_add(1, Relaxed);
        if finish != Finish::Abort {
            activity.served.fetch_add(1, Relaxed);
            activity.request_latency.observe(Clock::now().since(self.arrival), 1);
        }
        if let Some(spans) =
            self.spans.take().filter(|_| matches!(finish, Finish::Stop | Finish::Length))
        {
            spans.send();
        }
        self.leave_stage();
        self.stage = Stage::Over;
        self.activity.in_flight.fetch_sub(1, Relaxed);
        self.permit = None;
    }

    fn leave_stage(&self) {
        match self.stage {
            Stage::Waiting => self.activity.waiting.fetch_sub(1, Relaxed),
            Stage::Running => self.activity.running.fetch_sub(1, Relaxed),
            Stage::Over => 0,
        };
    }

    fn hold(&mut self, tokens: u64) {
        self.kv_tokens += tokens;
        self.activity.kv_tokens.fetch_add(tokens, Relaxed);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.finish(Finish::Abort);
    }
}

/// vLLM's bucket boundaries, in seconds.
const TIME_TO_FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
    20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
];
const INTER_TOKEN_LATENCY: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0,
    40.0, 80.0,
];
const REQUEST_LATENCY: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
    480.0, 960.0, 1920.0, 7680.0,
];

#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    /// Non-cumulative counts, one more than there are bounds.
    counts: Vec<AtomicU64>,
    sum_ns: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum_ns: AtomicU64::new(0) }
    }

    fn observe(&self, value: Nanos, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value.as_seconds());
        self.counts[bucket].fetch_add(times, Relaxed);
        self.sum_ns.fetch_add(value.0.saturating_mul(times), Relaxed);
    }
}

impl Activity {
    /// Renders the Prometheus text of `/metrics`, for the model `model`, a cache of `kv_capacity`
    /// tokens, and a prefix cache if there is one.
    pub(super) fn exposition(
        &self,
        model: &str,
        kv_capacity: u64,
        has_prefix_cache: bool,
    ) -> String {
        let kv_usage = self.kv_tokens.load(Relaxed) as f64 / kv_capacity.max(1) as f64;
        let mut text = Exposition { out: String::with_capacity(12_288), model: escape(model) };
        text.family(
            "num_requests_running",
            "gauge",
            "Number of requests in model execution batches.",
        );
        text.sample("num_requests_running", "", load(&self.running));
        text.family("num_requests_waiting", "gauge", "Number of requests waiting to be processed.");
        text.sample("num_requests_waiting", "", load(&self.waiting));
        text.family("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.");
        text.sample("kv_cache_usage_perc", "", kv_usage.min(1.0));
        text.family("prompt_tokens_total", "counter", "Number of prefill tokens processed.");
        text.sample("prompt_tokens_total", "", load(&self.prompt_tokens));
        text.family("generation_tokens_total", "counter", "Number of generation tokens processed.");
        text.sample("generation_tokens_total", "", load(&self.generation_tokens));
        if has_prefix_cache {
            let [queries, hits] = &self.prefix_cache;
            let help = "Prefix cache queries, in terms of number of queried tokens.";
            text.family("prefix_cache_queries_total", "counter", help);
            text.sample("prefix_cache_queries_total", "", load(queries));
            let help = "Prefix cache hits, in terms of number of cached tokens.";
            text.family("prefix_cache_hits_total", "counter", help);
            text.sample("prefix_cache_hits_total", "", load(hits));
        }
        text.family(
            "request_success_total",
            "counter",
            "Count of successfully processed requests.",
        );
        for finish in Finish::ALL {
            let label = format!("finished_reason=\"{}\",", finish.label());
            text.sample("request_success_total", &label, load(&self.finished[finish as usize]));
        }
        text.histogram(
            "time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            &self.time_to_first_token,
        );
        text.histogram(
            "inter_token_latency_seconds",
            "Histogram of inter-token latency in seconds.",
            &self.inter_token_latency,
        );
        text.histogram(
            "e2e_request_latency_seconds",
            "Histogram of e2e request latency in seconds.",
            &self.request_latency,
        );
        text.out
    }
}

fn load(value: &AtomicU64) -> f64 {
    value.load(Relaxed) as f64
}

/// Escapes backslash, quote and newline in a label value.
fn escape(label: &str) -> String {
    label.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

struct Exposition {
    out: String,
    model: String,
}

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.out, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    /// Writes a sample with `labels` between engine and model, each followed by a comma.
    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let model = &self.model;
        let _ = writeln!(
            self.out,
            "vllm:{name}{{engine=\"0\",{labels}model_name=\"{model}\"}} {value:?}"
        );
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        let mut cumulative = 0;
        for (index, count) in histogram.counts.iter().enumerate() {
            cumulative += count.load(Relaxed);
            let label = match histogram.bounds.get(index) {
                Some(bound) => format!("le=\"{bound:?}\","),
                None => "le=\"+Inf\",".to_owned(),
            };
            self.sample(&bucket, &label, cumulative as f64);
        }
        self.sample(&format!("{name}_count"), "", cumulative as f64);
        let sum = Nanos(histogram.sum_ns.load(Relaxed)).as_seconds();
        self.sample(&format!("{name}_sum"), "", sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, sample: &str) -> f64 {
        let line = text.lines().find(|line| line.starts_with(sample)).unwrap();
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    #[test]
    fn a_request_moves_each_counter_once() {
        let activity = Arc::new(Activity::default());
        let text = |activity: &Activity| activity.exposition("m\"x", 100, false);
        let mut request = activity.arrive(Nanos(0));
        assert_eq!(value(&text(&activity), "vllm:num_requests_waiting"), 1.0);
        request.admit(30, None);
        request.generated(20, Nanos(2_000_000), 9, Nanos(110_000_000));
        let during = text(&activity);
        assert_eq!(value(&during, "vllm:num_requests_waiting"), 0.0);
        assert_eq!(value(&during, "vllm:num_requests_running"), 1.0);
        assert_eq!(value(&during, "vllm:kv_cache_usage_perc"), 0.5);
        request.finish(Finish::Length);
        drop(request);
        let after = text(&activity);
        let labels = "{engine=\"0\",model_name=\"m\\\"x\"}";
        assert_eq!(value(&after, &format!("vllm:num_requests_running{labels}")), 0.0);
        assert_eq!(value(&after, "vllm:kv_cache_usage_perc"), 0.0);
        assert_eq!(value(&after, "vllm:prompt_tokens_total"), 30.0);
        assert_eq!(value(&after, "vllm:generation_tokens_total"), 20.0);
        let finished = "vllm:request_success_total{engine=\"0\",finished_reason=";
        assert_eq!(value(&after, &format!("{finished}\"length\"")), 1.0);
        assert_eq!(value(&after, &format!("{finished}\"abort\"")), 0.0);
        // 2 ms to the first token; 108 ms for nine more, 12 ms each.
        let ttft = "vllm:time_to_first_token_seconds";
        assert_eq!(value(&after, &format!("{ttft}_bucket{{engine=\"0\",le=\"0.001\"")), 0.0);
        assert_eq!(value(&after, &format!("{ttft}_bucket{{engine=\"0\",le=\"0.005\"")), 1.0);
        assert_eq!(value(&after, &format!("{ttft}_sum")), 0.002);
        let itl = "vllm:inter_token_latency_seconds";
        assert_eq!(value(&after, &format!("{itl}_bucket{{engine=\"0\",le=\"0.01\"")), 0.0);
        assert_eq!(value(&after, &format!("{itl}_bucket{{engine=\"0\",le=\"0.025\"")), 9.0);
        assert_eq!(value(&after, &format!("{itl}_count")), 9.0);
        assert_eq!(value(&after, &format!("{itl}_sum")), 0.108);
        assert_eq!(value(&after, "vllm:e2e_request_latency_seconds_count"), 1.0);
    }

    #[test]
    fn looked_up_tokens_are_counted_as_vllm_does() {
        let activity = Activity::default();
        activity.looked_up(30, 16);
        activity.looked_up(20, 0);
        let text = activity.exposition("tiny", 100, true);
        // The lines of vLLM 0.32, with these numbers.
        for line in [
            "# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.",
            "# TYPE vllm:prefix_cache_queries_total counter",
            "vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"tiny\"} 50.0",
            "# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.",
            "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"tiny\"} 16.0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}");
        }
    }

    #[test]
    fn a_dropped_request_is_aborted() {
        let activity = Arc::new(Activity::default());
        drop(activity.arrive(Nanos(0)));
        let text = activity.exposition("m", 100, false);
        let finished = "vllm:request_success_total{engine=\"0\",finished_reason=";
        assert_eq!(value(&text, &format!("{finished}\"abort\"")), 1.0);
        assert_eq!(value(&text, "vllm:num_requests_waiting"), 0.0);
        assert_eq!((activity.received(), activity.served()), (1, 0));
    }

    #[test]
    fn boundaries_are_inclusive_above() {
        let histogram = Histogram::new(INTER_TOKEN_LATENCY);
        histogram.observe(Nanos(10_000_000), 1);
        histogram.observe(Nanos(10_000_001), 1);
        assert_eq!((load(&histogram.counts[0]), load(&histogram.counts[1])), (1.0, 1.0));
    }
}
