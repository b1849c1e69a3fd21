//! What the endpoints exposed over a run, by series.
//!
//! A series keeps its changes only: a scrape that changed nothing costs its
//! times and no more. Label sets are shared between series and endpoints. What is kept
//! has [limits](Limits): beyond them new series are left out, with one warning.

mod room;

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::Arc;

use super::report::Window;
use super::scrape::FetchTimes;
use super::snapshot::{Family, Kind, Point, Snapshot, Value};
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

/// The values of a series, by scrape.
#[derive(Debug)]
pub enum Values {
    /// Of a gauge, a counter, an info or an unknown.
    Number(Column),
    /// Of a histogram.
    Histogram(HistogramColumns),
    /// Of a summary.
    Summary(SummaryColumns),
}

/// A histogram's values, by scrape.
#[derive(Debug, Default)]
pub struct HistogramColumns {
    /// Upper bounds as sent, ascending, and the counts of observations up to each.
    pub buckets: Vec<(Arc<str>, Column)>,
    /// Sum of the observations.
    pub sum: Column,
    /// Number of the observations.
    pub count: Column,
}

/// A summary's values, by scrape.
#[derive(Debug, Default)]
pub struct SummaryColumns {
    /// Quantiles as sent, ascending, and their values.
    pub quantiles: Vec<(Arc<str>, Column)>,
    /// Sum of the observations.
    pub sum: Column,
    /// Number of the observations.
    pub count: Column,
}

/// One number over the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Column {
    /// From which scrape on which value; no number where there is none.
    changes: Vec<(u32, f64)>,
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
        let mut values = match &point.value {
            Value::Number(_) => Values::Number(Column::default()),
            Value::Histogram { .. } => Values::Histogram(HistogramColumns::default()),
            Value::Summary { .. } => Values::Summary(SummaryColumns::default()),
        };
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

impl Values {
    /// Sets the value; `has_room` is asked for each bucket or quantile that is new.
    fn set(&mut self, scrape: usize, value: &Value<'_>, has_room: impl FnMut() -> bool) {
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

    fn columns(&self) -> impl Iterator<Item = &Column> {
        let named: &[(Arc<str>, Column)] = match self {
            Self::Number(_) => &[],
            Self::Histogram(columns) => &columns.buckets,
            Self::Summary(columns) => &columns.quantiles,
        };
        let single = match self {
            Self::Number(column) => vec![column],
            Self::Histogram(columns) => vec![&columns.sum, &columns.count],
            Self::Summary(columns) => vec![&columns.sum, &columns.count],
        };
        named.iter().map(|(_, column)| column).chain(single)
    }

    fn end(&mut self, scrape: usize) {
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

/// Sets the columns that `values` name; those it does not name have no value.
fn set_named(
    columns: &mut Vec<(Arc<str>, Column)>,
    scrape: usize,
    values: &[(std::borrow::Cow<'_, str>, f64)],
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

/// The number that an upper bound or a quantile stands for; `+Inf` for infinity.
#[must_use]
pub fn bound(text: &str) -> f64 {
    text.parse().unwrap_or(f64::INFINITY)
}

impl Store {
    /// Whether everything was kept that was to be: nothing was beyond the limits.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.room.is_enough()
    }

    /// Whether the values take more than [`MOST_VALUE_BYTES`].
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.value_bytes() > MOST_VALUE_BYTES
    }

    /// Bytes that the values take, the room for more included.
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        let families = self.endpoints.iter().flat_map(|endpoint| &endpoint.families);
        families.flat_map(|family| &family.series).map(|series| series.values.bytes()).sum()
    }
}

impl Values {
    fn bytes(&self) -> usize {
        let (named, single): (&[(Arc<str>, Column)], &[&Column]) = match self {
            Self::Number(column) => (&[], &[column]),
            Self::Histogram(columns) => (&columns.buckets, &[&columns.sum, &columns.count]),
            Self::Summary(columns) => (&columns.quantiles, &[&columns.sum, &columns.count]),
        };
        let columns = named.iter().map(|(_, column)| column).chain(single.iter().copied());
        columns.map(|column| column.changes.capacity() * size_of::<(u32, f64)>()).sum()
    }
}

impl Column {
    /// Sets the value from `scrape` on; NaN where there is none. Scrapes ascend.
    fn set(&mut self, scrape: usize, value: f64) {
        let before = self.changes.last().map_or(f64::NAN, |(_, value)| *value);
        if before.to_bits() != value.to_bits() && !(before.is_nan() && value.is_nan()) {
            self.changes.push((scrape as u32, value));
        }
    }

    /// The value at `scrape`, if there was one.
    #[must_use]
    pub fn at(&self, scrape: usize) -> Option<f64> {
        let after = self.changes.partition_point(|(from, _)| *from as usize <= scrape);
        let (_, value) = self.changes.get(after.checked_sub(1)?)?;
        (!value.is_nan()).then_some(*value)
    }

    /// The last value at `scrape` or before it.
    #[must_use]
    pub fn last_until(&self, scrape: usize) -> Option<f64> {
        let after = self.changes.partition_point(|(from, _)| *from as usize <= scrape);
        let known = self.changes[..after].iter().rev().find(|(_, value)| !value.is_nan());
        known.map(|(_, value)| *value)
    }

    /// The last scrape in `range` that has a value.
    #[must_use]
    pub fn last_in(&self, range: Range<usize>) -> Option<usize> {
        self.iter(range).last().map(|(scrape, _)| scrape)
    }

    /// What a cumulative number rose from, as the scrape `reference` has it: the
    /// last value known then, and 0 where none was, for the server had not begun to
    /// count.
    #[must_use]
    pub fn before(&self, reference: usize) -> f64 {
        self.last_until(reference).unwrap_or(0.0)
    }

    /// From which scrape and which value a cumulative number has risen in the scrapes
    /// `within` a window: from that [before](Self::before) `reference`, and without
    /// one from the first in the window.
    #[must_use]
    pub fn baseline(&self, reference: Option<usize>, within: Range<usize>) -> Option<(usize, f64)> {
        match reference {
            Some(scrape) => Some((scrape, self.before(scrape))),
            None => self.iter(within).next(),
        }
    }

    /// The values at `scrapes`, ascending; no number where there is none.
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

    /// The values at the scrapes in `range`, those that there are.
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

#[cfg(test)]
mod tests;
