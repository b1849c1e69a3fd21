//! `input_config` of the JSON export: all settings, defaults included, in AIPerf's layout.
//!
//! AIPerf's own models reject unknown fields, so it has only the settings that AIPerf has too; all
//! others are in `run_info.config`, which is the serialized [`RunConfig`]. That is also where the values
//! are from: the row of a setting names a member of it. Beside its own members it has `aiperf`, what
//! AIPerf has in another form; the `source` of a part of the dataset without the name `source`; and
//! `part`, what AIPerf has of the part in another form. Rows of phases name members of the serialized
//! [`PhaseConfig`], which has `aiperf` too.

use serde_json::{Map, Value, json};

use base::redact;
use base::redact::{Secret, ShownUrl};
use base::setting::Named as _;
use base::units::Nanos;
use client::endpoint::EndpointType;
use client::endpoint::dialect::template::{PAYLOAD_TEMPLATE, RESPONSE_FIELD};
use client::network_latency;
use client::schedule::config::{
    Agentic, AgenticPart, LoadPattern, PhaseConfig, Rate, RatePoint, Zero,
};
use client::schedule::{Adaptive, PhaseKind};
use dataset::{HubDataset, Part, Source, Synthetic};
use measure::multi_run::Filter;
use measure::server_metrics::{self as scraped, EndpointConfig};
use results::artifacts::ExportLevel;
use results::artifacts::server_metrics::Formats;
use tokens::tokenizer;

use super::schema::{PHASE, SETTINGS, Setting};
use crate::config::RunConfig;

/// Returns the object. Settings without a value or default are absent; secrets are redacted.
pub(in crate::config) fn input_config(config: &RunConfig) -> Value {
    // It can be serialized, since `run_info.config` is the same.
    let mut run = serde_json::to_value(config).unwrap_or_default();
    run["aiperf"] = of_run(config);
    let mut each = Vec::new();
    for (index, part) in config.dataset.parts.iter().enumerate() {
        let mut run = run.clone();
        if let (Value::Object(run), Value::Object(source)) = (&mut run, json!(part.source)) {
            run.extend(source);
        }
        run["part"] = of_part(config, index, part);
        each.push(settings(SETTINGS, &run));
    }
    let datasets: Value = each.iter().filter_map(|run| run.get("dataset").cloned()).collect();
    let mut all = Map::new();
    for (name, value) in each.into_iter().next().unwrap_or_default() {
        if name == "dataset" {
            all.insert("datasets".to_owned(), datasets.clone());
            all.insert("phases".to_owned(), phases(config));
        } else {
            all.insert(name, value);
        }
    }
    Value::Object(all)
}

/// Returns the settings of `rows` whose values are members of `run`.
fn settings(rows: &[Setting], run: &Value) -> Map<String, Value> {
    let mut settings = Map::new();
    for row in rows {
        if let Some(value) = row.shown(run) {
            put(&mut settings, row.path, value);
        }
    }
    settings
}

/// Puts `value` in the objects that `path` names.
fn put(settings: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => drop(settings.insert(path.to_owned(), value)),
        Some((name, inside)) => {
            let members = settings.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(members) = members {
                put(members, inside, value);
            }
        }
    }
}

/// Returns the name of one of the datasets: if there are several, that of the first phase that draws
/// from it.
fn dataset_name(config: &RunConfig, index: usize) -> &str {
    if config.dataset.parts.len() == 1 {
        return "main";
    }
    let phase = config.schedule.phases.iter().find(|phase| phase.dataset == index);
    phase.map_or("", PhaseConfig::name)
}

/// Returns the phases and their load.
fn phases(config: &RunConfig) -> Value {
    let phase = |phase: &PhaseConfig| {
        let mut members = json!(phase);
        members["aiperf"] = of_phase(config, phase);
        let mut settings = settings(PHASE, &members);
        if config.dataset.parts.len() > 1 {
            settings.insert("dataset".to_owned(), dataset_name(config, phase.dataset).into());
        }
        Value::Object(settings)
    };
    // The warmup of lanes is not a phase in a file, but settings of the measurement.
    let is_own =
        |phase: &&PhaseConfig| lanes(phase).is_none_or(|lanes| lanes.part == AgenticPart::Replay);
    config.schedule.phases.iter().filter(is_own).map(phase).collect()
}

