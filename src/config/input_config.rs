//! `input_config` of the JSON export: all settings, defaults included, in AIPerf's layout.
//!
//! AIPerf's own models reject unknown fields, so it has only the settings that AIPerf has too; all
//! others are in `run_info.config`, which is the serialized [`RunConfig`].

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::artifacts::ExportLevel;
use crate::artifacts::server_metrics::Formats;
use crate::config::{ResetKvCache, RunConfig, ServerProfiler};
use crate::dataset::{
    AudioNoise, Corpus, FileFormat, ImageNoise, NormalDistribution, Pictures, Rankings, Source,
    Synthetic, TraceSettings, VideoClip,
};
use crate::endpoint::EndpointType;
use crate::endpoint::dialect::template::{PAYLOAD_TEMPLATE, RESPONSE_FIELD};
use crate::redact::{Secret, ShownUrl};
use crate::schedule::PhaseKind;
use crate::schedule::config::{
    ArrivalPattern, Config, LoadPattern, PhaseConfig, Rate, RatePoint, Replay, Zero,
};
use crate::setting::Named as _;
use crate::units::Nanos;
use crate::{network_latency, redact, server_metrics as scraped, tokenizer};

/// Builds the object. Settings without a value or default are absent; secrets are redacted.
pub(super) fn build(config: &RunConfig) -> Value {
    let weights: f64 = config.dataset.model_weights.iter().sum();
    let model = |(index, name): (usize, &String)| {
        // AIPerf's weights are shares.
        let weight = config.dataset.model_weights.get(index).map(|weight| weight / weights);
        Object::default().put("name", name).put_some("weight", weight).into_value()
    };
    let models: Vec<Value> = config.dataset.models.iter().enumerate().map(model).collect();
    Object::default()
        .put("models", json!({"strategy": config.dataset.model_selection, "items": models}))
        .put("endpoint", endpoint(config))
        .put("datasets", json!([dataset(config)]))
        .put("phases", phases(&config.schedule))
        .put("artifacts", artifacts(config))
        .put_some("slos", slos(config))
        .put_some("tokenizer", tokenizer(config))
        .put("gpu_telemetry", gpu_telemetry(config))
        .put("server_metrics", server_metrics(config))
        .put("network_latency", network_latency(config))
        .put("otel", otel(config))
        .put("runtime", runtime(config))
        .put("logging", json!({"level": config.log_level.name().to_uppercase()}))
        .into_value()
}

/// A builder for a JSON object.
#[derive(Default)]
struct Object(Map<String, Value>);

impl Object {
    fn put(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.insert(name.to_owned(), json!(value));
        self
    }

