//! The health of the outputs: whether the server's answers are as they should be.
//! `docs/decisions/output-health.md` explains the rules.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use base::setting::Named as _;
use base::statistics::proportion::Proportion;

use super::client_health::{Reason, Verdict};
use crate::metrics::metric::Observation;
use crate::metrics::output::{Fault, Faults};

/// Fewest outputs for a verdict on what a model may do by itself.
const FEWEST: u64 = 100;

/// Number of first outputs that show what is usual.
const FIRST: u64 = 100;

/// Share of the first outputs that have a fault that is usual, for example because the model repeats
/// itself; and the least number of them.
const USUAL: f64 = 0.05;
const LEAST_USUAL: u64 = 5;

/// Largest share of outputs in which a model has one kind of fault by itself.
const BY_ITSELF: f64 = 1.0 / 5_000.0;

/// Probability with which so many faults are taken for more than a model has by itself.
const FALSE_ALARM: f64 = 0.001;

/// Wrong answers to canaries from which the outputs are invalid.
const WRONG_CANARIES: u64 = 2;

/// Number of examples of each fault.
const EXAMPLES: u64 = 3;

/// How sure it is that a fault is the server's.
enum Blame {
    /// No model can cause it: one suffices.
    Certain,
    /// A canary was answered wrongly.
    Canary,
    /// The server's protocol contradicts itself: it is the server if there are too many.
    Protocol,
    /// A model may have done it by itself.
    Model,
}

const fn blame(fault: Fault) -> Blame {
    match fault {
        _ if fault.is_certain() => Blame::Certain,
        Fault::CanaryWrong => Blame::Canary,
        Fault::AfterEnd | Fault::EndedEarly => Blame::Protocol,
        _ => Blame::Model,
    }
}

/// A request whose output has a fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Example {
    pub fault: Fault,
    /// Its ID, as on its line.
    #[schemars(with = "String")]
    pub x_request_id: Uuid,
    /// When it was sent, in nanoseconds since the epoch.
    pub request_start_ns: u64,
    /// The worker that answered, if the server named it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_worker_id: Option<String>,
}

/// How many outputs have a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FaultCount {
    pub fault: Fault,
    /// Outputs with it.
    pub count: u64,
    /// How many of the first 100 have it.
    pub first: u64,
    /// Whether it is a reason for the verdict.
    pub is_reason: bool,
}

/// The answers to canaries.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct CanaryCounts {
    /// Canaries that were answered.
    pub answered: u64,
    /// Those whose answer differs from each answer of the idle server. Rounding may cause it: answers depend
    /// on what else is in the batch.
    pub differing: u64,
    /// Those whose answer lacks the text that each answer of the idle server had.
    pub wrong: u64,
    /// Fewest tokens that an answer has in common with the beginning of one of the idle server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub least_common_tokens: Option<u32>,
}

/// Where an output came from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    pub request_id: Option<Uuid>,
    pub worker: Option<&'a str>,
}

/// The outputs of a measurement by their faults.
#[derive(Debug, Clone, Default)]
pub struct OutputCounts {
    outputs: u64,
    /// Numbers of outputs with the same faults.
    sets: BTreeMap<Faults, u64>,
    /// Number of first outputs, and how many of them have each fault.
    first_outputs: u64,
    first: BTreeMap<Fault, u64>,
    canaries: CanaryCounts,
    examples: Vec<Example>,
}

impl OutputCounts {
    /// Adds an output.
    pub fn observe(&mut self, observation: &Observation, source: Source<'_>) {
        let output = observation.output;
        // The prompt of a request that failed may be in another one's output.
        if observation.error.is_some() && output.faults.is_empty() {
            return;
        }
        let is_first = self.outputs < FIRST;
        self.outputs += 1;
        self.first_outputs += u64::from(is_first);
        if let Some(canary) = output.canary {
            let counts = &mut self.canaries;
            counts.answered += 1;
            counts.differing += u64::from(canary.differing_tokens.is_some());
            counts.wrong += u64::from(output.faults.contains(Fault::CanaryWrong));
            counts.least_common_tokens =
                [counts.least_common_tokens, canary.common_tokens].into_iter().flatten().min();
        }
        if output.faults.is_empty() {
            return;
        }
        for fault in output.faults.iter() {
            if self.count(fault) < EXAMPLES {
                self.examples.extend(source.request_id.map(|x_request_id| Example {
                    fault,
                    x_request_id,
                    request_start_ns: observation.start_wall_ns,
                    server_worker_id: source.worker.map(ToOwned::to_owned),
                }));
            }
            if is_first {
                *self.first.entry(fault).or_default() += 1;
            }
        }
        *self.sets.entry(output.faults).or_default() += 1;
    }

