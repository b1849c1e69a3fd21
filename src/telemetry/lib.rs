//! Telemetry: exports the values of each record and of each phase snapshot over OTLP.
//!
//! A tee around the exporter keeps the last cumulative export. At the end of the run it is
//! compared with the totals of the files, the phases and the queue, which verifies that the
//! exported data is what was measured. Nothing here runs on the measured path, and
//! no collector, however slow or dead, delays a caller or fails a run.

mod agents;
mod attributes;
mod client;
mod combined;
mod config;
mod connection;
mod early_export;
mod error;
mod exemplars;
mod files;
mod finish;
mod gates;
mod gen_ai;
mod instruments;
mod logs;
mod metric_set;
mod outbox;
mod protobuf;
mod queue;
mod reconcile;
mod report;
mod resource;
mod scrape_forwarder;
mod send;
mod server_spans;
mod servers;
mod settings;
mod tee;
mod temporality;
mod timing;
mod trace_sample;
mod traces;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry::InstrumentationScope;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::{
    Aggregation, Instrument, InstrumentKind as SdkKind, PeriodicReader, SdkMeterProvider, Stream,
};

use ::client::record::TraceContext;
use ::client::runner::QueueStats;
use ::client::schedule::{PhaseKind, PhaseStats};
use base::environment::Environment;
use base::lock::Lock;
use base::semconv::{Conventions, LATEST_GEN_AI_SCHEMA_URL};
use measure::gpu::sample::GpuSample;
use measure::metrics::health::{LoadHealth, OutputHealth};
use measure::metrics::metric::{MeasuredRecord, MetricResult};
use measure::metrics::time_breakdown::TimeBreakdown;
use measure::metrics::{ClientHealth, Metric, Registry, SteadyState};
use measure::server_metrics::Scrape;
use measure::server_metrics::scrape::Endpoint;

pub use self::config::{Config, Identity, RunSettings, Streams};
pub use self::error::TelemetryError;
pub use self::gates::GateResult;
pub use self::logs::LogsReport;
pub use self::metric_set::MetricSet;
pub use self::reconcile::RunTotals;
pub use self::report::TelemetryReport;
pub use self::scrape_forwarder::ScrapesReport;
pub use self::server_spans::ServerSpansReport;
pub use self::temporality::Temporality;
pub use self::trace_sample::TraceSample;
pub use self::traces::TracesReport;
pub use resource::ci::ci_job;

use self::agents::{Agent, Agents};
use self::client::Client;
use self::connection::Connection;
use self::early_export::EarlyExport;
use self::exemplars::{ExemplarFilter, Exemplars, Offers};
use self::files::{Files, Output};
use self::gates::Gates;
use self::gen_ai::GenAiMeters;
use self::instruments::Instruments;
use self::logs::Logs;
use self::resource::Resources;
use self::scrape_forwarder::ScrapeForwarder;
use self::server_spans::ServerSpans;
use self::settings::{Destination, Settings};
use self::tee::{Tee, TeeState};
use self::timing::Timing;
use self::traces::{Choice, Lifecycle, Parent, Traces};

/// Delay of the first export after the first record.
const FIRST_EXPORT: Duration = Duration::from_millis(750);

/// Export interval without a collector, where only the final collection is needed.
const NEVER: Duration = Duration::from_hours(365 * 24);

/// Maximum number of buckets of a base-2 exponential histogram, which is OpenTelemetry's default.
const EXPONENTIAL_MAX_SIZE: u32 = 160;

/// Finest scale of exponential histograms, with buckets 0.27% wide. The SDK's maximum of 20 would
/// only make narrow data a million times finer.
const EXPONENTIAL_MAX_SCALE: i8 = 8;

/// Checks that `config` and the variables of `environment` are valid together. Sends nothing and
/// opens no connection.
pub fn check(config: &Config, environment: Environment<'_>) -> Result<(), TelemetryError> {
    Settings::resolve(config, environment).map(drop)
}

/// Checks the content of a file for `OTEL_CONFIG_FILE`.
///
/// # Errors
///
/// Returns the place and the reason.
pub fn check_configuration_file(text: &str, environment: Environment<'_>) -> Result<(), String> {
    settings::check_file(text, environment)
}

