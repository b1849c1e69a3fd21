//! Warnings about how responses arrive, and how they say their content and their counts.

use super::found::counted;
use super::{Warning, first, share};
use crate::console::format::count;
use crate::console::highlights;
use crate::endpoint::note;
use crate::metrics::tag::{self, MetricTag};
use crate::redact::printable;
use crate::run::RunReport;

/// The least share of content events that arrive together with the one before, in percent.
const NOTABLE_PERCENT: f64 = 25.0;
/// Fewest content events that are enough to say that they come in groups.
const FEWEST_CHUNKS: f64 = 100.0;
/// The least time between groups in milliseconds: a server that is faster does not have any.
const NOTABLE_GAP_MS: f64 = 1.0;
/// The least time for a token in milliseconds, if the response of a server came all at once.
const NOTABLE_TOKEN_MS: f64 = 0.5;

/// The least share of the prompt tokens that the server read from its cache, in percent.
const NOTABLE_CACHED_PERCENT: f64 = 1.0;
/// The least share of requests that repeat an earlier one.
const REPEATED: f64 = 0.1;

/// How content events arrive in groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Groups {
    /// Share of the events that arrived together with the one before, in percent.
    pub(super) percent: f64,
    /// Mean number of events of a group.
    pub(super) size: f64,
    /// Mean time between groups, in milliseconds.
    pub(super) every_ms: f64,
    /// How long the first token may have waited for the rest of its group, in milliseconds.
    pub(super) wait_ms: f64,
    /// How much too low inter-token latency may be, in percent.
    pub(super) itl_percent: f64,
}

impl Groups {
    pub(super) fn summary(&self) -> String {
        let Self { percent, size, every_ms, .. } = self;
        format!("{percent:.0}% of events came in groups of {size:.1}, every {every_ms:.1} ms")
    }

    pub(super) fn findings(&self) -> Vec<String> {
        let Self { percent, size, every_ms, wait_ms, itl_percent } = self;
        vec![
            format!(
                "{percent:.1}% of the content events arrived in the same read as the one before, or within \
                 microseconds of it: in groups of {size:.1}, every {every_ms:.1} ms. The times between \
                 groups are those of whatever passes them on together, such as a gateway, and not of the \
                 model."
            ),
            format!(
                "time_to_first_token is that of the first group, in which the first token may have waited \
                 up to {wait_ms:.1} ms. inter_token_latency is up to {itl_percent:.1}% too low, since the \
                 tokens of the first group took no time. inter_chunk_latency has the gaps between the \
                 groups, and zeros within them."
            ),
        ]
    }
}

/// Returns the sum, the mean and the number of values of a metric.
fn spread(report: &RunReport, tag: MetricTag) -> Option<(f64, f64, f64)> {
    let result = report.results.iter().find(|result| result.metric.tag == tag)?;
    let spread = result.stats.distribution?;
    Some((spread.sum, result.stats.avg, spread.count as f64))
}

/// Returns the mean time of a token over the whole response, in milliseconds.
fn token_ms(report: &RunReport) -> Option<f64> {
    let latency = report.average(tag::REQUEST_LATENCY)?;
    Some(latency / report.average(tag::OUTPUT_SEQUENCE_LENGTH).filter(|tokens| *tokens > 0.0)?)
}

/// Returns the warning that responses were not streamed.
pub(super) fn not_streamed(report: &RunReport) -> Option<Warning> {
    let of = counted(report, tag::REQUEST_COUNT);
    let has_length = report.average(tag::OUTPUT_SEQUENCE_LENGTH)? > 1.5;
    // Without any gap, there is not even a second event, however fast the server is.
    let has_no_gap = report.average(tag::TIME_TO_FIRST_TOKEN).is_some()
        && report.average(tag::INTER_CHUNK_LATENCY).is_none();
    let requests = if has_no_gap { of } else { counted(report, tag::BUFFERED_RESPONSE_COUNT) };
    let is_notable = has_no_gap || token_ms(report)? >= NOTABLE_TOKEN_MS;
    (requests > 0 && has_length && 2 * requests >= of && is_notable)
        .then_some(Warning::NotStreamed { requests, of })
}

