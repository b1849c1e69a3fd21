//! The flags of `aiperf profile` that shape conversations, their prompts and outputs.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use dataset::{CacheBust, Corpus, Length, RangeStyle, SequenceDistribution};

use super::value::{choice, count, input_length, millis, number, output_length, positive};

/// Shape of conversations.
#[derive(Args)]
#[command(next_help_heading = "Conversation Input",
          group = ArgGroup::new("conversations").multiple(true))]
pub(super) struct ConversationArgs {
    /// Number of sessions (conversations) to run
    #[arg(long, visible_aliases = ["conversation-num", "num-conversations"], value_name = "COUNT",
          value_parser = positive)]
    pub(super) num_sessions: Option<u64>,
    /// Number of distinct conversations to generate, which are sent repeatedly, or to read from the
    /// Hugging Face Hub or a weka-trace [default: to generate, one for each session; to read,
    /// --num-sessions or else one for each request; of a weka-trace in a file, all]
    #[arg(long, visible_alias = "num-prompts", value_name = "COUNT", value_parser = positive, group = "entries")]
    pub(super) num_dataset_entries: Option<u64>,
    /// Mean number of turns in a conversation [default: 1]
    #[arg(long, visible_alias = "conversation-turn-mean", value_name = "TURNS",
          value_parser = number, group = "conversations")]
    pub(super) session_turns_mean: Option<f64>,
    /// Standard deviation of the number of turns in a conversation [default: 0]
    #[arg(long, visible_alias = "conversation-turn-stddev", value_name = "TURNS",
          value_parser = number, group = "conversations")]
    pub(super) session_turns_stddev: Option<f64>,
    /// Mean delay before each turn after the first, in milliseconds [default: 0]
    #[arg(long, visible_alias = "conversation-turn-delay-mean", value_name = "MS",
          value_parser = millis, group = "conversations")]
    pub(super) session_turn_delay_mean: Option<f64>,
    /// Standard deviation of the delay before each turn after the first, in milliseconds [default:
    /// 0]
    #[arg(long, visible_alias = "conversation-turn-delay-stddev", value_name = "MS",
          value_parser = millis, group = "conversations")]
    pub(super) session_turn_delay_stddev: Option<f64>,
    /// Factor to multiply the delays between turns by, including those of a file [default: 1]
    #[arg(long, visible_alias = "conversation-turn-delay-ratio", value_name = "FACTOR",
          value_parser = number)]
    pub(super) session_delay_ratio: Option<f64>,
}

