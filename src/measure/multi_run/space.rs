//! The search for the best combination of settings (`--search-space`).
//!
//! The first combinations are spread evenly; each further one is drawn by the tree-structured Parzen
//! estimator (Bergstra et al., 2011) from where the better ones of those before it are. The
//! estimator is filled from the results for each choice, so it does not keep a state of its own.

use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tpe::{TpeOptimizer, parzen_estimator};

use base::setting::named;

use super::history::{self, End, Search};
use super::{Filter, Trials, Variation};
use crate::metrics::MetricTag;

/// Maximum number of draws of a combination that was not tried yet.
const DRAWS: usize = 1000;

/// The settings of a search over several values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The ranges of the parameters of the sweep, in their order.
    pub ranges: Vec<Range>,
    /// What to optimize, at least one.
    pub objectives: Vec<Objective>,
    /// Number of combinations (`--search-max-iterations`).
    pub iterations: usize,
    /// Number of combinations that are spread evenly (`--search-initial-points`).
    pub initial: usize,
    /// Seed of the choice (`--search-random-seed`).
    pub seed: u64,
}

/// The values that a parameter can have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Range {
    /// Lower bound.
    pub lo: f64,
    /// Upper bound.
    pub hi: f64,
    /// Whether only whole numbers are tried.
    pub is_whole: bool,
}

impl Range {
    /// Returns the value at `share` of the range, from 0 to 1.
    fn at(self, share: f64) -> f64 {
        if self.is_whole {
            // Each whole number has the same share.
            (self.lo + (share * (self.hi - self.lo + 1.0)).floor()).min(self.hi)
        } else {
            self.lo + share * (self.hi - self.lo)
        }
    }

    /// Returns where `value` is in the range, from 0 to 1.
    fn share(self, value: f64) -> f64 {
        if self.is_whole {
            (value - self.lo + 0.5) / (self.hi - self.lo + 1.0)
        } else {
            (value - self.lo) / (self.hi - self.lo)
        }
    }

    /// Returns `value` as it is in files and on the command line.
    pub fn json(self, value: f64) -> Value {
        if self.is_whole { (value as u64).into() } else { value.into() }
    }
}

/// A statistic to optimize.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Objective {
    /// The metric (`--search-metric`).
    pub metric: MetricTag,
    /// Its statistic (`--search-stat`).
    pub statistic: String,
    /// Whether the largest or the smallest value is the best (`--search-direction`).
    pub direction: Direction,
}

/// Which value of an objective is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The largest.
    Maximize,
    /// The smallest.
    Minimize,
}

named! { Direction { "maximize" => Maximize, "minimize" => Minimize } }

/// What is known of a combination that was tried.
#[derive(Debug, Clone)]
pub struct Tried {
    /// The value of each parameter.
    values: Vec<f64>,
    /// The value of each objective, mean over the runs.
    pub objectives: Vec<Option<f64>>,
    /// By how much the conditions are not met, relative to their limits.
    violation: f64,
}

/// A combination that was tried, with its results.
pub type Point = history::Point<Tried>;

/// The combinations tried so far.
pub type History = history::History<Config>;

impl Search for Config {
    type Tried = Tried;
    type Limit = ();
    /// The values of the parameters.
    type Next = Vec<f64>;

    fn tried(&self, filters: &[Filter], variation: &Variation, trials: &Trials) -> Option<Tried> {
        let excess = |filter: &Filter| match filter.evaluate(trials) {
            (_, true) => 0.0,
            (Some(value), _) => {
                (value - filter.threshold).abs() / filter.threshold.abs().max(f64::MIN_POSITIVE)
            }
            (None, _) => f64::MAX,
        };
        let objectives = self.objectives.iter().map(|it| trials.mean(it.metric, &it.statistic));
        (!trials.was_cancelled()).then(|| Tried {
            values: variation.values.values().map(|it| it.as_f64().unwrap_or(f64::NAN)).collect(),
            objectives: objectives.collect(),
            violation: filters.iter().map(excess).sum::<f64>().min(f64::MAX),
        })
    }

    /// A combination without a value of an objective is not feasible.
    fn judge(history: &mut History) {
        for point in &mut history.points {
            point.is_feasible &= point.tried.objectives.iter().all(Option::is_some);
        }
    }

