//! Validation of repeated runs and of the search for a load.

use super::ConfigError;
use super::load::at_most;
use crate::config::RunConfig;
use crate::multi_run::{Dimension, search};
use crate::schedule::config::LoadPattern;

impl RunConfig {
    /// Checks the settings of repeated runs.
    pub(super) fn validate_many(&self) -> Result<(), ConfigError> {
        if !self.multi_run.is_many() {
            return Ok(());
        }
        let together = [
            ("--shard", self.schedule.shard.is_some()),
            ("--start-at", self.schedule.start_at.is_some()),
        ];
        if let Some((flag, _)) = together.iter().find(|(_, is_given)| *is_given) {
            let why = "cannot be combined with several runs, since only the first would have a \
                       known start; make a single run, or remove the flag";
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
            let why = "requires an objective that says which requests are good; add --goodput \
                       'time_to_first_token:200 request_latency:2000', --ttft-sla-ms, \
                       --tpot-sla-ms or --e2e-sla-ms";
            return Err(ConfigError::flag(flag, why));
        }
        if search.dimension == Dimension::Concurrency {
            at_most("--concurrency-max", search.max as u64)?;
        }
        if search.min >= search.max {
            let [lower, upper] = search.dimension.flags();
            let why = format!("must be less than {upper} ({}), got {}", search.max, search.min);
            return Err(ConfigError::flag(lower, why));
        }
        self.validate_searched()
    }

    /// Checks that the load has the dimension that the search varies. To be called again once
    /// the dataset has determined the load.
    pub fn validate_searched(&self) -> Result<(), ConfigError> {
        let Some(search) = self.multi_run.search else { return Ok(()) };
        let Some(phase) = self.schedule.phases.last() else { return Ok(()) };
        let why = match (search.dimension, &phase.load) {
            (Dimension::Concurrency, LoadPattern::ClosedLoop)
            | (Dimension::RequestRate, LoadPattern::Rate(_)) => return Ok(()),
            (_, LoadPattern::FixedSchedule) => {
                "a search varies the load, which the file's timestamps fix; add --no-fixed-schedule"
            }
            (Dimension::Concurrency, _) => {
                "the search varies the concurrency of a closed loop; remove the flags that set a \
                 rate, or add --request-rate-max to search for a rate"
            }
            (Dimension::RequestRate, _) => {
                "the search varies the request rate; remove the flags that schedule requests in \
                 another way"
            }
        };
        Err(ConfigError::flag("--search-recipe", why))
    }
}
