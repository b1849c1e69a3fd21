//! The dataset of a run: a part for each different combination of settings that its phases have.

use base::input;
use client::endpoint::EndpointTraits;
use client::schedule::PhaseKind;
use client::schedule::config::{PhaseConfig, StopCondition};
use dataset::{
    Config, FileFormat, Length, ModelSelection, NormalDistribution, Part, RandomRange,
    RecordedLengths, Sampling, Source, Synthetic, TenantLengths, TraceSettings,
};

use super::given::Given;
use super::phases::Listed;
use super::profile::{InputArgs, ProfileArgs};
use super::prompt_args::{ConversationArgs, PromptArgs};
use super::{hub_args, rankings};
use crate::config::{ConfigError, Environment};

/// Maximum number of conversations to generate before the run by default. Others are generated while it
/// goes on.
const MAX_DEFAULT_ENTRIES: u64 = 10_000;

/// Minimum number of conversations to generate before the run, if their number is not known.
const MIN_DEFAULT_ENTRIES: u64 = 100;

/// A phase that draws conversations.
#[derive(Clone, Copy)]
struct Drawing<'a> {
    /// Its flags, with those of the run.
    flags: &'a ProfileArgs,
    given: Given<'a>,
    stop: StopCondition,
    /// Maximum number of its sessions in flight, if it is limited.
    in_flight: Option<u64>,
    /// Whether it is the warmup that the flags of the run describe.
    is_warmup_of_run: bool,
}

/// How many conversations a part has if no flag says how many.
#[derive(Clone, Copy)]
struct Needed {
    to_generate: usize,
    to_download: Option<u64>,
}