    /// Returns the number of outputs.
    pub(crate) const fn outputs(&self) -> u64 {
        self.outputs
    }

    /// Returns the faults that are reasons for doubt.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = Fault> {
        let faults = Fault::NAMES.iter().map(|(_, fault)| *fault);
        faults.filter(|fault| self.severity(*fault).is_some())
    }

    /// Returns the number of outputs with a fault.
    pub(crate) fn count(&self, fault: Fault) -> u64 {
        self.sets.iter().filter(|(faults, _)| faults.contains(fault)).map(|(_, count)| count).sum()
    }

    /// Returns the severity of a fault that is more frequent than it is without a faulty server.
    fn severity(&self, fault: Fault) -> Option<Verdict> {
        let count = self.count(fault);
        let first = self.first.get(&fault).copied().unwrap_or(0);
        match blame(fault) {
            Blame::Certain => (count > 0).then_some(Verdict::Invalid),
            Blame::Canary if count >= WRONG_CANARIES => Some(Verdict::Invalid),
            Blame::Canary => (count > 0).then_some(Verdict::Suspect),
            Blame::Protocol => self.are_many(count, first).then_some(Verdict::Invalid),
            Blame::Model => self.are_many(count, first).then_some(Verdict::Suspect),
        }
    }

    /// Returns whether `count` outputs with a fault, `first` of which are among the first, are more than a
    /// model has by itself; if it is usual, whether it became more frequent.
    fn are_many(&self, count: u64, first: u64) -> bool {
        let usual = Proportion { hits: first as f64, trials: self.first_outputs as f64 };
        let is_usual = first >= LEAST_USUAL && usual.hits >= USUAL * usual.trials;
        let (hits, trials, limit) = if is_usual {
            let [_, most] = usual.interval(FALSE_ALARM);
            (count - first, self.outputs - self.first_outputs, most)
        } else {
            (count, self.outputs, BY_ITSELF)
        };
        let found = Proportion { hits: hits as f64, trials: trials as f64 };
        self.outputs >= FEWEST && found.is_above(limit, FALSE_ALARM)
    }

    /// Judges the outputs; `None` if there are none.
    #[must_use]
    pub fn judge(&self) -> Option<OutputHealth> {
        let outputs = Some(self.outputs).filter(|outputs| *outputs > 0)?;
        let mut reasons = Vec::new();
        let mut corrupt = Faults::default();
        let mut faults = Vec::new();
        for (_, fault) in Fault::NAMES {
            let (fault, count) = (*fault, self.count(*fault));
            let severity = self.severity(fault);
            corrupt.set(fault, severity.is_some());
            reasons.extend(severity.map(|verdict| self.reason(fault, count, verdict)));
            let first = self.first.get(&fault).copied().unwrap_or(0);
            let is_reason = severity.is_some();
            faults.extend((count > 0).then_some(FaultCount { fault, count, first, is_reason }));
        }
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
        let worst = reasons.first().map(|reason| reason.verdict);
        let is_known = outputs >= FEWEST;
        let is_corrupt = |faults: &Faults| faults.iter().any(|fault| corrupt.contains(fault));
        let corrupted = self.sets.iter().filter(|(faults, _)| is_corrupt(faults));
        Some(OutputHealth {
            verdict: worst.or(is_known.then_some(Verdict::Valid)),
            outputs,
            corrupted_outputs: corrupted.map(|(_, count)| count).sum(),
            canaries: Some(self.canaries).filter(|canaries| canaries.answered > 0),
            faults,
            reasons,
            examples: self.examples.clone(),
        })
    }

    fn reason(&self, fault: Fault, count: u64, verdict: Verdict) -> Reason {
        let advice = match blame(fault) {
            Blame::Certain => {
                "treat it as a security finding: look at the requests in `examples` with --export-level raw, and \
                 at the server's caches and batches"
            }
            Blame::Canary => {
                "compare the answers with canaries.jsonl, and run the same canaries at a lower load"
            }
            Blame::Protocol => {
                "look at the responses of the requests in `examples` with --export-level raw"
            }
            Blame::Model => {
                "look at the outputs of the requests in `examples` with --export-level raw, and run the same \
                 prompts at a low load: if they are as frequent there, the model does it by itself"
            }
        };
        Reason {
            verdict,
            name: fault.name().into(),
            finding: format!("{count} of {} outputs {}", self.outputs, fault.words()),
            advice: advice.to_owned(),
        }
    }
}

