//! What many runs need, and a search for a load.

use super::ConfigError;
use super::load::at_most;
use crate::config::RunConfig;
use crate::multi_run::{Dimension, search};
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
        if search.dimension == Dimension::Concurrency {
            at_most("--concurrency-max", search.max as u64)?;
        }
        if search.min >= search.max {
            let [lower, upper] = search.dimension.flags();
            let why = format!(
                "{} is no less than {upper} {}: give a range to search in",
                search.min, search.max
            );
            return Err(ConfigError::flag(lower, why));
        }
        self.validate_searched()
    }

    /// Checks that the load has what the search varies, once the dataset has settled it.
    pub fn validate_searched(&self) -> Result<(), ConfigError> {
        let Some(search) = self.multi_run.search else { return Ok(()) };
        let Some(phase) = self.schedule.phases.last() else { return Ok(()) };
        let why = match (search.dimension, &phase.load) {
            (Dimension::Concurrency, LoadPattern::ClosedLoop)
            | (Dimension::RequestRate, LoadPattern::Rate(_)) => return Ok(()),
            (_, LoadPattern::FixedSchedule) => {
                "it varies the load, and the file's timestamps leave nothing to vary: give \
                 --no-fixed-schedule"
            }
            (Dimension::Concurrency, _) => {
                "it varies the concurrency of a closed loop: leave out what gives a rate, or give \
                 --request-rate-max to search for a rate"
            }
            (Dimension::RequestRate, _) => {
                "it varies the request rate: leave out what spaces requests in another way"
            }
        };
        Err(ConfigError::flag("--search-recipe", why))
    }
}