/// Returns the dataset of `flags`, and has each of the `phases` draw from its part. Phases that are
/// `listed` have settings of their own. Each part has the conversations of `tenants`.
pub(super) fn config(
    flags: &ProfileArgs,
    listed: &[Listed],
    given: Given<'_>,
    phases: &mut [PhaseConfig],
    tenants: &[TenantLengths],
    environment: Environment<'_>,
) -> Result<Config, ConfigError> {
    let none = Needed { to_generate: 0, to_download: None };
    let mut parts: Vec<(Part, Vec<Drawing<'_>>)> = Vec::new();
    for phase in phases {
        let own = listed.iter().find(|own| phase.name.as_ref() == Some(&own.name));
        let drawing = Drawing {
            flags: own.map_or(flags, |own| &own.flags),
            given: own.map_or(given, |own| given.with_matches(&own.matches)),
            stop: phase.stop,
            in_flight: phase.concurrency.map(|limit| limit.most),
            is_warmup_of_run: own.is_none() && phase.kind == PhaseKind::Warmup,
        };
        let part = drawing.part(none, environment).map_err(|error| match own {
            Some(own) => error.in_phase(&own.name),
            None => error,
        })?;
        phase.dataset = parts.iter().position(|(it, _)| *it == part).unwrap_or(parts.len());
        match parts.get_mut(phase.dataset) {
            Some((_, drawings)) => drawings.push(drawing),
            None => parts.push((part, vec![drawing])),
        }
    }
    let part = |(_, drawings): (Part, Vec<Drawing<'_>>)| {
        let part = drawings[0].part(needed(&drawings), environment)?;
        Ok(Part { tenants: tenants.to_vec(), ..part })
    };
    let default_selection = match flags.endpoint.model_weights.as_slice() {
        [] => ModelSelection::default(),
        _ => ModelSelection::Weighted,
    };
    Ok(Config {
        parts: parts.into_iter().map(part).collect::<Result<_, ConfigError>>()?,
        models: flags.endpoint.models.clone(),
        model_selection: flags.endpoint.model_selection_strategy.unwrap_or(default_selection),
        model_weights: flags.endpoint.model_weights.clone(),
        lora_modules: flags.endpoint.lora_modules.clone(),
        cache_bust: flags.prompt.cache_bust.unwrap_or_default(),
        strips_repeated_images: flags.endpoint.uuid_and_strip,
        random_seed: None,
        shared_seed: None,
    })
}

/// Returns how many conversations the phases need that draw from the same part. To generate before the run, by
/// default, is one for each request, as far as their number is known.
fn needed(drawings: &[Drawing<'_>]) -> Needed {
    let (warmups, others): (Vec<&Drawing<'_>>, Vec<_>) =
        drawings.iter().partition(|it| it.is_warmup_of_run);
    let count = |it: &&Drawing<'_>| it.stop.sessions.or(it.stop.requests);
    let counts = others.iter().map(count);
    let requests = counts.reduce(|sum, count| Some(sum?.saturating_add(count?))).flatten();
    // The warmup draws first.
    let warmup = warmups.iter().filter_map(count).sum::<u64>();
    let requests = requests.map(|count| count.saturating_add(warmup).min(MAX_DEFAULT_ENTRIES));
    // The first requests of a closed loop are sent at once.
    let at_once = drawings.iter().filter_map(|it| it.in_flight).max().unwrap_or(0);
    let least = at_once.clamp(MIN_DEFAULT_ENTRIES, MAX_DEFAULT_ENTRIES);
    let stops = drawings.iter().map(|it| it.stop.sessions.or(it.stop.requests));
    Needed {
        to_generate: requests.unwrap_or(least) as usize,
        to_download: stops.reduce(|sum, stop| Some(sum?.saturating_add(stop?))).flatten(),
    }
}

impl Drawing<'_> {
    /// Returns the part of the dataset that the flags describe, with as many conversations as are
    /// `needed` unless they say how many.
    fn part(&self, needed: Needed, environment: Environment<'_>) -> Result<Part, ConfigError> {
        let Self { flags, given, .. } = *self;
        let ProfileArgs { prompt, conversation, .. } = flags;
        let traces =
            flags.synthesis.traces(prompt.isl_block_size, prompt.prompt_corpus, environment)?;
        let asked = conversation.num_dataset_entries;
        let entries = asked.map_or(needed.to_generate, |count| count as usize);
        let hub = hub_args::dataset(&flags.hub, traces, asked.or(needed.to_download), given)?;
        let source = match (&flags.input.input_file, hub) {
            (_, Some(dataset)) => Source::Hub(dataset),
            (Some(path), None) => {
                refuse_generated(&flags.input, prompt, given)?;
                Source::File {
                    path: path.clone(),
                    format: flags.input.custom_dataset_type,
                    traces: TraceSettings { entries: asked.map(|count| count as usize), ..traces },
                    entries,
                    batch_size: prompt.batch_size.unwrap_or(1) as usize,
                }
            }
            (None, None) if flags.endpoint.endpoint_type.traits().ranks => {
                let corpus = prompt.prompt_corpus.unwrap_or_default();
                let args = &flags.rankings;
                Source::Rankings(rankings::generated(args, conversation, corpus, given, entries)?)
            }
            (None, None) => {
                rankings::refuse_flags(given)?;
                refuse_text_flags(flags.endpoint.endpoint_type.traits(), given)?;
                Source::Synthetic(Synthetic {
                    images: flags.media.images()?,
                    pictures: flags.media.pictures()?.map(Box::new),
                    audio: flags.media.audio(),
                    video: flags.video.video(),
                    ..prompts(prompt, conversation, entries)?
                })
            }
        };
        let output_tokens = prompt
            .osl
            .as_ref()
            .map(|osl| length(osl, prompt.osl_stddev, ["--osl", "--osl-stddev"]));
        // Batches are drawn at random when the file is read.
        let is_drawn = flags.input.custom_dataset_type == Some(FileFormat::RandomPool)
            && prompt.batch_size.is_none_or(|size| size == 1);
        let default_sampling = is_drawn.then_some(Sampling::Random);
        Ok(Part {
            grows: asked.is_none() && !source.is_read(),
            sampling: flags.input.dataset_sampling_strategy.or(default_sampling),
            output_tokens: output_tokens.transpose()?,
            delay_ratio: conversation.session_delay_ratio.unwrap_or(1.0),
            ..Part::from(source)
        })
    }
}

/// The generated conversations, without media.
fn prompts(
    prompt: &PromptArgs,
    conversation: &ConversationArgs,
    entries: usize,
) -> Result<Synthetic, ConfigError> {
    let spread = |mean: Option<f64>, default, stddev: Option<f64>| NormalDistribution {
        mean: mean.unwrap_or(default),
        stddev: stddev.unwrap_or(0.0),
    };
    let (mean, stddev) =
        (conversation.session_turn_delay_mean, conversation.session_turn_delay_stddev);
    Ok(Synthetic {
        entries,
        input_tokens: length(
            prompt.isl.as_ref().unwrap_or(&Length::exactly(550.0)),
            prompt.isl_stddev,
            ["--isl", "--isl-stddev"],
        )?,
        length_correlation: prompt.length_correlation,
        recorded_lengths: recorded_lengths(prompt)?.map(Box::new),
        sequence_distribution: prompt.seq_dist.clone(),
        range: random_range(prompt)?,
        corpus: prompt.prompt_corpus.unwrap_or_default(),
        batch_size: prompt.batch_size.unwrap_or(1) as usize,
        sends_token_ids: prompt.prompt_token_ids,
        turns: spread(conversation.session_turns_mean, 1.0, conversation.session_turns_stddev),
        turn_delay_ms: spread(mean, 0.0, stddev),
        prefix_pool_size: prompt.num_prefix_prompts.unwrap_or(0) as usize,
        prefix_length: prompt.prefix_prompt_length.unwrap_or(0) as usize,
        shared_system_prompt_length: prompt.shared_system_prompt_length.map(|n| n as usize),
        user_context_prompt_length: prompt.user_context_prompt_length.map(|n| n as usize),
        system_prompt: system_prompt(prompt)?,
        images: None,
        pictures: None,
        audio: None,
        video: None,
    })
}

/// The length of the first of two flags, with the standard deviation of the second if it is given.
fn length(
    length: &Length,
    stddev: Option<f64>,
    [flag, stddev_flag]: [&'static str; 2],
) -> Result<Length, ConfigError> {
    let Some(stddev) = stddev else { return Ok(length.clone()) };
    if let Some(NormalDistribution { mean, stddev: 0.0 }) = length.normal() {
        return Ok(Length::Normal(NormalDistribution { mean, stddev }));
    }
    let why = format!("requires a number as {flag}, which is a distribution; remove it");
    Err(ConfigError::flag(stddev_flag, why))
}

/// The lengths of the file that `--lengths-from` names.
fn recorded_lengths(prompt: &PromptArgs) -> Result<Option<RecordedLengths>, ConfigError> {
    const FLAG: &str = "--lengths-from";
    let Some(path) = &prompt.lengths_from else { return Ok(None) };
    let lengths = RecordedLengths::read(path).map_err(|why| ConfigError::File {
        flag: FLAG,
        path: path.display().to_string(),
        why,
    })?;
    if lengths.has_outputs() && prompt.osl.is_some() {
        let why = "the file has output lengths, which --osl would replace; remove --osl";
        return Err(ConfigError::flag(FLAG, why));
    }
    Ok(Some(lengths))
}

/// The ranges of lengths that `--random-range-ratio` makes of the means.
fn random_range(prompt: &PromptArgs) -> Result<Option<RandomRange>, ConfigError> {
    let Some(ratios) = &prompt.random_range_ratio else { return Ok(None) };
    let flag = "--random-range-ratio";
    let [input_ratio, output_ratio] =
        RandomRange::parse_ratios(ratios).map_err(|why| ConfigError::flag(flag, why))?;
    // The flag requires both; a length beyond the limit is rejected by the check of the means.
    let tokens = |length: &Option<Length>| match length.as_ref().and_then(Length::normal) {
        Some(NormalDistribution { mean, stddev: 0.0 }) => Ok(mean as u32),
        _ => Err(ConfigError::flag(flag, "requires numbers as --isl and --osl")),
    };
    Ok(Some(RandomRange {
        style: prompt.random_corpus_style.unwrap_or_default(),
        input_tokens: tokens(&prompt.isl)?,
        input_ratio,
        output_tokens: tokens(&prompt.osl)?,
        output_ratio,
    }))
}

fn system_prompt(prompt: &PromptArgs) -> Result<Option<String>, ConfigError> {
    let Some(path) = &prompt.system_prompt_file else { return Ok(prompt.system_prompt.clone()) };
    input::text(path, input::MAX_PART_BYTES).map(Some).map_err(|error| ConfigError::File {
        flag: "--system-prompt-file",
        path: path.display().to_string(),
        why: error.to_string(),
    })
}

/// Returns an error for a flag about generated prompts if there is a file.
fn refuse_generated(
    input: &InputArgs,
    prompt: &PromptArgs,
    given: Given<'_>,
) -> Result<(), ConfigError> {
    let is_directory = input.input_file.as_ref().is_some_and(|path| path.is_dir());
    let is_pool = input.custom_dataset_type == Some(FileFormat::RandomPool) && !is_directory;
    if !is_pool {
        let why = "applies to generated prompts and to a file of --custom-dataset-type \
                   random-pool; remove the flag";
        given.refuse(&["batch"], why)?;
    }
    // Requests are drawn from a directory of pools, or in batches, as many as --num-dataset-entries
    // says, and it limits traces of agents. The format of a file may only be known once it is read.
    let takes_entries = is_directory
        || prompt.batch_size.is_some_and(|size| size > 1)
        || matches!(
            input.custom_dataset_type,
            None | Some(FileFormat::WekaTrace | FileFormat::TraceLab | FileFormat::Exgentic)
        );
    let entries = if takes_entries { None } else { Some("entries") };
    let groups = ["conversations", "text", "MediaArgs", "VideoArgs", "RankingsArgs"];
    let groups: Vec<&str> = entries.into_iter().chain(groups).collect();
    let why = "applies to generated prompts and cannot be combined with --input-file; remove one \
               of the two";
    given.refuse(&groups, why)
}

/// Returns an error for a flag about text if requests do not have text.
fn refuse_text_flags(traits: &EndpointTraits, given: Given<'_>) -> Result<(), ConfigError> {
    let takes_text = traits.tokenizes_input || traits.path.is_empty();
    if takes_text {
        return Ok(());
    }
    given.refuse(
        &["text", "batch"],
        format!("{} requests do not contain text; remove the flag", traits.name),
    )
}
