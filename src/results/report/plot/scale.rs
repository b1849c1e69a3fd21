//! The range and the ticks of an axis.

use crate::report::chart::round_up;

/// An axis of a picture. Its ends are ticks, except for the end of a run.
#[derive(Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) ticks: Vec<f64>,
    /// Whether powers of ten have equal distances.
    pub(super) is_log: bool,
    /// Number of decimals of the ticks.
    decimals: usize,
}

/// Where an axis starts and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// At ticks around the values, and at zero if that is near.
    Near,
    /// At zero, or below it.
    FromZero,
    /// At zero and the last value.
    Timeline,
    /// At zero and the end of the last row, each of which has a height of 1.
    Rows,
    /// At ticks around the values, on a logarithmic scale if all are above zero.
    Log,
}

/// Largest value of an axis, so that differences are finite.
const MOST: f64 = 1e300;
/// Smallest step of an axis, as a share of its values, so that ticks differ.
const LEAST_STEP: f64 = 1e-12;
/// Smallest value of a logarithmic axis.
const LEAST_LOG: f64 = 1e-12;
/// Logarithmic axes with a greater ratio of their ends only have ticks at powers of ten.
const WIDE: f64 = 5e3;
/// Values that are at least this share of the largest one do not need zero.
const FAR_FROM_ZERO: f64 = 0.7;

