//! The settings of AIPerf's files, one row each.
//!
//! The paths are those of a file in one form: names in snake case, one dataset, and the phases
//! `warmup` and `profiling`. `input_config` has the settings in the order of the rows.

mod phase;

use std::sync::LazyLock;

use serde_json::Value;

use super::input_config::{self as of, some};
use crate::config::RunConfig;
use crate::dataset::{Corpus, FileFormat};
use crate::network_latency;
use crate::setting::Named as _;
pub(super) use phase::PHASE;

/// How a value of AIPerf's becomes flags.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
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
    /// A value that may be an object, as JSON.
    Json(&'static str),
    /// A switch that this flag turns off.
    Off(&'static str),
    /// A switch that the first flag turns on, and the second off.
    Either(&'static str, &'static str),
    /// Accepted with one of these values, which is what aiperf does anyway.
    Only(&'static [&'static str]),
    /// Follows from other settings, or is another form of them; any value is accepted.
    Implied,
    /// Not possible, and what to do instead.
    Refused(&'static str),
}

use Rule::{Either, Flag, Implied, Json, Normal, Off, Only, Pairs, Records, Refused, Time};

/// The values of a setting that a sweep can vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    Whole,
    Real,
    /// A time, in seconds.
    Seconds,
}

use Number::{Real, Whole};

/// A setting that is not one of a phase.
#[derive(Clone, Copy)]
pub(super) struct Setting {
    pub(super) path: &'static str,
    pub(super) rule: Rule,
    /// The values that a sweep can vary: of the flag, or of both flags of a distribution.
    varied: &'static [Number],
    /// Returns the value in `input_config`; `None` if it does not have the setting.
    pub(super) value: fn(&RunConfig) -> Option<Value>,
}

const fn row(path: &'static str, rule: Rule) -> Setting {
    Setting { path, rule, varied: &[], value: |_| None }
}

impl Setting {
    const fn is(self, value: fn(&RunConfig) -> Option<Value>) -> Self {
        Self { value, ..self }
    }

    const fn varies(self, varied: &'static [Number]) -> Self {
        Self { varied, ..self }
    }
}

