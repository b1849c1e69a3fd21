//! Processors: they take finished records from the queue, measure each once,
//! and tell the values to OpenTelemetry, to the statistics and to the files.
//!
//! Processors run at low priority, so that they never take the processor from
//! a worker that has a stamp to take.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thiserror::Error;

use super::Telemetry;
use crate::background::yield_to_measurement;
use crate::metrics::metric::MeasuredRecord;
use crate::metrics::{Accumulator, Health, Measurer, MetricTag, Registry};
use crate::record::{ErrorKind, RequestRecord};
use crate::runner::{Progress, RecordQueue};
use crate::schedule::PhaseKind;
use crate::units::{Clock, Nanos};

/// How long a processor waits for a record before it looks at its other work.
const PATIENCE: Duration = Duration::from_millis(250);

/// Takes measured records: the files of a run.
pub trait RecordSink: Send + 'static {
    /// Takes one record.
    fn record(&mut self, measured: &MeasuredRecord);

    /// Called often, also while no record comes: time to write out what is
    /// buffered.
    fn tick(&mut self, now: Nanos);
}

/// The processors cannot be started, or one of them died.
#[derive(Debug, Error)]
pub enum PipelineError {
    /// No thread.
    #[error("a processor thread cannot be started; check the limit on threads")]
    Thread(#[from] io::Error),
    /// A processor ended before its work did.
    #[error("a processor thread ended unexpectedly; some records are missing from the results")]
    ProcessorLost,
}

/// What the processors work with.
pub struct PipelineParts {
    /// Where records come from.
    pub queue: Arc<RecordQueue>,
    /// Gives records their values.
    pub measurer: Measurer,
    /// The metrics that apply.
    pub registry: Arc<Registry>,
    /// The OpenTelemetry side.
    pub telemetry: Arc<Telemetry>,
    /// Where failures are counted.
    pub progress: Arc<Progress>,
    /// Whether the measurement is to be cut into slices of time.
    pub is_sliced: bool,
}

/// Running processors.
pub struct Pipeline<S> {
    shared: Arc<Shared<S>>,
    threads: Vec<JoinHandle<()>>,
}

/// What the processors found.
pub struct PipelineOutcome<S> {
    /// Statistics of the warmup.
    pub warmup: Accumulator,
    /// Statistics of the measurement.
    pub profiling: Accumulator,
    /// How the client did in the measurement.
    pub health: Health,
    /// The files, still open.
    pub sink: S,
}

struct Shared<S> {
    parts: PipelineParts,
    state: Mutex<State<S>>,
}

struct State<S> {
    warmup: Accumulator,
    profiling: Accumulator,
    health: Health,
    sink: S,
}

impl<S: RecordSink> Pipeline<S> {
    /// Starts `processors` threads that take records until the queue is closed.
    pub fn start(parts: PipelineParts, sink: S, processors: usize) -> Result<Self, PipelineError> {
        let profiling = if parts.is_sliced { Accumulator::sliced } else { Accumulator::new };
        let state = State {
            warmup: Accumulator::new(Arc::clone(&parts.registry)),
            profiling: profiling(Arc::clone(&parts.registry)),
            health: Health::default(),
            sink,
        };
        let shared = Arc::new(Shared { parts, state: Mutex::new(state) });
        let start = |number: usize| {
            let shared = Arc::clone(&shared);
            let work = move || {
                yield_to_measurement();
                shared.process(|| false);
            };
            thread::Builder::new().name(format!("processor-{number}")).spawn(work)
        };
        let threads = (0..processors.max(1)).map(start).collect::<io::Result<_>>()?;
        Ok(Self { shared, threads })
    }

    /// Works off what is left in the queue, which must have been closed, and
    /// gives everything back. The caller helps: the load is over, so the rest
    /// need not wait for an idle processor. What is left is discarded once
    /// `gives_up`, which is asked after each record.
    pub fn finish(
        self,
        gives_up: impl FnMut() -> bool,
    ) -> Result<PipelineOutcome<S>, PipelineError> {
        self.shared.process(gives_up);
        for thread in self.threads {
            thread.join().map_err(|_| PipelineError::ProcessorLost)?;
        }
        let shared = Arc::try_unwrap(self.shared).map_err(|_| PipelineError::ProcessorLost)?;
        let state = shared.state.into_inner().map_err(|_| PipelineError::ProcessorLost)?;
        let State { warmup, profiling, health, sink } = state;
        Ok(PipelineOutcome { warmup, profiling, health, sink })
    }
}

impl<S: RecordSink> Shared<S> {
    /// Observes records until the queue is closed and empty, or this thread
    /// `gives_up` on the rest.
    fn process(&self, mut gives_up: impl FnMut() -> bool) {
        let _notice = LossNotice(&self.parts.queue);
        while let Some(next) = self.parts.queue.pop(PATIENCE) {
            if let Some(record) = next {
                self.observe(record);
            }
            self.lock().sink.tick(Clock::now());
            if gives_up() {
                self.parts.queue.discard();
            }
        }
    }

    /// Observes a record once, for all readers.
    fn observe(&self, record: RequestRecord) {
        let phase_index = record.phase_index as usize;
        let measured = self.parts.measurer.measure(record);
        let observation = &measured.observation;
        let failure = observation.error.as_ref().filter(|error| error.kind != ErrorKind::Cancelled);
        if failure.is_some()
            && let Some(counters) = self.parts.progress.phase(phase_index)
        {
            counters.add_error();
        }
        let aggregates: Vec<(MetricTag, f64)> =
            self.parts.registry.aggregates(observation).collect();
        self.parts.telemetry.record(&measured, &aggregates);
        let mut state = self.lock();
        match observation.phase {
            PhaseKind::Warmup => state.warmup.observe(observation),
            PhaseKind::Profiling => {
                state.profiling.observe(observation);
                state.health.observe(&measured.record);
            }
        }
        state.sink.record(&measured);
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the queue where a processor dies: workers would wait for it without end.
struct LossNotice<'a>(&'a RecordQueue);

impl Drop for LossNotice<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}
