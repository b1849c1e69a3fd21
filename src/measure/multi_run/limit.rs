//! The highest load that meets all conditions, as an interval.
//!
//! A higher load never improves what a condition limits. So the evidence of all loads is fitted
//! together: where it decreases with the load, neighbours are pooled, since one of them was
//! disturbed; and what is shown at a load holds for those below it if the condition is met, and
//! for those above if it is missed.

use serde::Serialize;

use base::setting::named;
use base::statistics::crossing::{Trial, crossing};
use base::statistics::isotonic::{Block, blocks};
use base::statistics::normal;

use super::evidence::{Basis, Condition, Evidence, NOTHING, tail};
use super::filter::Filter;
use super::{Load, Range, RunResult, Trials, Variation};

/// Number of runs that a load may have in addition, until it can be told.
pub(crate) const REPEATS: u64 = 3;

/// What is known of a load that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    pub load: Load,
    /// Number of runs that the evidence is from.
    pub runs: u64,
    /// Whether a run can be believed. If none can, the evidence is from all.
    pub is_believed: bool,
    /// Whether another run may be made.
    pub can_repeat: bool,
    /// What the runs say about each condition.
    pub evidence: Vec<Evidence>,
}

impl Level {
    /// Summarizes the runs of a cell with the conditions `filters`, after which comes that all runs
    /// succeed and that the server keeps up; `None` if they are not complete.
    #[must_use]
    pub fn from_trials(filters: &[Filter], variation: &Variation, trials: &Trials) -> Option<Self> {
        let load = Load::from_values(&variation.values)?;
        let has_any = trials.successful().next().is_some();
        if trials.is_short() || trials.was_cancelled() && !has_any {
            return None;
        }
        let believed = trials.successful().filter(|run| run.is_believed()).count();
        let used = || trials.successful().filter(|run| believed == 0 || run.is_believed());
        let of_filter =
            |at: usize| Evidence::together(used().filter_map(|run| *run.evidence.get(at)?));
        let found: Vec<Option<Evidence>> = (0..filters.len()).map(of_filter).collect();
        // What a server does not keep up with only meets a condition because the run was short.
        let saturated = used().filter(|run| run.is_too_much());
        let is_saturated = 2 * saturated.count() > used().count();
        let is_whole =
            has_any && !is_saturated && !trials.has_failed() && found.iter().all(Option::is_some);
        let success = Evidence { mean: f64::from(u8::from(!is_whole)), weight: 1.0, requests: 0 };
        // A load at which a metric does not have a value is missed by the last condition alone.
        let unknown = Evidence { mean: 0.0, weight: NOTHING, requests: 0 };
        let evidence = found.into_iter().map(|found| found.unwrap_or(unknown));
        Some(Self {
            load,
            runs: used().count() as u64,
            // A failure that the load explains needs no second look.
            is_believed: believed > 0 || !has_any,
            can_repeat: (trials.runs.len() as u64) < trials.config.most_runs(),
            evidence: evidence.chain([success]).collect(),
        })
    }
}

/// What is known of the limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Limit {
    /// The highest load that is shown to meet all conditions.
    #[serde(rename = "shown_met_until")]
    pub low: Option<Load>,
    /// The lowest load that is shown to miss one.
    #[serde(rename = "shown_missed_from")]
    pub high: Option<Load>,
    /// The highest load that seems to meet all.
    #[serde(rename = "best_tested")]
    pub best: Option<Load>,
    /// The lowest load tried above it, which seems to miss one.
    #[serde(skip)]
    pub above: Option<Load>,
}

/// Whether a load meets all conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Met,
    Missed,
    CannotTell,
}

named! { Standing { "met" => Met, "missed" => Missed, "cannot_tell" => CannotTell } }

impl Standing {
    /// Returns how it is shown to a reader.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::CannotTell => "cannot tell",
        }
    }
}

