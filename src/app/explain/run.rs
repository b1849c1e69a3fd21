//! `aiperf explain DIR`: what limits a run, by its verdicts, its slowest requests and what the server
//! reported while they ran.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

use anyhow::bail;

use crate::artifacts::rebuild::{self, Group, Wanted};
use crate::console::{self, Slow, Style};
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
    // The slowest so far, of which the fastest is on top.
    let mut slowest: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut kept: Vec<(usize, Slow)> = Vec::new();
    let mut count = 0_usize;
    let mut observe = |observation: &crate::metrics::metric::Observation| {
        count += 1;
        let Some(latency) = observation.values.scalar(tag::REQUEST_LATENCY) else { return };
        if observation.phase != PhaseKind::Profiling {
            return;
        }
        slowest.push(Reverse((latency as u64, count)));
        kept.push((count, Slow::of(observation)));
        if slowest.len() > SLOWEST
            && let Some(Reverse((_, fastest))) = slowest.pop()
        {
            kept.retain(|(at, _)| *at != fastest);
        }
    };
    let wanted = Wanted { gates: &[], needs_server_metrics: true, observe: Some(&mut observe) };
    let rebuilt = rebuild::rebuild_with(directory, wanted)?;
    let mut slow: Vec<Slow> = kept.into_iter().map(|(_, slow)| slow).collect();
    slow.sort_by(|a, b| b.latency_ns().total_cmp(&a.latency_ns()));
    Ok(console::explained(&rebuilt.report, &slow, style))
}
