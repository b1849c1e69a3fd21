//! What a finished request and a phase's results give to the instruments, and
//! to the exact half of the reader beside them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter};

use super::attributes::{Interner, PhaseAttributes, SetKey};
use super::exact::{Exact, Series};
use super::lock;
use crate::metrics::Metric;
use crate::metrics::metric::{
    Distribution, MeasuredRecord, MetricResult, MetricTag, TagMap, Value,
};
use crate::metrics::otel::Instrument;
use crate::record::SseEvent;
use crate::schedule::PhaseKind;
use crate::semconv::{InstrumentKind, MetricSpec, attribute, metric};

/// Columns that are not of the catalogue, by their place.
const DURATION: usize = 0;
const FIRST_CHUNK: usize = 1;
const PER_CHUNK: usize = 2;
const INPUT_TOKENS: usize = 3;
const OUTPUT_TOKENS: usize = 4;
const SCHEDULE_SLIP: usize = 5;
const RETRIES: usize = 6;
const READ_LAG: usize = 7;
const STAMP_UNCERTAINTY: usize = 8;

/// The GenAI metric that a metric of the catalogue also is.
const GEN_AI: [(MetricTag, usize); 5] = [
    ("request_latency", DURATION),
    ("time_to_first_token", FIRST_CHUNK),
    ("inter_token_latency", PER_CHUNK),
    ("input_sequence_length", INPUT_TOKENS),
    // Reasoning is billed and counted as output, so it is in here.
    ("output_sequence_length", OUTPUT_TOKENS),
];

/// The instruments that requests and results are recorded with.
#[derive(Debug)]
pub(super) struct Instruments {
    meter: Meter,
    columns: Vec<Column>,
    /// Where the values of requests go, by metric.
    distributions: TagMap<Vec<Target>>,
    /// Where increments of counts and sums go.
    counters: TagMap<Vec<Target>>,
    exponential: bool,
    phases: PhaseAttributes,
    sets: Mutex<Sets>,
    not_exported: Mutex<Vec<String>>,
}

/// Where a metric's values go, and the factor to the instrument's unit.
#[derive(Debug, Clone, Copy)]
struct Target {
    column: usize,
    scale: f64,
}

/// An instrument, and the attribute that sets this use of it apart.
#[derive(Debug)]
struct Column {
    name: String,
    handle: Handle,
    bounds: Arc<[f64]>,
    extra: Option<KeyValue>,
}

#[derive(Debug)]
enum Handle {
    Histogram(Histogram<f64>),
    Counter(Counter<f64>),
}

/// The attribute sets seen so far.
#[derive(Debug)]
struct Sets {
    interner: Interner,
    known: HashMap<SetKey, Arc<Set>>,
}

/// One attribute set and its series, by column.
#[derive(Debug)]
struct Set {
    attributes: Vec<KeyValue>,
    series: Mutex<Vec<Option<Bound>>>,
}

/// Both halves of one series. A series begins with its first value: an
/// instrument bound earlier would export an empty point.
#[derive(Debug)]
struct Bound {
    sdk: BoundHandle,
    exact: Exact,
}

#[derive(Debug)]
enum BoundHandle {
    Histogram(BoundHistogram<f64>),
    Counter(BoundCounter<f64>),
}

