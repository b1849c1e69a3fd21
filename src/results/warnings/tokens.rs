//! Warnings about the tokens of prompts and outputs: their number, how they are counted, and how many come
//! at once.

use measure::metrics::{finish_reason, tag};

use super::counts::{self, Cause, CountDifference, Side};
use super::{Found, Given, Level, WarningKind, counted, responses, share};
use crate::run::RunReport;

/// A mean number of tokens of an event from which several come at once; tool calls and special tokens
/// also make it greater than 1.
const SEVERAL: f64 = 1.5;

/// The least effect on inter-token latency that is shown, in percent.
const NOTABLE_PERCENT: f64 = 1.0;

pub(super) const KINDS: &[WarningKind] = &[
    WarningKind {
        name: "usage-missing",
        title: "Usage Missing",
        level: Level::Bad,
        find: |report, _| {
            let settings = &report.run.settings;
            if !settings.use_server_token_count || !report.run.endpoint.produces_tokens {
                return None;
            }
            let of = counted(report, tag::REQUEST_COUNT);
            let lengths =
                report.results.iter().find(|it| it.metric.tag == tag::OUTPUT_SEQUENCE_LENGTH);
            let known = lengths.and_then(|it| it.stats.distribution).map_or(0, |it| it.count);
            let requests = of.saturating_sub(known);
            (requests > 0).then(|| usage_missing(requests, of))
        },
        example: |_| usage_missing(100, 100),
    },
    WarningKind {
        name: "token-count-discrepancy",
        title: "Token Count Discrepancy",
        level: Level::Doubtful,
        find: |report, given| {
            let requests = counted(report, tag::USAGE_DISCREPANCY_COUNT);
            let of = counted(report, tag::REQUEST_COUNT);
            let percent = report.run.settings.usage_diff_threshold_percent;
            let differences = counts::differences(report);
            (requests > 0).then(|| discrepancy([requests, of], percent, &differences, given))
        },
        example: |given| {
            let (server, client, cause) = (584.0, 550.0, Some(Cause::Template));
            let difference = CountDifference { side: Side::Input, server, client, cause };
            discrepancy([25, 100], 10.0, &[difference], given)
        },
    },
    WarningKind {
        name: "osl-mismatch",
        title: "Output Sequence Length Mismatch",
        level: Level::Doubtful,
        find: |report, given| {
            let mismatch = Mismatch {
                requests: counted(report, tag::OSL_MISMATCH_COUNT),
                of: counted(report, tag::REQUEST_COUNT),
                average_percent: report.average(tag::OSL_MISMATCH_DIFF_PCT),
                threshold_percent: report.run.settings.osl_mismatch_threshold_percent,
                threshold_tokens: report.run.settings.osl_mismatch_threshold_tokens,
                at_limit: is_at_limit(report),
            };
            (mismatch.requests > 0).then(|| length_mismatch(&mismatch, given))
        },
        example: |given| {
            let mismatch = Mismatch {
                requests: 25,
                of: 100,
                average_percent: Some(-12.5),
                threshold_percent: 5.0,
                threshold_tokens: 50.0,
                at_limit: false,
            };
            length_mismatch(&mismatch, given)
        },
    },
    WarningKind {
        name: "bundled-tokens",
        title: "Several Tokens per Event",
        level: Level::Doubtful,
        find: |report, given| {
            bundle(report).map(|(tokens, percent)| bundled(tokens, percent, given))
        },
        example: |given| bundled(4.0, 2.4, given),
    },
];

fn usage_missing(requests: u64, of: u64) -> Found {
    let share = share(requests, of);
    Found::new(
        format!("{share} did not have token counts in the response"),
        [format!(
            "{share} did not have token counts (`usage`) in the response, which --use-server-token-count relies \
             on; their input and output lengths and inter-token latency are missing."
        )],
        [
            "Configure the server to report usage; for streams, stream_options.include_usage.",
            "Or remove --use-server-token-count, so that the client counts tokens.",
        ],
    )
}

fn discrepancy(
    [requests, of]: [u64; 2],
    threshold_percent: f64,
    differences: &[CountDifference],
    given: &Given,
) -> Found {
    let share = share(requests, of);
    let has_tokenizer_cause = differences.iter().any(|it| it.cause == Some(Cause::Tokenizer));
    let of_input = differences.iter().any(|it| it.side == Side::Input);
    let template = of_input && !given.applies_chat_template && !has_tokenizer_cause;
    let tokenizer = match &given.tokenizer {
        Some(name) => format!("Check that {name} is the tokenizer of the model being served."),
        None => "Set --tokenizer to the tokenizer of the model being served, instead of the builtin one."
            .to_owned(),
    };
    let advice = [
        template.then_some(
            "To count prompts with the model's chat template, use --apply-chat-template.",
        ),
        Some("See usage_*_diff_pct of each request in profile_export.jsonl."),
        Some(tokenizer.as_str()),
        (!given.uses_server_count)
            .then_some("Or use the server's counts with --use-server-token-count."),
        Some(
            "Only the server counts special tokens and the chat template; to tolerate a larger \
             difference, set AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD.",
        ),
    ];
    let all = format!(
        "In {share} the token counts that the server reports (`usage`) differ from the client's by more \
         than {threshold_percent}%."
    );
    Found::new(
        format!("in {share} counts differ by over {threshold_percent}%"),
        [all].into_iter().chain(differences.iter().map(CountDifference::finding)),
        advice.into_iter().flatten(),
    )
}

