//! Student's t distribution, also for degrees of freedom that are not whole, as those of Welch are.

use std::f64::consts::FRAC_PI_2;

use super::proportion::regularized;

/// Returns the critical value of a two-sided interval: the bound that |t| does not exceed with
/// probability `level`, for Student's distribution with `degrees` of freedom. `None` unless `degrees` is
/// positive and finite and `level` is between 0 and 1.
///
/// P(|t| > x) is the regularized incomplete beta function of cos²θ with the parameters `degrees` / 2 and
/// 1/2, where θ = atan(x / √degrees) (Abramowitz and Stegun, Handbook of Mathematical Functions, 1964,
/// 26.7.1). It is inverted by bisecting the range of θ until no number lies between its ends.
#[must_use]
pub fn critical(level: f64, degrees: f64) -> Option<f64> {
    if !(degrees > 0.0 && degrees.is_finite() && level > 0.0 && level < 1.0) {
        return None;
    }
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return Some(degrees.sqrt() * high.tan());
        }
        let beyond = regularized(middle.cos().powi(2), degrees / 2.0, 0.5);
        if beyond > 1.0 - level { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rows of degrees of freedom and bounds, by scipy: `tests/check_student_t.py`
    /// holds the file to it.
    const TABLE: &str = include_str!("../../../tests/golden/student_t.csv");

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
                let found = critical(*level, f64::from(degrees)).unwrap();
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
        assert!((critical(0.5, 1.0).unwrap() - 1.0).abs() < 1e-13);
        // Two: level · √(2 / (1 - level²)).
        let two = 0.95 * (2.0_f64 / (1.0 - 0.95 * 0.95)).sqrt();
        assert!((critical(0.95, 2.0).unwrap() - two).abs() < 1e-12);
    }

    #[test]
    fn degrees_need_not_be_whole() {
        // scipy.stats.t.ppf of 0.975 and 0.995, and by integration of the density with Simpson's rule.
        for (degrees, of_95, of_99) in [
            (3.5, 2.940_088_637_98, 5.085_702_223_09),
            (3.9, 2.804_748_011_39, 4.685_713_799_96),
            (5.25, 2.534_196_800_47, 3.935_108_573_51),
            (17.6, 2.104_349_842_94, 2.886_058_354_46),
        ] {
            for (level, expected) in [(0.95, of_95), (0.99, of_99)] {
                let found = critical(level, degrees).unwrap();
                assert!((found - expected).abs() < 1e-9, "{degrees} {level}: {found}");
            }
        }
    }

    #[test]
    fn without_degrees_or_level_there_is_none() {
        assert_eq!(critical(0.95, 0.0), None);
        for level in [0.0, 1.0, -0.5, 1.5, f64::NAN] {
            assert_eq!(critical(level, 4.0), None, "{level}");
        }
    }

    proptest! {
        #[test]
        fn bounds_rise_with_the_level_and_fall_with_the_degrees(
            level in 1e-6_f64..0.999_999, step in 1e-6_f64..1e-3, degrees in 1.0_f64..500.0,
        ) {
            let bound = critical(level, degrees).unwrap();
            prop_assert!(bound.is_finite() && bound > 0.0);
            prop_assert!(critical(level, degrees + 1.0).unwrap() < bound * (1.0 + 1e-9));
            let more = (level + step).min(0.999_999_9);
            prop_assert!(critical(more, degrees).unwrap() > bound);
        }
    }
}
