//! Flags for datasets from the Hugging Face hub.

use clap::Args;

use dataset::{HubDataset, Public, TraceSettings};

use super::given::Given;
use crate::config::ConfigError;

/// Datasets from the Hugging Face hub.
#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(super) struct HubArgs {
    /// Public dataset to download; `aiperf dataset list` lists them
    #[arg(long, value_name = "NAME", value_parser = public, groups = ["hub_dataset", "recorded"],
          conflicts_with = "input_file")]
    public_dataset: Option<&'static Public>,
    /// Dataset on the Hugging Face Hub to download, with prompts, messages or instructions:
    /// ORG/NAME, or ORG/NAME@REVISION for a branch, tag or commit
    #[arg(long, value_name = "DATASET", group = "hub_dataset", conflicts_with = "input_file")]
    hf_dataset: Option<String>,
    /// Repository of the Hugging Face Hub with traces of agents in the format weka-trace: ORG/NAME,
    /// or ORG/NAME@REVISION
    #[arg(long, value_name = "DATASET", groups = ["hub_dataset", "recorded"], conflicts_with = "input_file")]
    hf_weka_dataset: Option<String>,
    /// Subset (configuration) of the dataset [default: that of --public-dataset, or else the only
    /// one, or else the one named default]
    #[arg(long, value_name = "NAME", requires = "hub_dataset")]
    hf_subset: Option<String>,
    /// Split of the dataset [default: that of --public-dataset, or else train, validation, test or
    /// dev]
    #[arg(long, value_name = "NAME", requires = "hub_dataset")]
    hf_split: Option<String>,
    /// Column with the prompts [default: that of --public-dataset, or else found by its name]
    #[arg(long, value_name = "NAME", requires = "hub_dataset")]
    hf_column: Option<String>,
    /// Columns, and the values that the rows to use have in them
    #[arg(long, value_name = "COLUMN=VALUE", num_args = 1.., value_parser = filter,
          requires = "hub_dataset")]
    dataset_filter: Vec<(String, String)>,
}

/// A dataset of traces on the hub.
pub(super) struct HubTraces<'a> {
    /// The name of the dataset, or of its format.
    pub(super) loader: &'static str,
    pub(super) repository: &'a str,
    pub(super) subset: Option<&'a str>,
    pub(super) split: Option<&'a str>,
}

impl HubArgs {
    /// The dataset of traces, if one is named.
    pub(super) fn traces(&self) -> Option<HubTraces<'_>> {
        let (loader, repository) = match (self.public_dataset, &self.hf_weka_dataset) {
            (Some(public), _) => (public.name, public.repository),
            (None, named) => ("weka_hf", named.as_ref()?.split('@').next()?),
        };
        let (subset, split) = (self.hf_subset.as_deref(), self.hf_split.as_deref());
        Some(HubTraces { loader, repository, subset, split })
    }
}

/// Returns the dataset that `hub` names, if it names one, with at most `entries` conversations.
pub(super) fn dataset(
    hub: &HubArgs,
    traces: TraceSettings,
    entries: Option<u64>,
    given: Given<'_>,
) -> Result<Option<HubDataset>, ConfigError> {
    let named = hub.hf_dataset.as_ref().or(hub.hf_weka_dataset.as_ref());
    let (repository, revision) = match (&hub.public_dataset, named) {
        (Some(public), _) => (public.repository, public.revision.map(str::to_owned)),
        (None, Some(name)) => match name.split_once('@') {
            Some((name, revision)) => (name, Some(revision.to_owned())),
            None => (name.as_str(), None),
        },
        (None, None) => return Ok(None),
    };
    let public = hub.public_dataset;
    let has_agents = hub.hf_weka_dataset.is_some() || public.is_some_and(Public::has_agents);
    let groups = ["conversations", "text", "batch", "MediaArgs", "VideoArgs", "RankingsArgs"];
    let why = "applies to generated prompts and cannot be combined with --public-dataset or \
               --hf-dataset; remove one of the two";
    given.refuse(&groups, why)?;
    let owned = |name: Option<&str>| name.map(str::to_owned);
    Ok(Some(HubDataset {
        public,
        repository: repository.to_owned(),
        revision,
        subset: hub.hf_subset.clone().or_else(|| owned(public?.subset())),
        split: hub.hf_split.clone().or_else(|| owned(public?.split())),
        column: hub.hf_column.clone(),
        has_agents,
        traces,
        filters: hub.dataset_filter.clone(),
        entries: entries.map(|n| n as usize),
    }))
}

fn public(text: &str) -> Result<&'static Public, String> {
    Public::named(text).ok_or_else(|| {
        if text.to_ascii_lowercase().starts_with("weka") {
            return "give the repository with --hf-weka-dataset instead".to_owned();
        }
        "not a public dataset that aiperf knows; `aiperf dataset list` lists them, and --hf-dataset \
         reads others"
            .to_owned()
    })
}

fn filter(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((column, value)) if !column.is_empty() => Ok((column.to_owned(), value.to_owned())),
        _ => Err("expected COLUMN=VALUE".to_owned()),
    }
}
