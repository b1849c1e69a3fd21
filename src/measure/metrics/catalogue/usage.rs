//! Token counts as the server reports them.

use base::units::Unit;
use client::server_family::CachedTokens;

use super::ratio;
use crate::metrics::ConsoleGroup::{Audio, Cache, Prediction, Reasoning, Usage};
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Token counts as the server reports them in `usage`, and their \
    totals over successful requests. In a stream the largest value of each field counts. Absent where \
    the server does not report the field.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(tag::THEORETICAL_PREFIX_HIT_BLOCKS, "Theoretical Prefix Hit Blocks", Unit::Count, |facts, _| {
        facts.known_blocks.map(|blocks| blocks.known.into())
    })
    .short("Prefix Hit Blocks")
    .flagged(Flag::LARGER_IS_BETTER)
    .off_console()
    .says("Number of the prompt's first blocks that earlier requests of its trace have.", "The requests of a trace are in the recorded order. Traces of `weka_trace` only."),
    Metric::record(tag::THEORETICAL_PREFIX_BLOCKS, "Theoretical Prefix Blocks", Unit::Count, |facts, _| {
        facts.known_blocks.map(|blocks| blocks.all.into())
    })
    .short("Prefix Blocks")
    .off_console()
    .says("Number of the prompt's blocks.", "The number of `hash_ids`. Traces of `weka_trace` only."),
    Metric::share_of(tag::THEORETICAL_PREFIX_CACHE_HIT, "Theoretical Prefix Cache Hit", &[tag::THEORETICAL_PREFIX_HIT_BLOCKS, tag::THEORETICAL_PREFIX_BLOCKS])
    .short("Theoretical Cache Hit")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 1005)
    .says("Share of the blocks of prompts that a prefix cache that keeps everything would find.", "100 * sum(theoretical_prefix_hit_blocks) / sum(theoretical_prefix_blocks); `sum` and `count` are these two sums."),
    Metric::record(tag::USAGE_PROMPT_TOKENS, "Usage Prompt Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.prompt_tokens)
    })
    .short("Usage Prompt")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::TOKENIZES_INPUT_ONLY))
    .at(Usage, 1000)
    .says("Prompt tokens, as the server reports them.", "`usage.prompt_tokens` or `input_tokens`."),
    Metric::record(tag::USAGE_PROMPT_CACHE_READ_TOKENS, "Usage Prompt Cache Read Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.prompt_cache_read_tokens)
    })
    .short("Usage Prompt Cache Read")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 1010)
    .says("Prompt tokens read from the cache, as the server reports them.", "`prompt_tokens_details.cached_tokens`, `cache_read_input_tokens` (Anthropic), `prompt_cache_hit_tokens` (DeepSeek)."),
    Metric::record(tag::USAGE_PROMPT_CACHE_READ_DEVICE_TOKENS, "Usage Prompt Cache Read Device Tokens", Unit::Tokens, |facts, _| {
        Some(cached(facts)?.device? as f64)
    })
    .short("Cache Read Device")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 1011)
    .says("Cached prompt tokens that were in the memory of the GPU.", "SGLang with a hierarchical cache: `cached_tokens_details.device`."),
    Metric::record(tag::USAGE_PROMPT_CACHE_READ_HOST_TOKENS, "Usage Prompt Cache Read Host Tokens", Unit::Tokens, |facts, _| {
        Some(cached(facts)?.host? as f64)
    })
    .short("Cache Read Host")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 1012)
    .says("Cached prompt tokens that were loaded from the memory of the host.", "SGLang with a hierarchical cache: `cached_tokens_details.host`."),
    Metric::record(tag::USAGE_PROMPT_CACHE_READ_STORAGE_TOKENS, "Usage Prompt Cache Read Storage Tokens", Unit::Tokens, |facts, _| {
        Some(cached(facts)?.storage? as f64)
    })
    .short("Cache Read Storage")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 1013)
    .says("Cached prompt tokens that were loaded from storage.", "SGLang with a hierarchical cache: `cached_tokens_details.storage`."),
    Metric::record(tag::SERVER_CACHE_HIT_RATE, "Server Cache Hit Rate", Unit::Percent, |facts, _| {
        Some(100.0 * cached(facts)?.hit_rate?)
    })
    .float()
    .short("Server Cache Hit Rate")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 1014)
    .says("Share of the prompt's blocks that were in the cache of the worker that the router chose.", "Dynamo with its KV router: `kv_hit_rate`, also with separate workers, whose `cached_tokens` is 0."),
    Metric::record(tag::USAGE_PROMPT_CACHE_WRITE_TOKENS, "Usage Prompt Cache Write Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.prompt_cache_write_tokens)
    })
    .short("Usage Prompt Cache Write")
    .at(Cache, 1015)
    .says("Prompt tokens written to the cache, as the server reports them.", "`cache_creation_input_tokens` (Anthropic), `created_cache_tokens` (vLLM), `cache_write_tokens`."),
    Metric::record(tag::USAGE_PROMPT_CACHE_MISS_TOKENS, "Usage Prompt Cache Miss Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.prompt_cache_miss_tokens)
    })
    .short("Usage Prompt Cache Miss")
    .at(Cache, 1017)
    .says("Prompt tokens that missed the cache, as the server reports them.", "`prompt_cache_miss_tokens` (DeepSeek)."),
    Metric::record(tag::USAGE_PROMPT_AUDIO_TOKENS, "Usage Prompt Audio Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.prompt_audio_tokens)
    })
    .short("Usage Prompt Audio")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Audio, 1020)
    .says("Audio tokens of the prompt, as the server reports them.", "`prompt_tokens_details.audio_tokens`."),
    Metric::record(tag::USAGE_TOOL_USE_PROMPT_TOKENS, "Usage Tool Use Prompt Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.tool_use_prompt_tokens)
    })
    .short("Usage Tool Prompt")
    .at(Usage, 1030)
    .says("Prompt tokens of tool declarations, as the server reports them.", "`toolUsePromptTokenCount` (Gemini)."),
    Metric::record(tag::USAGE_PROMPT_AUDIO_SECONDS, "Usage Prompt Audio Seconds", Unit::Seconds, |facts, _| {
        facts.response.usage?.prompt_audio_seconds
    })
    .float()
    .short("Usage Prompt Audio Sec")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Audio, 1040)
    .says("Seconds of audio in the prompt, as the server reports them.", "`prompt_audio_seconds` (Mistral)."),
    Metric::record(tag::USAGE_COMPLETION_TOKENS, "Usage Completion Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.completion_tokens)
    })
    .short("Usage Completion")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Usage, 1100)
    .says("Completion tokens, reasoning included, as the server reports them.", "`usage.completion_tokens` or `output_tokens`."),
    Metric::record(tag::USAGE_REASONING_TOKENS, "Usage Reasoning Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.reasoning_tokens)
    })
    .short("Usage Reasoning")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Reasoning, 1110)
    .says("Reasoning tokens, as the server reports them.", "`completion_tokens_details.reasoning_tokens`."),
    Metric::record(tag::USAGE_COMPLETION_AUDIO_TOKENS, "Usage Completion Audio Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.completion_audio_tokens)
    })
    .short("Usage Completion Audio")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Audio, 1120)
    .says("Audio tokens of the completion, as the server reports them.", "`completion_tokens_details.audio_tokens`."),
    Metric::record(tag::USAGE_ACCEPTED_PREDICTION_TOKENS, "Usage Accepted Prediction Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.accepted_prediction_tokens)
    })
    .short("Usage Accepted Pred")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Prediction, 1130)
    .says("Predicted tokens that the model used, as the server reports them.", "`completion_tokens_details.accepted_prediction_tokens`."),
    Metric::record(tag::USAGE_REJECTED_PREDICTION_TOKENS, "Usage Rejected Prediction Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.rejected_prediction_tokens)
    })
    .short("Usage Rejected Pred")
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .at(Prediction, 1140)
    .says("Predicted tokens that the model did not use, as the server reports them.", "`completion_tokens_details.rejected_prediction_tokens`."),
    Metric::record(tag::USAGE_TOTAL_TOKENS, "Usage Total Tokens", Unit::Tokens, |facts, _| {
        facts.usage(|usage| usage.total_tokens)
    })
    .short("Usage Total")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Usage, 1200)
    .says("Prompt and completion tokens, as the server reports them.", "`usage.total_tokens`."),
    Metric::sum_of(tag::TOTAL_USAGE_PROMPT_TOKENS, "Total Usage Prompt Tokens", Unit::Tokens, &[tag::USAGE_PROMPT_TOKENS])
    .short("Total Usage Prompt")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::TOKENIZES_INPUT_ONLY))
    .at(Usage, 2000)
    .says("Prompt tokens of all requests, as the server reports them.", "Σ usage_prompt_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_PROMPT_CACHE_READ_TOKENS, "Total Usage Prompt Cache Read Tokens", Unit::Tokens, &[tag::USAGE_PROMPT_CACHE_READ_TOKENS])
    .short("Total Usage Prompt Cache Read")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 2010)
    .says("Prompt tokens read from the cache of all requests, as the server reports them.", "Σ usage_prompt_cache_read_tokens."),
    Metric::derived(
        tag::OVERALL_USAGE_PROMPT_CACHE_READ_PCT,
        "Overall Usage Prompt Cache Read %",
        Unit::Percent,
        |totals| {
            let read = totals.total(tag::TOTAL_USAGE_PROMPT_CACHE_READ_TOKENS)?;
            Some(ratio(read, totals.total(tag::TOTAL_USAGE_PROMPT_TOKENS)?)? * 100.0)
        },
    )
    .short("Overall Cache Read %")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Cache, 2012)
    .requires(&[tag::TOTAL_USAGE_PROMPT_CACHE_READ_TOKENS, tag::TOTAL_USAGE_PROMPT_TOKENS])
    .says(
        "Share of all prompt tokens that the server read from its cache.",
        "total_usage_prompt_cache_read_tokens / total_usage_prompt_tokens · 100. Absent where the \
         latter is zero.",
    ),
    Metric::sum_of(tag::TOTAL_USAGE_PROMPT_CACHE_WRITE_TOKENS, "Total Usage Prompt Cache Write Tokens", Unit::Tokens, &[tag::USAGE_PROMPT_CACHE_WRITE_TOKENS])
    .short("Total Usage Prompt Cache Write")
    .at(Cache, 2015)
    .says("Prompt tokens written to the cache of all requests, as the server reports them.", "Σ usage_prompt_cache_write_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_PROMPT_CACHE_MISS_TOKENS, "Total Usage Prompt Cache Miss Tokens", Unit::Tokens, &[tag::USAGE_PROMPT_CACHE_MISS_TOKENS])
    .short("Total Usage Prompt Cache Miss")
    .at(Cache, 2017)
    .says("Prompt tokens that missed the cache of all requests, as the server reports them.", "Σ usage_prompt_cache_miss_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_PROMPT_AUDIO_TOKENS, "Total Usage Prompt Audio Tokens", Unit::Tokens, &[tag::USAGE_PROMPT_AUDIO_TOKENS])
    .short("Total Usage Prompt Audio")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Audio, 2020)
    .says("Audio tokens of the prompt of all requests, as the server reports them.", "Σ usage_prompt_audio_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_TOOL_USE_PROMPT_TOKENS, "Total Usage Tool Use Prompt Tokens", Unit::Tokens, &[tag::USAGE_TOOL_USE_PROMPT_TOKENS])
    .short("Total Usage Tool Prompt")
    .at(Usage, 2030)
    .says("Prompt tokens of tool declarations of all requests, as the server reports them.", "Σ usage_tool_use_prompt_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_PROMPT_AUDIO_SECONDS, "Total Usage Prompt Audio Seconds", Unit::Seconds, &[tag::USAGE_PROMPT_AUDIO_SECONDS])
    .float()
    .short("Total Usage Prompt Audio Sec")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Audio, 2040)
    .says("Seconds of audio in the prompt of all requests, as the server reports them.", "Σ usage_prompt_audio_seconds."),
    Metric::sum_of(tag::TOTAL_USAGE_COMPLETION_TOKENS, "Total Usage Completion Tokens", Unit::Tokens, &[tag::USAGE_COMPLETION_TOKENS])
    .short("Total Usage Completion")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Usage, 2100)
    .says("Completion tokens, reasoning included of all requests, as the server reports them.", "Σ usage_completion_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_REASONING_TOKENS, "Total Usage Reasoning Tokens", Unit::Tokens, &[tag::USAGE_REASONING_TOKENS])
    .short("Total Usage Reasoning")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Reasoning, 2110)
    .says("Reasoning tokens of all requests, as the server reports them.", "Σ usage_reasoning_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_COMPLETION_AUDIO_TOKENS, "Total Usage Completion Audio Tokens", Unit::Tokens, &[tag::USAGE_COMPLETION_AUDIO_TOKENS])
    .short("Total Usage Comp Audio")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER).union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Audio, 2120)
    .says("Audio tokens of the completion of all requests, as the server reports them.", "Σ usage_completion_audio_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_ACCEPTED_PREDICTION_TOKENS, "Total Usage Accepted Prediction Tokens", Unit::Tokens, &[tag::USAGE_ACCEPTED_PREDICTION_TOKENS])
    .short("Total Usage Accepted Pred")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::LARGER_IS_BETTER))
    .at(Prediction, 2130)
    .says("Predicted tokens that the model used of all requests, as the server reports them.", "Σ usage_accepted_prediction_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_REJECTED_PREDICTION_TOKENS, "Total Usage Rejected Prediction Tokens", Unit::Tokens, &[tag::USAGE_REJECTED_PREDICTION_TOKENS])
    .short("Total Usage Rejected Pred")
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .at(Prediction, 2140)
    .says("Predicted tokens that the model did not use of all requests, as the server reports them.", "Σ usage_rejected_prediction_tokens."),
    Metric::sum_of(tag::TOTAL_USAGE_TOTAL_TOKENS, "Total Usage Total Tokens", Unit::Tokens, &[tag::USAGE_TOTAL_TOKENS])
    .short("Total Usage Total")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(Usage, 2200)
    .says("Prompt and completion tokens of all requests, as the server reports them.", "Σ usage_total_tokens."),
];

fn cached<'a>(facts: &Facts<'a>) -> Option<&'a CachedTokens> {
    facts.response.server.as_deref().map(|server| &server.cached)
}