/// Returns what the phases in which lanes prepare the server are settings of.
fn warmup_of_lanes(config: &RunConfig) -> Value {
    let mut warmup = Value::Null;
    for phase in &config.schedule.phases {
        match lanes(phase).map(|lanes| lanes.part) {
            Some(AgenticPart::Primers) => warmup["grace_period"] = json!(phase.grace_period),
            Some(AgenticPart::CacheRequests(count)) => warmup["requests"] = count.into(),
            Some(AgenticPart::CacheDuration(time)) => warmup["duration"] = json!(time),
            Some(AgenticPart::Replay) | None => {}
        }
    }
    warmup
}

/// Returns the lanes of a phase whose load they are.
const fn lanes(phase: &PhaseConfig) -> Option<&Agentic> {
    if let LoadPattern::Agentic(lanes) = &phase.load { Some(lanes) } else { None }
}

/// Returns what AIPerf has of a run in another form; a member without a value is null.
fn of_run(config: &RunConfig) -> Value {
    let level = config.artifacts.export_level;
    let url = |url: &Secret<url::Url>| url.shown().trim_end_matches('/').to_owned();
    let objectives = config.metrics.objectives.iter();
    let objectives = objectives.map(|it| (it.tag.name().to_owned(), it.threshold.into()));
    let attributes = config.telemetry.resource_attributes.iter();
    let attributes = attributes.map(|(name, value)| (name.clone(), value.as_str().into()));
    let mean = match config.network_latency {
        Some(network_latency::Config::Mean(mean)) => Some(mean.as_millis()),
        _ => None,
    };
    json!({
        "models": models(config),
        // Without the slash at the end that parsing adds.
        "urls": config.server.urls.iter().map(url).collect::<Vec<_>>(),
        "url_strategy": "round_robin",
        "extra_inputs": extra_inputs(config),
        "template": template(config),
        "summary": ["json"],
        "records": if level >= ExportLevel::Records { json!(["jsonl"]) } else { json!(false) },
        "raw": level == ExportLevel::Raw,
        "objectives": non_empty(objectives.collect()),
        "tokenizer": tokenizer(config),
        "gpus": {
            "enabled": !config.gpu.scrapes.endpoints.is_empty(),
            "urls": given_urls(&config.gpu.scrapes),
        },
        "server_metrics": server_metrics(config),
        "network_latency": { "enabled": config.network_latency.is_some(), "mean_ms": mean },
        "resource_attributes": shown(attributes.collect()),
        "log_level": config.log_level.name().to_uppercase(),
    })
}

/// Returns the object with the values of secret names redacted.
fn shown(object: Map<String, Value>) -> Value {
    let mut object = Value::Object(object);
    redact::json(&mut object);
    object
}

fn non_empty(object: Map<String, Value>) -> Option<Map<String, Value>> {
    Some(object).filter(|object| !object.is_empty())
}

fn models(config: &RunConfig) -> Value {
    let weights: f64 = config.dataset.model_weights.iter().sum();
    let model = |(index, name): (usize, &String)| match config.dataset.model_weights.get(index) {
        // AIPerf's weights are shares.
        Some(weight) => json!({"name": name, "weight": weight / weights}),
        None => json!({"name": name}),
    };
    config.dataset.models.iter().enumerate().map(model).collect()
}

fn is_template(config: &RunConfig) -> bool {
    config.endpoint.endpoint_type == EndpointType::TEMPLATE
}

/// Returns the fields of request bodies, without those of a template, which are not fields.
fn extra_inputs(config: &RunConfig) -> Value {
    let is_field =
        |name: &str| !is_template(config) || ![PAYLOAD_TEMPLATE, RESPONSE_FIELD].contains(&name);
    let fields = config.endpoint.extra_inputs.iter().filter(|(name, _)| is_field(name));
    shown(fields.cloned().collect())
}