/// Returns an example of each reason.
#[must_use]
pub fn reasons_by_example() -> Vec<Reason> {
    let mut counts = OutputCounts { outputs: 2_000, ..OutputCounts::default() };
    for (_, fault) in Fault::NAMES {
        let mut one = Faults::default();
        one.insert(*fault);
        counts.sets.insert(one, 8);
    }
    counts.judge().map(|health| health.reasons).unwrap_or_default()
}

impl<'a> Sum<&'a OutputHealth> for OutputCounts {
    /// Adds up several measurements. Which faults an output has together is not known then.
    fn sum<I: Iterator<Item = &'a OutputHealth>>(measurements: I) -> Self {
        let mut all = Self::default();
        for health in measurements {
            all.outputs += health.outputs;
            all.first_outputs += health.outputs.min(FIRST);
            for FaultCount { fault, count, first, .. } in &health.faults {
                let mut one = Faults::default();
                one.insert(*fault);
                *all.sets.entry(one).or_default() += count;
                *all.first.entry(*fault).or_default() += first;
            }
        }
        all
    }
}

/// The health of the outputs of a measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OutputHealth {
    /// The verdict; absent with too few outputs to tell.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// Outputs of requests that succeeded, with those of canaries.
    pub outputs: u64,
    /// Outputs with a fault that is a reason for the verdict.
    pub corrupted_outputs: u64,
    /// The faults that were found, also those that a model may have by itself.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub faults: Vec<FaultCount>,
    /// The answers to canaries, if there were any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub canaries: Option<CanaryCounts>,
    /// Why the verdict is not `valid`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub reasons: Vec<Reason>,
    /// The first requests with each fault.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub examples: Vec<Example>,
}

impl OutputHealth {
    /// Returns the number of all faults; an output with several counts for each.
    #[must_use]
    pub fn fault_count(&self) -> u64 {
        self.faults.iter().map(|fault| fault.count).sum()
    }

    /// Returns the faults that are the reasons for the verdict, joined by commas; `None` without any.
    #[must_use]
    pub fn names_of_reasons(&self) -> Option<String> {
        let mut found = Faults::default();
        for fault in self.faults.iter().filter(|fault| fault.is_reason) {
            found.insert(fault.fault);
        }
        found.names()
    }
}

impl fmt::Display for OutputHealth {
    /// `valid (1987 outputs)`, `suspect: 7 of 1987 outputs repeat the same text until their end`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(verdict) = self.verdict else { return f.write_str("too few outputs to tell") };
        f.write_str(verdict.as_str())?;
        if let Some((first, others)) = self.reasons.split_first() {
            write!(f, ": {}", first.finding)?;
            return if others.is_empty() {
                Ok(())
            } else {
                write!(f, ", and {} more", others.len())
            };
        }
        write!(f, " ({} outputs", self.outputs)?;
        match self.canaries {
            None => f.write_str(")"),
            Some(CanaryCounts { answered, differing: 0, .. }) => {
                write!(f, ", {answered} of {answered} canaries answered like the idle server)")
            }
            Some(CanaryCounts { answered, differing, .. }) => {
                write!(
                    f,
                    ", {differing} of {answered} canaries answered differently from the idle server)"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
