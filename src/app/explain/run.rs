//! `aiperf explain DIR`: what limits a run, by its verdicts, its slowest requests and what the server
//! reported while they ran; of several runs, what limits each.

use std::path::Path;

use client::schedule::PhaseKind;
use measure::metrics::metric::Observation;
use measure::metrics::tag;
use measure::multi_run::{GroupResults, Trials};
use results::artifacts::rebuild::{self, Group, GroupRun, Rebuilt, ReportError, Wanted};
use results::console::{self, Request, Slow, Style};

/// Number of requests that are shown.
const SLOWEST: usize = 5;

/// Returns what is known of the run, or of the runs, in `directory`, as text.
///
/// # Errors
/// If it does not have the files of a run.
pub(super) fn explained(directory: &Path, style: Style) -> anyhow::Result<String> {
    if let Some(group) = Group::find(directory)? {
        return Ok(of_group(directory, group, style));
    }
    let (rebuilt, requests, slowest) = read(directory)?;
    Ok(console::explained(&rebuilt.report, &requests, &slowest, style))
}

/// Returns what is known of the runs of `group`, together and one by one.
fn of_group(directory: &Path, group: Group, style: Style) -> String {
    let Group { config, sweep_id, cells, runs, .. } = group;
    let empty = |cell| (cell, Trials::new(config.clone(), sweep_id));
    let mut cells: Vec<_> = cells.into_iter().map(empty).collect();
    let mut explained = Vec::new();
    for GroupRun { cell, member, directory: place, .. } in runs {
        let found = read(&directory.join(&place));
        let causes = match &found {
            Ok((rebuilt, requests, _)) => console::causes(&rebuilt.report, requests),
            Err(error) => vec![error.to_string()],
        };
        explained.push((place.display().to_string(), causes));
        if let (Ok((rebuilt, ..)), Some((_, trials))) = (found, cells.get_mut(cell)) {
            trials.add(rebuilt.into_result(member, place, &config));
        }
    }
    let results = GroupResults::from_cells(&config, sweep_id, cells);
    console::explained_runs(&results, &explained, style)
}

/// Returns the run in `directory`, its successful requests, and the slowest of them.
fn read(directory: &Path) -> Result<(Rebuilt, Vec<Request>, Vec<Slow>), ReportError> {
    let mut requests = Vec::new();
    let mut slowest: Vec<Slow> = Vec::new();
    let mut observe = |observation: &Observation| {
        let has_latency = observation.values.scalar(tag::REQUEST_LATENCY).is_some();
        if observation.phase == PhaseKind::Profiling && has_latency {
            requests.extend(Request::from_observation(observation));
            slowest.push(Slow::from_observation(observation));
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
