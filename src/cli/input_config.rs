//! `input_config` of the JSON export: what was set, in AIPerf's shape.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::profile::ProfileArgs;
use crate::artifacts::ExportLevel;
use crate::artifacts::server_metrics::{Formats, JsonLayout};
use crate::config::{ConnectionReuse, RunConfig, Ui};
use crate::dataset::{
    AudioFormat, AudioNoise, FileFormat, ImageFormat, ImageNoise, Rankings, Sampling, Scene,
    Source, Spread, TraceSettings, VideoClip,
};
use crate::multi_run::Dimension;
use crate::schedule::PhaseKind;
use crate::schedule::config::{
    ArrivalPattern, Config, LoadPattern, PhaseConfig, Rate, RatePoint, Replay, Zero,
};
use crate::units::Nanos;
use crate::{multi_run, redact, tokenizer};

/// The object; members that were not set are absent, secrets are redacted.
pub(super) fn build(flags: &ProfileArgs, config: &RunConfig) -> Value {
    let models: Vec<Value> =
        config.dataset.models.iter().map(|name| json!({"name": name})).collect();
    Object::default()
        .put("models", json!({"items": models}))
        .put("endpoint", endpoint(flags, config))
        .put("datasets", json!([dataset(flags, config)]))
        .put("phases", phases(&config.schedule))
        .put("artifacts", artifacts(config))
        .put_some("slos", slos(config))
        .put("tokenizer", tokenizer(config))
        .put("server_metrics", server_metrics(config))
        .put("otel", otel(config))
        .put("runtime", runtime(config))
        .put_some("random_seed", config.dataset.random_seed)
        .put_some("multi_run", multi_run(&config.multi_run))
        .put_some("shard", config.schedule.shard.map(|shard| shard.to_string()))
        .put_some("start_at_ns", config.schedule.start_at)
        .into_value()
}

/// A JSON object that grows member by member.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    fn put_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

fn endpoint(flags: &ProfileArgs, config: &RunConfig) -> Value {
    let (endpoint, transport) = (&config.endpoint, &config.transport);
    // Without its trailing slash, as it was written.
    let url = |url: &url::Url| redact::url(url.as_str()).trim_end_matches('/').to_owned();
    let urls: Vec<String> = transport.urls.iter().map(url).collect();
    let headers: Map<String, Value> = transport
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(redact::header_value(name, value))))
        .collect();
    let extra: Map<String, Value> = endpoint.extra_inputs.iter().cloned().collect();
    let timeout = transport.request_timeout.as_seconds();
    let wait = transport.wait_for_model.timeout.as_seconds();
    let reuse = match transport.connections.reuse {
        ConnectionReuse::Pooled => None,
        ConnectionReuse::Never => Some("never"),
        ConnectionReuse::StickyUserSessions => Some("sticky-user-sessions"),
    };
    let shown_path = |path: &Path| path.display().to_string();
    Object::default()
        .put("urls", urls)
        .put("type", endpoint.endpoint_type.traits().name)
        .put("streaming", endpoint.streaming)
        .put_some("path", endpoint.path.as_deref().map(redact::path))
        .put_some("api_key", transport.api_key.as_ref().map(ToString::to_string))
        .put_some("headers", non_empty(headers))
        .put_some("extra", shown(extra))
        .put_some("timeout", Some(timeout).filter(|seconds| *seconds != 21600.0))
        .put_some("wait_for_model_timeout", Some(wait).filter(|seconds| *seconds > 0.0))
        .put_some("connection_reuse_strategy", reuse)
        .put_some("ssl_verify", (!transport.connections.tls.verify).then_some(false))
        .put_some("ssl_ca_cert", flags.tls.ssl_ca_cert.as_deref().map(shown_path))
        .put_some("ssl_cert", flags.tls.ssl_cert.as_deref().map(shown_path))
        .put_some("use_legacy_max_tokens", endpoint.use_legacy_max_tokens.then_some(true))
        .put_some("use_server_token_count", endpoint.use_server_token_count.then_some(true))
        .put_some("download_video_content", endpoint.video.download.then_some(true))
        .into_value()
}

/// The object with the values of secret names redacted; absent where empty.
fn shown(object: Map<String, Value>) -> Option<Value> {
    let mut object = non_empty(object);
    object.iter_mut().for_each(redact::json);
    object
}

fn non_empty(object: Map<String, Value>) -> Option<Value> {
    (!object.is_empty()).then_some(Value::Object(object))
}