    fn put_some(self, name: &str, value: Option<impl Serialize>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    fn into_value(self) -> Value {
        Value::Object(self.0)
    }
}

fn endpoint(config: &RunConfig) -> Value {
    let (endpoint, transport, server) = (&config.endpoint, &config.transport, &config.server);
    // Without the trailing slash that parsing adds.
    let url = |url: &Secret<url::Url>| url.shown().trim_end_matches('/').to_owned();
    let urls: Vec<String> = server.urls.iter().map(url).collect();
    let headers: Map<String, Value> = server
        .headers
        .iter()
        .map(|(name, value)| (name.clone(), Value::from(redact::header_value(name, value))))
        .collect();
    let is_template = endpoint.endpoint_type == EndpointType::TEMPLATE;
    let of_template =
        |name: &str| is_template && [PAYLOAD_TEMPLATE, RESPONSE_FIELD].contains(&name);
    let extra = endpoint.extra_inputs.iter().filter(|(name, _)| !of_template(name)).cloned();
    Object::default()
        .put("urls", urls)
        .put("url_strategy", "round_robin")
        .put("type", endpoint.endpoint_type)
        .put("streaming", endpoint.streaming)
        .put_some("path", endpoint.path.as_ref())
        .put_some("api_key", server.api_key.as_ref())
        .put_some("template", is_template.then(|| template(&endpoint.extra_inputs)))
        .put("headers", headers)
        .put("extra", shown(extra.collect()))
        .put("timeout", transport.request_timeout.as_seconds())
        .put("wait_for_model_timeout", server.wait_for_model.timeout.as_seconds())
        .put("wait_for_model_interval", server.wait_for_model.interval.as_seconds())
        .put("wait_for_model_mode", server.wait_for_model.mode)
        .put("connection_reuse", transport.connections.reuse)
        .put("use_legacy_max_tokens", endpoint.use_legacy_max_tokens)
        .put("use_server_token_count", endpoint.use_server_token_count)
        .put("download_video_content", endpoint.video.download)
        .put_some("per_chunk_usage", endpoint.per_chunk_usage.then_some(true))
        .put_some("session_header", server.session_header.as_deref())
        .put_some("uuid_and_strip", config.dataset.strips_repeated_images.then_some(true))
        .put_some("reset_kv_cache", server.control.reset_kv_cache.as_ref().map(reset_kv_cache))
        .put_some("server_profiler", server.control.server_profiler.as_ref().map(server_profiler))
        .into_value()
}

fn reset_kv_cache(reset: &ResetKvCache) -> Value {
    json!({"timeout_seconds": reset.timeout.as_seconds(), "path": reset.path})
}

fn server_profiler(profiler: &ServerProfiler) -> Value {
    json!({
        "timeout_seconds": profiler.timeout.as_seconds(),
        "start_path": profiler.start_path,
        "stop_path": profiler.stop_path,
    })
}

/// The body template of requests, and the path of the text in responses.
fn template(extra_inputs: &[(String, Value)]) -> Value {
    let member = |wanted: &str| {
        let given = extra_inputs.iter().rev().find(|(name, _)| name == wanted);
        given.map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    Object::default()
        .put("body", member(PAYLOAD_TEMPLATE).unwrap_or_default())
        .put_some("response_field", member(RESPONSE_FIELD))
        .into_value()
}

fn shown_path(path: &Path) -> String {
    path.display().to_string()
}

/// The object with the values of secret names redacted.
fn shown(object: Map<String, Value>) -> Value {
    let mut object = Value::Object(object);
    redact::json(&mut object);
    object
}

fn non_empty(object: Map<String, Value>) -> Option<Value> {
    (!object.is_empty()).then_some(Value::Object(object))
}

fn dataset(config: &RunConfig) -> Value {
    let dataset = &config.dataset;
    let replay = &config.schedule.replay;
    let object = Object::default().put("name", "main");
    let object = match &dataset.source {
        Source::File { path, format, traces, .. } => object
            .put("type", "file")
            .put("path", shown_path(path))
            .put_some("format", format.filter(|format| *format != FileFormat::ShareGpt))
            .put_some("osl", dataset.output_tokens)
            .put_some("block_size", traces.block_tokens)
            .put_some("synthesis", synthesis(traces))
            .put_some("replay_speedup", Some(replay.speedup).filter(|factor| *factor != 1.0))
            .put("ignore_trace_delays", replay.ignore_delays)
            .put_some("inter_turn_delay_cap_seconds", replay.delay_cap.map(Nanos::as_seconds))
            .put("open_loop_strict", replay.strict),
        Source::Hub(hub) => match hub.public {
            Some(public) => object.put("type", "public").put("dataset", public.name),
            None if hub.has_agents => object
                .put("type", "public")
                .put("dataset", "weka_hf")
                .put("hf_weka_dataset", hub.repository.as_str()),
            None => object.put("type", "file").put("path", hub.url()),
        }
        .put_some("entries", hub.entries)
        .put_some("hf_subset", hub.subset.as_deref().filter(|_| hub.public.is_some()))
        .put_some("filters", filters(&hub.filters).filter(|_| hub.public.is_some()))
        .put_some("osl", dataset.output_tokens),
        Source::Rankings(rankings) => object
            .put("type", "synthetic")
            .put("entries", rankings.entries)
            .put("rankings", self::rankings(*rankings)),
        Source::Synthetic(synthetic) => object
            .put("type", "synthetic")
            .put("entries", synthetic.entries)
            .put_some("system_prompt", synthetic.system_prompt.clone())
            .put("prompts", prompts(synthetic, dataset.output_tokens))
            .put("turns", synthetic.turns)
            .put("turn_delay", synthetic.turn_delay_ms)
            .put("turn_delay_ratio", dataset.delay_ratio)
            .put_some("prefix_prompts", prefix_prompts(synthetic))
            .put_some("images", synthetic.images.as_ref().map(images))
            .put_some("images", synthetic.pictures.as_deref().map(pictures))
            .put_some("audio", synthetic.audio.as_ref().map(audio))
            .put_some("video", synthetic.video.as_ref().map(video)),
    };
    object.put("sampling", dataset.sampling.unwrap_or_default()).into_value()
}

fn filters(filters: &[(String, String)]) -> Option<Value> {
    non_empty(filters.iter().map(|(column, value)| (column.clone(), json!(value))).collect())
}

fn rankings(rankings: Rankings) -> Value {
    Object::default()
        .put("passages", rankings.passages)
        .put("passage_tokens", rankings.passage_tokens)
        .put("query_tokens", rankings.query_tokens)
        .into_value()
}

fn synthesis(traces: &TraceSettings) -> Option<Value> {
    let synthesis = &traces.synthesis;
    let changed = |factor: f64| Some(factor).filter(|factor| *factor != 1.0);
    let roots = synthesis.prefix_root_multiplier;
    let object = Object::default()
        .put_some("speedup_ratio", changed(synthesis.speedup_ratio))
        .put_some("prefix_len_multiplier", changed(synthesis.prefix_len_multiplier))
        .put_some("prefix_root_multiplier", Some(roots).filter(|roots| *roots != 1))
        .put_some("prompt_len_multiplier", changed(synthesis.prompt_len_multiplier))
        .put_some("output_len_multiplier", changed(synthesis.output_len_multiplier))
        .put_some("max_isl", traces.max_input_tokens)
        .put_some("max_osl", traces.max_output_tokens);
    non_empty(object.0)
}

fn prompts(synthetic: &Synthetic, output_tokens: Option<NormalDistribution>) -> Value {
    let lengths = Object::default().put("batch_size", synthetic.batch_size);
    let corpus = Some(synthetic.corpus).filter(|corpus| *corpus != Corpus::default());
    let lengths = lengths.put_some("corpus", corpus);
    let lengths = match synthetic.range {
        Some(range) if range.input_ratio == range.output_ratio => lengths
            .put("random_range_ratio", range.input_ratio)
            .put("random_corpus_style", range.style),
        Some(range) => lengths
            .put(
                "random_range_ratio",
                json!({ "input": range.input_ratio, "output": range.output_ratio }),
            )
            .put("random_corpus_style", range.style),
        None => lengths,
    };
    match &synthetic.sequence_distribution {
        Some(distribution) => {
            let entries = distribution.pairs().iter().map(|pair| {
                json!({
                    "isl": pair.input_tokens,
                    "osl": pair.output_tokens,
                    "probability": pair.probability * 100.0,
                })
            });
            lengths.put("sequence_distribution", entries.collect::<Vec<_>>())
        }
        None => lengths.put("isl", synthetic.input_tokens).put_some("osl", output_tokens),
    }
    .into_value()
}

fn prefix_prompts(synthetic: &Synthetic) -> Option<Value> {
    let above_zero = |count: usize| Some(count).filter(|count| *count > 0);
    let object = Object::default()
        .put_some("pool_size", above_zero(synthetic.prefix_pool_size))
        .put_some("length", above_zero(synthetic.prefix_length))
        .put_some("shared_system_length", synthetic.shared_system_prompt_length)
        .put_some("user_context_length", synthetic.user_context_prompt_length);
    non_empty(object.0)
}

fn images(images: &ImageNoise) -> Value {
    json!({
        "batch_size": images.batch_size,
        "width": images.width,
        "height": images.height,
        "format": images.format,
    })
}

fn pictures(pictures: &Pictures) -> Value {
    Object::default()
        .put("batch_size", pictures.batch_size)
        .put_some("width", pictures.scaled.map(|shape| shape.width))
        .put_some("height", pictures.scaled.map(|shape| shape.height))
        .put_some("format", pictures.scaled.map(|shape| shape.format))
        .put("source", shown_path(&pictures.directory))
        .put("source_sampling", pictures.sampling)
        .into_value()
}

fn video(video: &VideoClip) -> Value {
    let sound = video.sound.map(|sound| {
        json!({
            "sample_rate": kilohertz(sound.sample_rate),
            "channels": sound.channels,
            "codec": sound.codec,
            "depth": sound.depth,
        })
    });
    Object::default()
        .put("batch_size", video.batch_size)
        .put("duration", video.seconds)
        .put("fps", video.frame_rate)
        .put("width", video.width)
        .put("height", video.height)
        .put("synth_type", video.scene)
        .put("format", video.format)
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
        "length": audio.seconds,
        "format": audio.format,
        "depths": audio.depths,
        "sample_rates": audio.sample_rates.iter().copied().map(kilohertz).collect::<Vec<_>>(),
        "channels": audio.channels,
    })
}

