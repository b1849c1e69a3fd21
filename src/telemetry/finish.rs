//! The end of a run: the final export, and the comparison of what was exported with what was measured.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::oneshot;

use base::interrupt::Interrupt;
use base::units::{Clock, Nanos};

use super::Telemetry;
use super::early_export::EarlyExport;
use super::instruments::Instruments;
use super::logs::Logs;
use super::reconcile::{self, Expected, RunTotals};
use super::report::TelemetryReport;
use super::scrape_forwarder::ScrapeForwarder;
use super::server_spans::ServerSpans;
use super::traces::Traces;

/// Time limit after the deadline, when the collector is not waited for any more; the one local
/// collection that remains needs much less.
const LOCAL_COLLECTION: Nanos = Nanos(1_000_000_000);

/// How long a failed final export is retried, since the collector may be restarting.
pub(super) const FINAL_RETRIES: Nanos = Nanos(2_000_000_000);

/// Time reserved for the last retry, and the longest pause before a retry.
const LAST_TRY: Duration = Duration::from_millis(500);

/// Pause between the first two attempts.
pub(super) const RETRY_PAUSE: Duration = Duration::from_millis(100);

impl Telemetry {
    /// Exports the remaining data, compares the last export with the run's `totals`, and shuts
    /// down.
    ///
    /// Call it once nothing is recorded any more; a reference that is still held, for example by a
    /// scrape that takes too long, does not delay the final values. Waits for the collector until
    /// `deadline`; the comparison is made in any case.
    #[must_use]
    pub fn finish(&self, totals: &RunTotals, deadline: Duration) -> TelemetryReport {
        self.finish_unless(totals, deadline, &Interrupt::never())
    }

    /// Like [`Telemetry::finish`], but waits only until the user interrupts the run. A failing
    /// collector is waited for at most two seconds.
    #[must_use]
    pub fn finish_unless(
        &self,
        totals: &RunTotals,
        deadline: Duration,
        interrupt: &Interrupt,
    ) -> TelemetryReport {
        let began = Clock::now();
        self.agents.rest().iter().for_each(|agent| self.agent(agent));
        self.traces.iter().for_each(|traces| traces.run_ended(&totals.phases));
        // All are closed first, so that together they take no longer than one.
        self.scrapes.iter().for_each(ScrapeForwarder::close);
        self.traces.iter().for_each(Traces::close);
        self.server_spans.iter().for_each(ServerSpans::close);
        self.logs.iter().for_each(Logs::close);
        let flushed = self.flush_and_shut_down(began, deadline, interrupt);
        let mut report = TelemetryReport {
            endpoint: self.endpoint.clone(),
            delivered_final: flushed == Flushed::Exported && self.tee.last_export_was_taken(),
            ..self.tee.counts()
        };
        report.delivered_final &= report.endpoint.is_some();
        if flushed == Flushed::Not {
            report.discrepancies.push("the final values could not be collected in time".into());
        } else {
            let (expected, exported) = (self.expected(totals), self.tee.latest());
            report.discrepancies = reconcile::compare(&expected, &exported, self.exponential);
        }
        report.reconciled = report.discrepancies.is_empty();
        report.not_exported =
            self.instruments.as_ref().map(Instruments::not_exported).unwrap_or_default();
        let until = || began + self.patience(deadline).into();
        report.scrapes =
            self.scrapes.as_ref().and_then(|scrapes| scrapes.finish(until(), interrupt));
        report.traces = self.traces.as_ref().map(|traces| traces.finish(until(), interrupt));
        report.server_spans =
            self.server_spans.as_ref().map(|spans| spans.finish(until(), interrupt));
        report.logs = self.logs.as_ref().map(|logs| logs.finish(until(), interrupt));
        report
    }

    /// Returns how long the end of the run may wait, which is less than `deadline` if the collector
    /// did not accept the last export.
    fn patience(&self, deadline: Duration) -> Duration {
        let is_failing = !self.tee.last_export_was_taken();
        if is_failing { deadline.min(Duration::from(FINAL_RETRIES) + LAST_TRY) } else { deadline }
    }

    /// Returns what the final export must contain, for the streams that are exported.
    fn expected(&self, totals: &RunTotals) -> Vec<Expected> {
        let mut expected = Vec::new();
        if self.instruments.is_some() {
            expected.extend(reconcile::of_requests(totals, self.conventions));
        }
        if self.client.is_some() {
            let lost_traces = self.traces.as_ref().map(Traces::lost);
            expected.extend(reconcile::of_client(&totals.queue, lost_traces));
            expected.extend(reconcile::of_outputs(totals.output_faults));
        }
        if self.timing.is_some() {
            expected.extend(reconcile::of_phases(&totals.phases));
        }
        expected.into_iter().filter_map(|one| one.in_set(self.set)).collect()
    }

    /// Flushes and shuts down on a helper thread, since the SDK's functions do not support
    /// deadlines. If the caller has stopped waiting, the thread ends by itself soon after.
    fn flush_and_shut_down(
        &self,
        began: Nanos,
        deadline: Duration,
        interrupt: &Interrupt,
    ) -> Flushed {
        let Some(provider) = self.provider.lock().take() else { return Flushed::Not };
        let early = self.early_export.lock().take().map(EarlyExport::cancel);
        let (done, mut flushed) = oneshot::channel();
        let tee = Arc::clone(&self.tee);
        let helper = thread::Builder::new().name("aiperf-otlp-end".into()).spawn(move || {
            // The tee records the outcome of the export; the SDK only repeats it.
            let _ = provider.force_flush();
            let until = Clock::now() + FINAL_RETRIES;
            let mut pause = RETRY_PAUSE;
            while tee.wants_another_try() && Clock::now() < until {
                thread::sleep(pause.min(until.since(Clock::now()).into()));
                pause = (pause * 2).min(LAST_TRY);
                let _ = provider.force_flush();
            }
            // The shutdown collects once more; nothing has changed, so nothing has to be sent.
            tee.close();
            let _ = done.send(());
            let _ = provider.shutdown();
            early.map(JoinHandle::join)
        });
        let Ok(helper) = helper else { return Flushed::Not };
        let mut taken = self.tee.last_taken();
        let is_flushed = loop {
            let until = began + self.patience(deadline).into();
            // The outcome of an export changes how long this waits.
            let next = async {
                tokio::select! {
                    biased;
                    done = &mut flushed => Some(done.is_ok()),
                    Ok(()) = taken.changed() => None,
                }
            };
            match interrupt.wait_for(next, until) {
                Some(None) => {}
                ended => break ended.flatten(),
            }
        };
        if is_flushed == Some(true) {
            // It does not wait for the collector any more.
            let _ = helper.join();
            return Flushed::Exported;
        }
        // A failed export was reported already.
        if !self.tee.has_failed() {
            tracing::warn!(
                "the collector did not accept the final metrics within {:.1} s; they are in the \
                 local files",
                Clock::now().since(began).as_seconds()
            );
        }
        self.tee.give_up();
        if is_flushed == Some(false) {
            return Flushed::Not;
        }
        match Interrupt::never().wait_for(flushed, Clock::now() + LOCAL_COLLECTION) {
            Some(Ok(())) => Flushed::CollectedOnly,
            _ => Flushed::Not,
        }
    }
}

/// Progress of the final flush.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flushed {
    /// The collector accepted or rejected the export.
    Exported,
    /// The values were collected, but the collector did not respond in time.
    CollectedOnly,
    /// The values were not collected.
    Not,
}
