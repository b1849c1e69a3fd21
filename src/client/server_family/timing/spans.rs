//! Times of one request from the spans of servers.
//!
//! Durations are subtracted only within a process: clocks of different machines differ. Times of
//! attributes are those of the server's own monotonic clock.

use serde_json::Value;

use super::{
    Scale, ServerTiming, Source, Stages, dynamo, rest, sglang, tensorrt_llm,
    text_generation_inference, triton, vllm,
};
use crate::record::ServerSpan;

/// Reads the times of one family from the spans of a request; `None` without any of that family.
type Reader = fn(&[ServerSpan], &ServerTiming) -> Option<Found>;

/// The readers of engines, which know the stages.
const ENGINES: &[Reader] = &[of_engine, of_sglang, of_text_generation_inference, of_triton];

/// The readers of front ends, at which requests arrive before they reach an engine.
const FRONT_ENDS: &[Reader] = &[of_dynamo, of_llm_d];

/// How to read a family's spans.
#[derive(Clone, Copy)]
struct Found {
    family: &'static str,
    stages: Stages,
    first_token: Option<f64>,
    whole: Option<f64>,
}

impl ServerTiming {
    /// Adds the times in the spans of the servers, which are at least those in a response, and usually
    /// more.
    pub fn spans(&mut self, spans: &[ServerSpan]) {
        let find = |readers: &[Reader]| readers.iter().find_map(|read| read(spans, self));
        let found = match (find(ENGINES), find(FRONT_ENDS)) {
            (Some(engine), Some(front)) => Some(engine.behind(front)),
            (engine, front) => engine.or(front),
        };
        if let Some(found) = found {
            let Found { family, stages, first_token, whole } = found;
            self.report(family, stages, first_token, whole);
            self.source = Source::Spans;
        }
        if self.worker.is_none()
            && let Some(worker) = worker(spans)
        {
            self.answered_by(worker);
        }
    }
}

impl Found {
    /// Combines the times of this engine and of the front end before it: the stages are the
    /// engine's, and what counts from the arrival at the server is the front end's.
    fn behind(self, front: Self) -> Self {
        let stages = if self.stages == Stages::default() {
            front.stages
        } else {
            let both = [front.stages.front_end, self.stages.front_end];
            let front_end = both.into_iter().flatten().reduce(|sum, part| sum + part);
            Stages { front_end, ..self.stages }
        };
        Self { stages, ..front }
    }
}

/// vLLM and TensorRT-LLM: `gen_ai.latency.*` of one span of the engine, in seconds from the arrival at
/// the server. Separate workers of vLLM have a span each; that of decode begins when prefill has
/// ended, and its queue contains the transfer of the KV cache. Spans that overlap are those of several
/// choices, whose stages are not those of the request.
fn of_engine(spans: &[ServerSpan], _: &ServerTiming) -> Option<Found> {
    let has_queue = |span: &&ServerSpan| latency(span, "time_in_queue").is_some();
    let spans: Vec<&ServerSpan> = spans.iter().filter(has_queue).collect();
    let first = *spans.first()?;
    let latency_named = |name| latency(first, name);
    let (first_token, whole) = (latency_named("time_to_first_token"), latency_named("e2e"));
    if first.name != "llm_request" {
        let transfer = latency_named("kv_cache_transfer_time");
        let prefill =
            rest(rest(first_token, latency_named("time_in_queue")), transfer.or(Some(0.0)));
        let stages = Stages {
            queue: latency_named("time_in_queue"),
            prefill,
            kv_transfer: transfer,
            decode: rest(whole, first_token),
            ..Stages::default()
        };
        return Some(Found { family: tensorrt_llm::FAMILY.name, stages, first_token, whole });
    }
    let family = vllm::FAMILY.name;
    let (queue, prefill) = (latency_named("time_in_queue"), latency_named("time_in_model_prefill"));
    let front_end = rest(rest(first_token, queue), prefill);
    let stages = Stages { front_end, queue, prefill, ..Stages::default() };
    match &spans[..] {
        [_] => {
            let stages = Stages { decode: latency_named("time_in_model_decode"), ..stages };
            Some(Found { family, stages, first_token, whole })
        }
        [_, decode] if decode.start_ns >= first.end_ns => {
            let queue = latency(decode, "time_in_queue");
            let inference = latency(decode, "time_in_model_inference");
            let kv_transfer_and_decode = queue.zip(inference).map(|(queue, rest)| queue + rest);
            let stages = Stages { kv_transfer_and_decode, ..stages };
            Some(Found { family, stages, first_token: None, whole: None })
        }
        all => {
            let wholes = all.iter().filter_map(|span| latency(span, "e2e"));
            let whole = wholes.reduce(f64::max);
            Some(Found { family, stages: Stages::default(), first_token: None, whole })
        }
    }
}

