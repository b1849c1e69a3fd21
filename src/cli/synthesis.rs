//! The flags that change a trace.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use clap::Args;

use base::environment::Environment;
use base::setting::Named;
use dataset::{Corpus, ReplayOutputs, SessionColumn, Synthesis, TraceSettings};

use super::value::{above_zero, choice, number, positive, share};
use crate::config::ConfigError;

/// How the requests of a trace are changed before they are sent.
#[derive(Args)]
#[command(next_help_heading = "Synthesis")]
pub(super) struct SynthesisArgs {
    /// Divide the timestamps of a trace by this factor; --replay-speedup also divides its delays
    #[arg(long, value_name = "FACTOR", value_parser = above_zero, requires = "recorded")]
    synthesis_speedup_ratio: Option<f64>,
    /// Multiply the length of the prefixes that prompts of a trace share by this factor
    #[arg(long, value_name = "FACTOR", value_parser = above_zero, requires = "recorded")]
    synthesis_prefix_len_multiplier: Option<f64>,
    /// Distribute the sessions of a trace among this number of copies of its shared prefixes
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "recorded")]
    synthesis_prefix_root_multiplier: Option<u64>,
    /// Multiply the length of what each prompt of a trace does not share by this factor
    #[arg(long, value_name = "FACTOR", value_parser = above_zero, requires = "recorded")]
    synthesis_prompt_len_multiplier: Option<f64>,
    /// Multiply the output tokens requested by each request of a trace by this factor
    #[arg(long, value_name = "FACTOR", value_parser = number, requires = "recorded")]
    synthesis_output_len_multiplier: Option<f64>,
    /// Skip requests of a trace whose prompts have more tokens than this
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "recorded")]
    synthesis_max_isl: Option<u64>,
    /// Cap the output tokens requested by each request of a trace
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "recorded")]
    synthesis_max_osl: Option<u64>,
    /// Send only this fraction of the sessions of a trace, drawn at random by --random-seed
    #[arg(long, value_name = "FRACTION", value_parser = share, requires = "recorded",
          help_heading = "Input")]
    trace_session_sample_ratio: Option<f64>,
    /// Skip sessions of a trace in which the input and output tokens of a request exceed this
    #[arg(long, value_name = "TOKENS", value_parser = positive, requires = "recorded",
          help_heading = "Input")]
    max_context_length: Option<u64>,
    /// Use the recorded think times of a weka-trace or tracelab as delays where there are any, instead of the
    /// times between responses and requests
    #[arg(long, requires = "recorded", help_heading = "Input")]
    use_think_time_only: bool,
    /// Repeat the responses of the run, or those recorded in the traces, in later requests of a
    /// conversation (otel) [default: live]
    #[arg(long, value_name = "OUTPUTS", value_parser = choice::<ReplayOutputs>(),
          requires = "recorded", help_heading = "Input")]
    replay_outputs: Option<ReplayOutputs>,
    /// Request the output length of a trace as a minimum too (min_tokens), which vLLM and SGLang
    /// support [default: on for a baseten-trace]
    #[arg(long, requires = "recorded", help_heading = "Conversation Input")]
    force_min_tokens: bool,
    /// Do not request the output length of a baseten-trace as a minimum
    #[arg(long, conflicts_with = "force_min_tokens", help_heading = "Conversation Input")]
    no_force_min_tokens: bool,
    /// Do not send the hash_ids and the block_size of a baseten-trace, by which routers find servers that
    /// have a prompt in their cache
    #[arg(long, help_heading = "Conversation Input")]
    omit_kv_hints: bool,
}

impl SynthesisArgs {
    /// The settings of traces whose blocks have `block_tokens` tokens and are made from `corpus`.
    pub(super) fn traces(
        &self,
        block_tokens: Option<u64>,
        corpus: Option<Corpus>,
        environment: Environment<'_>,
    ) -> Result<TraceSettings, ConfigError> {
        // A count that does not fit is not a limit, or is rejected later.
        let fitting = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let min_spawn = "AIPERF_DATASET_TRACELAB_MIN_SPAWN_MS";
        let min_spawn = environment
            .parse(min_spawn, "a number of milliseconds", |text| text.trim().parse().ok())?;
        let session_column = environment
            .parse(
                "AIPERF_DATASET_BASETEN_SESSION_COLUMN",
                "provided_session_id or poor_man_session_id",
                |text| SessionColumn::named(text.trim()),
            )?
            .unwrap_or_default();
        Ok(TraceSettings {
            prefers_recorded: false,
            block_tokens: block_tokens.map(fitting),
            max_input_tokens: self.synthesis_max_isl.map(fitting),
            max_output_tokens: self.synthesis_max_osl.map(fitting),
            synthesis: Synthesis {
                speedup_ratio: self.synthesis_speedup_ratio.unwrap_or(1.0),
                prefix_len_multiplier: self.synthesis_prefix_len_multiplier.unwrap_or(1.0),
                prefix_root_multiplier: self.synthesis_prefix_root_multiplier.map_or(1, fitting),
                prompt_len_multiplier: self.synthesis_prompt_len_multiplier.unwrap_or(1.0),
                output_len_multiplier: self.synthesis_output_len_multiplier.unwrap_or(1.0),
            },
            session_sample_ratio: self.trace_session_sample_ratio,
            max_context_tokens: self.max_context_length.map(fitting),
            uses_think_time: self.use_think_time_only,
            force_min_tokens: match (self.force_min_tokens, self.no_force_min_tokens) {
                (false, false) => None,
                (is_forced, _) => Some(is_forced),
            },
            omits_kv_hints: self.omit_kv_hints,
            session_column,
            entries: None,
            corpus,
            replay_outputs: self.replay_outputs,
            min_spawn_millis: min_spawn,
        })
    }
}
