//! Any `--request-rate-series` file is rejected, or is a curve whose due times are finite and in
//! order.
#![no_main]

use client::schedule::config::{ArrivalPattern, Rate};
use client::schedule::{RateCurve, parse_rate_series};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(points) = parse_rate_series(text) {
        assert!(points.windows(2).all(|pair| pair[0].at < pair[1].at));
        let curve = RateCurve::new(&Rate { points, ramp: None, pattern: ArrivalPattern::Constant });
        let due: Vec<f64> = (0..64).map(|count| curve.time_of(f64::from(count))).collect();
        assert!(due.is_sorted() && due.iter().all(|due| !due.is_nan()));
    }
});
