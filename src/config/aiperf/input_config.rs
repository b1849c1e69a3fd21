//! `input_config` of the JSON export: all settings, defaults included, in AIPerf's layout.
//!
//! AIPerf's own models reject unknown fields, so it has only the settings that AIPerf has too; all
//! others are in `run_info.config`, which is the serialized [`RunConfig`].

#![expect(clippy::unnecessary_wraps, reason = "the value of a row may be absent")]

use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::schema::{PHASE, SETTINGS};
use crate::artifacts::ExportLevel;
use crate::artifacts::server_metrics::Formats;
use crate::config::RunConfig;
use crate::dataset::{
    self, AudioNoise, CacheBust, FileFormat, HubDataset, ImageShape, Part, Rankings, Source,
    Synthesis, Synthetic, TraceSettings, VideoClip,
};
use crate::endpoint::EndpointType;
use crate::endpoint::dialect::template::{PAYLOAD_TEMPLATE, RESPONSE_FIELD};
use crate::multi_run::Filter;
use crate::redact::{Secret, ShownUrl};
use crate::schedule::StepPolicy;
use crate::schedule::config::{
    Agentic, AgenticPart, ArrivalPattern, LoadPattern, PhaseConfig, Rate, RatePoint, Replay, Zero,
};
use crate::server_metrics::{self as scraped, EndpointConfig};
use crate::units::Nanos;
use crate::{redact, tokenizer};

/// Returns the object. Settings without a value or default are absent; secrets are redacted.
pub(in crate::config) fn input_config(config: &RunConfig) -> Value {
    let mut datasets = config.dataset.parts.iter().enumerate().map(|(index, part)| {
        let mut dataset = settings(&showing(config, part)).remove("dataset").unwrap_or_default();
        if config.dataset.parts.len() > 1 {
            dataset["name"] = dataset_name(config, index).into();
        }
        dataset
    });
    let mut all = Map::new();
    for (name, value) in settings(config) {
        if name == "dataset" {
            all.insert("datasets".to_owned(), datasets.by_ref().collect());
            all.insert("phases".to_owned(), phases(config));
        } else {
            all.insert(name, value);
        }
    }
    Value::Object(all)
}

/// Returns the settings, of the dataset those of its first part.
fn settings(config: &RunConfig) -> Map<String, Value> {
    let mut settings = Map::new();
    for setting in SETTINGS {
        if let Some(value) = (setting.value)(config) {
            put(&mut settings, setting.path, value);
        }
    }
    settings
}

/// Returns `config` with `part` as the only part of its dataset.
fn showing(config: &RunConfig, part: &Part) -> RunConfig {
    let parts = vec![part.clone()];
    RunConfig { dataset: dataset::Config { parts, ..config.dataset.clone() }, ..config.clone() }
}

/// Returns the name of one of several datasets: that of the first phase that draws from it.
fn dataset_name(config: &RunConfig, index: usize) -> &str {
    let phase = config.schedule.phases.iter().find(|phase| phase.dataset == index);
    phase.map_or("", PhaseConfig::name)
}

/// Returns the part of the dataset whose settings are shown.
pub(super) fn part(config: &RunConfig) -> &Part {
    &config.dataset.parts[0]
}

/// Returns the phases and their load.
fn phases(config: &RunConfig) -> Value {
    let replay = &config.schedule.replay;
    let phase = |phase: &PhaseConfig| {
        let mut settings = Map::new();
        for setting in PHASE {
            if let Some(value) = (setting.value)(phase, replay) {
                put(&mut settings, setting.path, value);
            }
        }
        if config.dataset.parts.len() > 1 {
            settings.insert("dataset".to_owned(), dataset_name(config, phase.dataset).into());
        }
        if lanes(phase).is_some() {
            settings.extend(warmup_of_lanes(config));
        }
        Value::Object(settings)
    };
    // The warmup of lanes is not a phase in a file, but settings of the measurement.
    let is_own =
        |phase: &&PhaseConfig| lanes(phase).is_none_or(|lanes| lanes.part == AgenticPart::Replay);
    config.schedule.phases.iter().filter(is_own).map(phase).collect()
}

