//! What `aiperf profile -h` shows: the flags that most runs need, and examples.

use clap::Command;

/// The flags, by their long names; `--help` lists all.
const FLAGS: &[&str] = &[
    "config",
    "model",
    "url",
    "endpoint-type",
    "streaming",
    "api-key",
    "concurrency",
    "request-rate",
    "request-count",
    "benchmark-duration",
    "warmup-request-count",
    "isl",
    "osl",
    "input-file",
    "public-dataset",
    "random-seed",
    "tokenizer",
    "goodput",
    "gate",
    "artifact-dir",
    "html",
    "tables",
    "server-metrics",
    "otel-url",
    "ui",
    "num-profile-runs",
];

const EXAMPLES: &str = "\
Examples:
  Keep 32 requests in flight until 1000 are done:
    aiperf profile -m my-model -u localhost:8000 --streaming --concurrency 32 --request-count 1000
  Send 20 requests per second for a minute, of 550 input and 256 output tokens:
    aiperf profile -m my-model -u localhost:8000 --streaming --request-rate 20 \\
      --benchmark-duration 60 --isl 550 --osl 256
  Compare four loads on an HTML page:
    aiperf profile -m my-model -u localhost:8000 --streaming --concurrency 1,2,4,8 --html";

/// Limits the short help of `aiperf profile` to [`FLAGS`].
pub(super) fn limit(profile: Command) -> Command {
    let long = format!(
        "{EXAMPLES}\n\n`aiperf profile -h` lists only the most important flags, and `--help \
                        WORD` those with a word in their name or text."
    );
    let short = format!(
        "{EXAMPLES}\n\nThese are the most important flags; `--help` lists all, and `--help WORD` those with a \
         word in their name or text."
    );
    let limited = profile.mut_args(|flag| {
        let is_shown = flag.get_long().is_some_and(|name| FLAGS.contains(&name));
        flag.hide_short_help(!is_shown)
    });
    limited.after_help(short).after_long_help(long)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_the_short_help_exists() {
        let command = crate::cli::command();
        let profile = command.find_subcommand("profile").unwrap();
        let names: Vec<&str> = profile.get_arguments().filter_map(|flag| flag.get_long()).collect();
        for &flag in FLAGS {
            assert!(names.contains(&flag), "{flag}");
        }
    }
}
