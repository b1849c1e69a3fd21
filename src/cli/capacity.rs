//! The flags of `aiperf capacity`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use measure::multi_run::Filter;

use super::multi_run::level;
use super::value::{above_zero, positive, seconds};
use crate::config::ConfigError;

/// What to predict from the loads of a sweep or a search.
#[derive(Debug, Args)]
pub struct Capacity {
    /// Artifact directory of a sweep over loads, or of a search, with at least four loads
    #[arg(value_name = "DIR", required = true)]
    pub(crate) directory: PathBuf,
    /// Predict the results at this number of requests per second
    #[arg(long, value_name = "RATE", value_parser = above_zero, conflicts_with = "users")]
    pub(crate) rate: Option<f64>,
    /// Predict the results with this number of users, and how many replicas they need
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    pub(crate) users: Option<u64>,
    /// Time that a user thinks after each response, in seconds [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) think_time: Option<f64>,
    /// Condition that a replica must meet, as for --search-sla; finds the most users that it can have.
    /// Can be repeated
    #[arg(long = "objective", value_name = "CONDITION", value_parser = Filter::parse)]
    pub(crate) objectives: Vec<Filter>,
    /// Artifact directory of a run with the load that --rate or --users predicts: compares it with the
    /// prediction, and ends with exit code 3 if the prediction did not come true. With FLAGS, the run
    /// is made first
    #[arg(long, value_name = "DIR")]
    pub(crate) confirm: Option<PathBuf>,
    /// Confidence level of the intervals, between 0 and 1
    #[arg(long, value_name = "LEVEL", value_parser = level, default_value = "0.95")]
    pub(crate) confidence_level: f64,
    /// Flags of aiperf profile for the run that confirms the prediction, after --; its load is added
    #[arg(value_name = "FLAGS", last = true, requires = "confirm")]
    flags: Vec<OsString>,
}

impl Capacity {
    /// Returns the command line of the run that confirms the prediction; `None` if it was made before.
    ///
    /// # Errors
    ///
    /// If no load is predicted, or one whose users think.
    pub(super) fn profile_arguments(&self) -> Result<Option<Vec<OsString>>, ConfigError> {
        let Some(directory) = self.confirm.as_ref().filter(|_| !self.flags.is_empty()) else {
            return Ok(None);
        };
        let load = match (self.rate, self.users) {
            (Some(rate), _) => format!("--request-rate={rate}"),
            (None, Some(users)) if self.think_time.unwrap_or(0.0) == 0.0 => {
                format!("--concurrency={users}")
            }
            (None, Some(_)) => {
                let why = "cannot make a run with a --think-time; make it with aiperf profile, and give \
                           its directory without flags";
                return Err(ConfigError::flag("--confirm", why));
            }
            (None, None) => {
                let why = "requires --rate or --users, which say what is predicted";
                return Err(ConfigError::flag("--confirm", why));
            }
        };
        let start = ["aiperf", "profile"].map(OsString::from).into_iter();
        let place = [load.into(), "--artifact-dir".into(), directory.clone().into_os_string()];
        Ok(Some(start.chain(self.flags.iter().cloned()).chain(place).collect()))
    }
}
