//! Whether the throughput of a sweep grew with the concurrency.

use base::statistics::Estimate;
use measure::metrics::health::Verdict;
use measure::metrics::tag;
use measure::multi_run::sweep::{Cell, Results};
use measure::multi_run::{Load, knee};

/// Least growth of the throughput from one concurrency to the next, relative to that of the concurrency, of
/// a server that can do more.
const GROWS: f64 = 0.25;

/// States between which concurrencies the throughput stopped growing, or that it grew up to the highest, or
/// where it is not known.
pub(super) fn of(results: &Results) -> Option<String> {
    let mut levels: Vec<Level> = results.cells.iter().filter_map(Level::from_cell).collect();
    levels.sort_by_key(|level| level.concurrency);
    let steps = || levels.windows(2).map(|pair| Step { low: &pair[0], high: &pair[1] });
    let limit = |step: Step<'_>| Some(step.limit(step.flat().ok()??));
    if let Some(limit) = steps().find_map(limit) {
        return Some(limit);
    }
    let unknown = steps().find_map(|step| Some((step.flat().err()?, step)));
    let highest = levels.last().filter(|_| levels.len() > 1)?.concurrency;
    Some(match unknown {
        Some((why, Step { low, high })) => format!(
            "Whether the throughput grew from concurrency {} to {} is not known: {why}. Run them longer \
             (--request-count, --benchmark-duration) or several times (--num-profile-runs).",
            low.concurrency, high.concurrency
        ),
        None => format!(
            "The throughput grew with the concurrency up to {highest}, the highest that was run: the \
             server's limit is not reached."
        ),
    })
}

/// A concurrency of a sweep: its throughput, its mean latency, and whether the client kept up.
struct Level {
    concurrency: u64,
    throughput: Result<Estimate, String>,
    latency: f64,
    is_believed: bool,
}

impl Level {
    fn from_cell(cell: &Cell) -> Option<Self> {
        let level = knee::Level::from_trials(&cell.variation, &cell.trials)?;
        let Load::Concurrency(concurrency) = level.load else { return None };
        Some(Self {
            concurrency,
            throughput: level.throughput,
            latency: cell.trials.mean(tag::REQUEST_LATENCY, "avg").filter(|mean| *mean > 0.0)?,
            is_believed: cell.verdict() != Some(Verdict::Invalid),
        })
    }
}

/// Two neighboring concurrencies of a sweep.
struct Step<'a> {
    low: &'a Level,
    high: &'a Level,
}

impl Step<'_> {
    fn times(&self) -> f64 {
        self.high.concurrency as f64 / self.low.concurrency as f64
    }

    /// Returns how many times as high the throughput is at the higher concurrency, if that is less than a
    /// server has that can do more.
    ///
    /// # Errors
    ///
    /// Returns why it is not known: a throughput is missing, or the intervals overlap.
    fn flat(&self) -> Result<Option<f64>, String> {
        let missing =
            |level: &Level, why: &String| format!("at concurrency {}, {why}", level.concurrency);
        let low = self.low.throughput.as_ref().map_err(|why| missing(self.low, why))?;
        let high = self.high.throughput.as_ref().map_err(|why| missing(self.high, why))?;
        let least = low.times(1.0 + GROWS * (self.times() - 1.0));
        if least.is_below(high) {
            Ok(None)
        } else if high.is_below(&least) {
            Ok(Some(high.value / low.value))
        } else {
            let shown = |it: &Estimate| format!("{:.1} ± {:.1}", it.value, it.half_width);
            Err(format!("it was {} and {} requests/s", shown(low), shown(high)))
        }
    }

    /// States that the throughput is only `ratio` times as high, and what limits it.
    fn limit(&self, ratio: f64) -> String {
        format!(
            "From concurrency {} to {} ({:.1} times as many), the throughput was {ratio:.2} times and the \
             mean latency {:.2} times as high: {}.",
            self.low.concurrency,
            self.high.concurrency,
            self.times(),
            self.high.latency / self.low.latency,
            if self.low.is_believed && self.high.is_believed {
                "the server limits the throughput there, and more requests in flight only wait longer"
            } else {
                "the client could not keep up, so the limit of the server is not known"
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares 8 requests in flight, with 100 ± 5 requests/s, with 16.
    fn flat(higher: Result<Estimate, String>) -> Result<Option<f64>, String> {
        let level = |concurrency, throughput| Level {
            concurrency,
            throughput,
            latency: 50.0,
            is_believed: true,
        };
        let low = level(8, Ok(Estimate { value: 100.0, half_width: 5.0 }));
        Step { low: &low, high: &level(16, higher) }.flat()
    }

    #[test]
    fn the_throughput_is_flat_if_the_intervals_say_so() {
        let estimate = |value, half_width| Ok(Estimate { value, half_width });
        // A quarter of the growth of the concurrency is 125 ± 6.25 requests/s.
        assert_eq!(flat(estimate(101.0, 5.0)), Ok(Some(1.01)));
        assert_eq!(flat(estimate(190.0, 5.0)), Ok(None));
        let unknown = flat(estimate(190.0, 60.0));
        assert_eq!(unknown.unwrap_err(), "it was 100.0 ± 5.0 and 190.0 ± 60.0 requests/s");
        assert!(flat(estimate(101.0, 60.0)).is_err());
        let few =
            flat(Err("there were 48 requests; at least 50 are required".to_owned())).unwrap_err();
        assert_eq!(few, "at concurrency 16, there were 48 requests; at least 50 are required");
    }
}
