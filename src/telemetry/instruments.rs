//! Records finished requests and the results of phases with the instruments.

use std::collections::HashMap;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{BoundCounter, BoundHistogram, Counter, Histogram, Meter};

use base::lock::Lock;
use base::semconv::{Definition, InstrumentKind, MetricSpec, attribute, metric};
use client::record::SseEvent;
use client::schedule::PhaseKind;
use measure::metrics::metric::{Distribution, MeasuredRecord, MetricResult, Value};
use measure::metrics::otel::{Instrument, Scale};
use measure::metrics::tag::{self, MetricTag, TagMap};
use measure::metrics::time_breakdown::Division;
use measure::metrics::{Metric, Registry};

use super::attributes::{Interner, PhaseAttributes, SetKey};
use super::exemplars::{Exemplars, Offers, Slot};
use super::gen_ai::{GenAiColumns, GenAiMeters, Modalities};
use super::metric_set::MetricSet;

/// Indices of the columns that are not in the catalogue.
const SCHEDULE_SLIP: usize = 0;
const RETRIES: usize = 1;
const READ_LAG: usize = 2;
const STAMP_UNCERTAINTY: usize = 3;

/// The latencies that are divided.
const TIME_BREAKDOWN: [(MetricTag, Definition); 2] = [
    (tag::TIME_TO_FIRST_TOKEN, metric::AIPERF_TIME_BREAKDOWN_TIME_TO_FIRST_TOKEN),
    (tag::REQUEST_LATENCY, metric::AIPERF_TIME_BREAKDOWN_REQUEST_LATENCY),
];

/// The instruments for requests and results.
#[derive(Debug)]
pub(super) struct Instruments {
    meter: Meter,
    set: MetricSet,
    columns: Vec<Column>,
    gen_ai: GenAiColumns,
    /// The targets of a request's values, by metric.
    distributions: TagMap<Vec<Target>>,
    /// The targets of increments of counts and sums.
    counters: TagMap<Vec<Target>>,
    phases: PhaseAttributes,
    sets: Lock<Sets>,
    /// Present if values may become exemplars.
    exemplars: Option<Arc<Exemplars>>,
    not_exported: Lock<Vec<String>>,
}

/// A target of a metric's values, with the factor for the instrument's unit.
#[derive(Debug, Clone, Copy)]
struct Target {
    column: usize,
    /// The columns of modalities other than text, if it has these.
    modalities: Option<Modalities>,
    scale: Scale,
    /// Whether it takes the values of failed requests, or those of the others.
    of_failed: bool,
}

