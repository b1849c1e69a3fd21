//! The settings of a run that advice depends on.

use serde_json::Value;

use base::redact::printable;

use crate::run::{RunDescription, RunReport};

/// The settings of a run that advice depends on.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// Whether requests ask not to end at the end token.
    pub(super) ignores_eos: bool,
    /// Whether requests have a minimum of output tokens.
    pub(super) has_min_tokens: bool,
    /// Whether prompts are counted with the model's chat template.
    pub(super) applies_chat_template: bool,
    /// Whether the server's token counts are used.
    pub(super) uses_server_count: bool,
    /// Whether the number of requests in flight is limited.
    pub(super) has_concurrency: bool,
    /// Whether the run waits for the model.
    pub(super) waits_for_model: bool,
    /// Whether the server's prefix cache is reset before the run.
    pub(super) resets_cache: bool,
    /// The tokenizer, unless it is the builtin one.
    pub(super) tokenizer: Option<String>,
}

impl Given {
    /// Returns the settings of a run.
    #[must_use]
    pub(super) fn from_report(report: &RunReport) -> Self {
        let RunDescription { setup, settings, provenance, .. } = &report.run;
        let is_set = |name: &str| {
            setup.extra_inputs.get(name).is_some_and(|value| *value != Value::Bool(false))
        };
        let tokenizer = provenance.tokenizer.as_ref().map(|tokenizer| tokenizer.name.as_str());
        Self {
            ignores_eos: is_set("ignore_eos"),
            has_min_tokens: is_set("min_tokens"),
            applies_chat_template: report.run.config.pointer("/apply_chat_template")
                == Some(&Value::Bool(true)),
            uses_server_count: settings.use_server_token_count,
            has_concurrency: report.outcome.load.requested_concurrency.is_some(),
            waits_for_model: setup.waits_for_model,
            resets_cache: report
                .run
                .config
                .pointer("/server/control/reset_kv_cache")
                .is_some_and(|reset| !reset.is_null()),
            tokenizer: tokenizer.filter(|name| *name != "builtin").map(printable),
        }
    }
}
