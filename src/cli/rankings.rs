//! The flags for generated rankings.

use clap::Args;

use super::profile::{ProfileArgs, PromptArgs};
use super::value::{number, positive_number};
use crate::config::ConfigError;
use crate::dataset::{NormalDistribution, Rankings};

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

impl RankingsArgs {
    fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--rankings-passages-mean", self.passages_mean),
            ("--rankings-passages-stddev", self.passages_stddev),
            ("--rankings-passages-prompt-token-mean", self.passages_prompt_token_mean),
            ("--rankings-passages-prompt-token-stddev", self.passages_prompt_token_stddev),
            ("--rankings-query-prompt-token-mean", self.query_prompt_token_mean),
            ("--rankings-query-prompt-token-stddev", self.query_prompt_token_stddev),
        ];
        flags.into_iter().find(|(_, value)| value.is_some()).map(|(flag, _)| flag)
    }
}

/// Returns an error for a rankings flag when no rankings are generated.
pub(super) fn refuse_flags(flags: &ProfileArgs) -> Result<(), ConfigError> {
    match flags.rankings.given() {
        Some(flag) => {
            let why = "requires generated rankings; remove the flag, or use an --endpoint-type \
                       for rankings without --input-file";
            Err(ConfigError::flag(flag, why))
        }
        None => Ok(()),
    }
}

/// The rankings to generate.
pub(super) fn generated(flags: &ProfileArgs, entries: usize) -> Result<Rankings, ConfigError> {
    let of_media = || flags.media.given().into_iter().find(|(_, is_given)| *is_given);
    if let Some(flag) = prompt_flag(&flags.prompt).or_else(|| of_media().map(|(flag, _)| flag)) {
        let why = "a generated ranking request has a query and passages instead of a prompt; use \
                   the --rankings-* flags";
        return Err(ConfigError::flag(flag, why));
    }
    if flags.conversation.session_turns_mean.is_some_and(|turns| turns != 1.0)
        || flags.conversation.session_turns_stddev.is_some_and(|turns| turns > 0.0)
    {
        let why = "a ranking request has only one turn; remove the flag";
        return Err(ConfigError::flag("--session-turns-mean", why));
    }
    let spread = |mean: Option<f64>, default, stddev: Option<f64>| NormalDistribution {
        mean: mean.unwrap_or(default),
        stddev: stddev.unwrap_or(0.0),
    };
    let args = &flags.rankings;
    Ok(Rankings {
        entries,
        passages: spread(args.passages_mean, 10.0, args.passages_stddev),
        passage_tokens: spread(
            args.passages_prompt_token_mean,
            128.0,
            args.passages_prompt_token_stddev,
        ),
        query_tokens: spread(args.query_prompt_token_mean, 32.0, args.query_prompt_token_stddev),
    })
}

/// The first flag for prompts that is given.
fn prompt_flag(prompt: &PromptArgs) -> Option<&'static str> {
    let given = [
        ("--isl", prompt.isl.is_some()),
        ("--isl-stddev", prompt.isl_stddev.is_some()),
        ("--seq-dist", prompt.seq_dist.is_some()),
        ("--osl", prompt.osl.is_some()),
        ("--batch-size", prompt.batch_size.is_some()),
        ("--system-prompt", prompt.system_prompt.is_some()),
        ("--system-prompt-file", prompt.system_prompt_file.is_some()),
        ("--num-prefix-prompts", prompt.num_prefix_prompts.is_some()),
        ("--prefix-prompt-length", prompt.prefix_prompt_length.is_some()),
        ("--shared-system-prompt-length", prompt.shared_system_prompt_length.is_some()),
        ("--user-context-prompt-length", prompt.user_context_prompt_length.is_some()),
    ];
    given.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
}
