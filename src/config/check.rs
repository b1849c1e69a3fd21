//! Checks of what modules require of each other. What one setting requires is checked where its
//! flag is defined, and what the settings of one module require of each other by its `Config`.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use thiserror::Error;

use base::environment::InvalidVariable;
use base::redact::ShownUrl;
use base::setting::InvalidSetting;
use client::record::TraceShare;
use client::runner::RequestBuilder;
use client::schedule::Apportionment;
use client::schedule::config::{LoadPattern, PhaseConfig, has_several, only_measured};
use client::transport::ProxyError;
use dataset::{MediaKinds, Part, Source, Synthetic};
use measure::judge::StopWhen;
use measure::judge::adaptive::Conditions;
use measure::judge::early::EarlyDecision;
use measure::metrics::Registry;
use measure::metrics::metric::Settings;
use measure::multi_run::Dimension;
use telemetry::TraceSample;
use tokens::tokenizer;

use super::{RunConfig, ServerConfig};

/// Number of slots that are divided among tenants to see whether each gets one.
const MAX_APPORTIONED: u64 = 100_000;

/// An invalid configuration: what is wrong and what to do about it.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// An environment variable has an invalid value.
    #[error(transparent)]
    Environment(#[from] InvalidVariable),
    /// A URL is invalid.
    #[error(
        "{url:?} is not a valid server URL: {why}; expected a URL such as http://localhost:8000"
    )]
    Url {
        /// The URL.
        url: ShownUrl,
        /// Why it is invalid.
        why: String,
    },
    /// A flag is invalid.
    #[error(transparent)]
    Flag(#[from] InvalidSetting),
    /// An option of endpoints does not fit the endpoint type, for which AIPerf exits with 1.
    #[error(transparent)]
    Endpoint(InvalidSetting),
    /// A proxy set in the environment is invalid.
    #[error(transparent)]
    Proxy(ProxyError),
    /// A setting for exporting telemetry is invalid.
    #[error("{0}")]
    Telemetry(String),
    /// A file that a flag names cannot be read.
    #[error("{flag}: cannot read {path:?}: {why}; check the path and its permissions")]
    File {
        /// The flag.
        flag: &'static str,
        /// The file.
        path: String,
        /// Why it cannot be read.
        why: String,
    },
    /// No model is named.
    #[error("the model is not named; use --model NAME")]
    NoModel,
    /// A setting of a phase is invalid.
    #[error("phase {name}: {error}")]
    Phase {
        /// Name of the phase.
        name: Arc<str>,
        /// What is invalid.
        error: Box<Self>,
    },
    /// There is no directory to save the self-check in.
    #[error("--save: no configuration directory found; set AIPERF_SELFCHECK_FILE or HOME")]
    NoSelfCheckFile,
}

impl ConfigError {
    /// Returns the error as one of the phase `name`.
    pub(crate) fn in_phase(self, name: &Arc<str>) -> Self {
        Self::Phase { name: Arc::clone(name), error: Box::new(self) }
    }

    /// Returns an error about `flag`.
    pub(crate) fn flag(flag: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Flag(InvalidSetting::new(flag, why))
    }
}

