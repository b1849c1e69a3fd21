//! The schemas of the files, defined independently of the code that writes them. Other members are
//! errors.

#![expect(clippy::struct_field_names, reason = "the files name their members")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stats {
    pub(crate) unit: String,
    pub(crate) avg: Option<f64>,
    #[serde(rename = "p1")]
    _p1: Option<f64>,
    #[serde(rename = "p5")]
    _p5: Option<f64>,
    #[serde(rename = "p10")]
    _p10: Option<f64>,
    #[serde(rename = "p25")]
    _p25: Option<f64>,
    #[serde(rename = "p50")]
    _p50: Option<f64>,
    #[serde(rename = "p75")]
    _p75: Option<f64>,
    #[serde(rename = "p90")]
    _p90: Option<f64>,
    #[serde(rename = "p95")]
    _p95: Option<f64>,
    #[serde(rename = "p99")]
    _p99: Option<f64>,
    #[serde(rename = "min")]
    _min: Option<f64>,
    #[serde(rename = "max")]
    _max: Option<f64>,
    #[serde(rename = "std")]
    _std: Option<f64>,
    #[serde(rename = "count")]
    _count: Option<u64>,
    #[serde(rename = "sum")]
    _sum: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Summary {
    pub(crate) schema_version: String,
    pub(crate) aiperf_version: String,
    pub(crate) benchmark_id: String,
    #[serde(rename = "steady_state")]
    _steady_state: Value,
    #[serde(rename = "input_config")]
    _input_config: Value,
    pub(crate) run_info: RunInfo,
    pub(crate) was_cancelled: bool,
    pub(crate) is_complete: bool,
    #[serde(rename = "incomplete_reason")]
    _incomplete_reason: Option<String>,
    pub(crate) error_summary: Vec<ErrorCount>,
    pub(crate) start_time: String,
    #[serde(rename = "end_time")]
    _end_time: String,
    pub(crate) warmup_metrics: BTreeMap<String, Stats>,
    #[serde(rename = "load")]
    _load: Load,
    pub(crate) client_health: ClientHealth,
    pub(crate) telemetry: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunInfo {
    pub(crate) benchmark_id: String,
    pub(crate) random_seed: Option<u64>,
    #[serde(rename = "trial")]
    _trial: u64,
    #[serde(rename = "cli_command")]
    _cli_command: String,
    #[serde(rename = "start_time")]
    _start_time: String,
    #[serde(rename = "program")]
    _program: Value,
    #[serde(rename = "host")]
    _host: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ErrorCount {
    #[serde(rename = "error_details")]
    _error_details: Error,
    pub(crate) count: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Load {
    #[serde(rename = "requested_concurrency")]
    _requested_concurrency: Option<u64>,
    #[serde(rename = "reached_concurrency")]
    _reached_concurrency: u64,
    #[serde(rename = "slot_seconds")]
    _slot_seconds: Option<f64>,
    #[serde(rename = "requested_rate")]
    _requested_rate: Option<f64>,
    #[serde(rename = "reached_rate")]
    _reached_rate: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientHealth {
    pub(crate) verdict: String,
    pub(crate) reasons: Vec<Reason>,
    pub(crate) schedule_slip_ms: Option<TimeStatistics>,
    pub(crate) client_slip_ms: Option<TimeStatistics>,
    pub(crate) schedule_slip_idle_ms: Option<TimeStatistics>,
    pub(crate) schedule_slip_loaded_ms: Option<TimeStatistics>,
    pub(crate) error_bounds_ms: Option<BTreeMap<String, Bounds>>,
    pub(crate) throughput_bounds: Option<BTreeMap<String, f64>>,
    pub(crate) read_lag_ms: Option<TimeStatistics>,
    pub(crate) stamp_uncertainty_ms: Option<TimeStatistics>,
    pub(crate) arrival_error_ms: Option<TimeStatistics>,
    pub(crate) reads: Option<Reads>,
    pub(crate) queue: Queue,
    pub(crate) cpu: Cpu,
    pub(crate) rate_ratio: Option<f64>,
    pub(crate) concurrency_ratio: Option<f64>,
    pub(crate) retries: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    pub(crate) verdict: String,
    pub(crate) finding: String,
    pub(crate) advice: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bounds {
    pub(crate) count: u64,
    pub(crate) avg: Bound,
    pub(crate) p50: Bound,
    pub(crate) p99: Bound,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) below: f64,
    pub(crate) above: f64,
    pub(crate) likely_below: f64,
    pub(crate) likely_above: f64,
    #[serde(rename = "late")]
    _late: Option<f64>,
    pub(crate) sample_below: Option<f64>,
    pub(crate) sample_above: Option<f64>,
    pub(crate) requests_needed: Option<u64>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeStatistics {
    pub(crate) count: u64,
    pub(crate) avg: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reads {
    pub(crate) total: u64,
    pub(crate) kernel_stamped: u64,
    pub(crate) kernel_share: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queue {
    pub(crate) budget_bytes: u64,
    pub(crate) peak_bytes: u64,
    pub(crate) pauses: u64,
    pub(crate) spilled_records: u64,
    pub(crate) spilled_bytes: u64,
    pub(crate) kept_over_budget: u64,
    pub(crate) lost_records: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cpu {
    pub(crate) workers: u64,
    pub(crate) worker_max: f64,
    pub(crate) worker_mean: f64,
    pub(crate) process: f64,
    pub(crate) cores: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Inputs {
    pub(crate) data: Vec<Session>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    pub(crate) session_id: String,
    pub(crate) payloads: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Error {
    pub(crate) code: Option<u16>,
    #[serde(rename = "type")]
    pub(crate) name: String,
    pub(crate) message: String,
    #[serde(rename = "cause")]
    _cause: Option<String>,
    pub(crate) error_type: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metadata {
    pub(crate) session_num: u64,
    pub(crate) x_request_id: String,
    pub(crate) x_correlation_id: String,
    pub(crate) conversation_id: String,
    pub(crate) turn_index: u64,
    #[serde(default)]
    pub(crate) model: String,
    #[serde(default)]
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) endpoint_type: String,
    pub(crate) credit_issued_ns: u64,
    pub(crate) request_start_ns: u64,
    pub(crate) request_ack_ns: Option<u64>,
    pub(crate) request_end_ns: u64,
    pub(crate) worker_id: String,
    pub(crate) record_processor_id: String,
    pub(crate) benchmark_phase: String,
    pub(crate) phase_index: u64,
    pub(crate) profiling_index: Option<u64>,
    pub(crate) phase_name: String,
    pub(crate) phase_kind: String,
    pub(crate) was_cancelled: bool,
    pub(crate) cancellation_time_ns: Option<u64>,
    pub(crate) request_due_ns: Option<u64>,
    pub(crate) request_sent_ns: Option<u64>,
    pub(crate) requested_output_tokens: Option<u64>,
    pub(crate) retry_count: Option<u64>,
    pub(crate) send_delay_ns: Option<u64>,
    pub(crate) late_ns: Option<u64>,
    #[serde(default)]
    pub(crate) first_content_uncertainty_ns: u32,
    #[serde(default)]
    pub(crate) last_content_uncertainty_ns: u32,
    #[serde(default)]
    pub(crate) end_uncertainty_ns: u32,
    pub(crate) end_gap_ns: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    pub(crate) value: Value,
    pub(crate) unit: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    pub(crate) metadata: Metadata,
    pub(crate) metrics: BTreeMap<String, Measurement>,
    pub(crate) trace_data: Option<BTreeMap<String, Value>>,
    pub(crate) error: Option<Error>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawRecord {
    pub(crate) metadata: Metadata,
    pub(crate) start_perf_ns: u64,
    pub(crate) request_headers: BTreeMap<String, String>,
    pub(crate) status: Option<u16>,
    #[serde(default)]
    pub(crate) response_headers: BTreeMap<String, String>,
    pub(crate) responses: Vec<Response>,
    #[serde(default)]
    pub(crate) response_read_lag_ns: Vec<u64>,
    #[serde(default)]
    pub(crate) response_uncertainty_ns: Vec<u64>,
    pub(crate) payload: Value,
    pub(crate) error: Option<Error>,
}

/// For an event `packets`, for any other body `content_type` and `text`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Response {
    pub(crate) perf_ns: u64,
    pub(crate) packets: Option<Vec<Packet>>,
    pub(crate) content_type: Option<String>,
    pub(crate) text: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Packet {
    pub(crate) name: String,
    pub(crate) value: String,
}