/// Returns the requests that the file of `OTEL_CONFIG_FILE` exports as traces, if it does.
pub fn declared_trace_sample(
    environment: Environment<'_>,
) -> Result<Option<TraceSample>, TelemetryError> {
    settings::declared_sample(environment)
}

/// Returns whether `config` or the process's variables name a collector or files.
#[must_use]
pub fn exports(config: &Config) -> bool {
    let settings = Settings::resolve(config, Environment::process());
    settings.is_ok_and(|settings| {
        let collectors = [&settings.destination, &settings.traces, &settings.logs];
        collectors.iter().any(|to| to.is_some()) || !settings.outputs.is_empty()
    })
}

/// Returns whether `config` or the process's variables export something to standard output, so that
/// nothing else may be written there.
#[must_use]
pub fn writes_to_stdout(config: &Config) -> bool {
    let settings = Settings::resolve(config, Environment::process());
    settings.is_ok_and(|of| of.outputs.each().contains(&Some(&Output::Stdout)))
}

/// Receives measured data and exports it to the collector.
#[derive(Debug)]
pub struct Telemetry {
    instruments: Option<Instruments>,
    agents: Agents,
    client: Option<Lock<Client>>,
    gates: Option<Gates>,
    timing: Option<Lock<Timing>>,
    scrapes: Option<ScrapeForwarder>,
    traces: Option<Traces>,
    server_spans: Option<ServerSpans>,
    logs: Option<Logs>,
    tee: Arc<TeeState>,
    exponential: bool,
    exemplars: ExemplarFilter,
    /// The metrics that are exported.
    set: MetricSet,
    /// The GenAI conventions of the run's requests.
    conventions: Conventions,
    endpoint: Option<String>,
    /// `None` after `finish` has taken it.
    provider: Lock<Option<SdkMeterProvider>>,
    /// Whether the first record still has to trigger an export ahead of the interval.
    is_early: AtomicBool,
    /// That export.
    early_export: Lock<Option<EarlyExport>>,
}