impl RunConfig {
    /// Checks the settings of each module, and what modules require of each other, before opening
    /// files or connections.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.endpoint.check()?;
        self.endpoint.check_usage().map_err(ConfigError::Endpoint)?;
        self.dataset.check()?;
        self.schedule.check()?;
        self.multi_run.check()?;
        for part in &self.dataset.parts {
            if let Source::File { path, .. } = &part.source {
                check_dataset_file(path)?;
            }
        }
        self.check_endpoint()?;
        self.check_many()?;
        self.check_phases()?;
        self.check_gates()?;
        self.check_receiver()?;
        self.check_headers()?;
        self.check_canaries()?;
        self.check_tenants()
    }

    /// Checks that requests can be canaries. To be called again once the dataset has determined the load.
    pub(crate) fn check_canaries(&self) -> Result<(), ConfigError> {
        let refuse = |why: String| Err(ConfigError::flag("--canaries", why));
        if self.canaries.is_none() {
            return Ok(());
        }
        let traits = self.endpoint.endpoint_type.traits();
        if !traits.produces_tokens || !traits.tokenizes_input {
            let name = traits.name;
            return refuse(format!("{name} requests do not have text in and out; remove the flag"));
        }
        // The user determines the bodies.
        if traits.path.is_empty() {
            let name = traits.name;
            return refuse(format!("a temperature of 0 cannot be set for {name}; remove the flag"));
        }
        for phase in self.schedule.measured() {
            let why = match phase.load {
                LoadPattern::ClosedLoop | LoadPattern::Rate(_) => continue,
                LoadPattern::FixedSchedule => {
                    "each request of a fixed schedule has its time; add --no-fixed-schedule, or \
                     remove the flag"
                }
                LoadPattern::UserCentric { .. } => {
                    "cannot be combined with --user-centric-rate; use --request-rate instead"
                }
                LoadPattern::Agentic(_) => {
                    "cannot be combined with --agentic, which replays trees of requests; remove \
                     one of the two"
                }
            };
            return refuse(why.to_owned());
        }
        Ok(())
    }

    /// Checks what needs a single phase, and that the phases exist that gates name.
    fn check_phases(&self) -> Result<(), ConfigError> {
        let phases = &self.schedule.phases;
        if has_several(phases) && !self.judge.stop_when.is_empty() {
            let why =
                "ends the load of one phase, and --phase lists several; remove one of the two";
            return Err(ConfigError::flag("--stop-when", why));
        }
        self.check_adaptive()?;
        for gate in &self.judge.gates {
            let Some(name) = gate.phase() else { continue };
            if !has_several(phases) {
                let why = format!("{gate}: the run does not have several phases; add --phase");
                return Err(ConfigError::flag("--gate", why));
            }
            if !phases.iter().any(|phase| phase.name() == name) {
                let names: Vec<&str> = phases.iter().map(PhaseConfig::name).collect();
                let why =
                    format!("{gate}: no phase is named {name:?}; use one of {}", names.join(", "));
                return Err(ConfigError::flag("--gate", why));
            }
        }
        Ok(())
    }

    /// Checks that the requests can have what the conditions of adaptive loads limit, and that nothing else
    /// changes these loads.
    fn check_adaptive(&self) -> Result<(), ConfigError> {
        let adaptive = self.schedule.phases.iter().filter_map(|phase| phase.adaptive.as_ref());
        let refuse = |flag: &str, why: String| Err(ConfigError::flag(flag, why));
        for load in adaptive {
            if !self.judge.stop_when.is_empty() {
                let why = "ends the load, as --adaptive-scale does; remove one of the two";
                return refuse("--stop-when", why.to_owned());
            }
            if self.multi_run.sweep.is_some() {
                let why = "looks for the highest load within a run, and cannot be combined with a sweep or a \
                           search; use one of them, or a run for each value";
                return refuse("--adaptive-scale", why.to_owned());
            }
            if !self.tenants.is_empty() {
                let why = "cannot be combined with --tenants; remove one of the two";
                return refuse("--adaptive-scale", why.to_owned());
            }
            let traits = self.endpoint.endpoint_type.traits();
            // An objective of another metric is reported elsewhere.
            let Ok(registry) = Registry::new(self.metrics.clone(), traits, self.endpoint.streaming)
            else {
                continue;
            };
            let missing = Conditions::from_adaptive(load)
                .metrics()
                .find(|metric| registry.position(*metric).is_none());
            if let Some(metric) = missing {
                let why = format!(
                    "the run does not have {metric}, so that no load would meet the condition; add \
                     --streaming or --goodput if it needs that"
                );
                return refuse("--adaptive-scale-sla", why);
            }
        }
        Ok(())
    }

    /// Checks what the endpoint type requires of other modules.
    fn check_endpoint(&self) -> Result<(), ConfigError> {
        let traits = self.endpoint.endpoint_type.traits();
        let refuse = |flag, why: String| Err(ConfigError::flag(flag, why));
        if self.apply_chat_template {
            let flag = "--apply-chat-template";
            // Endpoint types without a path of their own have bodies written by the user.
            if !traits.repeats_history && !traits.path.is_empty() {
                let why =
                    format!("{} requests do not have chat messages; remove the flag", traits.name);
                return refuse(flag, why);
            }
            if self.tokenizer == tokenizer::Source::Builtin {
                let why = "the builtin tokenizer does not have a chat template; use --tokenizer \
                           to select the model's own";
                return refuse(flag, why.to_owned());
            }
        }
        if self.dataset.strips_repeated_images && !traits.takes_image_uuids {
            let why = format!("{} requests do not have UUIDs of images; use chat", traits.name);
            return Err(ConfigError::Endpoint(InvalidSetting::new("--uuid-and-strip", why)));
        }
        for (index, part) in self.dataset.parts.iter().enumerate() {
            if let Source::Synthetic(synthetic) = &part.source {
                self.check_generated(synthetic, index)?;
            }
        }
        Ok(())
    }

    /// Checks what the endpoint type and the phases require of the generated part of the dataset with this
    /// index.
    fn check_generated(&self, synthetic: &Synthetic, index: usize) -> Result<(), ConfigError> {
        let traits = self.endpoint.endpoint_type.traits();
        let refuse = |flag, why: String| Err(ConfigError::flag(flag, why));
        // Checked before generating the videos, which takes time.
        if synthetic.video.is_some() && !traits.takes.contains(MediaKinds::VIDEO) {
            let why = format!("{} does not support videos; remove the flag", traits.name);
            return refuse("--video-width", why);
        }
        if synthetic.batch_size > 1 && traits.repeats_history {
            let why = format!(
                "{} requests have a single prompt; use completions or embeddings instead",
                traits.name
            );
            return refuse("--batch-size", why);
        }
        if synthetic.sends_token_ids {
            self.check_token_ids()?;
        }
        let needs_turns = |phase: &PhaseConfig| {
            phase.dataset == index && matches!(phase.load, LoadPattern::UserCentric { .. })
        };
        let has_one_turn = synthetic.turns.mean <= 1.0 && synthetic.turns.stddev == 0.0;
        if has_one_turn && self.schedule.phases.iter().any(needs_turns) {
            let why = "requires conversations of several turns; add --session-turns-mean 2 or \
                       more, or use --request-rate instead";
            return refuse("--user-centric-rate", why.to_owned());
        }
        Ok(())
    }

    /// Checks that the server can understand prompts of token IDs.
    fn check_token_ids(&self) -> Result<(), ConfigError> {
        let traits = self.endpoint.endpoint_type.traits();
        let why = if !traits.takes_token_ids {
            format!("{} requests contain texts; use completions or embeddings", traits.name)
        } else if self.tokenizer == tokenizer::Source::Builtin {
            "the token IDs of the builtin tokenizer are other tokens for the model; use \
             --tokenizer to select the model's own"
                .to_owned()
        } else {
            return Ok(());
        };
        Err(ConfigError::flag("--prompt-token-ids", why))
    }

    /// Checks that the run can have what its gates limit, and decide what ends it early.
    fn check_gates(&self) -> Result<(), ConfigError> {
        let gates = &self.judge.gates;
        if self.judge.stop_when.contains(&StopWhen::Decided)
            && EarlyDecision::for_gates(gates).is_none()
        {
            let why = "decided requires a gate that can be tested before the end: on a mean, a \
                       percentile, a rate or a share of requests, such as \
                       --gate time_to_first_token:p99<=250ms";
            return Err(ConfigError::flag("--stop-when", why));
        }
        let traits = self.endpoint.endpoint_type.traits();
        let streaming = self.endpoint.streaming;
        // An objective of another metric is reported elsewhere.
        let Ok(registry) = Registry::new(self.metrics.clone(), traits, streaming) else {
            return Ok(());
        };
        let scrapes = !self.server_metrics.endpoints.is_empty();
        let obstacle = gates.iter().find_map(|gate| {
            let why = gate.obstacle(&registry, scrapes)?;
            Some(ConfigError::flag("--gate", format!("{gate}: {why}")))
        });
        obstacle.map_or(Ok(()), Err)
    }

    /// Returns whether each request has a trace context.
    pub(crate) const fn sends_trace_context(&self) -> bool {
        self.telemetry.trace_sample.is_some() || self.otel_receiver.is_some()
    }

    fn check_receiver(&self) -> Result<(), ConfigError> {
        let Some(receiver) = &self.otel_receiver else { return Ok(()) };
        let samples_none = |sample: TraceSample| sample.share() == TraceShare::NONE;
        if self.telemetry.trace_sample.is_some_and(samples_none) {
            let why = "servers send spans only of requests that are sampled in advance; add all or \
                       a percentage to --trace-sample, or remove it to sample all";
            return Err(ConfigError::flag("--otel-receiver", why));
        }
        if self.multi_run.is_many() && receiver.address.ends_with(":0") {
            let why = "needs a port for several runs, since each would get another one";
            return Err(ConfigError::flag("--otel-receiver", why));
        }
        Ok(())
    }

    fn check_headers(&self) -> Result<(), ConfigError> {
        for (name, value) in &self.server.headers {
            let name_ok = http::HeaderName::try_from(name.as_str()).is_ok();
            if !name_ok || http::HeaderValue::try_from(value.as_str()).is_err() {
                let why = format!(
                    "{name:?} or its value is not a valid HTTP header; correct or remove it"
                );
                return Err(ConfigError::flag("--header", why));
            }
            if self.sends_trace_context() && name.eq_ignore_ascii_case("traceparent") {
                let why = "traceparent cannot be combined with --trace-sample or \
                           --otel-receiver, which set it for each request; remove one of the two";
                return Err(ConfigError::flag("--header", why));
            }
        }
        self.check_session_header()?;
        match &self.server.api_key {
            Some(key) if http::HeaderValue::try_from(key.expose()).is_err() => {
                let why =
                    "contains characters that are not valid in a header; check for line breaks";
                Err(ConfigError::flag("--api-key", why))
            }
            _ => Ok(()),
        }
    }

    /// Checks that tenants can share the load as it is.
    fn check_tenants(&self) -> Result<(), ConfigError> {
        const FLAG: &str = "--tenants";
        if self.tenants.is_empty() {
            return Ok(());
        }
        let refuse = |why: String| Err(ConfigError::flag(FLAG, why));
        let have_own = |part: &Part| !part.tenants.is_empty();
        if self.schedule.shard.is_some() && self.dataset.parts.iter().any(have_own) {
            return refuse("lengths of tenants cannot be combined with --shard".to_owned());
        }
        let tenants: Vec<_> = self.tenants.iter().map(|tenant| tenant.traffic.clone()).collect();
        for phase in &self.schedule.phases {
            match (&phase.load, phase.concurrency) {
                (LoadPattern::Rate(_), _) => {}
                (LoadPattern::ClosedLoop, Some(limit)) if self.schedule.shard.is_none() => {
                    let slots = Apportionment::apportion(&tenants, limit.most.min(MAX_APPORTIONED));
                    if let Some(at) = slots.iter().position(|slots| *slots == 0) {
                        let name = &tenants[at].name;
                        return refuse(format!(
                            "tenant {name:?} would not get any of {} concurrent requests; raise \
                             --concurrency or its part",
                            limit.most
                        ));
                    }
                }
                _ => {
                    let why = "requires --request-rate, or --concurrency without --shard";
                    return refuse(why.to_owned());
                }
            }
        }
        for part in self.dataset.parts.iter().filter(|part| have_own(part)) {
            let is_single = matches!(&part.source, Source::Synthetic(it)
                if it.sequence_distribution.is_none() && it.range.is_none()
                    && it.recorded_lengths.is_none());
            if !is_single {
                let why = "lengths of tenants require generated prompts, without --seq-dist, \
                           --lengths-from and --random-range-ratio";
                return refuse(why.to_owned());
            }
        }
        let traits = self.endpoint.endpoint_type.traits();
        for tenant in &self.tenants {
            let of =
                |why: String| ConfigError::flag(FLAG, format!("{}: {why}", tenant.traffic.name));
            RequestBuilder::new(traits, self.endpoint.streaming, None, &tenant.headers)
                .map_err(|error| of(error.to_string()))?;
            let settings =
                Settings { objectives: tenant.objectives.clone(), ..self.metrics.clone() };
            Registry::new(settings, traits, self.endpoint.streaming)
                .map_err(|error| of(error.to_string()))?;
        }
        Ok(())
    }

    /// Checks that the header with the session ID does not have another meaning.
    fn check_session_header(&self) -> Result<(), ConfigError> {
        let ServerConfig { session_header, headers, api_key, .. } = &self.server;
        let traits = self.endpoint.endpoint_type.traits();
        let api_key = api_key.as_ref().map(|key| key.expose().as_str());
        RequestBuilder::new(traits, self.endpoint.streaming, api_key, headers)
            .and_then(|builder| builder.with_session_header(session_header.as_deref()))
            .map(drop)
            .map_err(|error| ConfigError::flag("--session-header", error.to_string()))
    }

    /// Checks several runs: that their schedule allows them, and the search what it varies.
    fn check_many(&self) -> Result<(), ConfigError> {
        let schedule = &self.schedule;
        let together = match (schedule.shard, schedule.start_at) {
            (Some(_), _) => Some("--shard"),
            (None, Some(_)) => Some("--start-at"),
            (None, None) => None,
        };
        if let Some(flag) = together.filter(|_| self.multi_run.is_many()) {
            let why = "cannot be combined with several runs, since only the first would have a \
                       known start; make a single run, or remove the flag";
            return Err(ConfigError::flag(flag, why));
        }
        self.check_searched()
    }

    /// Checks that the load has the dimension that is varied. To be called again once the dataset
    /// has determined the load.
    pub(crate) fn check_searched(&self) -> Result<(), ConfigError> {
        let Some(range) = self.multi_run.range() else { return Ok(()) };
        let is_search = self.multi_run.sweep.as_ref().is_some_and(|sweep| sweep.search().is_some());
        let flag = if is_search { "--search-recipe" } else { "--sweep-auto" };
        let Some(phase) = only_measured(&self.schedule.phases) else {
            let why =
                "it varies the load of one phase, and --phase lists several; remove one of the two";
            return Err(ConfigError::flag(flag, why));
        };
        let why = match (range.dimension, &phase.load) {
            (Dimension::Concurrency, LoadPattern::ClosedLoop)
            | (Dimension::RequestRate, LoadPattern::Rate(_)) => return Ok(()),
            (_, LoadPattern::FixedSchedule) => {
                "it varies the load, which the file's timestamps fix; add --no-fixed-schedule"
            }
            (Dimension::Concurrency, _) => {
                "it varies the concurrency of a closed loop; remove the flags that set a rate, or \
                 add --request-rate-max to vary the rate"
            }
            (Dimension::RequestRate, _) => {
                "it varies the request rate; remove the flags that schedule requests in another way"
            }
        };
        Err(ConfigError::flag(flag, why))
    }
}

/// Checks that the file exists. It may be a pipe, since it is read only once.
fn check_dataset_file(path: &Path) -> Result<(), ConfigError> {
    if dataset::inline(path).is_some() {
        return Ok(());
    }
    let why = match fs::metadata(path) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "no such file".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(ConfigError::File { flag: "--input-file", path: path.display().to_string(), why })
}
