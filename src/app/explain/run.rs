//! `aiperf explain DIR`: what limits a run, by its verdicts, its slowest requests and what the server
//! reported while they ran.

use std::path::Path;

use anyhow::bail;

use crate::artifacts::rebuild::{self, Group, Wanted};
use crate::console::{self, Slow, Style};
use crate::metrics::metric::Observation;
use crate::metrics::tag;
use crate::schedule::PhaseKind;

/// Number of requests that are shown.
const SLOWEST: usize = 5;

/// Returns what is known of the run in `directory`, as text.
///
/// # Errors
/// If it does not have the files of a single run.
pub(super) fn explained(directory: &Path, style: Style) -> anyhow::Result<String> {
    if let Some(group) = Group::find(directory)? {
        let first = group.runs.first().map(|run| directory.join(&run.directory));
        let first = first.map(|run| format!(", such as {}", run.display())).unwrap_or_default();
        bail!("{} has several runs; name the directory of one of them{first}", directory.display());
    }
    let mut slowest: Vec<Slow> = Vec::new();
    let mut observe = |observation: &Observation| {
        let has_latency = observation.values.scalar(tag::REQUEST_LATENCY).is_some();
        if observation.phase == PhaseKind::Profiling && has_latency {
            slowest.push(Slow::of(observation));
            // Of equal ones, the first in the file remains.
            slowest.sort_by(|a, b| b.latency_ns().total_cmp(&a.latency_ns()));
            slowest.truncate(SLOWEST);
        }
    };
    let wanted =
        Wanted { needs_server_metrics: true, observe: Some(&mut observe), ..Wanted::default() };
    let rebuilt = rebuild::rebuild_with(directory, wanted)?;
    Ok(console::explained(&rebuilt.report, &slowest, style))
}