impl Telemetry {
    /// Starts exporting, configured by `config` and the process's `OTEL_*` variables.
    ///
    /// Returns at once, without waiting for a connection to the collector.
    pub fn start(
        config: &Config,
        identity: &Identity,
        catalogue: &[&'static Metric],
    ) -> Result<Self, TelemetryError> {
        Self::start_in(config, identity, catalogue, Environment::process())
    }

    /// Like [`Telemetry::start`], with variables looked up by `environment`.
    pub fn start_in(
        config: &Config,
        identity: &Identity,
        catalogue: &[&'static Metric],
        environment: Environment<'_>,
    ) -> Result<Self, TelemetryError> {
        let settings = Settings::resolve(config, environment)?;
        settings::warn_of(&settings.ignored);
        let exponential = settings.exponential;
        let (temporality, filter) = (settings.temporality, settings.exemplars);
        let conventions = settings.conventions;
        let resources = Resources::new(config, identity, &settings);
        let files = Files::create(settings.outputs)?.map(Arc::new);
        let destinations = [settings.destination, settings.traces, settings.logs];
        let [connection, to_traces, to_logs] = connect(destinations, files)?;
        let interval = if connection.is_some() { settings.interval } else { NEVER };
        let endpoint = connection.as_ref().map(|to| to.url.to_string());
        // Without a collector or a file, nobody would read the metrics.
        let streams = if connection.is_some() { config.streams } else { Streams::NONE };
        let who = (config, identity);
        let server_spans = to_traces.clone().filter(|_| config.passes_server_spans);
        let server_spans =
            server_spans.map(|connection| ServerSpans::start(connection, settings.interval));
        let traces = to_traces.zip(config.trace_sample).map(|(connection, sample)| {
            let (parent, state) = &settings.parent;
            let parent = parent.as_ref().and_then(|of| Parent::given(of, state.as_deref()));
            let lifecycle = Arc::new(Lifecycle::start(identity, parent));
            Traces::start(
                connection,
                sample,
                who,
                lifecycle,
                (&resources.traces, conventions),
                settings.interval,
            )
        });
        let logs = to_logs.map(|connection| {
            let lifecycle = traces.as_ref().map(Traces::lifecycle);
            Logs::start(
                connection,
                who,
                lifecycle,
                (&resources.traces, conventions),
                settings.interval,
            )
        });
        let scrapes = connection
            .clone()
            .filter(|_| streams.metrics)
            .map(|connection| ScrapeForwarder::start(connection, config, identity, temporality));
        let may_have_exemplars = connection.is_some() && filter.may_select(traces.is_some());
        let exemplars = may_have_exemplars
            .then(|| Arc::new(Exemplars::new(exponential, !temporality.is_delta())));
        let filter = if may_have_exemplars { filter } else { ExemplarFilter::AlwaysOff };
        let (tee, state) = Tee::new(connection, temporality, exemplars.clone());

        let set = config.metric_set;
        let describe = attributes::Interner::new(config, identity);
        let limit = describe.cardinality_limit();
        let provider = SdkMeterProvider::builder()
            .with_resource(resources.metrics)
            .with_reader(PeriodicReader::builder(tee).with_interval(interval).build())
            .with_view(move |instrument: &Instrument| view(instrument, set, limit, exponential))
            .build();
        let meter = meter(&provider, conventions.scope_schema_url());
        let operation = identity.endpoint_type.traits().operation_name;
        let gen_ai = GenAiMeters {
            conventions: gen_ai::of_operation(conventions, operation),
            v1_41: meter.clone(),
            latest: self::meter(&provider, LATEST_GEN_AI_SCHEMA_URL),
        };

        let timing = streams.timing.then(|| Lock::new(Timing::new(&meter, describe.of_phases())));
        let gates = streams.metrics.then(|| Gates::new(&meter, describe.of_phases()));
        let client = streams.metrics.then(|| {
            let client = Client::new(&meter, describe.of_phases());
            client.run(identity);
            Lock::new(client)
        });
        let to_agents = streams.metrics.then_some(&gen_ai.latest);
        let agents = Agents::new(to_agents, identity.models.clone(), exemplars.clone());
        let instruments = streams
            .metrics
            .then(|| Instruments::new(meter, set, &gen_ai, catalogue, describe, exemplars));
        let provider = Lock::new(Some(provider));
        let is_early = AtomicBool::new(endpoint.is_some() && interval > FIRST_EXPORT);
        let tee = state;
        Ok(Self {
            instruments,
            agents,
            client,
            gates,
            timing,
            scrapes,
            traces,
            server_spans,
            logs,
            tee,
            exponential,
            exemplars: filter,
            set,
            conventions: gen_ai.conventions,
            endpoint,
            provider,
            is_early,
            early_export: Lock::default(),
        })
    }

    /// Records a finished request: its values, and what it adds to the counts and sums of `registry`
    /// (`request_count` 1, …).
    ///
    /// Can be called from any thread, and never waits for the collector.
    pub fn record(&self, measured: &MeasuredRecord, registry: &Registry) {
        if self.is_early.load(Ordering::Relaxed) && self.is_early.swap(false, Ordering::Relaxed) {
            self.export_soon();
        }
        let choice = self.traces.as_ref().map(|traces| traces.choose(measured));
        let mut offers = self.offers(measured, choice.as_ref());
        let is_canary = registry.settings().leaves_out_canary(&measured.observation);
        if let Some(instruments) = self.instruments.as_ref().filter(|_| !is_canary) {
            instruments.record(measured, registry, &mut offers);
        }
        if let Some((traces, choice)) = self.traces.as_ref().zip(choice) {
            traces.observe(measured, choice, offers);
        }
        if let Some(spans) = &self.server_spans {
            spans.pass_on(&measured.record.server_spans);
        }
        let faults = measured.observation.output.faults;
        if let Some(client) = self.client.as_ref().filter(|_| !faults.is_empty()) {
            client.lock().faults(measured.record.phase, faults);
        }
        if let Some(logs) = &self.logs {
            logs.observe(measured);
        }
        if let Some(agent) = self.agents.observe(measured) {
            self.agent(&agent);
        }
    }

    /// Exports an agent that has ended.
    fn agent(&self, agent: &Agent) {
        let is_told = match self.exemplars {
            ExemplarFilter::AlwaysOff => false,
            ExemplarFilter::AlwaysOn => true,
            ExemplarFilter::TraceBased => {
                self.traces.as_ref().is_some_and(|traces| traces.covers(agent))
            }
        };
        self.agents.record(agent, is_told);
        if let Some(traces) = &self.traces {
            traces.agent(agent);
        }
    }

    /// Returns whether the values of a request become exemplars.
    fn offers(&self, measured: &MeasuredRecord, choice: Option<&Choice>) -> Offers {
        match self.exemplars {
            ExemplarFilter::AlwaysOff => Offers::None,
            ExemplarFilter::AlwaysOn => Offers::now(TraceContext::of_request(&measured.record)),
            ExemplarFilter::TraceBased => {
                choice.map_or(Offers::None, |choice| choice.offers(measured))
            }
        }
    }

    /// Schedules an export of what is recorded in the next moment, on a separate thread.
    fn export_soon(&self) {
        let Some(provider) = self.provider.lock().clone() else { return };
        // The tee records the outcome.
        let export = EarlyExport::after(FIRST_EXPORT, move || drop(provider.force_flush()));
        // Without the thread, the first export takes place after the interval.
        *self.early_export.lock() = export.ok();
    }

    /// Exports the progress of a phase. Instruments are incremented by the difference from the
    /// phase's previous snapshot, unless it is below 1e-9.
    pub fn phase(&self, stats: &PhaseStats) {
        if let Some(timing) = &self.timing {
            timing.lock().snapshot(stats);
        }
        if let Some(logs) = &self.logs {
            logs.phase(stats);
        }
    }

    /// Exports the size of the record queue during `phase`, and the number of traces lost so far.
    pub fn queue(&self, phase: PhaseKind, stats: &QueueStats) {
        if let Some(client) = &self.client {
            let mut client = client.lock();
            client.queue(phase, stats);
            if let Some(traces) = &self.traces {
                client.traces(phase, traces.lost());
            }
        }
    }

    /// Exports the health of the client in a phase.
    pub fn health(&self, phase: PhaseKind, health: &ClientHealth) {
        if let Some(client) = &self.client {
            client.lock().health(phase, health);
        }
        if let Some(logs) = &self.logs {
            logs.health(health);
        }
    }

    /// Exports the health of the load in the profiling phase, if there is any.
    pub fn load_health(&self, health: Option<&LoadHealth>) {
        if let Some((client, health)) = self.client.as_ref().zip(health) {
            client.lock().load_health(health);
        }
        if let Some((logs, health)) = self.logs.as_ref().zip(health) {
            logs.load_health(health);
        }
    }

    /// Exports the health of the outputs of the profiling phase, if there were any.
    pub fn output_health(&self, health: Option<&OutputHealth>) {
        if let Some((client, health)) = self.client.as_ref().zip(health) {
            client.lock().output_health(health);
        }
        if let Some((logs, health)) = self.logs.as_ref().zip(health) {
            logs.output_health(health);
        }
    }

    /// Forwards the server metrics of an endpoint. Never waits for the collector.
    pub fn scrape(&self, scrape: &Scrape<'_>) {
        if let Some(scrapes) = &self.scrapes {
            scrapes.forward(scrape);
        }
        if let Some(logs) = &self.logs {
            logs.scrape(scrape);
        }
    }

    /// Tells that a scrape of the endpoint with the index `index` failed, after others had succeeded.
    pub fn scrape_failed(&self, index: usize, endpoint: &Endpoint) {
        if let Some(logs) = &self.logs {
            logs.scrape_failed(index, endpoint);
        }
    }

    /// Exports a warning about the results: its name, title and level, and a summary without texts of a
    /// server.
    pub fn warning(&self, warning: [&'static str; 3], summary: Option<&str>) {
        if let Some(logs) = &self.logs {
            logs.warning(warning, summary);
        }
    }

    /// Exports the result of a gate.
    pub fn gate(&self, gate: &GateResult<'_>) {
        if let Some(gates) = &self.gates {
            gates.record(gate);
        }
        if let Some(logs) = &self.logs {
            logs.gate(gate);
        }
    }

    /// Exports samples of GPUs, whose exporter has the index `index` among all endpoints. Never
    /// waits for the collector.
    pub fn gpus(&self, index: usize, url: &str, at_ns: u64, samples: &[GpuSample]) {
        if let Some(scrapes) = self.scrapes.as_ref().filter(|_| !samples.is_empty()) {
            scrapes.forward_gpus(index, url, at_ns, samples);
        }
    }

    /// Exports the final results of all phases of a kind, or of the one with the `index`: derived metrics
    /// as gauges, and the exact percentiles of the distributions.
    pub fn results(&self, phase: PhaseKind, index: Option<u32>, results: &[MetricResult]) {
        if let Some(instruments) = &self.instruments {
            instruments.results(phase, index, results);
        }
    }

    /// Exports statistics of the steady state of the profiling phase as gauges, and that there is one.
    pub fn steady_state(&self, steady: &SteadyState) {
        if let Some(instruments) = &self.instruments {
            instruments.steady_state(&steady.results);
        }
        if let Some(logs) = &self.logs {
            logs.steady_state(steady);
        }
    }

    /// Exports the parts of the mean latencies of the profiling phase as gauges, if they are known.
    pub fn time_breakdown(&self, found: Option<&TimeBreakdown>) {
        if let (Some(instruments), Some(TimeBreakdown::Found(division))) =
            (&self.instruments, found)
        {
            instruments.time_breakdown(division);
        }
    }
}

/// Returns the meter whose names are those of the conventions at `schema_url`.
fn meter(provider: &SdkMeterProvider, schema_url: &'static str) -> Meter {
    let scope = InstrumentationScope::builder("aiperf")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(schema_url)
        .build();
    provider.meter_with_scope(scope)
}

/// Opens the connections of metrics, traces and logs. Those that are reached alike share one, and a
/// signal without a collector is only written to `files`, if it has one there.
fn connect(
    destinations: [Option<Destination>; 3],
    files: Option<Arc<Files>>,
) -> Result<[Option<Arc<Connection>>; 3], TelemetryError> {
    let shared: Vec<Option<usize>> = destinations
        .iter()
        .map(|own| {
            let own = own.as_ref()?;
            let is_alike =
                |of: &Option<Destination>| of.as_ref().is_some_and(|of| of.is_reached_like(own));
            destinations.iter().position(is_alike)
        })
        .collect();
    let mut opened: Vec<Option<Arc<Connection>>> = Vec::with_capacity(destinations.len());
    for (to, shared) in destinations.into_iter().zip(shared) {
        let first = shared.and_then(|first| opened.get(first).cloned().flatten());
        opened.push(match (to, first) {
            (Some(to), Some(first)) => Some(first.beside(to)),
            (Some(to), None) => Some(Connection::open(to, files.clone())?),
            (None, _) => None,
        });
    }
    if let Some(files) = files {
        let mut to_files: Option<Arc<Connection>> = None;
        for (connection, output) in opened.iter_mut().zip(files.outputs().each()) {
            let Some(output) = output.filter(|_| connection.is_none()) else { continue };
            let shared = match &to_files {
                Some(shared) => Arc::clone(shared),
                None => Connection::to_files(Arc::clone(&files), output)?,
            };
            to_files = Some(Arc::clone(&shared));
            *connection = Some(shared);
        }
    }
    let mut opened = opened.into_iter();
    Ok(std::array::from_fn(|_| opened.next().flatten()))
}

impl Drop for Telemetry {
    /// Dropping without `finish` means that the run has failed, so the collector is not waited for.
    fn drop(&mut self) {
        self.tee.give_up();
    }
}

/// Returns the stream of each instrument, with room for all legitimate attribute sets, and
/// exponential buckets if configured. An instrument that is not in the set does not have any data.
fn view(
    instrument: &Instrument,
    set: MetricSet,
    limit: usize,
    exponential: bool,
) -> Option<Stream> {
    let mut stream = Stream::builder().with_cardinality_limit(limit);
    if !set.includes(instrument.name()) {
        stream = stream.with_aggregation(Aggregation::Drop);
    } else if exponential && instrument.kind() == SdkKind::Histogram {
        stream = stream.with_aggregation(Aggregation::Base2ExponentialHistogram {
            max_size: EXPONENTIAL_MAX_SIZE,
            max_scale: EXPONENTIAL_MAX_SCALE,
            record_min_max: true,
        });
    }
    stream.build().ok()
}
