//! The flags of `aiperf report`.

use std::path::PathBuf;

use clap::Args;

use base::statistics::Percent;
use measure::judge;
use results::report::PageFile;
use results::report::plot::AutoPlot;
use results::run::ClientTables;

use super::gates::GateArgs;
use super::mlflow::MlflowArgs;
use super::page::PageArgs;
use super::resolve;
use super::value::{choice, percentile};
use crate::config::{ConfigError, Environment};

/// What to recompute, and where to write it.
#[derive(Debug)]
pub struct Report {
    /// Directory of one run, of several runs, or of each shard of a run.
    pub directories: Vec<PathBuf>,
    /// Output directory for the combined run.
    pub artifact_dir: Option<PathBuf>,
    /// Whether to move another run's files in that directory aside.
    pub overwrite: bool,
    /// The limits that the results must keep; if none are given, those of the run.
    pub judge: judge::Config,
    /// Percentiles to compute besides those of the run.
    pub percentiles: Vec<Percent>,
    /// The page to write, if any.
    pub page: Option<PageFile>,
    /// Whether charts are drawn.
    pub auto_plot: AutoPlot,
    /// The tables to print; those of the run if not given.
    pub tables: Option<ClientTables>,
    /// Whether each file is listed.
    pub files: bool,
    /// The MLflow server to send the run to, if any.
    pub mlflow: Option<Box<results::mlflow::Config>>,
}

/// The flags of `aiperf report`.
#[derive(Args)]
pub(super) struct ReportArgs {
    /// Artifact directory of a run, or of several runs of one command; several directories are
    /// taken as the shards of one run (--shard) and combined
    #[arg(value_name = "DIR", required = true)]
    directories: Vec<PathBuf>,
    /// Directory for the combined files [default: "combined", next to the shards]
    #[arg(long, visible_alias = "output-artifact-dir", value_name = "DIR")]
    artifact_dir: Option<PathBuf>,
    /// Replace summaries that cover more requests than there are records of, and move another
    /// run's files in the directory of combined shards aside, instead of failing
    #[arg(long)]
    overwrite: bool,
    /// Tables of the client's metrics to print: a summary, or also one for each group of
    /// metrics [default: those that the run printed]
    #[arg(long, value_name = "TABLES", value_parser = choice::<ClientTables>())]
    tables: Option<ClientTables>,
    /// Percentiles to add to the files and the tables, such as 99.9
    #[arg(long, value_name = "PERCENT", value_parser = percentile, num_args = 1..)]
    percentiles: Vec<Percent>,
    /// List every file that was written, with its size, instead of only the directory
    #[arg(long)]
    files: bool,
    #[command(flatten)]
    page: PageArgs,
    /// Draw charts of the results, as `aiperf plot` does, in the subdirectory plots
    #[arg(long)]
    auto_plot: bool,
    /// Fail if the charts cannot be drawn, instead of printing a warning
    #[arg(long, requires = "auto_plot")]
    plot_required: bool,
    #[command(flatten)]
    mlflow: Box<MlflowArgs>,
    #[command(flatten)]
    gates: GateArgs,
}

impl ReportArgs {
    /// Returns what to recompute.
    pub(super) fn resolve(self, environment: Environment<'_>) -> Result<Report, ConfigError> {
        Ok(Report {
            directories: self.directories,
            artifact_dir: self.artifact_dir,
            overwrite: self.overwrite,
            judge: self.gates.config(),
            percentiles: resolve::percentiles(&self.percentiles)?,
            page: self.page.html,
            auto_plot: AutoPlot::new(self.auto_plot, self.plot_required),
            tables: self.tables,
            files: self.files,
            mlflow: self.mlflow.config(environment)?.map(Box::new),
        })
    }
}