/// Returns what `run` alone says about the conditions `filters`, with intervals at the confidence
/// `level`; `None` if there are none, or if it failed.
#[must_use]
pub fn standing_of(filters: &[Filter], run: &RunResult, level: f64) -> Option<Standing> {
    if filters.is_empty() || run.failure.is_some() {
        return None;
    }
    if run.is_too_much() {
        return Some(Standing::Missed);
    }
    let tail = tail(level);
    let each = filters.iter().enumerate().map(|(at, filter)| {
        let Some(Evidence { mean, weight, .. }) = run.evidence.get(at).copied().flatten() else {
            return Standing::CannotTell;
        };
        let found = Block { mean, weight, members: 0..1 };
        let condition = Condition::from_filter(filter);
        match (condition.is_missed(&found, tail), condition.is_met(&found, tail)) {
            (true, _) => Standing::Missed,
            (false, true) => Standing::Met,
            (false, false) => Standing::CannotTell,
        }
    });
    let each: Vec<Standing> = each.collect();
    let if_any = |standing| each.contains(&standing).then_some(standing);
    if_any(Standing::Missed).or_else(|| if_any(Standing::CannotTell)).or(Some(Standing::Met))
}

impl Limit {
    /// Fits `levels` together with intervals at the confidence `level`.
    #[must_use]
    pub fn fit(conditions: &[Condition], levels: &[Level], level: f64) -> Self {
        let mut sorted: Vec<&Level> = levels.iter().collect();
        sorted.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
        let tail = tail(level);
        let all: Vec<Curve> =
            (0..).zip(conditions).map(|(at, it)| Curve::fit(*it, at, &sorted)).collect();
        let best = lowest_of_all(all.iter().map(Curve::best), &sorted);
        // A client that could not keep up makes responses late, not early: what it misses does not
        // count, and what it meets only once there is nothing better.
        let is_best = |load: Load| best.is_some_and(|best| load.amount() <= best.amount());
        let counts = |it: &&&Level| it.is_believed || (!it.can_repeat && is_best(it.load));
        let counted: Vec<&Level> = sorted.iter().filter(counts).copied().collect();
        let centre = best.or_else(|| sorted.first().map(|level| level.load));
        let shown = (0..).zip(conditions).map(|(at, it)| Curve {
            crossing: crossing_of(*it, at, &counted, centre, tail),
            ..Curve::fit(*it, at, &counted)
        });
        let shown: Vec<Curve> = shown.collect();
        let low = lowest_of_all(shown.iter().map(|curve| curve.met(tail)), &counted);
        let missed = shown.iter().filter_map(|curve| curve.missed(tail)).min();
        let high = missed.and_then(|at| counted.get(at)).map(|level| level.load);
        let is_above = |load: &Load| best.is_none_or(|best| load.amount() > best.amount());
        let above = sorted.iter().map(|level| level.load).find(is_above);
        Self { low, high, best, above }
    }

    /// Returns what is known of `load`.
    #[must_use]
    pub fn standing(&self, load: Load) -> Standing {
        if self.low.is_some_and(|low| load.amount() <= low.amount()) {
            Standing::Met
        } else if self.high.is_some_and(|high| load.amount() >= high.amount()) {
            Standing::Missed
        } else {
            Standing::CannotTell
        }
    }

    /// Returns whether `load` seems to meet all conditions.
    #[must_use]
    pub(crate) fn seems_met(&self, load: Load) -> bool {
        self.best.is_some_and(|best| load.amount() <= best.amount())
    }
}

/// Returns the load at the lowest of these indices, all of which must be known.
fn lowest_of_all(indices: impl Iterator<Item = Option<usize>>, levels: &[&Level]) -> Option<Load> {
    let lowest = indices.collect::<Option<Vec<usize>>>()?.into_iter().min()?;
    levels.get(lowest).map(|level| level.load)
}

/// What a condition limits, as it grows with the load.
struct Curve {
    condition: Condition,
    blocks: Vec<Block>,
    /// The indices of the highest level below the interval of the limit, and of the lowest one above, if a curve
    /// over rates is fitted.
    crossing: Option<[Option<usize>; 2]>,
}

