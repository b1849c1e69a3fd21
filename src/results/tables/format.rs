//! Numbers and texts as tables and boxes have them.

use std::borrow::Cow;

use base::statistics::Percent;

/// Maximum length of a text in a table or a box, in characters. Widths of formatted text are limited
/// to 65,535.
const LONGEST_TEXT: usize = 1000;

/// Formats a number with two decimals and thousands separators, as in `1,234.50`; `N/A` if
/// absent.
pub fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else {
        return "N/A".to_owned();
    };
    let text = format!("{value:.2}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "00"));
    format!("{sign}{}.{fraction}", grouped(whole))
}

/// Formats a number that is not negative with two significant digits.
pub(crate) fn two_digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = (1.0 - value.log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.decimals$}");
    if decimals == 0 { grouped(&text) } else { text }
}

/// Formats a number with four significant digits and thousands separators, whole numbers without
/// decimals; `N/A` if it is not finite.
pub(crate) fn four_digits(value: f64) -> String {
    if !value.is_finite() {
        return "N/A".to_owned();
    }
    let size = value.abs();
    if size >= 1e15 || (size < 1e-4 && size > 0.0) {
        return format!("{value:.3e}");
    }
    if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        return format!("{sign}{}", grouped(&format!("{size:.0}")));
    }
    let decimals = match size {
        _ if value.fract() == 0.0 => 0,
        ..1.0 => 3 - size.log10().floor() as i32,
        ..10.0 => 3,
        ..100.0 => 2,
        _ => 1,
    };
    format!("{value:.*}", usize::try_from(decimals).unwrap_or(0))
}

/// Formats a percentile of `count` values with four significant digits; in brackets if there are too few values
/// for its confidence interval.
pub fn percentile(value: f64, percent: Percent, count: u64) -> String {
    let text = four_digits(value);
    if value.is_finite() && count < percent.values_needed() { format!("({text})") } else { text }
}

/// Formats a fraction as a percentage without trailing zeros: `95`, `99.5`.
pub fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a whole number with thousands separators.
pub fn count(value: u64) -> String {
    grouped(&value.to_string())
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the beginning of a text for a table or a box, which may come from a server.
pub fn bounded(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A p99 has an interval from 368 values on, by 0.99³⁶⁸ < 2.5%, and a median from 6 on, by 0.5⁶ < 2.5%.
    #[test]
    fn percentiles_of_too_few_values_are_in_brackets() {
        let shown = |percent, count| percentile(1.5, Percent::whole(percent), count);
        assert_eq!([shown(99, 367), shown(99, 368)], ["(1.500)", "1.500"]);
        assert_eq!([shown(50, 5), shown(50, 6)], ["(1.500)", "1.500"]);
    }

    #[test]
    fn two_digits_say_how_exact_a_value_is() {
        let cases = [
            (0.0, "0"),
            (0.000_123_4, "0.00012"),
            (0.5, "0.50"),
            (9.96, "10.0"),
            (1234.0, "1,234"),
        ];
        for (value, shown) in cases {
            assert_eq!(two_digits(value), shown);
        }
    }
}