/// An instrument, with the attribute that distinguishes this use of it.
#[derive(Debug)]
pub(super) struct Column {
    spec: MetricSpec,
    handle: Handle,
    extra: Option<KeyValue>,
    /// Whether the attribute set of a failed request applies without its error.
    ignores_errors: bool,
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

/// An attribute set and its series, by column. A series begins with its first value; an instrument
/// that is bound earlier would export an empty point.
#[derive(Debug)]
struct Set {
    attributes: Vec<KeyValue>,
    series: Lock<Vec<Option<Series>>>,
}

/// A series, and the reservoir of its exemplars.
#[derive(Debug)]
struct Series {
    bound: Bound,
    exemplars: Option<Slot>,
}

#[derive(Debug)]
enum Bound {
    Histogram(BoundHistogram<f64>),
    Counter(BoundCounter<f64>),
}

impl Instruments {
    /// Creates the instruments of `catalogue` and those of the conventions.
    pub(super) fn new(
        meter: Meter,
        set: MetricSet,
        gen_ai: &GenAiMeters,
        catalogue: &[&'static Metric],
        interner: Interner,
        exemplars: Option<Arc<Exemplars>>,
    ) -> Self {
        let mut columns = fixed_columns(&meter);
        let gen_ai = GenAiColumns::new(gen_ai, &mut columns);
        let mut distributions: TagMap<Vec<Target>> = TagMap::default();
        let mut counters: TagMap<Vec<Target>> = TagMap::default();
        for row in catalogue {
            let Some(instrument) = row.instrument() else { continue };
            // A counted metric may also have a value among those of a request.
            let by_tag = match instrument.spec.kind {
                InstrumentKind::Histogram => &mut distributions,
                _ => &mut counters,
            };
            let targets = by_tag.slot_mut(row.tag).get_or_insert_default();
            let of_failed = row.is_counted_of(true);
            let scale = instrument.scale;
            targets.extend(gen_ai.for_metric(row.tag).map(|(column, modalities)| Target {
                column,
                modalities,
                scale,
                of_failed,
            }));
            let stage = instrument.stage.map(|of| KeyValue::new(attribute::AIPERF_STAGE, of));
            let spec = set.instrument(instrument.spec);
            if let Some(column) = spec.and_then(|spec| Column::new(&meter, &spec, stage)) {
                let place = columns.len();
                targets.push(Target { column: place, modalities: None, scale, of_failed });
                columns.push(column);
            }
        }
        Self {
            meter,
            set,
            columns,
            gen_ai,
            distributions,
            counters,
            phases: interner.of_phases(),
            sets: Lock::new(Sets { interner, known: HashMap::new() }),
            exemplars,
            not_exported: Lock::new(Vec::new()),
        }
    }

    /// Records a finished request, and offers its values as exemplars.
    pub(super) fn record(
        &self,
        measured: &MeasuredRecord,
        registry: &Registry,
        offers: &mut Offers,
    ) {
        let set = self.set(measured);
        let mut series = set.series.lock();
        let mut add = |column, value| {
            if let Some(Series { exemplars: Some(slot), .. }) =
                self.add(&set.attributes, &mut series, column, value)
            {
                offers.offer(slot, value);
            }
        };
        let failed = measured.observation.error.is_some();
        // As in the statistics, what is left out is only counted.
        let is_left_out = registry.settings().leaves_out(&measured.observation);
        let values = measured.observation.values.iter().filter(|_| !is_left_out);
        for (tag, value) in values {
            let Some(targets) = self.distributions.get(tag) else { continue };
            for target in targets.iter().filter(|to| to.of_failed == failed) {
                let column = target.column;
                match value {
                    Value::Scalar(value) => match target.modalities {
                        Some(of) => of.split(measured, column, *value, |column, value| {
                            add(column, target.scale.convert(value));
                        }),
                        None => add(column, target.scale.convert(*value)),
                    },
                    Value::List(values) => {
                        for value in values {
                            add(column, target.scale.convert(*value));
                        }
                    }
                }
            }
        }
        for (tag, increment) in registry.aggregates(&measured.observation) {
            for target in self.counters.get(tag).into_iter().flatten() {
                add(target.column, target.scale.convert(increment));
            }
        }
        let record = &measured.record;
        let further = self.gen_ai.further(measured).filter(|_| !is_left_out);
        further.for_each(|(column, value)| add(column, value));
        if let Some(due) = record.due {
            add(SCHEDULE_SLIP, record.start.since(due).as_seconds());
        }
        add(RETRIES, f64::from(record.retry_count));
        // Without a count of reads, nothing is known about them.
        if record.trace.socket_reads > 0 {
            for SseEvent { arrival, .. } in &record.body.events {
                add(STAMP_UNCERTAINTY, f64::from(arrival.uncertainty) / 1e9);
                if record.trace.kernel_stamps > 0 {
                    add(READ_LAG, f64::from(arrival.read_lag) / 1e9);
                }
            }
        }
    }

    /// Records results as gauges: single values and percentiles. They are those of the phase with the
    /// `index`, or without one of all phases of the kind.
    pub(super) fn results(&self, phase: PhaseKind, index: Option<u32>, results: &[MetricResult]) {
        let attributes = match index {
            Some(index) => self.phases.of_one(phase, index),
            None => self.phases.for_kind(phase),
        };
        for MetricResult { metric, stats } in results {
            let own_unit = |value| metric.display_unit.convert(value, metric.unit);
            if let Some(Instrument { spec, scale, .. }) = metric.instrument()
                && spec.kind == InstrumentKind::Gauge
            {
                self.gauge(&spec.name, &spec, scale.convert(own_unit(stats.avg)), &attributes);
            }
            if let Some(distribution) = &stats.distribution
                && let Some(Instrument { spec, scale, .. }) = metric.percentiles_instrument()
            {
                // Some percentiles may be missing, and if requests fail the upper ones may be
                // infinite.
                let known = percentiles(distribution).into_iter().filter(|(_, v)| v.is_finite());
                for (percentile, value) in known {
                    let which = KeyValue::new(attribute::AIPERF_PERCENTILE, percentile);
                    let attributes: Vec<_> = attributes.iter().cloned().chain([which]).collect();
                    self.gauge(&spec.name, &spec, scale.convert(own_unit(value)), &attributes);
                }
            }
        }
    }

    /// Records statistics of the steady state of the profiling phase as gauges.
    pub(super) fn steady_state(&self, results: &[MetricResult]) {
        let attributes = self.phases.for_kind(PhaseKind::Profiling);
        for MetricResult { metric, stats } in results {
            let Some(Instrument { spec, scale, .. }) = metric.steady_state_instrument() else {
                continue;
            };
            let own_unit = |value| metric.display_unit.convert(value, metric.unit);
            let percentiles = stats.distribution.iter().flat_map(|of| {
                [("p50", of.p50), ("p90", of.p90), ("p95", of.p95), ("p99", of.p99)]
            });
            for (statistic, value) in [("avg", stats.avg)].into_iter().chain(percentiles) {
                let which = KeyValue::new(attribute::AIPERF_STATISTIC, statistic);
                let attributes: Vec<_> = attributes.iter().cloned().chain([which]).collect();
                self.gauge(&spec.name, &spec, scale.convert(own_unit(value)), &attributes);
            }
        }
    }

    /// Records the parts of the mean latencies of the profiling phase as gauges.
    pub(super) fn time_breakdown(&self, division: &Division) {
        let attributes = self.phases.for_kind(PhaseKind::Profiling);
        for (tag, definition) in TIME_BREAKDOWN {
            let spec = MetricSpec::from(&definition);
            for part in division.get(tag).iter().flat_map(|divided| &divided.parts) {
                let which = KeyValue::new(attribute::AIPERF_STAGE, part.stage.name());
                let attributes: Vec<_> = attributes.iter().cloned().chain([which]).collect();
                self.gauge(&spec.name, &spec, part.mean_ms / 1e3, &attributes);
            }
        }
    }

    /// Returns the gauges without a finite value.
    pub(super) fn not_exported(&self) -> Vec<String> {
        self.not_exported.lock().clone()
    }

    /// Records a gauge, if it is in the set. OpenTelemetry silently drops values that are not finite,
    /// so these are noted here.
    fn gauge(&self, name: &str, spec: &MetricSpec, value: f64, attributes: &[KeyValue]) {
        if !self.set.includes(name) {
            return;
        }
        if !value.is_finite() {
            let mut not_exported = self.not_exported.lock();
            if !not_exported.iter().any(|have| have == name) {
                not_exported.push(name.to_owned());
            }
            return;
        }
        let gauge = self.meter.f64_gauge(name.to_owned());
        gauge.with_unit(spec.unit).with_description(spec.brief).build().record(value, attributes);
    }

    fn set(&self, measured: &MeasuredRecord) -> Arc<Set> {
        let mut sets = self.sets.lock();
        let key = sets.interner.key(measured);
        if let Some(set) = sets.known.get(&key) {
            return Arc::clone(set);
        }
        let series = self.columns.iter().map(|_| None).collect();
        let attributes = sets.interner.attributes(key);
        let set = Arc::new(Set { attributes, series: Lock::new(series) });
        sets.known.insert(key, Arc::clone(&set));
        set
    }

    /// Adds a value to the series of a set, and returns the series; `None` if there is nothing to
    /// add.
    fn add<'s>(
        &self,
        set: &[KeyValue],
        series: &'s mut [Option<Series>],
        column: usize,
        value: f64,
    ) -> Option<&'s Series> {
        let (of, slot) = self.columns.get(column).zip(series.get_mut(column))?;
        // Only the counters of usage have to be there although nothing was counted.
        let is_counter = matches!(of.handle, Handle::Counter(_));
        if !value.is_finite() || (is_counter && value <= 0.0 && !of.ignores_errors) {
            return None;
        }
        let series = slot.get_or_insert_with(|| self.bind(of, set));
        match &series.bound {
            Bound::Histogram(histogram) => histogram.record(value),
            Bound::Counter(counter) => counter.add(value),
        }
        Some(series)
    }

