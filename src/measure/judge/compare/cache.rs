//! Whether the server's prefix cache explains a difference.

use super::finding::Finding;
use super::{Row, Trial};
use crate::metrics::tag;

/// Difference of shares of prompt tokens that matters.
const MATERIAL: f64 = 0.05;

/// The prefix cache of one side, as shares of its prompt tokens.
#[derive(Debug, Clone, Copy, Default)]
struct Cached {
    found: f64,
    expected: f64,
    /// Whether a run found more than its own prompts explain.
    exceeds: bool,
}

/// A difference between the caches of the two sides that is not the server's merit: a cache that was not
/// cold, or prompts that repeat more.
#[derive(Debug, Clone)]
pub(in crate::judge) struct CacheDifference {
    why: String,
    new_is_warmer: bool,
}

impl Cached {
    /// Returns the cache of runs; `None` without runs, or if it is not known of each.
    fn from_trials<'a>(trials: impl Iterator<Item = &'a Trial>) -> Option<Self> {
        let (mut tokens, mut sum) = (0.0, Self::default());
        for trial in trials {
            let cache = trial.prefix_cache.as_ref()?;
            let of_run = cache.total.prompt_tokens;
            tokens += of_run;
            sum.found += cache.cached_ratio()? * of_run;
            sum.expected += cache.total.expected_ratio * of_run;
            sum.exceeds |= cache.excess().is_some();
        }
        let share = |sum: f64| sum / tokens;
        (tokens > 0.0).then(|| Self {
            found: share(sum.found),
            expected: share(sum.expected),
            ..sum
        })
    }
}

impl CacheDifference {
    /// Compares the caches of two sides. A server that reads more from a cache that was cold, with prompts
    /// that repeat as much, is better, so that this is not an obstacle.
    pub(in crate::judge) fn between<'a>(
        base: impl Iterator<Item = &'a Trial>,
        new: impl Iterator<Item = &'a Trial>,
    ) -> Option<Self> {
        let (base, new) = (Cached::from_trials(base)?, Cached::from_trials(new)?);
        let has_same_prompts = (new.expected - base.expected).abs() <= MATERIAL;
        let is_cold = !base.exceeds && !new.exceeds;
        if (new.found - base.found).abs() <= MATERIAL || (is_cold && has_same_prompts) {
            return None;
        }
        let percent = |share: f64| format!("{:.1}%", 100.0 * share);
        let reason = if is_cold {
            format!(
                "since its prompts repeat {} and {} of each other",
                percent(base.expected),
                percent(new.expected)
            )
        } else {
            "which was not cold; repeat the runs with --reset-kv-cache".to_owned()
        };
        let why = format!(
            "the server read {} of the prompt tokens of BASE and {} of those of NEW from its prefix \
             cache, {reason}",
            percent(base.found),
            percent(new.found)
        );
        Some(Self { why, new_is_warmer: new.found > base.found })
    }

    /// Takes back what was found in a row if the cache may explain it: all but failures, and except that
    /// the side with the warmer cache is worse.
    pub(in crate::judge) fn doubt(&self, row: &mut Row) {
        let stands = match row.finding {
            Finding::Regression => self.new_is_warmer,
            Finding::Improvement => !self.new_is_warmer,
            Finding::CannotTell => true,
            Finding::WithinGate | Finding::NoDifference | Finding::Undecided => false,
        };
        if row.metric != tag::REQUEST_ERROR_RATE && !stands {
            row.finding = Finding::CannotTell;
            row.needed = None;
            row.note = Some(self.why.clone());
        }
    }
}
