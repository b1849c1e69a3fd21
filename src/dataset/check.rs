//! Checks of the settings of generated datasets.

use base::setting::InvalidSetting;

use super::lengths::MAX_TOKENS;
use super::size::{Size, check_files, likely};
use super::{
    AudioNoise, Config, ImageNoise, ModelSelection, NormalDistribution, Part, RandomRange,
    Rankings, RecordedLengths, SequenceDistribution, Source, Synthetic, VideoClip,
};

impl Config {
    /// Checks that a dataset can be generated; a file or a dataset of the hub is checked when it is read.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        if self.models.is_empty() {
            return Err(InvalidSetting::new("--model", "at least one model is required"));
        }
        self.check_models()?;
        self.parts.iter().try_for_each(Part::check)
    }
}

impl Part {
    fn check(&self) -> Result<(), InvalidSetting> {
        if !(self.delay_ratio >= 0.0 && self.delay_ratio.is_finite()) {
            let why = "must be a number of at least 0";
            return Err(InvalidSetting::new("--session-delay-ratio", why));
        }
        if let Some(output_tokens) = &self.output_tokens {
            output_tokens.check("--osl")?;
        }
        match &self.source {
            Source::Synthetic(synthetic) => synthetic.check(),
            Source::Rankings(rankings) => rankings.check(),
            Source::File { batch_size, entries, .. } if *batch_size > 1 => {
                let texts = *entries as f64 * *batch_size as f64;
                let size = Size::default().with(texts, NormalDistribution::exactly(1.0));
                size.check("--batch-size", "--num-dataset-entries or --batch-size")
            }
            Source::File { .. } | Source::Hub(_) => Ok(()),
        }
    }
}

impl Config {
    /// Checks that each model has a weight if models are drawn by weight, and that adapters are of
    /// one model.
    fn check_models(&self) -> Result<(), InvalidSetting> {
        let (models, weights) = (self.models.len(), self.model_weights.len());
        let refuse = |flag, why: String| Err(InvalidSetting::new(flag, why));
        if !self.lora_modules.is_empty() && models > 1 {
            let why = format!("the adapters must be of one model, but --model names {models}");
            return refuse("--lora-modules", why);
        }
        match (self.model_selection, weights) {
            (ModelSelection::Weighted, 0) => {
                let why = "weighted requires the weights of the models; add --model-weights";
                refuse("--model-selection-strategy", why.to_owned())
            }
            (ModelSelection::Weighted, _) if weights != models => {
                let why = format!("there are {weights} weights for {models} models; give one each");
                refuse("--model-weights", why)
            }
            (ModelSelection::Weighted, _) if self.model_weights.iter().sum::<f64>() <= 0.0 => {
                refuse("--model-weights", "at least one weight must be above 0".to_owned())
            }
            (ModelSelection::Weighted, _) | (_, 0) => Ok(()),
            (_, _) => {
                let why = "applies to the strategy weighted; remove one of the two";
                refuse("--model-weights", why.to_owned())
            }
        }
    }
}

impl Synthetic {
    fn check(&self) -> Result<(), InvalidSetting> {
        at_least_one("--num-dataset-entries", self.entries)?;
        at_least_one("--batch-size", self.batch_size)?;
        self.input_tokens.check("--isl")?;
        if self.length_correlation.is_some_and(|rank| !(-1.0..=1.0).contains(&rank)) {
            let why = "must be between -1 and 1";
            return Err(InvalidSetting::new("--length-correlation", why));
        }
        self.turns.check("--session-turns-mean", 1.0)?;
        self.turn_delay_ms.check("--session-turn-delay-mean", 0.0)?;
        if (self.prefix_pool_size == 0) != (self.prefix_length == 0) {
            let why = "must be given together with --prefix-prompt-length, both above 0";
            return Err(InvalidSetting::new("--num-prefix-prompts", why));
        }
        let lengths = [
            ("--prefix-prompt-length", Some(self.prefix_length).filter(|length| *length > 0)),
            ("--shared-system-prompt-length", self.shared_system_prompt_length),
            ("--user-context-prompt-length", self.user_context_prompt_length),
        ];
        lengths.into_iter().try_for_each(|(flag, length)| within_limit(flag, length))?;
        self.range.map_or(Ok(()), |range| range.windows(0).map(drop))?;
        self.check_size()?;
        self.images.as_ref().map_or(Ok(()), ImageNoise::check)?;
        let scaled = self.pictures.as_ref().and_then(|pictures| pictures.scaled);
        scaled.map_or(Ok(()), |shape| shape.check())?;
        self.audio.as_ref().map_or(Ok(()), AudioNoise::check)?;
        self.video.as_ref().map_or(Ok(()), VideoClip::check)
    }