impl Scale {
    /// Returns the axis of `values`, with about `count` ticks.
    pub(super) fn over_values(
        values: impl Iterator<Item = f64> + Clone,
        ends: Ends,
        count: usize,
    ) -> Self {
        let finite = values.filter(|value| value.abs() <= MOST);
        if ends == Ends::Log
            && let Some(scale) = Self::log(finite.clone())
        {
            return scale;
        }
        let whole = finite.clone().all(|value| value.fract() == 0.0);
        let mut low = finite.clone().fold(f64::INFINITY, f64::min);
        let mut high = finite.fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let is_near = low > 0.0 && low < high * FAR_FROM_ZERO;
        if is_near || ends != Ends::Near {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        if low == high {
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            high += room;
            low -= if low == 0.0 { 0.0 } else { room };
        }
        let smallest = low.abs().max(high.abs()) * LEAST_STEP;
        let mut step = round_up(((high - low) / count.max(1) as f64).max(smallest));
        if whole || ends == Ends::Rows {
            step = step.max(1.0);
        }
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let ticks = (0..=(last - first) as usize).map(|at| (first + at as f64) * step);
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let (low, end) = (first * step, last * step);
        let high = match ends {
            Ends::Timeline => high,
            Ends::Rows => high.ceil(),
            Ends::Near | Ends::FromZero | Ends::Log => end,
        };
        let ticks = ticks.filter(|tick| *tick <= high + step * 1e-9).collect();
        Self { low, high, ticks, is_log: false, decimals }
    }

    /// Returns a logarithmic axis with ticks at 1, 2 and 5 times powers of ten, or at the powers
    /// alone if these are many; `None` if a value is not above zero.
    fn log(values: impl Iterator<Item = f64> + Clone) -> Option<Self> {
        let lowest = values.clone().reduce(f64::min).filter(|lowest| *lowest >= LEAST_LOG)?;
        let highest = values.fold(lowest, f64::max);
        let powers = lowest.log10().floor() as i32..=highest.log10().ceil() as i32 + 1;
        let is_wide = highest / lowest > WIDE;
        let times = if is_wide { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
        let of_power = |power| times.iter().map(move |times| times * 10_f64.powi(power));
        let all: Vec<f64> = powers.flat_map(of_power).collect();
        let first = all.iter().rposition(|tick| *tick <= lowest * (1.0 + 1e-9)).unwrap_or(0);
        let last = all.iter().position(|tick| *tick >= highest * (1.0 - 1e-9));
        let last = last.unwrap_or(all.len() - 1).max(first + 1).min(all.len() - 1);
        let ticks = all.get(first..=last)?.to_vec();
        let (low, high) = (*ticks.first()?, *ticks.last()?);
        let decimals = (-low.log10().floor()).clamp(0.0, 12.0) as usize;
        (low < high).then_some(Self { low, high, ticks, is_log: true, decimals })
    }

    /// Returns the place of `value`: 0 at the low end, 1 at the high one.
    pub(super) fn place(&self, value: f64) -> f64 {
        if self.is_log {
            return (value.max(LEAST_LOG).log10() - self.low.log10())
                / (self.high.log10() - self.low.log10());
        }
        (value - self.low) / (self.high - self.low)
    }

    /// Formats a tick, with a comma between thousands.
    pub(super) fn label(&self, tick: f64) -> String {
        if tick.abs() >= 1e15 {
            return format!("{tick:e}");
        }
        // Not -0.
        let decimals = if self.is_log && tick >= 1.0 { 0 } else { self.decimals };
        let text = format!("{:.decimals$}", tick + 0.0);
        let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
        let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
        let mut grouped = String::new();
        for (at, digit) in whole.chars().enumerate() {
            if at > 0 && (whole.len() - at) % 3 == 0 {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        format!("{sign}{grouped}{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(values: &[f64], ends: Ends) -> Scale {
        Scale::over_values(values.iter().copied(), ends, 5)
    }

    fn labels(scale: &Scale) -> Vec<String> {
        scale.ticks.iter().map(|tick| scale.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_around_the_values() {
        assert_eq!(labels(&scale(&[3.0, 97.5], Ends::Near)), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(
            labels(&scale(&[20.1, 20.9], Ends::Near)),
            ["20.0", "20.2", "20.4", "20.6", "20.8", "21.0"]
        );
        assert_eq!(
            labels(&scale(&[20.1, 20.9], Ends::FromZero)),
            ["0", "5", "10", "15", "20", "25"]
        );
        assert_eq!(labels(&scale(&[-4.0, 4.0], Ends::Near)), ["-4", "-2", "0", "2", "4"]);
        assert_eq!(labels(&scale(&[0.0, 2_400_000.0], Ends::Near)).last().unwrap(), "2,500,000");
        assert_eq!(labels(&scale(&[1.0, 2.0], Ends::Near)), ["0", "1", "2"]);
    }

    #[test]
    fn a_timeline_ends_with_its_last_value() {
        let time = scale(&[0.5, 9.7], Ends::Timeline);
        assert_eq!((time.low, time.high), (0.0, 9.7));
        assert_eq!(labels(&time), ["0", "2", "4", "6", "8"]);
        assert_eq!(time.place(9.7), 1.0);
    }

    #[test]
    fn rows_end_with_the_last_one() {
        let few = scale(&[0.3, 1.7], Ends::Rows);
        assert_eq!((few.high, labels(&few)), (2.0, ["0", "1", "2"].map(str::to_owned).to_vec()));
        let many = scale(&[0.3, 63.7], Ends::Rows);
        assert_eq!(
            (many.high, labels(&many)),
            (64.0, ["0", "20", "40", "60"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten_at_equal_distances() {
        let load = scale(&[1.0, 16.0, 90.0], Ends::Log);
        assert_eq!(labels(&load), ["1", "2", "5", "10", "20", "50", "100"]);
        let places = [1.0, 10.0, 100.0].map(|value| load.place(value));
        for (place, expected) in places.into_iter().zip([0.0, 0.5, 1.0]) {
            assert!((place - expected).abs() < 1e-12, "{places:?}");
        }
        let wide = scale(&[0.3, 40_000.0], Ends::Log);
        assert_eq!(labels(&wide), ["0.1", "1", "10", "100", "1,000", "10,000", "100,000"]);
        // Zero is not on it.
        assert_eq!(scale(&[0.0, 100.0], Ends::Log), scale(&[0.0, 100.0], Ends::FromZero));
    }

    #[test]
    fn any_values_have_an_axis() {
        for values in [
            &[][..],
            &[0.0],
            &[7.5],
            &[-3.0],
            &[f64::NAN, f64::INFINITY],
            &[1e300, 1.5e300],
            &[1e-300],
            &[5e-324, 0.5],
            &[1e300, -1e300],
            &[f64::MAX, f64::MIN],
            &[1e10, 1e10 + 1e-5],
            &[1e16, 1e16 + 2.0],
        ] {
            for ends in [Ends::Near, Ends::FromZero, Ends::Timeline, Ends::Rows, Ends::Log] {
                let scale = scale(values, ends);
                let count = scale.ticks.len();
                assert!((1..=20).contains(&count), "{values:?} {ends:?}: {scale:?}");
                assert!(scale.low < scale.high, "{values:?} {ends:?}: {scale:?}");
                for value in values.iter().filter(|value| value.abs() <= MOST) {
                    let place = scale.place(*value);
                    assert!((-1e-9..=1.0 + 1e-9).contains(&place), "{value} {ends:?}: {scale:?}");
                }
            }
        }
    }
}
