//! Which run is next: the one way in which the runs of a command are chosen.

use serde_json::Value;

use super::history::History;
use super::limit;
use super::sweep::{self, Choice, Mode, Step};
use super::{Config, Load, Range, Trials, Variation, knee, search, space};

/// The next run once those that the cells have by themselves are complete.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// The first run of a cell with these values of the parameters.
    Cell(Vec<Value>),
    /// One more run of a cell.
    Again(Step),
}

/// The choice of the runs of a command from the results of those before.
#[derive(Debug, Clone, Copy)]
pub enum Planner<'a> {
    /// The trials of cells that are known before the first run.
    Known(Mode),
    /// Loads that approach the best one that meets all conditions.
    Search(&'a search::Config, &'a sweep::Config),
    /// Combinations that approach the best ones.
    Space(&'a space::Config, &'a sweep::Config),
    /// Loads that approach the one at which throughput stops growing.
    Knee(&'a Range),
}

impl<'a> Planner<'a> {
    /// Returns the choice that `config` asks for.
    #[must_use]
    pub fn from_config(config: &'a Config) -> Self {
        let Some(sweep) = &config.sweep else { return Self::Known(Mode::Independent) };
        match &sweep.choice {
            Choice::Known => Self::Known(sweep.mode),
            Choice::Search(search) => Self::Search(search, sweep),
            Choice::Space(space) => Self::Space(space, sweep),
            Choice::Knee(range) => Self::Knee(range),
        }
    }

    /// Returns the next run of `cells`, the cells so far; `None` if they are complete.
    #[must_use]
    pub fn step(&self, runs: u64, cells: &[&Trials]) -> Option<Step> {
        let mode = if let Self::Known(mode) = self { *mode } else { Mode::Independent };
        let is_due = |step: &Step| cells.get(step.cell).is_some_and(|it| it.needs(step.trial));
        sweep::steps(mode, cells.len(), runs).find(is_due)
    }

    /// Returns the number of a run among all runs of `cells`, from 1.
    #[must_use]
    pub fn number(&self, step: Step, runs: u64, cells: &[&Trials]) -> u64 {
        let cell = step.cell as u64;
        match self {
            Self::Known(Mode::Repeated) => step.trial * cells.len() as u64 + cell + 1,
            // A cell of a search may have further runs.
            Self::Search(..) => cells.iter().map(|cell| cell.runs.len() as u64).sum::<u64>() + 1,
            _ => cell * runs + step.trial + 1,
        }
    }

    /// Returns the run after those of `cells`, which are complete; `None` if there is none.
    #[must_use]
    pub fn next<'b>(
        &self,
        cells: impl Iterator<Item = (&'b Variation, &'b Trials)>,
    ) -> Option<Next> {
        let load = match self {
            Self::Known(_) => return None,
            Self::Space(config, sweep) => {
                let values = History::from_cells(*config, sweep, cells).next().ok()?;
                let pairs = config.ranges.iter().zip(values);
                return Some(Next::Cell(pairs.map(|(range, value)| range.json(value)).collect()));
            }
            Self::Search(config, sweep) => {
                let cells: Vec<_> = cells.collect();
                match History::from_cells(*config, sweep, cells.iter().copied()).next().ok()? {
                    limit::Next::Load(load) => load,
                    limit::Next::Again(load) => {
                        let is_same_cell = |(cell, _): &(&Variation, _)| {
                            Load::from_values(&cell.values) == Some(load)
                        };
                        let cell = cells.iter().position(is_same_cell)?;
                        let (_, trials) = cells.get(cell)?;
                        let runs = trials.runs.len() as u64;
                        let trial = (0..=runs).find(|trial| !trials.has(*trial))?;
                        return Some(Next::Again(Step { cell, trial }));
                    }
                }
            }
            Self::Knee(range) => {
                let levels: Vec<_> = cells
                    .filter_map(|(cell, trials)| knee::Level::from_trials(cell, trials))
                    .collect();
                knee::next(range, &levels).ok()?
            }
        };
        Some(Next::Cell(vec![load.value()]))
    }
}
