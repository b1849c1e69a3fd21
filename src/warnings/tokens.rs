//! Warnings about the tokens of outputs: their number, and how many come at once.

use super::found::counted;
use super::{Warning, responses, share};
use crate::metrics::{finish_reason, tag};
use crate::run::RunReport;

/// A mean number of tokens of an event from which several come at once; tool calls and special tokens
/// also make it greater than 1.
const SEVERAL: f64 = 1.5;

/// The least effect on inter-token latency that is shown, in percent.
const NOTABLE_PERCENT: f64 = 1.0;

/// Returns the warning that the first event may have several tokens, unless the server was asked how
/// many it has.
pub(super) fn bundled(report: &RunReport) -> Option<Warning> {
    // The bound would not hold if events arrive in groups, for which there is another one.
    if report.run.settings.per_chunk_usage || responses::events_together(report).is_some() {
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
    is_shown.then_some(Warning::BundledTokens { tokens, percent })
}

pub(super) fn bundled_findings(tokens: f64, percent: f64) -> Vec<String> {
    vec![format!(
        "Events with content have {tokens:.1} tokens on average. inter_token_latency divides the time \
         after the first event by all tokens but one. If the first event has as many as the others, it \
         is {percent:.1}% too low."
    )]
}

pub(super) fn output_length_mismatch(report: &RunReport) -> Option<Warning> {
    let requests = counted(report, tag::OSL_MISMATCH_COUNT);
    (requests > 0).then(|| Warning::OutputLengthMismatch {
        requests,
        of: counted(report, tag::REQUEST_COUNT),
        average_percent: report.average(tag::OSL_MISMATCH_DIFF_PCT),
        threshold_percent: report.run.settings.osl_mismatch_threshold_percent,
        threshold_tokens: report.run.settings.osl_mismatch_threshold_tokens,
        at_limit: is_at_limit(report),
    })
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

impl Warning {
    /// The findings about output lengths.
    pub(super) fn length_findings(&self) -> Vec<String> {
        let Self::OutputLengthMismatch {
            requests,
            of,
            average_percent,
            threshold_percent,
            threshold_tokens,
            at_limit,
        } = self
        else {
            return Vec::new();
        };
        let mut findings = vec![
            format!(
                "In {} the output is shorter or longer than requested by more than the \
                 threshold.",
                share(*requests, *of)
            ),
            format!(
                "Threshold (tokens): min(requested x {threshold_percent}%, {threshold_tokens})"
            ),
        ];
        findings.extend(average_percent.map(|average| format!("Average mismatch: {average:.1}%")));
        if *at_limit {
            findings.push(
                "The server ended the outputs at their limit, so that they have the requested length by \
                 its count: the tokenizer counts them differently."
                    .to_owned(),
            );
        }
        findings.push(
            "Latencies and throughput are those of these outputs. inter_token_latency counts the tokens \
             that came, not those requested."
                .to_owned(),
        );
        findings
    }
}
