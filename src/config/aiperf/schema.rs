//! The settings of AIPerf's files, one row each.
//!
//! The paths are those of a file in one form: names in snake case, one dataset, and the phases
//! `warmup` and `profiling`. A row is read in both directions: its rule makes flags of a file's value,
//! and its source is where the configuration of a run has the value that `input_config` shows.
//! `input_config` has the settings in the order of the rows.

mod phase;

use std::sync::LazyLock;

use serde_json::{Value, json};

use base::units::Nanos;

pub(super) use phase::PHASE;

/// How a value of AIPerf's becomes flags.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// The value of this flag. The flags that aiperf rejects have their own advice.
    Flag(&'static str),
    /// A time in seconds, or with a unit: `30s`, `5m`, `2h`.
    Time(&'static str),
    /// The duration of a ramp, alone or as the only member of an object.
    Ramp(&'static str),
    /// A fixed value, or a mean with a standard deviation.
    Normal(&'static str, Option<&'static str>),
    /// Pairs of lengths with their probabilities.
    Pairs(&'static str),
    /// The lines of a file, as a data URL.
    Records(&'static str),
    /// A value that may be an object, as JSON.
    Json(&'static str),
    /// A switch that the first flag turns on, unless it is on anyway, and the second off.
    Switch(Option<&'static str>, &'static str),
    /// Accepted with one of these values, which is what aiperf does anyway.
    Only(&'static [&'static str]),
    /// Follows from other settings, or is another form of them; any value is accepted.
    Implied,
    /// Not possible, and what to do instead.
    Refused(&'static str),
}

use Rule::{Flag, Implied, Json, Normal, Only, Pairs, Ramp, Records, Refused, Switch, Time};

impl Rule {
    /// Returns the flags that a value can become.
    fn flags(self) -> Vec<&'static str> {
        match self {
            Flag(flag) | Time(flag) | Ramp(flag) | Pairs(flag) | Records(flag) | Json(flag) => {
                vec![flag]
            }
            Normal(mean, stddev) => [mean].into_iter().chain(stddev).collect(),
            Switch(on, off) => on.into_iter().chain([off]).collect(),
            Only(_) | Implied | Refused(_) => Vec::new(),
        }
    }
}

/// The values of a setting that a sweep can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Whole,
    Real,
    /// A time, in seconds.
    Seconds,
}

use Number::{Real, Whole};

/// A setting of a file, or of a phase in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    /// Its path in the file, or in the phase.
    pub(super) path: &'static str,
    /// How its value becomes flags; in a phase, how that of the phase `profiling` does.
    rule: Rule,
    /// The same for the phase `warmup`; `None` if that phase cannot have it.
    warmup: Option<Rule>,
    /// The values that a sweep can vary: of the flag, or of both flags of a distribution.
    varied: &'static [Number],
    /// Path of its value in a run, as [`input_config`](super::input_config()) describes it; `None` if
    /// `input_config` does not have the setting.
    source: Option<&'static str>,
    /// The value that is left out of `input_config`.
    omitted: Option<&'static str>,
}

const fn row(path: &'static str, rule: Rule) -> Setting {
    Setting { path, rule, warmup: None, varied: &[], source: None, omitted: None }
}

impl Setting {
    const fn in_warmup(self, rule: Rule) -> Self {
        Self { warmup: Some(rule), ..self }
    }

    const fn varies(self, varied: &'static [Number]) -> Self {
        Self { varied, ..self }
    }

    const fn at(self, source: &'static str) -> Self {
        Self { source: Some(source), ..self }
    }

    const fn sparse(self, source: &'static str, omitted: &'static str) -> Self {
        Self { source: Some(source), omitted: Some(omitted), ..self }
    }

    /// Returns the value that `input_config` shows for `run`; `None` if it does not have the setting.
    pub(super) fn shown(&self, run: &Value) -> Option<Value> {
        let value = self.source?.split('.').try_fold(run, |value, name| value.get(name))?;
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if value.is_null() || self.omitted.is_some_and(|omitted| text() == omitted) {
            return None;
        }
        let seconds = || value.as_u64().map(|nanos| Nanos(nanos).as_seconds());
        match self.rule {
            Time(_) => seconds().map(Value::from),
            Ramp(_) => seconds().map(|duration| json!({ "duration": duration })),
            // AIPerf's lengths are normally distributed.
            Normal(_, Some(_)) => value.get("stddev").map(|_| value.clone()),
            _ => Some(value.clone()),
        }
    }
}

/// The settings of a file other than those of phases.
pub(super) const SETTINGS: &[Setting] = &[
    row("schema_version", Only(&["2.0"])),
    row("random_seed", Flag("random-seed")),
    row("no_sweep_table", Flag("no-sweep-table")),
    row("multi_run.num_runs", Flag("num-profile-runs")),
    row("multi_run.cooldown_seconds", Flag("profile-run-cooldown-seconds")),
    row("multi_run.confidence_level", Flag("confidence-level")),
    row("multi_run.set_consistent_seed", Flag("set-consistent-seed")),
    row("multi_run.vary_seed_per_trial", Flag("vary-seed-per-trial")),
    row("multi_run.disable_warmup_after_first", Flag("profile-run-disable-warmup-after-first")),
    row("multi_run.convergence", Flag("convergence-metric")),
    row("model", Flag("model")),
    row("models.strategy", Flag("model-selection-strategy")).at("dataset.model_selection"),
    row("models.items", Implied).at("aiperf.models"),
    row("models.weights", Flag("model-weights")),
    row("endpoint.url", Flag("url")),
    row("endpoint.urls", Flag("url")).at("aiperf.urls"),
    row("endpoint.url_strategy", Only(&["round_robin"])).at("aiperf.url_strategy"),
    row("endpoint.type", Flag("endpoint-type")).at("endpoint.endpoint_type"),
    row("endpoint.streaming", Flag("streaming")).at("endpoint.streaming"),
    row("endpoint.path", Flag("endpoint")).at("endpoint.path"),
    row("endpoint.api_key", Flag("api-key")).at("server.api_key"),
    row("endpoint.template.body", Implied).at("aiperf.template.body"),
    row("endpoint.template.response_field", Implied).at("aiperf.template.response_field"),
    row("endpoint.headers", Flag("header")).at("server.headers"),
    row("endpoint.extra", Flag("extra-inputs")).at("aiperf.extra_inputs"),
    row("endpoint.timeout", Time("request-timeout-seconds")).at("transport.request_timeout"),
    row("endpoint.wait_for_model_timeout", Time("wait-for-model-timeout"))
        .at("server.wait_for_model.timeout"),
    row("endpoint.wait_for_model_interval", Time("wait-for-model-interval"))
        .at("server.wait_for_model.interval"),
    row("endpoint.wait_for_model_mode", Flag("wait-for-model-mode"))
        .at("server.wait_for_model.mode"),
    row("endpoint.transport", Flag("transport")),
    row("endpoint.connection_reuse", Flag("connection-reuse-strategy"))
        .at("transport.connections.reuse"),
    row("endpoint.use_legacy_max_tokens", Flag("use-legacy-max-tokens"))
        .at("endpoint.use_legacy_max_tokens"),
    row("endpoint.use_server_token_count", Flag("use-server-token-count"))
        .at("endpoint.use_server_token_count"),
    row("endpoint.download_video_content", Flag("download-video-content"))
        .at("endpoint.video.download"),
    row("endpoint.per_chunk_usage", Flag("per-chunk-usage"))
        .sparse("endpoint.per_chunk_usage", "false"),
    row("endpoint.request_content_type", Flag("request-content-type")),
    row("endpoint.session_header", Flag("session-header")).at("server.session_header"),
    row("endpoint.uuid_and_strip", Flag("uuid-and-strip"))
        .sparse("dataset.strips_repeated_images", "false"),
    row("endpoint.reset_kv_cache.enabled", Flag("reset-kv-cache")),
    row("endpoint.reset_kv_cache.timeout_seconds", Time("reset-kv-cache-timeout-seconds"))
        .at("server.control.reset_kv_cache.timeout"),
    row("endpoint.reset_kv_cache.path", Flag("reset-kv-cache-path"))
        .at("server.control.reset_kv_cache.path"),
    row("endpoint.reset_kv_cache.max_retry_seconds", Refused("it is 60 seconds")),
    row("endpoint.server_profiler.enabled", Flag("server-profiler")),
    row("endpoint.server_profiler.timeout_seconds", Time("server-profiler-timeout-seconds"))
        .at("server.control.server_profiler.timeout"),
    row("endpoint.server_profiler.start_path", Flag("server-profiler-start-path"))
        .at("server.control.server_profiler.start_path"),
    row("endpoint.server_profiler.stop_path", Flag("server-profiler-stop-path"))
        .at("server.control.server_profiler.stop_path"),
    row("dataset.name", Implied).at("part.name"),
    row("dataset.type", Implied).at("part.type"),
    row("dataset.dataset", Flag("public-dataset")).at("part.dataset"),
    row("dataset.hf_weka_dataset", Flag("hf-weka-dataset")).at("part.repository"),
    row("dataset.path", Flag("input-file")).at("part.path"),
    row("dataset.records", Records("input-file")),
    row("dataset.format", Flag("custom-dataset-type")).sparse("file.format", "sharegpt"),
    row("dataset.entries", Flag("num-dataset-entries")).at("part.entries"),
    row("dataset.hf_subset", Flag("hf-subset")).at("part.subset"),
    row("dataset.filters", Flag("dataset-filter")).at("part.filters"),
    row("dataset.isl", Normal("isl", Some("isl-stddev"))),
    row("dataset.osl", Normal("osl", Some("osl-stddev"))).at("part.osl"),
    row("dataset.random_seed", Refused("use the random seed of the run")),
    row("dataset.system_prompt", Flag("system-prompt")).at("synthetic.system_prompt"),
    row("dataset.system_prompt_file", Flag("system-prompt-file")),
    row("dataset.block_size", Flag("isl-block-size")).at("part.traces.block_tokens"),
    row("dataset.prompt_batch_size", Flag("batch-size")),
    row("dataset.synthesis.speedup_ratio", Flag("synthesis-speedup-ratio"))
        .sparse("part.synthesis.speedup_ratio", "1.0"),
    row("dataset.synthesis.prefix_len_multiplier", Flag("synthesis-prefix-len-multiplier"))
        .sparse("part.synthesis.prefix_len_multiplier", "1.0"),
    row("dataset.synthesis.prefix_root_multiplier", Flag("synthesis-prefix-root-multiplier"))
        .sparse("part.synthesis.prefix_root_multiplier", "1"),
    row("dataset.synthesis.prompt_len_multiplier", Flag("synthesis-prompt-len-multiplier"))
        .sparse("part.synthesis.prompt_len_multiplier", "1.0"),
    row("dataset.synthesis.output_len_multiplier", Flag("synthesis-output-len-multiplier"))
        .sparse("part.synthesis.output_len_multiplier", "1.0"),
    row("dataset.synthesis.max_isl", Flag("synthesis-max-isl")).at("part.traces.max_input_tokens"),
    row("dataset.synthesis.max_osl", Flag("synthesis-max-osl")).at("part.traces.max_output_tokens"),
    row("dataset.replay_speedup", Flag("replay-speedup")).sparse("part.replay.speedup", "1.0"),
    row("dataset.ignore_trace_delays", Flag("ignore-trace-delays")).at("part.replay.ignore_delays"),
    row("dataset.inter_turn_delay_cap_seconds", Time("inter-turn-delay-cap-seconds"))
        .at("part.replay.delay_cap"),
    row("dataset.open_loop_strict", Flag("open-loop-strict")).at("part.replay.strict"),
    row("dataset.open_loop_replay", Switch(None, "no-fixed-schedule")),
    row("dataset.max_idle_gap_cap_seconds", Time("max-idle-gap-cap-seconds"))
        .at("part.replay.idle_gap_cap"),
    row("dataset.trace_idle_gap_cap_seconds", Time("trace-idle-gap-cap-seconds"))
        .at("part.session_gap_cap"),
    row("dataset.cache_bust.target", Flag("cache-bust")).sparse("part.cache_bust", "none"),
    row("dataset.force_min_tokens", Switch(Some("force-min-tokens"), "no-force-min-tokens")),
    row("dataset.omit_kv_hints", Flag("omit-kv-hints")),
    row("dataset.synthesis.allow_dataset_wrap", Implied),
    row("dataset.use_think_time_only", Flag("use-think-time-only")),
    row("dataset.max_context_length", Flag("max-context-length")),
    row("dataset.trace_session_sample_ratio", Flag("trace-session-sample-ratio")),
    row(
        "dataset.rankings.passages",
        Normal("rankings-passages-mean", Some("rankings-passages-stddev")),
    )
    .at("rankings.passages"),
    row(
        "dataset.rankings.passage_tokens",
        Normal(
            "rankings-passages-prompt-token-mean",
            Some("rankings-passages-prompt-token-stddev"),
        ),
    )
    .at("rankings.passage_tokens"),
    row(
        "dataset.rankings.query_tokens",
        Normal("rankings-query-prompt-token-mean", Some("rankings-query-prompt-token-stddev")),
    )
    .at("rankings.query_tokens"),
    row("dataset.prompts.batch_size", Flag("batch-size")).at("synthetic.batch_size"),
    row("dataset.prompts.block_size", Flag("isl-block-size")),
    row("dataset.prompts.cache_bust.target", Flag("cache-bust"))
        .sparse("part.prompts.cache_bust", "none"),
    row("dataset.prompts.corpus", Flag("prompt-corpus")).sparse("synthetic.corpus", "prose"),
    row("dataset.prompts.random_range_ratio", Json("random-range-ratio")).at("part.prompts.ratio"),
    row("dataset.prompts.random_corpus_style", Flag("random-corpus-style"))
        .at("synthetic.range.style"),
    row("dataset.prompts.sequence_distribution", Pairs("seq-dist")).at("part.prompts.pairs"),
    row("dataset.prompts.isl", Normal("isl", Some("isl-stddev")))
        .varies(&[Whole, Real])
        .at("part.prompts.isl"),
    row("dataset.prompts.osl", Normal("osl", Some("osl-stddev")))
        .varies(&[Whole, Real])
        .at("part.prompts.osl"),
    row("dataset.turns", Normal("session-turns-mean", Some("session-turns-stddev")))
        .varies(&[Whole])
        .at("synthetic.turns"),
    row("dataset.turn_delay", Normal("session-turn-delay-mean", Some("session-turn-delay-stddev")))
        .at("synthetic.turn_delay_ms"),
    row("dataset.turn_delay_ratio", Flag("session-delay-ratio")).at("part.delay_ratio"),
    row("dataset.prefix_prompts.pool_size", Flag("num-prefix-prompts"))
        .sparse("synthetic.prefix_pool_size", "0"),
    row("dataset.prefix_prompts.length", Flag("prefix-prompt-length"))
        .sparse("synthetic.prefix_length", "0"),
    row("dataset.prefix_prompts.shared_system_length", Flag("shared-system-prompt-length"))
        .at("synthetic.shared_system_prompt_length"),
    row("dataset.prefix_prompts.user_context_length", Flag("user-context-prompt-length"))
        .at("synthetic.user_context_prompt_length"),
    row("dataset.images.batch_size", Flag("image-batch-size")).at("part.images.batch_size"),
    row("dataset.images.width", Normal("image-width-mean", Some("image-width-stddev")))
        .at("part.images.width"),
    row("dataset.images.height", Normal("image-height-mean", Some("image-height-stddev")))
        .at("part.images.height"),
    row("dataset.images.format", Flag("image-format")).at("part.images.format"),
    row("dataset.images.source", Flag("image-source")).at("synthetic.pictures.directory"),
    row("dataset.images.source_sampling", Flag("image-source-sampling"))
        .at("synthetic.pictures.sampling"),
    row("dataset.audio.batch_size", Flag("audio-batch-size")).at("synthetic.audio.batch_size"),
    row("dataset.audio.length", Normal("audio-length-mean", Some("audio-length-stddev")))
        .at("synthetic.audio.seconds"),
    row("dataset.audio.format", Flag("audio-format")).at("synthetic.audio.format"),
    row("dataset.audio.depths", Flag("audio-depths")).at("synthetic.audio.depths"),
    row("dataset.audio.sample_rates", Flag("audio-sample-rates")).at("part.audio_sample_rates"),
    row("dataset.audio.channels", Flag("audio-num-channels")).at("synthetic.audio.channels"),
    row("dataset.video.batch_size", Flag("video-batch-size")).at("synthetic.video.batch_size"),
    row("dataset.video.duration", Normal("video-duration", None)).at("synthetic.video.seconds"),
    row("dataset.video.fps", Flag("video-fps")).at("synthetic.video.frame_rate"),
    row("dataset.video.width", Normal("video-width", None)).at("synthetic.video.width"),
    row("dataset.video.height", Normal("video-height", None)).at("synthetic.video.height"),
    row("dataset.video.synth_type", Flag("video-synth-type")).at("synthetic.video.scene"),
    row("dataset.video.format", Flag("video-format")).at("synthetic.video.format"),
    row("dataset.video.codec", Flag("video-codec")).at("synthetic.video.codec"),
    row("dataset.video.audio.sample_rate", Flag("video-audio-sample-rate"))
        .at("part.video_sample_rate"),
    row("dataset.video.audio.channels", Flag("video-audio-num-channels"))
        .at("synthetic.video.sound.channels"),
    row("dataset.video.audio.codec", Flag("video-audio-codec")).at("synthetic.video.sound.codec"),
    row("dataset.video.audio.depth", Flag("video-audio-depth")).at("synthetic.video.sound.depth"),
    row("dataset.sampling", Flag("dataset-sampling-strategy")).at("part.sampling"),
    row("artifacts.dir", Flag("artifact-dir")).at("artifacts.directory"),
    row("artifacts.prefix", Flag("profile-export-prefix")).at("artifacts.prefix"),
    row("artifacts.summary", Only(&["json", "csv", "json,csv", "csv,json", "true"]))
        .at("aiperf.summary"),
    row("artifacts.records", Only(&["jsonl", "true"])).at("aiperf.records"),
    row("artifacts.raw", Implied).at("aiperf.raw"),
    row("artifacts.export_level", Flag("export-level")),
    row("artifacts.trace", Flag("export-http-trace")).at("artifacts.http_trace"),
    row("artifacts.export_outputs_json", Flag("export-outputs-json"))
        .sparse("artifacts.outputs", "false"),
    row("artifacts.slice_duration", Time("slice-duration"))
        .at("artifacts.server_metrics.slice_duration"),
    row("artifacts.show_trace_timing", Flag("show-trace-timing")).at("show_trace_timing"),
    row("artifacts.user_files", Refused("write the files beside the run's directory")),
    row("artifacts.auto_plot", Flag("auto-plot")),
    row("artifacts.plot_required", Flag("plot-required")),
    row("slos", Flag("goodput")).at("aiperf.objectives"),
    row("tokenizer.name", Flag("tokenizer")).at("aiperf.tokenizer.name"),
    row("tokenizer.revision", Flag("tokenizer-revision")).at("aiperf.tokenizer.revision"),
    row("tokenizer.trust_remote_code", Flag("tokenizer-trust-remote-code")),
    row("tokenizer.apply_chat_template", Flag("apply-chat-template"))
        .at("aiperf.tokenizer.apply_chat_template"),
    row("gpu_telemetry.enabled", Switch(None, "no-gpu-telemetry")).at("aiperf.gpus.enabled"),
    row("gpu_telemetry.urls", Flag("gpu-telemetry")).at("aiperf.gpus.urls"),
    row("gpu_telemetry.metrics_file", Refused("name the file in --gpu-telemetry")),
    row("gpu_telemetry.collector", Only(&["dcgm"])),
    row("gpu_telemetry.mode", Only(&["summary"])),
    row("server_metrics.enabled", Switch(None, "no-server-metrics"))
        .at("aiperf.server_metrics.enabled"),
    row("server_metrics.urls", Flag("server-metrics")).at("aiperf.server_metrics.urls"),
    row("server_metrics.formats", Flag("server-metrics-formats"))
        .at("aiperf.server_metrics.formats"),
    row("network_latency.enabled", Flag("network-latency-automatic"))
        .at("aiperf.network_latency.enabled"),
    row("network_latency.mean_ms", Flag("network-latency-mean"))
        .at("aiperf.network_latency.mean_ms"),
    row("network_latency.ping_interval", Time("network-latency-ping-interval"))
        .at("network_latency.automatic.interval"),
    row("otel.metrics_url", Flag("otel-url")).at("telemetry.url"),
    row("otel.streams", Flag("stream")),
    row("otel.stream_metrics_enabled", Implied).at("telemetry.streams.metrics"),
    row("otel.stream_timing_enabled", Implied).at("telemetry.streams.timing"),
    row("otel.custom_resource_attributes", Flag("otel-resource-attributes"))
        .at("aiperf.resource_attributes"),
    row("otel.gen_ai_provider", Flag("gen-ai-provider")).at("telemetry.provider"),
    row("mlflow.tracking_uri", Flag("mlflow-tracking-uri")),
    row("mlflow.experiment", Flag("mlflow-experiment")),
    row("mlflow.run_name", Flag("mlflow-run-name")),
    row("mlflow.tags", Flag("mlflow-tag")),
    row("mlflow.parent_run_id", Flag("mlflow-parent-run-id")),
    row("mlflow.artifact_globs", Flag("mlflow-artifact-glob")),
    row("wandb", Flag("wandb-project")),
    row("accuracy", Refused("aiperf does not judge the content of responses")),
    row("scenario", Flag("scenario")),
    row("unsafe_override", Flag("unsafe-override")),
    row("runtime.ui", Flag("ui")).at("ui"),
    row("runtime.workers", Flag("workers-max")).at("runner.workers"),
    row("runtime.record_processors", Flag("record-processors")).at("runner.processors"),
    row("runtime.api_port", Flag("api-port")),
    row("runtime.api_host", Flag("api-host")),
    row("runtime.stats_interval", Flag("stats-interval")),
    row("logging.level", Flag("log-level")).at("aiperf.log_level"),
    row("sweep.type", Flag("sweep-type")),
    row("sweep.cooldown_seconds", Flag("parameter-sweep-cooldown-seconds")),
    row("sweep.iteration_order", Flag("parameter-sweep-mode")),
    row("sweep.same_seed", Flag("parameter-sweep-same-seed")),
    row("sweep.sla_filters", Refused("use --gate")),
];

/// Returns the settings of a file or of its phases, and the path among them of what is at `path`.
fn table(path: &str) -> (&'static [Setting], &str) {
    match path.split_once('.').unwrap_or((path, "")) {
        ("profiling" | "warmup", inside) => (PHASE, inside),
        _ => (SETTINGS, path),
    }
}

/// Returns how the value at `path` becomes flags, if there is such a setting.
pub(super) fn rule(path: &str) -> Option<Rule> {
    let (settings, inside) = table(path);
    let setting = settings.iter().find(|setting| setting.path == inside)?;
    if path.starts_with("warmup.") { setting.warmup } else { Some(setting.rule) }
}

/// Returns whether there are settings inside of `path`.
pub(super) fn is_group(path: &str) -> bool {
    let (settings, inside) = table(path);
    settings.iter().any(|setting| {
        let rest = setting.path.strip_prefix(inside);
        rest.is_some_and(|rest| inside.is_empty() || rest.starts_with('.'))
    })
}

/// A setting that a sweep can vary.
#[derive(Debug, Clone)]
pub(crate) struct Varied {
    /// Its flag, without dashes.
    pub(crate) flag: &'static str,
    /// Its path in the parameters of a sweep in AIPerf's files: `phases.profiling.rate`.
    pub(crate) path: String,
    pub(crate) number: Number,
}

/// Returns the settings that a sweep can vary, in the order of their flags.
pub(crate) fn varied() -> &'static [Varied] {
    static VARIED: LazyLock<Vec<Varied>> = LazyLock::new(|| {
        let of_phases = PHASE.iter().map(|row| (format!("phases.profiling.{}", row.path), row));
        let others =
            SETTINGS.iter().map(|row| (row.path.replacen("dataset.", "datasets.main.", 1), row));
        let varied = |(path, row): (String, &Setting)| {
            let of_flag = |((flag, number), part): ((&'static str, &Number), &str)| {
                let is_part = matches!(row.rule, Normal(..));
                let path = if is_part { format!("{path}.{part}") } else { path.clone() };
                Varied { flag, path, number: *number }
            };
            let flags = row.rule.flags().into_iter().zip(row.varied);
            flags.zip(["mean", "stddev"]).map(of_flag).collect::<Vec<_>>()
        };
        let mut all: Vec<Varied> = of_phases.chain(others).flat_map(varied).collect();
        all.sort_by_key(|varied| varied.flag);
        all
    });
    &VARIED
}

/// Returns the path of each setting that a file can have, with the flags that it becomes.
#[cfg(test)]
pub(crate) fn flags() -> Vec<(String, Vec<&'static str>)> {
    let settings = SETTINGS.iter().map(|row| (row.path.to_owned(), row.rule.flags()));
    let measured = PHASE.iter().map(|row| (format!("profiling.{}", row.path), row.rule.flags()));
    let warmup =
        PHASE.iter().filter_map(|row| Some((format!("warmup.{}", row.path), row.warmup?.flags())));
    settings.chain(measured).chain(warmup).collect()
}

/// Returns the path of each setting that `input_config` can have, with the list that it is in an entry of.
#[cfg(test)]
pub(crate) fn shown() -> Vec<(Option<&'static str>, &'static str)> {
    let others = SETTINGS.iter().map(|row| match row.path.strip_prefix("dataset.") {
        Some(path) => (row, Some("datasets"), path),
        None => (row, None, row.path),
    });
    let of_phases = PHASE.iter().map(|row| (row, Some("phases"), row.path));
    let all = others.chain(of_phases).filter(|(row, ..)| row.source.is_some());
    all.map(|(_, list, path)| (list, path)).collect()
}
