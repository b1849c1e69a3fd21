//! The flags of canaries.

use std::path::PathBuf;

use clap::Args;

use dataset::CanaryConfig;
use mock_server::parse_fraction;

/// The largest share of canaries: at least every second request is one of the load.
const MAX_SHARE: f64 = 0.5;

/// Prompts whose answers are known.
#[derive(Args)]
#[command(next_help_heading = "Canaries")]
pub(super) struct CanaryArgs {
    /// Share of the requests that are canaries, such as 1% or 0.01, at most 50%: fixed prompts whose
    /// answers are known from the idle server, which is asked before the load; the results leave them
    /// out. If conversations have several turns, it is the share of the sessions
    #[arg(long, value_name = "SHARE", value_parser = share)]
    canaries: Option<f64>,
    /// JSONL file with the canaries, such as the canaries.jsonl of an earlier run: their prompts, and
    /// the texts and answers that are expected [default: words to repeat]
    #[arg(long, value_name = "FILE", requires = "canaries")]
    canary_file: Option<PathBuf>,
    /// Include canaries in the results, like other requests
    #[arg(long, requires = "canaries")]
    pub(super) measure_canaries: bool,
}

impl CanaryArgs {
    pub(super) fn config(&self) -> Option<CanaryConfig> {
        self.canaries.map(|share| CanaryConfig { share, file: self.canary_file.clone() })
    }
}

/// Parses a share of requests, above 0.
fn share(text: &str) -> Result<f64, String> {
    match parse_fraction(text.trim()) {
        Some(share) if share > 0.0 && share <= MAX_SHARE => Ok(share),
        Some(_) => Err("must be above 0 and at most 50%".to_owned()),
        None => Err("expected a share such as 1% or 0.01".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_fractions_or_percentages() {
        assert_eq!(
            [share("1%"), share("0.01"), share(" 50%"), share("0.5")],
            [Ok(0.01), Ok(0.01), Ok(0.5), Ok(0.5)]
        );
        for outside in ["0", "0%", "51%", "1"] {
            assert_eq!(share(outside), Err("must be above 0 and at most 50%".to_owned()));
        }
        for other in ["", "-1%", "nan", "some", "1%%"] {
            assert!(share(other).unwrap_err().starts_with("expected a share"), "{other}");
        }
    }
}
