//! Converts an exposition to OTLP metrics according to the OpenTelemetry specification, "Prometheus
//! and OpenMetrics Compatibility", "Prometheus Metric points to OTLP".

use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, Metric, NumberDataPoint, Sum, Summary,
};

use base::semconv::{InstrumentKind, SCHEMA_URL};
use measure::server_metrics::exposition::{
    Exposition, Label, MetricFamily, MetricType, Part, Sample,
};

use super::super::{MetricSet, protobuf};
use super::distribution::{self, Series};
use super::pack::{Packer, Scope};
use super::point::{attributes, exemplar, nanos, scope, text};
use super::translate::Translation;
use super::unit::unit_of;

/// The temporality of all Prometheus metrics.
const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// The info metric with which OpenTelemetry's exporters describe the server; its labels are
/// attributes of the resource.
const TARGET: &str = "target_info";

/// The info metric of an older way to describe scopes; the labels of the samples name them.
const SCOPES: &str = "otel_scope_info";

/// Suffix of the metric with the start time of a series.
const CREATED: &str = "_created";

/// Earliest plausible start time (2001) in nanoseconds since the epoch; a `…_created` metric with a
/// lower value is a count of something.
const EARLIEST: u64 = 1_000_000_000_000_000_000;

/// The samples of one family.
type Samples<'e, 'a> = Vec<&'e Sample<'a>>;

/// Returns the server's description of itself: the labels of `target_info`.
pub(super) fn target_labels<'e, 'a>(exposition: &'e Exposition<'a>) -> &'e [Label<'a>] {
    let is_target = |sample: &&Sample<'a>| is_named(exposition, sample, TARGET);
    let found = exposition.samples.iter().find(is_target);
    found.map(|sample| exposition.labels(sample)).unwrap_or_default()
}

/// Returns whether a sample of an info metric, or of a gauge in its place, has this name.
fn is_named(exposition: &Exposition<'_>, sample: &Sample<'_>, name: &str) -> bool {
    let is_info = |family: &MetricFamily<'_>| {
        matches!(family.metric_type, MetricType::Info | MetricType::Gauge)
    };
    sample.name == name && exposition.family(sample).is_some_and(is_info)
}

/// Packs the metrics of `exposition` that are in the `set`, which was scraped at `time`, in nanoseconds
/// since the epoch, and those with a name in `translation` under that name, too. Returns the number of
/// series that OTLP cannot represent.
pub(super) fn convert(
    exposition: &Exposition<'_>,
    time: u64,
    set: MetricSet,
    translation: Option<&Translation>,
    packer: &mut Packer,
) -> u64 {
    let mut samples: Vec<Samples<'_, '_>> = vec![Vec::new(); exposition.families.len()];
    for sample in &exposition.samples {
        let is_about_metrics =
            [TARGET, SCOPES].iter().any(|name| is_named(exposition, sample, name));
        if !is_about_metrics && let Some(family) = samples.get_mut(sample.family) {
            family.push(sample);
        }
    }
    let created = exposition.families.iter().zip(&samples).filter_map(|(family, samples)| {
        let is_gauge = family.metric_type == MetricType::Gauge;
        Some((family.name.strip_suffix(CREATED).filter(|_| is_gauge)?, samples))
    });
    let created: HashMap<&str, &Samples<'_, '_>> = created.collect();
    let mut inexpressible = 0;
    for (family, samples) in exposition.families.iter().zip(&samples) {
        let is_in_set = set.includes_of_server(&family.name);
        if !is_in_set && translation.is_none() {
            continue;
        }
        let base = match family.metric_type {
            MetricType::Counter => family.name.strip_suffix("_total").or(Some(&*family.name)),
            MetricType::Histogram | MetricType::Summary => Some(&*family.name),
            _ => None,
        };
        let beside = base.and_then(|base| created.get(base).copied());
        let starts = Starts::at_scrape(exposition, samples, beside, time);
        let mut converter = FamilyConverter {
            exposition,
            family,
            samples,
            time,
            starts,
            is_in_set,
            translation,
            packer: &mut *packer,
        };
        inexpressible += converter.convert();
    }
    inexpressible
}

