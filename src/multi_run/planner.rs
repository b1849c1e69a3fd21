//! Which run is next: the one way in which the runs of a command are chosen.

use serde_json::Value;

use super::search::{self, History};
use super::sweep::{self, Choice, Mode, Step};
use super::{Config, Filter, Range, Trials, Variation, knee, space};

/// The choice of the runs of a command from the results of those before.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Planner<'a> {
    /// The trials of cells that are known before the first run.
    Known(Mode),
    /// Loads that approach the best one that meets all conditions.
    Search(&'a search::Config, &'a [Filter]),
    /// Combinations that approach the best ones.
    Space(&'a space::Config, &'a sweep::Config),
    /// Loads that approach the one at which throughput stops growing.
    Knee(&'a Range),
}

impl<'a> Planner<'a> {
    /// Returns the choice that `config` asks for.
    #[must_use]
    pub(crate) fn of(config: &'a Config) -> Self {
        let Some(sweep) = &config.sweep else { return Self::Known(Mode::Independent) };
        match &sweep.choice {
            Choice::Known => Self::Known(sweep.mode),
            Choice::Search(search) => Self::Search(search, &sweep.filters),
            Choice::Space(space) => Self::Space(space, sweep),
            Choice::Knee(range) => Self::Knee(range),
        }
    }

    /// Returns the next run of `cells`, the cells so far; `None` if they are complete.
    #[must_use]
    pub(crate) fn step(&self, runs: u64, cells: &[&Trials]) -> Option<Step> {
        let mode = if let Self::Known(mode) = self { *mode } else { Mode::Independent };
        let is_due = |step: &Step| cells.get(step.cell).is_some_and(|it| it.needs(step.trial));
        sweep::steps(mode, cells.len(), runs).find(is_due)
    }

    /// Returns the number of a run among all runs of `cells` cells, from 1.
    #[must_use]
    pub(crate) const fn number(&self, step: Step, runs: u64, cells: usize) -> u64 {
        let cell = step.cell as u64;
        match self {
            Self::Known(Mode::Repeated) => step.trial * cells as u64 + cell + 1,
            _ => cell * runs + step.trial + 1,
        }
    }

    /// Returns the values of the parameters of the cell after `cells`, which are complete; `None` if
    /// there is none.
    #[must_use]
    pub(crate) fn values<'b>(
        &self,
        cells: impl Iterator<Item = (&'b Variation, &'b Trials)>,
    ) -> Option<Vec<Value>> {
        let load = match self {
            Self::Known(_) => return None,
            Self::Space(config, sweep) => {
                let history = space::History::of(config, &sweep.parameters, &sweep.filters, cells);
                let values = history.next().ok()?;
                let pairs = config.ranges.iter().zip(values);
                return Some(pairs.map(|(range, value)| range.json(value)).collect());
            }
            Self::Search(config, filters) => History::of(config, filters, cells).next().ok()?,
            Self::Knee(range) => {
                let levels: Vec<_> =
                    cells.filter_map(|(cell, trials)| knee::Level::of(cell, trials)).collect();
                knee::next(range, &levels).ok()?
            }
        };
        Some(vec![load.value()])
    }
}
