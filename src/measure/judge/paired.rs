//! Compares two servers by pairs of blocks, which were measured one right after the other.
//!
//! What a machine does to both blocks of a pair is not in their difference. A row is the typical
//! logarithm of the ratio of the blocks of a pair, by Hodges and Lehmann, which single blocks that were
//! disturbed hardly change; of shares, which can be 0, it is the mean of the differences. Pairs are
//! looked at while they arrive: the intervals of all looks together have the confidence level.

use base::statistics::interval::{Measured, Scale};
use base::statistics::sequential;
use base::statistics::signed_rank::Typical;

use super::compare::{
    Amount, CacheDifference, Compared, Estimate, Measure, Method, Needed, Plan, Row, Shortage,
    Trial, worse,
};

/// Minimum number of pairs for a look.
const MIN_PAIRS: usize = 6;

/// Number of pairs from look to look.
const BETWEEN_LOOKS: usize = 2;

/// A comparison by pairs of blocks.
#[derive(Debug)]
pub struct Paired {
    plan: Plan,
    max_pairs: usize,
    /// The probability with which the intervals of a row may be wrong, and the levels of all looks that
    /// it allows.
    levels: Option<(f64, Vec<f64>)>,
}

/// What can be said of the pairs so far.
#[derive(Debug)]
pub struct Look {
    /// The rows as of now.
    pub compared: Compared,
    pub decision: Decision,
}

/// Whether more pairs are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// A row that decides cannot be told yet; so many pairs in total would probably tell, if that
    /// is known and not more than there may be.
    Continue(Option<u64>),
    /// Each row that decides is told, or there are as many pairs as there may be.
    Decided,
}

impl Paired {
    /// Creates a comparison of up to `max_pairs` pairs by `plan`.
    #[must_use]
    pub const fn new(plan: Plan, max_pairs: usize) -> Self {
        Self { plan, max_pairs, levels: None }
    }

    /// Looks at the `pairs` so far: the block of BASE and that of NEW, each as a run. Nothing is concluded
    /// if there is an `obstacle`, such as an invalid client.
    ///
    /// A decision is only made after the numbers of pairs of [`is_look`](Self::is_look), so that a look
    /// after each pair does no harm.
    #[must_use]
    pub fn look(&mut self, pairs: &[[&Trial; 2]], obstacle: Option<String>) -> Look {
        let trials = || pairs.iter().flatten().copied();
        let alpha = self.plan.error_of_each(&self.plan.measures_of(trials));
        let level = self.level(pairs.len(), alpha);
        // What a late client adds is in both blocks of a pair, and its variation in the spread of the
        // pairs.
        let errors = [[0.0; 2]; 2];
        let row = |measure: &Measure| {
            let estimate = estimate(measure, pairs, level);
            let tolerance = self.plan.tolerance_percent();
            let row = measure.row(estimate, errors, tolerance, level, obstacle.as_ref());
            Row { is_of_few: measure.is_of_few(trials()), ..row }
        };
        let mut rows: Vec<Row> = self.plan.measures_of(trials).into_iter().map(row).collect();
        let side = |at: usize| pairs.iter().map(move |pair| pair[at]);
        if let Some(cache) = CacheDifference::between(side(0), side(1)) {
            for row in &mut rows {
                cache.doubt(row);
            }
        }
        let outputs = worse(side(0), side(1));
        let compared = self.plan.concluded(Method::Paired, level, obstacle, rows, outputs);
        let decision = self.decision(&compared, pairs.len());
        Look { compared, decision }
    }

    /// Returns whether something can be decided after so many pairs.
    #[must_use]
    pub const fn is_look(&self, pairs: usize) -> bool {
        pairs == self.max_pairs
            || (pairs >= MIN_PAIRS && (pairs - MIN_PAIRS).is_multiple_of(BETWEEN_LOOKS))
    }

    /// Returns the confidence level of an interval after `pairs` pairs, of which the intervals of all looks
    /// together may be wrong with the probability `alpha`.
    fn level(&mut self, pairs: usize, alpha: f64) -> f64 {
        let all = self.max_pairs.max(1) as f64;
        let looks = |most: usize| (1..=most).filter(|count| self.is_look(*count));
        let share = |count: usize| (count as f64 / all).min(1.0);
        if !self.is_look(pairs) {
            let fractions: Vec<f64> = looks(pairs).chain([pairs.max(1)]).map(share).collect();
            return sequential::levels(alpha, &fractions).last().copied().unwrap_or(1.0);
        }
        let number = looks(pairs).count() - 1;
        match &self.levels {
            Some((known, levels)) if *known == alpha => levels.get(number).copied(),
            _ => {
                let fractions: Vec<f64> = looks(self.max_pairs).map(share).collect();
                let levels = sequential::levels(alpha, &fractions);
                let level = levels.get(number).copied();
                self.levels = Some((alpha, levels));
                level
            }
        }
        .unwrap_or(1.0)
    }

    fn decision(&self, compared: &Compared, pairs: usize) -> Decision {
        let deciding = || compared.rows.iter().filter(|row| row.decides);
        let is_told = deciding().count() > 0 && deciding().all(|row| row.finding.is_told());
        if pairs >= self.max_pairs || (is_told && self.is_look(pairs)) {
            return Decision::Decided;
        }
        // The levels rise towards that of a single look, so that fewer than these are needed.
        let needed = deciding().filter(|row| !row.finding.is_told()).map(|row| match row.needed {
            Some(Needed::Pairs(pairs)) => Some(pairs).filter(|it| *it <= self.max_pairs as u64),
            _ => None,
        });
        Decision::Continue(
            needed.reduce(|one, other| one.zip(other).map(|(a, b)| a.max(b))).flatten(),
        )
    }
}

/// Compares a statistic by the pairs that have it.
fn estimate(measure: &Measure, pairs: &[[&Trial; 2]], level: f64) -> Result<Estimate, String> {
    let value = |trial: &Trial| trial.result(measure.subject);
    let values = pairs.iter().filter_map(|[base, new]| Some([value(base)?, value(new)?]));
    let values: Vec<[f64; 2]> = values.collect();
    let scales = values.iter().map(|pair| measure.scale(*pair));
    let scale = scales.reduce(|one, other| if one == other { one } else { Scale::Difference });
    let scale = scale.ok_or("no pair of blocks has it")?;
    let shift = |[base, new]: &[f64; 2]| match scale {
        Scale::Difference => new - base,
        Scale::Ratio => (new / base).ln(),
    };
    let shifts: Vec<f64> = values.iter().map(shift).collect();
    let found = match scale {
        Scale::Ratio => Typical::from_differences(&shifts)
            .map(|typical| (typical.value, typical.interval(level))),
        Scale::Difference => Measured::of_independent(&shifts).map(|mean| {
            let half = mean.half_width(level);
            (mean.value, half.map(|half| [mean.value - half, mean.value + half]))
        }),
    };
    let few = || format!("{} pairs of blocks have it, too few", values.len());
    let (shift, interval) = found.ok_or_else(few)?;
    let mean =
        |side: usize| values.iter().map(|pair| pair[side]).sum::<f64>() / values.len() as f64;
    Ok(Estimate {
        base: mean(0),
        new: mean(1),
        scale,
        shift,
        interval: interval.ok_or_else(|| Shortage {
            why: format!("{} pairs of blocks are too few to conclude anything yet", values.len()),
            needed: None,
        }),
        block_lengths: None,
        amount: Amount::Pairs(values.len()),
    })
}

#[cfg(test)]
mod tests;
