//! How much a store takes: a server whose series never end must not take all memory,
//! nor make files that nobody can write.

use std::collections::HashSet;
use std::sync::Arc;

use super::Labels;
use crate::server_metrics::snapshot::{Family, Point, Value};

/// Most bytes that the values of a store may take unless other [limits](Limits) are set.
pub const MOST_VALUE_BYTES: usize = 1 << 30;

/// How much is kept: of each endpoint, and of the values over time of all.
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
    /// Bytes of the values of all endpoints together.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            series: 100_000,
            numbers: 1_000_000,
            label_names: 1_000,
            text: 64 << 20,
            value_bytes: MOST_VALUE_BYTES,
        }
    }
}

/// What each endpoint has taken, and may.
#[derive(Debug, Default)]
pub(super) struct Room {
    limits: Limits,
    /// By endpoint.
    used: Vec<Used>,
    /// The endpoint that takes room.
    current: usize,
    labels: HashSet<Labels>,
}

#[derive(Debug, Default)]
struct Used {
    url: Arc<str>,
    series: usize,
    numbers: usize,
    text: usize,
    label_names: HashSet<Arc<str>>,
    has_refused: bool,
}

impl Room {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What is taken from now on is of endpoint number `endpoint`.
    pub(super) fn enter(&mut self, endpoint: usize, url: &Arc<str>) {
        if self.used.len() <= endpoint {
            self.used.resize_with(endpoint + 1, Used::default);
        }
        self.used[endpoint].url = Arc::clone(url);
        self.current = endpoint;
    }

    /// Whether values may take `bytes`.
    pub(super) const fn has_room_for_values(&self, bytes: usize) -> bool {
        bytes <= self.limits.value_bytes
    }

    /// Whether nothing was refused.
    pub(super) fn is_enough(&self) -> bool {
        self.used.iter().all(|used| !used.has_refused)
    }

    /// Whether there is room for a family, which is then taken.
    pub(super) fn take_family(&mut self, family: &Family<'_>) -> bool {
        let description = family.description.as_deref().map_or(0, str::len);
        let text = family.name.len() + description + family.unit.as_deref().map_or(0, str::len);
        self.take(&family.name, 1, 0, text)
    }

    /// The labels of a new series of `family`, shared; `None` where there is no room.
    pub(super) fn take_series(&mut self, family: &str, point: &Point<'_>) -> Option<Labels> {
        let used = self.used.get_mut(self.current)?;
        let is_new = |name: &str| !used.label_names.contains(name);
        let new_names = point.labels.iter().filter(|(name, _)| is_new(name));
        if used.label_names.len() + new_names.count() > self.limits.label_names {
            used.refuse(family, self.limits);
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
        let names = labels.iter().map(|(name, _)| Arc::clone(name));
        self.used.get_mut(self.current)?.label_names.extend(names);
        Some(labels)
    }

    /// Whether there is room for one more bucket or quantile of a series of `family`.
    pub(super) fn take_number(&mut self, family: &str) -> bool {
        self.take(family, 0, 1, 0)
    }

    fn take(&mut self, family: &str, series: usize, numbers: usize, text: usize) -> bool {
        let limits = self.limits;
        let Some(used) = self.used.get_mut(self.current) else { return false };
        let fits = used.series + series <= limits.series
            && used.numbers + numbers <= limits.numbers
            && used.text.saturating_add(text) <= limits.text;
        if fits {
            used.series += series;
            used.numbers += numbers;
            used.text += text;
        } else {
            used.refuse(family, limits);
        }
        fits
    }
}

impl Used {
    /// Says once that something is left out.
    fn refuse(&mut self, family: &str, limits: Limits) {
        if std::mem::replace(&mut self.has_refused, true) {
            return;
        }
        let Limits { series, numbers, label_names, text, .. } = limits;
        let shown: String = family.chars().take(100).collect();
        tracing::warn!(
            "{} has more metrics than are kept ({series} families and series, {numbers} numbers, \
             {label_names} names of labels, {} MiB of text): some of `{}`, and new ones from now \
             on, are left out",
            self.url,
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
