//! `aiperf.client.*` of a phase: how full the queue of records is, and what the
//! client says of itself at the end. What single requests tell is among the
//! [instruments](super::instruments) of requests.

use std::collections::HashMap;

use opentelemetry::metrics::{Counter, Gauge, Meter};

use super::attributes::PhaseAttributes;
use super::exact::{Exact, Series};
use crate::metrics::ClientHealth;
use crate::runner::QueueStats;
use crate::schedule::PhaseKind;
use crate::semconv::{Definition, metric};

/// A gauge and where health has its value.
type Row = (Definition, fn(&ClientHealth) -> Option<f64>);

const ROWS: [Row; 4] = [
    (metric::AIPERF_CLIENT_CPU_UTILIZATION, |health| Some(health.cpu?.process)),
    (metric::AIPERF_CLIENT_WORKER_CPU_UTILIZATION, |health| Some(health.cpu?.worker_max)),
    (metric::AIPERF_CLIENT_RATE_RATIO, |health| health.rate_ratio),
    (metric::AIPERF_CLIENT_VERDICT, |health| Some(health.verdict?.level().into())),
];

const SPILLED: Definition = metric::AIPERF_CLIENT_QUEUE_SPILLED;
const TRACES_LOST: Definition = metric::AIPERF_CLIENT_TRACES_LOST;

/// The instruments and what they were told.
#[derive(Debug)]
pub(super) struct Client {
    attributes: PhaseAttributes,
    queue_size: Gauge<u64>,
    spilled: Counter<u64>,
    traces_lost: Counter<u64>,
    gauges: Vec<Gauge<f64>>,
    /// Spilled records that were told, over all phases.
    spilled_before: u64,
    /// Lost traces that were told, likewise.
    lost_before: u64,
    /// What each counter was told.
    told: HashMap<(&'static str, PhaseKind), Exact>,
}

impl Client {
    /// Makes the instruments.
    pub(super) fn new(meter: &Meter, attributes: PhaseAttributes) -> Self {
        let size = metric::AIPERF_CLIENT_QUEUE_SIZE;
        let counter = |row: Definition| {
            meter.u64_counter(row.name).with_unit(row.unit).with_description(row.brief).build()
        };
        let gauge = |(row, _): &Row| {
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
            gauges: ROWS.iter().map(gauge).collect(),
            spilled_before: 0,
            lost_before: 0,
            told: HashMap::new(),
        }
    }

    /// Tells how full the queue is in `phase`.
    pub(super) fn queue(&mut self, phase: PhaseKind, stats: &QueueStats) {
        let attributes = self.attributes.of(phase);
        self.queue_size.record(stats.bytes as u64, &attributes);
        // Records that turned out not to have been written are taken back.
        let more = stats.spilled_records.saturating_sub(self.spilled_before);
        if more > 0 {
            self.spilled_before = stats.spilled_records;
            self.spilled.add(more, &attributes);
            self.told.entry((SPILLED.name, phase)).or_default().add(more as f64);
        }
    }

    /// Tells how many traces were lost by now, none too: who watches the counter
    /// sees it grow.
    pub(super) fn traces(&mut self, phase: PhaseKind, lost: u64) {
        let more = lost.saturating_sub(self.lost_before);
        let told = self.told.entry((TRACES_LOST.name, phase)).or_default();
        if more > 0 || told.count == 0 {
            self.lost_before += more;
            self.traces_lost.add(more, &self.attributes.of(phase));
            told.add(more as f64);
        }
    }

    /// Tells what the client says of itself.
    pub(super) fn health(&self, phase: PhaseKind, health: &ClientHealth) {
        let attributes = self.attributes.of(phase);
        for (gauge, (_, value)) in self.gauges.iter().zip(&ROWS) {
            if let Some(value) = value(health).filter(|value| value.is_finite()) {
                gauge.record(value, &attributes);
            }
        }
    }

    /// What the final export must say.
    pub(super) fn exact_series(&self) -> Vec<Series> {
        let series = self.told.iter().map(|((name, phase), exact)| Series {
            name: (*name).to_owned(),
            attributes: self.attributes.of(*phase),
            exact: exact.clone(),
        });
        series.collect()
    }
}
