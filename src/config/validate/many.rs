//! What many runs need, and a search for a load.

use super::ConfigError;
use super::load::at_most;
use crate::config::RunConfig;
use crate::multi_run::search;
use crate::schedule::config::LoadPattern;

impl RunConfig {
    /// Checks what is asked of many runs.
    pub(super) fn validate_many(&self) -> Result<(), ConfigError> {
        if !self.multi_run.is_many() {
            return Ok(());
        }
        let together = [
            ("--shard", self.schedule.shard.is_some()),
            ("--start-at", self.schedule.start_at.is_some()),
        ];
        if let Some((flag, _)) = together.iter().find(|(_, is_given)| *is_given) {
            let why = "nobody knows when the runs after the first will start: make a single run, \
                       or leave it out";
            return Err(ConfigError::flag(flag, why));
        }
        match &self.multi_run.search {
            Some(search) => self.validate_search(search),
            None => Ok(()),
        }
    }

    fn validate_search(&self, search: &search::Config) -> Result<(), ConfigError> {
        let flag = "--search-recipe";
        if self.metrics.objectives.is_empty() {
            let why = "nothing says which requests are good: give --goodput \
                       'time_to_first_token:200 …', or --ttft-sla-ms, --tpot-sla-ms and \
                       --e2e-sla-ms";
            return Err(ConfigError::flag(flag, why));
        }
        at_most("--concurrency-max", search.max)?;
        if search.min >= search.max {
            let why = format!(
                "{} is no less than --concurrency-max {}: give a range to search in",
                search.min, search.max
            );
            return Err(ConfigError::flag("--concurrency-min", why));
        }
        self.validate_searched()
    }

    /// Checks that the load has a concurrency to vary, once the dataset has settled it.
    pub fn validate_searched(&self) -> Result<(), ConfigError> {
        if self.multi_run.search.is_none() {
            return Ok(());
        }
        match self.schedule.phases.last().map(|phase| &phase.load) {
            Some(LoadPattern::ClosedLoop) => Ok(()),
            Some(LoadPattern::FixedSchedule) => {
                let why = "it varies the concurrency, and the file's timestamps leave none to \
                           vary: give --no-fixed-schedule";
                Err(ConfigError::flag("--search-recipe", why))
            }
            _ => {
                let why = "it varies the concurrency of a closed loop: leave out what gives a rate";
                Err(ConfigError::flag("--search-recipe", why))
            }
        }
    }
}
