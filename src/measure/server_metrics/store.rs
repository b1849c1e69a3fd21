//! The server metrics of a run, by series.
//!
//! Only the changes of a series are stored, so that a scrape without changes takes no more space
//! than its times. Label sets are shared between series and endpoints. The store has
//! [limits](Limits), beyond which new series are left out, with one warning.

mod columns;
mod room;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use base::redact::ShownUrl;
use client::schedule::PhaseKind;
use client::server_family::SeriesKind;

use super::report::{PhaseWindow, Windows};
use super::scrape::FetchTimes;
use super::snapshot::{Family, Point, Snapshot, Value};
use super::span::{LateCounts, Span};
pub use columns::{Column, HistogramColumns, SummaryColumns, Values, bound};
use room::Room;
pub use room::{Limits, MAX_VALUE_BYTES};

/// Labels of a series, sorted by name.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// Every series of every endpoint.
#[derive(Debug, Default)]
pub struct Store {
    endpoints: Vec<EndpointStore>,
    room: Room,
}

/// The metrics of one endpoint.
#[derive(Debug)]
pub struct EndpointStore {
    /// The configured URL, without credentials.
    pub configured_url: ShownUrl,
    /// The URL that is scraped, which differs from the configured one if `/metrics` is not an
    /// exposition but `/prometheus/metrics` is.
    pub url: ShownUrl,
    /// Families in the order of their first occurrence.
    pub families: Vec<FamilyStore>,
    scrapes: Vec<FetchTimes>,
    updates: Vec<u32>,
    failures: u64,
    /// Whether only the increases of cumulative values since the reference are known, but not their
    /// values.
    is_relative: bool,
    late_counts: LateCounts,
    by_name: HashMap<(Arc<str>, SeriesKind), usize>,
}

/// The series with one name.
#[derive(Debug)]
pub struct FamilyStore {
    /// Its name in files.
    pub name: Arc<str>,
    /// The kind of its series.
    pub kind: SeriesKind,
    /// `# HELP`.
    pub description: Option<Arc<str>>,
    /// `# UNIT`.
    pub unit: Option<Arc<str>>,
    /// Series in the order of their first occurrence.
    pub series: Vec<Series>,
    by_labels: HashMap<Labels, usize>,
    /// The series at each position of the previous scrape; `None` if it was left out.
    order: Vec<Option<usize>>,
}

/// A series over the run.
#[derive(Debug)]
pub struct Series {
    /// Its labels, without `le` and `quantile` of a distribution.
    pub labels: Labels,
    /// Its values.
    pub values: Values,
    /// The last scrape that contained it.
    last_seen: usize,
}

impl Store {
    /// Creates an empty store for the endpoints `urls`, without credentials.
    #[must_use]
    pub fn new(urls: impl IntoIterator<Item = ShownUrl>) -> Self {
        Self::limited(urls, Limits::default())
    }

    /// Like [`Store::new`], with other limits.
    #[must_use]
    pub fn limited(urls: impl IntoIterator<Item = ShownUrl>, limits: Limits) -> Self {
        let endpoints = urls.into_iter().map(EndpointStore::new).collect();
        Self { endpoints, room: Room::new(limits) }
    }

    /// Adds an endpoint at `url`, without credentials; returns its index.
    pub fn add(&mut self, url: ShownUrl) -> usize {
        self.endpoints.push(EndpointStore::new(url));
        self.endpoints.len() - 1
    }

    /// Returns the endpoints, in the order of the configuration.
    #[must_use]
    pub fn endpoints(&self) -> &[EndpointStore] {
        &self.endpoints
    }

    /// Records whose requests each endpoint counted after the final scrape of the measurement.
    pub fn attribute_late(&mut self, counts: impl IntoIterator<Item = LateCounts>) {
        for (endpoint, counts) in self.endpoints.iter_mut().zip(counts) {
            endpoint.late_counts = counts;
        }
    }

    /// Stores a scrape of the endpoint with the index `endpoint`.
    pub fn push(&mut self, endpoint: usize, times: FetchTimes, snapshot: &Snapshot<'_>) {
        let Some(store) = self.endpoints.get_mut(endpoint) else { return };
        let scrape = store.scrapes.len();
        store.scrapes.push(times);
        store.updates.push(scrape as u32);
        self.room.enter(endpoint, &store.url);
        for family in &snapshot.families {
            if let Some(kept) = store.family(family, &mut self.room) {
                kept.declare(family);
                kept.take(scrape, family, &mut self.room);
            }
        }
        for family in &mut store.families {
            family.end_missing(scrape);
        }
    }