fn dataset(flags: &ProfileArgs, config: &RunConfig) -> Value {
    let object = Object::default().put("name", "main");
    let object = match &config.dataset.source {
        Source::File { path, format, traces } => object
            .put("type", "file")
            .put("path", path.display().to_string())
            .put_some("format", format.map(format_name))
            .put_some("block_size", traces.block_tokens)
            .put_some("synthesis", synthesis(traces)),
        Source::Rankings(rankings) => object
            .put("type", "synthetic")
            .put("entries", rankings.entries)
            .put("rankings", self::rankings(*rankings)),
        Source::Synthetic(synthetic) => object
            .put("type", "synthetic")
            .put("entries", synthetic.entries)
            .put_some("prompts", prompts(flags, config))
            .put_some(
                "turns",
                flags.conversation.session_turns_mean.map(|_| spread(synthetic.turns)),
            )
            .put_some(
                "turn_delay",
                flags.conversation.session_turn_delay_mean.map(|_| spread(synthetic.turn_delay_ms)),
            )
            .put_some("prefix_prompts", prefix_prompts(synthetic))
            .put_some("images", synthetic.images.as_ref().map(images))
            .put_some("audio", synthetic.audio.as_ref().map(audio))
            .put_some("video", synthetic.video.as_ref().map(video)),
    };
    let replay = &config.schedule.replay;
    object
        .put_some("sampling", config.dataset.sampling.map(sampling_name))
        .put_some("replay_speedup", Some(replay.speedup).filter(|factor| *factor != 1.0))
        .put_some("ignore_trace_delays", replay.ignore_delays.then_some(true))
        .put_some("inter_turn_delay_cap_seconds", replay.delay_cap.map(Nanos::as_seconds))
        .put_some("open_loop_strict", replay.strict.then_some(true))
        .into_value()
}

fn rankings(rankings: Rankings) -> Value {
    Object::default()
        .put("passages", spread(rankings.passages))
        .put("passage_tokens", spread(rankings.passage_tokens))
        .put("query_tokens", spread(rankings.query_tokens))
        .into_value()
}

fn synthesis(traces: &TraceSettings) -> Option<Value> {
    let object = Object::default()
        .put_some("max_isl", traces.max_input_tokens)
        .put_some("max_osl", traces.max_output_tokens);
    non_empty(object.0)
}

fn prompts(flags: &ProfileArgs, config: &RunConfig) -> Option<Value> {
    let Source::Synthetic(synthetic) = &config.dataset.source else { return None };
    let object = Object::default()
        .put_some("isl", flags.prompt.isl.map(|_| spread(synthetic.input_tokens)))
        .put_some("osl", config.dataset.output_tokens.map(spread))
        .put_some("batch_size", flags.prompt.batch_size)
        .put_some("sequence_distribution", synthetic.sequence_distribution.clone());
    non_empty(object.0)
}

fn prefix_prompts(synthetic: &crate::dataset::Synthetic) -> Option<Value> {
    let above_zero = |count: usize| Some(count).filter(|count| *count > 0);
    let object = Object::default()
        .put_some("pool_size", above_zero(synthetic.prefix_pool_size))
        .put_some("length", above_zero(synthetic.prefix_length))
        .put_some("shared_system_length", synthetic.shared_system_prompt_length)
        .put_some("user_context_length", synthetic.user_context_prompt_length)
        .put_some("system_prompt", synthetic.system_prompt.clone());
    non_empty(object.0)
}

fn images(images: &ImageNoise) -> Value {
    let format = match images.format {
        ImageFormat::Png => "png",
        ImageFormat::Jpeg => "jpeg",
        ImageFormat::Random => "random",
    };
    json!({
        "batch_size": images.batch_size,
        "width": spread(images.width),
        "height": spread(images.height),
        "format": format,
    })
}

fn video(video: &VideoClip) -> Value {
    let scene = match video.scene {
        Scene::MovingShapes => "moving_shapes",
        Scene::GridClock => "grid_clock",
        Scene::Noise => "noise",
    };
    let sound = video.sound.map(|sound| {
        json!({
            "sample_rate": kilohertz(sound.sample_rate),
            "channels": sound.channels,
            "codec": sound.codec.name(),
            "depth": sound.depth,
        })
    });
    Object::default()
        .put("batch_size", video.batch_size)
        .put("duration", video.seconds)
        .put("fps", video.frame_rate)
        .put("width", video.width)
        .put("height", video.height)
        .put("synth_type", scene)
        .put("format", video.format.name())
        .put("codec", video.codec.as_str())
        .put_some("audio", sound)
        .into_value()
}

fn kilohertz(rate: u32) -> f64 {
    f64::from(rate) / 1000.0
}