impl Instruments {
    /// Makes the instruments of `catalogue` and those of the conventions.
    pub(super) fn new(
        meter: Meter,
        catalogue: &[&'static Metric],
        interner: Interner,
        exponential: bool,
    ) -> Self {
        let mut columns = fixed_columns(&meter);
        let mut distributions: TagMap<Vec<Target>> = TagMap::default();
        let mut counters: TagMap<Vec<Target>> = TagMap::default();
        for row in catalogue {
            let Some(instrument) = row.instrument() else { continue };
            // What is counted may have a value among a request's own, too.
            let by_tag = match instrument.spec.kind {
                InstrumentKind::Histogram => &mut distributions,
                _ => &mut counters,
            };
            let targets = by_tag.entry(row.tag).or_default();
            let gen_ai = GEN_AI.iter().find(|(tag, _)| *tag == row.tag);
            targets.extend(
                gen_ai.map(|(_, column)| Target { column: *column, scale: instrument.scale }),
            );
            if let Some(column) = Column::new(&meter, &instrument.spec, None) {
                targets.push(Target { column: columns.len(), scale: instrument.scale });
                columns.push(column);
            }
        }
        Self {
            meter,
            columns,
            distributions,
            counters,
            exponential,
            phases: interner.of_phases(),
            sets: Mutex::new(Sets { interner, known: HashMap::new() }),
            not_exported: Mutex::new(Vec::new()),
        }
    }

    /// Records a finished request.
    pub(super) fn record(&self, measured: &MeasuredRecord, aggregates: &[(MetricTag, f64)]) {
        let set = self.set(measured);
        let mut series = lock(&set.series);
        let mut add = |column, value| self.add(&set.attributes, &mut series, column, value);
        let failed = measured.observation.error.is_some();
        for (tag, value) in measured.observation.values.iter() {
            let Some(targets) = self.distributions.get(tag) else { continue };
            // The duration of a failed request is told below, whatever it has.
            for target in targets.iter().filter(|to| !(failed && to.column == DURATION)) {
                match value {
                    Value::Scalar(value) => add(target.column, value * target.scale),
                    Value::List(values) => {
                        for value in values {
                            add(target.column, value * target.scale);
                        }
                    }
                }
            }
        }
        for (tag, increment) in aggregates {
            for target in self.counters.get(tag).into_iter().flatten() {
                add(target.column, increment * target.scale);
            }
        }
        let record = &measured.record;
        if failed {
            add(DURATION, record.end.since(record.start).as_seconds());
        }
        if let Some(due) = record.due {
            add(SCHEDULE_SLIP, record.start.since(due).as_seconds());
        }
        add(RETRIES, f64::from(record.retry_count));
        // Without a count of reads nothing is known of them.
        if record.trace.socket_reads > 0 {
            for SseEvent { arrival, .. } in &record.body.events {
                add(STAMP_UNCERTAINTY, f64::from(arrival.uncertainty) / 1e9);
                if record.trace.kernel_stamps > 0 {
                    add(READ_LAG, f64::from(arrival.read_lag) / 1e9);
                }
            }
        }
    }

    /// Tells a phase's results: single values and percentiles, as gauges.
    pub(super) fn results(&self, phase: PhaseKind, results: &[MetricResult]) {
        let attributes = self.phases.of(phase);
        for MetricResult { metric, stats } in results {
            let own_unit = |value| metric.display_unit.convert(value, metric.unit);
            if let Some(Instrument { spec, scale }) = metric.instrument()
                && spec.kind == InstrumentKind::Gauge
            {
                self.gauge(&spec.name, &spec, own_unit(stats.avg) * scale, &attributes);
            }
            if let Some(distribution) = &stats.distribution
                && let Some(Instrument { spec, scale }) = metric.percentiles_instrument()
            {
                // Some have not all of them, and where requests fail the upper ones
                // may be infinite.
                let known = percentiles(distribution).into_iter().filter(|(_, v)| v.is_finite());
                for (percentile, value) in known {
                    let which = KeyValue::new(attribute::AIPERF_PERCENTILE, percentile);
                    let attributes: Vec<_> = attributes.iter().cloned().chain([which]).collect();
                    self.gauge(&spec.name, &spec, own_unit(value) * scale, &attributes);
                }
            }
        }
    }

    /// The exact half: every series that has a value.
    pub(super) fn exact_series(&self) -> Vec<Series> {
        let sets: Vec<Arc<Set>> = lock(&self.sets).known.values().cloned().collect();
        let mut all = Vec::new();
        for set in sets {
            for (column, bound) in self.columns.iter().zip(lock(&set.series).iter()) {
                if let Some(bound) = bound {
                    all.push(Series {
                        name: column.name.clone(),
                        attributes: column.attributes(&set.attributes),
                        exact: bound.exact.clone(),
                    });
                }
            }
        }
        all
    }

    /// Gauges that had no finite value.
    pub(super) fn not_exported(&self) -> Vec<String> {
        lock(&self.not_exported).clone()
    }

    /// OpenTelemetry drops a value that is not finite without a word, so it is
    /// noted here.
    fn gauge(&self, name: &str, spec: &MetricSpec, value: f64, attributes: &[KeyValue]) {
        if !value.is_finite() {
            let mut not_exported = lock(&self.not_exported);
            if !not_exported.iter().any(|have| have == name) {
                not_exported.push(name.to_owned());
            }
            return;
        }
        let gauge = self.meter.f64_gauge(name.to_owned());
        gauge.with_unit(spec.unit).with_description(spec.brief).build().record(value, attributes);
    }

    fn set(&self, measured: &MeasuredRecord) -> Arc<Set> {
        let mut sets = lock(&self.sets);
        let key = sets.interner.key(measured);
        if let Some(set) = sets.known.get(&key) {
            return Arc::clone(set);
        }
        let series = self.columns.iter().map(|_| None).collect();
        let attributes = sets.interner.attributes(key);
        let set = Arc::new(Set { attributes, series: Mutex::new(series) });
        sets.known.insert(key, Arc::clone(&set));
        set
    }

    /// Gives a value to both halves of a series.
    fn add(
        &self,
        attributes: &[KeyValue],
        series: &mut [Option<Bound>],
        column: usize,
        value: f64,
    ) {
        let (Some(of), Some(slot)) = (self.columns.get(column), series.get_mut(column)) else {
            return;
        };
        let nothing = matches!(of.handle, Handle::Counter(_)) && value <= 0.0;
        if !value.is_finite() || nothing {
            return;
        }
        let bound = slot.get_or_insert_with(|| of.bind(attributes, self.exponential));
        bound.exact.add(value);
        match &bound.sdk {
            BoundHandle::Histogram(histogram) => histogram.record(value),
            BoundHandle::Counter(counter) => counter.add(value),
        }
    }
}

impl Column {
    /// `None` for gauges, which no single request gives.
    fn new(meter: &Meter, spec: &MetricSpec, extra: Option<KeyValue>) -> Option<Self> {
        let name = spec.name.clone();
        let handle = match spec.kind {
            InstrumentKind::Histogram => Handle::Histogram(
                meter
                    .f64_histogram(name)
                    .with_unit(spec.unit)
                    .with_description(spec.brief)
                    .with_boundaries(spec.boundaries.clone())
                    .build(),
            ),
            InstrumentKind::Counter => Handle::Counter(
                meter.f64_counter(name).with_unit(spec.unit).with_description(spec.brief).build(),
            ),
            InstrumentKind::UpDownCounter | InstrumentKind::Gauge => return None,
        };
        Some(Self {
            name: spec.name.clone(),
            handle,
            bounds: Arc::from(spec.boundaries.as_slice()),
            extra,
        })
    }

