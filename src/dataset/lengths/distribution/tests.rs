use proptest::prelude::*;

use super::*;
use crate::{Seed, SequenceDistribution};

#[test]
fn a_log_normal_length_has_its_mean_and_median() {
    let parse = SequenceDistribution::parse;
    let length = parse("512~192,8:100").unwrap().pairs()[0].input_tokens.clone();
    assert_eq!(length, Length::LogNormal { mean: 512.0, median: 192.0 });
    let mut rng = Seed(3).stream("test");
    let mut drawn: Vec<u32> = (0..100_000).map(|_| length.draw_count(&mut rng)).collect();
    drawn.sort_unstable();
    let mean = drawn.iter().map(|tokens| f64::from(*tokens)).sum::<f64>() / 1e5;
    // Its standard deviation is 512·√((512/192)² − 1), that of the mean a 316th of it.
    let stddev = 512.0 * ((512.0f64 / 192.0).powi(2) - 1.0).sqrt();
    assert!((length.spread().stddev - stddev).abs() < 1e-9);
    assert!((mean - 512.0).abs() < 5.0 * stddev / 1e5f64.sqrt(), "{mean}");
    assert!((i64::from(drawn[50_000]) - 192).abs() <= 5, "{}", drawn[50_000]);
    for wrong in ["100~200,8:100", "100~0,8:100"] {
        assert!(parse(wrong).unwrap_err().contains("the median of"), "{wrong}");
    }
}

#[test]
fn spreads_have_the_mean_and_deviation_asked_for() {
    let spread = NormalDistribution { mean: 500.0, stddev: 50.0 };
    let mut rng = Seed(2).stream("test");
    let values: Vec<f64> = (0..10_000).map(|_| f64::from(spread.draw_count(&mut rng))).collect();
    let mean = values.iter().sum::<f64>() / 10_000.0;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 10_000.0;
    // Standard errors: 50/sqrt(10,000) = 0.5 and 50/sqrt(20,000) = 0.35.
    assert!((mean - 500.0).abs() < 2.0, "{mean}");
    assert!((variance.sqrt() - 50.0).abs() < 1.4, "{variance}");
}

#[test]
fn counts_are_at_least_one() {
    let spread = NormalDistribution { mean: 1.0, stddev: 100.0 };
    let mut rng = Seed(3).stream("test");
    assert!((0..1000).all(|_| spread.draw_count(&mut rng) >= 1));
    assert_eq!(NormalDistribution::exactly(0.0).draw_count(&mut rng), 1);
}

/// Returns the distribution that `text` describes.
fn length(text: &str) -> Length {
    Length::parse(text).unwrap()
}

#[test]
fn quantiles_are_those_of_scipy() {
    let text = include_str!("../../../../tests/golden/lengths.csv");
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let mut checked = 0;
    for row in rows.records() {
        let row = row.unwrap();
        let number = |at: usize| row[at].parse::<f64>().unwrap();
        let (of, z, expected) = (length(&row[0]), number(1), number(2));
        let found = of.at(z);
        assert!((found - expected).abs() < 1e-9 * expected.max(1.0), "{row:?}: {found}");
        let (spread, mean, stddev) = (of.spread(), number(3), number(4));
        assert!((spread.mean / mean - 1.0).abs() < 1e-9, "{row:?}: {spread:?}");
        assert!((spread.stddev / stddev - 1.0).abs() < 1e-9, "{row:?}: {spread:?}");
        checked += 1;
    }
    assert_eq!(checked, 6 * 9);
}

/// Returns the largest distance between the empirical distribution of draws and `of`.
fn kolmogorov_smirnov(of: &Length) -> f64 {
    let mut rng = Seed(11).stream("test");
    let mut drawn: Vec<u32> = (0..10_000).map(|_| of.draw_count(&mut rng)).collect();
    drawn.sort_unstable();
    let n = drawn.len() as f64;
    // Lengths are rounded: up to `tokens` are those below tokens + 0.5.
    let distance = |tokens: &u32| {
        let up_to = drawn.partition_point(|other| other <= tokens) as f64 / n;
        (up_to - of.probability(f64::from(*tokens) + 0.5)).abs()
    };
    drawn.iter().map(distance).fold(0.0, f64::max)
}

