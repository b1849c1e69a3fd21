//! `aiperf referee`.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use referee::{HAZARDS, Hazard};

/// What `aiperf referee` is asked for.
#[derive(Debug, Clone, PartialEq, Args)]
pub struct Referee {
    /// Hazard to run; can be repeated [default: all]
    #[arg(long, value_name = "NAME", num_args = 1.., value_delimiter = ',', hide_possible_values = true)]
    pub(crate) hazard: Vec<HazardName>,
    /// Client to run: a name, a description (FILE.toml), or `all` that are installed; can be repeated
    ///
    /// With COMMAND, the description that says where its figures are. By default it is found by the
    /// name of the program.
    #[arg(long, value_name = "CLIENT", num_args = 1.., value_delimiter = ',')]
    pub(crate) client: Vec<String>,
    /// Run this program itself
    #[arg(long = "self", conflicts_with_all = ["client", "command"])]
    pub(crate) itself: bool,
    /// Number of times that a run is repeated if a figure is not right; the best run counts
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    pub(crate) repeats: usize,
    /// Directory for the table as referee.md, referee.json and referee.html
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// List the hazards and the clients
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,
    /// Command of a client with placeholders, such as vllm bench serve --base-url {url}
    ///
    /// They are replaced by the values of the mock server and the load: {url}, {port}, {model},
    /// {tokenizer}, {directory} (an empty one for its files), {concurrency} or {rate}, {requests},
    /// {seconds}, {isl}, {osl}, {prompt}, {body} (of a request), {extra_body} and {ca} (a certificate).
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

/// A hazard by its name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HazardName(pub(crate) &'static Hazard);

impl ValueEnum for HazardName {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: std::sync::LazyLock<Vec<HazardName>> =
            std::sync::LazyLock::new(|| HAZARDS.iter().map(HazardName).collect());
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name).help(self.0.says))
    }
}
