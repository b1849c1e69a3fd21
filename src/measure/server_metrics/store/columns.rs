//! The values of a series, by scrape, stored as changes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use super::super::snapshot::Value;

/// The values of a series, by scrape.
#[derive(Debug)]
pub enum Values {
    /// Values of a gauge, counter, info or unknown metric.
    Number(Column),
    /// Values of a histogram.
    Histogram(HistogramColumns),
    /// Values of a summary.
    Summary(SummaryColumns),
}

/// A histogram's values, by scrape.
#[derive(Debug, Default)]
pub struct HistogramColumns {
    /// Upper bounds as exposed, ascending, with the number of observations up to each.
    pub buckets: Vec<(Arc<str>, Column)>,
    /// Sum of the observations.
    pub sum: Column,
    /// Number of observations.
    pub count: Column,
}

/// A summary's values, by scrape.
#[derive(Debug, Default)]
pub struct SummaryColumns {
    /// Quantiles as exposed, ascending, with their values.
    pub quantiles: Vec<(Arc<str>, Column)>,
    /// Sum of the observations.
    pub sum: Column,
    /// Number of observations.
    pub count: Column,
}

/// A number over the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    /// The scrape from which each value applies; NaN without a value.
    pub(super) changes: Vec<(u32, f64)>,
}

impl Values {
    /// Creates columns for the shape of `value`.
    pub(super) fn from_value(value: &Value<'_>) -> Self {
        match value {
            Value::Number(_) => Self::Number(Column::default()),
            Value::Histogram { .. } => Self::Histogram(HistogramColumns::default()),
            Value::Summary { .. } => Self::Summary(SummaryColumns::default()),
        }
    }

    /// Sets the value; `has_room` is called for each new bucket or quantile.
    pub(super) fn set(&mut self, scrape: usize, value: &Value<'_>, has_room: impl FnMut() -> bool) {
        match (self, value) {
            (Self::Number(column), Value::Number(number)) => column.set(scrape, *number),
            (Self::Histogram(columns), Value::Histogram { buckets, sum, count }) => {
                set_named(&mut columns.buckets, scrape, buckets, has_room);
                columns.sum.set(scrape, *sum);
                columns.count.set(scrape, *count);
            }
            (Self::Summary(columns), Value::Summary { quantiles, sum, count }) => {
                set_named(&mut columns.quantiles, scrape, quantiles, has_room);
                columns.sum.set(scrape, sum.unwrap_or(f64::NAN));
                columns.count.set(scrape, count.unwrap_or(f64::NAN));
            }
            // A family has one kind, and a kind one shape.
            _ => {}
        }
    }

    pub(super) fn columns(&self) -> impl Iterator<Item = &Column> {
        let named: &[(Arc<str>, Column)] = match self {
            Self::Number(_) => &[],
            Self::Histogram(columns) => &columns.buckets,
            Self::Summary(columns) => &columns.quantiles,
        };
        let single = match self {
            Self::Number(column) => [Some(column), None],
            Self::Histogram(columns) => [Some(&columns.sum), Some(&columns.count)],
            Self::Summary(columns) => [Some(&columns.sum), Some(&columns.count)],
        };
        named.iter().map(|(_, column)| column).chain(single.into_iter().flatten())
    }

    /// Returns their size in bytes, including reserved memory.
    pub(super) fn bytes(&self) -> usize {
        self.columns().map(|column| column.changes.capacity() * size_of::<(u32, f64)>()).sum()
    }

    pub(super) fn end(&mut self, scrape: usize) {
        let (named, single): (&mut [(Arc<str>, Column)], [&mut Column; 2]) = match self {
            Self::Number(column) => return column.set(scrape, f64::NAN),
            Self::Histogram(columns) => {
                (&mut columns.buckets, [&mut columns.sum, &mut columns.count])
            }
            Self::Summary(columns) => {
                (&mut columns.quantiles, [&mut columns.sum, &mut columns.count])
            }
        };
        let named = named.iter_mut().map(|(_, column)| column);
        for column in named.chain(single) {
            column.set(scrape, f64::NAN);
        }
    }
}

