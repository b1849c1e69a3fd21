//! The spans of an agent: `invoke_agent`, and `execute_tool` for each tool that it used. The requests
//! of the agent, and the agents that it started, are below it, too.

use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{Span, SpanFlags, Status};
use opentelemetry_proto::transform::common::tonic::Attributes;

use base::semconv::attribute;
use client::record::{TraceContext, TraceFlags};

use super::super::agents::{Agent, ToolUse};

/// Values of `gen_ai.operation.name`, which are also the beginnings of the names of the spans.
const INVOKE_AGENT: &str = "invoke_agent";
const EXECUTE_TOOL: &str = "execute_tool";

/// Number of the span of the first tool among the children of a request; those before are the steps
/// of its exchange.
const FIRST_TOOL: usize = 16;

/// Returns the spans of an agent in a sampled trace, which has the given `tracestate` and the `phase`
/// as a link.
pub(super) fn agent_spans(agent: &Agent, is_random: bool, state: &str, phase: Link) -> Vec<Span> {
    let flags = TraceFlags { is_sampled: true, is_random };
    let own = agent.context();
    let span = |name: String, span_id: [u8; 8], (start, end): (u64, u64)| Span {
        trace_id: own.trace_id.to_vec(),
        span_id: span_id.to_vec(),
        trace_state: state.to_owned(),
        flags: SpanFlags::ContextHasIsRemoteMask as u32 | u32::from(flags.bits()),
        name,
        kind: SpanKind::Internal as i32,
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        ..Span::default()
    };
    let parent = agent.parent.map(|id| TraceContext::within(agent.trace_id, id).span_id.to_vec());
    let invoke = Span {
        parent_span_id: parent.unwrap_or_default(),
        attributes: Attributes::from(attributes(agent)).0,
        links: vec![phase],
        status: agent.error.map(|_| Status { code: StatusCode::Error as i32, ..Status::default() }),
        ..span(INVOKE_AGENT.to_owned(), own.span_id, (agent.start, agent.end))
    };
    let tools = agent.tools.iter().map(|tool| Span {
        parent_span_id: own.span_id.to_vec(),
        attributes: Attributes::from(vec![
            KeyValue::new(attribute::GEN_AI_OPERATION_NAME, EXECUTE_TOOL),
            KeyValue::new(attribute::GEN_AI_TOOL_NAME, tool.name.to_string()),
            KeyValue::new(attribute::GEN_AI_CONVERSATION_ID, agent.conversation.to_string()),
            KeyValue::new(attribute::AIPERF_BENCHMARK_PHASE, agent.phase.as_str()),
        ])
        .0,
        ..span(format!("{EXECUTE_TOOL} {}", tool.name), id(agent, tool), (tool.start, tool.end))
    });
    std::iter::once(invoke).chain(tools).collect()
}

/// Returns the span ID of the use of a tool.
fn id(agent: &Agent, tool: &ToolUse) -> [u8; 8] {
    let request = TraceContext::within(agent.trace_id, tool.request);
    request.child(u8::try_from(FIRST_TOOL + tool.index).unwrap_or(u8::MAX))
}

fn attributes(agent: &Agent) -> Vec<KeyValue> {
    let count = |key, count: u64| KeyValue::new(key, count.cast_signed());
    let mut list = vec![
        KeyValue::new(attribute::GEN_AI_OPERATION_NAME, INVOKE_AGENT),
        KeyValue::new(attribute::GEN_AI_CONVERSATION_ID, agent.conversation.to_string()),
        KeyValue::new(attribute::AIPERF_BENCHMARK_PHASE, agent.phase.as_str()),
        count(attribute::AIPERF_SESSION_NUMBER, agent.session),
    ];
    let model = agent.model.as_ref();
    list.extend(model.map(|of| KeyValue::new(attribute::GEN_AI_REQUEST_MODEL, of.to_string())));
    let input = agent.input_tokens;
    list.extend(input.map(|tokens| count(attribute::GEN_AI_USAGE_INPUT_TOKENS, tokens)));
    let output = agent.output_tokens;
    list.extend(output.map(|tokens| count(attribute::GEN_AI_USAGE_OUTPUT_TOKENS, tokens)));
    list.extend(agent.error.map(|of| KeyValue::new(attribute::ERROR_TYPE, of.as_str())));
    list
}
