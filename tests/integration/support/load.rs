//! A load on a server, run without the command line.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::interrupt::Interrupter;
use base::units::Nanos;
use client::endpoint::{self, Endpoint, EndpointType};
use client::record::RequestRecord;
use client::runner::{
    Config, CpuShares, PhaseListener, Progress, QueueStats, RecordQueue, RequestBuilder, Runner,
    RunnerError, Targets, Workload,
};
use client::schedule::config::{
    ArrivalPattern, Limit, LoadPattern, PhaseConfig, Rate, StopCondition,
};
use client::schedule::{PhaseKind, PhaseStats, Shard};
use client::transport::{self, Target};
use dataset::seed::Seed;
use dataset::{Conversation, Dataset, Sampler, Sampling, Turn};
use mock_server::{self, FaultRule, Jitter, MockServer, RequestLog, Script};

/// Wraps a dialect in another one.
type Dialect = dyn FnOnce(Arc<dyn Endpoint>) -> Arc<dyn Endpoint> + Send;

/// A load on a server, with its settings.
pub(crate) struct Load {
    pub(crate) url: String,
    pub(crate) turns: usize,
    pub(crate) turn_delay: Nanos,
    /// Used instead of a single conversation with `turns` turns.
    pub(crate) conversations: Option<Vec<Conversation>>,
    pub(crate) streaming: bool,
    pub(crate) phases: Vec<PhaseConfig>,
    pub(crate) transport: transport::Config,
    pub(crate) workers: usize,
    /// Memory budget for records in bytes; a closed loop would wait beyond half of it.
    pub(crate) queue_budget: usize,
    /// Wraps the chat dialect in another one.
    pub(crate) dialect: Box<Dialect>,
    /// Sent by the test while the load runs.
    pub(crate) interrupter: Interrupter,
    pub(crate) listener: Option<Arc<dyn PhaseListener>>,
    /// Set when the load starts, for a thread that follows it.
    pub(crate) progress: Arc<OnceLock<Arc<Progress>>>,
}

/// Records in the order in which they were queued, and the phases' counters.
pub(crate) struct Outcome {
    pub(crate) records: Vec<RequestRecord>,
    pub(crate) phases: Vec<PhaseStats>,
    pub(crate) peak_in_flight: u64,
    pub(crate) queue: QueueStats,
    pub(crate) cpu: CpuShares,
}

impl Load {
    pub(crate) fn on(url: &str) -> Self {
        Self {
            url: format!("{url}/v1/chat/completions"),
            turns: 1,
            turn_delay: Nanos::ZERO,
            conversations: None,
            streaming: true,
            phases: vec![closed_loop(1, 1)],
            transport: transport::Config::default(),
            workers: 1,
            queue_budget: 64 << 20,
            dialect: Box::new(|chat| chat),
            interrupter: Interrupter::default(),
            listener: None,
            progress: Arc::default(),
        }
    }

    /// Runs the load to its end, or until it fails.
    pub(crate) fn drive(self) -> (Result<(), RunnerError>, Arc<RecordQueue>, Arc<Progress>, usize) {
        let endpoint = endpoint::build(&endpoint::Config::new(EndpointType::CHAT, self.streaming));
        let endpoint = (self.dialect)(endpoint);
        let turn = |number: usize| Turn {
            delay: if number == 0 { Nanos::ZERO } else { self.turn_delay },
            ..question(&format!("question {number}"))
        };
        let conversation = || Conversation {
            id: "c".into(),
            turns: (0..self.turns).map(turn).collect(),
            ..Conversation::default()
        };
        let conversations = self.conversations.unwrap_or_else(|| vec![conversation()]);
        let count = conversations.len();
        let dataset = Arc::new(Dataset::from_conversations(conversations));
        let target = Target::new(&url::Url::parse(&self.url).unwrap()).unwrap();
        let workload = Workload::new(
            dataset,
            vec![Sampler::new(Sampling::Sequential, 0..count, Seed(1))],
            endpoint,
            Targets::new([target]),
            Arc::new(
                RequestBuilder::new(EndpointType::CHAT.traits(), self.streaming, None, &[])
                    .unwrap(),
            ),
        );
        let queue = RecordQueue::new(self.queue_budget)
            .spilling_to(std::env::temp_dir(), Arc::clone(workload.first_bodies()));
        let queue = Arc::new(queue);
        let progress = Arc::new(Progress::new(&self.phases));
        let _ = self.progress.set(Arc::clone(&progress));
        let last = self.phases.len() - 1;
        let config = Config {
            benchmark: "bench".into(),
            workers: self.workers,
            phases: self.phases,
            seed: Seed(1),
            tenants: Vec::new(),
            shard: Shard::WHOLE,
            start_at: None,
            rejection_limit: 0,
        };
        let runner = Runner::new(
            config,
            self.transport,
            workload,
            Arc::clone(&queue),
            Arc::clone(&progress),
        )
        .with_listener(self.listener);
        (runner.run(&self.interrupter.interrupt()), queue, progress, last)
    }

