//! Formats numbers in display units such that the number in the metric's own unit can be recovered
//! exactly.
//!
//! Time units differ by powers of ten: the shortest decimal of the value in its own unit with the
//! point moved (`37680444` ns is `37.680444` ms) is the value in milliseconds and, with the point
//! moved back, the same nanoseconds to the last bit. A quotient of floats would lose some.

use base::units::Unit;
use measure::metrics::Metric;
use measure::metrics::metric::{MetricKind, ValueType};

/// The format of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form {
    /// Whole numbers.
    Int,
    /// Unchanged floats.
    Float,
    /// The decimal point is moved this many places to the left.
    Moved(i32),
    /// Divided by this power of two, which is exact.
    Divided(f64),
}

impl Form {
    pub(super) fn for_metric(metric: &Metric) -> Self {
        let places = |unit| match unit {
            Unit::Nanoseconds => Some(0),
            Unit::Milliseconds => Some(6),
            Unit::Seconds => Some(9),
            _ => None,
        };
        if metric.unit == metric.display_unit {
            let is_whole = matches!(metric.value_type, ValueType::Int | ValueType::IntList);
            // A request is counted either once or not at all.
            let is_count = matches!(metric.kind, MetricKind::Count(_));
            return if is_whole || is_count { Self::Int } else { Self::Float };
        }
        match (places(metric.unit), places(metric.display_unit)) {
            (Some(from), Some(to)) => Self::Moved(to - from),
            _ => Self::Divided(metric.display_unit.in_units_of(metric.unit)),
        }
    }

    /// Appends `value`, which must be finite.
    pub(super) fn write(self, out: &mut Vec<u8>, value: f64) {
        match self {
            Self::Int => match whole(value) {
                Some(whole) => out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes()),
                None => write_moved(out, value, 0),
            },
            Self::Float => write_moved(out, value, 0),
            Self::Moved(places) => write_moved(out, value, places),
            Self::Divided(divisor) => write_moved(out, value / divisor, 0),
        }
    }

    /// Parses `text`, which [`Form::write`] wrote; `None` if it is not a number.
    pub(super) fn read(self, text: &str) -> Option<f64> {
        let value = match self {
            Self::Int | Self::Float => text.parse().ok()?,
            Self::Divided(divisor) => text.parse::<f64>().ok()? * divisor,
            Self::Moved(places) => {
                let (digits, exponent) = match text.split_once(['e', 'E']) {
                    Some((digits, exponent)) => (digits, exponent.parse::<i32>().ok()?),
                    None => (text, 0),
                };
                format!("{digits}e{}", exponent.checked_add(places)?).parse::<f64>().ok()?
            }
        };
        Some(value).filter(|value| value.is_finite())
    }
}

/// Whole numbers below this are exact.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_992.0;

/// More digits than `zmij` writes for a number: 17 significant ones, or a few zeros before or after
/// them.
const MAX_DIGITS: usize = 32;

/// Returns `value` if it is a whole number that is written with its digits alone.
fn whole(value: f64) -> Option<u64> {
    let is_whole = value.is_sign_positive() && value < LARGEST_WHOLE && value.fract() == 0.0;
    is_whole.then_some(value as u64)
}

