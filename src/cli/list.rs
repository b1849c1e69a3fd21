//! The arguments of `aiperf list` and `aiperf show`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use results::report::PageFile;
use results::run::ClientTables;

use super::page::page_file;
use super::plugins::PluginsArgs;
use super::value::choice;

/// What to list.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ListArgs {
    #[command(subcommand)]
    pub(super) what: Option<Listed>,
    #[command(flatten)]
    pub(super) runs: List,
}

/// What can be listed.
#[derive(Debug, Subcommand)]
pub(super) enum Listed {
    /// The runs in a directory, with their most important results
    Runs(List),
    /// Every metric that aiperf computes
    Metrics {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// The scenarios of others that aiperf can perform: what each sets, requires and forbids
    Scenarios,
    /// What is built in, by category: endpoints, dataset formats, arrival patterns and others
    Plugins(PluginsArgs),
}

/// Which runs to list.
#[derive(Debug, Args)]
pub struct List {
    /// Directory that contains artifact directories
    #[arg(value_name = "DIR", default_value = "artifacts")]
    pub(crate) directory: PathBuf,
    /// Also write a page that lists the runs, with links to their pages [default file: index.html in
    /// DIR]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "",
          value_parser = page_file)]
    pub(crate) html: Option<PageFile>,
}

/// Which run to show.
#[derive(Debug, Args)]
pub struct Show {
    /// Artifact directory, or the name of one in --artifact-dir, or the name or the beginning of the
    /// benchmark ID of a run there [default: the newest run]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,
    /// Directory that contains artifact directories
    #[arg(
        long,
        visible_alias = "output-artifact-dir",
        value_name = "DIR",
        default_value = "artifacts"
    )]
    pub(crate) artifact_dir: PathBuf,
    /// Tables of the client's metrics to print: a summary, or also one for each group of metrics
    /// [default: those that the run printed]
    #[arg(long, value_name = "TABLES", value_parser = choice::<ClientTables>())]
    pub(crate) tables: Option<ClientTables>,
}