/// Returns the settings of the phases in which lanes prepare the server.
fn warmup_of_lanes(config: &RunConfig) -> Map<String, Value> {
    let mut settings = Map::new();
    for phase in &config.schedule.phases {
        let (name, value) = match lanes(phase).map(|lanes| lanes.part) {
            Some(AgenticPart::Primers) => {
                ("agentic_warmup_grace_period", phase.grace_period.and_then(seconds))
            }
            Some(AgenticPart::CacheRequests(count)) => ("warmup_requests_per_lane", some(count)),
            Some(AgenticPart::CacheDuration(time)) => {
                ("agentic_cache_warmup_duration", seconds(time))
            }
            Some(AgenticPart::Replay) | None => continue,
        };
        settings.extend(value.map(|value| (name.to_owned(), value)));
    }
    settings
}

/// Returns the lanes of a phase whose load they are.
pub(super) const fn lanes(phase: &PhaseConfig) -> Option<&Agentic> {
    if let LoadPattern::Agentic(lanes) = &phase.load { Some(lanes) } else { None }
}

/// Returns the type of a phase; that of lanes is the one of any concurrency, with another timing.
pub(super) const fn phase_type(phase: &PhaseConfig) -> &'static str {
    match lanes(phase) {
        Some(_) => LoadPattern::ClosedLoop.name(),
        None => phase.load.name(),
    }
}

/// Returns the longest time between the turns of a session, or in which a tree of a lane is idle.
pub(super) fn session_gap_cap(config: &RunConfig) -> Option<Nanos> {
    let of_lanes = config.schedule.phases.iter().find_map(|phase| lanes(phase)?.tree_idle_cap);
    config.schedule.replay.session_gap_cap.or(of_lanes)
}

