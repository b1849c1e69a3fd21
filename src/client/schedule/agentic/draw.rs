//! The random choices of AIPerf for a lane: the time at which it enters a trace, and the marker of its prompts.

use std::fmt::Write as _;

use ring::digest::{SHA256, digest};

use base::units::Nanos;

use crate::schedule::config::EntryRange;

/// Returns the time at which a lane enters the trace `id`, whose requests were sent from `first` to `last`.
pub fn entry(
    range: EntryRange,
    (first, last): (Nanos, Nanos),
    (seed, id, lane): (u64, &str, u64),
) -> Nanos {
    let duration = last.since(first).0 as f64;
    let (low, high) = (duration * range.min, duration * range.max);
    let share = if range.min < range.max { uniform(lane_seed(seed, id, lane)) } else { 0.0 };
    first + Nanos((low + (high - low) * share).round() as u64)
}

/// Returns the seed of a lane's entry into the trace `id`.
fn lane_seed(seed: u64, id: &str, lane: u64) -> u64 {
    let hash = digest(&SHA256, format!("{seed}:{id}:{lane}").as_bytes());
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(first)
}

/// Returns the marker of the prompts of a tree: the `pass`-th one of the trace `id`, in a lane.
pub fn marker(benchmark: &str, pass: u64, lane: u64, id: &str) -> String {
    let hash = digest(&SHA256, format!("{benchmark}:{pass}:{lane}:{id}").as_bytes());
    let mut marker = "[rid:".to_owned();
    for byte in hash.as_ref().iter().take(6) {
        // Writing to a string does not fail.
        let _ = write!(marker, "{byte:02x}");
    }
    marker + "]"
}

/// Returns the first number that `numpy.random.default_rng(seed).random()` returns, from 0 to 1: that of
/// O'Neill's PCG XSL RR 128/64.
fn uniform(seed: u64) -> f64 {
    let [s0, s1, s2, s3] = seed_sequence(seed);
    let wide = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
    let increment = wide(s2, s3) << 1 | 1;
    let step = |state: u128| {
        state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(increment)
    };
    let state = step(step(wide(s0, s1).wrapping_add(increment)));
    let number = ((state >> 64) as u64 ^ state as u64).rotate_right((state >> 122) as u32);
    (number >> 11) as f64 * (-53f64).exp2()
}

/// Returns the first four numbers that numpy's `SeedSequence` generates from `seed` (after O'Neill's
/// `seed_seq_fe`).
fn seed_sequence(seed: u64) -> [u64; 4] {
    let mut constant = 0x43b0_d7e5_u32;
    let mut hashed = |value: u32| {
        let value = value ^ constant;
        constant = constant.wrapping_mul(0x931e_8875);
        let value = value.wrapping_mul(constant);
        value ^ value >> 16
    };
    let mix = |one: u32, other: u32| {
        let mixed = one.wrapping_mul(0xca01_f9dd).wrapping_sub(other.wrapping_mul(0x4973_f715));
        mixed ^ mixed >> 16
    };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(&mut hashed);
    for source in 0..pool.len() {
        for target in (0..pool.len()).filter(|target| *target != source) {
            pool[target] = mix(pool[target], hashed(pool[source]));
        }
    }
    let mut constant = 0x8b51_f9dd_u32;
    let mut word = |at: usize| {
        let value = pool[at % pool.len()] ^ constant;
        constant = constant.wrapping_mul(0x58f3_8ded);
        let value = value.wrapping_mul(constant);
        u64::from(value ^ value >> 16)
    };
    let mut numbers = [0; 4];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = word(2 * at) | word(2 * at + 1) << 32;
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of numpy 2 and of AIPerf 0.13.
    #[test]
    fn a_lane_enters_where_aiperf_does() {
        let seeds = [
            (0, 14_559_201_029_640_192_526, 0.582_451_156_655_314_7),
            (1, 15_288_205_175_509_610_677, 0.518_431_698_641_585_7),
            (2, 892_343_945_893_278_399, 0.137_072_246_551_824_26),
            (3, 15_587_544_316_731_494_123, 0.739_476_006_888_124_8),
        ];
        for (lane, seed, share) in seeds {
            assert_eq!(lane_seed(42, "t3", lane), seed);
            assert_eq!(uniform(seed), share);
        }
        assert_eq!(uniform(lane_seed(42, "t", 0)), 0.228_580_073_818_128_62);
        let range = EntryRange { min: 0.25, max: 0.75 };
        let at = |lane| entry(range, (Nanos::ZERO, Nanos(9_000_000_000)), (42, "t3", lane)).0;
        let expected = [4_871_030_205, 4_582_942_644, 2_866_825_109, 5_577_642_031];
        assert_eq!([0, 1, 2, 3].map(at), expected);
    }

    #[test]
    fn without_a_range_nothing_is_drawn() {
        let span = (Nanos(100), Nanos(300));
        let at = |part| entry(EntryRange { min: part, max: part }, span, (1, "t", 0));
        assert_eq!([0.0, 0.5, 1.0].map(at), [Nanos(100), Nanos(200), Nanos(300)]);
    }

    /// The values are those of AIPerf 0.13.
    #[test]
    fn markers_are_those_of_aiperf() {
        let marker_of = |pass, lane| marker("bench", pass, lane, "t3");
        let all = [
            marker_of(0, 0),
            marker_of(1, 1),
            marker_of(2, 2),
            marker_of(3, 3),
            marker_of(4, 0),
            marker_of(1, 0),
        ];
        let digits = [
            "3c8069121de4",
            "5d55fb9a2d17",
            "27c751515813",
            "0fa3affa0e33",
            "4b0064db8e74",
            "59cab8a68a2f",
        ];
        assert_eq!(all, digits.map(|digits| format!("[rid:{digits}]")));
    }
}
