//! Finds the runs of one load by their manifests.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use uuid::Uuid;

use super::origin::Origin;
use super::{Rebuilt, ReportError};
use crate::judge;
use crate::metrics::{ClientHealth, tag};
use crate::multi_run::{Config, Failure, Member, RunResult};

/// Several runs of one load.
#[derive(Debug)]
pub(crate) struct Group {
    /// Their configuration, as far as statistics need it.
    pub(crate) config: Config,
    /// The group's ID.
    pub(crate) sweep_id: Uuid,
    /// The runs that were begun, in order, each with its directory relative to that of the group.
    pub(crate) runs: Vec<(Member, PathBuf)>,
    /// Other findings.
    pub(crate) notes: Vec<String>,
}

impl Group {
    /// Returns the runs in `directory`; `None` if it is not one of several runs.
    pub(crate) fn find(directory: &Path) -> Result<Option<Self>, ReportError> {
        let mut group: Option<Self> = None;
        let places = (0..).map(Member::place).map(|place| (directory.join(&place), place));
        for (path, place) in places.take_while(|(path, _)| path.exists()) {
            // A run that could not be created may have left something else in its place.
            if !path.is_dir() {
                continue;
            }
            let origin = Origin::find(&path)?;
            let Some((member, config)) = origin.member() else { continue };
            let Ok(sweep_id) = Uuid::parse_str(&member.sweep_id) else { continue };
            let group = group.get_or_insert_with(|| Self {
                config: Config::deserialize(&config["multi_run"]).unwrap_or_default(),
                sweep_id,
                runs: Vec::new(),
                notes: Vec::new(),
            });
            if sweep_id == group.sweep_id {
                group.runs.push((member.clone(), place));
            } else {
                group.notes.push(format!("{} is from an earlier command", place.display()));
            }
        }
        Ok(group)
    }
}

impl Rebuilt {
    /// Returns the result of the run as `member` of its group, in which its files are in
    /// `directory`; with its throughput and an interval with the confidence `level`, if there is
    /// one.
    #[must_use]
    pub(crate) fn into_result(
        self,
        member: Member,
        directory: PathBuf,
        level: Option<f64>,
    ) -> RunResult {
        let report = self.report;
        let succeeded = report.average(tag::REQUEST_COUNT).is_some_and(|count| count > 0.0);
        // A killed run does not have a verdict.
        let has_ended = report.outcome.client_health.is_some();
        let failure = match report.outcome.incomplete_reason.clone() {
            Some(reason) if report.outcome.was_cancelled => Some(Failure::Cancelled(reason)),
            Some(reason) if has_ended => Some(report.failure(reason)),
            Some(reason) => Some(Failure::Client(reason)),
            None if succeeded => None,
            None => Some(report.failure("no request succeeded".to_owned())),
        };
        let health = report.outcome.client_health;
        let bounds = health.as_ref().map(ClientHealth::bounds).unwrap_or_default();
        RunResult {
            member,
            benchmark_id: Some(report.run.benchmark_id),
            directory,
            random_seed: report.run.random_seed,
            failure,
            results: report.results,
            steady_results: report
                .steady_state
                .map_or_else(|_| Vec::new(), |steady| steady.results),
            time_breakdown: report.outcome.time_breakdown,
            throughput: judge::throughput(&self.profiling, level, bounds.rates),
            rate_bounds: bounds.rates,
            values: Some(self.profiling),
            verdict: health.and_then(|health| health.verdict),
        }
    }
}
