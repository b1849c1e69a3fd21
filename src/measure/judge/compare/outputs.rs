//! Whether the outputs of one side are corrupt, and those of the other are not.

use base::statistics::proportion::Proportion;
use serde::Serialize;

use super::Trial;
use crate::metrics::health::OutputCounts;
use crate::metrics::output::Fault;

/// Probability with which equal outputs have counts that differ so much: if both are corrupt by their verdicts, and if
/// only those of NEW are.
const BY_CHANCE: [f64; 2] = [0.001, 0.1];

/// A fault that is a reason to doubt the outputs of NEW, and less frequent in BASE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputRow {
    pub fault: Fault,
    /// Outputs with it.
    pub base: u64,
    pub base_outputs: u64,
    pub new: u64,
    pub new_outputs: u64,
}

impl OutputRow {
    /// Returns it in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { fault, base, base_outputs, new, new_outputs } = self;
        let words = fault.words();
        format!("NEW: {new} of {new_outputs} outputs {words}; BASE: {base} of {base_outputs}.")
    }
}

/// Returns the faults that make the outputs of NEW corrupt, or suspect, and are less frequent in BASE.
///
/// The verdicts say whether a fault is more frequent than a model has it. That it is also more frequent than in BASE
/// is tested as Przyborowski and Wilenski do ("Homogeneity of results in testing samples from Poisson series",
/// Biometrika 31, 1940): of rare events of equal rates, each is on a side by that side's share of the outputs.
pub(in crate::judge) fn worse<'a>(
    base: impl Iterator<Item = &'a Trial>,
    new: impl Iterator<Item = &'a Trial>,
) -> Vec<OutputRow> {
    let (base, new) = (counts(base), counts(new));
    let [base_outputs, new_outputs] = [&base, &new].map(OutputCounts::outputs);
    let share = new_outputs as f64 / (base_outputs + new_outputs) as f64;
    let rows = new.reasons().map(|fault| OutputRow {
        fault,
        base: base.count(fault),
        base_outputs,
        new: new.count(fault),
        new_outputs,
    });
    let differs = |row: &OutputRow| {
        let found = Proportion { hits: row.new as f64, trials: (row.base + row.new) as f64 };
        let is_in_both = base.reasons().any(|known| known == row.fault);
        let [of_both, of_one] = BY_CHANCE;
        let certainly = row.fault.is_certain() && !is_in_both;
        certainly || found.is_above(share, if is_in_both { of_both } else { of_one })
    };
    rows.filter(|_| base_outputs > 0).filter(differs).collect()
}

fn counts<'a>(trials: impl Iterator<Item = &'a Trial>) -> OutputCounts {
    trials.filter_map(|trial| trial.outputs.as_ref()).sum()
}
