//! The tags of all metrics.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A metric's name in every artifact, as in `time_to_first_token`, and the slot of its values in
/// tables with an entry for each metric.
///
/// There is a constant for each: [`REQUEST_LATENCY`] is the tag of `request_latency`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, schemars::JsonSchema)]
pub struct MetricTag(#[schemars(with = "String")] u8);

impl MetricTag {
    /// Number of tags; all slots are below it.
    pub const COUNT: usize = NAMES.len();

    /// Returns the tag called `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        // There are at most 256 tags: `MetricTag::COUNT` is checked below.
        NAMES.iter().position(|known| *known == name).map(|slot| Self(slot as u8))
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        NAMES[self.0 as usize]
    }

    /// Returns its slot. Slots are in order of computation: a metric's slot is above those of the
    /// metrics that it requires.
    #[must_use]
    pub const fn slot(self) -> usize {
        self.0 as usize
    }

    /// Returns the tag in `slot`, which must be below [`MetricTag::COUNT`].
    pub(crate) const fn in_slot(slot: usize) -> Self {
        assert!(slot < Self::COUNT);
        Self(slot as u8)
    }
}

const _: () = assert!(MetricTag::COUNT <= u8::MAX as usize + 1);

impl fmt::Display for MetricTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Debug for MetricTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for MetricTag {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for MetricTag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::find(&name).ok_or_else(|| de::Error::custom(format!("unknown metric `{name}`")))
    }
}

/// A map from metrics to values, indexed by the metric's slot.
#[derive(Debug, Clone, PartialEq)]
pub struct TagMap<T> {
    slots: Vec<Option<T>>,
}

impl<T> Default for TagMap<T> {
    fn default() -> Self {
        Self { slots: std::iter::repeat_with(|| None).take(MetricTag::COUNT).collect() }
    }
}

impl<T> TagMap<T> {
    #[must_use]
    pub fn get(&self, tag: MetricTag) -> Option<&T> {
        self.slots[tag.slot()].as_ref()
    }

    #[must_use]
    pub fn contains(&self, tag: MetricTag) -> bool {
        self.get(tag).is_some()
    }

    /// Sets the value of `tag`, replacing an earlier one.
    pub fn insert(&mut self, tag: MetricTag, value: T) {
        self.slots[tag.slot()] = Some(value);
    }

    /// Returns the entry of `tag`.
    pub fn slot_mut(&mut self, tag: MetricTag) -> &mut Option<T> {
        &mut self.slots[tag.slot()]
    }
}

impl<T> FromIterator<(MetricTag, T)> for TagMap<T> {
    fn from_iter<I: IntoIterator<Item = (MetricTag, T)>>(pairs: I) -> Self {
        let mut map = Self::default();
        for (tag, value) in pairs {
            map.insert(tag, value);
        }
        map
    }
}

/// A set of metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct TagSet([u64; MetricTag::COUNT.div_ceil(64)]);

impl TagSet {
    /// Adds `tag`.
    pub(crate) const fn insert(&mut self, tag: MetricTag) {
        self.0[tag.slot() / 64] |= Self::bit(tag);
    }

    /// Removes `tag`.
    pub(crate) const fn remove(&mut self, tag: MetricTag) {
        self.0[tag.slot() / 64] &= !Self::bit(tag);
    }

    /// Returns whether `tag` is in the set.
    pub(crate) const fn contains(&self, tag: MetricTag) -> bool {
        self.0[tag.slot() / 64] & Self::bit(tag) != 0
    }

    /// Returns the number of its metrics that come before `tag` in the order of computation.
    pub(crate) fn rank(&self, tag: MetricTag) -> usize {
        let (whole, rest) = self.0.split_at(tag.slot() / 64);
        let below = rest.first().map_or(0, |word| word & (Self::bit(tag) - 1));
        whole.iter().chain([&below]).map(|word| word.count_ones() as usize).sum()
    }

    /// Iterates over its metrics in order of computation.
    pub(crate) fn iter(self) -> impl Iterator<Item = MetricTag> {
        (0..).step_by(64).zip(self.0).flat_map(|(first, word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let slot = first + rest.trailing_zeros() as usize;
                let found = (rest != 0).then(|| MetricTag::in_slot(slot));
                rest &= rest.wrapping_sub(1);
                found
            })
        })
    }

    const fn bit(tag: MetricTag) -> u64 {
        1 << (tag.slot() % 64)
    }
}

