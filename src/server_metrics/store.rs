//! What the endpoints exposed over a run, by series.
//!
//! A series keeps its changes only: a scrape that changed nothing costs its
//! times and no more. Label sets are shared between series and endpoints. What is kept
//! has [limits](Limits): beyond them new series are left out, with one warning.

mod columns;
mod room;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use super::report::Window;
use super::scrape::FetchTimes;
use super::snapshot::{Family, Kind, Point, Snapshot, Value};
pub use columns::{Column, HistogramColumns, SummaryColumns, Values, bound};
use room::Room;
pub use room::{Limits, MOST_VALUE_BYTES};

/// Labels of a series, sorted by name.
pub type Labels = Arc<[(Arc<str>, Arc<str>)]>;

/// Every series of every endpoint.
#[derive(Debug, Default)]
pub struct Store {
    endpoints: Vec<EndpointStore>,
    room: Room,
}

/// What one endpoint exposed.
#[derive(Debug)]
pub struct EndpointStore {
    /// The URL that was to be scraped, without credentials.
    pub configured_url: Arc<str>,
    /// The URL that is scraped: another one once `/metrics` turned out to be no
    /// exposition and `/prometheus/metrics` did not.
    pub url: Arc<str>,
    /// Families in order of their first appearance.
    pub families: Vec<FamilyStore>,
    scrapes: Vec<FetchTimes>,
    updates: Vec<u32>,
    failures: u64,
    by_name: HashMap<(Arc<str>, Kind), usize>,
}

/// Series of one name.
#[derive(Debug)]
pub struct FamilyStore {
    /// Its name in files.
    pub name: Arc<str>,
    /// What its series are.
    pub kind: Kind,
    /// `# HELP`.
    pub description: Option<Arc<str>>,
    /// `# UNIT`.
    pub unit: Option<Arc<str>>,
    /// Series in order of their first appearance.
    pub series: Vec<Series>,
    by_labels: HashMap<Labels, usize>,
    /// The series that stood at each position of the scrape before; `None` where it
    /// was left out.
    order: Vec<Option<usize>>,
}

/// One series over the run.
#[derive(Debug)]
pub struct Series {
    /// Its labels, without `le` and `quantile` of a distribution.
    pub labels: Labels,
    /// Its values.
    pub values: Values,
    /// The scrape that had it last.
    last_seen: usize,
}

impl Store {
    /// An empty store for the endpoints `urls`, credentials removed.
    #[must_use]
    pub fn new(urls: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self::limited(urls, Limits::default())
    }

    /// As [`Store::new`], with other limits.
    #[must_use]
    pub fn limited(urls: impl IntoIterator<Item = Arc<str>>, limits: Limits) -> Self {
        let endpoints = urls.into_iter().map(EndpointStore::new).collect();
        Self { endpoints, room: Room::new(limits) }
    }

    /// Adds an endpoint at `url`, credentials removed; gives its number.
    pub fn add(&mut self, url: Arc<str>) -> usize {
        self.endpoints.push(EndpointStore::new(url));
        self.endpoints.len() - 1
    }

    /// The endpoints, in the order configured.
    #[must_use]
    pub fn endpoints(&self) -> &[EndpointStore] {
        &self.endpoints
    }

    /// Keeps what endpoint number `endpoint` exposed.
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

    /// Keeps that endpoint number `endpoint` exposed the same as before.
    pub fn repeat(&mut self, endpoint: usize, times: FetchTimes) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.scrapes.push(times);
        }
    }

    /// Notes that endpoint number `endpoint` is scraped at `url` from now on.
    pub fn moved(&mut self, endpoint: usize, url: Arc<str>) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.url = url;
        }
    }

    /// Counts a fetch of endpoint number `endpoint` that failed.
    pub fn fail(&mut self, endpoint: usize) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.failures += 1;
        }
    }

    /// Notes that `failures` fetches of endpoint number `endpoint` failed.
    pub fn failed(&mut self, endpoint: usize, failures: u64) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.failures = failures;
        }
    }

    /// Keeps when endpoint number `endpoint` was scraped, where its series come one
    /// after the other: each sample by [`Store::place`], then [`Store::placed`].
    pub fn scraped(&mut self, endpoint: usize, times: Vec<FetchTimes>) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.scrapes = times;
        }
    }

    /// Keeps what scrape number `scrape` had of some series, which are all that
    /// `family` has. The scrapes of one series ascend.
    pub fn place(&mut self, endpoint: usize, scrape: usize, family: &Family<'_>) {
        let Some(store) = self.endpoints.get_mut(endpoint) else { return };
        self.room.enter(endpoint, &store.url);
        if let Some(kept) = store.family(family, &mut self.room) {
            kept.declare(family);
            kept.place(scrape, family, &mut self.room);
        }
    }

    /// Ends the series of endpoint number `endpoint` where their samples ended.
    pub fn placed(&mut self, endpoint: usize) {
        if let Some(store) = self.endpoints.get_mut(endpoint) {
            store.placed();
        }
    }

    /// Whether everything was kept that was to be: nothing was beyond the limits.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.room.is_enough()
    }

    /// Whether the values take more than they may.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        !self.room.has_room_for_values(self.value_bytes())
    }

    /// Bytes that the values take, the room for more included.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        let families = self.endpoints.iter().flat_map(|endpoint| &endpoint.families);
        families.flat_map(|family| &family.series).map(|series| series.values.bytes()).sum()
    }
}

impl EndpointStore {
    fn new(url: Arc<str>) -> Self {
        Self {
            configured_url: Arc::clone(&url),
            url,
            families: Vec::new(),
            scrapes: Vec::new(),
            updates: Vec::new(),
            failures: 0,
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

    /// When it was scraped, in order of time.
    #[must_use]
    pub fn scrapes(&self) -> &[FetchTimes] {
        &self.scrapes
    }

    /// The scrapes that said something new, ascending; the first one always did.
    #[must_use]
    pub fn updates(&self) -> &[u32] {
        &self.updates
    }

    /// Fetches that failed.
    #[must_use]
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    /// The scrapes in `window`.
    #[must_use]
    pub fn within(&self, window: Window) -> Range<usize> {
        let before = |end: u64| self.scrapes.partition_point(|scrape| scrape.first_byte_ns < end);
        let start = before(window.start_ns);
        start..before(window.end_ns.saturating_add(1)).max(start)
    }

    /// The last scrape before `window`: what has changed since is of the window.
    #[must_use]
    pub fn reference(&self, window: Window) -> Option<usize> {
        self.within(window).start.checked_sub(1)
    }

    /// The series of `family`; `None` where it is new and there is no room for it.
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
    /// What was declared first counts.
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
            // A server writes its series in the same order again.
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

    /// The series of the labels of `point`; `None` where it is new and there is no
    /// room for it.
    fn find_or_add(&mut self, scrape: usize, point: &Point<'_>, room: &mut Room) -> Option<usize> {
        if let Some(index) = self.by_labels.get(&room::labels(point)) {
            return Some(*index);
        }
        let labels = room.take_series(&self.name, point)?;
        let mut values = Values::of(&point.value);
        // Its numbers have their room.
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
