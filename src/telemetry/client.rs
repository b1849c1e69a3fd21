//! `aiperf.run.info`, and the `aiperf.client.*` metrics of a phase: the size of the record queue, and
//! client health at the end; the `aiperf.load.*` metrics with the health of the load at the end, and the
//! `aiperf.output.*` metrics. The client's values for single requests are among the
//! [instruments](super::instruments) of requests.

use std::collections::HashSet;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Meter};

use base::semconv::{Definition, attribute, metric};
use base::setting::Named as _;
use client::runner::QueueStats;
use client::schedule::PhaseKind;
use measure::metrics::ClientHealth;
use measure::metrics::health::{ErrorBounds, LoadHealth, MetricBounds, OutputHealth};
use measure::metrics::output::Faults;

use super::Identity;
use super::attributes::PhaseAttributes;

/// A gauge, and the accessor of its value in the client health.
type Row = (Definition, fn(&ClientHealth) -> Option<f64>);

const ROWS: &[Row] = &[
    (metric::AIPERF_CLIENT_CPU_UTILIZATION, |health| Some(health.cpu?.process)),
    (metric::AIPERF_CLIENT_WORKER_CPU_UTILIZATION, |health| Some(health.cpu?.worker_max)),
    (metric::AIPERF_CLIENT_RATE_RATIO, |health| health.rate_ratio),
    (metric::AIPERF_CLIENT_ERROR_BOUND_THROUGHPUT, |health| {
        let bounds = health.throughput_bounds?;
        Some(bounds.above_percent.max(bounds.below_percent) / 100.0)
    }),
    (metric::AIPERF_CLIENT_VERDICT, |health| Some(health.verdict?.level().into())),
];

/// A gauge, and the accessor of its value in the health of the load.
type LoadRow = (Definition, fn(&LoadHealth) -> Option<f64>);

const LOAD: [LoadRow; 5] = [
    (metric::AIPERF_LOAD_VERDICT, |health| Some(health.verdict.level().into())),
    (metric::AIPERF_LOAD_OFFERED_RATE, |health| Some(health.offered_rate)),
    (metric::AIPERF_LOAD_SERVED_RATE, |health| Some(health.served_rate)),
    (metric::AIPERF_LOAD_QUEUE_GROWTH, |health| Some(health.queue_slope?.value)),
    (metric::AIPERF_LOAD_LATENCY_DRIFT, |health| Some(health.latency_drift_percent?.value / 100.0)),
];

/// A gauge with values of each percentile, and the accessor of a metric's bounds.
type BoundRow = (Definition, fn(&ErrorBounds) -> Option<MetricBounds>);

const BOUNDS: [BoundRow; 3] = [
    (metric::AIPERF_CLIENT_ERROR_BOUND_TIME_TO_FIRST_TOKEN, |bounds| bounds.time_to_first_token),
    (metric::AIPERF_CLIENT_ERROR_BOUND_INTER_TOKEN_LATENCY, |bounds| bounds.inter_token_latency),
    (metric::AIPERF_CLIENT_ERROR_BOUND_REQUEST_LATENCY, |bounds| bounds.request_latency),
];

/// The gauges with the ends of the confidence interval of each percentile.
const INTERVALS: [BoundRow; 3] = [
    (metric::AIPERF_SAMPLE_INTERVAL_TIME_TO_FIRST_TOKEN, |bounds| bounds.time_to_first_token),
    (metric::AIPERF_SAMPLE_INTERVAL_INTER_TOKEN_LATENCY, |bounds| bounds.inter_token_latency),
    (metric::AIPERF_SAMPLE_INTERVAL_REQUEST_LATENCY, |bounds| bounds.request_latency),
];

const SPILLED: Definition = metric::AIPERF_CLIENT_QUEUE_SPILLED;
const TRACES_LOST: Definition = metric::AIPERF_CLIENT_TRACES_LOST;

/// The instruments, and the values that the counters have received.
#[derive(Debug)]
pub(super) struct Client {
    attributes: PhaseAttributes,
    queue_size: Gauge<u64>,
    spilled: Counter<u64>,
    traces_lost: Counter<u64>,
    gauges: Vec<Gauge<f64>>,
    load: Vec<Gauge<f64>>,
    output: Gauge<f64>,
    faults: Counter<u64>,
    bounds: Vec<Gauge<f64>>,
    intervals: Vec<Gauge<f64>>,
    reason: Gauge<f64>,
    info: Gauge<f64>,
    /// Number of spilled records counted so far, over all phases.
    spilled_before: u64,
    /// Number of lost traces counted so far, over all phases.
    lost_before: u64,
    /// The phases in which the counter of lost traces has received a value.
    phases_of_traces: HashSet<PhaseKind>,
}

impl Client {
    pub(super) fn new(meter: &Meter, attributes: PhaseAttributes) -> Self {
        let size = metric::AIPERF_CLIENT_QUEUE_SIZE;
        let counter = |row: Definition| {
            meter.u64_counter(row.name).with_unit(row.unit).with_description(row.brief).build()
        };
        let gauge = |row: Definition| {
            meter.f64_gauge(row.name).with_unit(row.unit).with_description(row.brief).build()
        };
        Self {
            attributes,
            queue_size: meter
                .u64_gauge(size.name)
                .with_unit(size.unit)
                .with_description(size.brief)
                .build(),
            spilled: counter(SPILLED),
            traces_lost: counter(TRACES_LOST),
            gauges: ROWS.iter().map(|(row, _)| gauge(*row)).collect(),
            load: LOAD.iter().map(|(row, _)| gauge(*row)).collect(),
            output: gauge(metric::AIPERF_OUTPUT_VERDICT),
            faults: counter(metric::AIPERF_OUTPUT_FAULTS),
            bounds: BOUNDS.iter().map(|(row, _)| gauge(*row)).collect(),
            intervals: INTERVALS.iter().map(|(row, _)| gauge(*row)).collect(),
            reason: gauge(metric::AIPERF_CLIENT_VERDICT_REASON),
            info: gauge(metric::AIPERF_RUN_INFO),
            spilled_before: 0,
            lost_before: 0,
            phases_of_traces: HashSet::new(),
        }
    }

