// DO NOT EDIT: generated from `semconv/*.yaml` and the GenAI conventions 1.41.1.
// Regenerate with `UPDATE=1 cargo test --lib semconv`.

/// Keys of attributes.
pub mod attribute {
    /// `aiperf.benchmark.id`
    pub const AIPERF_BENCHMARK_ID: &str = "aiperf.benchmark.id";
    /// `aiperf.benchmark_phase`
    pub const AIPERF_BENCHMARK_PHASE: &str = "aiperf.benchmark_phase";
    /// `aiperf.client.finding`
    pub const AIPERF_CLIENT_FINDING: &str = "aiperf.client.finding";
    /// `aiperf.connection.reused`
    pub const AIPERF_CONNECTION_REUSED: &str = "aiperf.connection.reused";
    /// `aiperf.conversation.parent`
    pub const AIPERF_CONVERSATION_PARENT: &str = "aiperf.conversation.parent";
    /// `aiperf.dns.cache_hit`
    pub const AIPERF_DNS_CACHE_HIT: &str = "aiperf.dns.cache_hit";
    /// `aiperf.endpoint.type`
    pub const AIPERF_ENDPOINT_TYPE: &str = "aiperf.endpoint.type";
    /// `aiperf.gate.expression`
    pub const AIPERF_GATE_EXPRESSION: &str = "aiperf.gate.expression";
    /// `aiperf.gate.metric`
    pub const AIPERF_GATE_METRIC: &str = "aiperf.gate.metric";
    /// `aiperf.gate.statistic`
    pub const AIPERF_GATE_STATISTIC: &str = "aiperf.gate.statistic";
    /// `aiperf.gate.unit`
    pub const AIPERF_GATE_UNIT: &str = "aiperf.gate.unit";
    /// `aiperf.gate.value`
    pub const AIPERF_GATE_VALUE: &str = "aiperf.gate.value";
    /// `aiperf.interval.end`
    pub const AIPERF_INTERVAL_END: &str = "aiperf.interval.end";
    /// `aiperf.model.name`
    pub const AIPERF_MODEL_NAME: &str = "aiperf.model.name";
    /// `aiperf.output.fault`
    pub const AIPERF_OUTPUT_FAULT: &str = "aiperf.output.fault";
    /// `aiperf.percentile`
    pub const AIPERF_PERCENTILE: &str = "aiperf.percentile";
    /// `aiperf.phase.index`
    pub const AIPERF_PHASE_INDEX: &str = "aiperf.phase.index";
    /// `aiperf.phase.name`
    pub const AIPERF_PHASE_NAME: &str = "aiperf.phase.name";
    /// `aiperf.phase.requests.cancelled`
    pub const AIPERF_PHASE_REQUESTS_CANCELLED: &str = "aiperf.phase.requests.cancelled";
    /// `aiperf.phase.requests.completed`
    pub const AIPERF_PHASE_REQUESTS_COMPLETED: &str = "aiperf.phase.requests.completed";
    /// `aiperf.phase.requests.errors`
    pub const AIPERF_PHASE_REQUESTS_ERRORS: &str = "aiperf.phase.requests.errors";
    /// `aiperf.phase.requests.sent`
    pub const AIPERF_PHASE_REQUESTS_SENT: &str = "aiperf.phase.requests.sent";
    /// `aiperf.request.id`
    pub const AIPERF_REQUEST_ID: &str = "aiperf.request.id";
    /// `aiperf.request.latency`
    pub const AIPERF_REQUEST_LATENCY: &str = "aiperf.request.latency";
    /// `aiperf.request.slip`
    pub const AIPERF_REQUEST_SLIP: &str = "aiperf.request.slip";
    /// `aiperf.run.input_tokens`
    pub const AIPERF_RUN_INPUT_TOKENS: &str = "aiperf.run.input_tokens";
    /// `aiperf.run.load`
    pub const AIPERF_RUN_LOAD: &str = "aiperf.run.load";
    /// `aiperf.run.name`
    pub const AIPERF_RUN_NAME: &str = "aiperf.run.name";
    /// `aiperf.run.objectives`
    pub const AIPERF_RUN_OBJECTIVES: &str = "aiperf.run.objectives";
    /// `aiperf.run.output_tokens`
    pub const AIPERF_RUN_OUTPUT_TOKENS: &str = "aiperf.run.output_tokens";
    /// `aiperf.run.url`
    pub const AIPERF_RUN_URL: &str = "aiperf.run.url";
    /// `aiperf.server.metric`
    pub const AIPERF_SERVER_METRIC: &str = "aiperf.server.metric";
    /// `aiperf.session.number`
    pub const AIPERF_SESSION_NUMBER: &str = "aiperf.session.number";
    /// `aiperf.shard.count`
    pub const AIPERF_SHARD_COUNT: &str = "aiperf.shard.count";
    /// `aiperf.shard.index`
    pub const AIPERF_SHARD_INDEX: &str = "aiperf.shard.index";
    /// `aiperf.stage`
    pub const AIPERF_STAGE: &str = "aiperf.stage";
    /// `aiperf.statistic`
    pub const AIPERF_STATISTIC: &str = "aiperf.statistic";
    /// `aiperf.steady_state.requests`
    pub const AIPERF_STEADY_STATE_REQUESTS: &str = "aiperf.steady_state.requests";
    /// `aiperf.steady_state.share`
    pub const AIPERF_STEADY_STATE_SHARE: &str = "aiperf.steady_state.share";
    /// `aiperf.sweep.id`
    pub const AIPERF_SWEEP_ID: &str = "aiperf.sweep.id";
    /// `aiperf.tenant`
    pub const AIPERF_TENANT: &str = "aiperf.tenant";
    /// `aiperf.turn.index`
    pub const AIPERF_TURN_INDEX: &str = "aiperf.turn.index";
    /// `aiperf.verdict`
    pub const AIPERF_VERDICT: &str = "aiperf.verdict";
    /// `aiperf.warning.level`
    pub const AIPERF_WARNING_LEVEL: &str = "aiperf.warning.level";
    /// `aiperf.warning.name`
    pub const AIPERF_WARNING_NAME: &str = "aiperf.warning.name";
    /// `aiperf.warning.summary`
    pub const AIPERF_WARNING_SUMMARY: &str = "aiperf.warning.summary";
    /// `aiperf.warning.title`
    pub const AIPERF_WARNING_TITLE: &str = "aiperf.warning.title";
    /// `cicd.pipeline.name`
    pub const CICD_PIPELINE_NAME: &str = "cicd.pipeline.name";
    /// `cicd.pipeline.run.id`
    pub const CICD_PIPELINE_RUN_ID: &str = "cicd.pipeline.run.id";
    /// `cicd.pipeline.run.url.full`
    pub const CICD_PIPELINE_RUN_URL_FULL: &str = "cicd.pipeline.run.url.full";
    /// `cicd.pipeline.task.name`
    pub const CICD_PIPELINE_TASK_NAME: &str = "cicd.pipeline.task.name";
    /// `cicd.pipeline.task.run.id`
    pub const CICD_PIPELINE_TASK_RUN_ID: &str = "cicd.pipeline.task.run.id";
    /// `cicd.pipeline.task.run.url.full`
    pub const CICD_PIPELINE_TASK_RUN_URL_FULL: &str = "cicd.pipeline.task.run.url.full";
    /// `cicd.worker.id`
    pub const CICD_WORKER_ID: &str = "cicd.worker.id";
    /// `cicd.worker.name`
    pub const CICD_WORKER_NAME: &str = "cicd.worker.name";
    /// `error.type`
    pub const ERROR_TYPE: &str = "error.type";
    /// `exception.message`
    pub const EXCEPTION_MESSAGE: &str = "exception.message";
    /// `exception.type`
    pub const EXCEPTION_TYPE: &str = "exception.type";
    /// `gen_ai.conversation.id`
    pub const GEN_AI_CONVERSATION_ID: &str = "gen_ai.conversation.id";
    /// `gen_ai.operation.name`
    pub const GEN_AI_OPERATION_NAME: &str = "gen_ai.operation.name";
    /// `gen_ai.output.type`
    pub const GEN_AI_OUTPUT_TYPE: &str = "gen_ai.output.type";
    /// `gen_ai.provider.name`
    pub const GEN_AI_PROVIDER_NAME: &str = "gen_ai.provider.name";
    /// `gen_ai.request.choice.count`
    pub const GEN_AI_REQUEST_CHOICE_COUNT: &str = "gen_ai.request.choice.count";
    /// `gen_ai.request.frequency_penalty`
    pub const GEN_AI_REQUEST_FREQUENCY_PENALTY: &str = "gen_ai.request.frequency_penalty";
    /// `gen_ai.request.max_tokens`
    pub const GEN_AI_REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
    /// `gen_ai.request.model`
    pub const GEN_AI_REQUEST_MODEL: &str = "gen_ai.request.model";
    /// `gen_ai.request.presence_penalty`
    pub const GEN_AI_REQUEST_PRESENCE_PENALTY: &str = "gen_ai.request.presence_penalty";
    /// `gen_ai.request.reasoning.level`
    pub const GEN_AI_REQUEST_REASONING_LEVEL: &str = "gen_ai.request.reasoning.level";
    /// `gen_ai.request.seed`
    pub const GEN_AI_REQUEST_SEED: &str = "gen_ai.request.seed";
    /// `gen_ai.request.stop_sequences`
    pub const GEN_AI_REQUEST_STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";
    /// `gen_ai.request.stream`
    pub const GEN_AI_REQUEST_STREAM: &str = "gen_ai.request.stream";
    /// `gen_ai.request.temperature`
    pub const GEN_AI_REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
    /// `gen_ai.request.top_k`
    pub const GEN_AI_REQUEST_TOP_K: &str = "gen_ai.request.top_k";
    /// `gen_ai.request.top_p`
    pub const GEN_AI_REQUEST_TOP_P: &str = "gen_ai.request.top_p";
    /// `gen_ai.response.finish_reasons`
    pub const GEN_AI_RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
    /// `gen_ai.response.id`
    pub const GEN_AI_RESPONSE_ID: &str = "gen_ai.response.id";
    /// `gen_ai.response.model`
    pub const GEN_AI_RESPONSE_MODEL: &str = "gen_ai.response.model";
    /// `gen_ai.response.time_to_first_chunk`
    pub const GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
    /// `gen_ai.token.modality`
    pub const GEN_AI_TOKEN_MODALITY: &str = "gen_ai.token.modality";
    /// `gen_ai.token.type`
    pub const GEN_AI_TOKEN_TYPE: &str = "gen_ai.token.type";
    /// `gen_ai.tool.name`
    pub const GEN_AI_TOOL_NAME: &str = "gen_ai.tool.name";
    /// `gen_ai.usage.audio.input_tokens`
    pub const GEN_AI_USAGE_AUDIO_INPUT_TOKENS: &str = "gen_ai.usage.audio.input_tokens";
    /// `gen_ai.usage.audio.output_tokens`
    pub const GEN_AI_USAGE_AUDIO_OUTPUT_TOKENS: &str = "gen_ai.usage.audio.output_tokens";
    /// `gen_ai.usage.cache_creation.input_tokens`
    pub const GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
    /// `gen_ai.usage.cache_read.input_tokens`
    pub const GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
    /// `gen_ai.usage.cache_write.input_tokens`
    pub const GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: &str = "gen_ai.usage.cache_write.input_tokens";
    /// `gen_ai.usage.input_tokens`
    pub const GEN_AI_USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    /// `gen_ai.usage.output_tokens`
    pub const GEN_AI_USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    /// `gen_ai.usage.reasoning.output_tokens`
    pub const GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: &str = "gen_ai.usage.reasoning.output_tokens";
    /// `host.arch`
    pub const HOST_ARCH: &str = "host.arch";
    /// `host.name`
    pub const HOST_NAME: &str = "host.name";
    /// `http.request.resend_count`
    pub const HTTP_REQUEST_RESEND_COUNT: &str = "http.request.resend_count";
    /// `http.response.status_code`
    pub const HTTP_RESPONSE_STATUS_CODE: &str = "http.response.status_code";
    /// `network.peer.address`
    pub const NETWORK_PEER_ADDRESS: &str = "network.peer.address";
    /// `network.peer.port`
    pub const NETWORK_PEER_PORT: &str = "network.peer.port";
    /// `openai.api.type`
    pub const OPENAI_API_TYPE: &str = "openai.api.type";
    /// `openai.request.service_tier`
    pub const OPENAI_REQUEST_SERVICE_TIER: &str = "openai.request.service_tier";
    /// `openai.response.service_tier`
    pub const OPENAI_RESPONSE_SERVICE_TIER: &str = "openai.response.service_tier";
    /// `openai.response.system_fingerprint`
    pub const OPENAI_RESPONSE_SYSTEM_FINGERPRINT: &str = "openai.response.system_fingerprint";
    /// `os.type`
    pub const OS_TYPE: &str = "os.type";
    /// `os.version`
    pub const OS_VERSION: &str = "os.version";
    /// `process.executable.name`
    pub const PROCESS_EXECUTABLE_NAME: &str = "process.executable.name";
    /// `process.pid`
    pub const PROCESS_PID: &str = "process.pid";
    /// `server.address`
    pub const SERVER_ADDRESS: &str = "server.address";
    /// `server.port`
    pub const SERVER_PORT: &str = "server.port";
    /// `service.instance.id`
    pub const SERVICE_INSTANCE_ID: &str = "service.instance.id";
    /// `service.name`
    pub const SERVICE_NAME: &str = "service.name";
    /// `service.version`
    pub const SERVICE_VERSION: &str = "service.version";
    /// `telemetry.sdk.language`
    pub const TELEMETRY_SDK_LANGUAGE: &str = "telemetry.sdk.language";
    /// `telemetry.sdk.name`
    pub const TELEMETRY_SDK_NAME: &str = "telemetry.sdk.name";
    /// `telemetry.sdk.version`
    pub const TELEMETRY_SDK_VERSION: &str = "telemetry.sdk.version";
    /// `url.scheme`
    pub const URL_SCHEME: &str = "url.scheme";
    /// `vcs.change.id`
    pub const VCS_CHANGE_ID: &str = "vcs.change.id";
    /// `vcs.owner.name`
    pub const VCS_OWNER_NAME: &str = "vcs.owner.name";
    /// `vcs.provider.name`
    pub const VCS_PROVIDER_NAME: &str = "vcs.provider.name";
    /// `vcs.ref.base.name`
    pub const VCS_REF_BASE_NAME: &str = "vcs.ref.base.name";
    /// `vcs.ref.base.revision`
    pub const VCS_REF_BASE_REVISION: &str = "vcs.ref.base.revision";
    /// `vcs.ref.head.name`
    pub const VCS_REF_HEAD_NAME: &str = "vcs.ref.head.name";
    /// `vcs.ref.head.revision`
    pub const VCS_REF_HEAD_REVISION: &str = "vcs.ref.head.revision";
    /// `vcs.ref.type`
    pub const VCS_REF_TYPE: &str = "vcs.ref.type";
    /// `vcs.repository.name`
    pub const VCS_REPOSITORY_NAME: &str = "vcs.repository.name";
    /// `vcs.repository.url.full`
    pub const VCS_REPOSITORY_URL_FULL: &str = "vcs.repository.url.full";
}