/// Outputs that do not have the requested length.
struct Mismatch {
    /// Number of requests whose output length differs from the requested one.
    requests: u64,
    /// Number of successful requests.
    of: u64,
    /// Mean difference over all requests, in percent.
    average_percent: Option<f64>,
    /// Tolerated difference, in percent, and at most in tokens.
    threshold_percent: f64,
    threshold_tokens: f64,
    /// Whether the server ended nearly all outputs at their limit.
    at_limit: bool,
}

fn length_mismatch(mismatch: &Mismatch, given: &Given) -> Found {
    let Mismatch { requests, of, average_percent, at_limit, .. } = *mismatch;
    let share = share(requests, of);
    let of_limit = "The server ended the outputs at their limit, so that they have the requested length by \
                    its count: the tokenizer counts them differently.";
    let findings = [
        Some(format!(
            "In {share} the output is shorter or longer than requested by more than the threshold."
        )),
        Some(format!(
            "Threshold (tokens): min(requested x {}%, {})",
            mismatch.threshold_percent, mismatch.threshold_tokens
        )),
        average_percent.map(|average| format!("Average mismatch: {average:.1}%")),
        at_limit.then(|| of_limit.to_owned()),
        Some(
            "Latencies and throughput are those of these outputs. inter_token_latency counts the tokens \
             that came, not those requested."
                .to_owned(),
        ),
    ];
    let eos = if given.ignores_eos {
        "The requests have ignore_eos; check that the server supports it, and that no limit of the context \
         or of the output is lower than the requested length."
    } else {
        "Models end their output on their own. To generate up to the requested length, use --extra-inputs \
         ignore_eos:true (vLLM, TensorRT-LLM, SGLang)."
    };
    let min = "To set a minimum length, use --extra-inputs min_tokens:<N> (vLLM, TensorRT-LLM).";
    let count = "If the tokenizer may not be the model's own, use --use-server-token-count.";
    let advice = [
        (!at_limit).then_some(eos),
        (!at_limit && !given.has_min_tokens).then_some(min),
        (!given.uses_server_count).then_some(count),
        Some("See osl_mismatch_diff_pct of each request in profile_export.jsonl."),
        Some(
            "To tolerate a larger difference, set AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD or \
             AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD.",
        ),
    ];
    Found::new(
        format!("{share} have an output of another length"),
        findings.into_iter().flatten(),
        advice.into_iter().flatten(),
    )
}

/// Share of the outputs that their limit must have ended, for them to have the requested length by the
/// server's count.
const AT_LIMIT: f64 = 0.9;

fn is_at_limit(report: &RunReport) -> bool {
    let reasons = &report.finish_reasons;
    let limited = reasons.iter().filter(|(reason, _)| finish_reason::is_limit(reason));
    let limited: u64 = limited.map(|(_, requests)| requests).sum();
    limited > 0 && limited as f64 >= AT_LIMIT * reasons.requests() as f64
}

/// Returns how many tokens an event has on average and how much lower, in percent, inter-token latency may
/// then be, unless the server was asked how many the first event has.
fn bundle(report: &RunReport) -> Option<(f64, f64)> {
    // The bound would not hold if events arrive in groups, for which there is another one.
    if report.run.settings.per_chunk_usage || responses::are_in_groups(report) {
        return None;
    }
    let spread = |tag| {
        let result = report.results.iter().find(|result| result.metric.tag == tag)?;
        result.stats.distribution
    };
    // Each request with several events has one more than gaps between them.
    let gaps = spread(tag::INTER_CHUNK_LATENCY)?.count;
    let requests = spread(tag::INTER_TOKEN_LATENCY)?.count;
    let lengths = spread(tag::OUTPUT_SEQUENCE_LENGTH)?;
    // Others have all tokens in one event, and so no inter-token latency.
    if requests < lengths.count || requests == 0 {
        return None;
    }
    let tokens = lengths.sum / (gaps + requests) as f64;
    let after_first = lengths.sum / requests as f64 - 1.0;
    let percent = 100.0 * (tokens - 1.0) / after_first;
    let is_shown = tokens >= SEVERAL && percent >= NOTABLE_PERCENT;
    is_shown.then_some((tokens, percent))
}

fn bundled(tokens: f64, percent: f64, given: &Given) -> Found {
    let flags = if given.uses_server_count {
        "--per-chunk-usage"
    } else {
        "--use-server-token-count --per-chunk-usage"
    };
    Found::new(
        format!("{tokens:.1} tokens per event; ITL up to {percent:.1}% too low"),
        [format!(
            "Events with content have {tokens:.1} tokens on average. inter_token_latency divides the time \
             after the first event by all tokens but one. If the first event has as many as the others, it \
             is {percent:.1}% too low."
        )],
        [
            format!("Let the server report the tokens of each event with {flags} (vLLM)."),
            "Compare inter_token_latency only between servers that send as many tokens at once."
                .to_owned(),
        ],
    )
}
