//! Finds the runs of a directory that contains several: by the plan of a sweep, or else by the
//! manifests of the runs.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use measure::multi_run::sweep::steps;
use measure::multi_run::{Config, Member, RunResult, Variation};

use super::origin::Origin;
use super::{Rebuilt, ReportError};
use crate::artifacts::sweep::Plan;

/// Several runs of one command.
#[derive(Debug)]
pub struct Group {
    /// Their configuration, as far as statistics need it.
    pub config: Config,
    /// The group's ID.
    pub sweep_id: Uuid,
    /// The cells of a sweep; otherwise one without a variation.
    pub cells: Vec<Option<Variation>>,
    /// The runs that were begun, in order.
    pub runs: Vec<GroupRun>,
    /// Other findings.
    pub notes: Vec<String>,
}

/// A run of a group.
#[derive(Debug)]
pub struct GroupRun {
    /// Its number among all that were planned, from 1.
    pub number: u64,
    /// The index of its cell.
    pub cell: usize,
    pub member: Member,
    /// Its directory, relative to that of the group.
    pub directory: PathBuf,
}

impl Group {
    /// Returns the runs in `directory`; `None` if it is not that of several runs.
    pub fn find(directory: &Path) -> Result<Option<Self>, ReportError> {
        match Plan::read(directory)? {
            Some(plan) => Ok(Self::of_plan(directory, plan)),
            None => Self::of_manifests(directory),
        }
    }

    /// Returns the runs of a sweep.
    fn of_plan(directory: &Path, plan: Plan) -> Option<Self> {
        let (config, sweep_id) = (plan.multi_run, plan.sweep_id);
        let mode = config.sweep.as_ref()?.mode;
        let cells: Vec<Variation> = plan.cells.into_iter().map(|cell| cell.variation).collect();
        let run = |(number, step): (u64, measure::multi_run::sweep::Step)| {
            let variation = cells.get(step.cell)?;
            let place = config.directory(Some(variation), step.trial);
            let member = Member::new(sweep_id, step.trial, Some(variation.clone()));
            let run = GroupRun { number, cell: step.cell, member, directory: place };
            directory.join(&run.directory).is_dir().then_some(run)
        };
        let runs =
            (1..).zip(steps(mode, cells.len(), config.most_runs())).filter_map(run).collect();
        let cells = cells.into_iter().map(Some).collect();
        Some(Self { config, sweep_id, cells, runs, notes: Vec::new() })
    }

    /// Returns the runs of one load.
    fn of_manifests(directory: &Path) -> Result<Option<Self>, ReportError> {
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
                config: config.clone(),
                sweep_id,
                cells: vec![None],
                runs: Vec::new(),
                notes: Vec::new(),
            });
            if sweep_id == group.sweep_id {
                let (number, member) = (member.trial + 1, member.clone());
                group.runs.push(GroupRun { number, cell: 0, member, directory: place });
            } else {
                group.notes.push(format!("{} is from an earlier command", place.display()));
            }
        }
        Ok(group)
    }
}

impl Rebuilt {
    /// Returns the result of the run as `member` of the group with the configuration `config`, in
    /// which its files are in `directory`.
    #[must_use]
    pub fn into_result(self, member: Member, directory: PathBuf, config: &Config) -> RunResult {
        self.report.into_result(member, directory, self.profiling, config)
    }
}
