//! Limits of a store, so that a server with an unlimited number of series neither exhausts memory
//! nor produces files that cannot be written.

use std::collections::HashSet;
use std::sync::Arc;

use base::redact::ShownUrl;

use super::Labels;
use crate::server_metrics::snapshot::{Family, Point, Value};

/// Default limit of the size of a store's values in bytes, unless other [limits](Limits) are set.
pub const MAX_VALUE_BYTES: usize = 1 << 30;

/// Limits of what is stored for each endpoint, and of the values of all endpoints.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Number of series, and also of families.
    pub series: usize,
    /// Number of values in a scrape: one for a gauge, one for each bucket of a histogram.
    pub numbers: usize,
    /// Number of label names, each of which is a column in some files.
    pub label_names: usize,
    /// Size of names, labels and descriptions in bytes.
    pub text: usize,
    /// Size of the values of all endpoints together in bytes.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            series: 100_000,
            numbers: 1_000_000,
            label_names: 1_000,
            text: 64 << 20,
            value_bytes: MAX_VALUE_BYTES,
        }
    }
}

/// The usage of each endpoint, and the limits.
#[derive(Debug, Default)]
pub(super) struct Room {
    limits: Limits,
    /// Usage by endpoint.
    used: Vec<Used>,
    /// The endpoint to which usage is attributed.
    current: usize,
    labels: HashSet<Labels>,
}

#[derive(Debug, Default)]
struct Used {
    url: ShownUrl,
    families: usize,
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

    /// Attributes further usage to the endpoint with the index `endpoint`.
    pub(super) fn enter(&mut self, endpoint: usize, url: &ShownUrl) {
        if self.used.len() <= endpoint {
            self.used.resize_with(endpoint + 1, Used::default);
        }
        self.used[endpoint].url = url.clone();
        self.current = endpoint;
    }

    /// Returns whether values may take `bytes`.
    pub(super) const fn has_room_for_values(&self, bytes: usize) -> bool {
        bytes <= self.limits.value_bytes
    }

    /// Returns whether nothing was rejected.
    pub(super) fn is_enough(&self) -> bool {
        self.used.iter().all(|used| !used.has_refused)
    }

    /// Reserves room for a family; returns false if there is none.
    pub(super) fn take_family(&mut self, family: &Family<'_>) -> bool {
        let description = family.description.as_deref().map_or(0, str::len);
        let text = family.name.len() + description + family.unit.as_deref().map_or(0, str::len);
        self.take(&family.name, &Used { families: 1, text, ..Used::default() })
    }

    /// Returns the shared labels of a new series of `family`; `None` if they do not fit.
    pub(super) fn take_series(&mut self, family: &str, point: &Point<'_>) -> Option<Labels> {
        let used = self.used.get_mut(self.current)?;
        let is_new = |name: &str| !used.label_names.contains(name);
        let new_names = point.labels.iter().filter(|(name, _)| is_new(name));
        if used.label_names.len() + new_names.count() > self.limits.label_names {
            used.refuse(family, self.limits);
            return None;
        }
        let text = point.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        let numbers = numbers(&point.value);
        if !self.take(family, &Used { series: 1, numbers, text, ..Used::default() }) {
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

    /// Reserves room for another bucket or quantile of a series of `family`; returns false if there
    /// is none.
    pub(super) fn take_number(&mut self, family: &str) -> bool {
        self.take(family, &Used { numbers: 1, ..Used::default() })
    }

    fn take(&mut self, family: &str, more: &Used) -> bool {
        let limits = self.limits;
        let Some(used) = self.used.get_mut(self.current) else { return false };
        let fits = used.families + more.families <= limits.series
            && used.series + more.series <= limits.series
            && used.numbers + more.numbers <= limits.numbers
            && used.text.saturating_add(more.text) <= limits.text;
        if fits {
            used.families += more.families;
            used.series += more.series;
            used.numbers += more.numbers;
            used.text += more.text;
        } else {
            used.refuse(family, limits);
        }
        fits
    }
}

impl Used {
    /// Warns once that something is left out.
    fn refuse(&mut self, family: &str, limits: Limits) {
        if std::mem::replace(&mut self.has_refused, true) {
            return;
        }
        let Limits { series, numbers, label_names, text, .. } = limits;
        let shown: String = family.chars().take(100).collect();
        tracing::warn!(
            "{} has more metrics than can be stored ({series} series, {numbers} numbers, \
             {label_names} label names, {} MiB of text); some of `{}`, and any new ones, are \
             ignored",
            self.url,
            text >> 20,
            shown.escape_debug()
        );
    }
}

/// Returns the labels of a series, not shared.
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