pub(super) fn cache_bust(config: &RunConfig) -> Option<Value> {
    Some(config.dataset.cache_bust).filter(|bust| *bust != CacheBust::None).and_then(some)
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

/// Returns a value that there always is.
pub(super) fn some<T: Serialize>(value: T) -> Option<Value> {
    Some(json!(value))
}

/// Returns a switch that is absent if it is off.
/// The least step and its greatest multiple, if the load of the phase rises by the margin.
pub(super) fn margin(phase: &PhaseConfig) -> Option<(f64, u64)> {
    match phase.adaptive.as_ref()?.step {
        StepPolicy::SlaMargin { base, most } => Some((base, most)),
        _ => None,
    }
}

/// The conditions of an adaptive load.
pub(super) fn conditions(phase: &PhaseConfig) -> Option<Value> {
    let text = &phase.adaptive.as_ref()?.conditions;
    some(text.iter().filter_map(|text| Filter::parse(text).ok()).collect::<Vec<_>>())
}

pub(super) fn switch(is_on: bool) -> Option<Value> {
    is_on.then_some(Value::Bool(true))
}

pub(super) fn seconds(time: Nanos) -> Option<Value> {
    some(time.as_seconds())
}

/// Returns milliseconds, as an integer if possible, since AIPerf only accepts integers.
pub(super) fn millis(time: Nanos) -> Value {
    match time.as_millis() {
        whole if whole.fract() == 0.0 => (whole as u64).into(),
        other => other.into(),
    }
}

pub(super) fn path(path: &Path) -> Option<Value> {
    some(path.display().to_string())
}

pub(super) fn kilohertz(rate: u32) -> f64 {
    f64::from(rate) / 1000.0
}

/// Returns a factor that changes something.
pub(super) fn factor(factor: f64) -> Option<Value> {
    Some(factor).filter(|factor| *factor != 1.0).and_then(some)
}

pub(super) fn above_zero(count: usize) -> Option<Value> {
    Some(count).filter(|count| *count > 0).and_then(some)
}

/// Returns the object with the values of secret names redacted.
fn shown(object: Map<String, Value>) -> Option<Value> {
    let mut object = Value::Object(object);
    redact::json(&mut object);
    Some(object)
}

fn non_empty(object: Map<String, Value>) -> Option<Value> {
    (!object.is_empty()).then_some(Value::Object(object))
}

pub(super) fn models(config: &RunConfig) -> Option<Value> {
    let weights: f64 = config.dataset.model_weights.iter().sum();
    let model = |(index, name): (usize, &String)| match config.dataset.model_weights.get(index) {
        // AIPerf's weights are shares.
        Some(weight) => json!({"name": name, "weight": weight / weights}),
        None => json!({"name": name}),
    };
    Some(config.dataset.models.iter().enumerate().map(model).collect())
}

/// Returns the base URLs, without the slash at the end that parsing adds.
pub(super) fn urls(config: &RunConfig) -> Option<Value> {
    let url = |url: &Secret<url::Url>| url.shown().trim_end_matches('/').to_owned();
    Some(config.server.urls.iter().map(url).collect())
}

pub(super) fn headers(config: &RunConfig) -> Option<Value> {
    let headers = config.server.headers.iter();
    let shown = |(name, value): &(String, String)| {
        (name.clone(), Value::from(redact::header_value(name, value)))
    };
    Some(Value::Object(headers.map(shown).collect()))
}

/// Returns the fields of request bodies, without those of a template, which are not fields.
pub(super) fn extra_inputs(config: &RunConfig) -> Option<Value> {
    let is_template = config.endpoint.endpoint_type == EndpointType::TEMPLATE;
    let of_template =
        |name: &str| is_template && [PAYLOAD_TEMPLATE, RESPONSE_FIELD].contains(&name);
    let extra = config.endpoint.extra_inputs.iter().filter(|(name, _)| !of_template(name));
    shown(extra.cloned().collect())
}

pub(super) fn template_body(config: &RunConfig) -> Option<Value> {
    let is_template = config.endpoint.endpoint_type == EndpointType::TEMPLATE;
    is_template.then(|| of_template(config, PAYLOAD_TEMPLATE).unwrap_or_default().into())
}

pub(super) fn template_response_field(config: &RunConfig) -> Option<Value> {
    let is_template = config.endpoint.endpoint_type == EndpointType::TEMPLATE;
    of_template(config, RESPONSE_FIELD).filter(|_| is_template).map(Value::from)
}

fn of_template(config: &RunConfig, wanted: &str) -> Option<String> {
    let given = config.endpoint.extra_inputs.iter().rev().find(|(name, _)| name == wanted);
    given.map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

pub(super) fn synthetic(config: &RunConfig) -> Option<&Synthetic> {
    if let Source::Synthetic(synthetic) = &part(config).source { Some(synthetic) } else { None }
}

pub(super) fn rankings(config: &RunConfig) -> Option<&Rankings> {
    if let Source::Rankings(rankings) = &part(config).source { Some(rankings) } else { None }
}

pub(super) fn hub(config: &RunConfig) -> Option<&HubDataset> {
    if let Source::Hub(hub) = &part(config).source { Some(hub) } else { None }
}

/// Returns a dataset of the hub that AIPerf knows by a name of its own.
pub(super) fn public(config: &RunConfig) -> Option<&HubDataset> {
    hub(config).filter(|hub| hub.public.is_some())
}

/// How a dataset is read from a file.
pub(super) struct File<'a> {
    pub(super) format: Option<FileFormat>,
    pub(super) traces: &'a TraceSettings,
}

pub(super) fn file(config: &RunConfig) -> Option<File<'_>> {
    match &part(config).source {
        Source::File { format, traces, .. } => Some(File { format: *format, traces }),
        _ => None,
    }
}

pub(super) fn synthesis(config: &RunConfig) -> Option<&Synthesis> {
    file(config).map(|file| &file.traces.synthesis)
}

pub(super) fn dataset_type(config: &RunConfig) -> Option<Value> {
    some(match &part(config).source {
        Source::File { .. } => "file",
        Source::Hub(hub) if hub.public.is_none() && !hub.has_agents => "file",
        Source::Hub(_) => "public",
        Source::Rankings(_) | Source::Synthetic(_) => "synthetic",
    })
}

pub(super) fn public_dataset(config: &RunConfig) -> Option<Value> {
    match (hub(config)?.public, hub(config)?.has_agents) {
        (Some(public), _) => some(public.name),
        (None, true) => some("weka_hf"),
        (None, false) => None,
    }
}