    /// Rejects what is too large to generate and keep.
    fn check_size(&self) -> Result<(), InvalidSetting> {
        let entries = self.entries as f64;
        let turns = entries * likely(self.turns);
        let recorded = self.recorded_lengths.as_deref().map(RecordedLengths::input_tokens);
        let distribution = self.sequence_distribution.as_ref();
        let length = recorded.or_else(|| distribution.map(SequenceDistribution::input_tokens));
        let length = length.unwrap_or_else(|| self.input_tokens.spread());
        let length = self.range.as_ref().map_or(length, RandomRange::longest_input);
        let exactly = |length: usize| NormalDistribution::exactly(length as f64);
        let mut size = Size::default()
            .with(turns * self.batch_size as f64, length)
            .with(self.prefix_pool_size as f64, exactly(self.prefix_length));
        if let Some(length) = self.user_context_prompt_length {
            size = size.with(entries, exactly(length));
        }
        let flags = "--num-dataset-entries, --isl, --session-turns-mean, --batch-size, \
                     --num-prefix-prompts or --user-context-prompt-length";
        size.check("--num-dataset-entries", flags)?;
        let images = self.images.as_ref().map_or(0, |images| images.batch_size);
        check_files("--image-batch-size", turns * images as f64)?;
        let pictures = self.pictures.as_ref().map_or(0, |pictures| pictures.batch_size);
        check_files("--image-batch-size", turns * pictures as f64)?;
        let sounds = self.audio.as_ref().map_or(0, |audio| audio.batch_size);
        check_files("--audio-batch-size", turns * sounds as f64)
    }
}

impl Rankings {
    fn check(&self) -> Result<(), InvalidSetting> {
        at_least_one("--num-dataset-entries", self.entries)?;
        self.passages.check("--rankings-passages-mean", 1.0)?;
        self.passage_tokens.check("--rankings-passages-prompt-token-mean", 1.0)?;
        self.query_tokens.check("--rankings-query-prompt-token-mean", 1.0)?;
        let entries = self.entries as f64;
        Size::default()
            .with(entries, self.query_tokens)
            .with(entries * likely(self.passages), self.passage_tokens)
            .check(
                "--rankings-passages-mean",
                "--rankings-passages-mean, --rankings-passages-prompt-token-mean, \
                 --rankings-query-prompt-token-mean or --num-dataset-entries",
            )
    }
}

fn at_least_one(flag: &'static str, count: usize) -> Result<(), InvalidSetting> {
    match count {
        0 => Err(InvalidSetting::new(flag, "must be at least 1, since 0 makes an empty dataset")),
        _ => Ok(()),
    }
}

/// Checks that a text that is generated has at least one token, and not more than a typing error
/// would give it.
fn within_limit(flag: &'static str, length: Option<usize>) -> Result<(), InvalidSetting> {
    match length {
        Some(length) if length == 0 || length > MAX_TOKENS as usize => {
            let why = format!("must be between 1 and {MAX_TOKENS} tokens, got {length}");
            Err(InvalidSetting::new(flag, why))
        }
        _ => Ok(()),
    }
}