/// The ratio to the best load of those through which a curve is fitted.
const FITTED: f64 = 1.5;

/// How far the logarithm of the likelihood may fall below and above the limit, in times of the usual amount (half
/// the square of the normal quantile). Requests of a run with few late ones look less dependent on each other
/// than they are, those of one with many more, so that the two sides differ (docs/decisions/searches.md).
const FALLS: [f64; 2] = [1.8, 0.8];

/// Fits a curve through what `levels` near the load `centre` say about a condition on a share of requests; `None`
/// unless they are rates.
fn crossing_of(
    condition: Condition,
    at: usize,
    levels: &[&Level],
    centre: Option<Load>,
    tail: f64,
) -> Option<[Option<usize>; 2]> {
    let Some(Load::RequestRate(centre)) = centre.filter(|_| condition.basis == Basis::Share) else {
        return None;
    };
    let is_near = |level: &&&Level| (level.load.amount() / centre).ln().abs() <= FITTED.ln();
    let trial = |level: &&Level| {
        let Evidence { mean, weight, .. } = *level.evidence.get(at)?;
        Some(Trial { amount: level.load.amount(), hits: mean * weight, trials: weight })
    };
    let known: Vec<Trial> = levels.iter().filter(is_near).filter_map(trial).collect();
    let fall = normal::quantile(1.0 - tail).powi(2) / 2.0;
    let [low, high] = crossing(&known, condition.limit, centre, FALLS.map(|it| it * fall));
    let amount = |level: &&Level| level.load.amount();
    Some([
        low.and_then(|low| levels.iter().rposition(|level| amount(level) <= low)),
        high.and_then(|high| levels.iter().position(|level| amount(level) >= high)),
    ])
}

impl Curve {
    /// Fits what `levels`, in ascending order, say about the condition at this place.
    fn fit(condition: Condition, at: usize, levels: &[&Level]) -> Self {
        let found = levels.iter().filter_map(|level| level.evidence.get(at));
        let blocks = blocks(found.map(|it| (it.mean, it.weight)));
        Self { condition, blocks, crossing: None }
    }

    /// Returns the index of the highest level whose fit is within the limit.
    fn best(&self) -> Option<usize> {
        let is_within = |block: &&Block| block.mean <= self.condition.limit;
        self.blocks.iter().rfind(is_within).map(|block| block.members.end - 1)
    }

    /// Returns the index of the highest level that is shown to meet the condition, by its own
    /// evidence or by that of higher levels in addition.
    fn met(&self, tail: f64) -> Option<usize> {
        if let Some([low, _]) = self.crossing {
            return low;
        }
        let is_met = |from: &usize| {
            let found = grown(self.blocks[*from..].iter());
            found.into_iter().any(|found| self.condition.is_met(&found, tail))
        };
        let highest = (0..self.blocks.len()).rev().find(is_met)?;
        Some(self.blocks[highest].members.end - 1)
    }

    /// Returns the index of the lowest level that is shown to miss the condition, by its own evidence
    /// or by that of lower levels in addition.
    fn missed(&self, tail: f64) -> Option<usize> {
        let is_missed = |until: &usize| {
            let found = grown(self.blocks[..=*until].iter().rev());
            found.into_iter().any(|found| self.condition.is_missed(&found, tail))
        };
        let lowest = (0..self.blocks.len()).find(is_missed);
        let own = lowest.map(|lowest| self.blocks[lowest].members.start);
        let fitted = self.crossing.and_then(|[_, high]| high);
        own.into_iter().chain(fitted).min()
    }
}

/// Returns the first block, the first two together, and so on.
fn grown<'a>(blocks: impl Iterator<Item = &'a Block>) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    for block in blocks {
        let next = found.last().map_or_else(|| block.clone(), |last| last.with(block));
        found.push(next);
    }
    found
}

/// Returns how many times as many requests as the first run the further run with this number, from 1, of a
/// load has: each look at a load has at least twice the evidence of the one before.
#[must_use]
pub fn growth(repeat: u64) -> u64 {
    1 << repeat.min(REPEATS)
}