    /// Stores a scrape of the endpoint with the index `endpoint` without changes.
    pub fn repeat(&mut self, endpoint: usize, times: FetchTimes) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.scrapes.push(times);
        }
    }

    /// Records that the endpoint with the index `endpoint` is scraped at `url` from now on.
    pub fn moved(&mut self, endpoint: usize, url: ShownUrl) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.url = url;
        }
    }

    /// Counts a failed scrape of the endpoint with the index `endpoint`.
    pub fn fail(&mut self, endpoint: usize) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.failures += 1;
        }
    }

    /// Records that `failures` scrapes of the endpoint with the index `endpoint` failed.
    pub fn failed(&mut self, endpoint: usize, failures: u64) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.failures = failures;
        }
    }

    /// Stores the scrape times of the endpoint with the index `endpoint`, whose series follow one
    /// after the other, with values relative to the first of `times`: each sample by
    /// [`Store::place`], then [`Store::placed`].
    pub fn scraped(&mut self, endpoint: usize, times: Vec<FetchTimes>) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.scrapes = times;
            store.is_relative = true;
        }
    }

    /// Stores the values of some series, which are all that `family` contains, at the scrape with
    /// the index `scrape`. The scrapes of a series ascend.
    pub fn place(&mut self, endpoint: usize, scrape: usize, family: &Family<'_>) {
        let Some(store) = self.endpoints.get_mut(endpoint) else { return };
        self.room.enter(endpoint, &store.url);
        if let Some(kept) = store.family(family, &mut self.room) {
            kept.declare(family);
            kept.place(scrape, family, &mut self.room);
        }
    }

    /// Ends the series of the endpoint with the index `endpoint` at their last samples.
    pub fn placed(&mut self, endpoint: usize) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.placed();
        }
    }

    /// Returns whether any series is cumulative.
    #[must_use]
    pub fn has_cumulative(&self) -> bool {
        let mut families = self.endpoints.iter().flat_map(|endpoint| &endpoint.families);
        families.any(|family| matches!(family.kind, SeriesKind::Counter | SeriesKind::Histogram))
    }

    /// Returns whether everything was stored, without exceeding the limits.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.room.is_enough()
    }

    /// Returns whether the values exceed their limit.
    #[must_use]
    pub(crate) fn is_too_large(&self) -> bool {
        !self.room.has_room_for_values(self.value_bytes())
    }

    /// Returns the size of the values in bytes, including reserved memory.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        let families = self.endpoints.iter().flat_map(|endpoint| &endpoint.families);
        families.flat_map(|family| &family.series).map(|series| series.values.bytes()).sum()
    }
}

impl EndpointStore {
    fn new(url: ShownUrl) -> Self {
        Self {
            configured_url: url.clone(),
            url,
            families: Vec::new(),
            scrapes: Vec::new(),
            updates: Vec::new(),
            failures: 0,
            is_relative: false,
            late_counts: LateCounts::default(),
            by_name: HashMap::new(),
        }
    }

    fn placed(&mut self) {
        let mut has_news = vec![false; self.scrapes.len()];
        if let Some(first) = has_news.first_mut() {
            *first = true;
        }
        for series in self.families.iter_mut().flat_map(|family| &mut family.series) {
            if series.last_seen + 1 < self.scrapes.len() {
                series.values.end(series.last_seen + 1);
            }
            for (scrape, _) in series.values.columns().flat_map(|column| &column.changes) {
                if let Some(has_news) = has_news.get_mut(*scrape as usize) {
                    *has_news = true;
                }
            }
        }
        let news = has_news.iter().enumerate().filter(|(_, has_news)| **has_news);
        self.updates = news.map(|(scrape, _)| scrape as u32).collect();
    }

    /// Returns the times of the scrapes, in order.
    #[must_use]
    pub fn scrapes(&self) -> &[FetchTimes] {
        &self.scrapes
    }

    /// Returns the indices of scrapes with new values, ascending, including the first scrape.
    #[must_use]
    pub fn updates(&self) -> &[u32] {
        &self.updates
    }

