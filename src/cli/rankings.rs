//! The flags for generated rankings.

use clap::Args;

use dataset::{Corpus, NormalDistribution, Rankings};

use super::given::Given;
use super::prompt_args::ConversationArgs;
use super::value::{number, positive_number};
use crate::config::ConfigError;

/// Shape of generated rankings.
#[derive(Args)]
#[command(next_help_heading = "Rankings")]
pub(super) struct RankingsArgs {
    /// Mean number of passages in a generated ranking request [default: 10]
    #[arg(long = "rankings-passages-mean", value_name = "COUNT", value_parser = positive_number)]
    passages_mean: Option<f64>,
    /// Standard deviation of the number of passages in a generated ranking request [default: 0]
    #[arg(long = "rankings-passages-stddev", value_name = "COUNT", value_parser = number)]
    passages_stddev: Option<f64>,
    /// Mean number of tokens in a passage of a ranking request [default: 128]
    #[arg(long = "rankings-passages-prompt-token-mean", value_name = "TOKENS", value_parser = positive_number)]
    passages_prompt_token_mean: Option<f64>,
    /// Standard deviation of the number of tokens in a passage of a ranking request [default: 0]
    #[arg(long = "rankings-passages-prompt-token-stddev", value_name = "TOKENS", value_parser = number)]
    passages_prompt_token_stddev: Option<f64>,
    /// Mean number of tokens in the query of a ranking request [default: 32]
    #[arg(long = "rankings-query-prompt-token-mean", value_name = "TOKENS", value_parser = positive_number)]
    query_prompt_token_mean: Option<f64>,
    /// Standard deviation of the number of tokens in the query of a ranking request [default: 0]
    #[arg(long = "rankings-query-prompt-token-stddev", value_name = "TOKENS", value_parser = number)]
    query_prompt_token_stddev: Option<f64>,
}

/// Returns an error for a rankings flag when no rankings are generated.
pub(super) fn refuse_flags(given: Given<'_>) -> Result<(), ConfigError> {
    let why = "requires generated rankings; remove the flag, or use an --endpoint-type for \
               rankings without --input-file";
    given.refuse(&["RankingsArgs"], why)
}

/// The rankings to generate.
pub(super) fn generated(
    args: &RankingsArgs,
    conversation: &ConversationArgs,
    corpus: Corpus,
    given: Given<'_>,
    entries: usize,
) -> Result<Rankings, ConfigError> {
    let why = "a generated ranking request has a query and passages instead of a prompt; use the \
               --rankings-* flags";
    given.refuse(&["text", "batch", "output_lengths", "MediaArgs", "VideoArgs"], why)?;
    if conversation.session_turns_mean.is_some_and(|turns| turns != 1.0)
        || conversation.session_turns_stddev.is_some_and(|turns| turns > 0.0)
    {
        let why = "a ranking request has only one turn; remove the flag";
        return Err(ConfigError::flag("--session-turns-mean", why));
    }
    let spread = |mean: Option<f64>, default, stddev: Option<f64>| NormalDistribution {
        mean: mean.unwrap_or(default),
        stddev: stddev.unwrap_or(0.0),
    };
    Ok(Rankings {
        entries,
        passages: spread(args.passages_mean, 10.0, args.passages_stddev),
        passage_tokens: spread(
            args.passages_prompt_token_mean,
            128.0,
            args.passages_prompt_token_stddev,
        ),
        query_tokens: spread(args.query_prompt_token_mean, 32.0, args.query_prompt_token_stddev),
        corpus,
    })
}
