//! The polynomial estimate of AIPerf 0.13, with the same values except for rounding.

/// The means learned from intervals with all observations in one bucket.
pub(crate) struct Listed {
    bounds: Vec<f64>,
    /// For each finite bucket, the mean and count of each such interval.
    means: Vec<Vec<(f64, f64)>>,
}

const MAX_OBSERVATIONS: f64 = 100_000.0;

/// Returns `numpy.percentile` of sorted values, with linear interpolation.
pub(super) fn numpy_percentile(sorted: &[f64], fraction: f64) -> f64 {
    let at = fraction * (sorted.len() - 1) as f64;
    let (low, part) = (at.floor() as usize, at.fract());
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (sorted[high] - sorted[low]) * part
}

impl Listed {
    pub(crate) fn new(bounds: &[f64]) -> Self {
        Self { bounds: bounds.to_vec(), means: vec![Vec::new(); bounds.len() - 1] }
    }

    pub(crate) fn observe(&mut self, cumulative: &[f64], sum: f64) {
        let counts = differences(cumulative);
        let risen: Vec<usize> = (0..counts.len()).filter(|&at| counts[at] > 0.0).collect();
        if let [at] = risen[..]
            && at < self.means.len()
        {
            self.means[at].push((sum / counts[at], counts[at]));
        }
    }

    fn range(&self, at: usize) -> (f64, f64) {
        (if at == 0 { 0.0 } else { self.bounds[at - 1] }, self.bounds[at])
    }

    /// Returns the weighted mean of the learned means, if it lies inside the bucket.
    fn mean(&self, at: usize) -> Option<f64> {
        let weight: f64 = self.means[at].iter().map(|(_, count)| count).sum();
        let sum: f64 = self.means[at].iter().map(|(mean, count)| mean * count).sum();
        let (low, high) = self.range(at);
        let mean = sum / weight;
        (low < mean && mean < high).then_some(mean)
    }

    fn variance(&self, at: usize) -> Option<f64> {
        let means = &self.means[at];
        let size = means.len() as f64;
        let centre = means.iter().map(|(mean, _)| mean).sum::<f64>() / size;
        let squares: f64 = means.iter().map(|(mean, _)| (mean - centre).powi(2)).sum();
        (means.len() >= 3).then_some(squares / (size - 1.0))
    }

    pub(crate) fn percentiles(&self, cumulative: &[f64], sum: f64) -> Option<[f64; 9]> {
        let mut counts = differences(cumulative);
        let total: f64 = counts.iter().sum();
        if total <= 0.0 || !sum.is_finite() || sum < 0.0 {
            return None;
        }
        if sum == 0.0 {
            return Some([0.0; 9]);
        }
        let scale = (MAX_OBSERVATIONS / total).min(1.0);
        for count in &mut counts {
            *count *= scale;
        }
        let sum = sum * scale;
        let finite = self.means.len();
        let finite_sum: f64 = (0..finite)
            .map(|at| {
                let (low, high) = self.range(at);
                counts[at] * self.mean(at).unwrap_or(f64::midpoint(low, high))
            })
            .sum();
        let above = self.above(counts[finite].ceil() as usize, sum - finite_sum);
        let below = sum - above.iter().sum::<f64>();
        let placed_count: f64 = counts[..finite].iter().sum();
        let most = counts[..finite].iter().copied().fold(0.0, f64::max);
        let chief = counts.iter().position(|count| *count == most);
        let chief = chief.filter(|_| most >= 0.95 * placed_count);
        let mut placed: Vec<Vec<f64>> = (0..finite)
            .map(|at| {
                let average = (chief == Some(at)).then_some(below / placed_count);
                self.place(at, counts[at], average)
            })
            .collect();
        self.correct(&mut placed, below);
        let mut all: Vec<f64> = placed.into_iter().flatten().chain(above).collect();
        all.sort_unstable_by(f64::total_cmp);
        let fractions = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];
        (!all.is_empty()).then(|| fractions.map(|fraction| numpy_percentile(&all, fraction)))
    }

    /// Returns the observations of the `+Inf` bucket.
    fn above(&self, count: usize, sum: f64) -> Vec<f64> {
        let last = self.bounds[self.bounds.len() - 2];
        let mut mean = sum / count as f64;
        if mean <= last {
            mean = 1.5 * last;
        }
        let mut top = 2.0 * mean - last;
        if top <= last {
            top = 2.0 * last;
        }
        match count {
            0 => Vec::new(),
            1 => vec![mean],
            _ => (0..count).map(|i| last + (top - last) * i as f64 / (count - 1) as f64).collect(),
        }
    }

    /// Returns the observations of a finite bucket; `average` is that of all finite ones if nearly
    /// all are in this one.
    fn place(&self, at: usize, count: f64, average: Option<f64>) -> Vec<f64> {
        let (low, high) = self.range(at);
        let (width, centre) = (high - low, f64::midpoint(low, high));
        let size = count as usize;
        let fraction = |i: usize| (i as f64 + 0.5) / size as f64;
        let shifted = |mean: f64| -> Vec<f64> {
            let place = |i| (low + width * fraction(i) + mean - centre).clamp(low, high);
            (0..size).map(place).collect()
        };
        let (Some(mean), Some(variance)) =
            (self.mean(at), self.variance(at).filter(|variance| *variance > 0.0))
        else {
            let average = average.filter(|average| low < *average && *average < high);
            return shifted(average.or(self.mean(at)).unwrap_or(centre));
        };
        let sigma = variance.sqrt();
        let (coverage, offset) = (4.0 * sigma / width, (mean - centre).abs() / width);
        if coverage < 0.01 {
            let other = (mean + variance / (mean - low)).clamp(low, high);
            let part = variance / (variance + (mean - low).powi(2));
            let at_low = (size as f64 * part) as usize;
            return (0..size).map(|i| if i < at_low { low } else { other }).collect();
        }
        let reach = |distance: f64| (distance / sigma).min(3.0);
        let aware = |i: usize| {
            let f = fraction(i);
            let value = if f < 0.5 {
                mean - reach(mean - low) * sigma * (1.0 - 2.0 * f)
            } else {
                mean + reach(high - mean) * sigma * (2.0 * f - 1.0)
            };
            value.clamp(low, high)
        };
        if coverage < 0.2 && offset < 0.3 {
            let even = shifted(mean);
            return (0..size).map(|i| 0.5 * even[i] + 0.5 * aware(i)).collect();
        }
        (0..size).map(aware).collect()
    }

    /// Moves the observations so that they match the sum, within limits.
    fn correct(&self, placed: &mut [Vec<f64>], target: f64) {
        let sums: Vec<f64> = placed.iter().map(|values| values.iter().sum()).collect();
        let generated: f64 = sums.iter().sum();
        let missing = target - generated;
        if target <= 0.0 || generated <= 0.0 || missing.abs() / target < 0.001 {
            return;
        }
        for (at, values) in placed.iter_mut().enumerate().filter(|(_, v)| !v.is_empty()) {
            let (low, high) = self.range(at);
            let most = 0.4 * (high - low);
            let shift = missing * sums[at] / generated / values.len() as f64;
            let shift = shift.clamp(-most, most);
            for value in values.iter_mut() {
                *value = (*value + shift).clamp(low, high);
            }
        }
    }
}

fn differences(cumulative: &[f64]) -> Vec<f64> {
    let before = [0.0].into_iter().chain(cumulative.iter().copied());
    cumulative.iter().zip(before).map(|(count, before)| (count - before).max(0.0)).collect()
}
