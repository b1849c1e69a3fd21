//! The due times of a response's chunks. Pure arithmetic.
//!
//! Step `k` is due at origin + ttft + `k` × itl + its own jitter: a late or jittered step does not
//! move any other.

use super::script::{Fault, Jitter, Script};
use crate::units::Nanos;

/// The due times of one response, in order.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    origin: Nanos,
    ttft: Nanos,
    itl: Nanos,
    jitter: Jitter,
    seed: u64,
    stall: Option<(u64, Nanos)>,
    step: u64,
    last: Nanos,
}

impl Schedule {
    /// Creates the schedule of the request with this `number`, admitted at `origin`, whose first token
    /// takes `ttft`.
    pub(super) fn new(
        script: &Script,
        number: u64,
        [origin, ttft]: [Nanos; 2],
        fault: Option<&Fault>,
    ) -> Self {
        let stall = match fault {
            Some(Fault::Stall { at_event, duration }) => Some((*at_event, *duration)),
            _ => None,
        };
        Self {
            origin,
            ttft,
            itl: script.itl,
            jitter: script.jitter,
            seed: mix(script.seed, number),
            stall,
            step: 0,
            last: origin,
        }
    }

    /// Returns when the next step is due, which is never before the previous step.
    pub(super) fn next_due(&mut self) -> Nanos {
        let mut due = self.unordered_due(self.step).max(self.last);
        if let Some((at, duration)) = self.stall
            && at == self.step
        {
            due = due + duration;
        }
        self.step += 1;
        self.last = due;
        due
    }

    fn unordered_due(&self, step: u64) -> Nanos {
        let planned = i128::from(self.ttft.0) + i128::from(step) * i128::from(self.itl.0);
        let offset = (planned + i128::from(self.stray_ns(step))).max(0);
        self.origin + Nanos(u64::try_from(offset).unwrap_or(u64::MAX))
    }

    fn stray_ns(&self, step: u64) -> i64 {
        let stray = match self.jitter {
            Jitter::None => return 0,
            Jitter::Fraction(fraction) => {
                let base = if step == 0 { self.ttft } else { self.itl };
                (2.0 * unit(mix(self.seed, step)) - 1.0) * fraction * base.0 as f64
            }
            Jitter::StdDev(deviation) => {
                let bits = mix(self.seed, step);
                normal(unit(bits), unit(mix(bits, 1))) * deviation.0 as f64
            }
        };
        stray.round() as i64
    }
}

/// Mixes two numbers into one that looks random (`SplitMix64`'s finaliser).
pub(super) const fn mix(a: u64, b: u64) -> u64 {
    let mut z =
        a.wrapping_add(b.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a number in [0, 1) from 53 random bits.
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Returns a standard normal value from two uniform ones (Box and Muller).
fn normal(a: f64, b: f64) -> f64 {
    (-2.0 * (1.0 - a).ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn script(ttft: u64, itl: u64, jitter: Jitter) -> Script {
        Script { ttft: Nanos(ttft), itl: Nanos(itl), jitter, ..Script::default() }
    }

    fn dues(script: &Script, fault: Option<&Fault>, steps: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(script, 7, [Nanos(1_000), script.ttft], fault);
        (0..steps).map(|_| schedule.next_due().0).collect()
    }

    #[test]
    fn steps_are_multiples_of_the_gap() {
        assert_eq!(dues(&script(500, 20, Jitter::None), None, 4), [1_500, 1_520, 1_540, 1_560]);
    }

    #[test]
    fn a_stall_holds_back_only_what_falls_into_it() {
        let stall = Fault::Stall { at_event: 1, duration: Nanos(50) };
        let dues = dues(&script(500, 20, Jitter::None), Some(&stall), 6);
        assert_eq!(dues, [1_500, 1_570, 1_570, 1_570, 1_580, 1_600]);
    }

    #[test]
    fn jitter_has_the_spread_that_it_names() {
        let itl = 1_000_000;
        let stray = |jitter| -> Vec<f64> {
            let schedule = Schedule::new(&script(0, itl, jitter), 7, [Nanos::ZERO; 2], None);
            (1..20_000).map(|step| schedule.stray_ns(step) as f64).collect()
        };
        let moments = |values: &[f64]| {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            (mean, (square / values.len() as f64).sqrt())
        };
        let (mean, deviation) = moments(&stray(Jitter::StdDev(Nanos(40_000))));
        assert!(mean.abs() < 1_500.0 && (deviation - 40_000.0).abs() < 1_500.0);
        let uniform = stray(Jitter::Fraction(0.1));
        assert!(uniform.iter().all(|v| v.abs() <= 100_000.0));
        // A uniform value over ±a has the standard deviation a / √3.
        let (mean, deviation) = moments(&uniform);
        assert!(mean.abs() < 2_000.0 && (deviation - 100_000.0 / 3f64.sqrt()).abs() < 2_000.0);
    }

    proptest! {
        #[test]
        fn steps_never_go_back(
            ttft: u64, itl: u64, deviation: u64, at_event in 0..8u64, ns: u64
        ) {
            let script = script(ttft, itl, Jitter::StdDev(Nanos(deviation)));
            let stall = Fault::Stall { at_event, duration: Nanos(ns) };
            let dues = dues(&script, Some(&stall), 8);
            prop_assert!(dues.is_sorted() && dues[0] >= 1_000);
        }
    }
}
