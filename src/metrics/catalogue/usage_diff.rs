//! How far the server's token counts are from our own.

use super::ratio;
use crate::metrics::MetricTag;
use crate::metrics::metric::{Kind, Metric, MetricFlags as Flag, RecordValues};
use crate::units::Unit;

pub(super) const ABOUT: &str = "How far the token counts in the server's `usage` are from the \
    tokenizer's: a tokenizer that is not the model's shows here. Not with \
    `--use-server-token-count`, which leaves nothing to compare.";

const PROMPT: MetricTag = "usage_prompt_tokens_diff_pct";
const COMPLETION: MetricTag = "usage_completion_tokens_diff_pct";
const REASONING: MetricTag = "usage_reasoning_tokens_diff_pct";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(PROMPT, "Usage Prompt Diff %", Unit::Percent, |_, values| {
        difference(values, "usage_prompt_tokens", "input_sequence_length")
    })
    .float()
    .short("Prompt Diff")
    .flagged(Flag::TOKENIZES_INPUT_ONLY.union(Flag::USAGE_DIFF_ONLY))
    .off_console()
    .requires(&["input_sequence_length", "usage_prompt_tokens"])
    .says(
        "Difference between the server's and our count of prompt tokens.",
        "|usage_prompt_tokens − input_sequence_length| / input_sequence_length · 100. Absent \
         where our count is zero.",
    ),
    Metric::record(COMPLETION, "Usage Completion Diff %", Unit::Percent, |_, values| {
        difference(values, "usage_completion_tokens", "output_sequence_length")
    })
    .float()
    .short("Completion Diff")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::USAGE_DIFF_ONLY))
    .off_console()
    .requires(&["output_sequence_length", "usage_completion_tokens"])
    .says(
        "Difference between the server's and our count of generated tokens.",
        "|usage_completion_tokens − output_sequence_length| / output_sequence_length · 100. \
         Absent where our count is zero.",
    ),
    Metric::record(REASONING, "Usage Reasoning Diff %", Unit::Percent, |_, values| {
        difference(values, "usage_reasoning_tokens", "reasoning_token_count")
    })
    .float()
    .short("Reasoning Diff")
    .flagged(
        Flag::PRODUCES_TOKENS_ONLY.union(Flag::SUPPORTS_REASONING).union(Flag::USAGE_DIFF_ONLY),
    )
    .off_console()
    .requires(&["reasoning_token_count", "usage_reasoning_tokens"])
    .says(
        "Difference between the server's and our count of reasoning tokens.",
        "|usage_reasoning_tokens − reasoning_token_count| / reasoning_token_count · 100. Absent \
         where our count is zero.",
    ),
    Metric::aggregate(
        "usage_discrepancy_count",
        "Usage Discrepancy Count",
        Unit::Requests,
        Kind::Sum(|observation, settings| {
            let compared = [PROMPT, COMPLETION, REASONING]
                .into_iter()
                .filter_map(|tag| observation.values.scalar(tag));
            let largest = compared.reduce(f64::max)?;
            Some(f64::from(u8::from(largest > settings.usage_diff_threshold_percent)))
        }),
    )
    .short("Discrepancies")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS.union(Flag::USAGE_DIFF_ONLY))
    .off_console()
    .says(
        "Requests of which a count differs by more than a threshold.",
        "count(records with any difference > 10 %, or \
         `AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD`). Absent where nothing was compared.",
    ),
];

fn difference(values: &RecordValues, reported: MetricTag, counted: MetricTag) -> Option<f64> {
    let (reported, counted) = (values.scalar(reported)?, values.scalar(counted)?);
    Some(ratio(reported - counted, counted)?.abs() * 100.0)
}
