//! The columns of the table that describe its run, so that the tables of several runs can be queried
//! as one.

use uuid::Uuid;

use client::schedule::config::PhaseConfig;

use super::Source;
use crate::artifacts::table::{Cell, Column};
use crate::run::RunDescription;

/// The values of a run.
pub(super) struct RunColumns {
    benchmark_id: Option<Uuid>,
    label: Option<String>,
    load: Option<String>,
    concurrency: Option<u64>,
    request_rate: Option<f64>,
}

impl RunColumns {
    pub(super) fn from_description(run: &RunDescription) -> Self {
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

/// Returns the columns of a run with their sources.
pub(super) fn columns() -> Vec<(Source, Column)> {
    vec![
        (Source::Run(|run| Cell::any(run.benchmark_id, Cell::Id)), Column::text("benchmark_id")),
        (Source::Run(|run| Cell::any(run.label.as_deref(), Cell::text)), Column::text("run_label")),
        (Source::Run(|run| Cell::any(run.load.as_deref(), Cell::text)), Column::text("load")),
        (Source::Run(|run| Cell::any(run.concurrency, Cell::int)), Column::int("concurrency")),
        (
            Source::Run(|run| Cell::any(run.request_rate, Cell::Double)),
            Column::double("request_rate").diverse(true),
        ),
    ]
}
