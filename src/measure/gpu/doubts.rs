//! Reasons to doubt that a GPU worked at its normal speed, or what its exporter reports.

use base::redact::printable;

use super::fields::{
    APP_SM_CLOCK, CLOCK_EVENTS, Fields, Reading, SM_CLOCK, THERMAL_VIOLATION, XID,
};
use super::report::Phase;
use super::series::GpuSeries;
use crate::metrics::Verdict;
use crate::metrics::health::Reason;

/// Share of the phase for which a GPU may be slowed down without a doubt.
const TOLERATED: f64 = 0.05;

/// Share of the requested clock below which the mean clock is a reason for doubt.
const SLOW: f64 = 0.95;

/// Utilization below which low clocks are part of normal operation, in percent.
const BUSY_PERCENT: f64 = 50.0;

/// The reasons for lower clocks that are not part of normal operation, by their bits in NVML's
/// `nvmlClocksEventReasons`.
const SLOWDOWNS: &[(u64, &str)] = &[
    (0x08, "a hardware slowdown"),
    (0x20, "a thermal slowdown by the driver"),
    (0x40, "a thermal slowdown by the hardware"),
    (0x80, "a power brake"),
];

/// Returns the reasons for doubt about a GPU of the exporter called `exporter`.
pub(super) fn doubts(
    gpu: &GpuSeries<'_>,
    fields: &Fields,
    phase: &Phase<'_>,
    exporter: &str,
) -> Vec<Reason> {
    let name = format!("GPU {} of {}", gpu.gpu.gpu_index, printable(exporter));
    let facts = Facts { gpu, fields, phase };
    let all = [facts.errors(), facts.slowdown(), facts.violation(), facts.clock()];
    let energy = facts.counter().or_else(|| facts.contradiction());
    let found = all.into_iter().flatten().chain(energy).chain(facts.impossible());
    found
        .map(|(finding, advice)| Reason {
            verdict: Verdict::Suspect,
            name: "gpu-doubt".into(),
            finding: format!("{name} {finding}"),
            advice: advice.to_owned(),
        })
        .collect()
}

/// What is known of a GPU.
struct Facts<'a> {
    gpu: &'a GpuSeries<'a>,
    fields: &'a Fields,
    phase: &'a Phase<'a>,
}