/// Returns the warning that events arrive in groups, unless whole responses do.
pub(super) fn events_together(report: &RunReport) -> Option<Warning> {
    if not_streamed(report).is_some() {
        return None;
    }
    let (together, ..) = spread(report, tag::COALESCED_CHUNK_COUNT)?;
    let (chunks, _, requests) = spread(report, tag::CHUNK_COUNT)?;
    let (time_ms, _, gaps) = spread(report, tag::INTER_CHUNK_LATENCY)?;
    let (tokens, mean_tokens, _) = spread(report, tag::OUTPUT_SEQUENCE_LENGTH)?;
    let percent = 100.0 * together / chunks;
    let every_ms = time_ms / (gaps - together);
    let size = chunks / (chunks - together);
    let is_short = chunks < FEWEST_CHUNKS || gaps <= together;
    if is_short || percent < NOTABLE_PERCENT || every_ms < NOTABLE_GAP_MS {
        return None;
    }
    let tokens_of_group = size * tokens / chunks;
    let groups = Groups {
        percent,
        size,
        every_ms,
        wait_ms: every_ms * (size - 1.0) / size,
        itl_percent: (100.0 * (tokens_of_group - 1.0) / (mean_tokens - 1.0).max(1.0)).min(100.0),
    };
    (requests > 0.0).then_some(Warning::EventsTogether { groups })
}

/// Returns the warning that requests of a file or of the hub were sent again. Lanes begin traces again by
/// design.
pub(super) fn prompts_repeat(report: &RunReport) -> Option<Warning> {
    let sent = report.outcome.sent?;
    let is_wanted = !report.run.setup.is_read() || report.outcome.replay.is_some();
    let (repeated, of) = (sent.repeated, sent.total());
    let is_notable = !is_wanted && repeated as f64 >= REPEATED * of as f64 && repeated > 0;
    let cached_percent = highlights::cached_share(report);
    is_notable.then_some(Warning::PromptsRepeat { repeated, of, cached_percent })
}

pub(super) fn repeated_findings(repeated: u64, of: u64, cached: Option<f64>) -> Vec<String> {
    let text = format!(
        "{} were the same as an earlier one, since the dataset has fewer: a server with a prefix cache \
         answers those sooner than it answers users. ",
        share(repeated, of)
    );
    let cached = match cached {
        None => "time_to_first_token may be that of cached prompts.".to_owned(),
        Some(percent) if percent < NOTABLE_CACHED_PERCENT => {
            format!("It read {percent:.1}% of the prompt tokens from its cache.")
        }
        Some(percent) => format!(
            "It read {percent:.1}% of the prompt tokens from its cache: time_to_first_token is that of cached \
             prompts."
        ),
    };
    vec![text + &cached]
}

/// Returns the warning about unusual responses, the most frequent ones first.
pub(super) fn unusual(report: &RunReport) -> Option<Warning> {
    let counts = report.response_notes.iter();
    let mut notes: Vec<(String, u64)> =
        counts.map(|(note, requests)| (note.to_owned(), requests)).collect();
    notes.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
    let of = counted(report, tag::REQUEST_COUNT);
    (!notes.is_empty()).then_some(Warning::UnusualResponses { notes, of })
}

/// Returns what a note says of a response, as a clause.
pub(super) fn about_note(note: &str) -> String {
    let text = match note {
        note::USAGE_DECREASED => "a count of `usage` decreased, and the largest value counts",
        note::USAGE_CONTRADICTS_ITSELF => {
            "`total_tokens` is neither prompt and completion tokens nor these and the reasoning tokens"
        }
        note::REASONING_BESIDE_COMPLETION => {
            "`completion_tokens` leaves out the reasoning tokens, which were added"
        }
        note::TEXT_REPEATED => "events contain text of earlier ones again, which counts once",
        note::TEXT_MIRRORED => "the same text is in two members, and counts once",
        other => {
            let place = other.strip_prefix(note::TEXT_IN).unwrap_or(other);
            return format!("text was found in {}, which is not a usual member", printable(place));
        }
    };
    text.to_owned()
}

pub(super) fn unusual_findings(notes: &[(String, u64)], of: u64) -> Vec<String> {
    let sentence = |(note, requests): &(String, u64)| {
        format!("In {}, {}.", share(*requests, of), about_note(note))
    };
    first(&notes.iter().map(sentence).collect::<Vec<_>>(), "")
}

pub(super) fn not_streamed_findings(requests: u64, of: u64) -> Vec<String> {
    let which = if requests == of {
        format!("each of {} responses", count(of))
    } else {
        format!("the responses of {}", share(requests, of))
    };
    vec![format!(
        "--streaming was set, but {which} came all at once: the time to first token is that of the whole \
         response, and inter-token latency, time to second token and inter-chunk latency are absent or do \
         not describe the model."
    )]
}
