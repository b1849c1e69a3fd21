//! The pipeline: each record and each phase snapshot is observed once and told
//! to OpenTelemetry and to the in-process reader.
//!
//! The reader has two halves that check each other. The aggregated half is a
//! tee around the OTLP exporter that keeps the last cumulative export; the
//! exact half counts, sums and buckets every value itself. At the end of the
//! run the two are compared, so that what the collector was told is known to
//! be what was measured. Nothing here runs on the measured path, and no
//! collector, however slow or dead, delays a caller or fails a run.

mod attributes;
mod client;
mod collector;
mod combined;
mod config;
mod connection;
mod error;
mod exact;
mod instruments;
pub mod pipeline;
mod protobuf;
mod queue;
mod reconcile;
mod report;
mod resource;
mod scrape_forwarder;
mod send;
mod settings;
mod tee;
mod timing;
mod trace_sample;
mod traces;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, InstrumentKind as SdkKind, PeriodicReader, SdkMeterProvider, Stream,
};

use crate::metrics::metric::{MeasuredRecord, MetricResult, MetricTag};
use crate::metrics::{ClientHealth, Metric};
use crate::runner::QueueStats;
use crate::schedule::{PhaseKind, PhaseStats};
use crate::semconv::SCHEMA_URL;
use crate::server_metrics::Scrape;
use crate::units::{Clock, Nanos};

pub use self::config::{Config, Identity, Streams};
pub use self::error::TelemetryError;
pub use self::report::TelemetryReport;
pub use self::scrape_forwarder::ScrapesReport;
pub use self::trace_sample::{TraceSample, TraceSampleError};
pub use self::traces::TracesReport;

use self::client::Client;
use self::connection::Connection;
use self::instruments::Instruments;
use self::scrape_forwarder::ScrapeForwarder;
use self::settings::{Destination, Settings};
use self::tee::{Tee, TeeState};
use self::timing::Timing;
use self::traces::Traces;

/// After the deadline the collector is waited for no longer; what remains is
/// one local collection, for which this is plenty.
const LOCAL_COLLECTION: Duration = Duration::from_secs(1);

/// How long the final export is tried again when the collector does not take
/// it: it may be starting anew.
const FINAL_RETRIES: Nanos = Nanos(2_000_000_000);

/// Between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Without a collector only the final collection is wanted.
const NEVER: Duration = Duration::from_hours(365 * 24);

/// Buckets of a base-2 exponential histogram, as OpenTelemetry's default.
const EXPONENTIAL_MAX_SIZE: u32 = 160;