/// SGLang: `gen_ai.latency.*` of the span `Req …`, and the slices of its threads, which are repeated
/// after a retraction. Separate workers have such a span each, of which only the slices are read.
fn of_sglang(spans: &[ServerSpan], _: &ServerTiming) -> Option<Found> {
    let is_root = |span: &&ServerSpan| {
        let name = span.name.rsplit_once("Req ").map(|(role, _)| role);
        name.is_some() && latency(span, "e2e").is_some()
    };
    let roots: Vec<&ServerSpan> = spans.iter().filter(is_root).collect();
    let first = *roots.first()?;
    let slices = |names: &[&str]| {
        let slices = spans.iter().filter(|span| names.contains(&&*span.name));
        slices.map(duration).reduce(|sum, slice| sum + slice)
    };
    let stages = Stages {
        queue: slices(&["prefill_waiting"]),
        prefill: slices(&["prefill_forward", "chunked_prefill"]),
        kv_transfer: slices(&["prefill_transfer_kv_cache"]),
        ..Stages::default()
    };
    let (first_token, whole) = (latency(first, "time_to_first_token"), latency(first, "e2e"));
    let is_alone = roots.len() == 1;
    let decode = rest(whole, first_token).filter(|_| is_alone);
    let stages = Stages { decode, ..stages };
    let alone = |time: Option<f64>| time.filter(|_| is_alone);
    Some(Found {
        family: sglang::FAMILY.name,
        stages,
        first_token: alone(first_token),
        whole: alone(whole),
    })
}

/// Dynamo: the front end's span `http-request` has the time to the first token, in milliseconds as
/// text, which is true also with separate workers. The router's span below it begins when the front
/// end is done. Its stages are those of the response, if that has any.
fn of_dynamo(spans: &[ServerSpan], told: &ServerTiming) -> Option<Found> {
    let request = spans.iter().find(|span| span.name == "http-request")?;
    let milliseconds = |name| Scale::MILLISECONDS.parse(request.attributes.get(name)?.as_str()?);
    let first_token = milliseconds("ttft_ms");
    let whole = Some(duration(request));
    let family = dynamo::FAMILY.name;
    if told.family == family && told.has_times() {
        let prefilled = told.stages.front_end.zip(told.stages.queue_and_prefill);
        let prefilled = prefilled.map(|(before, prefill)| before + prefill);
        let parts = rest(first_token, prefilled).zip(rest(whole, first_token));
        let stages = match parts.filter(|_| told.stages.kv_transfer_and_decode.is_some()) {
            None => told.stages,
            Some((transfer, decode)) => Stages {
                kv_transfer: Some(transfer),
                decode: Some(decode),
                kv_transfer_and_decode: None,
                ..told.stages
            },
        };
        return Some(Found { family, stages, first_token, whole });
    }
    let is_route = |span: &&ServerSpan| span.name.ends_with("router.route_request");
    let mut routes = spans.iter().filter(is_route).filter(|span| span.parent == request.id);
    let route = routes.clone().map(|span| span.start_ns).min();
    let front_end = route.and_then(|start| start.checked_sub(request.start_ns));
    let front_end = front_end.map(|nanos| nanos as f64);
    // With a phase, the workers are separate, and the transfer is before the first token.
    let is_separate = routes.any(|span| phase(span) == Some("Prefill"));
    let before = rest(first_token, front_end).filter(|_| !is_separate);
    let stages = Stages {
        front_end,
        queue_and_prefill: before,
        decode: rest(whole, first_token),
        ..Stages::default()
    };
    Some(Found { family, stages, first_token, whole })
}

