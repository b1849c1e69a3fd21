//! Difference between the server's and the client's token counts.

use base::units::Unit;

use super::ratio;
use crate::metrics::MetricTag;
use crate::metrics::metric::{Metric, MetricFlags as Flag, MetricKind, RecordValues};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Difference between the token counts in the server's `usage` and \
                                the tokenizer's. A large difference indicates that the tokenizer \
                                is not the model's own. Not with `--use-server-token-count`, where \
                                there is nothing to compare.";

const PROMPT: MetricTag = tag::USAGE_PROMPT_TOKENS_DIFF_PCT;
const COMPLETION: MetricTag = tag::USAGE_COMPLETION_TOKENS_DIFF_PCT;
const REASONING: MetricTag = tag::USAGE_REASONING_TOKENS_DIFF_PCT;

pub(super) static ROWS: &[Metric] = &[
    Metric::record(PROMPT, "Usage Prompt Diff %", Unit::Percent, |_, values| {
        difference(values, tag::USAGE_PROMPT_TOKENS, tag::INPUT_SEQUENCE_LENGTH)
    })
    .float()
    .short("Prompt Diff")
    .flagged(Flag::TOKENIZES_INPUT_ONLY.union(Flag::USAGE_DIFF_ONLY))
    .off_console()
    .requires(&[tag::INPUT_SEQUENCE_LENGTH, tag::USAGE_PROMPT_TOKENS])
    .says(
        "Difference between the server's and the client's count of prompt tokens.",
        "|usage_prompt_tokens − input_sequence_length| / input_sequence_length · 100. Absent \
         if the client's count is zero.",
    ),
    Metric::record(COMPLETION, "Usage Completion Diff %", Unit::Percent, |_, values| {
        difference(values, tag::USAGE_COMPLETION_TOKENS, tag::OUTPUT_SEQUENCE_LENGTH)
    })
    .float()
    .short("Completion Diff")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::USAGE_DIFF_ONLY))
    .off_console()
    .requires(&[tag::OUTPUT_SEQUENCE_LENGTH, tag::USAGE_COMPLETION_TOKENS])
    .says(
        "Difference between the server's and the client's count of generated tokens.",
        "|usage_completion_tokens − output_sequence_length| / output_sequence_length · 100. \
         Absent if the client's count is zero.",
    ),
    Metric::record(REASONING, "Usage Reasoning Diff %", Unit::Percent, |_, values| {
        difference(values, tag::USAGE_REASONING_TOKENS, tag::REASONING_TOKEN_COUNT)
    })
    .float()
    .short("Reasoning Diff")
    .flagged(
        Flag::PRODUCES_TOKENS_ONLY.union(Flag::SUPPORTS_REASONING).union(Flag::USAGE_DIFF_ONLY),
    )
    .off_console()
    .requires(&[tag::REASONING_TOKEN_COUNT, tag::USAGE_REASONING_TOKENS])
    .says(
        "Difference between the server's and the client's count of reasoning tokens.",
        "|usage_reasoning_tokens − reasoning_token_count| / reasoning_token_count · 100. Absent \
         if the client's count is zero.",
    ),
    Metric::aggregate(
        tag::USAGE_DISCREPANCY_COUNT,
        "Usage Discrepancy Count",
        Unit::Requests,
        MetricKind::Tally(|observation, settings| {
            let compared = [PROMPT, COMPLETION, REASONING]
                .into_iter()
                .filter_map(|tag| observation.values.scalar(tag));
            let largest = compared.reduce(f64::max)?;
            Some(largest > settings.usage_diff_threshold_percent)
        }),
    )
    .short("Discrepancies")
    .flagged(Flag::NO_INDIVIDUAL_RECORDS.union(Flag::USAGE_DIFF_ONLY))
    .off_console()
    .says(
        "Requests in which a count differs by more than a threshold.",
        "count(records with any difference > 10 %, or \
         `AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD`). Absent if nothing was compared.",
    ),
];

fn difference(values: &RecordValues, reported: MetricTag, counted: MetricTag) -> Option<f64> {
    let (reported, counted) = (values.scalar(reported)?, values.scalar(counted)?);
    Some(ratio(reported - counted, counted)?.abs() * 100.0)
}