    fn next(history: &History) -> Result<Vec<f64>, End> {
        if history.points.len() >= history.config.iterations {
            return Err(End::MostPoints);
        }
        let score = |point: &Point| history.score(point);
        let points = history.points.iter();
        let tried: Vec<(&[f64], f64)> =
            points.map(|point| (point.tried.values.as_slice(), score(point))).collect();
        next(&history.config, &tried).ok_or(End::Exhausted)
    }

    fn name(variation: &Variation) -> String {
        variation.directory.clone()
    }
}

impl History {
    /// Returns the number of other points that are better: with one objective, the rank.
    fn score(&self, point: &Point) -> f64 {
        self.points.iter().filter(|other| self.is_better(other, point)).count() as f64
    }

    /// Returns whether `a` dominates `b`. A feasible point dominates those that are not, and of
    /// these, the one nearer to the conditions dominates the other.
    fn is_better(&self, a: &Point, b: &Point) -> bool {
        if !a.is_feasible || !b.is_feasible {
            let is_nearer = !b.is_feasible && a.tried.violation < b.tried.violation;
            return if a.is_feasible { !b.is_feasible } else { is_nearer };
        }
        let losses = |point: &Point| -> Vec<f64> {
            let objectives = self.config.objectives.iter().zip(&point.tried.objectives);
            objectives
                .map(|(objective, value)| match (objective.direction, value) {
                    (_, None) => f64::INFINITY,
                    (Direction::Maximize, Some(value)) => -value,
                    (Direction::Minimize, Some(value)) => *value,
                })
                .collect()
        };
        let (a, b) = (losses(a), losses(b));
        let mut pairs = a.iter().zip(&b);
        pairs.clone().all(|(a, b)| a <= b) && pairs.any(|(a, b)| a < b)
    }

    /// Returns the points that no other one dominates: with one objective, the best.
    #[must_use]
    pub fn best(&self) -> Vec<&Point> {
        self.points.iter().filter(|point| self.score(point) == 0.0).collect()
    }
}

/// Returns the values to try after those `tried`, each with its score, of which the smallest is the
/// best; `None` if all were tried.
fn next(config: &Config, tried: &[(&[f64], f64)]) -> Option<Vec<f64>> {
    let is_new = |values: &Vec<f64>| !tried.iter().any(|(other, _)| other == values);
    let combinations = config.ranges.iter().try_fold(1.0, |product, range| {
        range.is_whole.then_some(product * (range.hi - range.lo + 1.0))
    });
    if combinations.is_some_and(|all| tried.len() as f64 >= all) {
        return None;
    }
    // Those that are spread evenly, of which a few can be equal once rounded.
    let start = tried.len() as u64 + 1;
    let mut spread = (start..start + DRAWS as u64).map(|index| even(config, index)).filter(is_new);
    if tried.len() < config.initial {
        return spread.next();
    }
    let mut random = ChaCha8Rng::seed_from_u64(config.seed.wrapping_add(start));
    let mut estimators: Vec<_> = config
        .ranges
        .iter()
        .map(|_| Some(TpeOptimizer::new(parzen_estimator(), tpe::range(0.0, 1.0).ok()?)))
        .collect::<Option<_>>()?;
    for (values, score) in tried {
        for ((estimator, range), value) in estimators.iter_mut().zip(&config.ranges).zip(*values) {
            // A value beyond the range is of another search.
            let _ = estimator.tell(range.share(*value), *score);
        }
    }
    let mut draw = || -> Option<Vec<f64>> {
        let pairs = estimators.iter_mut().zip(&config.ranges);
        pairs.map(|(estimator, range)| Some(range.at(estimator.ask(&mut random).ok()?))).collect()
    };
    let drawn = (0..DRAWS).map_while(|_| draw()).find(is_new);
    drawn.or_else(|| spread.next())
}

/// Returns a point of Halton's sequence, shifted by the seed.
fn even(config: &Config, index: u64) -> Vec<f64> {
    const BASES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    let bases = BASES.iter().cycle();
    let shift = (config.seed % 1024) as f64 / 1024.0;
    let share = |base: &u64| (radical_inverse(index, *base) + shift).fract();
    config.ranges.iter().zip(bases).map(|(range, base)| range.at(share(base))).collect()
}

