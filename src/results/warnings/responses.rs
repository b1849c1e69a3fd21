//! Warnings about how responses arrive, and how they state their content and their counts.

use base::redact::printable;
use client::endpoint::note;
use measure::metrics::tag::{self, MetricTag};

use super::{Found, Level, WarningKind, counted, first, share};
use crate::run::RunReport;
use crate::tables::format::count;

/// The least share of content events that arrive together with the one before, in percent.
const NOTABLE_PERCENT: f64 = 25.0;
/// Fewest content events that are enough to find that they come in groups.
const FEWEST_CHUNKS: f64 = 100.0;
/// The least time between groups in milliseconds: a server that is faster does not have any.
const NOTABLE_GAP_MS: f64 = 1.0;
/// The least time for a token in milliseconds, if the response of a server came all at once.
const NOTABLE_TOKEN_MS: f64 = 0.5;

pub(super) const KINDS: &[WarningKind] = &[
    WarningKind {
        name: "not-streamed",
        title: "Responses Not Streamed",
        level: Level::Bad,
        find: |report, _| buffered(report).map(|(requests, of)| not_streamed(requests, of)),
        example: |_| not_streamed(100, 100),
    },
    WarningKind {
        name: "events-together",
        title: "Events Arrive in Groups",
        level: Level::Doubtful,
        find: |report, _| groups(report).map(|groups| events_together(&groups)),
        example: |_| {
            events_together(&Groups {
                percent: 93.75,
                size: 16.0,
                every_ms: 160.0,
                wait_ms: 150.0,
                itl_percent: 23.8,
            })
        },
    },
    WarningKind {
        name: "unusual-responses",
        title: "Unusual Responses",
        level: Level::Doubtful,
        find: |report, _| {
            let counts = report.response_notes.iter();
            let mut notes: Vec<(String, u64)> =
                counts.map(|(note, requests)| (note.to_owned(), requests)).collect();
            notes.sort_by_key(|(_, requests)| std::cmp::Reverse(*requests));
            let of = counted(report, tag::REQUEST_COUNT);
            (!notes.is_empty()).then(|| unusual(&notes, of))
        },
        example: |_| unusual(&[(note::USAGE_DECREASED.to_owned(), 100)], 100),
    },
];

/// How content events arrive in groups.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Groups {
    /// Share of the events that arrived together with the one before, in percent.
    percent: f64,
    /// Mean number of events of a group.
    size: f64,
    /// Mean time between groups, in milliseconds.
    every_ms: f64,
    /// How long the first token may have waited for the rest of its group, in milliseconds.
    wait_ms: f64,
    /// How much too low inter-token latency may be, in percent.
    itl_percent: f64,
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

/// Returns how many responses came all at once, and how many there are, if it is most of them.
fn buffered(report: &RunReport) -> Option<(u64, u64)> {
    let of = counted(report, tag::REQUEST_COUNT);
    let has_length = report.average(tag::OUTPUT_SEQUENCE_LENGTH)? > 1.5;
    // Without any gap, there is not even a second event, however fast the server is.
    let has_no_gap = report.average(tag::TIME_TO_FIRST_TOKEN).is_some()
        && report.average(tag::INTER_CHUNK_LATENCY).is_none();
    let requests = if has_no_gap { of } else { counted(report, tag::BUFFERED_RESPONSE_COUNT) };
    let is_notable = has_no_gap || token_ms(report)? >= NOTABLE_TOKEN_MS;
    (requests > 0 && has_length && 2 * requests >= of && is_notable).then_some((requests, of))
}

/// Returns how events arrive in groups, unless whole responses do.
fn groups(report: &RunReport) -> Option<Groups> {
    if buffered(report).is_some() {
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
    Some(Groups {
        percent,
        size,
        every_ms,
        wait_ms: every_ms * (size - 1.0) / size,
        itl_percent: (100.0 * (tokens_of_group - 1.0) / (mean_tokens - 1.0).max(1.0)).min(100.0),
    })
    .filter(|_| requests > 0.0)
}

/// Returns whether the events of streams arrive in groups.
pub(super) fn are_in_groups(report: &RunReport) -> bool {
    groups(report).is_some()
}

fn not_streamed(requests: u64, of: u64) -> Found {
    let (all, share) = (count(of), share(requests, of));
    let (summary, which) = if requests == of {
        (format!("each of {all} responses came all at once"), format!("each of {all} responses"))
    } else {
        (format!("the responses of {share} came all at once"), format!("the responses of {share}"))
    };
    Found::new(
        summary,
        [format!(
            "--streaming was set, but {which} came all at once: the time to first token is that of the \
             whole response, and inter-token latency, time to second token and inter-chunk latency are \
             absent or do not describe the model."
        )],
        [
            "Check that the server supports streaming at this path, and that no proxy buffers its \
             responses.",
            "Or remove --streaming.",
        ],
    )
}

fn events_together(groups: &Groups) -> Found {
    let Groups { percent, size, every_ms, wait_ms, itl_percent } = groups;
    Found::new(
        format!("{percent:.0}% of events came in groups of {size:.1}, every {every_ms:.1} ms"),
        [
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
        ],
        [
            "Measure the server without the gateway, or configure the gateway not to buffer.",
            "Read time_to_first_token and inter_chunk_latency as times of the gateway.",
        ],
    )
}

/// The `notes` are in descending order of the requests that have them.
fn unusual(notes: &[(String, u64)], of: u64) -> Found {
    let sentence = |(note, requests): &(String, u64)| {
        format!("In {}, {}.", share(*requests, of), about_note(note))
    };
    Found::new(
        notes.first().map(|(note, _)| about_note(note)).unwrap_or_default(),
        first(&notes.iter().map(sentence).collect::<Vec<_>>(), ""),
        ["See response_notes of each request in profile_export.jsonl, and compare a response \
          (--export-level raw) with the lengths and counts that are reported."],
    )
}

/// Returns a note about a response, as a clause.
fn about_note(note: &str) -> String {
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
