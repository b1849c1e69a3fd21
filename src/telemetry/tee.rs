//! The tee: keeps the exported data and records the outcome of each export.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use prost::Message as _;
use tokio::sync::watch;

use base::lock::Lock;
use base::platform::Background;
use base::platform::process::yield_to_measurement;

use super::TelemetryReport;
use super::connection::Connection;
use super::exemplars::{Attached, Exemplars};
use super::finish::FINAL_RETRIES;
use super::send::Answer as _;
use super::send::Failure;
use super::temporality::{Deltas, Pending, Temporality as Exported};

/// An exporter that passes everything on to the collector, if there is one.
///
/// It never reports a failure to the SDK, which would log each as an error, but counts failures and
/// warns once. The SDK's values are cumulative, so data missed by one export is in the next.
#[derive(Debug)]
pub(super) struct Tee {
    connection: Option<Arc<Connection>>,
    /// The accepted values, with delta temporality.
    deltas: Option<Lock<Deltas>>,
    /// Present if values may become exemplars.
    exemplars: Option<Arc<Exemplars>>,
    state: Arc<TeeState>,
    first: Once,
}

/// An export on its way.
struct Outgoing {
    /// Empty if there is nothing to tell.
    body: Bytes,
    /// The totals of the run, for files next to the collector.
    totals: Bytes,
    /// The base of the next differences, once this is accepted.
    pending: Pending,
    /// The exemplars, which a failed export returns.
    attached: Attached,
}

#[derive(Debug)]
pub(super) struct TeeState {
    latest: Lock<ExportMetricsServiceRequest>,
    ok: AtomicU64,
    failed: AtomicU64,
    rejected: AtomicU64,
    last_taken: watch::Sender<bool>,
    /// Whether the last export failed but may be accepted later.
    may_be_taken_yet: AtomicBool,
    /// Whether the final export is done; later exports started by the interval are not counted.
    closed: AtomicBool,
    given_up: watch::Sender<bool>,
}

impl Tee {
    /// Creates a tee in front of the collector behind `connection`; the returned state records what
    /// passes through it.
    pub(super) fn new(
        connection: Option<Arc<Connection>>,
        temporality: Exported,
        exemplars: Option<Arc<Exemplars>>,
    ) -> (Self, Arc<TeeState>) {
        let state = Arc::new(TeeState {
            latest: Lock::default(),
            ok: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            // Without anything to export, nothing is missing.
            last_taken: watch::Sender::new(true),
            may_be_taken_yet: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            given_up: watch::Sender::new(false),
        });
        let deltas = temporality.is_delta().then(|| Lock::new(Deltas::of_run()));
        let tee =
            Self { connection, deltas, exemplars, state: Arc::clone(&state), first: Once::new() };
        (tee, state)
    }

    /// Returns the export of `message`, the totals of the run.
    fn outgoing(&self, message: &ExportMetricsServiceRequest) -> Outgoing {
        let mut message = Cow::Borrowed(message);
        let attached = self.exemplars.as_ref().map(|all| all.attach(message.to_mut()));
        let Some(deltas) = &self.deltas else {
            let totals: Bytes = message.encode_to_vec().into();
            let (body, pending) = (totals.clone(), Pending::default());
            return Outgoing { body, totals, pending, attached: attached.unwrap_or_default() };
        };
        // Only files next to a collector have the totals.
        let file = ExportMetricsServiceResponse::FILE;
        let has_file = self.connection.as_ref().is_some_and(|to| to.has_file_beside(file));
        let totals = if has_file { message.encode_to_vec().into() } else { Bytes::new() };
        let (differences, pending) = deltas.lock().convert(message.into_owned());
        let body = differences.encode_to_vec().into();
        Outgoing { body, totals, pending, attached: attached.unwrap_or_default() }
    }

    /// Sends the export until it is answered, fails, or is cancelled.
    async fn deliver(&self, connection: &Arc<Connection>, export: Outgoing) {
        if export.body.is_empty() {
            return;
        }
        if !self.send(connection, export.body, export.totals).await {
            export.attached.restore();
        } else if let Some(deltas) = &self.deltas {
            deltas.lock().accept(export.pending);
        }
    }