fn audio(audio: &AudioNoise) -> Value {
    json!({
        "batch_size": audio.batch_size,
        "length": spread(audio.seconds),
        "format": match audio.format {
            AudioFormat::Wav => "wav",
            AudioFormat::Mp3 => "mp3",
        },
        "depths": audio.depths,
        "sample_rates": audio.sample_rates.iter().copied().map(kilohertz).collect::<Vec<_>>(),
        "channels": audio.channels,
    })
}

fn spread(spread: Spread) -> Value {
    Object::default()
        .put("mean", spread.mean)
        .put_some("stddev", Some(spread.stddev).filter(|stddev| *stddev > 0.0))
        .into_value()
}

/// The phases and what the run does in them.
pub(super) fn phases(schedule: &Config) -> Value {
    schedule.phases.iter().map(|found| phase(found, &schedule.replay)).collect()
}

fn phase(phase: &PhaseConfig, replay: &Replay) -> Value {
    let is_warmup = phase.kind == PhaseKind::Warmup;
    let has_end = phase.stop.duration.is_some();
    let grace = phase.grace_period.filter(|_| has_end).map(Nanos::as_seconds);
    let (prefill, concurrency) = (phase.prefill_concurrency, phase.concurrency);
    let object =
        Object::default().put("name", phase.kind.as_str()).put("kind", phase.kind.as_str());
    load(object, &phase.load, replay)
        .put_some("exclude_from_results", is_warmup.then_some(true))
        .put_some("requests", phase.stop.requests)
        .put_some("sessions", phase.stop.sessions)
        .put_some("duration", phase.stop.duration.map(Nanos::as_seconds))
        .put_some("grace_period", grace)
        .put_some("concurrency", concurrency.map(|limit| limit.most))
        .put_some("concurrency_ramp", concurrency.and_then(|limit| ramp(limit.ramp)))
        .put_some("prefill_concurrency", prefill.map(|limit| limit.most))
        .put_some("prefill_ramp", prefill.and_then(|limit| ramp(limit.ramp)))
        .put_some(
            "cancellation",
            phase.cancellation.map(|cancellation| {
                json!({"rate": cancellation.percent, "delay": cancellation.delay.as_seconds()})
            }),
        )
        .put_some("failed_request_threshold", phase.failed_request_threshold)
        .into_value()
}

fn ramp(ramp: Option<Nanos>) -> Option<Value> {
    ramp.map(|ramp| json!({"duration": ramp.as_seconds()}))
}

fn load(object: Object, load: &LoadPattern, replay: &Replay) -> Object {
    match load {
        LoadPattern::ClosedLoop => object.put("type", "concurrency"),
        LoadPattern::Rate(rate) => by_rate(object, rate),
        LoadPattern::FixedSchedule => object
            .put("type", "fixed_schedule")
            .put("auto_offset", replay.zero == Zero::First)
            .put_some("start_offset", replay.from.map(Nanos::as_millis))
            .put_some("end_offset", replay.until.map(Nanos::as_millis)),
        LoadPattern::UserCentric { rate, users } => {
            object.put("type", "user_centric").put("rate", *rate).put("users", *users)
        }
    }
}

fn by_rate(object: Object, rate: &Rate) -> Object {
    let (kind, smoothness) = match rate.pattern {
        ArrivalPattern::Constant => ("constant", None),
        ArrivalPattern::Poisson => ("poisson", None),
        ArrivalPattern::Gamma { shape } => ("gamma", Some(shape)),
    };
    let object = object
        .put("type", kind)
        .put_some("smoothness", smoothness)
        .put_some("rate_ramp", ramp(rate.ramp));
    match rate.points.as_slice() {
        [only] => object.put("rate", only.rate),
        points => {
            let point =
                |point: &RatePoint| json!({"time_s": point.at.as_seconds(), "qps": point.rate});
            let points: Vec<Value> = points.iter().map(point).collect();
            object.put("rate_series", json!({"points": points}))
        }
    }
}

fn artifacts(config: &RunConfig) -> Value {
    let artifacts = &config.artifacts;
    let records =
        if artifacts.export_level >= ExportLevel::Records { json!(["jsonl"]) } else { json!([]) };
    Object::default()
        .put("dir", artifacts.directory.display().to_string())
        .put_some("prefix", artifacts.prefix.clone())
        .put("records", records)
        .put_some("raw", (artifacts.export_level == ExportLevel::Raw).then_some(true))
        .put_some("trace", artifacts.http_trace.then_some(true))
        .put_some("slice_duration", artifacts.server_metrics.slice_duration.map(Nanos::as_seconds))
        .put_some("show_trace_timing", config.show_trace_timing.then_some(true))
        .into_value()
}