/// Whether `config` and the variables of `environment` make sense together. Nothing is
/// sent or connected.
pub fn check(
    config: &Config,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(), TelemetryError> {
    Settings::resolve(config, environment).map(drop)
}

/// Takes what was measured and tells it to the collector and to the reader.
#[derive(Debug)]
pub struct Telemetry {
    instruments: Option<Instruments>,
    client: Option<Mutex<Client>>,
    timing: Option<Mutex<Timing>>,
    scrapes: Option<ScrapeForwarder>,
    traces: Option<Traces>,
    tee: Arc<TeeState>,
    endpoint: Option<String>,
    /// `None` once `finish` has taken it.
    provider: Mutex<Option<SdkMeterProvider>>,
}

impl Telemetry {
    /// Starts exporting, by `config` and the process's `OTEL_*` variables.
    ///
    /// Returns at once: whether the collector answers shows later.
    pub fn start(
        config: &Config,
        identity: &Identity,
        catalogue: &[&'static Metric],
    ) -> Result<Self, TelemetryError> {
        Self::start_in(config, identity, catalogue, &|name| std::env::var(name).ok())
    }

    /// As [`Telemetry::start`], with variables looked up by `environment`.
    pub fn start_in(
        config: &Config,
        identity: &Identity,
        catalogue: &[&'static Metric],
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, TelemetryError> {
        let settings = Settings::resolve(config, environment)?;
        let exponential = settings.exponential;
        let interval = if settings.destination.is_some() { settings.interval } else { NEVER };
        let endpoint = settings.destination.as_ref().map(|to| to.url.to_string());
        let resource = resource::build(config, identity, &settings);
        let (connection, to_traces) = connect(settings.destination, settings.traces)?;
        let traces = to_traces.zip(config.trace_sample).map(|(connection, sample)| {
            Traces::start(connection, sample, (config, identity), &resource, settings.interval)
        });
        let scrapes = connection
            .clone()
            .filter(|_| config.streams.metrics)
            .map(|connection| ScrapeForwarder::start(connection, config, identity));
        let (tee, state) = Tee::new(connection)?;

        let describe = attributes::Interner::new(config, identity);
        let limit = describe.cardinality_limit();
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_reader(PeriodicReader::builder(tee).with_interval(interval).build())
            .with_view(move |instrument: &Instrument| view(instrument, limit, exponential))
            .build();
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"))
            .with_version(env!("CARGO_PKG_VERSION"))
            .with_schema_url(SCHEMA_URL)
            .build();
        let meter = provider.meter_with_scope(scope);

        let timing =
            config.streams.timing.then(|| Mutex::new(Timing::new(&meter, describe.of_phases())));
        let client =
            config.streams.metrics.then(|| Mutex::new(Client::new(&meter, describe.of_phases())));
        let instruments = config
            .streams
            .metrics
            .then(|| Instruments::new(meter, catalogue, describe, exponential));
        let provider = Mutex::new(Some(provider));
        Ok(Self { instruments, client, timing, scrapes, traces, tee: state, endpoint, provider })
    }

    /// Records a finished request: its values, and the increments it gives to
    /// the sum aggregates (`request_count` 1, …), each in its metric's own unit.
    ///
    /// Any thread may call it; it never waits for the collector.
    pub fn record(&self, measured: &MeasuredRecord, aggregates: &[(MetricTag, f64)]) {
        if let Some(instruments) = &self.instruments {
            instruments.record(measured, aggregates);
        }
        if let Some(traces) = &self.traces {
            traces.observe(measured);
        }
    }

    /// Tells how far a phase is. Instruments get the difference to the phase's
    /// previous snapshot; none where that is below 1e-9.
    pub fn phase(&self, stats: &PhaseStats) {
        if let Some(timing) = &self.timing {
            lock(timing).snapshot(stats);
        }
    }

    /// Tells how full the queue of records is while `phase` goes on, and how many
    /// traces were lost by now.
    pub fn queue(&self, phase: PhaseKind, stats: &QueueStats) {
        if let Some(client) = &self.client {
            let mut client = lock(client);
            client.queue(phase, stats);
            if let Some(traces) = &self.traces {
                client.traces(phase, traces.lost());
            }
        }
    }

    /// Tells how the client did in a phase.
    pub fn health(&self, phase: PhaseKind, health: &ClientHealth) {
        if let Some(client) = &self.client {
            lock(client).health(phase, health);
        }
    }

    /// Forwards what an endpoint exposed. Never waits for the collector.
    pub fn scrape(&self, scrape: &Scrape<'_>) {
        if let Some(scrapes) = &self.scrapes {
            scrapes.forward(scrape);
        }
    }

    /// Tells a phase's final results: derived metrics as gauges, and the exact
    /// percentiles of the distributions.
    pub fn results(&self, phase: PhaseKind, results: &[MetricResult]) {
        if let Some(instruments) = &self.instruments {
            instruments.results(phase, results);
        }
    }

    /// Exports what is left, compares both halves of the reader and shuts down.
    ///
    /// Call it when nothing records any more; whoever still holds this, as a scrape
    /// that took too long may, does not keep the final values back. Waits for the
    /// collector until `deadline` and then gives it up; the comparison is made all the
    /// same.
    #[must_use]
    pub fn finish(&self, deadline: Duration) -> TelemetryReport {
        let until = Instant::now() + deadline;
        // All are sent at once, and waited for no longer than one.
        self.scrapes.iter().for_each(ScrapeForwarder::close);
        self.traces.iter().for_each(Traces::close);
        let flushed = self.flush_and_shut_down(deadline);
        let mut report = TelemetryReport {
            endpoint: self.endpoint.clone(),
            delivered_final: flushed == Flushed::Exported && self.tee.last_export_was_taken(),
            ..self.tee.counts()
        };
        report.delivered_final &= report.endpoint.is_some();
        if flushed == Flushed::Not {
            report.discrepancies.push("the final values could not be collected in time".into());
        } else {
            report.discrepancies = reconcile::compare(&self.exact_series(), &self.tee.latest());
        }
        report.reconciled = report.discrepancies.is_empty();
        report.not_exported =
            self.instruments.as_ref().map(Instruments::not_exported).unwrap_or_default();
        let patience = until.saturating_duration_since(Instant::now());
        report.scrapes = self.scrapes.as_ref().and_then(|scrapes| scrapes.finish(patience));
        let patience = until.saturating_duration_since(Instant::now());
        report.traces = self.traces.as_ref().map(|traces| traces.finish(patience));
        report
    }

    /// The exact half: every series that must be in the final export.
    fn exact_series(&self) -> Vec<exact::Series> {
        let mut series =
            self.instruments.as_ref().map(Instruments::exact_series).unwrap_or_default();
        if let Some(timing) = &self.timing {
            series.extend(lock(timing).exact_series());
        }
        if let Some(client) = &self.client {
            series.extend(lock(client).exact_series());
        }
        series
    }

    /// The SDK's flush and shutdown have no deadline of their own, so a helper
    /// thread runs them, which ends on its own soon after we have stopped waiting.
    fn flush_and_shut_down(&self, deadline: Duration) -> Flushed {
        let Some(provider) = lock(&self.provider).take() else { return Flushed::Not };
        let (done, flushed) = mpsc::sync_channel(1);
        let tee = Arc::clone(&self.tee);
        let helper = thread::Builder::new().name("aiperf-otlp-end".into()).spawn(move || {
            // The tee knows how the export went; the SDK only repeats it.
            let _ = provider.force_flush();
            let until = Clock::now() + FINAL_RETRIES;
            while tee.misses_the_last_export() && Clock::now() < until {
                thread::sleep(RETRY_PAUSE);
                let _ = provider.force_flush();
            }
            // The shutdown collects once more: nothing new, so nothing to send.
            tee.close();
            let _ = done.send(());
            let _ = provider.shutdown();
        });
        if helper.is_err() {
            return Flushed::Not;
        }
        if flushed.recv_timeout(deadline).is_ok() {
            return Flushed::Exported;
        }
        tracing::warn!(
            "the collector did not take the final metrics within {} s; they are in the local files",
            deadline.as_secs_f64()
        );
        self.tee.give_up();
        match flushed.recv_timeout(LOCAL_COLLECTION) {
            Ok(()) => Flushed::CollectedOnly,
            Err(_) => Flushed::Not,
        }
    }
}

/// The ways that metrics and traces go: one where it serves both.
#[expect(clippy::type_complexity, reason = "one for each signal")]
fn connect(
    metrics: Option<Destination>,
    traces: Option<Destination>,
) -> Result<(Option<Arc<Connection>>, Option<Arc<Connection>>), TelemetryError> {
    let is_one = metrics.as_ref().zip(traces.as_ref()).is_some_and(|(a, b)| a.is_reached_like(b));
    let of_metrics = metrics.map(Connection::open).transpose()?;
    let of_traces = match (traces, &of_metrics) {
        (Some(traces), Some(connection)) if is_one => Some(connection.beside(traces)),
        (traces, _) => traces.map(Connection::open).transpose()?,
    };
    Ok((of_metrics, of_traces))
}

impl Drop for Telemetry {
    /// Without `finish` the run has failed: do not wait for a collector.
    fn drop(&mut self) {
        self.tee.give_up();
    }
}

/// How far the final flush came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flushed {
    /// The collector was told, or refused.
    Exported,
    /// The values were collected, but the collector did not answer in time.
    CollectedOnly,
    /// Not even collected.
    Not,
}

/// Every instrument's stream: room for all legitimate attribute sets, and
/// exponential buckets where they are wanted.
fn view(instrument: &Instrument, limit: usize, exponential: bool) -> Option<Stream> {
    let mut stream = Stream::builder().with_cardinality_limit(limit);
    if exponential && instrument.kind() == SdkKind::Histogram {
        stream = stream.with_aggregation(Aggregation::Base2ExponentialHistogram {
            max_size: EXPONENTIAL_MAX_SIZE,
            max_scale: exact::EXPONENTIAL_MAX_SCALE,
            record_min_max: true,
        });
    }
    stream.build().ok()
}

/// A lock whose holder panicked still guards sound counters.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
