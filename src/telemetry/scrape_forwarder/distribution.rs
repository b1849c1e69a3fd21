//! Converts the lines of a histogram or a summary to one data point.

use std::collections::HashMap;

use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, HistogramDataPoint, SummaryDataPoint};

use measure::server_metrics::exposition::{Exposition, Label, Part, Sample};

use super::point::exemplar;

/// Largest count up to which a double represents every integer.
const MAX_EXACT_COUNT: f64 = 9_007_199_254_740_992.0;

/// One label set of a distribution.
pub(super) struct Series<'e, 'a> {
    /// Labels of its first line, possibly including that of bounds or quantiles.
    pub(super) labels: &'e [Label<'a>],
    /// The server's own timestamp, in seconds since the epoch.
    pub(super) timestamp: Option<f64>,
    /// Bound and count, or quantile and value, of each line.
    lines: Vec<(f64, &'e Sample<'a>)>,
    sum: Option<f64>,
    count: Option<f64>,
}

/// Returns the labels in order without the one named `but`, which identify a series.
pub(super) fn key<'e>(labels: &'e [Label<'_>], but: Option<&str>) -> Vec<(&'e str, &'e str)> {
    let labels = labels.iter().filter(|label| Some(&*label.name) != but);
    let mut key: Vec<_> = labels.map(|label| (label.name.as_ref(), label.value.as_ref())).collect();
    key.sort_unstable();
    key
}

/// Returns the label sets among `samples`, in the order of their first lines; `by` is the label of
/// bounds or quantiles.
pub(super) fn series<'e, 'a>(
    exposition: &'e Exposition<'a>,
    samples: &[&'e Sample<'a>],
    by: &str,
) -> Vec<Series<'e, 'a>> {
    let mut all: Vec<Series<'e, 'a>> = Vec::new();
    let mut numbers: HashMap<Vec<(&str, &str)>, usize> = HashMap::new();
    let mut current = 0;
    for sample in samples.iter().filter(|sample| sample.part != Part::Created) {
        let labels = exposition.labels(sample);
        // Lines of one set follow each other, so the key is seldom needed.
        if all.get(current).is_none_or(|series| !same(series.labels, labels, by)) {
            current = *numbers.entry(key(labels, Some(by))).or_insert(all.len());
            if current == all.len() {
                all.push(Series::new(labels));
            }
        }
        all[current].take(sample, labels, by);
    }
    all
}

/// Returns whether both have the same labels in the same order, apart from the one named `by`.
fn same(one: &[Label<'_>], other: &[Label<'_>], by: &str) -> bool {
    let is_own = |label: &&Label<'_>| label.name != by;
    one.iter().filter(is_own).eq(other.iter().filter(is_own))
}

impl<'e, 'a> Series<'e, 'a> {
    fn new(labels: &'e [Label<'a>]) -> Self {
        Self { labels, timestamp: None, lines: Vec::new(), sum: None, count: None }
    }

    fn take(&mut self, sample: &'e Sample<'a>, labels: &[Label<'_>], by: &str) {
        self.timestamp = self.timestamp.or(sample.timestamp);
        match sample.part {
            Part::Sum => self.sum = Some(sample.value),
            Part::Count => self.count = Some(sample.value),
            // A bound that is not a number makes the buckets inconsistent.
            Part::Bucket | Part::Value => {
                let place = labels.iter().find(|label| label.name == by);
                let place = place.and_then(|label| label.value.parse().ok());
                self.lines.push((place.unwrap_or(f64::NAN), sample));
            }
            Part::Created => {}
        }
    }

    /// Converts it to a histogram without attributes and times. `None` without a count, in which
    /// case the specification drops it, or if the buckets are inconsistent: they decrease, are not
    /// whole numbers, or do not add up to the count.
    pub(super) fn histogram(&self) -> Option<HistogramDataPoint> {
        let count = whole(self.count?)?;
        let mut lines: Vec<_> = self.lines.iter().collect();
        lines.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut point =
            HistogramDataPoint { count, sum: self.sum, ..HistogramDataPoint::default() };
        let mut below = 0;
        for (bound, sample) in lines {
            let up_to = whole(sample.value)?;
            let is_new = point.explicit_bounds.last().is_none_or(|last| last < bound);
            if bound.is_nan() || !is_new || (*bound == f64::INFINITY && up_to != count) {
                return None;
            }
            if bound.is_finite() {
                point.explicit_bounds.push(*bound);
                point.bucket_counts.push(up_to.checked_sub(below)?);
                below = up_to;
            }
        }
        let above = count.checked_sub(below)?;
        if !self.lines.is_empty() {
            point.bucket_counts.push(above);
        }
        point.exemplars = self.exemplars();
        Some(point)
    }

    fn exemplars(&self) -> Vec<Exemplar> {
        self.lines
            .iter()
            .filter_map(|(_, sample)| sample.exemplar.as_deref())
            .map(exemplar)
            .collect()
    }

    /// Converts it to a summary without attributes and times. `None` without a count, in which case
    /// the specification drops it, or if a quantile is invalid. By the same rules, a missing sum is
    /// 0.
    pub(super) fn summary(&self) -> Option<SummaryDataPoint> {
        if !self.lines.iter().all(|(quantile, _)| (0.0..=1.0).contains(quantile)) {
            return None;
        }
        let mut quantile_values: Vec<_> = self
            .lines
            .iter()
            .map(|(quantile, sample)| ValueAtQuantile { quantile: *quantile, value: sample.value })
            .collect();
        quantile_values.sort_by(|one, other| one.quantile.total_cmp(&other.quantile));
        Some(SummaryDataPoint {
            count: whole(self.count?)?,
            sum: self.sum.unwrap_or_default(),
            quantile_values,
            ..SummaryDataPoint::default()
        })
    }
}

/// Returns a count as an integer; `None` if it is not a valid count.
fn whole(count: f64) -> Option<u64> {
    ((0.0..=MAX_EXACT_COUNT).contains(&count) && count.fract() == 0.0).then_some(count as u64)
}