/// The settings of a file other than those of phases.
pub(super) const SETTINGS: &[Setting] = &[
    row("schema_version", Only(&["2.0"])),
    row("random_seed", Flag("random-seed")),
    row("no_sweep_table", Flag("no-sweep-table")),
    row("variables", Refused("templates are not supported; write the values")),
    row("multi_run.num_runs", Flag("num-profile-runs")),
    row("multi_run.cooldown_seconds", Flag("profile-run-cooldown-seconds")),
    row("multi_run.confidence_level", Flag("confidence-level")),
    row("multi_run.set_consistent_seed", Flag("set-consistent-seed")),
    row("multi_run.vary_seed_per_trial", Flag("vary-seed-per-trial")),
    row("multi_run.disable_warmup_after_first", Flag("profile-run-disable-warmup-after-first")),
    row("multi_run.convergence", Flag("convergence-metric")),
    row("model", Flag("model")),
    row("models.strategy", Flag("model-selection-strategy"))
        .is(|run| some(run.dataset.model_selection)),
    row("models.items", Implied).is(of::models),
    row("models.weights", Flag("model-weights")),
    row("endpoint.url", Flag("url")),
    row("endpoint.urls", Flag("url")).is(of::urls),
    row("endpoint.url_strategy", Only(&["round_robin"])).is(|_| some("round_robin")),
    row("endpoint.type", Flag("endpoint-type")).is(|run| some(run.endpoint.endpoint_type)),
    row("endpoint.streaming", Flag("streaming")).is(|run| some(run.endpoint.streaming)),
    row("endpoint.path", Flag("endpoint")).is(|run| run.endpoint.path.as_ref().and_then(some)),
    row("endpoint.api_key", Flag("api-key")).is(|run| run.server.api_key.as_ref().and_then(some)),
    row("endpoint.template.body", Implied).is(of::template_body),
    row("endpoint.template.response_field", Implied).is(of::template_response_field),
    row("endpoint.headers", Flag("header")).is(of::headers),
    row("endpoint.extra", Flag("extra-inputs")).is(of::extra_inputs),
    row("endpoint.timeout", Time("request-timeout-seconds"))
        .is(|run| of::seconds(run.transport.request_timeout)),
    row("endpoint.wait_for_model_timeout", Time("wait-for-model-timeout"))
        .is(|run| of::seconds(run.server.wait_for_model.timeout)),
    row("endpoint.wait_for_model_interval", Time("wait-for-model-interval"))
        .is(|run| of::seconds(run.server.wait_for_model.interval)),
    row("endpoint.wait_for_model_mode", Flag("wait-for-model-mode"))
        .is(|run| some(run.server.wait_for_model.mode)),
    row("endpoint.transport", Flag("transport")),
    row("endpoint.connection_reuse", Flag("connection-reuse-strategy"))
        .is(|run| some(run.transport.connections.reuse)),
    row("endpoint.use_legacy_max_tokens", Flag("use-legacy-max-tokens"))
        .is(|run| some(run.endpoint.use_legacy_max_tokens)),
    row("endpoint.use_server_token_count", Flag("use-server-token-count"))
        .is(|run| some(run.endpoint.use_server_token_count)),
    row("endpoint.download_video_content", Flag("download-video-content"))
        .is(|run| some(run.endpoint.video.download)),
    row("endpoint.per_chunk_usage", Flag("per-chunk-usage"))
        .is(|run| of::switch(run.endpoint.per_chunk_usage)),
    row("endpoint.request_content_type", Flag("request-content-type")),
    row("endpoint.session_header", Flag("session-header"))
        .is(|run| run.server.session_header.as_ref().and_then(some)),
    row("endpoint.uuid_and_strip", Flag("uuid-and-strip"))
        .is(|run| of::switch(run.dataset.strips_repeated_images)),
    row("endpoint.reset_kv_cache.enabled", Flag("reset-kv-cache")),
    row("endpoint.reset_kv_cache.timeout_seconds", Time("reset-kv-cache-timeout-seconds"))
        .is(|run| of::seconds(run.server.control.reset_kv_cache.as_ref()?.timeout)),
    row("endpoint.reset_kv_cache.path", Flag("reset-kv-cache-path"))
        .is(|run| some(&run.server.control.reset_kv_cache.as_ref()?.path)),
    row("endpoint.reset_kv_cache.max_retry_seconds", Refused("it is 60 seconds")),
    row("endpoint.server_profiler.enabled", Flag("server-profiler")),
    row("endpoint.server_profiler.timeout_seconds", Time("server-profiler-timeout-seconds"))
        .is(|run| of::seconds(run.server.control.server_profiler.as_ref()?.timeout)),
    row("endpoint.server_profiler.start_path", Flag("server-profiler-start-path"))
        .is(|run| some(&run.server.control.server_profiler.as_ref()?.start_path)),
    row("endpoint.server_profiler.stop_path", Flag("server-profiler-stop-path"))
        .is(|run| some(&run.server.control.server_profiler.as_ref()?.stop_path)),
    row("dataset.name", Implied).is(|_| some("main")),
    row("dataset.type", Implied).is(of::dataset_type),
    row("dataset.dataset", Flag("public-dataset")).is(of::public_dataset),
    row("dataset.hf_weka_dataset", Flag("hf-weka-dataset")).is(of::weka_dataset),
    row("dataset.path", Flag("input-file")).is(of::dataset_path),
    row("dataset.records", Records("input-file")),
    row("dataset.format", Flag("custom-dataset-type")).is(|run| {
        of::file(run)?.format.filter(|format| *format != FileFormat::ShareGpt).and_then(some)
    }),
    row("dataset.entries", Flag("num-dataset-entries")).is(of::entries),
    row("dataset.hf_subset", Flag("hf-subset"))
        .is(|run| of::public(run)?.subset.as_ref().and_then(some)),
    row("dataset.filters", Flag("dataset-filter")).is(of::filters),
    row("dataset.isl", Normal("isl", Some("isl-stddev"))),
    row("dataset.osl", Normal("osl", Some("osl-stddev"))).is(of::output_tokens_of_file),
    row("dataset.random_seed", Refused("use the random seed of the run")),
    row("dataset.system_prompt", Flag("system-prompt"))
        .is(|run| of::synthetic(run)?.system_prompt.as_ref().and_then(some)),
    row("dataset.system_prompt_file", Flag("system-prompt-file")),
    row("dataset.block_size", Flag("isl-block-size"))
        .is(|run| of::file(run)?.traces.block_tokens.and_then(some)),
    row("dataset.prompt_batch_size", Flag("batch-size")),
    row("dataset.synthesis.speedup_ratio", Flag("synthesis-speedup-ratio"))
        .is(|run| of::factor(of::synthesis(run)?.speedup_ratio)),
    row("dataset.synthesis.prefix_len_multiplier", Flag("synthesis-prefix-len-multiplier"))
        .is(|run| of::factor(of::synthesis(run)?.prefix_len_multiplier)),
    row("dataset.synthesis.prefix_root_multiplier", Flag("synthesis-prefix-root-multiplier")).is(
        |run| Some(of::synthesis(run)?.prefix_root_multiplier).filter(|it| *it != 1).and_then(some),
    ),
    row("dataset.synthesis.prompt_len_multiplier", Flag("synthesis-prompt-len-multiplier"))
        .is(|run| of::factor(of::synthesis(run)?.prompt_len_multiplier)),
    row("dataset.synthesis.output_len_multiplier", Flag("synthesis-output-len-multiplier"))
        .is(|run| of::factor(of::synthesis(run)?.output_len_multiplier)),
    row("dataset.synthesis.max_isl", Flag("synthesis-max-isl"))
        .is(|run| of::file(run)?.traces.max_input_tokens.and_then(some)),
    row("dataset.synthesis.max_osl", Flag("synthesis-max-osl"))
        .is(|run| of::file(run)?.traces.max_output_tokens.and_then(some)),
    row("dataset.replay_speedup", Flag("replay-speedup"))
        .is(|run| of::file(run).and_then(|_| of::factor(run.schedule.replay.speedup))),
    row("dataset.ignore_trace_delays", Flag("ignore-trace-delays"))
        .is(|run| of::file(run).and_then(|_| some(run.schedule.replay.ignore_delays))),
    row("dataset.inter_turn_delay_cap_seconds", Time("inter-turn-delay-cap-seconds"))
        .is(|run| of::file(run).and_then(|_| of::seconds(run.schedule.replay.delay_cap?))),
    row("dataset.open_loop_strict", Flag("open-loop-strict"))
        .is(|run| of::file(run).and_then(|_| some(run.schedule.replay.strict))),
    row("dataset.open_loop_replay", Off("no-fixed-schedule")),
    row("dataset.max_idle_gap_cap_seconds", Time("max-idle-gap-cap-seconds"))
        .is(|run| of::file(run).and_then(|_| of::seconds(run.schedule.replay.idle_gap_cap?))),
    row("dataset.trace_idle_gap_cap_seconds", Time("trace-idle-gap-cap-seconds"))
        .is(|run| of::file(run).and_then(|_| of::seconds(of::session_gap_cap(run)?))),
    row("dataset.cache_bust.target", Flag("cache-bust"))
        .is(|run| of::file(run).and_then(|_| of::cache_bust(run))),
    row("dataset.force_min_tokens", Either("force-min-tokens", "no-force-min-tokens")),
    row("dataset.omit_kv_hints", Flag("omit-kv-hints")),
    row("dataset.synthesis.allow_dataset_wrap", Implied),
    row("dataset.use_think_time_only", Flag("use-think-time-only")),
    row("dataset.max_context_length", Flag("max-context-length")),
    row("dataset.trace_session_sample_ratio", Flag("trace-session-sample-ratio")),
    row(
        "dataset.rankings.passages",
        Normal("rankings-passages-mean", Some("rankings-passages-stddev")),
    )
    .is(|run| some(of::rankings(run)?.passages)),
    row(
        "dataset.rankings.passage_tokens",
        Normal(
            "rankings-passages-prompt-token-mean",
            Some("rankings-passages-prompt-token-stddev"),
        ),
    )
    .is(|run| some(of::rankings(run)?.passage_tokens)),
    row(
        "dataset.rankings.query_tokens",
        Normal("rankings-query-prompt-token-mean", Some("rankings-query-prompt-token-stddev")),
    )
    .is(|run| some(of::rankings(run)?.query_tokens)),
    row("dataset.prompts.batch_size", Flag("batch-size"))
        .is(|run| some(of::synthetic(run)?.batch_size)),
    row("dataset.prompts.block_size", Flag("isl-block-size")),
    row("dataset.prompts.cache_bust.target", Flag("cache-bust"))
        .is(|run| of::synthetic(run).and_then(|_| of::cache_bust(run))),
    row("dataset.prompts.corpus", Flag("prompt-corpus")).is(|run| {
        Some(of::synthetic(run)?.corpus).filter(|it| *it != Corpus::default()).and_then(some)
    }),
    row("dataset.prompts.random_range_ratio", Json("random-range-ratio"))
        .is(of::random_range_ratio),
    row("dataset.prompts.random_corpus_style", Flag("random-corpus-style"))
        .is(|run| some(of::synthetic(run)?.range?.style)),
    row("dataset.prompts.sequence_distribution", Pairs("seq-dist")).is(of::sequence_distribution),
    row("dataset.prompts.isl", Normal("isl", Some("isl-stddev")))
        .varies(&[Whole, Real])
        .is(|run| of::lengths(run)?.input_tokens.normal().and_then(some)),
    row("dataset.prompts.osl", Normal("osl", Some("osl-stddev"))).varies(&[Whole, Real]).is(
        |run| {
            of::lengths(run)?;
            of::part(run).output_tokens.as_ref()?.normal().and_then(some)
        },
    ),
    row("dataset.turns", Normal("session-turns-mean", Some("session-turns-stddev")))
        .varies(&[Whole])
        .is(|run| some(of::synthetic(run)?.turns)),
    row("dataset.turn_delay", Normal("session-turn-delay-mean", Some("session-turn-delay-stddev")))
        .is(|run| some(of::synthetic(run)?.turn_delay_ms)),
    row("dataset.turn_delay_ratio", Flag("session-delay-ratio"))
        .is(|run| of::synthetic(run).and_then(|_| some(of::part(run).delay_ratio))),
    row("dataset.prefix_prompts.pool_size", Flag("num-prefix-prompts"))
        .is(|run| of::above_zero(of::synthetic(run)?.prefix_pool_size)),
    row("dataset.prefix_prompts.length", Flag("prefix-prompt-length"))
        .is(|run| of::above_zero(of::synthetic(run)?.prefix_length)),
    row("dataset.prefix_prompts.shared_system_length", Flag("shared-system-prompt-length"))
        .is(|run| of::synthetic(run)?.shared_system_prompt_length.and_then(some)),
    row("dataset.prefix_prompts.user_context_length", Flag("user-context-prompt-length"))
        .is(|run| of::synthetic(run)?.user_context_prompt_length.and_then(some)),
    row("dataset.images.batch_size", Flag("image-batch-size")).is(of::image_batch_size),
    row("dataset.images.width", Normal("image-width-mean", Some("image-width-stddev")))
        .is(|run| some(of::image_shape(run)?.width)),
    row("dataset.images.height", Normal("image-height-mean", Some("image-height-stddev")))
        .is(|run| some(of::image_shape(run)?.height)),
    row("dataset.images.format", Flag("image-format")).is(|run| some(of::image_shape(run)?.format)),
    row("dataset.images.source", Flag("image-source"))
        .is(|run| of::path(&of::synthetic(run)?.pictures.as_ref()?.directory)),
    row("dataset.images.source_sampling", Flag("image-source-sampling"))
        .is(|run| some(of::synthetic(run)?.pictures.as_ref()?.sampling)),
    row("dataset.audio.batch_size", Flag("audio-batch-size"))
        .is(|run| some(of::audio(run)?.batch_size)),
    row("dataset.audio.length", Normal("audio-length-mean", Some("audio-length-stddev")))
        .is(|run| some(of::audio(run)?.seconds)),
    row("dataset.audio.format", Flag("audio-format")).is(|run| some(of::audio(run)?.format)),
    row("dataset.audio.depths", Flag("audio-depths")).is(|run| some(&of::audio(run)?.depths)),
    row("dataset.audio.sample_rates", Flag("audio-sample-rates")).is(of::audio_sample_rates),
    row("dataset.audio.channels", Flag("audio-num-channels"))
        .is(|run| some(of::audio(run)?.channels)),
    row("dataset.video.batch_size", Flag("video-batch-size"))
        .is(|run| some(of::video(run)?.batch_size)),
    row("dataset.video.duration", Normal("video-duration", None))
        .is(|run| some(of::video(run)?.seconds)),
    row("dataset.video.fps", Flag("video-fps")).is(|run| some(of::video(run)?.frame_rate)),
    row("dataset.video.width", Normal("video-width", None)).is(|run| some(of::video(run)?.width)),
    row("dataset.video.height", Normal("video-height", None))
        .is(|run| some(of::video(run)?.height)),
    row("dataset.video.synth_type", Flag("video-synth-type")).is(|run| some(of::video(run)?.scene)),
    row("dataset.video.format", Flag("video-format")).is(|run| some(of::video(run)?.format)),
    row("dataset.video.codec", Flag("video-codec")).is(|run| some(of::video(run)?.codec.as_str())),
    row("dataset.video.audio.sample_rate", Flag("video-audio-sample-rate"))
        .is(|run| some(of::kilohertz(of::video(run)?.sound?.sample_rate))),
    row("dataset.video.audio.channels", Flag("video-audio-num-channels"))
        .is(|run| some(of::video(run)?.sound?.channels)),
    row("dataset.video.audio.codec", Flag("video-audio-codec"))
        .is(|run| some(of::video(run)?.sound?.codec)),
    row("dataset.video.audio.depth", Flag("video-audio-depth"))
        .is(|run| some(of::video(run)?.sound?.depth)),
    row("dataset.sampling", Flag("dataset-sampling-strategy"))
        .is(|run| some(of::part(run).sampling.unwrap_or_default())),
    row("artifacts.dir", Flag("artifact-dir")).is(|run| of::path(&run.artifacts.directory)),
    row("artifacts.prefix", Flag("profile-export-prefix"))
        .is(|run| run.artifacts.prefix.as_ref().and_then(some)),
    row("artifacts.summary", Only(&["json", "csv", "json,csv", "csv,json", "true"]))
        .is(|_| some(["json"])),
    row("artifacts.records", Only(&["jsonl", "true"])).is(of::records),
    row("artifacts.raw", Implied).is(of::raw),
    row("artifacts.export_level", Flag("export-level")),
    row("artifacts.trace", Flag("export-http-trace")).is(|run| some(run.artifacts.http_trace)),
    row("artifacts.export_outputs_json", Flag("export-outputs-json"))
        .is(|run| of::switch(run.artifacts.outputs)),
    row("artifacts.slice_duration", Time("slice-duration"))
        .is(|run| of::seconds(run.artifacts.server_metrics.slice_duration?)),
    row("artifacts.show_trace_timing", Flag("show-trace-timing"))
        .is(|run| some(run.tables.trace_timing)),
    row("artifacts.user_files", Refused("write the files beside the run's directory")),
    row("artifacts.auto_plot", Flag("auto-plot")),
    row("artifacts.plot_required", Flag("plot-required")),
    row("slos", Flag("goodput")).is(of::objectives),
    row("tokenizer.name", Flag("tokenizer")).is(of::tokenizer_name),
    row("tokenizer.revision", Flag("tokenizer-revision")).is(of::tokenizer_revision),
    row("tokenizer.trust_remote_code", Flag("tokenizer-trust-remote-code")),
    row("tokenizer.apply_chat_template", Flag("apply-chat-template"))
        .is(|run| of::tokenizer(run).and_then(|_| some(run.apply_chat_template))),
    row("gpu_telemetry.enabled", Off("no-gpu-telemetry"))
        .is(|run| some(!run.gpu.scrapes.endpoints.is_empty())),
    row("gpu_telemetry.urls", Flag("gpu-telemetry")).is(|run| of::asked(&run.gpu.scrapes)),
    row("gpu_telemetry.metrics_file", Refused("name the file in --gpu-telemetry")),
    row("gpu_telemetry.collector", Only(&["dcgm"])),
    row("gpu_telemetry.mode", Only(&["summary"])),
    row("server_metrics.enabled", Off("no-server-metrics"))
        .is(|run| some(!run.server_metrics.endpoints.is_empty())),
    row("server_metrics.urls", Flag("server-metrics"))
        .is(|run| of::scraped(run).and_then(of::asked)),
    row("server_metrics.formats", Flag("server-metrics-formats")).is(of::server_metrics_formats),
    row("network_latency.enabled", Flag("network-latency-automatic"))
        .is(|run| some(run.network_latency.is_some())),
    row("network_latency.mean_ms", Flag("network-latency-mean")).is(|run| {
        match run.network_latency.as_ref()? {
            network_latency::Config::Mean(mean) => some(mean.as_millis()),
            network_latency::Config::Automatic(_) => None,
        }
    }),
    row("network_latency.ping_interval", Time("network-latency-ping-interval")).is(|run| match run
        .network_latency
        .as_ref()?
    {
        network_latency::Config::Mean(_) => None,
        network_latency::Config::Automatic(probing) => of::seconds(probing.interval),
    }),
    row("otel.metrics_url", Flag("otel-url")).is(|run| run.telemetry.shown_url().and_then(some)),
    row("otel.streams", Flag("stream")),
    row("otel.stream_metrics_enabled", Implied).is(|run| some(run.telemetry.streams.metrics)),
    row("otel.stream_timing_enabled", Implied).is(|run| some(run.telemetry.streams.timing)),
    row("otel.custom_resource_attributes", Flag("otel-resource-attributes"))
        .is(of::resource_attributes),
    row("otel.gen_ai_provider", Flag("gen-ai-provider"))
        .is(|run| run.telemetry.provider.as_ref().and_then(some)),
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
    row("runtime.ui", Flag("ui")).is(|run| some(run.ui)),
    row("runtime.workers", Flag("workers-max")).is(|run| run.runner.workers.and_then(some)),
    row("runtime.record_processors", Flag("record-processors"))
        .is(|run| run.runner.processors.and_then(some)),
    row("runtime.api_port", Flag("api-port")),
    row("runtime.api_host", Flag("api-host")),
    row("runtime.stats_interval", Flag("stats-interval")),
    row("logging.level", Flag("log-level")).is(|run| some(run.log_level.name().to_uppercase())),
    row("sweep.type", Flag("sweep-type")),
    row("sweep.cooldown_seconds", Flag("parameter-sweep-cooldown-seconds")),
    row("sweep.iteration_order", Flag("parameter-sweep-mode")),
    row("sweep.same_seed", Flag("parameter-sweep-same-seed")),
    row("sweep.sla_filters", Refused("use --gate")),
];