pub(super) fn weka_dataset(config: &RunConfig) -> Option<Value> {
    let hub = hub(config).filter(|hub| hub.public.is_none() && hub.has_agents)?;
    some(&hub.repository)
}

pub(super) fn dataset_path(config: &RunConfig) -> Option<Value> {
    match &part(config).source {
        Source::File { path, .. } => self::path(path),
        Source::Hub(hub) if hub.public.is_none() && !hub.has_agents => some(hub.url()),
        _ => None,
    }
}

pub(super) fn entries(config: &RunConfig) -> Option<Value> {
    match &part(config).source {
        Source::File { traces, .. } => traces.entries.and_then(some),
        Source::Hub(hub) => hub.entries.and_then(some),
        Source::Rankings(_) | Source::Synthetic(_) if part(config).grows => None,
        Source::Rankings(rankings) => some(rankings.entries),
        Source::Synthetic(synthetic) => some(synthetic.entries),
    }
}

pub(super) fn filters(config: &RunConfig) -> Option<Value> {
    let filters = public(config)?.filters.iter();
    non_empty(filters.map(|(column, value)| (column.clone(), json!(value))).collect())
}

/// Returns the output tokens for turns of a file that does not have any.
pub(super) fn output_tokens_of_file(config: &RunConfig) -> Option<Value> {
    let is_read = matches!(&part(config).source, Source::File { .. } | Source::Hub(_));
    part(config).output_tokens.as_ref()?.normal().filter(|_| is_read).and_then(some)
}

/// Returns generated prompts with independent input and output lengths.
pub(super) fn lengths(config: &RunConfig) -> Option<&Synthetic> {
    synthetic(config).filter(|synthetic| synthetic.has_independent_lengths())
}

pub(super) fn random_range_ratio(config: &RunConfig) -> Option<Value> {
    let range = synthetic(config)?.range?;
    Some(if range.input_ratio == range.output_ratio {
        range.input_ratio.into()
    } else {
        json!({ "input": range.input_ratio, "output": range.output_ratio })
    })
}

pub(super) fn sequence_distribution(config: &RunConfig) -> Option<Value> {
    let pairs = synthetic(config)?.sequence_distribution.as_ref()?.pairs().iter();
    let pairs = pairs.map(|pair| {
        json!({
            "isl": pair.input_tokens,
            "osl": pair.output_tokens,
            "probability": pair.probability * 100.0,
        })
    });
    Some(pairs.collect())
}

pub(super) fn image_batch_size(config: &RunConfig) -> Option<Value> {
    let Synthetic { images, pictures, .. } = synthetic(config)?;
    let of_files = pictures.as_ref().map(|pictures| pictures.batch_size);
    of_files.or_else(|| images.as_ref().map(|images| images.batch_size)).and_then(some)
}

/// Returns the shape of generated images, or that to which images of files are scaled.
pub(super) fn image_shape(config: &RunConfig) -> Option<ImageShape> {
    let Synthetic { images, pictures, .. } = synthetic(config)?;
    match pictures {
        Some(pictures) => pictures.scaled,
        None => images.as_ref().map(|images| ImageShape {
            width: images.width,
            height: images.height,
            format: images.format,
        }),
    }
}

pub(super) fn audio(config: &RunConfig) -> Option<&AudioNoise> {
    synthetic(config)?.audio.as_ref()
}

pub(super) fn audio_sample_rates(config: &RunConfig) -> Option<Value> {
    Some(audio(config)?.sample_rates.iter().copied().map(kilohertz).collect())
}

pub(super) fn video(config: &RunConfig) -> Option<&VideoClip> {
    synthetic(config)?.video.as_ref()
}

pub(super) const fn rate(phase: &PhaseConfig) -> Option<&Rate> {
    if let LoadPattern::Rate(rate) = &phase.load { Some(rate) } else { None }
}

pub(super) fn smoothness(phase: &PhaseConfig) -> Option<Value> {
    match rate(phase)?.pattern {
        ArrivalPattern::Gamma { shape } => some(shape),
        ArrivalPattern::Constant | ArrivalPattern::Poisson | ArrivalPattern::Weibull { .. } => None,
    }
}