    /// Returns whether its cumulative values are only known relative to the first scrape.
    #[must_use]
    pub(crate) const fn is_relative(&self) -> bool {
        self.is_relative
    }

    /// Returns the number of failed scrapes.
    #[must_use]
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    /// Returns the scrapes of the phase `kind`; `None` if there was none.
    #[must_use]
    pub fn span(&self, windows: &Windows, kind: PhaseKind) -> Option<Span> {
        Some(self.span_within(windows.around(kind)?))
    }

    /// Returns whose requests it counted after the final scrape of the measurement.
    pub const fn late_counts(&self) -> LateCounts {
        self.late_counts
    }

    /// Returns the scrapes of a phase.
    pub(crate) fn span_within(&self, window: PhaseWindow) -> Span {
        Span { late_counts: self.late_counts, ..Span::within(&self.scrapes, window) }
    }

    /// Returns the series of `family`; `None` if it is new and does not fit.
    fn family(&mut self, family: &Family<'_>, room: &mut Room) -> Option<&mut FamilyStore> {
        let name: Arc<str> = Arc::from(&*family.name);
        let index = match self.by_name.entry((Arc::clone(&name), family.kind)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if !room.take_family(family) => return None,
            Entry::Vacant(new) => {
                self.families.push(FamilyStore {
                    name,
                    kind: family.kind,
                    description: None,
                    unit: None,
                    series: Vec::new(),
                    by_labels: HashMap::new(),
                    order: Vec::new(),
                });
                *new.insert(self.families.len() - 1)
            }
        };
        self.families.get_mut(index)
    }
}

impl FamilyStore {
    /// Stores a declaration, unless there is one.
    fn declare(&mut self, family: &Family<'_>) {
        if self.description.is_none() {
            self.description = family.description.as_deref().map(Arc::from);
        }
        if self.unit.is_none() {
            self.unit = family.unit.as_deref().map(Arc::from);
        }
    }

    fn take(&mut self, scrape: usize, family: &Family<'_>, room: &mut Room) {
        self.order.resize(family.series.len().max(self.order.len()), None);
        for (position, point) in family.series.iter().enumerate() {
            // Servers usually repeat their series in the same order.
            let index = self.order[position]
                .filter(|index| is_of(&self.series[*index].labels, point))
                .or_else(|| self.find_or_add(scrape, point, room));
            self.order[position] = index;
            if let Some(index) = index {
                self.set(index, scrape, &point.value, room);
            }
        }
    }

    fn place(&mut self, scrape: usize, family: &Family<'_>, room: &mut Room) {
        for point in &family.series {
            let index = match self.series.last() {
                Some(last) if is_of(&last.labels, point) => Some(self.series.len() - 1),
                _ => self.find_or_add(scrape, point, room),
            };
            let Some(index) = index else { continue };
            let series = &mut self.series[index];
            if series.last_seen + 1 < scrape {
                series.values.end(series.last_seen + 1);
            }
            self.set(index, scrape, &point.value, room);
        }
    }

    fn set(&mut self, index: usize, scrape: usize, value: &Value<'_>, room: &mut Room) {
        let series = &mut self.series[index];
        series.last_seen = scrape;
        series.values.set(scrape, value, || room.take_number(&self.name));
    }

    /// Returns the series with the labels of `point`; `None` if it is new and does not fit.
    fn find_or_add(&mut self, scrape: usize, point: &Point<'_>, room: &mut Room) -> Option<usize> {
        if let Some(index) = self.by_labels.get(&room::labels(point)) {
            return Some(*index);
        }
        let labels = room.take_series(&self.name, point)?;
        let mut values = Values::from_value(&point.value);
        // Room for its numbers is already reserved.
        values.set(scrape, &point.value, || true);
        let index = self.series.len();
        self.by_labels.insert(Arc::clone(&labels), index);
        self.series.push(Series { labels, values, last_seen: 0 });
        Some(index)
    }

    fn end_missing(&mut self, scrape: usize) {
        for series in self.series.iter_mut().filter(|series| series.last_seen != scrape) {
            series.values.end(scrape);
        }
    }
}

fn is_of(labels: &Labels, point: &Point<'_>) -> bool {
    labels.len() == point.labels.len()
        && labels
            .iter()
            .zip(&point.labels)
            .all(|(ours, theirs)| *ours.0 == *theirs.0 && *ours.1 == *theirs.1)
}

#[cfg(test)]
mod tests;
