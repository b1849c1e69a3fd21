//! Student's t distribution for integer degrees of freedom.

use std::f64::consts::{FRAC_2_PI, FRAC_PI_2};

/// Returns the critical value of a two-sided interval: the bound that |t| does not exceed with
/// probability `level`, for Student's distribution with `degrees` of freedom. `None` if
/// `degrees` is 0 or `level` is not between 0 and 1.
///
/// P(|t| ≤ x) is a regularized incomplete beta function, which is a finite sum for integer
/// degrees of freedom (Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.3
/// and 26.7.4). It increases with θ = atan(x / √degrees), and is inverted by bisecting the
/// range of θ until no number lies between its ends.
#[must_use]
pub(crate) fn critical(level: f64, degrees: u32) -> Option<f64> {
    if degrees == 0 || !(level > 0.0 && level < 1.0) {
        return None;
    }
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return Some(f64::from(degrees).sqrt() * high.tan());
        }
        if within(middle, degrees) < level { low = middle } else { high = middle }
    }
}

/// P(|t| ≤ √degrees · tan θ).
fn within(theta: f64, degrees: u32) -> f64 {
    let (sin, cos) = theta.sin_cos();
    let is_odd = degrees % 2 == 1;
    // The k-th term is the one before times cos²θ and (2k-1)/2k, or 2k/(2k+1).
    let ratio = |k: u32| {
        let even = f64::from(2 * k);
        cos * cos * if is_odd { even / (even + 1.0) } else { (even - 1.0) / even }
    };
    let terms = degrees / 2;
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 1..=terms {
        sum += term;
        term *= ratio(k);
    }
    if is_odd { FRAC_2_PI * (theta + sin * cos * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows of degrees of freedom and bounds, by scipy: `tests/check_student_t.py`
    /// holds the file to it.
    const TABLE: &str = include_str!("../../tests/golden/student_t.csv");

    #[test]
    fn bounds_are_scipys() {
        let mut lines = TABLE.lines();
        let header = lines.next().unwrap();
        let levels: Vec<f64> = header.split(',').skip(1).map(|l| l.parse().unwrap()).collect();
        assert_eq!((levels[0], levels[levels.len() - 1]), (0.5, 0.999));
        let mut rows = 0;
        for line in lines {
            let mut cells = line.split(',');
            let degrees: u32 = cells.next().unwrap().parse().unwrap();
            for (level, cell) in levels.iter().zip(cells) {
                let expected: f64 = cell.parse().unwrap();
                let found = critical(*level, degrees).unwrap();
                let error = (found - expected).abs() / expected;
                assert!(error < 1e-12, "{degrees} {level}: {found} and not {expected}");
            }
            rows += 1;
            assert_eq!(degrees, rows);
        }
        assert_eq!(rows, 200);
    }

    #[test]
    fn bounds_that_have_closed_forms() {
        // One degree is Cauchy's distribution: tan(π/2 · level).
        assert!((critical(0.5, 1).unwrap() - 1.0).abs() < 1e-15);
        // Two: level · √(2 / (1 - level²)).
        let two = 0.95 * (2.0_f64 / (1.0 - 0.95 * 0.95)).sqrt();
        assert!((critical(0.95, 2).unwrap() - two).abs() < 1e-12);
    }

    #[test]
    fn without_degrees_or_level_there_is_none() {
        assert_eq!(critical(0.95, 0), None);
        for level in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
            assert_eq!(critical(level, 4), None, "{level}");
        }
    }

    proptest! {
        #[test]
        fn bounds_rise_with_the_level_and_fall_with_the_degrees(
            level in 1e-6_f64..0.999_999, step in 1e-6_f64..1e-3, degrees in 1_u32..500,
        ) {
            let bound = critical(level, degrees).unwrap();
            prop_assert!(bound.is_finite() && bound > 0.0);
            prop_assert!(critical(level, degrees + 1).unwrap() < bound * (1.0 + 1e-9));
            let more = (level + step).min(0.999_999_9);
            prop_assert!(critical(more, degrees).unwrap() > bound);
        }
    }
}