#[test]
fn draws_have_the_distribution_asked_for() {
    for text in [
        "5000|700",
        "lognormal:mean=512,sigma=0.8",
        "uniform:min=100,max=900",
        "exponential:mean=300",
        "lognormal:median=150,sigma=0.5:70;normal:mean=4000,stddev=300:30",
    ] {
        // 1.63 / sqrt(n) is the critical distance at the 1% level.
        let distance = kolmogorov_smirnov(&length(text));
        assert!(distance < 1.63 / 10_000f64.sqrt(), "{text}: {distance}");
    }
}

#[test]
fn one_distribution_is_written_in_several_ways() {
    // 512·exp(−0.8²/2) = 371.788.
    let Length::LogNormal { mean, median } = length("lognormal:mean=512,sigma=0.8") else {
        panic!("another distribution");
    };
    assert!(mean == 512.0 && (median - 371.788_3).abs() < 1e-3, "{median}");
    assert_eq!(length("512~192"), length(" lognormal: median=192, mean=512 "));
    assert_eq!(length("512|64"), length("normal:mean=512,stddev=64"));
    assert_eq!(length("512"), Length::exactly(512.0));
    assert_eq!(length("100:0.7;200:0.3"), length("100:70;200:30;"));
    let pairs = SequenceDistribution::parse(
        "lognormal:mean=512,median=192,normal:mean=64,stddev=8:60;256,exponential:mean=9:40",
    )
    .unwrap();
    let [first, second] = pairs.pairs() else { panic!("{pairs:?}") };
    assert_eq!(first.input_tokens, length("512~192"));
    assert_eq!(first.output_tokens, length("64|8"));
    assert_eq!(second.input_tokens, length("256"));
    assert_eq!(second.output_tokens, Length::Exponential { scale: 9.0 });
}

#[test]
fn faults_are_named() {
    for (text, fault) in [
        ("", "lengths are missing"),
        ("x", "got \"x\""),
        ("lognorm:mean=1", "\"lognorm\" is not a known distribution"),
        ("lognormal:mean=512", "exactly two of mean, median and sigma"),
        ("lognormal:mean=512,median=200,sigma=1", "exactly two of mean, median and sigma"),
        ("lognormal:mean=100,median=200", "at most the mean"),
        ("normal:mean=512,sd=3,stddev=1", "\"sd\" in"),
        ("normal:mean=512,mean=3,stddev=1", "\"mean\" in"),
        ("normal:mean=512", "does not have stddev"),
        ("normal:512", "not of the form key=value"),
        ("uniform:min=9,max=3", "the min of"),
        ("uniform:min=0,max=1", "must be between 1"),
        ("100:60;200:50", "add up to 100 (or 1), got 110"),
        ("100:60;200", "not of the form length:percent"),
        ("100:0;200:100", "must be above 0"),
    ] {
        let error = Length::parse(text).unwrap_err();
        assert!(error.contains(fault), "{text}: {error}");
        assert!(error.contains("expected a number, normal:mean=M"), "{error}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z0-9:=,;|~. ]{0,40}", z in -9.0f64..9.0) {
        if let Ok(length) = Length::parse(&text) {
            prop_assert!((1..=MAX_TOKENS).contains(&length.count_at(z)));
        }
    }

    #[test]
    fn lengths_never_fall(low in -8.0f64..8.0, more in 0.0f64..3.0, share in 0.01f64..0.99) {
        let text = format!("lognormal:mean=300,sigma=1.2:{share};900|100:{}", 1.0 - share);
        let length = Length::parse(&text).unwrap();
        prop_assert!(length.at(low) <= length.at(low + more) + 1e-6);
    }
}
