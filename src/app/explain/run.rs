//! `aiperf explain DIR`: what limits a run, by its verdicts, its slowest requests and what the server
//! reported while they ran; of several runs, what limits each.

use std::path::Path;

use crate::artifacts::rebuild::{self, Group, GroupRun, Rebuilt, ReportError, Wanted};
use crate::console::{self, Request, Slow, Style};
use crate::metrics::metric::Observation;
use crate::metrics::tag;
use crate::schedule::PhaseKind;

/// Number of requests that are shown.
const SLOWEST: usize = 5;

/// Returns what is known of the run, or of the runs, in `directory`, as text.
///
/// # Errors
/// If it does not have the files of a run.
pub(super) fn explained(directory: &Path, style: Style) -> anyhow::Result<String> {
    if let Some(group) = Group::find(directory)? {
        let of_run = |run: &GroupRun| {
            let found = read(&directory.join(&run.directory));
            let causes = match &found {
                Ok((rebuilt, requests, _)) => console::causes(&rebuilt.report, requests),
                Err(error) => vec![error.to_string()],
            };
            (run.directory.display().to_string(), causes)
        };
        let runs: Vec<_> = group.runs.iter().map(of_run).collect();
        return Ok(console::explained_runs(&runs, style));
    }
    let (rebuilt, requests, slowest) = read(directory)?;
    Ok(console::explained(&rebuilt.report, &requests, &slowest, style))
}

/// Returns the run in `directory`, its successful requests, and the slowest of them.
fn read(directory: &Path) -> Result<(Rebuilt, Vec<Request>, Vec<Slow>), ReportError> {
    let mut requests = Vec::new();
    let mut slowest: Vec<Slow> = Vec::new();
    let mut observe = |observation: &Observation| {
        let has_latency = observation.values.scalar(tag::REQUEST_LATENCY).is_some();
        if observation.phase == PhaseKind::Profiling && has_latency {
            requests.extend(Request::of(observation));
            slowest.push(Slow::of(observation));
            // Of equal ones, the first in the file remains.
            slowest.sort_by(|a, b| b.latency_ns().total_cmp(&a.latency_ns()));
            slowest.truncate(SLOWEST);
        }
    };
    let wanted =
        Wanted { needs_server_metrics: true, observe: Some(&mut observe), ..Wanted::default() };
    let rebuilt = rebuild::rebuild_with(directory, wanted)?;
    Ok((rebuilt, requests, slowest))
}