pub(super) fn ramp(ramp: Option<Nanos>) -> Option<Value> {
    ramp.map(|ramp| json!({"duration": ramp.as_seconds()}))
}

/// Returns the points of a rate that is not constant.
pub(super) fn rate_series(phase: &PhaseConfig) -> Option<Value> {
    let points = rate(phase)?.points.iter();
    let point = |point: &RatePoint| json!({"time_s": point.at.as_seconds(), "qps": point.rate});
    (points.len() != 1).then(|| points.map(point).collect())
}

pub(super) fn users(phase: &PhaseConfig) -> Option<Value> {
    if let LoadPattern::UserCentric { users, .. } = &phase.load { some(users) } else { None }
}

/// Returns the offsets of a phase that follows the timestamps of a trace.
pub(super) fn fixed<'a>(phase: &PhaseConfig, replay: &'a Replay) -> Option<&'a Replay> {
    (phase.load == LoadPattern::FixedSchedule).then_some(replay)
}

pub(super) fn auto_offset(replay: &Replay) -> Option<Value> {
    some(replay.zero == Zero::First)
}

pub(super) fn grace_period(phase: &PhaseConfig) -> Option<Value> {
    phase.stop.duration.and(phase.grace_period).and_then(seconds)
}

pub(super) fn records(config: &RunConfig) -> Option<Value> {
    let has_records = config.artifacts.export_level >= ExportLevel::Records;
    Some(if has_records { json!(["jsonl"]) } else { json!(false) })
}

pub(super) fn raw(config: &RunConfig) -> Option<Value> {
    some(config.artifacts.export_level == ExportLevel::Raw)
}

pub(super) fn objectives(config: &RunConfig) -> Option<Value> {
    let objectives = config.metrics.objectives.iter();
    non_empty(objectives.map(|it| (it.tag.name().to_owned(), it.threshold.into())).collect())
}

/// Returns the tokenizer; absent for endpoint types whose tokens AIPerf does not count.
pub(super) fn tokenizer(config: &RunConfig) -> Option<&tokenizer::Source> {
    let endpoint_type = config.endpoint.endpoint_type;
    let traits = endpoint_type.traits();
    let counts = traits.tokenizes_input || traits.produces_tokens;
    let has_tokenizer = counts && endpoint_type != EndpointType::AUDIO_TRANSCRIPTION;
    has_tokenizer.then_some(&config.tokenizer)
}

pub(super) fn tokenizer_name(config: &RunConfig) -> Option<Value> {
    match tokenizer(config)? {
        tokenizer::Source::Builtin => some("builtin"),
        tokenizer::Source::Path(path) => self::path(path),
        tokenizer::Source::Hub { name, .. } => some(name.as_str()),
    }
}

pub(super) fn tokenizer_revision(config: &RunConfig) -> Option<Value> {
    match tokenizer(config)? {
        tokenizer::Source::Hub { revision, .. } => some(revision.as_str()),
        tokenizer::Source::Builtin | tokenizer::Source::Path(_) => None,
    }
}

/// Returns the endpoints that the user gave, without those that are known anyway.
pub(super) fn asked(scrapes: &scraped::Config) -> Option<Value> {
    let asked = scrapes.endpoints.iter().filter(|endpoint| !endpoint.is_discovered);
    some(asked.map(EndpointConfig::shown).collect::<Vec<ShownUrl>>())
}

/// Returns the scrapes of server metrics, if there are any.
pub(super) fn scraped(config: &RunConfig) -> Option<&scraped::Config> {
    Some(&config.server_metrics).filter(|scrapes| !scrapes.endpoints.is_empty())
}

pub(super) fn server_metrics_formats(config: &RunConfig) -> Option<Value> {
    scraped(config)?;
    let Formats { json, csv, jsonl, parquet } = config.artifacts.server_metrics.formats;
    let formats = [("json", json), ("csv", csv), ("parquet", parquet), ("jsonl", jsonl)];
    Some(formats.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect())
}

pub(super) fn resource_attributes(config: &RunConfig) -> Option<Value> {
    let attributes = config.telemetry.resource_attributes.iter();
    shown(attributes.map(|(name, value)| (name.clone(), value.as_str().into())).collect())
}
