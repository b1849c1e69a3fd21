//! Converts the samples of a body to families of series, in one pass.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;

use client::server_family::SeriesKind;

use super::super::exposition::{Exposition, Label, MetricFamily, MetricType, Part, Sample};
use super::{Family, Point, Snapshot, Value};

/// The labels that identify a series, sorted by name.
type Key<'e> = Vec<(&'e str, &'e str)>;

pub(super) fn snapshot<'a>(exposition: &Exposition<'a>) -> (Snapshot<'a>, Vec<Cow<'a, str>>) {
    let mut families = Families::default();
    let targets: Vec<Option<usize>> =
        exposition.families.iter().map(|family| families.target(family)).collect();
    let mut key = Key::new();
    for sample in &exposition.samples {
        let target = targets.get(sample.family).copied().flatten();
        if let Some(family) = target.and_then(|target| families.all.get_mut(target)) {
            family.take(sample, exposition.labels(sample), &mut key);
        }
    }
    families.finish()
}

/// The families of a snapshot that is being built.
#[derive(Default)]
struct Families<'e, 'a> {
    all: Vec<FamilyBuilder<'e, 'a>>,
    by_name: HashMap<(Cow<'a, str>, SeriesKind), usize>,
}

struct FamilyBuilder<'e, 'a> {
    family: Family<'a>,
    /// The parts of each series.
    parts: Vec<Parts<'a>>,
    by_key: HashMap<Key<'e>, usize>,
}

/// The parsed parts of a series.
#[derive(Default)]
struct Parts<'a> {
    /// A single number.
    value: Option<f64>,
    /// Bounds or quantiles as numbers and as exposed, and their values.
    named: Vec<(f64, Cow<'a, str>, f64)>,
    sum: Option<f64>,
    count: Option<f64>,
}

impl<'a> Families<'_, 'a> {
    /// Returns the family for the samples of `family`; `None` if they are left out.
    fn target(&mut self, family: &MetricFamily<'a>) -> Option<usize> {
        let kind = kind_of(family)?;
        let name = name_in_files(family);
        if family.name.ends_with("_created") || is_uptime(&name) {
            return None;
        }
        Some(*self.by_name.entry((name, kind)).or_insert_with_key(|(name, kind)| {
            let family = Family {
                name: name.clone(),
                kind: *kind,
                description: family.help.clone(),
                unit: family.unit.map(Cow::Borrowed),
                series: Vec::new(),
            };
            self.all.push(FamilyBuilder { family, parts: Vec::new(), by_key: HashMap::new() });
            self.all.len() - 1
        }))
    }

    fn finish(self) -> (Snapshot<'a>, Vec<Cow<'a, str>>) {
        let mut dropped = Vec::new();
        let mut families = Vec::with_capacity(self.all.len());
        for builder in self.all {
            let read = builder.parts.len();
            let family = builder.finish();
            if family.series.len() < read {
                dropped.push(family.name.clone());
            }
            if !family.series.is_empty() {
                families.push(family);
            }
        }
        (Snapshot { families }, dropped)
    }
}

impl<'e, 'a> FamilyBuilder<'e, 'a> {
    fn take(&mut self, sample: &Sample<'a>, labels: &'e [Label<'a>], key: &mut Key<'e>) {
        let apart = match (self.family.kind, sample.part) {
            (SeriesKind::Histogram, Part::Bucket) => Some("le"),
            (SeriesKind::Summary, Part::Value) => Some("quantile"),
            // The start time of a series is not one of its values, and the bare name of a histogram
            // is meaningless.
            (_, Part::Created) | (SeriesKind::Histogram, Part::Value) => return,
            _ => None,
        };
        let named = apart.and_then(|apart| labels.iter().find(|label| label.name == apart));
        if apart.is_some() && named.is_none() {
            return;
        }
        read_key(labels, apart, key);
        let parts = self.parts(key, labels);
        match (named, sample.part) {
            (Some(label), _) => parts.set(label.value.clone(), sample.value),
            (None, Part::Sum) => parts.sum = Some(sample.value),
            (None, Part::Count) => parts.count = Some(sample.value),
            (None, _) => parts.value = Some(sample.value),
        }
    }

    /// Returns the parts of the series with this `key`, which is usually the previous one.
    fn parts(&mut self, key: &Key<'e>, labels: &'e [Label<'a>]) -> &mut Parts<'a> {
        let last = self.parts.len().wrapping_sub(1);
        if self.family.series.last().is_some_and(|point| is_named(point, key)) {
            return &mut self.parts[last];
        }
        let index = match self.by_key.get(key) {
            Some(index) => *index,
            None => self.add(key, labels),
        };
        &mut self.parts[index]
    }

    fn add(&mut self, key: &Key<'e>, labels: &'e [Label<'a>]) -> usize {
        let mut by_name: Vec<_> = labels.iter().collect();
        by_name.sort_by(|a, b| a.name.cmp(&b.name));
        let last = |name: &str| {
            let after = by_name.partition_point(|label| *label.name <= *name);
            by_name.get(after.checked_sub(1)?)
        };
        let labels = key
            .iter()
            .filter_map(|(name, _)| last(name))
            .map(|label| (label.name.clone(), label.value.clone()))
            .collect();
        let index = self.parts.len();
        self.family.series.push(Point { labels, value: Value::Number(0.0) });
        self.parts.push(Parts::default());
        self.by_key.insert(key.clone(), index);
        index
    }

    /// Returns the family with the series that are complete.
    fn finish(mut self) -> Family<'a> {
        let kind = self.family.kind;
        let points = mem::take(&mut self.family.series);
        self.family.series = points
            .into_iter()
            .zip(self.parts)
            .filter_map(|(point, parts)| Some(Point { value: parts.value(kind)?, ..point }))
            .collect();
        self.family
    }
}

/// Collects `labels` in `key`, except the one named `apart`. If a label is repeated, the last value
/// applies.
fn read_key<'e>(labels: &'e [Label<'_>], apart: Option<&str>, key: &mut Key<'e>) {
    key.clear();
    let others = labels.iter().filter(|label| Some(&*label.name) != apart);
    key.extend(others.map(|label| (&*label.name, &*label.value)));
    key.sort_by_key(|(name, _)| *name);
    key.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 = later.1;
        }
        same
    });
}

