//! A row of the table, without its metrics.

use uuid::Uuid;

use super::{Column, Field, OfRow, OfRun, Source, Values};
use crate::metrics::metric::MeasuredRecord;
use crate::metrics::name_counts;
use crate::record::RequestError;
use crate::run::RunDescription;
use crate::schedule::Hold;
use crate::schedule::config::{PhaseConfig, PhaseLabels};
use crate::server_family::ServerTiming;
use crate::setting::Named as _;
use crate::units::{Clock, Nanos};

/// What rows say of their run, so that the tables of several runs can be queried as one.
pub(super) struct RunColumns {
    benchmark_id: Option<Uuid>,
    label: Option<String>,
    load: Option<String>,
    concurrency: Option<u64>,
    request_rate: Option<f64>,
}

impl RunColumns {
    pub(super) fn of(run: &RunDescription) -> Self {
        let measured = run.setup.measured_phase();
        Self {
            benchmark_id: Some(run.benchmark_id).filter(|id| !id.is_nil()),
            label: run.member.as_ref().map(|member| member.label(&run.setup.multi_run)),
            load: measured.map(PhaseConfig::load_label),
            concurrency: measured.and_then(PhaseConfig::steady_concurrency),
            request_rate: measured.and_then(PhaseConfig::steady_rate),
        }
    }
}

/// A request and its identifiers.
pub(super) struct Row<'a> {
    pub(super) measured: &'a MeasuredRecord,
    pub(super) conversation_id: &'a str,
    pub(super) phases: &'a PhaseLabels,
    pub(super) clock: &'a Clock,
}

impl<'a> Row<'a> {
    fn wall(&self, at: Nanos) -> Field<'a> {
        Field::int(self.clock.wall_ns(at))
    }

    fn server(&self, text: impl Fn(&'a ServerTiming) -> Option<&'a str>) -> Field<'a> {
        Field::text_or_absent(self.measured.response.server.as_deref().and_then(text))
    }

    fn error(&self, field: impl Fn(&'a RequestError) -> Field<'a>) -> Field<'a> {
        self.measured.observation.error.as_ref().map_or(Field::Absent, field)
    }
}

/// Returns the columns with identity, times and destination.
pub(super) fn metadata_columns() -> Vec<Column> {
    let int = |name, field: OfRow| Column::new(name, Source::Field(field), Values::Int(Vec::new()));
    let text =
        |name, field: OfRow| Column::new(name, Source::Field(field), Values::Text(Vec::new()));
    let run = |name, field: OfRun, values| Column::new(name, Source::Run(field), values);
    vec![
        run(
            "benchmark_id",
            |run| run.benchmark_id.map_or(Field::Absent, Field::Id),
            Values::Text(Vec::new()),
        ),
        run(
            "run_label",
            |run| Field::text_or_absent(run.label.as_deref()),
            Values::Text(Vec::new()),
        ),
        run("load", |run| Field::text_or_absent(run.load.as_deref()), Values::Text(Vec::new())),
        run("concurrency", |run| Field::int_or_absent(run.concurrency), Values::Int(Vec::new())),
        run(
            "request_rate",
            |run| run.request_rate.map_or(Field::Absent, Field::Double),
            Values::Double(Vec::new()),
        ),
        int("session_num", |row| Field::int(row.measured.record.turn.session)),
        text("x_request_id", |row| Field::Id(row.measured.record.request_id)),
        text("x_correlation_id", |row| Field::Id(row.measured.record.correlation_id)),
        text("conversation_id", |row| Field::text(row.conversation_id)),
        int("turn_index", |row| Field::int(row.measured.record.turn.turn as u64)),
        int("agent_depth", |row| {
            let place = row.measured.record.ancestry;
            Field::int_or_absent(place.map(|place| place.depth.into()))
        }),
        int("lane", |row| Field::int_or_absent(row.measured.record.lane.map(u64::from))),
        text("held_by", |row| Field::text_or_absent(row.measured.record.held_by.map(Hold::name))),
        text("tenant", |row| Field::text_or_absent(row.measured.record.tenant.as_deref())),
        text("model", |row| Field::text(&row.measured.record.model)),
        text("url", |row| Field::text(&row.measured.record.url)),
        int("request_due_ns", |row| {
            row.measured.record.due.map_or(Field::Absent, |at| row.wall(at))
        }),
        int("credit_issued_ns", |row| row.wall(row.measured.record.issued)),
        int("request_start_ns", |row| Field::int(row.measured.observation.start_wall_ns)),
        int("request_sent_ns", |row| {
            row.measured.record.sent.map_or(Field::Absent, |at| row.wall(at))
        }),
        int("request_ack_ns", |row| {
            row.measured.record.ack.map_or(Field::Absent, |at| row.wall(at))
        }),
        int("request_end_ns", |row| row.wall(row.measured.record.end)),
        text("worker_id", |row| {
            Field::Text(format!("worker_{}", row.measured.record.worker).into())
        }),
        text("benchmark_phase", |row| Field::text(row.measured.record.phase.as_str())),
        int("phase_index", |row| Field::Int(row.measured.record.phase_index.into())),
        text("phase_name", |row| {
            let record = &row.measured.record;
            Field::text(row.phases.get(record.phase_index, record.phase).0)
        }),
        Column::new(
            "was_cancelled",
            Source::Field(|row| Field::Bool(row.measured.record.cancelled_at.is_some())),
            Values::Bool(Vec::new()),
        ),
        int("requested_output_tokens", |row| {
            Field::int_or_absent(row.measured.observation.requested_output_tokens)
        }),
        text("finish_reason", |row| names(&row.measured.response.finish_reasons)),
        text("response_notes", |row| names(&row.measured.response.notes)),
        int("retry_count", |row| Field::Int(row.measured.record.retry_count.into())),
        text("server_worker_id", |row| row.server(|server| server.worker.as_deref())),
        text("server_timing_family", |row| {
            row.server(|server| server.has_times().then_some(server.family))
        }),
        text("server_timing_source", |row| {
            row.server(|server| server.has_times().then(|| server.source.name()))
        }),
        int("response_status_code", |row| {
            Field::int_or_absent(row.measured.record.status.map(u64::from))
        }),
        text("clock", |row| {
            let clock = row.measured.record.trace.clock();
            clock.map_or(Field::Absent, |clock| Field::text(clock.as_str()))
        }),
        int("max_read_lag_ns", |row| {
            Field::int_or_absent(row.measured.record.body.max_read_lag().map(u64::from))
        }),
        int("max_uncertainty_ns", |row| {
            Field::int_or_absent(row.measured.record.body.max_uncertainty().map(u64::from))
        }),
        int("error_code", |row| row.error(|error| Field::int_or_absent(error.code.map(u64::from)))),
        text("error_type", |row| row.error(|error| Field::text(&error.name))),
        text("error_message", |row| row.error(|error| Field::text(&error.message))),
        Column::new(
            "content_arrival_ms",
            Source::Field(content_arrivals),
            Values::List(Vec::new()),
        ),
    ]
}

fn names<'r>(names: &[impl AsRef<str>]) -> Field<'r> {
    name_counts::joined(names).map_or(Field::Absent, |names| Field::Text(names.into()))
}

/// Returns the arrival of each content event, in milliseconds since the request's start.
fn content_arrivals<'r>(row: &Row<'r>) -> Field<'r> {
    let start = row.measured.record.start;
    let pieces = &row.measured.response.content;
    let since_start = pieces.iter().map(|piece| piece.arrival.at.since(start).as_millis());
    Field::List(since_start.collect::<Vec<_>>().into())
}
