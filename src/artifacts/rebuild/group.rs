//! Finds the runs of one load by their manifests.

use std::path::{Path, PathBuf};

use serde_json::Value;
use uuid::Uuid;

use super::origin::Origin;
use super::{Rebuilt, ReportError};
use crate::metrics::tag;
use crate::multi_run::{Config, Failure, Member, RunResult};
use crate::units::Nanos;

/// Several runs of one load.
#[derive(Debug)]
pub struct Group {
    /// Their configuration, as far as statistics need it.
    pub config: Config,
    /// The group's ID.
    pub sweep_id: Uuid,
    /// The runs that were begun, in order, each with its directory relative to that of the group.
    pub runs: Vec<(Member, PathBuf)>,
    /// Other findings.
    pub notes: Vec<String>,
}

impl Group {
    /// Returns the runs in `directory`; `None` if it is not one of several runs.
    pub fn find(directory: &Path) -> Result<Option<Self>, ReportError> {
        let mut group: Option<Self> = None;
        let places = (0..).map(Member::place).map(|place| (directory.join(&place), place));
        for (path, place) in places.take_while(|(path, _)| path.exists()) {
            // A run that could not be created may have left something else in its place.
            if !path.is_dir() {
                continue;
            }
            let origin = Origin::find(&path)?;
            let Some((member, other_config)) = origin.member() else { continue };
            let Ok(sweep_id) = Uuid::parse_str(&member.sweep_id) else { continue };
            let group = group.get_or_insert_with(|| Self {
                config: asked(other_config),
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

/// Returns the configuration of several runs in an `other_config`.
fn asked(other_config: &Value) -> Config {
    let defaults = Config::default();
    let member = |name: &str| other_config.pointer(&format!("/multi_run/{name}"));
    Config {
        runs: member("num_runs").and_then(Value::as_u64).unwrap_or(defaults.runs),
        cooldown: member("cooldown_seconds")
            .and_then(Value::as_f64)
            .map_or(defaults.cooldown, Nanos::from_seconds),
        confidence_level: member("confidence_level")
            .and_then(Value::as_f64)
            .filter(|level| (0.0..1.0).contains(level))
            .unwrap_or(defaults.confidence_level),
        ..defaults
    }
}

impl Rebuilt {
    /// Returns the result of the run as `member` of its group, in which its files are in
    /// `directory`.
    #[must_use]
    pub fn into_result(self, member: Member, directory: PathBuf) -> RunResult {
        let report = self.report;
        let succeeded = report.average(tag::REQUEST_COUNT).is_some_and(|count| count > 0.0);
        let failure = match report.outcome.incomplete_reason {
            Some(reason) if report.outcome.was_cancelled => Some(Failure::Cancelled(reason)),
            Some(reason) => Some(Failure::Client(reason)),
            None if succeeded => None,
            None => Some(Failure::Load("no request succeeded".to_owned())),
        };
        RunResult {
            member,
            benchmark_id: Some(report.run.benchmark_id),
            directory,
            random_seed: report.run.random_seed,
            failure,
            results: report.results,
            values: Some(self.profiling),
            verdict: report.outcome.client_health.and_then(|health| health.verdict),
        }
    }
}