/// Names of spans, the request's own aside, and of their events.
pub mod span {
    /// `aiperf.run`: the run, from the start of telemetry until its results were computed.
    pub const AIPERF_RUN: &str = "aiperf.run";
    /// `aiperf.phase`: a phase, a child of the run; the spans of requests have a link to it.
    pub const AIPERF_PHASE: &str = "aiperf.phase";
    /// `aiperf.http.blocked`: the wait for a slot in the connection pool.
    pub const AIPERF_HTTP_BLOCKED: &str = "aiperf.http.blocked";
    /// `aiperf.http.dns`: the DNS lookup of the host's addresses.
    pub const AIPERF_HTTP_DNS: &str = "aiperf.http.dns";
    /// `aiperf.http.connect`: opening the connection, including a proxy's tunnel and TLS.
    pub const AIPERF_HTTP_CONNECT: &str = "aiperf.http.connect";
    /// `aiperf.http.tls`: the TLS handshake, a child of `aiperf.http.connect`.
    pub const AIPERF_HTTP_TLS: &str = "aiperf.http.tls";
    /// `aiperf.http.send`: from the first byte of the request to its last.
    pub const AIPERF_HTTP_SEND: &str = "aiperf.http.send";
    /// `aiperf.http.wait`: from the last byte of the request to the first bytes of the response body.
    pub const AIPERF_HTTP_WAIT: &str = "aiperf.http.wait";
    /// `aiperf.http.receive`: from the first bytes of the response body to its last.
    pub const AIPERF_HTTP_RECEIVE: &str = "aiperf.http.receive";
    /// `aiperf.first_token`: the first content event of a streamed response arrived.
    pub const AIPERF_FIRST_TOKEN: &str = "aiperf.first_token";
    /// `aiperf.last_token`: the last content event of a streamed response arrived.
    pub const AIPERF_LAST_TOKEN: &str = "aiperf.last_token";
}