/// Returns how the value at `path` becomes flags, if there is such a setting.
pub(super) fn rule(path: &str) -> Option<Rule> {
    let of_phase = |path: &str| PHASE.iter().find(|setting| setting.path == path);
    match path.split_once('.') {
        Some(("profiling", inside)) => of_phase(inside)?.profiling,
        Some(("warmup", inside)) => of_phase(inside)?.warmup,
        _ => SETTINGS.iter().find(|setting| setting.path == path).map(|setting| setting.rule),
    }
}

/// Returns whether there are settings inside of `path`.
pub(super) fn is_group(path: &str) -> bool {
    let is_inside = |known: &str, path: &str| {
        known.strip_prefix(path).is_some_and(|rest| path.is_empty() || rest.starts_with('.'))
    };
    match path.split_once('.').unwrap_or((path, "")) {
        ("profiling" | "warmup", inside) => PHASE.iter().any(|it| is_inside(it.path, inside)),
        _ => SETTINGS.iter().any(|it| is_inside(it.path, path)),
    }
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
        let of_phases = PHASE.iter().filter_map(|setting| {
            let (Some(Flag(flag) | Time(flag)), number) = (setting.profiling, setting.varied?)
            else {
                return None;
            };
            Some(Varied { flag, path: format!("phases.profiling.{}", setting.path), number })
        });
        let others = SETTINGS.iter().flat_map(|setting| {
            let Normal(mean, stddev) = setting.rule else { return Vec::new() };
            let path = setting.path.replacen("dataset.", "datasets.main.", 1);
            let parts = [(Some(mean), "mean"), (stddev, "stddev")].into_iter();
            let part = |((flag, part), number): ((Option<&'static str>, &str), &Number)| {
                Some(Varied { flag: flag?, path: format!("{path}.{part}"), number: *number })
            };
            parts.zip(setting.varied).filter_map(part).collect()
        });
        let mut all: Vec<Varied> = of_phases.chain(others).collect();
        all.sort_by_key(|varied| varied.flag);
        all
    });
    &VARIED
}

/// Returns the path of each setting that a file can have, with the flags that it becomes.
#[cfg(test)]
pub(crate) fn flags() -> Vec<(String, Vec<&'static str>)> {
    let of_rule = |rule: Rule| match rule {
        Flag(flag) | Time(flag) | Pairs(flag) | Records(flag) | Json(flag) | Off(flag) => {
            vec![flag]
        }
        Normal(mean, stddev) => [mean].into_iter().chain(stddev).collect(),
        Either(on, off) => vec![on, off],
        Only(_) | Implied | Refused(_) => Vec::new(),
    };
    let of_phase = |kind: &'static str, rule: fn(&phase::PhaseSetting) -> Option<Rule>| {
        PHASE.iter().filter_map(move |setting| {
            Some((format!("{kind}.{}", setting.path), of_rule(rule(setting)?)))
        })
    };
    SETTINGS
        .iter()
        .map(|setting| (setting.path.to_owned(), of_rule(setting.rule)))
        .chain(of_phase("profiling", |setting| setting.profiling))
        .chain(of_phase("warmup", |setting| setting.warmup))
        .collect()
}
