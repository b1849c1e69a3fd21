//! AIPerf's own configuration files: each path of its schema as a flag.
//!
//! A file is brought into one form first: names in snake case, one dataset, and the phases `warmup`
//! and `profiling`. Each value is then looked up in [`TABLE`] by its path. What is not in the table
//! is rejected, so that no setting is lost.

mod mixture;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_norway::{Mapping, Value};

use super::super::sweep;
use super::{name, scalar};
use mixture::Lengths;

/// How a value of AIPerf's becomes flags.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// The value of this flag. The flags that aiperf rejects have their own advice.
    Flag(&'static str),
    /// A time in seconds, or with a unit: `30s`, `5m`, `2h`.
    Time(&'static str),
    /// A fixed value, or a mean with a standard deviation.
    Normal(&'static str, Option<&'static str>),
    /// Pairs of lengths with their probabilities.
    Pairs(&'static str),
    /// The lines of a file, as a data URL.
    Records(&'static str),
    /// A switch that this flag turns off.
    Off(&'static str),
    /// Accepted with one of these values, which is what aiperf does anyway.
    Only(&'static [&'static str]),
    /// Not possible, and what to do instead.
    Refused(&'static str),
}

use Rule::{Flag, Normal, Off, Only, Pairs, Records, Refused, Time};

/// What to do instead of raising the load within a run until an objective fails.
const ADAPTIVE: &str = "adaptive scale raises the load within a run; use --search-recipe \
                        max-concurrency-under-sla with --ttft-sla-ms and others, or --sweep-auto, \
                        which raise it from run to run";

/// The paths of AIPerf's schema.
const TABLE: &[(&str, Rule)] = &[
    ("schema_version", Only(&["2.0"])),
    ("random_seed", Flag("random-seed")),
    ("no_sweep_table", Flag("no-sweep-table")),
    ("variables", Refused("templates are not supported; write the values")),
    ("multi_run.num_runs", Flag("num-profile-runs")),
    ("multi_run.cooldown_seconds", Flag("profile-run-cooldown-seconds")),
    ("multi_run.confidence_level", Flag("confidence-level")),
    ("multi_run.set_consistent_seed", Flag("set-consistent-seed")),
    ("multi_run.vary_seed_per_trial", Flag("vary-seed-per-trial")),
    ("multi_run.disable_warmup_after_first", Flag("profile-run-disable-warmup-after-first")),
    ("multi_run.convergence", Flag("convergence-metric")),
    ("model", Flag("model")),
    ("models.strategy", Flag("model-selection-strategy")),
    ("models.weights", Flag("model-weights")),
    ("endpoint.url", Flag("url")),
    ("endpoint.urls", Flag("url")),
    ("endpoint.url_strategy", Only(&["round_robin"])),
    ("endpoint.type", Flag("endpoint-type")),
    ("endpoint.path", Flag("endpoint")),
    ("endpoint.api_key", Flag("api-key")),
    ("endpoint.timeout", Time("request-timeout-seconds")),
    ("endpoint.streaming", Flag("streaming")),
    ("endpoint.transport", Flag("transport")),
    ("endpoint.connection_reuse", Flag("connection-reuse-strategy")),
    ("endpoint.use_legacy_max_tokens", Flag("use-legacy-max-tokens")),
    ("endpoint.use_server_token_count", Flag("use-server-token-count")),
    ("endpoint.per_chunk_usage", Flag("per-chunk-usage")),
    ("endpoint.template", Refused("use extra with payload_template")),
    ("endpoint.headers", Flag("header")),
    ("endpoint.extra", Flag("extra-inputs")),
    ("endpoint.download_video_content", Flag("download-video-content")),
    ("endpoint.request_content_type", Flag("request-content-type")),
    ("endpoint.session_header", Flag("session-header")),
    ("endpoint.uuid_and_strip", Flag("uuid-and-strip")),
    ("endpoint.wait_for_model_timeout", Time("wait-for-model-timeout")),
    ("endpoint.wait_for_model_interval", Time("wait-for-model-interval")),
    ("endpoint.wait_for_model_mode", Flag("wait-for-model-mode")),
    ("endpoint.reset_kv_cache.enabled", Flag("reset-kv-cache")),
    ("endpoint.reset_kv_cache.path", Flag("reset-kv-cache-path")),
    ("endpoint.reset_kv_cache.timeout_seconds", Time("reset-kv-cache-timeout-seconds")),
    ("endpoint.reset_kv_cache.max_retry_seconds", Refused("it is 60 seconds")),
    ("endpoint.server_profiler.enabled", Flag("server-profiler")),
    ("endpoint.server_profiler.start_path", Flag("server-profiler-start-path")),
    ("endpoint.server_profiler.stop_path", Flag("server-profiler-stop-path")),
    ("endpoint.server_profiler.timeout_seconds", Time("server-profiler-timeout-seconds")),
    ("dataset.dataset", Flag("public-dataset")),
    ("dataset.hf_subset", Flag("hf-subset")),
    ("dataset.path", Flag("input-file")),
    ("dataset.records", Records("input-file")),
    ("dataset.format", Flag("custom-dataset-type")),
    ("dataset.entries", Flag("num-dataset-entries")),
    ("dataset.random_seed", Refused("use the random seed of the run")),
    ("dataset.sampling", Flag("dataset-sampling-strategy")),
    ("dataset.system_prompt", Flag("system-prompt")),
    ("dataset.system_prompt_file", Flag("system-prompt-file")),
    ("dataset.isl", Normal("isl", Some("isl-stddev"))),
    ("dataset.osl", Normal("osl", Some("osl-stddev"))),
    ("dataset.prompts.isl", Normal("isl", Some("isl-stddev"))),
    ("dataset.prompts.osl", Normal("osl", Some("osl-stddev"))),
    ("dataset.prompts.block_size", Flag("isl-block-size")),
    ("dataset.prompts.batch_size", Flag("batch-size")),
    ("dataset.prompts.sequence_distribution", Pairs("seq-dist")),
    ("dataset.prompts.random_range_ratio", Flag("random-range-ratio")),
    ("dataset.prompts.random_corpus_style", Flag("random-corpus-style")),
    ("dataset.prompts.corpus", Flag("prompt-corpus")),
    ("dataset.block_size", Flag("isl-block-size")),
    ("dataset.prompt_batch_size", Flag("batch-size")),
    ("dataset.prefix_prompts.pool_size", Flag("num-prefix-prompts")),
    ("dataset.prefix_prompts.length", Flag("prefix-prompt-length")),
    ("dataset.prefix_prompts.shared_system_length", Flag("shared-system-prompt-length")),
    ("dataset.prefix_prompts.user_context_length", Flag("user-context-prompt-length")),
    ("dataset.turns", Normal("session-turns-mean", Some("session-turns-stddev"))),
    ("dataset.turn_delay", Normal("session-turn-delay-mean", Some("session-turn-delay-stddev"))),
    ("dataset.turn_delay_ratio", Flag("session-delay-ratio")),
    ("dataset.images.batch_size", Flag("image-batch-size")),
    ("dataset.images.width", Normal("image-width-mean", Some("image-width-stddev"))),
    ("dataset.images.height", Normal("image-height-mean", Some("image-height-stddev"))),
    ("dataset.images.format", Flag("image-format")),
    ("dataset.images.source", Flag("image-source")),
    ("dataset.images.source_sampling", Flag("image-source-sampling")),
    ("dataset.audio.batch_size", Flag("audio-batch-size")),
    ("dataset.audio.length", Normal("audio-length-mean", Some("audio-length-stddev"))),
    ("dataset.audio.format", Flag("audio-format")),
    ("dataset.audio.depths", Flag("audio-depths")),
    ("dataset.audio.sample_rates", Flag("audio-sample-rates")),
    ("dataset.audio.channels", Flag("audio-num-channels")),
    ("dataset.video.batch_size", Flag("video-batch-size")),
    ("dataset.video.duration", Normal("video-duration", None)),
    ("dataset.video.fps", Flag("video-fps")),
    ("dataset.video.width", Normal("video-width", None)),
    ("dataset.video.height", Normal("video-height", None)),
    ("dataset.video.synth_type", Flag("video-synth-type")),
    ("dataset.video.format", Flag("video-format")),
    ("dataset.video.codec", Flag("video-codec")),
    ("dataset.synthesis.speedup_ratio", Flag("synthesis-speedup-ratio")),
    ("dataset.synthesis.prefix_len_multiplier", Flag("synthesis-prefix-len-multiplier")),
    ("dataset.synthesis.prefix_root_multiplier", Flag("synthesis-prefix-root-multiplier")),
    ("dataset.synthesis.prompt_len_multiplier", Flag("synthesis-prompt-len-multiplier")),
    ("dataset.synthesis.output_len_multiplier", Flag("synthesis-output-len-multiplier")),
    ("dataset.synthesis.max_isl", Flag("synthesis-max-isl")),
    ("dataset.synthesis.max_osl", Flag("synthesis-max-osl")),
    ("dataset.replay_speedup", Flag("replay-speedup")),
    ("dataset.ignore_trace_delays", Flag("ignore-trace-delays")),
    ("dataset.inter_turn_delay_cap_seconds", Time("inter-turn-delay-cap-seconds")),
    ("dataset.open_loop_strict", Flag("open-loop-strict")),
    ("dataset.use_think_time_only", Flag("use-think-time-only")),
    ("dataset.max_context_length", Flag("max-context-length")),
    ("dataset.trace_session_sample_ratio", Flag("trace-session-sample-ratio")),
    ("profiling.requests", Flag("request-count")),
    ("profiling.sessions", Flag("num-sessions")),
    ("profiling.duration", Time("benchmark-duration")),
    ("profiling.grace_period", Time("benchmark-grace-period")),
    ("profiling.concurrency", Flag("concurrency")),
    ("profiling.concurrency_ramp", Time("concurrency-ramp-duration")),
    ("profiling.prefill_concurrency", Flag("prefill-concurrency")),
    ("profiling.prefill_ramp", Time("prefill-concurrency-ramp-duration")),
    ("profiling.rate", Flag("request-rate")),
    ("profiling.rate_ramp", Time("request-rate-ramp-duration")),
    ("profiling.rate_series.path", Flag("request-rate-series")),
    ("profiling.smoothness", Flag("arrival-smoothness")),
    ("profiling.arrivals", Flag("arrival-pattern")),
    ("profiling.users", Flag("num-users")),
    ("profiling.user_rate", Flag("user-centric-rate")),
    ("profiling.fixed_schedule", Flag("fixed-schedule")),
    ("profiling.auto_offset", Flag("fixed-schedule-auto-offset")),
    ("profiling.start_offset", Flag("fixed-schedule-start-offset")),
    ("profiling.end_offset", Flag("fixed-schedule-end-offset")),
    ("profiling.cancellation.rate", Flag("request-cancellation-rate")),
    ("profiling.cancellation.delay", Time("request-cancellation-delay")),
    ("profiling.failed_request_threshold", Flag("failed-request-threshold")),
    ("profiling.adaptive_scale", Refused(ADAPTIVE)),
    ("profiling.sla", Refused(ADAPTIVE)),
    ("profiling.exclude_from_results", Only(&["false"])),
    ("warmup.requests", Flag("warmup-request-count")),
    ("warmup.sessions", Flag("num-warmup-sessions")),
    ("warmup.duration", Time("warmup-duration")),
    ("warmup.grace_period", Time("warmup-grace-period")),
    ("warmup.concurrency", Flag("warmup-concurrency")),
    ("warmup.concurrency_ramp", Time("warmup-concurrency-ramp-duration")),
    ("warmup.prefill_concurrency", Flag("warmup-prefill-concurrency")),
    ("warmup.prefill_ramp", Time("warmup-prefill-concurrency-ramp-duration")),
    ("warmup.rate", Flag("warmup-request-rate")),
    ("warmup.rate_ramp", Time("warmup-request-rate-ramp-duration")),
    ("warmup.arrivals", Flag("warmup-arrival-pattern")),
    ("warmup.users", Flag("warmup-num-users")),
    ("warmup.user_rate", Flag("warmup-user-centric-rate")),
    ("warmup.fixed_schedule", Refused("a warmup cannot have a schedule; use a concurrency")),
    ("warmup.exclude_from_results", Only(&["true"])),
    ("artifacts.dir", Flag("artifact-dir")),
    ("artifacts.prefix", Flag("profile-export-prefix")),
    ("artifacts.summary", Only(&["json", "csv", "json,csv", "csv,json", "true"])),
    ("artifacts.records", Only(&["jsonl", "true"])),
    ("artifacts.export_level", Flag("export-level")),
    ("artifacts.trace", Flag("export-http-trace")),
    ("artifacts.slice_duration", Time("slice-duration")),
    ("artifacts.show_trace_timing", Flag("show-trace-timing")),
    ("artifacts.user_files", Refused("write the files beside the run's directory")),
    ("artifacts.auto_plot", Flag("auto-plot")),
    ("artifacts.plot_required", Flag("plot-required")),
    ("artifacts.export_outputs_json", Flag("export-outputs-json")),
    ("slos", Flag("goodput")),
    ("tokenizer.name", Flag("tokenizer")),
    ("tokenizer.revision", Flag("tokenizer-revision")),
    ("tokenizer.trust_remote_code", Flag("tokenizer-trust-remote-code")),
    ("tokenizer.apply_chat_template", Flag("apply-chat-template")),
    ("gpu_telemetry.enabled", Off("no-gpu-telemetry")),
    ("gpu_telemetry.urls", Flag("gpu-telemetry")),
    ("gpu_telemetry.metrics_file", Refused("name the file in --gpu-telemetry")),
    ("gpu_telemetry.collector", Only(&["dcgm"])),
    ("gpu_telemetry.mode", Only(&["summary"])),
    ("server_metrics.enabled", Off("no-server-metrics")),
    ("server_metrics.urls", Flag("server-metrics")),
    ("server_metrics.formats", Flag("server-metrics-formats")),
    ("network_latency.enabled", Flag("network-latency-automatic")),
    ("network_latency.ping_interval", Time("network-latency-ping-interval")),
    ("network_latency.mean_ms", Flag("network-latency-mean")),
    ("otel.metrics_url", Flag("otel-url")),
    ("otel.custom_resource_attributes", Flag("otel-resource-attributes")),
    ("otel.gen_ai_provider", Flag("gen-ai-provider")),
    ("mlflow.tracking_uri", Flag("mlflow-tracking-uri")),
    ("mlflow.experiment", Flag("mlflow-experiment")),
    ("mlflow.run_name", Flag("mlflow-run-name")),
    ("mlflow.tags", Flag("mlflow-tag")),
    ("mlflow.parent_run_id", Flag("mlflow-parent-run-id")),
    ("mlflow.artifact_globs", Flag("mlflow-artifact-glob")),
    ("wandb", Flag("wandb-project")),
    ("accuracy", Refused("aiperf does not judge the content of responses")),
    ("scenario", Refused("set what the scenario stands for")),
    ("runtime.ui", Flag("ui")),
    ("runtime.api_port", Flag("api-port")),
    ("runtime.api_host", Flag("api-host")),
    ("runtime.stats_interval", Flag("stats-interval")),
    ("runtime.workers", Flag("workers-max")),
    ("runtime.record_processors", Flag("record-processors")),
    ("logging.level", Flag("log-level")),
    ("sweep.type", Flag("sweep-type")),
    ("sweep.cooldown_seconds", Flag("parameter-sweep-cooldown-seconds")),
    ("sweep.iteration_order", Flag("parameter-sweep-mode")),
    ("sweep.same_seed", Flag("parameter-sweep-same-seed")),
    ("sweep.sla_filters", Refused("use --gate")),
];

/// Names that stand for those of the profiling phase in the parameters of a sweep.
const OF_PROFILING: [&str; 13] = [
    "concurrency",
    "concurrency_ramp",
    "duration",
    "grace_period",
    "prefill_concurrency",
    "prefill_ramp",
    "rate",
    "rate_ramp",
    "rate_series",
    "requests",
    "sessions",
    "smoothness",
    "users",
];

/// A flag of aiperf, or one of AIPerf's that aiperf rejects, and the path and value in the file.
#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) flag: &'static str,
    pub(super) path: String,
    pub(super) value: Value,
}

/// Maps a file with the key `benchmark`, in whose values variables are replaced already.
pub(super) fn mapped(document: Value) -> Result<Vec<Mapped>, String> {
    let mut document = snake(document)?;
    let benchmark = document.remove("benchmark");
    let sweep = document.remove("sweep");
    let plot = document.remove("plot");
    let mixes = [&benchmark, &sweep].into_iter().flatten().any(mixture::is_in);
    let mut file = File { lengths: mixes.then(Lengths::default), ..File::default() };
    let phases = file.normalize(members(benchmark, "benchmark")?)?;
    for (key, value) in phases.into_iter().chain(document) {
        file.add(&name_of(&key)?, value)?;
    }
    if let Some(sweep) = sweep.filter(|sweep| !sweep.is_null()) {
        file.sweep(members(Some(sweep), "sweep")?)?;
    }
    file.plot(plot.as_ref())?;
    file.drop_ramps();
    Ok(file.found)
}

/// What was read of a file.
#[derive(Default)]
struct File {
    found: Vec<Mapped>,
    /// The type of the profiling phase.
    load: String,
    /// Whether what is read replaces what was read before.
    replaces: bool,
    /// The lengths, if any in the file is a mixture.
    lengths: Option<Lengths>,
}

impl File {
    /// Brings `benchmark` into the form whose paths [`TABLE`] has.
    fn normalize(&mut self, mut benchmark: Mapping) -> Result<Mapping, String> {
        let put = |key: &str, value: Value, of: &mut Mapping| {
            of.insert(key.into(), value);
        };
        if let Some(models) = benchmark.remove("models") {
            let Models { strategy, names, weights } = models_of(models)?;
            put("model", names, &mut benchmark);
            let strategy = strategy.map(|strategy| ("strategy".into(), strategy));
            let weights = weights.map(|weights| ("weights".into(), weights));
            let models: Mapping = strategy.into_iter().chain(weights).collect();
            put("models", Value::Mapping(models), &mut benchmark);
        }
        if let Some(datasets) = benchmark.remove("datasets") {
            put("dataset", only(datasets, "datasets")?, &mut benchmark);
        }
        if let Some(Value::Mapping(dataset)) = benchmark.get_mut("dataset") {
            dataset.remove("name");
            dataset.remove("type");
            if let Some(lengths) = &mut self.lengths
                && let Some(text) = lengths.of(dataset)?
            {
                self.put("seq-dist", "dataset.prompts.isl", Value::String(text))?;
            }
        }
        if let Some(phases) = benchmark.remove("phases") {
            for (key, phase) in phases_of(phases)? {
                if benchmark.contains_key(key) {
                    return Err(format!("several phases are {key}; run one after the other"));
                }
                put(key, Value::Mapping(phase), &mut benchmark);
            }
        }
        for key in ["warmup", "profiling"] {
            if let Some(Value::Mapping(phase)) = benchmark.get_mut(key) {
                let load = phase.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                typed(phase, &load, key)?;
                if key == "profiling" {
                    self.load = load;
                }
            }
        }
        if let Some(Value::Mapping(artifacts)) = benchmark.get_mut("artifacts") {
            let has_records = artifacts.get("records") != Some(&Value::Bool(false));
            let raw = artifacts.remove("raw");
            if raw.as_ref().is_some_and(|raw| !is_off(raw)) {
                put("export_level", "raw".into(), artifacts);
            } else if !has_records {
                artifacts.remove("records");
                put("export_level", "summary".into(), artifacts);
            }
        }
        if let Some(Value::Mapping(endpoint)) = benchmark.get_mut("endpoint") {
            for key in ["reset_kv_cache", "server_profiler"] {
                switched(endpoint, key);
            }
        }
        if let Some(Value::Mapping(latency)) = benchmark.get_mut("network_latency") {
            let is_on = latency.get("enabled").is_none_or(|enabled| !is_off(enabled));
            let is_given = latency.get("mean_ms").is_some_and(|mean| !mean.is_null());
            if !is_on {
                latency.clear();
            } else if is_given {
                latency.retain(|key, _| key.as_str() == Some("mean_ms"));
            }
        }
        for key in ["server_metrics", "gpu_telemetry"] {
            if let Some(value) = benchmark.get_mut(key)
                && !value.is_mapping()
            {
                let urls = std::mem::take(value);
                *value = Value::Mapping([("urls".into(), urls)].into_iter().collect());
            }
        }
        Ok(benchmark)
    }

    /// Draws charts if the file describes some: aiperf's own, not those of the description.
    fn plot(&mut self, plot: Option<&Value>) -> Result<(), String> {
        let is_asked = plot.is_some_and(|plot| !plot.is_null() && !is_off(plot));
        if is_asked && !self.found.iter().any(|mapped| mapped.flag == "auto-plot") {
            self.put("auto-plot", "plot", Value::Bool(true))?;
        }
        Ok(())
    }

    /// Removes ramps of a limit that no phase has, which AIPerf ignores.
    fn drop_ramps(&mut self) {
        for (limit, ramp) in [
            ("prefill-concurrency", "prefill-concurrency-ramp-duration"),
            ("warmup-prefill-concurrency", "warmup-prefill-concurrency-ramp-duration"),
        ] {
            let sets_limit = |mapped: &Mapped| {
                // A warmup has the limit of the measurement.
                let is_limit = [limit, "prefill-concurrency"].contains(&mapped.flag);
                let is_varied = |text: &str| text.contains("prefill-concurrency=");
                let of_scenario = mapped.value.as_sequence().into_iter().flatten();
                is_limit || of_scenario.filter_map(Value::as_str).any(is_varied)
            };
            if !self.found.iter().any(sets_limit) {
                self.found.retain(|mapped| mapped.flag != ramp);
            }
        }
    }

    /// Adds the flags of the value at `path`.
    fn add(&mut self, path: &str, value: Value) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        if let Some((_, rule)) = TABLE.iter().find(|(known, _)| *known == path) {
            return self.apply(path, *rule, value);
        }
        let inside = format!("{path}.");
        match value {
            Value::Mapping(members)
                if TABLE.iter().any(|(known, _)| known.starts_with(&inside)) =>
            {
                members.into_iter().try_for_each(|(key, value)| {
                    self.add(&format!("{inside}{}", name_of(&key)?), value)
                })
            }
            _ => Err(format!("aiperf does not support {path} of AIPerf's files; remove it")),
        }
    }

    fn apply(&mut self, path: &str, rule: Rule, value: Value) -> Result<(), String> {
        let wrong = |expected: &str| Err(format!("{path}: expected {expected}"));
        // AIPerf leaves the template of a request's body to the run, as aiperf does.
        if path != "endpoint.extra" && has_template(&value) {
            return Err(format!("{path}: templates are not supported; write the values"));
        }
        match rule {
            Flag(flag) => self.put(flag, path, value)?,
            Time(flag) => match seconds(value) {
                Some(value) => self.put(flag, path, value)?,
                None => return wrong("seconds, or a time such as 30s, 5m or 2h"),
            },
            Normal(mean, stddev) => match value {
                Value::Mapping(parts) => {
                    for (key, value) in parts {
                        let key = name_of(&key)?;
                        match (key.as_str(), stddev) {
                            ("mean" | "value", _) => self.put(mean, path, value)?,
                            ("stddev", Some(stddev)) => self.put(stddev, path, value)?,
                            ("type", _)
                                if ["normal", "fixed"].contains(&value.as_str().unwrap_or("")) => {}
                            _ => {
                                return Err(format!(
                                    "aiperf does not support {path}.{key} of AIPerf's files; use a \
                                     fixed value, or mean and stddev"
                                ));
                            }
                        }
                    }
                }
                value => self.put(mean, path, value)?,
            },
            Records(flag) => match records(&value) {
                Some(url) => self.put(flag, path, Value::String(url))?,
                None => return wrong("a list of requests"),
            },
            Pairs(flag) => match pairs(&value) {
                Some(text) => self.put(flag, path, Value::String(text))?,
                None => return wrong("a list of isl, osl and probability"),
            },
            Off(flag) => match scalar(&value).as_deref() {
                Some("true") => {}
                Some("false") => self.put(flag, path, Value::Bool(true))?,
                _ => return wrong("true or false"),
            },
            Only(accepted) => {
                let texts = match &value {
                    Value::Sequence(items) => items.iter().map(scalar).collect(),
                    value => scalar(value).map(|text| vec![text]),
                };
                let text = texts.unwrap_or_default().join(",");
                if !accepted.contains(&text.as_str()) {
                    return Err(format!(
                        "aiperf does not support this value of {path} of AIPerf's files; it must be {}",
                        accepted[0]
                    ));
                }
            }
            Refused(_) if is_off(&value) => {}
            Refused(why) => {
                return Err(format!("aiperf does not support {path} of AIPerf's files: {why}"));
            }
        }
        Ok(())
    }

    /// Adds a flag. The parameters of a sweep replace the value that the file has for all cells.
    fn put(&mut self, flag: &'static str, path: &str, value: Value) -> Result<(), String> {
        let mapped = Mapped { flag, path: path.to_owned(), value };
        match self.found.iter_mut().find(|other| other.flag == flag) {
            Some(other) if self.replaces => *other = mapped,
            Some(other) => {
                return Err(format!("{} and {path} are the same; remove one of them", other.path));
            }
            None => self.found.push(mapped),
        }
        Ok(())
    }

    fn sweep(&mut self, mut sweep: Mapping) -> Result<(), String> {
        let kind = sweep.get("type").and_then(Value::as_str).unwrap_or("grid").to_owned();
        let runs = sweep.remove("runs");
        let parameters = sweep.remove("parameters");
        match kind.as_str() {
            "grid" | "zip" => {}
            "scenarios" => {
                sweep.remove("type");
            }
            _ => {
                return Err(
                    "sweep.type: aiperf supports grid, zip and scenarios of AIPerf's files"
                        .to_owned(),
                );
            }
        }
        for (key, value) in sweep {
            self.add(&format!("sweep.{}", name_of(&key)?), value)?;
        }
        self.replaces = true;
        let parameters = members(parameters, "sweep.parameters")?;
        if let Some(scenarios) = self.scenarios_of(&parameters)? {
            self.found.retain(|mapped| mapped.flag != "sweep-type");
            return self.put("variant", "sweep.parameters", Value::Sequence(scenarios));
        }
        for (key, values) in parameters {
            self.add(&self.parameter(&name_of(&key)?), values)?;
        }
        let Some(Value::Sequence(runs)) = runs else { return Ok(()) };
        let scenarios: Result<Vec<Value>, String> = (0..)
            .zip(runs)
            .map(|(index, run)| self.scenario(index, run).map(Value::String))
            .collect();
        self.put("variant", "sweep.runs", Value::Sequence(scenarios?))
    }

    /// Returns the only parameter of a sweep as values of `--variant`, if its flag does not take a
    /// list.
    fn scenarios_of(&self, parameters: &Mapping) -> Result<Option<Vec<Value>>, String> {
        let mut all = parameters.iter();
        let (Some((key, Value::Sequence(values))), None) = (all.next(), all.next()) else {
            return Ok(None);
        };
        let path = self.parameter(&name_of(key)?);
        let flag = match TABLE.iter().find(|(known, _)| *known == path) {
            Some((_, Flag(flag))) if sweep::swept(flag).is_err() => flag,
            _ => return Ok(None),
        };
        let scenario = |value: &Value| {
            let text = scalar(value).ok_or_else(|| format!("{path}: expected a list of values"))?;
            Ok(Value::String(format!("{text}: {flag}={text}")))
        };
        values.iter().map(scenario).collect::<Result<_, String>>().map(Some)
    }

    /// Returns the path in [`TABLE`] of a parameter of a sweep.
    fn parameter(&self, path: &str) -> String {
        let path = path.strip_prefix("phases.").unwrap_or(path);
        let mut parts: Vec<&str> = path.split('.').collect();
        if parts.first() == Some(&"datasets") && parts.len() > 2 {
            parts.splice(..2, ["dataset"]);
        }
        if parts.len() == 1 && OF_PROFILING.contains(&parts[0]) {
            parts.insert(0, "profiling");
        }
        if parts == ["profiling", "rate"] && self.load == "user_centric" {
            parts[1] = "user_rate";
        }
        parts.join(".")
    }

    /// Returns a run of `sweep.runs` as a value of `--variant`.
    fn scenario(&self, index: u64, run: Value) -> Result<String, String> {
        let mut run = members(Some(run), "sweep.runs")?;
        let label = match run.remove("name") {
            Some(label) => scalar(&label).ok_or("sweep.runs: the name must be a text")?,
            None => format!("scenario_{index}"),
        };
        let benchmark = run.remove("benchmark");
        if let Some((key, _)) = run.into_iter().next() {
            let key = name_of(&key)?;
            return Err(format!("aiperf does not support sweep.runs.{key} of AIPerf's files"));
        }
        let mut benchmark = members(benchmark, "sweep.runs.benchmark")?;
        // The phases of a scenario have the type of the file's unless they say another.
        for phase in phases_in(&mut benchmark) {
            if !phase.contains_key("type") {
                phase.insert("type".into(), self.load.clone().into());
            }
        }
        let mut file = Self { lengths: self.lengths.clone(), ..Self::default() };
        for (key, value) in file.normalize(benchmark)? {
            file.add(&name_of(&key)?, value)?;
        }
        let setting = |mapped: &Mapped| {
            let value = scalar(&mapped.value).ok_or_else(|| {
                format!("sweep.runs: {} must be a single value in a scenario", mapped.path)
            })?;
            Ok(format!("{}={value}", mapped.flag))
        };
        let is_new = |mapped: &&Mapped| {
            let is_same = |own: &Mapped| own.flag == mapped.flag && own.value == mapped.value;
            !self.found.iter().any(is_same)
        };
        let settings: Result<Vec<String>, String> =
            file.found.iter().filter(is_new).map(setting).collect();
        Ok(format!("{label}: {}", settings?.join(", ")))
    }
}

/// Returns the mappings of the phases in `benchmark` that override others.
fn phases_in(benchmark: &mut Mapping) -> Vec<&mut Mapping> {
    let key = if benchmark.contains_key("phases") { "phases" } else { "profiling" };
    match benchmark.get_mut(key) {
        Some(Value::Sequence(phases)) => {
            let is_profiling = |phase: &&mut Mapping| {
                phase.get("name").and_then(Value::as_str).is_none_or(|name| name != "warmup")
            };
            phases.iter_mut().filter_map(Value::as_mapping_mut).filter(is_profiling).collect()
        }
        Some(Value::Mapping(phase)) => vec![phase],
        _ => Vec::new(),
    }
}

/// Returns the phases by the name that they have in [`TABLE`].
fn phases_of(phases: Value) -> Result<Vec<(&'static str, Mapping)>, String> {
    let phases = match phases {
        Value::Sequence(phases) => phases,
        phase => vec![phase],
    };
    let mut found: Vec<(&'static str, Mapping)> = Vec::new();
    for phase in phases {
        let mut phase = members(Some(phase), "phases")?;
        let of = |phase: &mut Mapping, key: &str| phase.remove(key).as_ref().and_then(scalar);
        let (label, kind) = (of(&mut phase, "name"), of(&mut phase, "kind"));
        let is_warmup = kind.or(label).is_some_and(|kind| kind == "warmup");
        let key = if is_warmup { "warmup" } else { "profiling" };
        if found.iter().any(|(known, _)| *known == key) {
            return Err(format!("several phases are {key}; run one after the other"));
        }
        found.push((key, phase));
    }
    Ok(found)
}

/// Replaces the type of a phase by the settings that it stands for.
fn typed(phase: &mut Mapping, load: &str, key: &str) -> Result<(), String> {
    phase.remove("type");
    match load {
        // A scenario may override a warmup without its type.
        "concurrency" | "" => {}
        "poisson" | "gamma" | "constant" => {
            phase.insert("arrivals".into(), load.into());
        }
        "user_centric" => {
            if let Some(rate) = phase.remove("rate") {
                phase.insert("user_rate".into(), rate);
            }
        }
        "fixed_schedule" => {
            phase.insert("fixed_schedule".into(), true.into());
            if !["auto_offset", "start_offset"].iter().any(|it| phase.contains_key(*it)) {
                phase.insert("auto_offset".into(), true.into());
            }
        }
        _ => return Err(format!("{key}.type: {load:?} is not a type of phase")),
    }
    Ok(())
}

/// Brings a setting that may be a switch or a mapping into a mapping with `enabled`.
fn switched(settings: &mut Mapping, key: &str) {
    match settings.get_mut(key) {
        None | Some(Value::Null) => {}
        Some(Value::Mapping(members)) => {
            members.insert("enabled".into(), true.into());
        }
        Some(value) => {
            let is_on = std::mem::take(value);
            *value = Value::Mapping([("enabled".into(), is_on)].into_iter().collect());
        }
    }
}

/// The models of a file.
struct Models {
    strategy: Option<Value>,
    names: Value,
    /// A list, if the models have weights.
    weights: Option<Value>,
}

/// Returns the models, which are a list, or a strategy and a list.
fn models_of(models: Value) -> Result<Models, String> {
    let (strategy, items) = match models {
        Value::Mapping(mut models) => {
            (models.remove("strategy"), models.remove("items").unwrap_or_default())
        }
        items => (None, items),
    };
    let Value::Sequence(items) = items else {
        return Ok(Models { strategy, names: items, weights: None });
    };
    let (mut names, mut weights) = (Vec::new(), Vec::new());
    for item in items {
        let Value::Mapping(mut item) = item else {
            names.push(item);
            continue;
        };
        names.push(item.remove("name").ok_or("models: an item does not have a name")?);
        weights.extend(item.remove("weight").filter(|weight| !weight.is_null()));
        if let Some((key, _)) = item.into_iter().next() {
            let key = name_of(&key)?;
            return Err(format!("aiperf does not support models.items.{key} of AIPerf's files"));
        }
    }
    let weights = (!weights.is_empty()).then_some(Value::Sequence(weights));
    Ok(Models { strategy, names: Value::Sequence(names), weights })
}

/// Returns the only item of a list.
fn only(list: Value, path: &str) -> Result<Value, String> {
    match list {
        Value::Sequence(mut items) if items.len() == 1 => Ok(items.remove(0)),
        Value::Sequence(_) => Err(format!("{path}: aiperf supports one dataset")),
        other => Ok(other),
    }
}

/// Returns the members of a mapping; none if it is absent.
fn members(value: Option<Value>, path: &str) -> Result<Mapping, String> {
    match value {
        None | Some(Value::Null) => Ok(Mapping::new()),
        Some(Value::Mapping(members)) => Ok(members),
        Some(_) => Err(format!("{path}: expected settings")),
    }
}

fn name_of(key: &Value) -> Result<String, String> {
    Ok(name(key)?.replace('-', "_"))
}

/// Brings the names of settings into snake case. What users name themselves stays: headers, bodies,
/// objectives, and the parameters of sweeps.
fn snake(value: Value) -> Result<Mapping, String> {
    fn inside(value: Value) -> Value {
        const NAMED_BY_USERS: [&str; 6] =
            ["headers", "extra", "slos", "custom_resource_attributes", "variables", "tags"];
        match value {
            Value::Sequence(items) => Value::Sequence(items.into_iter().map(inside).collect()),
            Value::Mapping(members) => {
                let member = |(key, value): (Value, Value)| {
                    let key = key.as_str().map_or(key.clone(), |key| snake_name(key).into());
                    let is_named = key.as_str().is_some_and(|key| NAMED_BY_USERS.contains(&key));
                    (key, if is_named { value } else { inside(value) })
                };
                Value::Mapping(members.into_iter().map(member).collect())
            }
            other => other,
        }
    }
    members(Some(inside(value)), "the file")
}

/// Returns `rate_ramp` for `rateRamp`.
fn snake_name(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !text.is_empty() && !text.ends_with(['_', '.']) {
            text.push('_');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// Returns whether `value` turns off what it is a setting of.
pub(super) fn is_off(value: &Value) -> bool {
    let off = Value::Bool(false);
    *value == off || value.get("enabled") == Some(&off)
}

/// Returns whether a text in `value` is a template.
fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{") || text.contains("{%"),
        Value::Sequence(items) => items.iter().any(has_template),
        Value::Mapping(members) => members.values().any(has_template),
        _ => false,
    }
}

/// Returns a time, or a list of times, in seconds.
fn seconds(value: Value) -> Option<Value> {
    match value {
        Value::Sequence(items) => {
            items.into_iter().map(seconds).collect::<Option<_>>().map(Value::Sequence)
        }
        Value::String(text) => {
            let text = text.trim();
            let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0)];
            let of = |(unit, factor): &(&str, f64)| {
                let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
                Some(Value::String((number * factor).to_string()))
            };
            units.iter().find_map(of).or_else(|| Some(Value::String(text.to_owned())))
        }
        value => scalar(&value).map(|_| value),
    }
}

/// Returns a list of requests as a data URL with a line for each.
fn records(list: &Value) -> Option<String> {
    let line = |record: &Value| serde_json::to_string(record).ok();
    let lines: Option<Vec<String>> = list.as_sequence()?.iter().map(line).collect();
    let text = lines?.join("\n");
    Some(format!("data:,{}", utf8_percent_encode(&text, NON_ALPHANUMERIC)))
}

/// Returns a list of lengths with probabilities as in `--seq-dist`: `128|10,64|5:60;512,128:40`.
fn pairs(list: &Value) -> Option<String> {
    let pair = |item: &Value| {
        let of = |key: &str| item.get(key).and_then(scalar);
        let length = |key: &str, stddev: &str| {
            let length = of(key)?;
            Some(of(stddev).map_or(length.clone(), |stddev| format!("{length}|{stddev}")))
        };
        let (isl, osl) = (length("isl", "isl_stddev")?, length("osl", "osl_stddev")?);
        Some(format!("{isl},{osl}:{}", of("probability")?))
    };
    let pairs: Option<Vec<String>> = list.as_sequence()?.iter().map(pair).collect();
    pairs.map(|pairs| pairs.join(";"))
}

#[cfg(test)]
mod tests;
