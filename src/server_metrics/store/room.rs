//! How much a store takes: a server whose series never end must not take all memory,
//! nor make files that nobody can write.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::Labels;
use crate::server_metrics::snapshot::{Family, Point, Value};

/// Most bytes that the values of a store may take.
pub const MOST_VALUE_BYTES: usize = 1 << 30;

/// How much is kept of what does not grow with the values, of all endpoints together.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Families and series.
    pub series: usize,
    /// Numbers of a scrape: one of a gauge, one for each bucket of a histogram.
    pub numbers: usize,
    /// Names of labels: each is a column of some files.
    pub label_names: usize,
    /// Bytes of names, labels and descriptions.
    pub text: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { series: 100_000, numbers: 1_000_000, label_names: 1_000, text: 64 << 20 }
    }
}

/// What a store has taken, and may.
#[derive(Debug, Default)]
pub(super) struct Room {
    limits: Limits,
    series: usize,
    numbers: usize,
    text: usize,
    label_names: HashSet<Arc<str>>,
    labels: HashSet<Labels>,
    has_refused: bool,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Whether there is room for a family, which is then taken.
    pub(super) fn take_family(&mut self, family: &Family<'_>) -> bool {
        let description = family.description.as_deref().map_or(0, str::len);
        let text = family.name.len() + description + family.unit.as_deref().map_or(0, str::len);
        self.take(&family.name, 1, 0, text)
    }

    /// The labels of a new series of `family`, shared; `None` where there is no room.
    pub(super) fn take_series(&mut self, family: &str, point: &Point<'_>) -> Option<Labels> {
        let new_names = point.labels.iter().filter(|(name, _)| !self.label_names.contains(&**name));
        if self.label_names.len() + new_names.count() > self.limits.label_names {
            self.refuse(family);
            return None;
        }
        let text = point.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if !self.take(family, 1, numbers(&point.value), text) {
            return None;
        }
        let labels = labels(point);
        let labels = self.labels.get(&labels).cloned().unwrap_or_else(|| {
            self.labels.insert(Arc::clone(&labels));
            labels
        });
        self.label_names.extend(labels.iter().map(|(name, _)| Arc::clone(name)));
        Some(labels)
    }

    /// Whether there is room for one more bucket or quantile of a series of `family`.
    pub(super) fn take_number(&mut self, family: &str) -> bool {
        self.take(family, 0, 1, 0)
    }

    fn take(&mut self, family: &str, series: usize, numbers: usize, text: usize) -> bool {
        let fits = self.series + series <= self.limits.series
            && self.numbers + numbers <= self.limits.numbers
            && self.text.saturating_add(text) <= self.limits.text;
        if fits {
            self.series += series;
            self.numbers += numbers;
            self.text += text;
        } else {
            self.refuse(family);
        }
        fits
    }

    /// Says once that something is left out.
    fn refuse(&mut self, family: &str) {
        if std::mem::replace(&mut self.has_refused, true) {
            return;
        }
        let Limits { series, numbers, label_names, text } = self.limits;
        let shown: Cow<'_, str> = family.chars().take(100).collect();
        tracing::warn!(
            "there are more server metrics than are kept ({series} families and series, {numbers} \
             numbers, {label_names} names of labels, {} MiB of text): some of `{}`, and new ones \
             from now on, are left out",
            text >> 20,
            shown.escape_debug()
        );
    }
}

/// The labels of a series, on their own.
pub(super) fn labels(point: &Point<'_>) -> Labels {
    let each = point.labels.iter();
    each.map(|(name, value)| (Arc::from(&**name), Arc::from(&**value))).collect()
}

fn numbers(value: &Value<'_>) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Histogram { buckets, .. } => 2 + buckets.len(),
        Value::Summary { quantiles, .. } => 2 + quantiles.len(),
    }
}
