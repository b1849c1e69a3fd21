//! The due times of a response's chunks. Pure arithmetic.
//!
//! Step `k` is due at origin + ttft + `k` × itl + its own jitter: a late or jittered step does not
//! move any other. Steps that are due while the server is silent are due at the end of that time, and
//! steps that are sent together when the last of them is.

use base::units::Nanos;

use super::script::{Corruption, Fault, Jitter, Script};

/// The due times of one response, in order.
#[derive(Debug, Clone)]
pub(super) struct Schedule {
    origin: Nanos,
    ttft: Nanos,
    itl: Nanos,
    jitter: Jitter,
    seed: u64,
    stall: Option<(u64, Nanos)>,
    silence: Option<[Nanos; 2]>,
    steps: u64,
    step: u64,
    together: u64,
    /// Number of further steps that are due with the last one.
    with_last: u64,
    last: Nanos,
}

impl Schedule {
    /// Creates the schedule of the request with this `number` and this number of `steps`. The server's
    /// first request arrived at `began`; this one was admitted at `origin`, and its first token takes
    /// `ttft` without drift.
    pub(super) fn new(
        script: &Script,
        [number, steps]: [u64; 2],
        [began, origin, ttft]: [Nanos; 3],
        fault: Option<&Fault>,
    ) -> Self {
        let growth = 1.0 + script.drift * origin.since(began).as_seconds();
        let grown = |time: Nanos| Nanos((time.0 as f64 * growth).round() as u64);
        let stall = match fault {
            Some(Fault::Stall { at_event, duration }) => Some((*at_event, *duration)),
            _ => None,
        };
        Self {
            origin,
            ttft: if script.drift > 0.0 { grown(ttft) } else { ttft },
            itl: if script.drift > 0.0 { grown(script.itl) } else { script.itl },
            jitter: script.jitter,
            seed: mix(script.seed, number),
            stall,
            silence: script
                .silence
                .map(|[after, duration]| [began + after, began + after + duration]),
            steps,
            step: 0,
            together: match fault {
                Some(Fault::Corrupt(Corruption::Burst)) => u64::MAX,
                _ => script.chunks_together,
            },
            with_last: 0,
            last: origin,
        }
    }

    /// Returns when what does not wait for a token is due.
    pub(super) fn at_once(&self) -> Nanos {
        self.after_silence(self.origin)
    }

    /// Returns when what is due at `due` can be sent.
    pub(super) fn after_silence(&self, due: Nanos) -> Nanos {
        match self.silence {
            Some([from, until]) if (from..until).contains(&due) => until,
            _ => due,
        }
    }

    /// Returns when the next step is due, which is never before the previous step.
    pub(super) fn next_due(&mut self) -> Nanos {
        if self.with_last > 0 {
            self.with_last -= 1;
            return self.last;
        }
        let together = self.together.min(self.steps.saturating_sub(self.step)).max(1);
        self.with_last = together - 1;
        (0..together).map(|_| self.next_step()).last().unwrap_or(self.last)
    }

    /// Returns when the next step would be due if it were sent alone.
    fn next_step(&mut self) -> Nanos {
        let mut due = self.unordered_due(self.step).max(self.last);
        if let Some((at, duration)) = self.stall
            && at == self.step
        {
            due = due + duration;
        }
        self.step += 1;
        self.last = self.after_silence(due);
        self.last
    }

    fn unordered_due(&self, step: u64) -> Nanos {
        let planned = i128::from(self.ttft.0) + i128::from(step) * i128::from(self.itl.0);
        let offset = (planned + i128::from(self.stray_ns(step))).max(0);
        self.origin + Nanos(u64::try_from(offset).unwrap_or(u64::MAX))
    }

    fn stray_ns(&self, step: u64) -> i64 {
        let base = if step == 0 { self.ttft } else { self.itl }.0 as f64;
        let bits = mix(self.seed, step);
        let stray = match self.jitter {
            Jitter::None => return 0,
            Jitter::Fraction(fraction) => (2.0 * unit(bits) - 1.0) * fraction * base,
            Jitter::StdDev(deviation) => {
                normal(unit(bits), unit(mix(bits, 1))) * deviation.0 as f64
            }
            Jitter::Exponential => (-(1.0 - unit(bits)).ln() - 1.0) * base,
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
        let times = [Nanos(200), Nanos(1_000), script.ttft];
        let mut schedule = Schedule::new(script, [7, steps as u64], times, fault);
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
            let script = script(0, itl, jitter);
            let schedule = Schedule::new(&script, [7, 1], [Nanos::ZERO; 3], None);
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

    #[test]
    fn an_exponential_time_deviates_by_its_mean() {
        let itl = 1_000_000;
        let script = script(0, itl, Jitter::Exponential);
        let schedule = Schedule::new(&script, [7, 1], [Nanos::ZERO; 3], None);
        let times = (1..20_000).map(|step| schedule.stray_ns(step) as f64 + itl as f64);
        let times: Vec<f64> = times.collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let beyond = times.iter().filter(|time| **time > itl as f64).count() as f64;
        // The mean of 20,000 values has a standard error of 0.7%; e^-1 = 36.8% are beyond the mean.
        assert!((mean / itl as f64 - 1.0).abs() < 0.03, "{mean}");
        assert!((beyond / times.len() as f64 - 0.368).abs() < 0.015, "{beyond}");
    }

    /// Groups of 3 of 7 steps at 1500, 1520, … are due with the third, the sixth and the seventh.
    #[test]
    fn chunks_that_are_sent_together_wait_for_the_last() {
        let script = Script { chunks_together: 3, ..script(500, 20, Jitter::None) };
        let expected = [1_540, 1_540, 1_540, 1_600, 1_600, 1_600, 1_620];
        assert_eq!(dues(&script, None, 7), expected);
    }

    #[test]
    fn a_burst_waits_for_its_last_token() {
        let burst = Fault::Corrupt(Corruption::Burst);
        assert_eq!(dues(&script(500, 20, Jitter::None), Some(&burst), 4), [1_560; 4]);
    }

    /// The first request arrived at 200: nothing is sent from 1510 to 1570.
    #[test]
    fn a_silent_server_sends_later_what_was_due() {
        let silence = Some([Nanos(1_310), Nanos(60)]);
        let script = Script { silence, ..script(500, 20, Jitter::None) };
        assert_eq!(dues(&script, None, 6), [1_500, 1_570, 1_570, 1_570, 1_580, 1_600]);
        let at_once = |silence| {
            let script = Script { silence: Some(silence), ..script.clone() };
            Schedule::new(&script, [7, 1], [Nanos(200), Nanos(1_000), Nanos(500)], None).at_once().0
        };
        // Silent from 1310, and from 900 to 1020.
        assert_eq!(at_once([Nanos(1_110), Nanos(60)]), 1_000);
        assert_eq!(at_once([Nanos(700), Nanos(120)]), 1_020);
    }

    /// The request is admitted 800 ns after the first: times have grown by 0.8 × 10^-6 × the drift.
    #[test]
    fn times_grow_with_the_drift() {
        let script = Script { drift: 500_000.0, ..script(500, 20, Jitter::None) };
        assert_eq!(dues(&script, None, 3), [1_700, 1_728, 1_756]);
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