/// Sets the columns that `values` names; others get no value.
fn set_named(
    columns: &mut Vec<(Arc<str>, Column)>,
    scrape: usize,
    values: &[(Cow<'_, str>, f64)],
    mut has_room: impl FnMut() -> bool,
) {
    let same = columns.len() == values.len()
        && columns.iter().zip(values).all(|(column, value)| *column.0 == *value.0);
    if same {
        for ((_, column), (_, value)) in columns.iter_mut().zip(values) {
            column.set(scrape, *value);
        }
        return;
    }
    let mut theirs = values.iter().peekable();
    let mut ours = std::mem::take(columns).into_iter().peekable();
    // Both ascend.
    loop {
        let order = match (ours.peek(), theirs.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(ours), Some(theirs)) => bound(&ours.0).total_cmp(&bound(&theirs.0)),
        };
        let new = if order.is_le() { None } else { Some(Column::default()) };
        let value = if order.is_ge() { theirs.next() } else { None };
        let named = match (new, value) {
            (Some(_), _) if !has_room() => continue,
            (Some(column), Some((name, _))) => Some((Arc::from(&**name), column)),
            _ => ours.next(),
        };
        let Some((name, mut column)) = named else { return };
        column.set(scrape, value.map_or(f64::NAN, |(_, value)| *value));
        columns.push((name, column));
    }
}

/// Parses an upper bound or a quantile; `+Inf` is infinity.
#[must_use]
pub fn bound(text: &str) -> f64 {
    text.parse().unwrap_or(f64::INFINITY)
}

impl HistogramColumns {
    /// Returns the baseline of the count of `bucket`, one of these, for the scrapes `within` a
    /// window: its value in the sample that the whole histogram is compared with, by the rules of
    /// [`Column::baseline`]. `None` if that sample does not have the bound.
    #[must_use]
    pub fn bucket_baseline(
        &self,
        bucket: &Column,
        reference: Option<usize>,
        within: Range<usize>,
    ) -> Option<f64> {
        let sample = match reference {
            None => self.count.iter(within).next()?.0,
            Some(reference) => match self.count.last_known(reference) {
                Some(sample) => sample,
                None => return Some(0.0),
            },
        };
        bucket.at(sample)
    }
}

impl Column {
    /// Sets the value from `scrape` on; NaN for none. Scrapes ascend.
    pub(super) fn set(&mut self, scrape: usize, value: f64) {
        let before = self.changes.last().map_or(f64::NAN, |(_, value)| *value);
        if before.to_bits() != value.to_bits() && !(before.is_nan() && value.is_nan()) {
            self.changes.push((scrape as u32, value));
        }
    }

    /// Returns the value at `scrape`, if there is one.
    #[must_use]
    pub fn at(&self, scrape: usize) -> Option<f64> {
        let after = self.changes.partition_point(|(from, _)| *from as usize <= scrape);
        let (_, value) = self.changes.get(after.checked_sub(1)?)?;
        (!value.is_nan()).then_some(*value)
    }

    /// Returns the last value at or before `scrape`.
    #[must_use]
    pub(crate) fn last_until(&self, scrape: usize) -> Option<f64> {
        self.at(self.last_known(scrape)?)
    }

    /// Returns the last scrape with a value, at or before `scrape`.
    fn last_known(&self, scrape: usize) -> Option<usize> {
        let after = self.changes.partition_point(|(from, _)| *from as usize <= scrape);
        let (from, value) = self.changes.get(after.checked_sub(1)?)?;
        if value.is_nan() { (*from as usize).checked_sub(1) } else { Some(scrape) }
    }

    /// Returns the last scrape in `range` with a value.
    #[must_use]
    pub(crate) fn last_in(&self, range: Range<usize>) -> Option<usize> {
        self.iter(range).last().map(|(scrape, _)| scrape)
    }

    /// Returns the baseline of a cumulative value at the scrape `reference`: the last known value,
    /// or 0 if there is none, since the server had not begun to count.
    #[must_use]
    pub fn before(&self, reference: usize) -> f64 {
        self.last_until(reference).unwrap_or(0.0)
    }

    /// Returns the scrape and the value from which a cumulative value increased in the scrapes
    /// `within` a window: the value [before](Self::before) `reference`, or without one the first
    /// value in the window.
    #[must_use]
    pub fn baseline(&self, reference: Option<usize>, within: Range<usize>) -> Option<(usize, f64)> {
        match reference {
            Some(scrape) => Some((scrape, self.before(scrape))),
            None => self.iter(within).next(),
        }
    }

    /// Returns the values at `scrapes`, which ascend; NaN if there is none.
    pub fn along(&self, scrapes: impl IntoIterator<Item = usize>) -> Vec<f64> {
        let mut changes = self.changes.iter().peekable();
        let mut value = f64::NAN;
        let at = |scrape: usize| {
            while let Some((_, new)) = changes.next_if(|(from, _)| *from as usize <= scrape) {
                value = *new;
            }
            value
        };
        scrapes.into_iter().map(at).collect()
    }

    /// Iterates over the values at the scrapes in `range`, as far as they exist.
    pub fn iter(&self, range: Range<usize>) -> impl Iterator<Item = (usize, f64)> + '_ {
        let mut next = self.changes.partition_point(|(from, _)| *from as usize <= range.start);
        let mut value = next.checked_sub(1).map_or(f64::NAN, |last| self.changes[last].1);
        range.filter_map(move |scrape| {
            while let Some((from, new)) = self.changes.get(next)
                && *from as usize <= scrape
            {
                value = *new;
                next += 1;
            }
            (!value.is_nan()).then_some((scrape, value))
        })
    }
}