/// Returns the template of request bodies.
fn template(config: &RunConfig) -> Option<Value> {
    let field = |wanted: &str| {
        let given = config.endpoint.extra_inputs.iter().rev().find(|(name, _)| name == wanted);
        given.map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    is_template(config).then(|| {
        let body = field(PAYLOAD_TEMPLATE).unwrap_or_default();
        json!({ "body": body, "response_field": field(RESPONSE_FIELD) })
    })
}

/// Returns the tokenizer; absent for endpoint types whose tokens AIPerf does not count.
fn tokenizer(config: &RunConfig) -> Option<Value> {
    let endpoint_type = config.endpoint.endpoint_type;
    let traits = endpoint_type.traits();
    let counts = traits.tokenizes_input || traits.produces_tokens;
    let has_tokenizer = counts && endpoint_type != EndpointType::AUDIO_TRANSCRIPTION;
    let (name, revision) = match &config.tokenizer {
        tokenizer::Source::Builtin => ("builtin".to_owned(), None),
        tokenizer::Source::Path(path) => (path.display().to_string(), None),
        tokenizer::Source::Hub { name, revision } => (name.clone(), Some(revision)),
    };
    let is_applied = config.apply_chat_template;
    has_tokenizer
        .then(|| json!({ "name": name, "revision": revision, "apply_chat_template": is_applied }))
}

/// Returns the endpoints that the user gave, without those that are known anyway.
fn given_urls(scrapes: &scraped::Config) -> Vec<ShownUrl> {
    let given = scrapes.endpoints.iter().filter(|endpoint| !endpoint.is_discovered);
    given.map(EndpointConfig::shown).collect()
}

fn server_metrics(config: &RunConfig) -> Value {
    if config.server_metrics.endpoints.is_empty() {
        return json!({ "enabled": false });
    }
    let Formats { json, csv, jsonl, parquet } = config.artifacts.server_metrics.formats;
    let formats = [("json", json), ("csv", csv), ("parquet", parquet), ("jsonl", jsonl)];
    let formats = formats.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name);
    json!({
        "enabled": true,
        "urls": given_urls(&config.server_metrics),
        "formats": formats.collect::<Vec<_>>(),
    })
}

/// Returns what AIPerf has of a part of the dataset in another form.
fn of_part(config: &RunConfig, index: usize, part: &Part) -> Value {
    let replay = &config.schedule.replay;
    // Lanes limit the idle time of their trees instead.
    let tree_cap = || config.schedule.phases.iter().find_map(|phase| lanes(phase)?.tree_idle_cap);
    let mut shown = match &part.source {
        Source::File { path, traces, .. } => json!({
            "type": "file",
            "path": path.display().to_string(),
            "entries": traces.entries,
            "osl": part.output_tokens,
            "traces": traces,
            "synthesis": traces.synthesis,
            "replay": replay,
            "session_gap_cap": replay.session_gap_cap.or_else(tree_cap),
            "cache_bust": config.dataset.cache_bust,
        }),
        Source::Hub(hub) => of_hub(hub, part),
        Source::Rankings(rankings) => json!({ "type": "synthetic", "entries": rankings.entries }),
        Source::Synthetic(synthetic) => of_synthetic(config, synthetic, part),
    };
    if part.grows {
        shown["entries"] = Value::Null;
    }
    shown["name"] = dataset_name(config, index).into();
    shown["sampling"] = json!(part.sampling.unwrap_or_default());
    shown
}

fn of_hub(hub: &HubDataset, part: &Part) -> Value {
    let filters = hub.filters.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
    let mut shown = match hub.public {
        Some(public) => json!({
            "type": "public",
            "dataset": public.name,
            "subset": hub.subset,
            "filters": non_empty(filters.collect()),
        }),
        None if hub.has_agents => {
            json!({ "type": "public", "dataset": "weka_hf", "repository": hub.repository })
        }
        None => json!({ "type": "file", "path": hub.url() }),
    };
    shown["entries"] = json!(hub.entries);
    shown["osl"] = json!(part.output_tokens);
    shown
}