fn slos(config: &RunConfig) -> Option<Value> {
    let objectives = &config.metrics.objectives;
    non_empty(objectives.iter().map(|o| (o.tag.to_owned(), Value::from(o.threshold))).collect())
}

fn tokenizer(config: &RunConfig) -> Value {
    match &config.tokenizer {
        tokenizer::Source::Builtin => json!({"name": "builtin"}),
        tokenizer::Source::Path(path) => json!({"name": path.display().to_string()}),
        tokenizer::Source::Hub { name, revision } => Object::default()
            .put("name", name.as_str())
            .put_some("revision", Some(revision.as_str()).filter(|revision| *revision != "main"))
            .into_value(),
    }
}

/// `urls` are those asked for, beside the `/metrics` of each server.
fn server_metrics(config: &RunConfig) -> Value {
    let endpoints = &config.server_metrics.endpoints;
    if endpoints.is_empty() {
        return json!({"enabled": false});
    }
    let asked = endpoints.iter().filter(|endpoint| !endpoint.is_discovered);
    let urls: Vec<String> = asked.map(|endpoint| endpoint.shown().to_string()).collect();
    let Formats { json, csv, jsonl, parquet } = config.artifacts.server_metrics.formats;
    let formats = [("json", json), ("csv", csv), ("parquet", parquet), ("jsonl", jsonl)];
    let formats = formats.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name);
    let is_flat = config.artifacts.server_metrics.json_layout == JsonLayout::Flat;
    Object::default()
        .put("enabled", true)
        .put("urls", urls)
        .put("formats", formats.collect::<Vec<_>>())
        .put_some("json_layout", is_flat.then_some("flat"))
        .put_some("summary", config.show_server_metrics.then_some(true))
        .into_value()
}

fn otel(config: &RunConfig) -> Value {
    let attributes = config.telemetry.resource_attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Object::default()
        .put_some("metrics_url", config.telemetry.url.as_deref().map(redact::url))
        .put_some("resource_attributes", shown(attributes.collect()))
        .put_some("gen_ai_provider", config.telemetry.provider.clone())
        .put_some("trace_sample", config.telemetry.trace_sample.map(|sample| sample.to_string()))
        .into_value()
}

/// How often the load is run, and what the runs search for.
fn multi_run(config: &multi_run::Config) -> Option<Value> {
    let search = config.search.map(|search| {
        let [min, max] = match search.dimension {
            Dimension::Concurrency => ["concurrency_min", "concurrency_max"],
            Dimension::RequestRate => ["request_rate_min", "request_rate_max"],
        };
        Object::default()
            .put("recipe", multi_run::search::RECIPE)
            .put(min, search.dimension.load(search.min).value())
            .put(max, search.dimension.load(search.max).value())
            .put("slo_attainment_fraction", search.attainment)
            .into_value()
    });
    config.is_many().then(|| {
        Object::default()
            .put("num_runs", config.runs)
            .put("cooldown_seconds", config.cooldown.as_seconds())
            .put("confidence_level", config.confidence_level)
            .put("disable_warmup_after_first", !config.repeats_warmup)
            .put("vary_seed_per_trial", config.varies_seed)
            .put_some("search", search)
            .into_value()
    })
}

fn runtime(config: &RunConfig) -> Value {
    let ui = match config.ui {
        Ui::Dashboard => "dashboard",
        Ui::Simple => "simple",
        Ui::None => "none",
    };
    Object::default()
        .put("ui", ui)
        .put_some("workers", config.runner.workers)
        .put_some("record_processors", config.runner.processors)
        .into_value()
}

const fn format_name(format: FileFormat) -> &'static str {
    match format {
        FileFormat::SingleTurn => "single_turn",
        FileFormat::MultiTurn => "multi_turn",
        FileFormat::RandomPool => "random_pool",
        FileFormat::RawPayload => "raw_payload",
        FileFormat::InputsJson => "inputs_json",
        FileFormat::ShareGpt => "sharegpt",
        FileFormat::MooncakeTrace => "mooncake_trace",
        FileFormat::BailianTrace => "bailian_trace",
        FileFormat::BurstGptTrace => "burst_gpt_trace",
    }
}

const fn sampling_name(sampling: Sampling) -> &'static str {
    match sampling {
        Sampling::Sequential => "sequential",
        Sampling::Shuffle => "shuffle",
        Sampling::Random => "random",
    }
}
