//! Speculative decoding of single requests, as their server reports it.

use base::units::Unit;
use client::server_family::Drafted;

use super::ratio;
use crate::metrics::ConsoleGroup::SpecDecode;
use crate::metrics::metric::{Facts, Metric, MetricFlags as Flag};
use crate::metrics::tag;

pub(super) const ABOUT: &str = "Speculative decoding of single requests: a draft model proposes \
                                tokens, which the model verifies in one step. Absent where the \
                                server does not report it in its responses.";

pub(super) static ROWS: &[Metric] = &[
    Metric::record(
        tag::SPEC_DECODE_ACCEPTANCE_LENGTH,
        "Acceptance Length",
        Unit::Ratio,
        |facts, _| {
            let Drafted { steps, accepted, .. } = drafted(facts)?;
            Some(1.0 + ratio(accepted? as f64, steps? as f64)?)
        },
    )
    .float()
    .flagged(Flag::LARGER_IS_BETTER)
    .at(SpecDecode, 5000)
    .says(
        "Tokens of a request per step that verified a draft.",
        "1 + spec_decode_accepted_draft_tokens / spec_decode_steps. Absent without steps.",
    ),
    Metric::record(
        tag::SPEC_DECODE_DRAFT_ACCEPTANCE_RATE,
        "Draft Acceptance Rate",
        Unit::Percent,
        |facts, _| {
            let Drafted { tokens, accepted, .. } = drafted(facts)?;
            Some(100.0 * ratio(accepted? as f64, tokens? as f64)?)
        },
    )
    .float()
    .short("Draft Accept Rate")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(SpecDecode, 5020)
    .says(
        "Share of the drafted tokens of a request that the model accepted.",
        "spec_decode_accepted_draft_tokens / spec_decode_draft_tokens · 100. Absent without drafts.",
    ),
    Metric::record(tag::SPEC_DECODE_STEPS, "Spec Decode Steps", Unit::Count, |facts, _| {
        Some(drafted(facts)?.steps? as f64)
    })
    .at(SpecDecode, 5040)
    .says(
        "Steps of the model that verified drafts of a request.",
        "vLLM: `num_spec_steps`; SGLang: `spec_verify_ct`.",
    ),
    Metric::record(
        tag::SPEC_DECODE_ACCEPTED_DRAFT_TOKENS,
        "Accepted Draft Tokens",
        Unit::Tokens,
        |facts, _| Some(drafted(facts)?.accepted? as f64),
    )
    .short("Accepted Draft")
    .off_console()
    .says(
        "Drafted tokens of a request that the model accepted.",
        "vLLM: `num_accepted_draft_tokens`; llama.cpp: `draft_n_accepted`; SGLang: \
         `spec_num_correct_drafts`.",
    ),
    Metric::record(tag::SPEC_DECODE_DRAFT_TOKENS, "Draft Tokens", Unit::Tokens, |facts, _| {
        Some(drafted(facts)?.tokens? as f64)
    })
    .off_console()
    .says(
        "Tokens that were drafted for a request.",
        "vLLM: `num_draft_tokens`; llama.cpp: `draft_n`; SGLang: `spec_num_proposed_drafts`.",
    ),
    Metric::derived(
        tag::SPEC_DECODE_TOKEN_WEIGHTED_ACCEPTANCE_LENGTH,
        "Token-Weighted Acceptance Length",
        Unit::Ratio,
        |totals| {
            let accepted = totals.total(tag::TOTAL_ACCEPTED_DRAFT_TOKENS)?;
            Some(1.0 + ratio(accepted, totals.total(tag::TOTAL_SPEC_DECODE_STEPS)?)?)
        },
    )
    .short("Token-Wtd Accept Len")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(SpecDecode, 5010)
    .requires(&[tag::TOTAL_ACCEPTED_DRAFT_TOKENS, tag::TOTAL_SPEC_DECODE_STEPS])
    .says(
        "Tokens of all requests per step that verified a draft.",
        "1 + total_accepted_draft_tokens / total_spec_decode_steps.",
    ),
    Metric::derived(
        tag::SPEC_DECODE_OVERALL_DRAFT_ACCEPTANCE_RATE,
        "Overall Draft Acceptance Rate",
        Unit::Percent,
        |totals| {
            let accepted = totals.total(tag::TOTAL_ACCEPTED_DRAFT_TOKENS)?;
            Some(100.0 * ratio(accepted, totals.total(tag::TOTAL_DRAFT_TOKENS)?)?)
        },
    )
    .short("Overall Draft Accept Rate")
    .flagged(Flag::LARGER_IS_BETTER)
    .at(SpecDecode, 5025)
    .requires(&[tag::TOTAL_ACCEPTED_DRAFT_TOKENS, tag::TOTAL_DRAFT_TOKENS])
    .says(
        "Share of all drafted tokens that the model accepted.",
        "total_accepted_draft_tokens / total_draft_tokens · 100.",
    ),
    Metric::sum_of(
        tag::TOTAL_SPEC_DECODE_STEPS,
        "Total Spec Decode Steps",
        Unit::Count,
        &[tag::SPEC_DECODE_STEPS],
    )
    .off_console()
    .says("Steps of the model that verified drafts of all requests.", "Σ spec_decode_steps."),
    Metric::sum_of(
        tag::TOTAL_ACCEPTED_DRAFT_TOKENS,
        "Total Accepted Draft Tokens",
        Unit::Tokens,
        &[tag::SPEC_DECODE_ACCEPTED_DRAFT_TOKENS],
    )
    .short("Total Accepted Draft")
    .off_console()
    .says(
        "Drafted tokens of all requests that the model accepted.",
        "Σ spec_decode_accepted_draft_tokens.",
    ),
    Metric::sum_of(
        tag::TOTAL_DRAFT_TOKENS,
        "Total Draft Tokens",
        Unit::Tokens,
        &[tag::SPEC_DECODE_DRAFT_TOKENS],
    )
    .short("Total Draft")
    .off_console()
    .says("Tokens that were drafted for all requests.", "Σ spec_decode_draft_tokens."),
];

fn drafted(facts: &Facts<'_>) -> Option<Drafted> {
    facts.response.server.as_ref()?.speculation
}
