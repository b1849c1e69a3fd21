//! `aiperf list plugins`: what is built in, by category.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Map, Value};

use base::setting::Named;
use client::endpoint::EndpointType;
use dataset::{
    AudioFormat, Corpus, FileFormat, ImageFormat, ModelSelection, PUBLIC, Sampling, Scene,
    VideoFormat,
};
use measure::multi_run::recipe::Recipe;
use results::artifacts::ExportLevel;

use super::CliError;
use super::load_args::Pattern;
use super::server_metrics::Format as ServerMetricsFormat;
use crate::config::{ConnectionReuse, Ui};

/// The category to list.
#[derive(Debug, Args)]
pub(super) struct PluginsArgs {
    /// Category to list, or "list" for all of them [default: list]
    #[arg(value_name = "CATEGORY")]
    category: Option<String>,
    /// Print JSON instead of a list
    #[arg(long)]
    json: bool,
}

/// Returns the names of a setting's values, each value once.
fn names<T: Named>() -> Vec<&'static str> {
    let mut names: Vec<&str> = T::NAMES.iter().map(|(_, value)| value.name()).collect();
    names.dedup();
    names
}

/// Each category, the flag or command that selects from it, and its members.
fn categories() -> [(&'static str, &'static str, Vec<&'static str>); 16] {
    [
        ("endpoint", "--endpoint-type", names::<EndpointType>()),
        ("dataset_loader", "--custom-dataset-type", names::<FileFormat>()),
        ("public_dataset", "--public-dataset", PUBLIC.iter().map(|it| it.name).collect()),
        ("dataset_sampler", "--dataset-sampling-strategy", names::<Sampling>()),
        ("prompt_corpus", "--prompt-corpus", names::<Corpus>()),
        ("model_selection", "--model-selection-strategy", names::<ModelSelection>()),
        ("arrival_pattern", "--arrival-pattern", names::<Pattern>()),
        ("connection_reuse", "--connection-reuse-strategy", names::<ConnectionReuse>()),
        ("image_format", "--image-format", names::<ImageFormat>()),
        ("audio_format", "--audio-format", names::<AudioFormat>()),
        ("video_format", "--video-format", names::<VideoFormat>()),
        ("video_synth", "--video-synth-type", names::<Scene>()),
        ("export_level", "--export-level", names::<ExportLevel>()),
        ("server_metrics_format", "--server-metrics-formats", names::<ServerMetricsFormat>()),
        ("search_recipe", "--search-recipe", names::<Recipe>()),
        ("ui", "--ui", names::<Ui>()),
    ]
}

impl PluginsArgs {
    /// The list of the category, or of all.
    ///
    /// # Errors
    /// If there is no such category.
    pub(super) fn listing(&self) -> Result<String, CliError> {
        let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
        let wanted = self.category.as_deref().map(plain).filter(|name| name != "list");
        let all = categories();
        let listed: Vec<_> = all
            .iter()
            .filter(|(name, ..)| wanted.as_deref().is_none_or(|it| it == *name))
            .collect();
        if listed.is_empty() {
            let names: Vec<&str> = all.iter().map(|(name, ..)| *name).collect();
            let given = self.category.as_deref().unwrap_or_default();
            let why =
                format!("error: {given:?} is not a category; expected one of {}", names.join(", "));
            return Err(CliError::Usage(why));
        }
        if self.json {
            let object: Map<String, Value> = listed
                .iter()
                .map(|(name, _, members)| ((*name).to_owned(), members.clone().into()))
                .collect();
            return Ok(format!("{:#}\n", Value::Object(object)));
        }
        let mut text = String::new();
        for (name, flag, members) in listed {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} ({flag})");
            for member in members {
                let _ = writeln!(text, "  {member}");
            }
        }
        Ok(text)
    }
}