/// The phases and their load.
fn phases(schedule: &Config) -> Value {
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
        .put("exclude_from_results", is_warmup)
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
        .put_some("end_failed_sessions", phase.end_failed_sessions.then_some(true))
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
            .put_some("start_offset", replay.from.map(millis))
            .put_some("end_offset", replay.until.map(millis)),
        LoadPattern::UserCentric { rate, users } => {
            object.put("type", "user_centric").put("rate", *rate).put("users", *users)
        }
    }
}

/// Milliseconds, as an integer if possible, since AIPerf only accepts integers.
fn millis(time: Nanos) -> Value {
    match time.as_millis() {
        whole if whole.fract() == 0.0 => (whole as u64).into(),
        other => other.into(),
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
    let has_records = artifacts.export_level >= ExportLevel::Records;
    Object::default()
        .put("dir", artifacts.directory.display().to_string())
        .put_some("prefix", artifacts.prefix.clone())
        .put("summary", json!(["json"]))
        .put("records", if has_records { json!(["jsonl"]) } else { json!(false) })
        .put("raw", artifacts.export_level == ExportLevel::Raw)
        .put("trace", artifacts.http_trace)
        .put_some("export_outputs_json", Some(true).filter(|_| artifacts.outputs))
        .put_some("slice_duration", artifacts.server_metrics.slice_duration.map(Nanos::as_seconds))
        .put("show_trace_timing", config.tables.trace_timing)
        .into_value()
}

fn slos(config: &RunConfig) -> Option<Value> {
    let objectives = &config.metrics.objectives;
    non_empty(
        objectives.iter().map(|o| (o.tag.name().to_owned(), Value::from(o.threshold))).collect(),
    )
}

/// The tokenizer; absent for endpoint types whose tokens AIPerf does not count.
fn tokenizer(config: &RunConfig) -> Option<Value> {
    let endpoint_type = config.endpoint.endpoint_type;
    let traits = endpoint_type.traits();
    let counts = traits.tokenizes_input || traits.produces_tokens;
    let object = match &config.tokenizer {
        tokenizer::Source::Builtin => Object::default().put("name", "builtin"),
        tokenizer::Source::Path(path) => Object::default().put("name", path.display().to_string()),
        tokenizer::Source::Hub { name, revision } => {
            Object::default().put("name", name.as_str()).put("revision", revision.as_str())
        }
    };
    let object = object.put("apply_chat_template", config.apply_chat_template);
    let has_tokenizer = counts && endpoint_type != EndpointType::AUDIO_TRANSCRIPTION;
    has_tokenizer.then(|| object.into_value())
}

/// `urls` are the ones that were given, without the `/metrics` of each server.
fn server_metrics(config: &RunConfig) -> Value {
    let endpoints = &config.server_metrics.endpoints;
    if endpoints.is_empty() {
        return json!({"enabled": false});
    }
    let asked = endpoints.iter().filter(|endpoint| !endpoint.is_discovered);
    let urls: Vec<ShownUrl> = asked.map(scraped::EndpointConfig::shown).collect();
    let Formats { json, csv, jsonl, parquet } = config.artifacts.server_metrics.formats;
    let formats = [("json", json), ("csv", csv), ("parquet", parquet), ("jsonl", jsonl)];
    let formats = formats.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name);
    Object::default()
        .put("enabled", true)
        .put("urls", urls)
        .put("formats", formats.collect::<Vec<_>>())
        .into_value()
}

