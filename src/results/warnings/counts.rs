//! How the token counts of server and client differ, and why.

use measure::metrics::tag::{self, MetricTag};

use crate::run::RunReport;

/// The least difference of means that is stated, in percent.
const NOTABLE_PERCENT: f64 = 1.0;
/// How far numbers may differ to be explained by each other, relative to the difference.
const AGREEMENT: f64 = 0.2;

/// The mean token counts of server and client, over the same requests.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CountDifference {
    /// What was counted.
    pub(super) side: Side,
    /// Mean of the server's counts.
    pub(super) server: f64,
    /// Mean of the client's counts.
    pub(super) client: f64,
    /// Why they differ, if the data show it.
    pub(super) cause: Option<Cause>,
}

/// Input or output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

/// Why server and client count differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The server adds the same number of tokens to each prompt.
    Template,
    /// The difference grows with the length.
    Tokenizer,
    /// The server counts reasoning that it does not send.
    HiddenReasoning,
}

/// The counts of one side.
#[derive(Clone, Copy)]
struct Counts {
    mean: f64,
    std: f64,
    count: u64,
}

fn counts(report: &RunReport, tag: MetricTag) -> Option<Counts> {
    let result = report.results.iter().find(|result| result.metric.tag == tag)?;
    let spread = result.stats.distribution?;
    Some(Counts { mean: result.stats.avg, std: spread.std, count: spread.count })
}

/// Returns how the mean counts differ.
pub(super) fn differences(report: &RunReport) -> Vec<CountDifference> {
    [input(report), output(report)].into_iter().flatten().collect()
}

fn input(report: &RunReport) -> Option<CountDifference> {
    let server = counts(report, tag::USAGE_PROMPT_TOKENS)?;
    let client = counts(report, tag::INPUT_SEQUENCE_LENGTH)?;
    difference(Side::Input, server, client, scaling(server, client))
}

fn output(report: &RunReport) -> Option<CountDifference> {
    let server = counts(report, tag::USAGE_COMPLETION_TOKENS)?;
    let client = counts(report, tag::OUTPUT_SEQUENCE_LENGTH)?;
    let hidden = counts(report, tag::USAGE_REASONING_TOKENS)
        .filter(|_| counts(report, tag::REASONING_TOKEN_COUNT).is_none())
        .map_or(0.0, |reasoning| reasoning.mean * reasoning.count as f64 / server.count as f64);
    let more = server.mean - client.mean;
    let is_hidden = hidden > 0.0 && (more - hidden).abs() <= AGREEMENT * more;
    let cause = match scaling(server, client) {
        _ if is_hidden => Some(Cause::HiddenReasoning),
        // A template is part of the prompt.
        Some(Cause::Template) => None,
        other => other,
    };
    difference(Side::Output, server, client, cause)
}

/// Returns whether the server's counts are the client's and a constant, or in proportion to them. If
/// lengths hardly vary, both are the same.
fn scaling(server: Counts, client: Counts) -> Option<Cause> {
    let more = server.mean - client.mean;
    let in_proportion = client.std * (server.mean / client.mean).abs();
    let [constant, proportional] = [client.std, in_proportion];
    // What the two hypotheses say of the spread must differ by more than the counts' rounding.
    if (proportional - constant).abs() < 1.0 {
        return None;
    }
    let is_near = |expected: f64| {
        (server.std - expected).abs() <= AGREEMENT * (proportional - constant).abs()
    };
    if is_near(constant) && more > 0.0 {
        Some(Cause::Template)
    } else if is_near(proportional) {
        Some(Cause::Tokenizer)
    } else {
        None
    }
}

fn difference(
    side: Side,
    server: Counts,
    client: Counts,
    cause: Option<Cause>,
) -> Option<CountDifference> {
    let percent = 100.0 * (server.mean - client.mean) / client.mean;
    // Means over different requests are not compared.
    let is_shown = server.count == client.count && percent.abs() >= NOTABLE_PERCENT;
    let (server, client) = (server.mean, client.mean);
    is_shown.then_some(CountDifference { side, server, client, cause })
}

impl CountDifference {
    /// Returns the difference and its cause in a sentence or two.
    pub(super) fn finding(&self) -> String {
        let Self { side, server, client, cause } = self;
        let side = match side {
            Side::Input => "Input",
            Side::Output => "Output",
        };
        let percent = 100.0 * (server - client) / client;
        let text = format!(
            "{side}: the server counts {server:.1} tokens in a request on average, the client \
             {client:.1} ({percent:+.1}%)."
        );
        let more = (server - client).abs();
        let cause = match cause {
            Some(Cause::Template) => {
                format!(" Prompts of all lengths have {more:.1} more, as a chat template adds.")
            }
            Some(Cause::Tokenizer) => {
                " The difference grows with the length, as with another tokenizer.".to_owned()
            }
            Some(Cause::HiddenReasoning) => {
                " These are the reasoning tokens, which the server counts but does not send."
                    .to_owned()
            }
            None => String::new(),
        };
        text + &cause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prompts of 100, 200 and 300 tokens: mean 200, standard deviation √(20000/3) = 81.65.
    #[test]
    fn the_spread_shows_whether_a_difference_is_constant_or_grows() {
        let counts = |mean, std| Counts { mean, std, count: 3 };
        let client = counts(200.0, 81.65);
        assert_eq!(scaling(counts(230.0, 81.65), client), Some(Cause::Template));
        assert_eq!(scaling(counts(230.0, 93.90), client), Some(Cause::Tokenizer));
        assert_eq!(scaling(counts(170.0, 69.40), client), Some(Cause::Tokenizer));
        assert_eq!(scaling(counts(170.0, 81.65), client), None, "a template adds");
        assert_eq!(scaling(counts(230.0, 150.0), client), None, "neither");
        assert_eq!(scaling(counts(230.0, 0.0), counts(200.0, 0.0)), None, "lengths are equal");
    }
}