    fn attributes(&self, set: &[KeyValue]) -> Vec<KeyValue> {
        set.iter().chain(&self.extra).cloned().collect()
    }

    fn bind(&self, set: &[KeyValue], exponential: bool) -> Bound {
        let attributes = self.attributes(set);
        match &self.handle {
            Handle::Histogram(histogram) => Bound {
                sdk: BoundHandle::Histogram(histogram.bind(&attributes)),
                exact: if exponential {
                    Exact::exponential()
                } else {
                    Exact::explicit(&self.bounds)
                },
            },
            Handle::Counter(counter) => Bound {
                sdk: BoundHandle::Counter(counter.bind(&attributes)),
                exact: Exact::default(),
            },
        }
    }
}

/// The columns of the conventions and of the client's health, each in its place.
fn fixed_columns(meter: &Meter) -> Vec<Column> {
    let tokens = |of| Some(KeyValue::new(attribute::GEN_AI_TOKEN_TYPE, of));
    let columns: [_; STAMP_UNCERTAINTY + 1] = [
        (metric::GEN_AI_CLIENT_OPERATION_DURATION, None),
        (metric::GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK, None),
        (metric::GEN_AI_CLIENT_OPERATION_TIME_PER_OUTPUT_CHUNK, None),
        (metric::GEN_AI_CLIENT_TOKEN_USAGE, tokens("input")),
        (metric::GEN_AI_CLIENT_TOKEN_USAGE, tokens("output")),
        (metric::AIPERF_CLIENT_SCHEDULE_SLIP, None),
        (metric::AIPERF_CLIENT_RETRIES, None),
        (metric::AIPERF_CLIENT_READ_LAG, None),
        (metric::AIPERF_CLIENT_STAMP_UNCERTAINTY, None),
    ];
    let made = columns.into_iter().filter_map(|(definition, extra)| {
        Column::new(meter, &MetricSpec::from(&definition), extra)
    });
    made.collect()
}

fn percentiles(of: &Distribution) -> [(i64, f64); 9] {
    [
        (1, of.p1),
        (5, of.p5),
        (10, of.p10),
        (25, of.p25),
        (50, of.p50),
        (75, of.p75),
        (90, of.p90),
        (95, of.p95),
        (99, of.p99),
    ]
}