/// `urls` are the ones that were given, without the usual ones.
fn gpu_telemetry(config: &RunConfig) -> Value {
    let endpoints = &config.gpu.scrapes.endpoints;
    let asked = endpoints.iter().filter(|endpoint| !endpoint.is_discovered);
    let urls: Vec<ShownUrl> = asked.map(scraped::EndpointConfig::shown).collect();
    json!({"enabled": !endpoints.is_empty(), "urls": urls})
}

fn network_latency(config: &RunConfig) -> Value {
    let object = Object::default().put("enabled", config.network_latency.is_some());
    match &config.network_latency {
        None => object,
        Some(network_latency::Config::Mean(mean)) => object.put("mean_ms", mean.as_millis()),
        Some(network_latency::Config::Automatic(probing)) => {
            object.put("ping_interval", probing.interval.as_seconds())
        }
    }
    .into_value()
}

fn otel(config: &RunConfig) -> Value {
    let telemetry = &config.telemetry;
    let attributes = telemetry.resource_attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Object::default()
        .put_some("metrics_url", telemetry.shown_url())
        .put("stream_metrics_enabled", telemetry.streams.metrics)
        .put("stream_timing_enabled", telemetry.streams.timing)
        .put("custom_resource_attributes", shown(attributes.collect()))
        .put_some("gen_ai_provider", telemetry.provider.clone())
        .into_value()
}

fn runtime(config: &RunConfig) -> Value {
    Object::default()
        .put("ui", config.ui)
        .put_some("workers", config.runner.workers)
        .put_some("record_processors", config.runner.processors)
        .into_value()
}