    /// Records the settings of the run.
    pub(super) fn run(&self, identity: &Identity) {
        let info = &identity.info;
        let url = identity.urls.first().cloned().unwrap_or_default();
        let optional = [
            (attribute::AIPERF_RUN_INPUT_TOKENS, &info.input_tokens),
            (attribute::AIPERF_RUN_OUTPUT_TOKENS, &info.output_tokens),
            (attribute::AIPERF_RUN_OBJECTIVES, &info.objectives),
        ];
        let mut attributes = self.attributes.for_kind(PhaseKind::Profiling);
        attributes.push(KeyValue::new(attribute::AIPERF_RUN_LOAD, info.load.clone()));
        let url = url.trim_end_matches('/').to_owned();
        attributes.push(KeyValue::new(attribute::AIPERF_RUN_URL, url));
        attributes.extend(
            optional
                .into_iter()
                .filter_map(|(key, value)| Some(KeyValue::new(key, value.clone()?))),
        );
        self.info.record(1.0, &attributes);
    }

    /// Records the size of the queue in `phase`.
    pub(super) fn queue(&mut self, phase: PhaseKind, stats: &QueueStats) {
        let attributes = self.attributes.for_kind(phase);
        self.queue_size.record(stats.bytes as u64, &attributes);
        // The counter is reduced by records that turned out not to have been written.
        let more = stats.spilled_records.saturating_sub(self.spilled_before);
        if more > 0 {
            self.spilled_before = stats.spilled_records;
            self.spilled.add(more, &attributes);
        }
    }

    /// Records the number of traces lost so far. A count of 0 is recorded too, so that the counter
    /// exists before it grows.
    pub(super) fn traces(&mut self, phase: PhaseKind, lost: u64) {
        let more = lost.saturating_sub(self.lost_before);
        if self.phases_of_traces.insert(phase) || more > 0 {
            self.lost_before += more;
            self.traces_lost.add(more, &self.attributes.for_kind(phase));
        }
    }

    pub(super) fn health(&self, phase: PhaseKind, health: &ClientHealth) {
        let attributes = self.attributes.for_kind(phase);
        for (gauge, (_, value)) in self.gauges.iter().zip(ROWS) {
            if let Some(value) = value(health).filter(|value| value.is_finite()) {
                gauge.record(value, &attributes);
            }
        }
        self.percentiles(&attributes, &health.error_bounds_ms.unwrap_or_default());
        for reason in &health.reasons {
            let which = KeyValue::new(attribute::AIPERF_CLIENT_FINDING, reason.finding.clone());
            let attributes: Vec<_> = attributes.iter().cloned().chain([which]).collect();
            self.reason.record(reason.verdict.level().into(), &attributes);
        }
    }

    pub(super) fn load_health(&self, health: &LoadHealth) {
        let attributes = self.attributes.for_kind(PhaseKind::Profiling);
        for (gauge, (_, value)) in self.load.iter().zip(&LOAD) {
            if let Some(value) = value(health).filter(|value| value.is_finite()) {
                gauge.record(value, &attributes);
            }
        }
    }

    pub(super) fn output_health(&self, health: &OutputHealth) {
        if let Some(verdict) = health.verdict {
            let attributes = self.attributes.for_kind(PhaseKind::Profiling);
            self.output.record(verdict.level().into(), &attributes);
        }
    }

    /// Counts the faults of an output.
    pub(super) fn faults(&self, phase: PhaseKind, faults: Faults) {
        for fault in faults.iter() {
            let fault = KeyValue::new(attribute::AIPERF_OUTPUT_FAULT, fault.name());
            let attributes = [self.attributes.for_kind(phase), vec![fault]].concat();
            self.faults.add(1, &attributes);
        }
    }

    /// Records the error bound and the confidence interval of each percentile.
    fn percentiles(&self, attributes: &[KeyValue], bounds: &ErrorBounds) {
        let with = |more: &[KeyValue]| [attributes, more].concat();
        let with_percentile =
            |percentile: i64| KeyValue::new(attribute::AIPERF_PERCENTILE, percentile);
        for (gauge, (_, of_metric)) in self.bounds.iter().zip(&BOUNDS) {
            for (percentile, bound) in of_metric(bounds).iter().flat_map(MetricBounds::percentiles)
            {
                gauge.record(bound.error() / 1e3, &with(&[with_percentile(percentile)]));
            }
        }
        for (gauge, (_, of_metric)) in self.intervals.iter().zip(&INTERVALS) {
            for (percentile, bound) in of_metric(bounds).iter().flat_map(MetricBounds::percentiles)
            {
                for (end, value) in ["lower", "upper"].into_iter().zip(bound.sample_interval()) {
                    let Some(value) = value else { continue };
                    let end = KeyValue::new(attribute::AIPERF_INTERVAL_END, end);
                    gauge.record(value / 1e3, &with(&[with_percentile(percentile), end]));
                }
            }
        }
    }
}