/// Declares a constant for each tag, in order of computation.
macro_rules! tags {
    ($($constant:ident = $name:literal,)*) => {
        const NAMES: &[&str] = &[$($name),*];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Slot { $($constant),* }

        $(
            #[doc = concat!("`", $name, "`.")]
            pub const $constant: MetricTag = MetricTag(Slot::$constant as u8);
        )*
    };
}

tags! {
    // Metrics of each request.
    TIME_TO_FIRST_TOKEN = "time_to_first_token",
    TIME_TO_SECOND_TOKEN = "time_to_second_token",
    TIME_TO_FIRST_OUTPUT_TOKEN = "time_to_first_output_token",
    INTER_CHUNK_LATENCY = "inter_chunk_latency",
    CHUNK_COUNT = "chunk_count",
    COALESCED_CHUNK_COUNT = "coalesced_chunk_count",
    STREAM_SETUP_LATENCY = "stream_setup_latency",
    STREAM_PREFILL_LATENCY = "stream_prefill_latency",
    OUTPUT_TOKEN_COUNT = "output_token_count",
    INPUT_SEQUENCE_LENGTH = "input_sequence_length",
    NUM_IMAGES = "num_images",
    VIDEO_INFERENCE_TIME = "video_inference_time",
    VIDEO_PEAK_MEMORY = "video_peak_memory",
    AUDIO_DURATION = "audio_duration",
    REASONING_TOKEN_COUNT = "reasoning_token_count",
    THINKING_EFFICIENCY = "thinking_efficiency",
    THEORETICAL_PREFIX_HIT_BLOCKS = "theoretical_prefix_hit_blocks",
    THEORETICAL_PREFIX_BLOCKS = "theoretical_prefix_blocks",
    USAGE_PROMPT_TOKENS = "usage_prompt_tokens",
    USAGE_PROMPT_CACHE_READ_TOKENS = "usage_prompt_cache_read_tokens",
    USAGE_PROMPT_CACHE_READ_DEVICE_TOKENS = "usage_prompt_cache_read_device_tokens",
    USAGE_PROMPT_CACHE_READ_HOST_TOKENS = "usage_prompt_cache_read_host_tokens",
    USAGE_PROMPT_CACHE_READ_STORAGE_TOKENS = "usage_prompt_cache_read_storage_tokens",
    SERVER_CACHE_HIT_RATE = "server_cache_hit_rate",
    USAGE_PROMPT_CACHE_WRITE_TOKENS = "usage_prompt_cache_write_tokens",
    USAGE_PROMPT_CACHE_MISS_TOKENS = "usage_prompt_cache_miss_tokens",
    USAGE_PROMPT_AUDIO_TOKENS = "usage_prompt_audio_tokens",
    USAGE_TOOL_USE_PROMPT_TOKENS = "usage_tool_use_prompt_tokens",
    USAGE_PROMPT_AUDIO_SECONDS = "usage_prompt_audio_seconds",
    USAGE_COMPLETION_TOKENS = "usage_completion_tokens",
    USAGE_REASONING_TOKENS = "usage_reasoning_tokens",
    USAGE_COMPLETION_AUDIO_TOKENS = "usage_completion_audio_tokens",
    USAGE_ACCEPTED_PREDICTION_TOKENS = "usage_accepted_prediction_tokens",
    USAGE_REJECTED_PREDICTION_TOKENS = "usage_rejected_prediction_tokens",
    USAGE_TOTAL_TOKENS = "usage_total_tokens",
    TOOL_CALL_COUNT = "tool_call_count",
    INVALID_TOOL_CALL_COUNT = "invalid_tool_call_count",
    USAGE_PROMPT_TOKENS_DIFF_PCT = "usage_prompt_tokens_diff_pct",
    USAGE_REASONING_TOKENS_DIFF_PCT = "usage_reasoning_tokens_diff_pct",
    REQUESTED_OSL = "requested_osl",
    ERROR_ISL = "error_isl",
    ERROR_OSL = "error_osl",
    REQUEST_LATENCY = "request_latency",
    EFFECTIVE_TIME_TO_FIRST_TOKEN = "effective_time_to_first_token",
    EFFECTIVE_LATENCY = "effective_latency",
    CREDIT_TO_START_LATENCY = "credit_to_start_latency",
    CREDIT_DROP_LATENCY = "credit_drop_latency",
    REPLAY_SEND_SCHEDULE_OFFSET = "replay_send_schedule_offset",
    HTTP_REQ_BLOCKED = "http_req_blocked",
    HTTP_REQ_DNS_LOOKUP = "http_req_dns_lookup",
    HTTP_REQ_CONNECTING = "http_req_connecting",
    HTTP_REQ_TLS_HANDSHAKING = "http_req_tls_handshaking",
    HTTP_REQ_SENDING = "http_req_sending",
    HTTP_REQ_WAITING = "http_req_waiting",
    HTTP_REQ_RECEIVING = "http_req_receiving",
    HTTP_REQ_CONNECTION_REUSED = "http_req_connection_reused",
    HTTP_REQ_DATA_SENT = "http_req_data_sent",
    HTTP_REQ_CHUNKS_SENT = "http_req_chunks_sent",
    HTTP_REQ_DATA_RECEIVED = "http_req_data_received",
    HTTP_REQ_CHUNKS_RECEIVED = "http_req_chunks_received",
    HTTP_REQ_CONNECTION_OVERHEAD = "http_req_connection_overhead",
    HTTP_REQ_DURATION = "http_req_duration",
    HTTP_REQ_TOTAL = "http_req_total",
    SERVER_FRONT_END_TIME = "server_front_end_time",
    SERVER_QUEUE_TIME = "server_queue_time",
    SERVER_PREFILL_TIME = "server_prefill_time",
    SERVER_QUEUE_AND_PREFILL_TIME = "server_queue_and_prefill_time",
    SERVER_KV_TRANSFER_TIME = "server_kv_transfer_time",
    SERVER_DECODE_TIME = "server_decode_time",
    SERVER_PREFILL_AND_DECODE_TIME = "server_prefill_and_decode_time",
    SERVER_KV_TRANSFER_AND_DECODE_TIME = "server_kv_transfer_and_decode_time",
    SERVER_TIME_TO_FIRST_TOKEN = "server_time_to_first_token",
    SERVER_LATENCY = "server_latency",
    END_TOKEN_TIME = "end_token_time",
    SERVER_UNATTRIBUTED_TIME_TO_FIRST_TOKEN = "server_unattributed_time_to_first_token",
    SERVER_UNATTRIBUTED_TIME = "server_unattributed_time",
    SPEC_DECODE_ACCEPTANCE_LENGTH = "spec_decode_acceptance_length",
    SPEC_DECODE_DRAFT_ACCEPTANCE_RATE = "spec_decode_draft_acceptance_rate",
    SPEC_DECODE_STEPS = "spec_decode_steps",
    SPEC_DECODE_ACCEPTED_DRAFT_TOKENS = "spec_decode_accepted_draft_tokens",
    SPEC_DECODE_DRAFT_TOKENS = "spec_decode_draft_tokens",
    DECODE_DURATION = "decode_duration",
    FULL_DECODE_DURATION = "full_decode_duration",
    PREFILL_THROUGHPUT_PER_USER = "prefill_throughput_per_user",
    OUTPUT_SEQUENCE_LENGTH = "output_sequence_length",
    E2E_OUTPUT_TOKEN_THROUGHPUT = "e2e_output_token_throughput",
    IMAGE_THROUGHPUT = "image_throughput",
    IMAGE_LATENCY = "image_latency",
    RTFX = "rtfx",
    USAGE_COMPLETION_TOKENS_DIFF_PCT = "usage_completion_tokens_diff_pct",
    OSL_MISMATCH_DIFF_PCT = "osl_mismatch_diff_pct",
    INTER_TOKEN_LATENCY = "inter_token_latency",
    OUTPUT_TOKEN_THROUGHPUT_PER_USER = "output_token_throughput_per_user",
    FULL_RESPONSE_INTER_TOKEN_LATENCY = "full_response_inter_token_latency",
    FULL_RESPONSE_OUTPUT_TOKEN_THROUGHPUT_PER_USER =
        "full_response_output_token_throughput_per_user",
    // Aggregates over requests.
    USAGE_DISCREPANCY_COUNT = "usage_discrepancy_count",
    GOOD_REQUEST_COUNT = "good_request_count",
    CONTEXT_OVERFLOW_COUNT = "context_overflow_count",
    SKIPPED_CONTEXT_OVERFLOW_COUNT = "skipped_context_overflow_count",
    REQUEST_COUNT = "request_count",
    ERROR_REQUEST_COUNT = "error_request_count",
    INCOMPLETE_HISTORY_COUNT = "incomplete_history_count",
    MIN_REQUEST_TIMESTAMP = "min_request_timestamp",
    MAX_RESPONSE_TIMESTAMP = "max_response_timestamp",
    OSL_MISMATCH_COUNT = "osl_mismatch_count",
    BUFFERED_RESPONSE_COUNT = "buffered_response_count",
    // Metrics derived from others.
    TOTAL_OUTPUT_TOKENS = "total_output_tokens",
    TOTAL_ISL = "total_isl",
    TOTAL_REASONING_TOKENS = "total_reasoning_tokens",
    OVERALL_THINKING_EFFICIENCY = "overall_thinking_efficiency",
    TOTAL_USAGE_PROMPT_TOKENS = "total_usage_prompt_tokens",
    TOTAL_USAGE_PROMPT_CACHE_READ_TOKENS = "total_usage_prompt_cache_read_tokens",
    OVERALL_USAGE_PROMPT_CACHE_READ_PCT = "overall_usage_prompt_cache_read_pct",
    TOTAL_USAGE_PROMPT_CACHE_WRITE_TOKENS = "total_usage_prompt_cache_write_tokens",
    TOTAL_USAGE_PROMPT_CACHE_MISS_TOKENS = "total_usage_prompt_cache_miss_tokens",
    TOTAL_USAGE_PROMPT_AUDIO_TOKENS = "total_usage_prompt_audio_tokens",
    TOTAL_USAGE_TOOL_USE_PROMPT_TOKENS = "total_usage_tool_use_prompt_tokens",
    TOTAL_USAGE_PROMPT_AUDIO_SECONDS = "total_usage_prompt_audio_seconds",
    TOTAL_USAGE_COMPLETION_TOKENS = "total_usage_completion_tokens",
    TOTAL_USAGE_REASONING_TOKENS = "total_usage_reasoning_tokens",
    TOTAL_USAGE_COMPLETION_AUDIO_TOKENS = "total_usage_completion_audio_tokens",
    TOTAL_USAGE_ACCEPTED_PREDICTION_TOKENS = "total_usage_accepted_prediction_tokens",
    TOTAL_USAGE_REJECTED_PREDICTION_TOKENS = "total_usage_rejected_prediction_tokens",
    TOTAL_USAGE_TOTAL_TOKENS = "total_usage_total_tokens",
    TOTAL_TOOL_CALLS = "total_tool_calls",
    TOTAL_INVALID_TOOL_CALLS = "total_invalid_tool_calls",
    TOTAL_ERROR_ISL = "total_error_isl",
    TOTAL_SPEC_DECODE_STEPS = "total_spec_decode_steps",
    TOTAL_ACCEPTED_DRAFT_TOKENS = "total_accepted_draft_tokens",
    TOTAL_DRAFT_TOKENS = "total_draft_tokens",
    SPEC_DECODE_TOKEN_WEIGHTED_ACCEPTANCE_LENGTH = "spec_decode_token_weighted_acceptance_length",
    SPEC_DECODE_OVERALL_DRAFT_ACCEPTANCE_RATE = "spec_decode_overall_draft_acceptance_rate",
    ADJ_TIME_TO_FIRST_TOKEN = "adj_time_to_first_token",
    COMPLETED_REQUEST_COUNT = "completed_request_count",
    REQUEST_ERROR_RATE = "request_error_rate",
    BENCHMARK_DURATION = "benchmark_duration",
    REQUEST_THROUGHPUT = "request_throughput",
    EFFECTIVE_CONCURRENCY = "effective_concurrency",
    EFFECTIVE_PREFILL_THROUGHPUT = "effective_prefill_throughput",
    EFFECTIVE_DECODE_CONCURRENCY = "effective_decode_concurrency",
    EFFECTIVE_PREFILL_CONCURRENCY = "effective_prefill_concurrency",
    EFFECTIVE_PREFILL_THROUGHPUT_PER_USER = "effective_prefill_throughput_per_user",
    ACTIVE_PREFILL_THROUGHPUT = "active_prefill_throughput",
    ACTIVE_PREFILL_THROUGHPUT_PER_USER = "active_prefill_throughput_per_user",
    REPLAY_SCHED_LAG_P50 = "replay_sched_lag_p50",
    REPLAY_SCHED_LAG_P90 = "replay_sched_lag_p90",
    REPLAY_SCHED_LAG_P99 = "replay_sched_lag_p99",
    REPLAY_SCHED_DEGRADED = "replay_sched_degraded",
    TOTAL_OSL = "total_osl",
    OUTPUT_TOKEN_THROUGHPUT = "output_token_throughput",
    THEORETICAL_PREFIX_CACHE_HIT = "theoretical_prefix_cache_hit",
    COALESCED_CHUNK_SHARE = "coalesced_chunk_share",
    INPUT_TOKEN_THROUGHPUT = "input_token_throughput",
    TOTAL_TOKEN_THROUGHPUT = "total_token_throughput",
    GOOD_REQUEST_FRACTION = "good_request_fraction",
    GOODPUT = "goodput",
    ADJ_REQUEST_LATENCY = "adj_request_latency",
    ADJ_DECODE_DURATION = "adj_decode_duration",
    EFFECTIVE_DECODE_THROUGHPUT = "effective_decode_throughput",
    EFFECTIVE_TOTAL_THROUGHPUT = "effective_total_throughput",
    EFFECTIVE_DECODE_THROUGHPUT_PER_USER = "effective_decode_throughput_per_user",
    TOKENS_IN_FLIGHT = "tokens_in_flight",
    ACTIVE_DECODE_THROUGHPUT = "active_decode_throughput",
    ACTIVE_DECODE_THROUGHPUT_PER_USER = "active_decode_throughput_per_user",
    ACTIVE_TOTAL_THROUGHPUT = "active_total_throughput",
    ADJ_INTER_TOKEN_LATENCY = "adj_inter_token_latency",
    // Latencies without the network's round trip, computed once it is known.
    NETWORK_RTT = "network_rtt",
    NETWORK_ADJUSTED_TIME_TO_FIRST_TOKEN = "network_adjusted_time_to_first_token",
    NETWORK_ADJUSTED_TIME_TO_FIRST_OUTPUT_TOKEN = "network_adjusted_time_to_first_output_token",
    NETWORK_ADJUSTED_REQUEST_LATENCY = "network_adjusted_request_latency",
    // Sessions, computed after the run.
    SESSION_DURATION = "session_duration",
    SESSION_SERVER_TIME = "session_server_time",
    SESSION_DELAY_TIME = "session_delay_time",
    SESSION_SCHEDULE_TIME = "session_schedule_time",
    SESSION_TURNS = "session_turns",
    SESSION_INPUT_TOKENS = "session_input_tokens",
    SESSION_OUTPUT_TOKENS = "session_output_tokens",
    SESSION_CACHE_READ_PCT = "session_cache_read_pct",
    SESSION_FIRST_TIME_TO_FIRST_TOKEN = "session_first_time_to_first_token",
    SESSION_LATER_TIME_TO_FIRST_TOKEN = "session_later_time_to_first_token",
    SESSION_COUNT = "session_count",
    ERROR_SESSION_COUNT = "error_session_count",
    CANCELLED_SESSION_COUNT = "cancelled_session_count",
    SESSION_THROUGHPUT = "session_throughput",
    GOOD_SESSION_COUNT = "good_session_count",
    GOOD_SESSION_FRACTION = "good_session_fraction",
    SESSION_GOODPUT = "session_goodput",
    // What serves the model and what that costs, computed after the run.
    GPU_COUNT = "gpu_count",
    OUTPUT_TOKEN_THROUGHPUT_PER_GPU = "output_token_throughput_per_gpu",
    TOTAL_TOKEN_THROUGHPUT_PER_GPU = "total_token_throughput_per_gpu",
    REQUEST_THROUGHPUT_PER_GPU = "request_throughput_per_gpu",
    USERS_PER_GPU = "users_per_gpu",
    COST_PER_MILLION_INPUT_TOKENS = "cost_per_million_input_tokens",
    COST_PER_MILLION_OUTPUT_TOKENS = "cost_per_million_output_tokens",
    COST_PER_MILLION_TOKENS = "cost_per_million_tokens",
    COST_PER_REQUEST = "cost_per_request",
    // Power and energy of GPUs, computed after the run.
    NVIDIA_TOTAL_GPU_ENERGY = "nvidia_total_gpu_energy",
    NVIDIA_GPU_ENERGY_ERROR = "nvidia_gpu_energy_error",
    NVIDIA_GPU_ENERGY_ABOVE_IDLE = "nvidia_gpu_energy_above_idle",
    NVIDIA_AVERAGE_GPU_POWER = "nvidia_average_gpu_power",
    NVIDIA_TOTAL_GPU_POWER = "nvidia_total_gpu_power",
    NVIDIA_IDLE_GPU_POWER = "nvidia_idle_gpu_power",
    NVIDIA_OUTPUT_TOKENS_PER_JOULE = "nvidia_output_tokens_per_joule",
    NVIDIA_ENERGY_PER_OUTPUT_TOKEN = "nvidia_energy_per_output_token",
    NVIDIA_ENERGY_PER_TOTAL_TOKEN = "nvidia_energy_per_total_token",
    NVIDIA_ENERGY_PER_MILLION_OUTPUT_TOKENS = "nvidia_energy_per_million_output_tokens",
    NVIDIA_ENERGY_PER_MILLION_TOKENS = "nvidia_energy_per_million_tokens",
    NVIDIA_ENERGY_PER_REQUEST = "nvidia_energy_per_request",
    NVIDIA_ENERGY_PER_USER = "nvidia_energy_per_user",
    NVIDIA_ENERGY_DELAY_PRODUCT = "nvidia_energy_delay_product",
    NVIDIA_PERFORMANCE_PER_WATT = "nvidia_performance_per_watt",
    NVIDIA_OUTPUT_TPS_PER_WATT = "nvidia_output_tps_per_watt",
    NVIDIA_GOODPUT_PER_WATT = "nvidia_goodput_per_watt",
    AMD_TOTAL_GPU_ENERGY = "amd_total_gpu_energy",
    AMD_GPU_ENERGY_ERROR = "amd_gpu_energy_error",
    AMD_GPU_ENERGY_ABOVE_IDLE = "amd_gpu_energy_above_idle",
    AMD_AVERAGE_GPU_POWER = "amd_average_gpu_power",
    AMD_TOTAL_GPU_POWER = "amd_total_gpu_power",
    AMD_IDLE_GPU_POWER = "amd_idle_gpu_power",
    AMD_OUTPUT_TOKENS_PER_JOULE = "amd_output_tokens_per_joule",
    AMD_ENERGY_PER_OUTPUT_TOKEN = "amd_energy_per_output_token",
    AMD_ENERGY_PER_TOTAL_TOKEN = "amd_energy_per_total_token",
    AMD_ENERGY_PER_MILLION_OUTPUT_TOKENS = "amd_energy_per_million_output_tokens",
    AMD_ENERGY_PER_MILLION_TOKENS = "amd_energy_per_million_tokens",
    AMD_ENERGY_PER_REQUEST = "amd_energy_per_request",
    AMD_ENERGY_PER_USER = "amd_energy_per_user",
    AMD_ENERGY_DELAY_PRODUCT = "amd_energy_delay_product",
    AMD_PERFORMANCE_PER_WATT = "amd_performance_per_watt",
    AMD_OUTPUT_TPS_PER_WATT = "amd_output_tps_per_watt",
    AMD_GOODPUT_PER_WATT = "amd_goodput_per_watt",
}
