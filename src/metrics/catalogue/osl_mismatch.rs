//! How far outputs are from the length that was asked for.

use crate::metrics::metric::{Kind, Metric, MetricFlags as Flag};
use crate::units::Unit;

pub(super) const ABOUT: &str = "How far outputs are from the length that was asked for. Servers \
    stop early at an end-of-sequence token unless told not to, as with `--extra-inputs \
    ignore_eos:true`.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record("requested_osl", "Requested OSL", Unit::Tokens, |facts, _| {
        facts.requested_output_tokens.map(|tokens| tokens as f64)
    })
    .short("Req OSL")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::INTERNAL))
    .off_console()
    .says("Output tokens that the request asked for.", "`max_tokens` of the turn."),
    Metric::record("osl_mismatch_diff_pct", "OSL Mismatch Diff %", Unit::Percent, |_, values| {
        let requested = values.scalar("requested_osl").filter(|tokens| *tokens > 0.0)?;
        Some((values.scalar("output_sequence_length")? - requested) / requested * 100.0)
    })
    .float()
    .short("OSL Diff")
    .flagged(Flag::PRODUCES_TOKENS_ONLY)
    .off_console()
    .requires(&["output_sequence_length", "requested_osl"])
    .says(
        "Signed difference between the length generated and the one asked for: negative where \
         the server stopped early.",
        "(output_sequence_length − requested) / requested · 100. Absent where no length was \
         asked for.",
    ),
    Metric::aggregate(
        "osl_mismatch_count",
        "OSL Mismatch Count",
        Unit::Requests,
        Kind::Sum(|observation, settings| {
            let requested =
                observation.requested_output_tokens.filter(|tokens| *tokens > 0)? as f64;
            let generated = observation.values.scalar("output_sequence_length")?;
            let allowed = (requested * settings.osl_mismatch_threshold_percent / 100.0)
                .min(settings.osl_mismatch_threshold_tokens);
            Some(f64::from(u8::from((generated - requested).abs() > allowed)))
        }),
    )
    .short("OSL Mismatches")
    .flagged(Flag::PRODUCES_TOKENS_ONLY.union(Flag::NO_INDIVIDUAL_RECORDS))
    .off_console()
    .requires(&["osl_mismatch_diff_pct", "output_sequence_length", "requested_osl"])
    .says(
        "Requests whose length is further from the one asked for than a threshold.",
        "count(records with |output_sequence_length − requested| > min(requested · 5 %, 50)); \
         `AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD`, \
         `AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD`. Absent where no length was asked for.",
    ),
];