/// Appends the shortest decimal of `value` with its point moved `places` to the left, always with a
/// fraction: `50.0`.
fn write_moved(out: &mut Vec<u8>, value: f64, places: i32) {
    // Moving its point does not change zero.
    if value == 0.0 {
        out.extend_from_slice(if value.is_sign_negative() { b"-0.0" } else { b"0.0" });
        return;
    }
    if let Some(value) = whole(value) {
        let mut buffer = itoa::Buffer::new();
        let digits = buffer.format(value).as_bytes();
        let zeros = digits.iter().rev().take_while(|digit| **digit == b'0').count();
        let significant = digits.len().saturating_sub(zeros).max(1);
        let point = i32::try_from(digits.len()).unwrap_or(0) - places;
        place_point(out, &digits[..significant], point);
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    // The shortest digits that are read as the same number, with or without an exponent.
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (mut digits, mut count) = ([0; MAX_DIGITS], 0);
    let all = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0');
    for (place, digit) in digits.iter_mut().zip(all) {
        *place = digit;
        count += 1;
    }
    // Zeros before the first digit other than zero, which count as places after the point.
    let zeros = whole.len() + fraction.len() - count;
    let significant =
        digits[..count].iter().rposition(|digit| *digit != b'0').map_or(1, |at| at + 1);
    let before_point = i32::try_from(whole.len()).unwrap_or(0) - i32::try_from(zeros).unwrap_or(0);
    let point = exponent.parse::<i32>().unwrap_or(0) + before_point - places;
    place_point(out, &digits[..significant], point);
}

/// Appends `digits` with a point after the first `point` of them; if `point` is negative, that many
/// zeros follow the point.
fn place_point(out: &mut Vec<u8>, digits: &[u8], point: i32) {
    let whole = usize::try_from(point).unwrap_or(0);
    if !(-20..=20).contains(&point) {
        out.push(digits[0]);
        out.push(b'.');
        out.extend_from_slice(digits.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(b"0"));
        out.extend_from_slice(format!("e{}", point - 1).as_bytes());
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        if digits == b"0" {
            out.push(b'0');
        } else {
            out.extend((point..0).map(|_| b'0'));
            out.extend_from_slice(digits);
        }
    } else if whole >= digits.len() {
        out.extend_from_slice(digits);
        out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
        out.extend_from_slice(b".0");
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(form: Form, value: f64) -> String {
        let mut out = Vec::new();
        form.write(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_point_moves_without_arithmetic() {
        let ms = Form::Moved(6);
        assert_eq!(text(ms, 37_680_444.0), "37.680444");
        assert_eq!(text(ms, 120_249_407.0), "120.249407");
        assert_eq!(text(ms, 5.0), "0.000005");
        assert_eq!(text(ms, 0.0), "0.0");
        assert_eq!(text(Form::Moved(-3), 0.0), "0.0");
        assert_eq!(text(Form::Moved(-3), -0.0), "-0.0");
        // A video generated in no time, in seconds and displayed in milliseconds.
        assert_eq!(text(Form::Moved(-3), 0.0), "0.0");
        assert_eq!(text(Form::Moved(-3), -0.0), "-0.0");
        assert_eq!(text(Form::Moved(-3), 1.5), "1500.0");
        assert_eq!(text(ms, 31_000_000.0), "31.0");
        assert_eq!(text(ms, 4_795_437.142_857_143), "4.795437142857143");
        assert_eq!(text(Form::Float, 50.0), "50.0");
        assert_eq!(text(Form::Float, -0.5), "-0.5");
        assert_eq!(text(Form::Int, 16.0), "16");
        assert_eq!(text(Form::Divided(1024.0), 189.0), "0.1845703125");
    }

    #[test]
    fn what_is_not_a_number_is_none() {
        assert_eq!(Form::Moved(6).read("1e99999999999"), None);
        assert_eq!(Form::Moved(6).read("1e2147483647"), None);
        assert_eq!(Form::Float.read("null"), None);
        assert_eq!(Form::Int.read("inf"), None);
    }

    proptest! {
        #[test]
        fn values_come_back_to_the_last_bit(
            any in prop::num::f64::NORMAL | prop::num::f64::ZERO,
            moderate in -1e12_f64..1e12,
            whole in 0_u64..1 << 53,
        ) {
            for value in [any, moderate, whole as f64] {
                for form in [Form::Moved(6), Form::Moved(-3), Form::Float, Form::Int] {
                    let written = text(form, value);
                    let back = form.read(&written).map(f64::to_bits);
                    prop_assert_eq!(back, Some(value.to_bits()), "{:?} {}", form, written);
                }
                // An independent parser accepts the text as JSON and reads the same value.
                let written = text(Form::Float, value);
                let json: f64 = serde_json::from_str(&written).unwrap();
                prop_assert!((json - value).abs() <= value.abs() * 1e-15, "{}", written);
            }
        }

        #[test]
        fn every_finite_float_is_json_in_every_form(bits: u64, places in -12..=12_i32) {
            let known = [0.0, -0.0, 1.0, 10.0, 1e3, 1e15, f64::MIN_POSITIVE, f64::MAX, f64::EPSILON];
            for value in known.into_iter().chain([f64::from_bits(bits)]) {
                for value in [value, -value].into_iter().filter(|value| value.is_finite()) {
                    let moved = Form::Moved(places);
                    for form in [moved, Form::Int, Form::Float, Form::Divided(1024.0)] {
                        let written = text(form, value);
                        let json: Result<&serde_json::value::RawValue, _> =
                            serde_json::from_str(&written);
                        prop_assert!(json.is_ok(), "{:e} by {:?}: {}", value, form, written);
                        prop_assert_eq!(written.starts_with('-'), value.is_sign_negative());
                        // A display unit may be too small or too large for a float.
                        let Ok(number) = serde_json::from_str::<f64>(&written) else {
                            prop_assert!(value.abs() > 1e290, "{}", written);
                            continue;
                        };
                        let is_zero = number == 0.0;
                        prop_assert!(is_zero || value != 0.0, "{}", written);
                        prop_assert!(!is_zero || value.abs() < 1e-290, "{}", written);
                    }
                }
            }
        }

        #[test]
        fn every_finite_value_is_written_as_a_json_number(
            any in prop::num::f64::ANY | prop::num::f64::ZERO | prop::num::f64::NEGATIVE,
            whole in -1_i64 << 53..1 << 53,
        ) {
            for value in [any, whole as f64, 0.0, -0.0].into_iter().filter(|v| v.is_finite()) {
                let moved = [-9, -6, -3, 0, 3, 6, 9].map(Form::Moved);
                for form in moved.into_iter().chain([Form::Float, Form::Int, Form::Divided(1e3)]) {
                    let written = text(form, value);
                    // Syntax only: a moved value may exceed the range of a double.
                    let read = serde_json::from_str::<&serde_json::value::RawValue>(&written);
                    prop_assert!(read.is_ok(), "{:?} {}", form, written);
                    prop_assert_eq!(written.starts_with('-'), value.is_sign_negative());
                    prop_assert!(written.ends_with(|last: char| last.is_ascii_digit()));
                }
            }
        }

        #[test]
        fn bytes_come_back_from_kilobytes(bytes in 0_u64..1 << 50) {
            let form = Form::Divided(1024.0);
            prop_assert_eq!(form.read(&text(form, bytes as f64)), Some(bytes as f64));
        }

        #[test]
        fn reading_never_panics(text in ".{0,40}") {
            for form in [Form::Moved(6), Form::Float, Form::Divided(1024.0)] {
                let _ = form.read(&text);
            }
        }
    }
}
