//! Phases 2 to 4: sums, the `+Inf` bucket, and where the observations lie.

use super::Bucket;
use super::learned::Estimate;

/// Passes that share out what of the sum is missing.
const PASSES: usize = 8;
/// Least part of the sum that is shared out.
const NEGLIGIBLE: f64 = 1e-12;

/// Four layers that make a bell: a normal distribution is a mixture of even
/// spreads whose squared reach is chi-squared with three degrees of freedom, in
/// variances. These are its means in each quarter.
const LAYERS: [f64; 4] = [0.675_964, 1.765_661, 3.151_256, 6.407_089];

/// Observations spread evenly between two values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) count: f64,
}

/// The means of the buckets, moved so that they give `sum`.
///
/// What the estimates miss of it is shared out by how unsure each mean is and
/// how many observations stand behind it, which is what least squares says; no
/// mean leaves its bucket. The `+Inf` bucket is by far the least sure one unless
/// intervals told its mean, so it gets the most.
pub(super) fn balance(estimates: &mut [Estimate], buckets: &[Bucket], counts: &[f64], sum: f64) {
    for _ in 0..PASSES {
        let have: f64 = estimates.iter().zip(counts).map(|(e, count)| count * e.mean).sum();
        let missing = sum - have;
        if missing.abs() <= NEGLIGIBLE * sum.abs() {
            break;
        }
        let share = |at: usize| {
            let end = if missing > 0.0 { buckets[at].high } else { buckets[at].low };
            let can_move = counts[at] > 0.0 && estimates[at].mean != end;
            if can_move { counts[at] * estimates[at].doubt } else { 0.0 }
        };
        let shares: Vec<f64> = (0..estimates.len()).map(share).collect();
        let whole: f64 = shares.iter().zip(counts).map(|(share, count)| share * count).sum();
        if whole <= 0.0 {
            break;
        }
        for ((estimate, bucket), share) in estimates.iter_mut().zip(buckets).zip(shares) {
            let mean = estimate.mean + missing * share / whole;
            estimate.mean = mean.clamp(bucket.low, bucket.high);
        }
    }
}

/// `count` observations around their mean, with their variance, within the bucket.
///
/// Spread evenly over a below the mean and over b above it, b/(a+b) of them
/// below, observations have that mean and the variance ab/3. A bell is a mixture
/// of such [layers](LAYERS), and an even spread is one layer: the nearer the
/// variance is to that of the whole bucket, the more even. a and b are equal
/// where the bucket has room for it. What is above the last bound with nothing
/// learned mirrors what is below its mean.
pub(super) fn around(bucket: &Bucket, count: f64, estimate: &Estimate) -> Vec<Piece> {
    let (mean, variance) = (estimate.mean, estimate.spread());
    let below = mean - bucket.low;
    let above = match bucket.high {
        f64::INFINITY if variance.is_infinite() => below,
        high => high - mean,
    };
    // A single observation is its own mean.
    if below <= 0.0 || above <= 0.0 || count <= 1.0 {
        return vec![Piece { low: mean, high: mean, count }];
    }
    let evenness = (3.0 * variance / (below * above)).min(1.0);
    let variance = variance.min(below * above / 3.0);
    let layers = LAYERS.map(|bell| {
        let product = variance * evenness.mul_add(3.0 - bell, bell);
        let (low, high) = reach(product, below, above);
        let count = count / LAYERS.len() as f64;
        let part = if low + high > 0.0 { high / (low + high) } else { 0.5 };
        ((low, count * part), (high, count * (1.0 - part)))
    });
    let mut pieces = side(layers.map(|(low, _)| low), |from, to| (mean - to, mean - from));
    pieces.reverse();
    pieces.extend(side(layers.map(|(_, high)| high), |from, to| (mean + from, mean + to)));
    pieces
}

/// How far below and above the mean a layer reaches: two distances with this
/// product, equal if there is room.
fn reach(product: f64, below: f64, above: f64) -> (f64, f64) {
    let even = product.sqrt();
    if even > below {
        (below, (product / below).min(above))
    } else if even > above {
        ((product / above).min(below), above)
    } else {
        (even, even)
    }
}

/// One side of the layers, ever wider, each a distance and a count: as pieces
/// that do not overlap, from the mean outwards.
fn side(layers: [(f64, f64); 4], place: impl Fn(f64, f64) -> (f64, f64)) -> Vec<Piece> {
    let mut from = 0.0;
    let piece = |at: usize| {
        let to = layers[at].0;
        let share = |&(reach, count): &(f64, f64)| {
            if reach > 0.0 { count * (to - from) / reach } else { count }
        };
        let count = if to > from || at == 0 { layers[at..].iter().map(share).sum() } else { 0.0 };
        let (low, high) = place(from, to);
        from = to.max(from);
        Piece { low, high, count }
    };
    (0..layers.len()).map(piece).collect()
}

/// The value at a place among the observations in order, the first at 0: between
/// two of them by linear interpolation, as `numpy.percentile` does it. Each
/// stands in the middle of its share of the pieces.
pub(super) fn between_observations(pieces: &[Piece], place: f64) -> f64 {
    let lower = at_rank(pieces, place.floor() + 0.5);
    let upper = at_rank(pieces, place.ceil() + 0.5);
    place.fract().mul_add(upper - lower, lower)
}

/// The value with `rank` observations up to it.
pub(super) fn at_rank(pieces: &[Piece], rank: f64) -> f64 {
    let mut below = 0.0;
    for piece in pieces.iter().filter(|piece| piece.count > 0.0) {
        if rank <= below + piece.count {
            let part = ((rank - below) / piece.count).clamp(0.0, 1.0);
            return part.mul_add(piece.high - piece.low, piece.low).max(piece.low).min(piece.high);
        }
        below += piece.count;
    }
    pieces.last().map_or(f64::NAN, |piece| piece.high)
}
