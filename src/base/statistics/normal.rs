//! The standard normal distribution.

/// The quantile of 97.5%: a two-sided interval of 95% reaches so many standard deviations.
pub const QUANTILE: f64 = 1.959_964;

/// Returns the value that a standard normal variable does not exceed with `probability`, which must
/// be between 0 and 1: Wichura, "Algorithm AS 241: The percentage points of the normal
/// distribution", Applied Statistics 37 (1988), exact to about 16 digits.
#[must_use]
pub fn quantile(probability: f64) -> f64 {
    const NEAR: [[f64; 8]; 2] = [
        [
            3.387_132_872_796_366_6,
            133.141_667_891_784_38,
            1_971.590_950_306_551_3,
            13_731.693_765_509_46,
            45_921.953_931_549_87,
            67_265.770_927_008_7,
            33_430.575_583_588_13,
            2_509.080_928_730_122_7,
        ],
        [
            1.0,
            42.313_330_701_600_91,
            687.187_007_492_057_9,
            5_394.196_021_424_751,
            21_213.794_301_586_597,
            39_307.895_800_092_71,
            28_729.085_735_721_943,
            5_226.495_278_852_545,
        ],
    ];
    const MIDDLE: [[f64; 8]; 2] = [
        [
            1.423_437_110_749_683_5,
            4.630_337_846_156_546,
            5.769_497_221_460_691,
            3.647_848_324_763_204_5,
            1.270_458_252_452_368_4,
            0.241_780_725_177_450_6,
            0.022_723_844_989_269_184,
            7.745_450_142_783_414e-4,
        ],
        [
            1.0,
            2.053_191_626_637_759,
            1.676_384_830_183_803_8,
            0.689_767_334_985_1,
            0.148_103_976_427_480_08,
            0.015_198_666_563_616_457,
            5.475_938_084_995_345e-4,
            1.050_750_071_644_416_9e-9,
        ],
    ];
    const FAR: [[f64; 8]; 2] = [
        [
            6.657_904_643_501_103,
            5.463_784_911_164_114,
            1.784_826_539_917_291_3,
            0.296_560_571_828_504_87,
            0.026_532_189_526_576_124,
            0.001_242_660_947_388_078_4,
            2.711_555_568_743_487_6e-5,
            2.010_334_399_292_288_1e-7,
        ],
        [
            1.0,
            0.599_832_206_555_887_9,
            0.136_929_880_922_735_8,
            0.014_875_361_290_850_615,
            7.868_691_311_456_133e-4,
            1.846_318_317_510_054_8e-5,
            1.421_511_758_316_446e-7,
            2.044_263_103_389_939_7e-15,
        ],
    ];
    let ratio = |[over, under]: [[f64; 8]; 2], at: f64| {
        let polynomial =
            |terms: [f64; 8]| terms.iter().rev().fold(0.0, |sum, term| sum * at + term);
        polynomial(over) / polynomial(under)
    };
    let from_middle = probability - 0.5;
    if from_middle.abs() <= 0.425 {
        return from_middle * ratio(NEAR, 0.180_625 - from_middle * from_middle);
    }
    let root = (-probability.min(1.0 - probability).ln()).sqrt();
    let size = if root <= 5.0 { ratio(MIDDLE, root - 1.6) } else { ratio(FAR, root - 5.0) };
    size.copysign(from_middle)
}

/// Returns the probability that a standard normal variable does not exceed `value`: by the
/// complementary error function, of which the fraction of Lentz is taken far from 0, and the series
/// near it (Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.2.11 and 26.2.14).
#[must_use]
pub fn probability(value: f64) -> f64 {
    let size = value.abs();
    let density = (-size * size / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let beyond = if size < 3.0 {
        let (mut term, mut sum, mut odd) = (size, size, 1.0);
        while term > sum * f64::EPSILON {
            odd += 2.0;
            term *= size * size / odd;
            sum += term;
        }
        0.5 - density * sum
    } else {
        density / (1..=60).rev().fold(size, |tail, step| size + f64::from(step) / tail)
    };
    if value < 0.0 { beyond } else { 1.0 - beyond }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, expected) in [
            (0.5, 0.0),
            (0.9, 1.281_551_565_544_600_4),
            (0.975, 1.959_963_984_540_054),
            (0.995, 2.575_829_303_548_900_4),
            (0.025, -1.959_963_984_540_054),
            (1e-10, -6.361_340_902_404_056),
            (1e-20, -9.262_340_089_798_408),
        ] {
            let found = quantile(probability);
            assert!((found - expected).abs() < 1e-12, "{probability}: {found}");
        }
        assert!((QUANTILE - quantile(0.975)).abs() < 1e-6);
    }

    #[test]
    fn probabilities_are_those_of_the_tables() {
        for (value, expected) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (1.959_963_984_540_054, 0.975),
            (-3.5, 2.326_290_790_355_250_4e-4),
            (-6.0, 9.865_876_450_376_98e-10),
        ] {
            let found = probability(value);
            assert!((found - expected).abs() < 1e-12, "{value}: {found}");
        }
    }
}