/// Names of events that are log records.
pub mod event {
    /// `gen_ai.client.operation.exception`: an event of the conventions.
    pub const GEN_AI_CLIENT_OPERATION_EXCEPTION: &str = "gen_ai.client.operation.exception";
    /// `aiperf.run.started`: the run started.
    pub const AIPERF_RUN_STARTED: &str = "aiperf.run.started";
    /// `aiperf.run.ended`: the run ended and its results were computed.
    pub const AIPERF_RUN_ENDED: &str = "aiperf.run.ended";
    /// `aiperf.phase.started`: a phase started.
    pub const AIPERF_PHASE_STARTED: &str = "aiperf.phase.started";
    /// `aiperf.phase.ended`: the last request of a phase ended.
    pub const AIPERF_PHASE_ENDED: &str = "aiperf.phase.ended";
    /// `aiperf.client.judged`: whether the client may have affected the results was judged.
    pub const AIPERF_CLIENT_JUDGED: &str = "aiperf.client.judged";
    /// `aiperf.load.judged`: whether the server kept up with the load was judged.
    pub const AIPERF_LOAD_JUDGED: &str = "aiperf.load.judged";
    /// `aiperf.output.judged`: whether the server's outputs are as they should be was judged.
    pub const AIPERF_OUTPUT_JUDGED: &str = "aiperf.output.judged";
    /// `aiperf.steady_state.found`: the measurement had a steady state.
    pub const AIPERF_STEADY_STATE_FOUND: &str = "aiperf.steady_state.found";
    /// `aiperf.warning.found`: the results gave reason for a warning.
    pub const AIPERF_WARNING_FOUND: &str = "aiperf.warning.found";
    /// `aiperf.gate.judged`: the results were compared with a gate.
    pub const AIPERF_GATE_JUDGED: &str = "aiperf.gate.judged";
    /// `aiperf.server.restarted`: the process of a server started anew, as its metrics show.
    pub const AIPERF_SERVER_RESTARTED: &str = "aiperf.server.restarted";
    /// `aiperf.server.unreachable`: three scrapes of a server one after the other failed.
    pub const AIPERF_SERVER_UNREACHABLE: &str = "aiperf.server.unreachable";
    /// `aiperf.server.reachable`: a scrape of an unreachable server succeeded.
    pub const AIPERF_SERVER_REACHABLE: &str = "aiperf.server.reachable";
}

