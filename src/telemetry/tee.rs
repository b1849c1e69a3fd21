//! The tee: keeps what goes to the collector, and how each export went.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use tokio::sync::watch;

use super::collector::Collector;
use super::connection::Connection;
use super::{TelemetryError, TelemetryReport, lock};
use crate::background::yield_to_measurement;

/// An exporter that passes everything on to the collector, if there is one.
///
/// It never reports a failure to the SDK, which would log each one as an
/// error; it counts them and warns once. Values are cumulative, so that what
/// one export misses is in the next.
#[derive(Debug)]
pub(super) struct Tee {
    collector: Option<Collector>,
    state: Arc<TeeState>,
    first: Once,
}

/// What the tee saw.
#[derive(Debug)]
pub(super) struct TeeState {
    latest: Mutex<ExportMetricsServiceRequest>,
    ok: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    last_taken: AtomicBool,
    /// The final export is done: what the interval still starts counts no more.
    closed: AtomicBool,
    given_up: watch::Sender<bool>,
}

impl Tee {
    /// A tee before the collector behind `connection`; what it sees is in the returned state.
    pub(super) fn new(
        connection: Option<Arc<Connection>>,
    ) -> Result<(Self, Arc<TeeState>), TelemetryError> {
        let state = Arc::new(TeeState {
            latest: Mutex::default(),
            ok: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            // Nothing to tell is nothing missed.
            last_taken: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            given_up: watch::Sender::new(false),
        });
        let collector = connection.map(Collector::new).transpose()?;
        Ok((Self { collector, state: Arc::clone(&state), first: Once::new() }, state))
    }

    /// Sends to `collector` until it answers, fails, or is given up.
    async fn send(&self, collector: &Collector, metrics: &ResourceMetrics) {
        let mut given_up = self.state.given_up.subscribe();
        if *given_up.borrow() {
            return;
        }
        let outcome = tokio::select! {
            biased;
            outcome = collector.export(metrics) => outcome,
            _ = given_up.wait_for(|given_up| *given_up) => Err("no answer in time".to_owned()),
        };
        self.state.note(collector, outcome);
    }
}

impl PushMetricExporter for Tee {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        // Always the reader's own thread.
        self.first.call_once(yield_to_measurement);
        let message = ExportMetricsServiceRequest::from(metrics);
        *lock(&self.state.latest) = message;
        if let Some(collector) = &self.collector {
            self.send(collector, metrics).await;
        }
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

impl TeeState {
    /// Stops the export that is under way and sends nothing more.
    pub(super) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// The final export is done: counts stand, and nothing more is sent.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.give_up();
    }

    /// The last export's message, sent or not.
    pub(super) fn latest(&self) -> ExportMetricsServiceRequest {
        lock(&self.latest).clone()
    }

    /// Whether the collector took the last export.
    pub(super) fn last_export_was_taken(&self) -> bool {
        self.last_taken.load(Ordering::Acquire)
    }

    /// Whether the collector did not take the last export and is not given up.
    pub(super) fn misses_the_last_export(&self) -> bool {
        !self.last_export_was_taken() && !*self.given_up.borrow()
    }

    /// How many exports went which way.
    pub(super) fn counts(&self) -> TelemetryReport {
        TelemetryReport {
            exports_ok: self.ok.load(Ordering::Acquire),
            exports_failed: self.failed.load(Ordering::Acquire),
            rejected_data_points: self.rejected.load(Ordering::Acquire),
            ..TelemetryReport::default()
        }
    }

    /// Counts an export: the points that were rejected, or why it failed.
    fn note(&self, collector: &Collector, outcome: Result<u64, String>) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        self.last_taken.store(outcome.is_ok(), Ordering::Release);
        let connection = collector.connection();
        match outcome {
            Ok(rejected) => {
                self.ok.fetch_add(1, Ordering::AcqRel);
                self.rejected.fetch_add(rejected, Ordering::AcqRel);
                if rejected > 0 {
                    connection.complain(format_args!(
                        "rejected {rejected} data points; its log says why"
                    ));
                }
            }
            Err(reason) => {
                self.failed.fetch_add(1, Ordering::AcqRel);
                connection.complain(format_args!(
                    "did not take an export ({reason}); the run goes on, and later exports \
                     repeat the values"
                ));
            }
        }
    }
}
