//! Difference between the generated and the requested output length.

use base::units::Unit;

use crate::metrics::metric::{Metric, MetricFlags as Flag, MetricKind};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Difference between the generated and the requested output length. \
                                Servers stop at an end-of-sequence token unless configured \
                                otherwise, for example with `--extra-inputs ignore_eos:true`.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(tag::REQUESTED_OSL, "Requested OSL", Unit::Tokens, |facts, _| {
        facts.requested_output_tokens.map(|tokens| tokens as f64)
    })
    .short("Req OSL")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::INTERNAL))
    .off_console()
    .says(
        "Output tokens requested in the request body.",
        "`max_completion_tokens`, `max_tokens`, `max_output_tokens`, `max_new_tokens`, \
         `maxOutputTokens`, `max_tokens_to_sample` or `num_predict` of the body: the outermost, \
         and the first in this order if there are several; times `n`, the number of choices.",
    ),
    Metric::record(
        tag::OSL_MISMATCH_DIFF_PCT,
        "OSL Mismatch Diff %",
        Unit::Percent,
        |_, values| {
            let requested = values.scalar(tag::REQUESTED_OSL).filter(|tokens| *tokens > 0.0)?;
            Some((values.scalar(tag::OUTPUT_SEQUENCE_LENGTH)? - requested) / requested * 100.0)
        },
    )
    .float()
    .short("OSL Diff")
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .off_console()
    .requires(&[tag::OUTPUT_SEQUENCE_LENGTH, tag::REQUESTED_OSL])
    .says(
        "Signed difference between the generated and the requested length: negative if the \
         server stopped early.",
        "(output_sequence_length − requested) / requested · 100. Absent if no length was \
         requested.",
    ),
    Metric::aggregate(
        tag::OSL_MISMATCH_COUNT,
        "OSL Mismatch Count",
        Unit::Requests,
        MetricKind::Tally(|observation, settings| {
            let requested =
                observation.requested_output_tokens.filter(|tokens| *tokens > 0)? as f64;
            let generated = observation.values.scalar(tag::OUTPUT_SEQUENCE_LENGTH)?;
            let allowed = (requested * settings.osl_mismatch_threshold_percent / 100.0)
                .min(settings.osl_mismatch_threshold_tokens);
            Some((generated - requested).abs() > allowed)
        }),
    )
    .short("OSL Mismatches")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .off_console()
    .requires(&[tag::OSL_MISMATCH_DIFF_PCT, tag::OUTPUT_SEQUENCE_LENGTH, tag::REQUESTED_OSL])
    .says(
        "Requests whose output length differs from the requested one by more than a threshold.",
        "count(records with |output_sequence_length − requested| > min(requested · 5 %, 50)); \
         `AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD`, \
         `AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD`. Absent if no length was requested.",
    ),
];