/// Metrics.
pub mod metric {
    use super::super::{Definition, InstrumentKind};

    /// GenAI operation duration. `s`, histogram.
    pub const GEN_AI_CLIENT_OPERATION_DURATION: Definition = Definition {
        name: "gen_ai.client.operation.duration",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "GenAI operation duration",
        boundaries: &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    };

    /// Time to receive the first chunk, measured from when the client issues the generation request to when the first chunk is received in the response stream. `s`, histogram.
    pub const GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK: Definition = Definition {
        name: "gen_ai.client.operation.time_to_first_chunk",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time to receive the first chunk, measured from when the client issues the generation request to when the first chunk is received in the response stream",
        boundaries: &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    };

    /// Time per output chunk, recorded for each chunk received after the first one, measured as the time elapsed from the end of the previous chunk to the end of the current chunk. `s`, histogram.
    pub const GEN_AI_CLIENT_OPERATION_TIME_PER_OUTPUT_CHUNK: Definition = Definition {
        name: "gen_ai.client.operation.time_per_output_chunk",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time per output chunk, recorded for each chunk received after the first one, measured as the time elapsed from the end of the previous chunk to the end of the current chunk",
        boundaries: &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    };

    /// Number of input and output tokens used. `{token}`, histogram.
    pub const GEN_AI_CLIENT_TOKEN_USAGE: Definition = Definition {
        name: "gen_ai.client.token.usage",
        kind: InstrumentKind::Histogram,
        unit: "{token}",
        brief: "Number of input and output tokens used",
        boundaries: &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0],
    };

    /// GenAI client inference operation duration. `s`, histogram.
    pub const GEN_AI_CLIENT_INFERENCE_DURATION: Definition = Definition {
        name: "gen_ai.client.inference.duration",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "GenAI client inference operation duration",
        boundaries: &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    };

    /// Time to receive the first chunk, measured from when the client issues the generation request to when the first chunk is received in the response stream. `s`, histogram.
    pub const GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK: Definition = Definition {
        name: "gen_ai.client.inference.time_to_first_chunk",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time to receive the first chunk, measured from when the client issues the generation request to when the first chunk is received in the response stream",
        boundaries: &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    };

    /// Time per output chunk, recorded for each chunk received after the first one, measured as the time elapsed from the end of the previous chunk to the end of the current chunk. `s`, histogram.
    pub const GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK: Definition = Definition {
        name: "gen_ai.client.inference.time_per_output_chunk",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time per output chunk, recorded for each chunk received after the first one, measured as the time elapsed from the end of the previous chunk to the end of the current chunk",
        boundaries: &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    };

    /// The number of input (prompt) tokens used, including cached tokens. `{token}`, counter.
    pub const GEN_AI_CLIENT_INFERENCE_USAGE_INPUT_TOKENS: Definition = Definition {
        name: "gen_ai.client.inference.usage.input_tokens",
        kind: InstrumentKind::Counter,
        unit: "{token}",
        brief: "The number of input (prompt) tokens used, including cached tokens",
        boundaries: &[],
    };

    /// The number of output (completion) tokens used, including reasoning tokens. `{token}`, counter.
    pub const GEN_AI_CLIENT_INFERENCE_USAGE_OUTPUT_TOKENS: Definition = Definition {
        name: "gen_ai.client.inference.usage.output_tokens",
        kind: InstrumentKind::Counter,
        unit: "{token}",
        brief: "The number of output (completion) tokens used, including reasoning tokens",
        boundaries: &[],
    };

    /// The number of input tokens served from a provider-managed cache. `{token}`, counter.
    pub const GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_READ_INPUT_TOKENS: Definition = Definition {
        name: "gen_ai.client.inference.usage.cache_read.input_tokens",
        kind: InstrumentKind::Counter,
        unit: "{token}",
        brief: "The number of input tokens served from a provider-managed cache",
        boundaries: &[],
    };

    /// The number of input tokens written to a provider-managed cache. `{token}`, counter.
    pub const GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_WRITE_INPUT_TOKENS: Definition = Definition {
        name: "gen_ai.client.inference.usage.cache_write.input_tokens",
        kind: InstrumentKind::Counter,
        unit: "{token}",
        brief: "The number of input tokens written to a provider-managed cache",
        boundaries: &[],
    };

    /// The number of output tokens used for reasoning (e.g. chain-of-thought, extended thinking). `{token}`, counter.
    pub const GEN_AI_CLIENT_INFERENCE_USAGE_REASONING_OUTPUT_TOKENS: Definition = Definition {
        name: "gen_ai.client.inference.usage.reasoning.output_tokens",
        kind: InstrumentKind::Counter,
        unit: "{token}",
        brief: "The number of output tokens used for reasoning (e.g. chain-of-thought, extended thinking)",
        boundaries: &[],
    };

    /// The number of input (prompt) tokens used per inference operation. `{token}`, histogram.
    pub const GEN_AI_CLIENT_INFERENCE_OPERATION_INPUT_TOKENS: Definition = Definition {
        name: "gen_ai.client.inference.operation.input_tokens",
        kind: InstrumentKind::Histogram,
        unit: "{token}",
        brief: "The number of input (prompt) tokens used per inference operation",
        boundaries: &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0],
    };

    /// The number of output (completion) tokens used per inference operation. `{token}`, histogram.
    pub const GEN_AI_CLIENT_INFERENCE_OPERATION_OUTPUT_TOKENS: Definition = Definition {
        name: "gen_ai.client.inference.operation.output_tokens",
        kind: InstrumentKind::Histogram,
        unit: "{token}",
        brief: "The number of output (completion) tokens used per inference operation",
        boundaries: &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0, 67108864.0],
    };

    /// The end-to-end duration of a single in-process agent invocation, from the moment the invocation starts until the agent emits the last chunk of its final response or terminates with an error. `s`, histogram.
    pub const GEN_AI_INVOKE_AGENT_DURATION: Definition = Definition {
        name: "gen_ai.invoke_agent.duration",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "The end-to-end duration of a single in-process agent invocation, from the moment the invocation starts until the agent emits the last chunk of its final response or terminates with an error",
        boundaries: &[0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6],
    };

    /// The number of inference (model) calls a GenAI agent makes during a single invocation. `{inference_call}`, histogram.
    pub const GEN_AI_INVOKE_AGENT_INFERENCE_CALLS: Definition = Definition {
        name: "gen_ai.invoke_agent.inference_calls",
        kind: InstrumentKind::Histogram,
        unit: "{inference_call}",
        brief: "The number of inference (model) calls a GenAI agent makes during a single invocation",
        boundaries: &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
    };

    /// The number of tool calls a GenAI agent makes during a single invocation. `{tool_call}`, histogram.
    pub const GEN_AI_INVOKE_AGENT_TOOL_CALLS: Definition = Definition {
        name: "gen_ai.invoke_agent.tool_calls",
        kind: InstrumentKind::Histogram,
        unit: "{tool_call}",
        brief: "The number of tool calls a GenAI agent makes during a single invocation",
        boundaries: &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
    };

    /// The duration of a single tool execution. `s`, histogram.
    pub const GEN_AI_EXECUTE_TOOL_DURATION: Definition = Definition {
        name: "gen_ai.execute_tool.duration",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "The duration of a single tool execution",
        boundaries: &[0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92],
    };

    /// Generative AI server request duration such as time-to-last byte or last output token. `s`, histogram.
    pub const GEN_AI_SERVER_REQUEST_DURATION: Definition = Definition {
        name: "gen_ai.server.request.duration",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Generative AI server request duration such as time-to-last byte or last output token",
        boundaries: &[],
    };

    /// Time per output token generated after the first token for successful responses. `s`, histogram.
    pub const GEN_AI_SERVER_TIME_PER_OUTPUT_TOKEN: Definition = Definition {
        name: "gen_ai.server.time_per_output_token",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time per output token generated after the first token for successful responses",
        boundaries: &[],
    };

    /// Time to generate first token for successful responses. `s`, histogram.
    pub const GEN_AI_SERVER_TIME_TO_FIRST_TOKEN: Definition = Definition {
        name: "gen_ai.server.time_to_first_token",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time to generate first token for successful responses",
        boundaries: &[],
    };

    /// Total requests dispatched in this phase. `1`, counter.
    pub const AIPERF_TIMING_REQUESTS_SENT: Definition = Definition {
        name: "aiperf.timing.requests.sent",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Total requests dispatched in this phase",
        boundaries: &[],
    };

    /// Requests that received a complete response. `1`, counter.
    pub const AIPERF_TIMING_REQUESTS_COMPLETED: Definition = Definition {
        name: "aiperf.timing.requests.completed",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Requests that received a complete response",
        boundaries: &[],
    };

    /// Requests cancelled before completion. `1`, counter.
    pub const AIPERF_TIMING_REQUESTS_CANCELLED: Definition = Definition {
        name: "aiperf.timing.requests.cancelled",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Requests cancelled before completion",
        boundaries: &[],
    };

    /// Requests that ended in error. `1`, counter.
    pub const AIPERF_TIMING_REQUESTS_ERRORS: Definition = Definition {
        name: "aiperf.timing.requests.errors",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Requests that ended in error",
        boundaries: &[],
    };

    /// Sessions initiated in this phase. `1`, counter.
    pub const AIPERF_TIMING_SESSIONS_SENT: Definition = Definition {
        name: "aiperf.timing.sessions.sent",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Sessions initiated in this phase",
        boundaries: &[],
    };

    /// Sessions that finished all turns. `1`, counter.
    pub const AIPERF_TIMING_SESSIONS_COMPLETED: Definition = Definition {
        name: "aiperf.timing.sessions.completed",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Sessions that finished all turns",
        boundaries: &[],
    };

    /// Sessions that a failed turn ended. `1`, counter.
    pub const AIPERF_TIMING_SESSIONS_FAILED: Definition = Definition {
        name: "aiperf.timing.sessions.failed",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Sessions that a failed turn ended",
        boundaries: &[],
    };

    /// Sessions cancelled before completion. `1`, counter.
    pub const AIPERF_TIMING_SESSIONS_CANCELLED: Definition = Definition {
        name: "aiperf.timing.sessions.cancelled",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Sessions cancelled before completion",
        boundaries: &[],
    };

    /// Cumulative session turns executed. `1`, counter.
    pub const AIPERF_TIMING_SESSIONS_TURNS_TOTAL: Definition = Definition {
        name: "aiperf.timing.sessions.turns_total",
        kind: InstrumentKind::Counter,
        unit: "1",
        brief: "Cumulative session turns executed",
        boundaries: &[],
    };

    /// Requests currently awaiting a response. `1`, updowncounter.
    pub const AIPERF_TIMING_REQUESTS_IN_FLIGHT: Definition = Definition {
        name: "aiperf.timing.requests.in_flight",
        kind: InstrumentKind::UpDownCounter,
        unit: "1",
        brief: "Requests currently awaiting a response",
        boundaries: &[],
    };

    /// Sessions with at least one turn in progress. `1`, updowncounter.
    pub const AIPERF_TIMING_SESSIONS_IN_FLIGHT: Definition = Definition {
        name: "aiperf.timing.sessions.in_flight",
        kind: InstrumentKind::UpDownCounter,
        unit: "1",
        brief: "Sessions with at least one turn in progress",
        boundaries: &[],
    };

    /// Whether the phase hard-timeout fired (0 or 1). `1`, updowncounter.
    pub const AIPERF_TIMING_PHASE_TIMEOUT_TRIGGERED: Definition = Definition {
        name: "aiperf.timing.phase.timeout_triggered",
        kind: InstrumentKind::UpDownCounter,
        unit: "1",
        brief: "Whether the phase hard-timeout fired (0 or 1)",
        boundaries: &[],
    };

    /// Whether the grace-period timeout fired (0 or 1). `1`, updowncounter.
    pub const AIPERF_TIMING_PHASE_GRACE_TIMEOUT_TRIGGERED: Definition = Definition {
        name: "aiperf.timing.phase.grace_timeout_triggered",
        kind: InstrumentKind::UpDownCounter,
        unit: "1",
        brief: "Whether the grace-period timeout fired (0 or 1)",
        boundaries: &[],
    };

    /// Whether the phase was user-cancelled (0 or 1). `1`, updowncounter.
    pub const AIPERF_TIMING_PHASE_WAS_CANCELLED: Definition = Definition {
        name: "aiperf.timing.phase.was_cancelled",
        kind: InstrumentKind::UpDownCounter,
        unit: "1",
        brief: "Whether the phase was user-cancelled (0 or 1)",
        boundaries: &[],
    };

    /// Wall-clock seconds elapsed in the phase. `s`, updowncounter.
    pub const AIPERF_TIMING_PHASE_ELAPSED_SEC: Definition = Definition {
        name: "aiperf.timing.phase.elapsed_sec",
        kind: InstrumentKind::UpDownCounter,
        unit: "s",
        brief: "Wall-clock seconds elapsed in the phase",
        boundaries: &[],
    };

    /// Time from a request's due time until it was handed to the transport. `s`, histogram.
    pub const AIPERF_CLIENT_SCHEDULE_SLIP: Definition = Definition {
        name: "aiperf.client.schedule_slip",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time from a request's due time until it was handed to the transport",
        boundaries: &[1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0],
    };

    /// Requests sent again because a reused connection died before the first response byte. `{retry}`, counter.
    pub const AIPERF_CLIENT_RETRIES: Definition = Definition {
        name: "aiperf.client.retries",
        kind: InstrumentKind::Counter,
        unit: "{retry}",
        brief: "Requests sent again because a reused connection died before the first response byte",
        boundaries: &[],
    };

    /// Time from the kernel's receive timestamp of an event until the program read it. `s`, histogram.
    pub const AIPERF_CLIENT_READ_LAG: Definition = Definition {
        name: "aiperf.client.read_lag",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time from the kernel's receive timestamp of an event until the program read it",
        boundaries: &[1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0],
    };

    /// How much earlier than its timestamp an event may have arrived. `s`, histogram.
    pub const AIPERF_CLIENT_STAMP_UNCERTAINTY: Definition = Definition {
        name: "aiperf.client.stamp_uncertainty",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "How much earlier than its timestamp an event may have arrived",
        boundaries: &[1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0],
    };

    /// Size of the records in memory that wait to be processed. `By`, gauge.
    pub const AIPERF_CLIENT_QUEUE_SIZE: Definition = Definition {
        name: "aiperf.client.queue.size",
        kind: InstrumentKind::Gauge,
        unit: "By",
        brief: "Size of the records in memory that wait to be processed",
        boundaries: &[],
    };

    /// Records written to a file because memory was full. `{record}`, counter.
    pub const AIPERF_CLIENT_QUEUE_SPILLED: Definition = Definition {
        name: "aiperf.client.queue.spilled",
        kind: InstrumentKind::Counter,
        unit: "{record}",
        brief: "Records written to a file because memory was full",
        boundaries: &[],
    };

    /// Requests selected by `--trace-sample` whose spans did not reach the collector. `{request}`, counter.
    pub const AIPERF_CLIENT_TRACES_LOST: Definition = Definition {
        name: "aiperf.client.traces.lost",
        kind: InstrumentKind::Counter,
        unit: "{request}",
        brief: "Requests selected by `--trace-sample` whose spans did not reach the collector",
        boundaries: &[],
    };

    /// CPU time of the program divided by the phase's wall time; 1 is one core. `1`, gauge.
    pub const AIPERF_CLIENT_CPU_UTILIZATION: Definition = Definition {
        name: "aiperf.client.cpu.utilization",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "CPU time of the program divided by the phase's wall time; 1 is one core",
        boundaries: &[],
    };

    /// CPU time of the busiest worker divided by the phase's wall time; 1 is fully busy. `1`, gauge.
    pub const AIPERF_CLIENT_WORKER_CPU_UTILIZATION: Definition = Definition {
        name: "aiperf.client.worker.cpu.utilization",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "CPU time of the busiest worker divided by the phase's wall time; 1 is fully busy",
        boundaries: &[],
    };

    /// Achieved request rate divided by the configured one. `1`, gauge.
    pub const AIPERF_CLIENT_RATE_RATIO: Definition = Definition {
        name: "aiperf.client.rate.ratio",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "Achieved request rate divided by the configured one",
        boundaries: &[],
    };

    /// Whether the client kept up; 0 for valid, 1 for suspect, 2 for invalid. `1`, gauge.
    pub const AIPERF_CLIENT_VERDICT: Definition = Definition {
        name: "aiperf.client.verdict",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "Whether the client kept up; 0 for valid, 1 for suspect, 2 for invalid",
        boundaries: &[],
    };

    /// A reason for the verdict; 1 for suspect, 2 for invalid. `{reason}`, gauge.
    pub const AIPERF_CLIENT_VERDICT_REASON: Definition = Definition {
        name: "aiperf.client.verdict.reason",
        kind: InstrumentKind::Gauge,
        unit: "{reason}",
        brief: "A reason for the verdict; 1 for suspect, 2 for invalid",
        boundaries: &[],
    };

    /// Whether the server kept up with the load; 0 for sustained, 1 for too short to tell, 2 for not stationary, 3 for saturated, 4 for rejecting, 5 for failing. `1`, gauge.
    pub const AIPERF_LOAD_VERDICT: Definition = Definition {
        name: "aiperf.load.verdict",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "Whether the server kept up with the load; 0 for sustained, 1 for too short to tell, 2 for not stationary, 3 for saturated, 4 for rejecting, 5 for failing",
        boundaries: &[],
    };

    /// Outputs with a fault, of requests that succeeded. `{output}`, counter.
    pub const AIPERF_OUTPUT_FAULTS: Definition = Definition {
        name: "aiperf.output.faults",
        kind: InstrumentKind::Counter,
        unit: "{output}",
        brief: "Outputs with a fault, of requests that succeeded",
        boundaries: &[],
    };

    /// Whether the server's outputs are as they should be; 0 for valid, 1 for suspect, 2 for invalid. `1`, gauge.
    pub const AIPERF_OUTPUT_VERDICT: Definition = Definition {
        name: "aiperf.output.verdict",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "Whether the server's outputs are as they should be; 0 for valid, 1 for suspect, 2 for invalid",
        boundaries: &[],
    };

    /// Requests per second that were due or sent, once the queue had time to fill. `{request}/s`, gauge.
    pub const AIPERF_LOAD_OFFERED_RATE: Definition = Definition {
        name: "aiperf.load.offered_rate",
        kind: InstrumentKind::Gauge,
        unit: "{request}/s",
        brief: "Requests per second that were due or sent, once the queue had time to fill",
        boundaries: &[],
    };

    /// Requests per second that ended in that time and were not rejected for overload. `{request}/s`, gauge.
    pub const AIPERF_LOAD_SERVED_RATE: Definition = Definition {
        name: "aiperf.load.served_rate",
        kind: InstrumentKind::Gauge,
        unit: "{request}/s",
        brief: "Requests per second that ended in that time and were not rejected for overload",
        boundaries: &[],
    };

    /// Requests per second by which those that were due or sent and not served increased. `{request}/s`, gauge.
    pub const AIPERF_LOAD_QUEUE_GROWTH: Definition = Definition {
        name: "aiperf.load.queue_growth",
        kind: InstrumentKind::Gauge,
        unit: "{request}/s",
        brief: "Requests per second by which those that were due or sent and not served increased",
        boundaries: &[],
    };

    /// Change of the latencies in that time, as a fraction. `1`, gauge.
    pub const AIPERF_LOAD_LATENCY_DRIFT: Definition = Definition {
        name: "aiperf.load.latency_drift",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "Change of the latencies in that time, as a fraction",
        boundaries: &[],
    };

    /// How far the client may have shifted the throughput, divided by it. `1`, gauge.
    pub const AIPERF_CLIENT_ERROR_BOUND_THROUGHPUT: Definition = Definition {
        name: "aiperf.client.error_bound.throughput",
        kind: InstrumentKind::Gauge,
        unit: "1",
        brief: "How far the client may have shifted the throughput, divided by it",
        boundaries: &[],
    };

    /// How far the client may have shifted a percentile of the time to first token. `s`, gauge.
    pub const AIPERF_CLIENT_ERROR_BOUND_TIME_TO_FIRST_TOKEN: Definition = Definition {
        name: "aiperf.client.error_bound.time_to_first_token",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "How far the client may have shifted a percentile of the time to first token",
        boundaries: &[],
    };

    /// How far the client may have shifted a percentile of the inter-token latency. `s`, gauge.
    pub const AIPERF_CLIENT_ERROR_BOUND_INTER_TOKEN_LATENCY: Definition = Definition {
        name: "aiperf.client.error_bound.inter_token_latency",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "How far the client may have shifted a percentile of the inter-token latency",
        boundaries: &[],
    };

    /// How far the client may have shifted a percentile of the request latency. `s`, gauge.
    pub const AIPERF_CLIENT_ERROR_BOUND_REQUEST_LATENCY: Definition = Definition {
        name: "aiperf.client.error_bound.request_latency",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "How far the client may have shifted a percentile of the request latency",
        boundaries: &[],
    };

    /// An end of the 95% confidence interval of a percentile of the time to first token for other requests. `s`, gauge.
    pub const AIPERF_SAMPLE_INTERVAL_TIME_TO_FIRST_TOKEN: Definition = Definition {
        name: "aiperf.sample_interval.time_to_first_token",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "An end of the 95% confidence interval of a percentile of the time to first token for other requests",
        boundaries: &[],
    };

    /// An end of the 95% confidence interval of a percentile of the inter-token latency for other requests. `s`, gauge.
    pub const AIPERF_SAMPLE_INTERVAL_INTER_TOKEN_LATENCY: Definition = Definition {
        name: "aiperf.sample_interval.inter_token_latency",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "An end of the 95% confidence interval of a percentile of the inter-token latency for other requests",
        boundaries: &[],
    };

    /// An end of the 95% confidence interval of a percentile of the request latency for other requests. `s`, gauge.
    pub const AIPERF_SAMPLE_INTERVAL_REQUEST_LATENCY: Definition = Definition {
        name: "aiperf.sample_interval.request_latency",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "An end of the 95% confidence interval of a percentile of the request latency for other requests",
        boundaries: &[],
    };

    /// The settings that tell runs apart, as attributes; always 1. `{run}`, gauge.
    pub const AIPERF_RUN_INFO: Definition = Definition {
        name: "aiperf.run.info",
        kind: InstrumentKind::Gauge,
        unit: "{run}",
        brief: "The settings that tell runs apart, as attributes; always 1",
        boundaries: &[],
    };

    /// The value that a gate limits, in the unit of `aiperf.gate.unit`. `{value}`, gauge.
    pub const AIPERF_GATE_VALUE: Definition = Definition {
        name: "aiperf.gate.value",
        kind: InstrumentKind::Gauge,
        unit: "{value}",
        brief: "The value that a gate limits, in the unit of `aiperf.gate.unit`",
        boundaries: &[],
    };

    /// The limit of a gate, in the unit of `aiperf.gate.unit`. `{value}`, gauge.
    pub const AIPERF_GATE_LIMIT: Definition = Definition {
        name: "aiperf.gate.limit",
        kind: InstrumentKind::Gauge,
        unit: "{value}",
        brief: "The limit of a gate, in the unit of `aiperf.gate.unit`",
        boundaries: &[],
    };

    /// Whether a gate held, 1 or 0. `{gate}`, gauge.
    pub const AIPERF_GATE_PASSED: Definition = Definition {
        name: "aiperf.gate.passed",
        kind: InstrumentKind::Gauge,
        unit: "{gate}",
        brief: "Whether a gate held, 1 or 0",
        boundaries: &[],
    };

    /// Time of a stage of a request at the server, as the server reports it for the request. `s`, histogram.
    pub const AIPERF_SERVER_STAGE_DURATION: Definition = Definition {
        name: "aiperf.server.stage.duration",
        kind: InstrumentKind::Histogram,
        unit: "s",
        brief: "Time of a stage of a request at the server, as the server reports it for the request",
        boundaries: &[0.0, 1e-6, 2e-6, 4e-6, 8e-6, 1.6e-5, 3.2e-5, 6.4e-5, 0.000128, 0.000256, 0.000512, 0.001024, 0.002048, 0.004096, 0.008192, 0.016384, 0.032768, 0.065536, 0.131072, 0.262144, 0.524288, 1.04858, 2.09715, 4.1943, 8.38861, 16.7772, 33.5544, 67.1089, 134.218, 268.435, 536.871, 1073.74],
    };

    /// Mean time to first token, divided by the times that the server reports. `s`, gauge.
    pub const AIPERF_TIME_BREAKDOWN_TIME_TO_FIRST_TOKEN: Definition = Definition {
        name: "aiperf.time_breakdown.time_to_first_token",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "Mean time to first token, divided by the times that the server reports",
        boundaries: &[],
    };

    /// Mean request latency, divided by the times that the server reports. `s`, gauge.
    pub const AIPERF_TIME_BREAKDOWN_REQUEST_LATENCY: Definition = Definition {
        name: "aiperf.time_breakdown.request_latency",
        kind: InstrumentKind::Gauge,
        unit: "s",
        brief: "Mean request latency, divided by the times that the server reports",
        boundaries: &[],
    };

    /// All of them.
    pub const ALL: [&Definition; 69] = [
        &GEN_AI_CLIENT_OPERATION_DURATION,
        &GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
        &GEN_AI_CLIENT_OPERATION_TIME_PER_OUTPUT_CHUNK,
        &GEN_AI_CLIENT_TOKEN_USAGE,
        &GEN_AI_CLIENT_INFERENCE_DURATION,
        &GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK,
        &GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK,
        &GEN_AI_CLIENT_INFERENCE_USAGE_INPUT_TOKENS,
        &GEN_AI_CLIENT_INFERENCE_USAGE_OUTPUT_TOKENS,
        &GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_READ_INPUT_TOKENS,
        &GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_WRITE_INPUT_TOKENS,
        &GEN_AI_CLIENT_INFERENCE_USAGE_REASONING_OUTPUT_TOKENS,
        &GEN_AI_CLIENT_INFERENCE_OPERATION_INPUT_TOKENS,
        &GEN_AI_CLIENT_INFERENCE_OPERATION_OUTPUT_TOKENS,
        &GEN_AI_INVOKE_AGENT_DURATION,
        &GEN_AI_INVOKE_AGENT_INFERENCE_CALLS,
        &GEN_AI_INVOKE_AGENT_TOOL_CALLS,
        &GEN_AI_EXECUTE_TOOL_DURATION,
        &GEN_AI_SERVER_REQUEST_DURATION,
        &GEN_AI_SERVER_TIME_PER_OUTPUT_TOKEN,
        &GEN_AI_SERVER_TIME_TO_FIRST_TOKEN,
        &AIPERF_TIMING_REQUESTS_SENT,
        &AIPERF_TIMING_REQUESTS_COMPLETED,
        &AIPERF_TIMING_REQUESTS_CANCELLED,
        &AIPERF_TIMING_REQUESTS_ERRORS,
        &AIPERF_TIMING_SESSIONS_SENT,
        &AIPERF_TIMING_SESSIONS_COMPLETED,
        &AIPERF_TIMING_SESSIONS_FAILED,
        &AIPERF_TIMING_SESSIONS_CANCELLED,
        &AIPERF_TIMING_SESSIONS_TURNS_TOTAL,
        &AIPERF_TIMING_REQUESTS_IN_FLIGHT,
        &AIPERF_TIMING_SESSIONS_IN_FLIGHT,
        &AIPERF_TIMING_PHASE_TIMEOUT_TRIGGERED,
        &AIPERF_TIMING_PHASE_GRACE_TIMEOUT_TRIGGERED,
        &AIPERF_TIMING_PHASE_WAS_CANCELLED,
        &AIPERF_TIMING_PHASE_ELAPSED_SEC,
        &AIPERF_CLIENT_SCHEDULE_SLIP,
        &AIPERF_CLIENT_RETRIES,
        &AIPERF_CLIENT_READ_LAG,
        &AIPERF_CLIENT_STAMP_UNCERTAINTY,
        &AIPERF_CLIENT_QUEUE_SIZE,
        &AIPERF_CLIENT_QUEUE_SPILLED,
        &AIPERF_CLIENT_TRACES_LOST,
        &AIPERF_CLIENT_CPU_UTILIZATION,
        &AIPERF_CLIENT_WORKER_CPU_UTILIZATION,
        &AIPERF_CLIENT_RATE_RATIO,
        &AIPERF_CLIENT_VERDICT,
        &AIPERF_CLIENT_VERDICT_REASON,
        &AIPERF_LOAD_VERDICT,
        &AIPERF_OUTPUT_FAULTS,
        &AIPERF_OUTPUT_VERDICT,
        &AIPERF_LOAD_OFFERED_RATE,
        &AIPERF_LOAD_SERVED_RATE,
        &AIPERF_LOAD_QUEUE_GROWTH,
        &AIPERF_LOAD_LATENCY_DRIFT,
        &AIPERF_CLIENT_ERROR_BOUND_THROUGHPUT,
        &AIPERF_CLIENT_ERROR_BOUND_TIME_TO_FIRST_TOKEN,
        &AIPERF_CLIENT_ERROR_BOUND_INTER_TOKEN_LATENCY,
        &AIPERF_CLIENT_ERROR_BOUND_REQUEST_LATENCY,
        &AIPERF_SAMPLE_INTERVAL_TIME_TO_FIRST_TOKEN,
        &AIPERF_SAMPLE_INTERVAL_INTER_TOKEN_LATENCY,
        &AIPERF_SAMPLE_INTERVAL_REQUEST_LATENCY,
        &AIPERF_RUN_INFO,
        &AIPERF_GATE_VALUE,
        &AIPERF_GATE_LIMIT,
        &AIPERF_GATE_PASSED,
        &AIPERF_SERVER_STAGE_DURATION,
        &AIPERF_TIME_BREAKDOWN_TIME_TO_FIRST_TOKEN,
        &AIPERF_TIME_BREAKDOWN_REQUEST_LATENCY,
    ];
}