/// Returns the worker that Dynamo's router chose for decode.
fn worker(spans: &[ServerSpan]) -> Option<&str> {
    let mut routes = spans.iter().filter(|span| phase(span) != Some("Prefill"));
    routes.find_map(|span| span.attributes.get("worker_id")?.as_str())
}

fn phase(span: &ServerSpan) -> Option<&str> {
    span.attributes.get("phase").and_then(Value::as_str)
}

/// TGI: texts such as `1.2ms`, as Rust prints durations.
fn of_text_generation_inference(spans: &[ServerSpan], _: &ServerTiming) -> Option<Found> {
    let span = spans.iter().find(|span| span.attributes.contains_key("inference_time"))?;
    let duration_named = |name: &str| printed_duration(span.attributes.get(name)?.as_str()?);
    let stages = Stages {
        front_end: duration_named("validation_time"),
        queue: duration_named("queue_time"),
        prefill_and_decode: duration_named("inference_time"),
        ..Stages::default()
    };
    let whole = duration_named("total_time");
    Some(Found { family: text_generation_inference::FAMILY.name, stages, first_token: None, whole })
}

/// Triton: events of the spans of the request, of the model and of its computation, all by one clock.
/// An ensemble has those of several models, which are not stages of one request.
fn of_triton(spans: &[ServerSpan], _: &ServerTiming) -> Option<Found> {
    let time = |name: &str| {
        let events = spans.iter().flat_map(|span| &span.events);
        let mut times = events.filter(|(of, _)| of == name).map(|(_, time_ns)| *time_ns);
        times.next().filter(|_| times.next().is_none())
    };
    let between = |from: Option<u64>, to: Option<u64>| Some(to?.checked_sub(from?)? as f64);
    let request = spans.iter().find(|span| span.name == "InferRequest");
    let (queued, started) = (time("QUEUE_START"), time("COMPUTE_START"));
    let stages = Stages {
        front_end: between(request.map(|span| span.start_ns), queued),
        queue: between(queued, started),
        prefill_and_decode: between(started, time("COMPUTE_END")),
        ..Stages::default()
    };
    let is_of_triton = stages.queue.is_some() || stages.prefill_and_decode.is_some();
    let whole = request.map(duration);
    is_of_triton.then_some(Found { family: triton::FAMILY.name, stages, first_token: None, whole })
}

/// Reads a duration as Rust prints it, such as `1.5µs`, in nanoseconds.
fn printed_duration(text: &str) -> Option<f64> {
    let scales = [("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (number, scale) =
        scales.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, scale)))?;
    let number: f64 = number.parse().ok()?;
    Some(number * scale).filter(|nanos| nanos.is_finite() && *nanos >= 0.0)
}

/// llm-d: the proxy before separate workers, in milliseconds. Its prefill contains the worker's queue.
fn of_llm_d(spans: &[ServerSpan], _: &ServerTiming) -> Option<Found> {
    let attribute_named = |name: &str| {
        let mut values = spans.iter().filter_map(|span| span.attributes.get(name)?.as_f64());
        values.next().and_then(|value| Scale::MILLISECONDS.nanos(value))
    };
    let is_proxy = |span: &ServerSpan| span.name.starts_with("llm_d.pd_proxy.");
    spans.iter().any(is_proxy).then(|| {
        let stages = Stages {
            front_end: attribute_named("coordinator_overhead_ms"),
            queue_and_prefill: attribute_named("prefill_duration_ms"),
            kv_transfer_and_decode: attribute_named("decode_duration_ms"),
            ..Stages::default()
        };
        Found {
            family: "llm-d",
            stages,
            first_token: None,
            whole: attribute_named("total_duration_ms"),
        }
    })
}

/// Returns the attribute `gen_ai.latency.<name>` in nanoseconds.
fn latency(span: &ServerSpan, name: &str) -> Option<f64> {
    let value = span.attributes.get(&format!("gen_ai.latency.{name}"))?;
    Scale::SECONDS.nanos(value.as_f64()?)
}

/// Returns the duration of a span, which is measured by one clock, in nanoseconds.
fn duration(span: &ServerSpan) -> f64 {
    span.end_ns.saturating_sub(span.start_ns) as f64
}

#[cfg(test)]
mod tests;
