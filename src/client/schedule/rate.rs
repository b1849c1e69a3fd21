//! A rate that changes over time, and the time at which a number of arrivals is due.

use base::units::Nanos;

use super::config::Rate;

/// A piecewise-linear rate. The number of arrivals up to a time is its integral. Due times come
/// from the inverse of the integral, so that no update interval blurs a ramp.
#[derive(Debug, Clone)]
pub struct RateCurve {
    knots: Vec<Knot>,
}

/// A point at which the slope changes.
#[derive(Debug, Clone, Copy)]
struct Knot {
    /// Seconds from the start.
    at: f64,
    /// Arrivals per second.
    rate: f64,
    /// Number of earlier arrivals: the integral of the rate up to this point.
    before: f64,
}

impl RateCurve {
    /// Creates the curve that `rate` describes. Its points must be in order of time.
    #[must_use]
    pub fn new(rate: &Rate) -> Self {
        let mut curve = Self { knots: Vec::with_capacity(rate.points.len() + 2) };
        let offset = rate.ramp.map_or(0.0, Nanos::as_seconds);
        if offset > 0.0 {
            curve.push(0.0, 0.0);
        }
        if let Some(first) = rate.points.first().filter(|point| point.at.0 > 0) {
            curve.push(offset, first.rate);
        }
        for point in &rate.points {
            curve.push(offset + point.at.as_seconds(), point.rate);
        }
        curve
    }

    fn push(&mut self, at: f64, rate: f64) {
        // The trapezoid between the last knot and this one.
        let before = self
            .knots
            .last()
            .map_or(0.0, |last| last.before + last.rate.midpoint(rate) * (at - last.at));
        self.knots.push(Knot { at, rate, before });
    }

    /// Changes the rate at once, `at` this many seconds from the start, which must be after earlier changes.
    pub fn change(&mut self, at: f64, rate: f64) {
        self.knots.retain(|knot| knot.at <= at);
        if let Some(last) = self.knots.last().copied().filter(|last| last.at < at) {
            self.push(at, last.rate);
        }
        self.push(at, rate);
    }

    /// Returns the seconds from the start until `arrivals` are due. The result is not finite if the
    /// rate is not positive.
    #[must_use]
    pub fn time_of(&self, arrivals: f64) -> f64 {
        let next = self.knots.partition_point(|knot| knot.before <= arrivals);
        let Some(from) = self.knots.get(next.saturating_sub(1)) else { return f64::NAN };
        let more = arrivals - from.before;
        let slope =
            self.knots.get(next).map_or(0.0, |to| (to.rate - from.rate) / (to.at - from.at));
        if slope == 0.0 {
            return from.at + more / from.rate;
        }
        // The root of rate·t + slope·t²/2 = more, in the form that stays precise for small slopes.
        let root = (from.rate * from.rate + 2.0 * slope * more).max(0.0).sqrt();
        from.at + if more > 0.0 { 2.0 * more / (from.rate + root) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::config::{ArrivalPattern, RatePoint};
    use super::*;

    fn curve(ramp: f64, points: &[(f64, f64)]) -> RateCurve {
        let point = |&(at, rate)| RatePoint { at: Nanos::from_seconds(at), rate };
        RateCurve::new(&Rate {
            points: points.iter().map(point).collect(),
            ramp: (ramp > 0.0).then(|| Nanos::from_seconds(ramp)),
            pattern: ArrivalPattern::Constant,
        })
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn a_constant_rate_is_a_division() {
        let curve = curve(0.0, &[(0.0, 3.0)]);
        for count in 0..10_000 {
            assert_eq!(curve.time_of(f64::from(count)), f64::from(count) / 3.0);
        }
    }

    #[test]
    fn a_ramp_is_the_square_root_of_its_triangle() {
        // From 0 to 10 per second in 4 s: 10·t²/8 arrivals are due by t, 20 at the end.
        let curve = curve(4.0, &[(0.0, 10.0)]);
        assert_eq!(curve.time_of(0.0), 0.0);
        close(curve.time_of(5.0), 2.0);
        close(curve.time_of(1.25), 1.0);
        close(curve.time_of(20.0), 4.0);
        close(curve.time_of(25.0), 4.5);
    }

    #[test]
    fn a_series_is_integrated_piece_by_piece() {
        // 1 s at 2, then a fall from 2 to 1 and a rise to 3 within 1 s each, then 3.
        let curve = curve(0.0, &[(1.0, 2.0), (2.0, 1.0), (3.0, 3.0)]);
        close(curve.time_of(1.0), 0.5);
        close(curve.time_of(2.0), 1.0);
        // 2t − t²/2 = 0.875 at t = 0.5.
        close(curve.time_of(2.875), 1.5);
        close(curve.time_of(3.5), 2.0);
        // t + t² = 0.75 at t = 0.5.
        close(curve.time_of(4.25), 2.5);
        close(curve.time_of(5.5), 3.0);
        close(curve.time_of(8.5), 4.0);
    }

    #[test]
    fn a_series_begins_after_the_ramp() {
        // 2 s up to 4: 4 arrivals. Then 4 to 8 in 1 s: 6 more. Then a constant 8.
        let curve = curve(2.0, &[(0.0, 4.0), (1.0, 8.0)]);
        close(curve.time_of(4.0), 2.0);
        close(curve.time_of(10.0), 3.0);
        close(curve.time_of(18.0), 4.0);
    }

    #[test]
    fn a_change_applies_to_what_follows() {
        // 2 per second for 3 s: 6 arrivals. Then 10 per second for 1 s: 10 more. Then 1 per second.
        let mut curve = curve(0.0, &[(0.0, 64.0)]);
        curve.change(0.0, 2.0);
        assert_eq!(curve.time_of(5.0), 2.5);
        curve.change(3.0, 10.0);
        curve.change(4.0, 1.0);
        let times = [4.0, 6.0, 11.0, 16.0, 18.5].map(|arrivals| curve.time_of(arrivals));
        assert_eq!(times, [2.0, 3.0, 3.5, 4.0, 6.5]);
    }

    proptest! {
        #[test]
        fn time_of_is_the_inverse_of_the_integral(
            ramp in prop::option::of(0.01f64..100.0),
            steps in prop::collection::vec((0.001f64..50.0, 0.01f64..1000.0), 1..8),
            share in 0.0f64..1.2,
        ) {
            let mut at = 0.0;
            let points: Vec<(f64, f64)> = steps.iter().map(|&(gap, rate)| {
                at += gap;
                (at, rate)
            }).collect();
            let curve = curve(ramp.unwrap_or(0.0), &points);
            let total = curve.knots.last().unwrap().before;
            let arrivals = share * total;
            let found = curve.time_of(arrivals);
            // An independent integral: trapezoids between the knots up to `found`.
            let mut integral = 0.0;
            for pair in curve.knots.windows(2) {
                let end = found.clamp(pair[0].at, pair[1].at);
                let part = (end - pair[0].at) / (pair[1].at - pair[0].at);
                let rate = pair[0].rate + part * (pair[1].rate - pair[0].rate);
                integral += pair[0].rate.midpoint(rate) * (end - pair[0].at);
            }
            let last = curve.knots.last().unwrap();
            integral += (found - last.at).max(0.0) * last.rate;
            prop_assert!((integral - arrivals).abs() <= 1e-6 * total.max(1.0), "{} {}", integral, arrivals);
            prop_assert!(curve.time_of(arrivals + 1.0) > found);
        }
    }
}