/// The next run of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// The first run of another load.
    Load(Load),
    /// Another run of a load that was tried.
    Again(Load),
}

/// Why no further run is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The limit is known.
    Found,
    /// The upper bound meets all conditions.
    AllMet,
    /// The lower bound does not.
    NoneMet,
    /// A load could not be told in the runs that it may have.
    CannotTell,
}

/// The ratio of two loads between which a load is tried, as long as they cannot be told.
const COARSE: f64 = 1.3;

/// The ratio of a load that is told to the limit, so that it can be in a few runs.
const STEP: f64 = 1.15;

/// The ratio of a load to another one that is tried in its place.
const ALIKE: f64 = 1.06;

/// Returns the run after those of `levels`, of which `limit` is known, or why there is none.
///
/// The load is doubled while it seems to meet all conditions; then the interval between the highest
/// load that does and the next one is divided. While its ends are told by a run each, it is divided until it
/// is narrow. Otherwise, loads near the limit would take many runs: those at a distance are repeated on
/// both sides, until the interval that is shown is narrow enough.
pub fn next(range: &Range, levels: &[Level], limit: &Limit) -> Result<Next, Stop> {
    let mut sorted: Vec<&Level> = levels.iter().collect();
    sorted.sort_by(|a, b| a.load.amount().total_cmp(&b.load.amount()));
    let Some(top) = sorted.last() else { return Ok(Next::Load(range.first())) };
    let is_open =
        |level: &Level| level.can_repeat && limit.standing(level.load) == Standing::CannotTell;
    let again = |level: &Level| is_open(level).then_some(Next::Again(level.load));
    let split = sorted.partition_point(|level| limit.seems_met(level.load));
    let (below, above) = sorted.split_at(split);
    let Some(above) = above.first() else {
        return if top.load.amount() < range.max {
            Ok(Next::Load(range.doubled(top.load.amount())))
        } else if limit.standing(top.load) == Standing::Met {
            Err(Stop::AllMet)
        } else {
            again(top).ok_or(Stop::CannotTell)
        };
    };
    let Some(below) = below.last() else {
        let is_missed = limit.standing(above.load) == Standing::Missed;
        let stop = if is_missed { Stop::NoneMet } else { Stop::CannotTell };
        return again(above).ok_or(stop);
    };
    let (best, worse) = (below.load.amount(), above.load.amount());
    let middle = range.between(best, worse);
    let are_told =
        [below, above].map(|level| limit.standing(level.load)) == [Standing::Met, Standing::Missed];
    if let Some(middle) = middle.filter(|_| are_told || worse > COARSE * best) {
        return Ok(Next::Load(middle));
    }
    let shown = limit.low.map(Load::amount).zip(limit.high.map(Load::amount));
    if are_told || shown.is_some_and(|(low, high)| high - low <= Range::WIDTH * high) {
        return Err(Stop::Found);
    }
    let target = |factor: f64| {
        let wanted = (best * worse).sqrt() * factor;
        let is_alike = |it: &Level| (it.load.amount() / wanted).ln().abs() <= ALIKE.ln();
        let load = range.near(wanted);
        match sorted.iter().find(|it| it.load == load || is_alike(it)) {
            _ if limit.standing(load) != Standing::CannotTell => None,
            Some(level) => again(level),
            None => Some(Next::Load(load)),
        }
    };
    // A client that cannot keep up with a load cannot keep up with a higher one.
    let tries_higher = above.is_believed || above.can_repeat;
    let factors = [STEP, STEP.recip(), STEP.powi(2), STEP.powi(-2)];
    let mut factors = factors.into_iter().filter(|factor| *factor < 1.0 || tries_higher);
    let stop = if shown.is_some() { Stop::Found } else { Stop::CannotTell };
    factors.find_map(target).ok_or(stop)
}

#[cfg(test)]
mod study;
#[cfg(test)]
mod tests;
