//! Parses a line of `server_metrics_export.jsonl`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use client::schedule::PhaseKind;
use client::server_family::SeriesKind;
use measure::server_metrics::snapshot::{Family, Point, Snapshot, Value};
use measure::server_metrics::store::bound;
use measure::server_metrics::{FetchTimes, PhaseMark};

/// A scrape as in its line.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrapeLine<'a> {
    /// The URL that was scraped.
    pub endpoint_url: Cow<'a, str>,
    /// The times of the scrape.
    pub times: FetchTimes,
    /// The current phase.
    pub phase: Option<PhaseMark>,
    /// Whether the body was identical to that of the previous scrape.
    pub is_duplicate: bool,
    /// The metrics. Descriptions and units are only in the first line that contains the family.
    pub snapshot: Snapshot<'a>,
}

/// The reason why a line is not a scrape.
#[derive(Debug, thiserror::Error)]
pub enum LineError {
    /// It is not valid JSON of the expected form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Neither this line nor an earlier one declares the type of the family.
    #[error("no line so far contains the type of {0}")]
    Untyped(String),
    /// The values of a series do not match its type.
    #[error("a series of {0} does not have the values of its type")]
    Shape(String),
}

/// Reads the lines of a file, in order, since only the first line with a family contains its
/// declaration.
#[derive(Debug, Default)]
pub struct ScrapeLineReader {
    /// Declarations of families, by endpoint and key; the name if it is not the key.
    kinds: HashMap<String, HashMap<String, (SeriesKind, Option<String>)>>,
}

#[derive(serde::Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    endpoint_url: Text<'a>,
    timestamp_ns: u64,
    #[serde(default)]
    endpoint_latency_ns: u64,
    #[serde(borrow)]
    metrics: Members<'a, Vec<LinePoint<'a>>>,
    #[serde(borrow, default)]
    summaries: Members<'a, Vec<LinePoint<'a>>>,
    #[serde(default)]
    request_sent_ns: Option<u64>,
    #[serde(default)]
    first_byte_ns: Option<u64>,
    #[serde(default)]
    benchmark_phase: Option<PhaseKind>,
    #[serde(default)]
    phase_index: u32,
    #[serde(default)]
    is_duplicate: bool,
    #[serde(borrow, default)]
    families: Members<'a, About<'a>>,
}

#[derive(serde::Deserialize)]
struct LinePoint<'a> {
    #[serde(borrow, default)]
    labels: Members<'a, Text<'a>>,
    #[serde(default)]
    value: Option<f64>,
    #[serde(borrow, default)]
    buckets: Option<Members<'a, f64>>,
    #[serde(borrow, default)]
    quantiles: Option<Members<'a, f64>>,
    #[serde(default)]
    sum: Option<f64>,
    #[serde(default)]
    count: Option<f64>,
}

/// The declaration of a family.
#[derive(serde::Deserialize)]
struct About<'a> {
    #[serde(rename = "type")]
    kind: SeriesKind,
    #[serde(borrow, default)]
    name: Option<Text<'a>>,
    #[serde(borrow, default)]
    description: Option<Text<'a>>,
    #[serde(borrow, default)]
    unit: Option<Text<'a>>,
}

impl ScrapeLineReader {
    /// Returns whether any line declared the type of a family; those of other programs do not.
    #[must_use]
    pub fn has_types(&self) -> bool {
        self.kinds.values().any(|kinds| !kinds.is_empty())
    }

    /// Reads the next line.
    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<ScrapeLine<'a>, LineError> {
        let line: Line<'a> = serde_json::from_slice(line)?;
        let endpoint_url = line.endpoint_url.0;
        let kinds = self.kinds.entry(endpoint_url.clone().into_owned()).or_default();
        let mut news = HashMap::with_capacity(line.families.0.len());
        for (name, about) in line.families.0 {
            let other = about.name.as_ref().map(|name| name.0.clone().into_owned());
            kinds.insert(name.clone().into_owned(), (about.kind, other));
            news.insert(name, about);
        }
        let families = line.metrics.0.into_iter().chain(line.summaries.0).map(|(name, series)| {
            let untyped = || LineError::Untyped(name.to_string());
            let (kind, other) = kinds.get(&*name).ok_or_else(untyped)?;
            let kind = *kind;
            let points: Option<Vec<_>> =
                series.into_iter().map(|point| point.point_of_kind(kind)).collect();
            let series = points.ok_or_else(|| LineError::Shape(name.to_string()))?;
            let about = news.remove(&*name);
            let (description, unit) =
                about.map_or((None, None), |about| (about.description, about.unit));
            let text = |text: Option<Text<'a>>| text.map(|text| text.0);
            let name = other.as_ref().map_or(name, |other| Cow::Owned(other.clone()));
            Ok(Family { kind, description: text(description), unit: text(unit), series, name })
        });
        let families = families.collect::<Result<_, LineError>>()?;
        let first_byte_ns = line.first_byte_ns.unwrap_or(line.timestamp_ns);
        let request_sent_ns = line.request_sent_ns.unwrap_or(first_byte_ns);
        Ok(ScrapeLine {
            endpoint_url,
            times: FetchTimes {
                request_sent_ns,
                first_byte_ns,
                last_byte_ns: request_sent_ns.saturating_add(line.endpoint_latency_ns),
            },
            phase: line.benchmark_phase.map(|kind| PhaseMark { index: line.phase_index, kind }),
            is_duplicate: line.is_duplicate,
            snapshot: Snapshot { families },
        })
    }
}

impl<'a> LinePoint<'a> {
    /// Returns the series, if it has the values of `kind`.
    fn point_of_kind(self, kind: SeriesKind) -> Option<Point<'a>> {
        let value = match kind {
            SeriesKind::Histogram => {
                let buckets = ascending(self.buckets?)?;
                buckets.last().filter(|(le, _)| le == "+Inf")?;
                Value::Histogram { buckets, sum: self.sum?, count: self.count? }
            }
            SeriesKind::Summary => {
                let quantiles = ascending(self.quantiles?)?;
                Value::Summary { quantiles, sum: self.sum, count: self.count }
            }
            SeriesKind::Gauge | SeriesKind::Counter | SeriesKind::Unknown | SeriesKind::Info => {
                Value::Number(self.value?)
            }
        };
        let mut labels: Vec<_> =
            self.labels.0.into_iter().map(|(name, value)| (name, value.0)).collect();
        labels.sort_by(|a, b| a.0.cmp(&b.0));
        Some(Point { labels, value })
    }
}

/// Returns the members sorted by the numbers that name them, if these are distinct numbers.
fn ascending<'a>(members: Members<'a, f64>) -> Option<Vec<(Cow<'a, str>, f64)>> {
    let mut members = members.0;
    let at = |member: &(Cow<'a, str>, f64)| bound(&member.0);
    members.sort_by(|a, b| at(a).total_cmp(&at(b)));
    let is_rising = members.windows(2).all(|pair| at(&pair[0]) < at(&pair[1]));
    is_rising.then_some(members)
}

/// A string, borrowed if it contains no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of an object, in order.
struct Members<'a, V>(Vec<(Cow<'a, str>, V)>);

impl<V> Default for Members<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Members<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<'a, V>(PhantomData<(&'a (), V)>);

        impl<'de: 'a, 'a, V: Deserialize<'de>> Visitor<'de> for Object<'a, V> {
            type Value = Members<'a, V>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some((name, value)) = map.next_entry::<Text<'a>, V>()? {
                    members.push((name.0, value));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object(PhantomData))
    }
}

#[cfg(test)]
mod tests;