    fn bind(&self, column: &Column, set: &[KeyValue]) -> Series {
        let is_told =
            |pair: &&KeyValue| !column.ignores_errors || pair.key.as_str() != attribute::ERROR_TYPE;
        let attributes: Vec<_> = set.iter().filter(is_told).chain(&column.extra).cloned().collect();
        let bound = match &column.handle {
            Handle::Histogram(histogram) => Bound::Histogram(histogram.bind(&attributes)),
            Handle::Counter(counter) => Bound::Counter(counter.bind(&attributes)),
        };
        let exemplars = self.exemplars.as_ref();
        Series { bound, exemplars: exemplars.map(|all| all.slot(&column.spec, &attributes)) }
    }
}

impl Column {
    /// Creates a column; `None` for gauges, which do not have a value for a single request.
    pub(super) fn new(meter: &Meter, spec: &MetricSpec, extra: Option<KeyValue>) -> Option<Self> {
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
        Some(Self { spec: spec.clone(), handle, extra, ignores_errors: false })
    }

    /// Returns the column for points that failed requests share with the others.
    pub(super) fn ignoring_errors(self) -> Self {
        Self { ignores_errors: true, ..self }
    }
}

/// Creates the columns of client health, in the order of their indices.
fn fixed_columns(meter: &Meter) -> Vec<Column> {
    let columns: [_; STAMP_UNCERTAINTY + 1] = [
        metric::AIPERF_CLIENT_SCHEDULE_SLIP,
        metric::AIPERF_CLIENT_RETRIES,
        metric::AIPERF_CLIENT_READ_LAG,
        metric::AIPERF_CLIENT_STAMP_UNCERTAINTY,
    ];
    let made = columns.iter().map(|definition| Column::new(meter, &definition.into(), None));
    made.flatten().collect()
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