/// Returns the number whose digits in `base` after the point are those of `index` in reverse.
fn radical_inverse(mut index: u64, base: u64) -> f64 {
    let (mut sum, mut weight) = (0.0, 1.0);
    while index > 0 {
        weight /= base as f64;
        sum += weight * (index % base) as f64;
        index /= base;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tag;
    use crate::multi_run::sweep;
    use serde_json::Map;

    fn range(lo: f64, hi: f64, is_whole: bool) -> Range {
        Range { lo, hi, is_whole }
    }

    fn config(ranges: Vec<Range>, iterations: usize, seed: u64) -> Config {
        let objective = Objective {
            metric: tag::GOODPUT,
            statistic: "avg".to_owned(),
            direction: Direction::Maximize,
        };
        Config { ranges, objectives: vec![objective], iterations, initial: 5, seed }
    }

    /// Returns what is tried of a function to be minimized.
    fn search(config: &Config, of: impl Fn(&[f64]) -> f64) -> Vec<(Vec<f64>, f64)> {
        let mut tried: Vec<(Vec<f64>, f64)> = Vec::new();
        while tried.len() < config.iterations {
            let known: Vec<(&[f64], f64)> =
                tried.iter().map(|(values, score)| (values.as_slice(), *score)).collect();
            let Some(values) = next(config, &known) else { break };
            let value = of(&values);
            tried.push((values, value));
        }
        tried
    }

    #[test]
    fn values_are_in_their_range_and_never_repeated() {
        let ranges = vec![range(1.0, 4.0, true), range(2.0, 3.0, true), range(0.5, 0.5001, false)];
        let config = config(ranges.clone(), 40, 7);
        let tried = search(&config, |values| values[0]);
        assert_eq!(tried.len(), 40);
        for (values, _) in &tried {
            for (value, range) in values.iter().zip(&ranges) {
                assert!(range.lo <= *value && *value <= range.hi, "{values:?}");
                assert!(!range.is_whole || value.fract() == 0.0, "{values:?}");
                assert!((range.at(range.share(*value)) - value).abs() < 1e-9);
            }
        }
        assert_eq!(tried, search(&config, |values| values[0]), "a seed gives the same search");
        // All of eight combinations, and then no more.
        let few = Config { ranges: ranges[..2].to_vec(), ..config };
        assert_eq!(search(&few, |values| values[0]).len(), 8);
    }

    #[test]
    fn estimated_values_are_better_than_evenly_spread_ones() {
        // The best is 0 at (300, 0.25).
        let point = |values: &[f64]| {
            ((values[0] - 300.0) / 100.0).powi(2) + (4.0 * values[1] - 1.0).powi(2)
        };
        let best = |initial: usize, seed: u64| {
            let ranges = vec![range(1.0, 1000.0, true), range(0.0, 1.0, false)];
            let config = Config { initial, ..config(ranges, 40, seed) };
            let tried = search(&config, point);
            tried.iter().map(|(_, value)| *value).fold(f64::INFINITY, f64::min)
        };
        let wins = (0..50).filter(|seed| best(10, *seed) < best(40, *seed)).count();
        assert!(wins >= 35, "{wins} of 50");
    }

    fn point(index: u64, objectives: &[f64], is_feasible: bool, violation: f64) -> Point {
        Point {
            variation: Variation::of_search(index, Map::new()),
            observed: Vec::new(),
            is_feasible,
            verdict: None,
            error: None,
            tried: Tried {
                values: Vec::new(),
                objectives: objectives.iter().copied().map(Some).collect(),
                violation,
            },
        }
    }

    #[test]
    fn the_best_points_are_those_that_none_dominates() {
        let mut config = config(Vec::new(), 10, 0);
        let points = vec![
            point(0, &[5.0, 9.0], true, 0.0),
            point(1, &[7.0, 12.0], true, 0.0),
            point(2, &[6.0, 12.0], true, 0.0),
            point(3, &[99.0, 1.0], false, 2.0),
            point(4, &[98.0, 2.0], false, 1.0),
        ];
        let latency = Objective {
            metric: tag::REQUEST_LATENCY,
            statistic: "p99".to_owned(),
            direction: Direction::Minimize,
        };
        let best = |config: &Config, points: &[Point]| -> Vec<u64> {
            let history = History {
                points: points.to_vec(),
                ..History::new(config, &sweep::Config::default())
            };
            history.best().iter().map(|point| point.variation.index).collect()
        };
        assert_eq!(best(&config, &points), [1]);
        config.objectives.push(latency);
        assert_eq!(best(&config, &points), [0, 1]);
        // Without feasible points, the nearest to the conditions.
        assert_eq!(best(&config, &points[3..]), [4]);
    }
}