fn is_named(point: &Point<'_>, key: &Key<'_>) -> bool {
    point.labels.len() == key.len()
        && point.labels.iter().zip(key).all(|(ours, key)| ours.0 == key.0 && ours.1 == key.1)
}

impl<'a> Parts<'a> {
    /// Adds a bucket or a quantile.
    fn set(&mut self, text: Cow<'a, str>, value: f64) {
        let (at, text) = match text.parse::<f64>() {
            Ok(f64::INFINITY) => (f64::INFINITY, Cow::Borrowed("+Inf")),
            Ok(at) => (at, text),
            Err(_) => (f64::NAN, text),
        };
        self.named.push((at, text, value));
    }

    fn value(self, kind: SeriesKind) -> Option<Value<'a>> {
        match kind {
            SeriesKind::Histogram => self.histogram(),
            SeriesKind::Summary => self.summary(),
            _ => self.value.filter(|value| value.is_finite()).map(Value::Number),
        }
    }

    fn histogram(mut self) -> Option<Value<'a>> {
        self.sort_named();
        let is_bound = |at: f64| at.is_finite() || at == f64::INFINITY;
        let infinite = self.named.last().filter(|last| last.0 == f64::INFINITY);
        let count = self.count.or(infinite.map(|(_, _, count)| *count))?;
        if infinite.is_none() {
            self.named.push((f64::INFINITY, Cow::Borrowed("+Inf"), count));
        }
        let sum = self.sum.filter(|sum| sum.is_finite() && count.is_finite())?;
        let is_whole = self.named.iter().all(|(at, _, count)| is_bound(*at) && count.is_finite());
        is_whole.then(|| Value::Histogram { buckets: named(self.named), sum, count })
    }

    fn summary(mut self) -> Option<Value<'a>> {
        self.named.retain(|(at, _, value)| at.is_finite() && value.is_finite());
        self.sort_named();
        let (sum, count) =
            (self.sum.filter(|sum| sum.is_finite()), self.count.filter(|count| count.is_finite()));
        let has_any = !self.named.is_empty() || sum.is_some() || count.is_some();
        has_any.then(|| Value::Summary { quantiles: named(self.named), sum, count })
    }

    /// Sorts in ascending order; if an entry is repeated, the last value applies.
    fn sort_named(&mut self) {
        self.named.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.named.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                mem::swap(later, earlier);
            }
            same
        });
    }
}

fn named(parts: Vec<(f64, Cow<'_, str>, f64)>) -> Vec<(Cow<'_, str>, f64)> {
    parts.into_iter().map(|(_, text, value)| (text, value)).collect()
}

/// Returns the kind of the series of `family`; `None` if statistics cannot use them.
fn kind_of(family: &MetricFamily<'_>) -> Option<SeriesKind> {
    match family.metric_type {
        MetricType::Counter => Some(SeriesKind::Counter),
        MetricType::Gauge if family.name.ends_with("_info") => Some(SeriesKind::Info),
        MetricType::Gauge | MetricType::StateSet => Some(SeriesKind::Gauge),
        MetricType::Histogram => Some(SeriesKind::Histogram),
        MetricType::GaugeHistogram => None,
        MetricType::Summary => Some(SeriesKind::Summary),
        MetricType::Info => Some(SeriesKind::Info),
        MetricType::Unknown => Some(SeriesKind::Unknown),
    }
}

fn name_in_files<'a>(family: &MetricFamily<'a>) -> Cow<'a, str> {
    match family.metric_type {
        MetricType::Counter => without_total(&family.name),
        MetricType::Info if !family.name.ends_with("_info") => {
            Cow::Owned(format!("{}_info", family.name))
        }
        _ => family.name.clone(),
    }
}

fn without_total<'a>(name: &Cow<'a, str>) -> Cow<'a, str> {
    let is_whole = |name: &&str| !name.is_empty();
    match name {
        Cow::Borrowed(name) => {
            Cow::Borrowed(name.strip_suffix("_total").filter(is_whole).unwrap_or(name))
        }
        Cow::Owned(name) => {
            Cow::Owned(name.strip_suffix("_total").filter(is_whole).unwrap_or(name).to_owned())
        }
    }
}

fn is_uptime(name: &str) -> bool {
    name.ends_with("_uptime") || name.contains("_uptime_")
}
