//! `profile_export_sessions.jsonl`: one line per session, in the order of their numbers, written at the
//! end of the run.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::Number;

use measure::metrics::ValueType;
use measure::metrics::session::{Session, SessionConversation, Work};

use super::error::WriteFailure;
use super::sink::Output;
use super::whole::write_whole;
use crate::run::RunReport;

/// A session.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SessionLine<'a> {
    /// Number of the session over the whole run.
    session_num: u64,
    #[serde(flatten)]
    whole: Part<'a>,
    /// The conversations of a session that has several, in the order in which they began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conversations: Vec<Part<'a>>,
}

/// A session, under the names of its first conversation, or one of its conversations.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Part<'a> {
    /// ID of the conversation in the dataset.
    conversation_id: &'a str,
    /// The `X-Correlation-ID` header of its requests, a UUID.
    x_correlation_id: String,
    /// That of the conversation that started it, if one did.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_correlation_id: Option<String>,
    /// `completed` if all turns were sent and succeeded, `failed` if one failed, `cancelled` if the
    /// run ended it before.
    outcome: &'static str,
    /// Start of the first request, in nanoseconds since the epoch.
    start_ns: u64,
    /// End of the last request, in nanoseconds since the epoch.
    end_ns: u64,
    /// Number of requests that failed or were cancelled.
    failed_turns: u64,
    /// The metrics of the session, by tag.
    metrics: SessionMetrics<'a>,
}

impl<'a> Part<'a> {
    fn new(conversation: &'a SessionConversation, work: &'a Work) -> Self {
        Self {
            conversation_id: &conversation.name,
            x_correlation_id: conversation.id.to_string(),
            parent_correlation_id: conversation.parent.map(|id| id.to_string()),
            outcome: work.end.as_str(),
            start_ns: work.start_wall_ns,
            end_ns: work.end_wall_ns,
            failed_turns: work.failed_turns,
            metrics: SessionMetrics(work),
        }
    }
}

impl<'a> SessionLine<'a> {
    /// Returns the line of a session; `None` without requests.
    fn from_session(session: &'a Session) -> Option<Self> {
        let Session { number, work, conversations } = session;
        let root = conversations.first()?;
        let several = conversations.iter().filter(|_| conversations.len() > 1);
        Some(Self {
            session_num: *number,
            whole: Part::new(root, work),
            conversations: several.map(|one| Part::new(one, &one.work)).collect(),
        })
    }
}

/// The values of the metrics of sessions, each with its unit.
struct SessionMetrics<'a>(&'a Work);

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Measurement {
    #[cfg_attr(test, schemars(with = "f64"))]
    value: Number,
    unit: &'static str,
}

impl Serialize for SessionMetrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (metric, value) in self.0.values() {
            let is_whole = metric.value_type == ValueType::Int && value.fract() == 0.0;
            let number =
                if is_whole { Some((value as u64).into()) } else { Number::from_f64(value) };
            if let Some(value) = number {
                let unit = metric.display_unit.label();
                map.serialize_entry(metric.tag.name(), &Measurement { value, unit })?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
impl schemars::JsonSchema for SessionMetrics<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SessionMetrics".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        use measure::metrics::metric::MetricKind;
        super::schema::by_tag::<Measurement>(generator, |metric| {
            matches!(metric.kind, MetricKind::OfSession(_))
        })
    }
}

/// Writes a line for each session of `report` to the file at `path`, which is compressed if its name
/// says so; nothing if each session is a single request.
pub(super) fn write(path: &Path, report: &RunReport) -> Result<Option<PathBuf>, WriteFailure> {
    let Some(sessions) = &report.sessions else { return Ok(None) };
    let lines = |out: &mut dyn io::Write| {
        let mut out = Output::new(out, path)?;
        for session in sessions.iter() {
            if let Some(line) = SessionLine::from_session(&session) {
                serde_json::to_writer(&mut out, &line)?;
                out.write_all(b"\n")?;
            }
        }
        out.finish().map(drop)
    };
    write_whole(path, lines).map(Some)
}