    pub(crate) fn run(self) -> Outcome {
        let (outcome, queue, progress, last) = self.drive();
        outcome.unwrap();
        let mut records = Vec::new();
        while let Some(record) = queue.pop(Duration::from_secs(1)) {
            records.extend(record);
        }
        // In a run, the processors parse error bodies later.
        for record in records.iter_mut().filter(|record: &&mut RequestRecord| record.has_failed()) {
            let (status, reason) = (record.status.unwrap_or(0), record.trace.reason.as_deref());
            let refusal = endpoint::http_error(status, reason, &record.body.bytes);
            record.error.get_or_insert(refusal);
        }
        for record in &records {
            let counters = progress.phase(record.phase_index as usize).unwrap();
            counters.measured(&record.turn, record.error.as_ref(), false);
        }
        Outcome {
            records,
            phases: progress.snapshots(),
            peak_in_flight: progress.phase(last).unwrap().peak_in_flight(),
            queue: queue.stats(),
            cpu: progress.phase(last).unwrap().cpu_shares(),
        }
    }
}

/// Returns a turn with the prompt `text` that requests four tokens.
pub(crate) fn question(text: &str) -> Turn {
    Turn {
        model: "mock-model".into(),
        texts: vec![text.into()],
        max_tokens: Some(4),
        ..Turn::default()
    }
}

pub(crate) fn closed_loop(concurrency: u64, requests: u64) -> PhaseConfig {
    PhaseConfig {
        name: None,
        kind: PhaseKind::Profiling,
        seamless: false,
        dataset: 0,
        load: LoadPattern::ClosedLoop,
        concurrency: Some(Limit::constant(concurrency)),
        prefill_concurrency: None,
        stop: StopCondition { requests: Some(requests), ..StopCondition::default() },
        grace_period: Some(Nanos::from_seconds(30.0)),
        cancellation: None,
        failed_request_threshold: None,
        end_failed_sessions: false,
        adaptive: None,
    }
}

pub(crate) fn open_loop(rate: f64, requests: u64) -> PhaseConfig {
    PhaseConfig {
        load: LoadPattern::Rate(Rate::constant(rate, ArrivalPattern::Constant)),
        concurrency: None,
        ..closed_loop(1, requests)
    }
}

/// Returns the server's log of `record`, which must contain as many events as were read.
pub(crate) fn served<'l>(log: &'l [RequestLog], record: &RequestRecord) -> &'l RequestLog {
    let id = record.request_id.to_string();
    let entry = log.iter().find(|entry| entry.request_id.as_deref() == Some(&id)).unwrap();
    assert_eq!(record.body.events.len(), entry.events.len());
    entry
}

pub(crate) fn mock(script: Script) -> MockServer {
    MockServer::start(mock_server::Config { script, ..mock_server::Config::default() }).unwrap()
}

/// Streams of varying speed, of which one in seven fails.
pub(crate) fn varied() -> Script {
    Script {
        ttft: Nanos::from_millis(10.0),
        itl: Nanos::from_millis(2.0),
        jitter: Jitter::Fraction(0.5),
        faults: faults(&["every=7:status=503"]),
        ..Script::default()
    }
}

/// Parses faults in the format of `--fault`.
pub(crate) fn faults(faults: &[&str]) -> Vec<FaultRule> {
    faults.iter().map(|fault| Script::parse_fault(fault).unwrap()).collect()
}

pub(crate) fn faulty(fault: &str) -> MockServer {
    mock(Script { faults: faults(&[fault]), ..Script::default() })
}
