//! Steps 2 to 4: sums, the `+Inf` bucket, and the distribution of the observations.

use super::Bucket;
use super::learned::Estimate;

/// Number of passes that distribute the missing part of the sum.
const PASSES: usize = 8;
/// Smallest part of the sum that is distributed.
const NEGLIGIBLE: f64 = 1e-12;

/// Four layers that form a bell: a normal distribution is a mixture of even distributions whose
/// squared reach, in variances, is chi-squared with three degrees of freedom. These are its means
/// in each quarter.
const LAYERS: [f64; 4] = [0.675_964, 1.765_661, 3.151_256, 6.407_089];

/// Observations distributed evenly between two values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) count: f64,
}

/// Adjusts the means of the buckets so that they yield `sum`.
///
/// The part of the sum that the estimates miss is distributed by the uncertainty of each mean and
/// the number of its observations, which is the least squares solution; each mean stays within its
/// bucket. The `+Inf` bucket is by far the most uncertain unless intervals determined its mean, so
/// it gets the largest part.
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

/// Distributes `count` observations around their mean, with their variance, within the bucket.
///
/// Observations that are distributed evenly over a distance a below the mean and b above it, with
/// b/(a+b) of them below, have that mean and the variance ab/3. A bell is a mixture of such
/// [layers](LAYERS), and an even distribution is one layer: the closer the variance is to that of
/// the whole bucket, the more even. a and b are equal for a skewness of 0, if the bucket has room for
/// it. Above the last bound, without information, the distribution above the mean mirrors the one below it.
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
    let lean = if variance > 0.0 { estimate.skew / (3.0 * variance.sqrt()) } else { 0.0 };
    let layers = LAYERS.map(|bell| {
        let product = variance * evenness.mul_add(3.0 - bell, bell);
        let (low, high) = reach(product, lean, below, above);
        let count = count / LAYERS.len() as f64;
        let part = if low + high > 0.0 { high / (low + high) } else { 0.5 };
        ((low, count * part), (high, count * (1.0 - part)))
    });
    let mut pieces = side(layers.map(|(low, _)| low), |from, to| (mean - to, mean - from));
    pieces.reverse();
    pieces.extend(side(layers.map(|(_, high)| high), |from, to| (mean + from, mean + to)));
    pieces
}

/// Returns how far a layer reaches below and above the mean: two distances with this product, if there is
/// room. They are equal without a `lean`. With one, they are those of a lognormal distribution, whose
/// skewness is about three times its standard deviation relative to its mean: the lean is what the mean
/// is divided by there.
fn reach(product: f64, lean: f64, below: f64, above: f64) -> (f64, f64) {
    let even = product.sqrt();
    let ratio = (lean * even / 2.0).asinh().exp();
    let (low, high) = (even / ratio, even * ratio);
    if low > below {
        (below, (product / below).min(above))
    } else if high > above {
        ((product / above).min(below), above)
    } else {
        (low, high)
    }
}

/// Converts one side of the layers, in order of width and each with a distance and a count, to
/// pieces that do not overlap, from the mean outwards.
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

/// Returns the value at a position among the ordered observations, the first of which is at 0, with
/// linear interpolation between two of them, as in `numpy.percentile`. Each observation is at the
/// middle of its share of the pieces.
pub(super) fn between_observations(pieces: &[Piece], place: f64) -> f64 {
    let lower = at_rank(pieces, place.floor() + 0.5);
    let upper = at_rank(pieces, place.ceil() + 0.5);
    place.fract().mul_add(upper - lower, lower)
}

/// Returns the value that `rank` observations do not exceed.
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
