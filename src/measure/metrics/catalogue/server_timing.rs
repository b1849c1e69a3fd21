//! The times of stages of single requests, as their server reports them.

use base::units::Unit;
use client::server_family::{ServerTiming, Stages};

use crate::metrics::ConsoleGroup::Server;
use crate::metrics::finish_reason;
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag, RecordValues};
use crate::metrics::tag::{self, MetricTag};

pub(super) const ABOUT: &str = "The times of the stages of single requests, as their server \
                                reports them in the response, its headers or its spans ([the \
                                server's side of a \
                                request](server-metrics.md#the-servers-side-of-a-request)). All \
                                are durations by the server's clock. A server that reports the sum \
                                of two stages has the metric of the sum instead of those of the \
                                stages. Absent where the server does not report them.";

pub(super) static ROWS: &[Metric] = &[
    stage(tag::SERVER_FRONT_END_TIME, "Server Front End", 4000, |facts, _| {
        stages(facts)?.front_end
    })
    .says(
        "From the arrival at the server to the queue of its engine.",
        "Templates, tokens, routing. From spans of vLLM also the handling of the first token.",
    ),
    stage(tag::SERVER_QUEUE_TIME, "Server Queue", 4010, |facts, _| stages(facts)?.queue).says(
        "In the queue of the server's engine.",
        "Of vLLM also the compilation of a grammar, and on a worker for decode the transfer of the \
         KV cache.",
    ),
    stage(tag::SERVER_PREFILL_TIME, "Server Prefill", 4020, |facts, _| stages(facts)?.prefill)
        .says(
            "From the time when the server scheduled the request to its first token.",
            "Includes preemptions during prefill.",
        ),
    stage(tag::SERVER_QUEUE_AND_PREFILL_TIME, "Server Queue + Prefill", 4030, |facts, _| {
        stages(facts)?.queue_and_prefill
    })
    .says(
        "In the queue of the engine and in prefill, which the server reports together.",
        "Dynamo: from the dispatch to an engine to its first output.",
    ),
    stage(tag::SERVER_KV_TRANSFER_TIME, "Server KV Transfer", 4040, |facts, _| {
        stages(facts)?.kv_transfer
    })
    .says(
        "Transfer of the KV cache from the worker for prefill to the worker for decode.",
        "Dynamo: an upper bound.",
    ),
    stage(tag::SERVER_DECODE_TIME, "Server Decode", 4050, |facts, _| stages(facts)?.decode).says(
        "From the first token to the last, at the server.",
        "Includes preemptions during decode.",
    ),
    stage(tag::SERVER_PREFILL_AND_DECODE_TIME, "Server Prefill + Decode", 4060, |facts, _| {
        stages(facts)?.prefill_and_decode
    })
    .says("In prefill and decode, which the server reports together.", "TGI: `x-inference-time`."),
    stage(
        tag::SERVER_KV_TRANSFER_AND_DECODE_TIME,
        "Server KV Transfer + Decode",
        4070,
        |facts, _| stages(facts)?.kv_transfer_and_decode,
    )
    .says(
        "In the transfer of the KV cache and in decode, which the server reports together.",
        "Dynamo with separate workers, if it does not report the transfer: `total_time_ms` − \
         `ttft_ms`.",
    ),
    stage(tag::SERVER_TIME_TO_FIRST_TOKEN, "Server Time to First Token", 4080, |facts, _| {
        server(facts)?.first_token
    })
    .short("Server TTFT")
    .off_console()
    .says(
        "From the arrival at the server to the first token, by the server's clock.",
        "Absent if the server reports only a part of it.",
    ),
    stage(tag::SERVER_LATENCY, "Server Latency", 4090, |facts, _| server(facts)?.whole)
        .off_console()
        .says(
            "From the arrival at the server to the end, by the server's clock.",
            "Absent if the server reports only a part of it.",
        ),
    stage(
        tag::SERVER_UNATTRIBUTED_TIME_TO_FIRST_TOKEN,
        "Unattributed Time to First Token",
        4100,
        |facts, values| {
            let stages = &server(facts)?.stages;
            // Prefill that is reported with decode is not known up to the first token.
            let is_known = stages.prefill_and_decode.is_none();
            let total = values.scalar(tag::TIME_TO_FIRST_TOKEN).filter(|_| is_known)?;
            unattributed(total, &stages.until_first_token(), values)
        },
    )
    .short("Unattributed TTFT")
    .requires(&[tag::TIME_TO_FIRST_TOKEN, tag::HTTP_REQ_CONNECTION_OVERHEAD, tag::HTTP_REQ_SENDING])
    .says(
        "What neither the client nor the server attributes to a stage, up to the first token.",
        "time_to_first_token − http_req_connection_overhead − http_req_sending − the stages up to \
         the first token: the network, and what the server does not report. Negative if the \
         server's times do not add up.",
    ),
    Metric::record(tag::END_TOKEN_TIME, "End Token Time", Unit::Nanoseconds, |facts, _| {
        let response = facts.response;
        let reasons = &response.finish_reasons;
        let is_limited = reasons.iter().any(|reason| finish_reason::is_limit(reason));
        let finished = response.finished.filter(|_| !is_limited)?;
        let last = response.content.last()?;
        Some(finished.at.since(last.arrival.at).0 as f64)
    })
    .float()
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::STREAMING_TOKENS_ONLY)
    .off_console()
    .says(
        "Time after the last content event in which the server computed the token that ended the \
         output, which does not have any text.",
        "finish_reason.arrival − content[last].arrival. Absent without a finish reason, and if a limit \
         ended the output.",
    ),
    stage(tag::SERVER_UNATTRIBUTED_TIME, "Unattributed Latency", 4110, |facts, values| {
        let stages = &server(facts)?.stages;
        // The server's decode ends with the end token, the latency with the last text.
        let decodes = stages.decode.or(stages.prefill_and_decode).or(stages.kv_transfer_and_decode);
        let end_token = decodes.and_then(|_| values.scalar(tag::END_TOKEN_TIME)).unwrap_or(0.0);
        let total = values.scalar(tag::REQUEST_LATENCY)? + end_token;
        unattributed(total, &stages.all(), values)
    })
    .short("Unattributed")
    // And the end token, which only streams have.
    .requires(&[tag::REQUEST_LATENCY, tag::HTTP_REQ_CONNECTION_OVERHEAD, tag::HTTP_REQ_SENDING])
    .says(
        "What neither the client nor the server attributes to a stage.",
        "request_latency + end_token_time − http_req_connection_overhead − http_req_sending − all \
         stages: the network, and what the server does not report. Without decode among the stages, \
         end_token_time is not added. Negative if the server's times do not add up.",
    ),
];

/// Returns a row of a time without its description.
const fn stage(
    tag: MetricTag,
    header: &'static str,
    order: u32,
    compute: fn(&Facts<'_>, &RecordValues) -> Option<f64>,
) -> Metric {
    Metric::record(tag, header, Unit::Nanoseconds, compute)
        .float()
        .shown_in(Unit::Milliseconds)
        .flagged(Flag::SERVER_TIMING)
        .at(Server, order)
}

fn server<'a>(facts: &Facts<'a>) -> Option<&'a ServerTiming> {
    facts.response.server.as_deref()
}

fn stages<'a>(facts: &Facts<'a>) -> Option<&'a Stages> {
    server(facts).map(|server| &server.stages)
}

/// Returns what remains of `total` without the stages of client and server; `None` if no stage of the
/// server is known.
fn unattributed(total: f64, stages: &[Option<f64>], values: &RecordValues) -> Option<f64> {
    let server: f64 = stages.iter().copied().flatten().reduce(|sum, stage| sum + stage)?;
    let client = [tag::HTTP_REQ_CONNECTION_OVERHEAD, tag::HTTP_REQ_SENDING];
    let client: f64 = client.into_iter().filter_map(|tag| values.scalar(tag)).sum();
    Some(total - client - server)
}