/// Shape of prompts and outputs.
#[derive(Args)]
#[command(groups = [ArgGroup::new("text").multiple(true), ArgGroup::new("output_lengths").multiple(true)])]
pub(super) struct PromptArgs {
    /// Number of input tokens per prompt, a use case (chat: 512, rag: 4096, summarize: 1024, code:
    /// 512), or a distribution such as 'lognormal:mean=512,sigma=0.8' [default: 550]
    #[arg(long, visible_aliases = ["prompt-input-tokens-mean", "synthetic-input-tokens-mean"],
          value_name = "TOKENS", value_parser = input_length,
          help_heading = "Input Sequence Length (ISL)", group = "text")]
    pub(super) isl: Option<Length>,
    /// Standard deviation of the number of input tokens per prompt [default: 0]
    #[arg(long, visible_aliases = ["prompt-input-tokens-stddev", "synthetic-input-tokens-stddev"],
          value_name = "TOKENS", value_parser = number,
          help_heading = "Input Sequence Length (ISL)", group = "text")]
    pub(super) isl_stddev: Option<f64>,
    /// Distribution of input and output lengths: 'isl|stddev,osl|stddev:percent;…', where |stddev
    /// is optional
    #[arg(
        long,
        visible_alias = "sequence-distribution",
        value_name = "PAIRS",
        value_parser = SequenceDistribution::parse,
        help_heading = "Input Sequence Length (ISL)", group = "text")]
    pub(super) seq_dist: Option<SequenceDistribution>,
    /// Rank correlation of input and output lengths, from -1 to 1 [default: 0]
    #[arg(long, value_name = "RHO", allow_negative_numbers = true, requires = "isl", requires = "osl",
          group = "text", conflicts_with_all = ["seq_dist", "random_range_ratio", "batch_size"],
          help_heading = "Input Sequence Length (ISL)")]
    pub(super) length_correlation: Option<f64>,
    /// Draw pairs of input and output length from a file: profile_export.jsonl of another run, a
    /// trace, or lines of 'input,output'
    #[arg(long, value_name = "FILE", group = "text", conflicts_with_all = ["isl", "isl_stddev",
          "seq_dist", "random_range_ratio", "batch_size"], help_heading = "Input Sequence Length (ISL)")]
    pub(super) lengths_from: Option<PathBuf>,
    /// Draw input and output lengths uniformly from a range around --isl and --osl: a ratio such as
    /// 0.3, or '{"input": 0.3, "output": 0.5}'
    #[arg(long, value_name = "RATIO", requires = "isl", requires = "osl", group = "text",
          conflicts_with_all = ["seq_dist", "isl_stddev", "osl_stddev"],
          help_heading = "Input Sequence Length (ISL)")]
    pub(super) random_range_ratio: Option<String>,
    /// Range of --random-range-ratio: from mean*(1-ratio) to mean*(1+ratio) as in vllm bench serve,
    /// or from mean*ratio to the mean as in SGLang's benchmark [default: vllm]
    #[arg(long, value_name = "STYLE", value_parser = choice::<RangeStyle>(),
          requires = "random_range_ratio", help_heading = "Input Sequence Length (ISL)")]
    pub(super) random_corpus_style: Option<RangeStyle>,
    /// Number of tokens in the block that each hash ID of a trace stands for [default: 512; 16 for
    /// bailian-trace]
    #[arg(long, visible_aliases = ["prompt-input-tokens-block-size",
          "synthetic-input-tokens-block-size"], value_name = "TOKENS", value_parser = positive,
          requires = "recorded", help_heading = "Input Sequence Length (ISL)")]
    pub(super) isl_block_size: Option<u64>,
    /// Number of output tokens to request, a use case (chat: 256, rag: 512, summarize: 256, code:
    /// 512), or a distribution as for --isl [default: the server decides]
    #[arg(long, visible_aliases = ["prompt-output-tokens-mean", "output-tokens-mean"],
          value_name = "TOKENS", value_parser = output_length,
          help_heading = "Output Sequence Length (OSL)", group = "output_lengths")]
    pub(super) osl: Option<Length>,
    /// Standard deviation of the number of output tokens to request [default: 0]
    #[arg(long, visible_aliases = ["prompt-output-tokens-stddev", "output-tokens-stddev"],
          value_name = "TOKENS", value_parser = number, requires = "osl",
          help_heading = "Output Sequence Length (OSL)", group = "output_lengths")]
    pub(super) osl_stddev: Option<f64>,
    /// Number of texts in each request, for endpoint types such as completions and embeddings; drawn
    /// from the lines of a random-pool --input-file [default: 1]
    #[arg(long, short, visible_aliases = ["prompt-batch-size", "batch-size-text"],
          value_name = "COUNT", value_parser = positive, help_heading = "Prompt", group = "batch")]
    pub(super) batch_size: Option<u64>,
    /// Send prompts as lists of token IDs instead of texts; for completions and embeddings, with the
    /// model's own --tokenizer
    #[arg(long, help_heading = "Prompt", group = "text", conflicts_with = "cache_bust")]
    pub(super) prompt_token_ids: bool,
    /// Text of generated prompts: English prose, Shakespeare's sonnets, code and output of tools, or
    /// random tokens [default: coding for a weka-trace, or else prose]
    #[arg(long, value_name = "CORPUS", value_parser = choice::<Corpus>(), help_heading = "Prompt")]
    pub(super) prompt_corpus: Option<Corpus>,
    /// Add a marker to the prompts of each session, so that the server's prefix cache cannot answer
    /// them; warmup-isolation-… marks only the warmup [default: none]
    #[arg(long, value_name = "PLACE", value_parser = choice::<CacheBust>(), help_heading = "Prompt")]
    pub(super) cache_bust: Option<CacheBust>,
    /// System prompt for every conversation
    #[arg(long, value_name = "TEXT", help_heading = "Prefix Prompt", group = "text")]
    pub(super) system_prompt: Option<String>,
    /// File that contains the system prompt for every conversation
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "system_prompt",
        help_heading = "Prefix Prompt",
        group = "text"
    )]
    pub(super) system_prompt_file: Option<PathBuf>,
    /// Number of distinct prefixes to generate; each prompt starts with one of them [default: 0]
    #[arg(long, visible_aliases = ["prompt-prefix-pool-size", "prefix-prompt-pool-size"],
          value_name = "COUNT", value_parser = count, help_heading = "Prefix Prompt", group = "text")]
    pub(super) num_prefix_prompts: Option<u64>,
    /// Number of tokens in each generated prefix [default: 0]
    #[arg(long, visible_alias = "prompt-prefix-length", value_name = "TOKENS",
          value_parser = count, help_heading = "Prefix Prompt", group = "text")]
    pub(super) prefix_prompt_length: Option<u64>,
    /// Number of tokens in a generated system prompt that all conversations share
    #[arg(long, value_name = "TOKENS", value_parser = positive, help_heading = "Prefix Prompt", group = "text", conflicts_with_all = ["system_prompt", "system_prompt_file"])]
    pub(super) shared_system_prompt_length: Option<u64>,
    /// Number of tokens in a generated context that is unique to each conversation
    #[arg(long, value_name = "TOKENS", value_parser = positive, help_heading = "Prefix Prompt", group = "text")]
    pub(super) user_context_prompt_length: Option<u64>,
}