/// The start times of a family's series, by their labels in order. They come from samples of the
/// family or, in the text format, from a separate gauge of that name.
struct Starts<'e>(HashMap<Vec<(&'e str, &'e str)>, u64>);

impl<'e> Starts<'e> {
    fn at_scrape<'a>(
        exposition: &'e Exposition<'a>,
        own: &Samples<'e, 'a>,
        beside: Option<&Samples<'e, 'a>>,
        time: u64,
    ) -> Self {
        let own = own.iter().filter(|sample| sample.part == Part::Created);
        let all = own.chain(beside.into_iter().flatten());
        let start = |sample: &&'e Sample<'a>| {
            let start = nanos(sample.value).filter(|start| (EARLIEST..=time).contains(start))?;
            Some((distribution::key(exposition.labels(sample), None), start))
        };
        Self(all.filter_map(start).collect())
    }

    /// Returns the start time; 0 if it is not known, as in OTLP.
    fn of_series(&self, labels: &[Label<'_>], but: Option<&str>) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&distribution::key(labels, but)).copied().unwrap_or_default()
    }
}

/// The points of a family, by name and scope.
struct Groups<'e, P> {
    /// Points by family, in the order of the first point of each.
    all: Vec<((&'e str, usize), Vec<P>)>,
    places: HashMap<(&'e str, usize), usize>,
    current: usize,
}

impl<'e, P> Groups<'e, P> {
    fn new() -> Self {
        Self { all: Vec::new(), places: HashMap::new(), current: 0 }
    }

    /// Adds a point. Points of the same group usually follow each other.
    fn add(&mut self, name: &'e str, scope: usize, point: P) {
        let key = (name, scope);
        if self.all.get(self.current).is_none_or(|(have, _)| *have != key) {
            self.current = *self.places.entry(key).or_insert(self.all.len());
            if self.current == self.all.len() {
                self.all.push((key, Vec::new()));
            }
        }
        self.all[self.current].1.push(point);
    }
}

struct FamilyConverter<'c, 'e, 'a> {
    exposition: &'e Exposition<'a>,
    family: &'e MetricFamily<'a>,
    samples: &'c Samples<'e, 'a>,
    time: u64,
    starts: Starts<'e>,
    /// Whether it is packed under its own name.
    is_in_set: bool,
    translation: Option<&'c Translation>,
    packer: &'c mut Packer,
}

impl<'e, 'a> FamilyConverter<'_, 'e, 'a> {
    fn convert(&mut self) -> u64 {
        match self.family.metric_type {
            MetricType::Counter
            | MetricType::Gauge
            | MetricType::Info
            | MetricType::StateSet
            | MetricType::Unknown => self.numbers(),
            MetricType::Histogram => self.histograms(),
            MetricType::Summary => self.summaries(),
            // OTLP does not have a histogram whose counts may fall; the specification drops them.
            MetricType::GaugeHistogram => {
                distribution::series(self.exposition, self.samples, "le").len() as u64
            }
        }
    }

    fn numbers(&mut self) -> u64 {
        let mut groups = Groups::new();
        for sample in self.samples.iter().filter(|sample| sample.part == Part::Value) {
            let scope = self.scope(self.exposition.labels(sample));
            groups.add(&sample.name, scope, self.number(sample));
        }
        let metric_type = self.family.metric_type;
        self.push(groups, |data_points| match metric_type {
            MetricType::Gauge | MetricType::Unknown => Data::Gauge(Gauge { data_points }),
            // Info and state set metrics count what has the labels: sums that may fall.
            _ => Data::Sum(Sum {
                data_points,
                aggregation_temporality: CUMULATIVE,
                is_monotonic: metric_type == MetricType::Counter,
            }),
        });
        0
    }

    fn number(&self, sample: &Sample<'a>) -> NumberDataPoint {
        let labels = self.exposition.labels(sample);
        let is_counter = self.family.metric_type == MetricType::Counter;
        NumberDataPoint {
            attributes: attributes(labels, None),
            start_time_unix_nano: self.start(labels, None),
            time_unix_nano: self.time_of(sample),
            exemplars: sample
                .exemplar
                .iter()
                .filter(|_| is_counter)
                .map(|observed| exemplar(observed))
                .collect(),
            value: Some(Value::AsDouble(sample.value)),
            ..NumberDataPoint::default()
        }
    }

    fn histograms(&mut self) -> u64 {
        let mut groups = Groups::new();
        let mut inexpressible = 0;
        for series in distribution::series(self.exposition, self.samples, "le") {
            let Some(mut point) = series.histogram() else {
                inexpressible += 1;
                continue;
            };
            let scope;
            (point.attributes, point.start_time_unix_nano, point.time_unix_nano, scope) =
                self.identity(&series, "le");
            groups.add(&self.family.name, scope, point);
        }
        self.push(groups, |data_points| {
            Data::Histogram(Histogram { data_points, aggregation_temporality: CUMULATIVE })
        });
        inexpressible
    }

    fn summaries(&mut self) -> u64 {
        let mut groups = Groups::new();
        let mut inexpressible = 0;
        for series in distribution::series(self.exposition, self.samples, "quantile") {
            let Some(mut point) = series.summary() else {
                inexpressible += 1;
                continue;
            };
            let scope;
            (point.attributes, point.start_time_unix_nano, point.time_unix_nano, scope) =
                self.identity(&series, "quantile");
            groups.add(&self.family.name, scope, point);
        }
        self.push(groups, |data_points| Data::Summary(Summary { data_points }));
        inexpressible
    }

    /// Returns the attributes, start, time and scope of a distribution.
    fn identity(&mut self, series: &Series<'e, 'a>, but: &str) -> (Vec<KeyValue>, u64, u64, usize) {
        let labels = series.labels;
        let time = series.timestamp.and_then(nanos).unwrap_or(self.time);
        let start = self.start(labels, Some(but));
        (attributes(labels, Some(but)), start, time, self.scope(labels))
    }

    fn start(&self, labels: &[Label<'_>], but: Option<&str>) -> u64 {
        self.starts.of_series(labels, but)
    }

    fn time_of(&self, sample: &Sample<'_>) -> u64 {
        sample.timestamp.and_then(nanos).unwrap_or(self.time)
    }

    fn scope(&mut self, labels: &[Label<'_>]) -> usize {
        scope(labels).map_or(0, |scope| self.packer.scope(scope))
    }

    fn unit(&self, name: &str) -> String {
        let kind = match self.family.metric_type {
            MetricType::Counter => InstrumentKind::Counter,
            MetricType::Histogram | MetricType::Summary => InstrumentKind::Histogram,
            _ => InstrumentKind::Gauge,
        };
        self.family.unit.map(|unit| unit_of(name, unit, kind)).unwrap_or_default()
    }

    fn push<P>(&mut self, groups: Groups<'e, P>, data: impl Fn(Vec<P>) -> Data) {
        for ((name, scope), points) in groups.all {
            let metric = Metric {
                name: name.to_owned(),
                description: self.family.help.as_deref().unwrap_or_default().to_owned(),
                unit: self.unit(name),
                metadata: vec![text("prometheus.type", self.family.metric_type.as_str())],
                data: Some(data(points)),
            };
            if let Some(translated) = self.translation.and_then(|names| names.translate(&metric)) {
                let scope = self
                    .packer
                    .scope(Scope { scope: protobuf::scope(), schema_url: SCHEMA_URL.to_owned() });
                self.packer.push(scope, translated);
            }
            if self.is_in_set {
                self.packer.push(scope, metric);
            }
        }
    }
}