/// A finding and what to do about it.
type Doubt = (String, &'static str);

const EXPORTER: &str =
    "compare the exporter with nvidia-smi or amd-smi, and update or restart the exporter";

const COOLING: &str = "check the cooling and the power limit of the GPU, and run again";

impl Facts<'_> {
    /// Returns the values of a field at all scrapes.
    fn values(&self, tag: &str) -> Option<Vec<f64>> {
        let field = self.fields.iter().enumerate().find(|(_, field)| *field.tag == *tag)?;
        self.gpu.values(field, self.phase.times.len())
    }

    /// Returns the values of a field in the phase.
    fn within(&self, tag: &str) -> Option<Vec<f64>> {
        let values = self.values(tag)?;
        let within = values.get(self.phase.samples.clone())?.iter().copied();
        Some(within.filter(|value| !value.is_nan()).collect())
    }

    /// The field contains the code of the last error, which remains until the driver is reloaded.
    fn errors(&self) -> Option<Doubt> {
        let advice = "look the code up in NVIDIA's list of XID errors, see the kernel log of the \
                      GPU's host, and run again after the GPU was reset";
        let values = self.values(XID)?;
        let before = self.phase.reference.and_then(|at| values.get(at).copied());
        let mut codes: Vec<u64> = Vec::new();
        for code in self.within(XID)?.into_iter().filter(|code| *code > 0.0) {
            if codes.last() != Some(&(code as u64)) {
                codes.push(code as u64);
            }
        }
        codes.dedup();
        let last = codes.last()?;
        let is_old = codes.len() == 1 && before == Some(*last as f64);
        let finding = if is_old {
            format!("has reported XID error {last} since before the measurement")
        } else {
            let codes: Vec<String> = codes.iter().map(u64::to_string).collect();
            format!("reported XID error {} during the measurement", codes.join(", "))
        };
        Some((finding, advice))
    }

    fn slowdown(&self) -> Option<Doubt> {
        let bits = self.within(CLOCK_EVENTS)?;
        let (count, name) = SLOWDOWNS
            .iter()
            .map(|(bit, name)| {
                let slow = bits.iter().filter(|bits| (**bits as u64) & bit != 0);
                (slow.count(), name)
            })
            .max_by_key(|(count, _)| *count)
            .filter(|(count, _)| *count > 0)?;
        let percent = 100.0 * count as f64 / bits.len() as f64;
        Some((
            format!("had lower clocks because of {name} in {percent:.0}% of the samples"),
            COOLING,
        ))
    }

    fn violation(&self) -> Option<Doubt> {
        let phase =
            self.phase.window.end_ns.saturating_sub(self.phase.window.start_ns) as f64 / 1e3;
        let share = |tag: &str| {
            let values = self.values(tag)?;
            let before = values[..=self.phase.reference?].iter().rev().find(|v| !v.is_nan())?;
            let last = *self.within(tag)?.last()?;
            Some((last - before) / phase).filter(|share| *share > TOLERATED && share.is_finite())
        };
        let causes = [("nvidia_power_violation", "its power limit"), (THERMAL_VIOLATION, "heat")];
        let (share, cause) =
            causes.into_iter().find_map(|(tag, cause)| Some((share(tag)?, cause)))?;
        let percent = 100.0 * share.min(1.0);
        Some((format!("was slowed down by {cause} for {percent:.0}% of the time"), COOLING))
    }

    /// A counter that rises by more than any GPU can use is not believed.
    fn counter(&self) -> Option<Doubt> {
        let energy = self.phase.counted_energy(self.gpu, self.fields)?;
        (!self.phase.is_possible(&energy)).then(|| {
            let finding = format!(
                "reported an increase of its energy by {:.0} J, more than a GPU can use in this \
                 time, which is not counted",
                energy.joules
            );
            (finding, EXPORTER)
        })
    }

    /// The counter of energy and the power are two measurements of the same.
    fn contradiction(&self) -> Option<Doubt> {
        let [counted, by_power] = self.phase.contradiction(self.gpu, self.fields)?;
        let finding = format!(
            "used {:.0} J by its counter of energy, but {:.0} J by its power; all that is computed from \
             its energy is in doubt",
            counted.joules, by_power.joules
        );
        Some((finding, EXPORTER))
    }

    /// Samples that no GPU can have are left out, by field.
    fn impossible(&self) -> impl Iterator<Item = Doubt> {
        let scrapes = self.phase.times.len();
        self.fields.iter().enumerate().filter_map(move |(index, field)| {
            let readings = || self.gpu.readings((index, field), scrapes).map(|(_, reading)| reading);
            let mut impossible = readings().filter_map(|reading| match reading {
                Reading::Impossible(value) => Some(value),
                Reading::Absent | Reading::Value(_) => None,
            });
            let first = impossible.next()?;
            let (count, all) = (1 + impossible.count(), readings().count());
            let (tag, unit) = (printable(&field.tag), &field.unit);
            let finding = format!(
                "reported impossible values of {tag} in {count} of {all} samples, the first of them \
                 {first} {unit}, which are left out"
            );
            Some((finding, EXPORTER))
        })
    }

    fn clock(&self) -> Option<Doubt> {
        let mean = |tag| {
            let values = self.within(tag)?;
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let (clock, requested) = (mean(SM_CLOCK)?, mean(APP_SM_CLOCK)?);
        // Idle GPUs lower their clocks.
        let is_busy = mean("nvidia_gpu_utilization").is_none_or(|percent| percent >= BUSY_PERCENT);
        (is_busy && clock < SLOW * requested).then(|| {
            let finding = format!(
                "had a mean clock of {clock:.0} MHz, below the {requested:.0} MHz that it was set to"
            );
            (finding, "check that no power limit applies, and that requests kept the GPU busy")
        })
    }
}