fn of_synthetic(config: &RunConfig, synthetic: &Synthetic, part: &Part) -> Value {
    let ratio = synthetic.range.map(|range| {
        if range.input_ratio == range.output_ratio {
            return json!(range.input_ratio);
        }
        json!({ "input": range.input_ratio, "output": range.output_ratio })
    });
    let pairs = synthetic.sequence_distribution.as_ref().map(|distribution| {
        let pairs = distribution.pairs().iter().map(|pair| {
            let percent = pair.probability * 100.0;
            json!({ "isl": pair.input_tokens, "osl": pair.output_tokens, "probability": percent })
        });
        pairs.collect::<Value>()
    });
    let is_independent = synthetic.has_independent_lengths();
    let kilohertz = |rate: u32| f64::from(rate) / 1000.0;
    let rates = synthetic.audio.as_ref().map(|audio| audio.sample_rates.iter().copied());
    let sound = synthetic.video.as_ref().and_then(|video| video.sound);
    json!({
        "type": "synthetic",
        "entries": synthetic.entries,
        "prompts": {
            "cache_bust": config.dataset.cache_bust,
            "ratio": ratio,
            "pairs": pairs,
            "isl": is_independent.then_some(&synthetic.input_tokens),
            "osl": part.output_tokens.as_ref().filter(|_| is_independent),
        },
        "delay_ratio": part.delay_ratio,
        "images": images(synthetic),
        "audio_sample_rates": rates.map(|rates| rates.map(kilohertz).collect::<Vec<_>>()),
        "video_sample_rate": sound.map(|sound| kilohertz(sound.sample_rate)),
    })
}

/// Returns the number and the shape of generated images, or of those of files, which may be scaled.
fn images(synthetic: &Synthetic) -> Value {
    let Some(pictures) = &synthetic.pictures else { return json!(synthetic.images) };
    let mut images = json!(pictures.scaled);
    images["batch_size"] = pictures.batch_size.into();
    images
}

/// Returns what AIPerf has of a phase in another form.
fn of_phase(config: &RunConfig, phase: &PhaseConfig) -> Value {
    let replay = &config.schedule.replay;
    let points = match &phase.load {
        LoadPattern::Rate(Rate { points, .. }) if points.len() != 1 => {
            let point =
                |point: &RatePoint| json!({"time_s": point.at.as_seconds(), "qps": point.rate});
            Some(points.iter().map(point).collect::<Value>())
        }
        _ => None,
    };
    let schedule = (phase.load == LoadPattern::FixedSchedule).then(|| {
        json!({
            "auto_offset": replay.zero == Zero::First,
            "start_offset": replay.from.map(millis),
            "end_offset": replay.until.map(millis),
        })
    });
    // The type of lanes is the one of any concurrency, with another timing.
    let (load, timing) = match &phase.load {
        load @ LoadPattern::Agentic(_) => (LoadPattern::ClosedLoop.name(), Some(load.name())),
        load => (load.name(), None),
    };
    let conditions = |adaptive: &Adaptive| -> Vec<Filter> {
        adaptive.conditions.iter().filter_map(|text| Filter::parse(text).ok()).collect()
    };
    let adaptive = phase.adaptive.as_ref();
    json!({
        "name": phase.name(),
        "type": load,
        "timing_mode": timing,
        "rate": phase.rate(),
        "points": points,
        "schedule": schedule,
        "warmup": lanes(phase).map(|_| warmup_of_lanes(config)),
        "is_warmup": phase.kind == PhaseKind::Warmup,
        "grace_period": phase.stop.duration.and(phase.grace_period),
        "adapts": adaptive.map(|_| true),
        "step_policy": adaptive.map(|adaptive| adaptive.step.name()),
        "conditions": adaptive.map(conditions),
    })
}

/// Returns milliseconds, as an integer if possible, since AIPerf only accepts integers.
fn millis(time: Nanos) -> Value {
    match time.as_millis() {
        whole if whole.fract() == 0.0 => (whole as u64).into(),
        other => other.into(),
    }
}