    /// Sends `body` until it is answered, fails, or is cancelled. Returns whether it was accepted.
    async fn send(&self, connection: &Arc<Connection>, body: Bytes, totals: Bytes) -> bool {
        let mut given_up = self.state.given_up.subscribe();
        if *given_up.borrow() {
            return false;
        }
        let mut sending = connection.start_sending::<ExportMetricsServiceResponse>(body, totals);
        let outcome = tokio::select! {
            biased;
            outcome = &mut sending => outcome.unwrap_or_else(|_| Err(Failure::unanswered())),
            _ = given_up.wait_for(|given_up| *given_up) => {
                sending.abort();
                Err(Failure::unanswered())
            }
        };
        let is_accepted = outcome.is_ok();
        self.state.note(connection, outcome);
        is_accepted
    }
}

impl PushMetricExporter for Tee {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        // Always the reader's own thread.
        self.first.call_once(|| yield_to_measurement(Background::Timely));
        let message = ExportMetricsServiceRequest::from(metrics);
        let outgoing = self.connection.as_ref().map(|to| (to, self.outgoing(&message)));
        *self.state.latest.lock() = message;
        if let Some((connection, export)) = outgoing {
            self.deliver(connection, export).await;
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
    /// Cancels the current export and sends nothing more.
    pub(super) fn give_up(&self) {
        self.given_up.send_replace(true);
    }

    /// Marks the final export as done: counts are final, and nothing more is sent.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.give_up();
    }

    /// Returns the message of the last export, whether or not it was sent.
    pub(super) fn latest(&self) -> ExportMetricsServiceRequest {
        self.latest.lock().clone()
    }

    /// Returns whether the collector accepted the last export.
    pub(super) fn last_export_was_taken(&self) -> bool {
        *self.last_taken.borrow()
    }

    /// Returns a receiver of [`TeeState::last_export_was_taken`].
    pub(super) fn last_taken(&self) -> watch::Receiver<bool> {
        self.last_taken.subscribe()
    }

    /// Returns whether the collector did not accept the last export but may do so later, and the
    /// export was not cancelled.
    pub(super) fn wants_another_try(&self) -> bool {
        let is_missed = !self.last_export_was_taken() && !*self.given_up.borrow();
        is_missed && self.may_be_taken_yet.load(Ordering::Acquire)
    }

    /// Returns the number of exports by outcome.
    pub(super) fn counts(&self) -> TelemetryReport {
        TelemetryReport {
            exports_ok: self.ok.load(Ordering::Acquire),
            exports_failed: self.failed.load(Ordering::Acquire),
            rejected_data_points: self.rejected.load(Ordering::Acquire),
            ..TelemetryReport::default()
        }
    }

    /// Returns whether an export has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) > 0
    }

    /// Records the outcome of an export: the number of rejected points, or why it failed.
    fn note(&self, connection: &Connection, outcome: Result<u64, Failure>) {
        if self.closed.load(Ordering::Acquire) {
            return;
        }
        self.last_taken.send_replace(outcome.is_ok());
        match outcome {
            Ok(rejected) => {
                self.ok.fetch_add(1, Ordering::AcqRel);
                self.rejected.fetch_add(rejected, Ordering::AcqRel);
                if rejected > 0 {
                    connection.complain(format_args!(
                        "rejected {rejected} data points; see its log for the reason"
                    ));
                }
            }
            Err(Failure { reason, is_passing, after, .. }) => {
                let is_soon = after.is_none_or(|after| after <= FINAL_RETRIES.into());
                self.may_be_taken_yet.store(is_passing && is_soon, Ordering::Release);
                self.failed.fetch_add(1, Ordering::AcqRel);
                connection.complain(format_args!(
                    "did not accept an export ({reason}); the run continues, and its files are complete"
                ));
            }
        }
    }
}
