//! The templates of `aiperf config init`: configurations with AIPerf's schema and AIPerf's names.

use std::fmt::Write as _;

use base::setting::similar;

use crate::cli::CliError;

/// A configuration to start with.
pub(super) struct Template {
    pub(super) name: &'static str,
    category: &'static str,
    difficulty: &'static str,
    tags: &'static str,
    pub(super) text: &'static str,
}

macro_rules! templates {
    ($($category:literal { $($name:literal $difficulty:ident $tags:literal)+ })+) => {
        &[$($(Template {
            name: $name,
            category: $category,
            difficulty: stringify!($difficulty),
            tags: $tags,
            text: include_str!(concat!("templates/", $name, ".yaml")),
        },)+)+]
    };
}

/// All templates, by category.
pub(super) const ALL: &[Template] = templates! {
    "Getting Started" {
        "minimal" beginner "quick-start, simple"
        "warmup_profiling" beginner "warmup, two-phase, best-practice"
    }
    "Load Testing" {
        "latency_test" beginner "latency, poisson, ttft, itl"
        "goodput_slo" intermediate "goodput, slo, latency"
        "ramping" intermediate "ramp, concurrency, rate, capacity, stress"
        "time_based_soak" intermediate "soak, stability, duration, sla, drift"
        "multi_url_load_balancing" intermediate "load-balancing, multi-url, scaling"
        "fixed_schedule" advanced "mooncake, regression, deterministic, timing"
        "request_cancellation" advanced "cancellation, resilience"
    }
    "Datasets" {
        "inline_dataset" beginner "inline, dataset"
        "public_dataset" beginner "sharegpt, public, real-data"
        "multi_turn_conversation" intermediate "multi-turn, conversation, chatbot"
        "trace_replay" advanced "trace, replay, production, mooncake"
    }
    "Sweep & Multi-Run" {
        "sweep_distributions" intermediate "sweep, grid, multi-run, statistics"
        "sweep_with_plot" intermediate "sweep, grid, plot, pareto, multi-run, auto-plot"
        "scenario_workload_profiles" intermediate "sweep, scenario, workload"
        "speed_bench_sweep" intermediate "sweep, grid, speed-bench, speculative-decoding"
    }
    "Advanced" {
        "env_var_production" intermediate "env-vars, ci-cd, production"
        "jinja2_variables" intermediate "jinja2, variables, templating"
        "gpu_telemetry" intermediate "gpu, telemetry, dcgm, power, utilization"
        "long_context" intermediate "long-context, prefill, memory"
        "kv_cache_test" advanced "kv-cache, prefix, user-centric"
        "http_trace_metrics" advanced "http, trace, debugging, ttfb, network"
    }
    "Multimodal" {
        "audio_multimodal" intermediate "audio, speech, multimodal"
        "multimodal_vision" intermediate "vision, multimodal, images"
    }
    "Specialized Endpoints" {
        "embeddings" beginner "embeddings, search, retrieval"
    }
};

impl Template {
    /// Returns the first line, which describes the template.
    fn says(&self) -> &'static str {
        let line = self.text.lines().next().unwrap_or_default();
        line.trim_start_matches("# ")
    }

    /// Returns whether it has `word`, in lower case, in what is listed.
    fn has(&self, word: &str) -> bool {
        let texts = [self.name, self.category, self.tags, self.says()];
        texts.iter().any(|text| text.to_lowercase().contains(word))
    }

    /// Returns the configuration with another model and another server, if they are given.
    pub(super) fn filled(&self, model: Option<&str>, url: Option<&str>) -> String {
        let mut text = String::with_capacity(self.text.len());
        for line in self.text.lines() {
            let key = line.trim_start().split(':').next().unwrap_or_default();
            let indent = &line[..line.len() - line.trim_start().len()];
            let value = match (key, model, url) {
                ("model", Some(model), _) => Some(serde_json::Value::from(model)),
                ("url", _, Some(url)) => Some(serde_json::Value::from(url)),
                ("urls", _, Some(url)) => Some(serde_json::Value::from(vec![url])),
                _ => None,
            };
            // Writing to a string does not fail.
            let _ = match value {
                Some(value) => writeln!(text, "{indent}{key}: {value}"),
                None => writeln!(text, "{line}"),
            };
        }
        text
    }
}

/// Returns the template with a name.
pub(super) fn named(name: &str) -> Result<&'static Template, CliError> {
    let wanted = name.trim().replace('-', "_").to_lowercase();
    ALL.iter().find(|template| template.name == wanted).ok_or_else(|| {
        let hint = match similar(&wanted, ALL.iter().map(|it| it.name)).first() {
            Some(other) => format!("did you mean {other}?"),
            None => "`aiperf config init --list` lists the templates".to_owned(),
        };
        CliError::Usage(format!("error: {name:?} is not a template; {hint}"))
    })
}

/// Returns the list of the templates with a word and of a category, if these are given.
pub(super) fn list(
    word: Option<&str>,
    category: Option<&str>,
    verbose: bool,
) -> Result<String, CliError> {
    let lower = |text: Option<&str>| text.unwrap_or_default().trim().to_lowercase();
    let (word, of_category) = (lower(word), lower(category));
    let is_listed =
        |it: &&Template| it.has(&word) && it.category.to_lowercase().contains(&of_category);
    let listed: Vec<&Template> = ALL.iter().filter(is_listed).collect();
    let width = listed.iter().map(|it| it.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut category = "";
    for template in &listed {
        let Template { name, tags, difficulty, .. } = template;
        if template.category != category {
            let gap = if text.is_empty() { "" } else { "\n" };
            category = template.category;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{gap}{category}:");
        }
        let _ = writeln!(text, "  {name:width$}  {}", template.says());
        if verbose {
            let _ = writeln!(text, "  {:width$}  {difficulty}: {tags}", "");
        }
    }
    if listed.is_empty() {
        let categories: Vec<&str> =
            ALL.chunk_by(|a, b| a.category == b.category).map(|of| of[0].category).collect();
        return Err(CliError::Usage(format!(
            "error: no template matches; `aiperf config init --list` lists all, of the categories {}",
            categories.join(", ")
        )));
    }
    text.push_str("\n`aiperf config init --template NAME` prints one.\n");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn each_file_is_a_template_with_a_description() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli/config_file/templates");
        let names = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name());
        let mut files: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        files.sort_unstable();
        let mut listed: Vec<String> = ALL.iter().map(|it| format!("{}.yaml", it.name)).collect();
        listed.sort_unstable();
        assert_eq!(files, listed);
        for template in ALL {
            assert!(
                template.text.starts_with("# ") && template.says().len() > 10,
                "{}",
                template.name
            );
        }
    }

    #[test]
    fn a_model_and_a_server_replace_those_of_the_template() {
        let several =
            named("multi-url-load-balancing").unwrap().filled(Some("m: x"), Some("http://h"));
        assert!(several.contains("  model: \"m: x\"\n"), "{several}");
        assert!(several.contains("    urls: [\"http://h\"]\n"), "{several}");
        let minimal = named("minimal").unwrap();
        assert_eq!(minimal.filled(None, None), minimal.text);
    }
}
