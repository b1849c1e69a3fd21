//! The server's own counts beside the client's.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What the client counted over the whole run, warmup included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientCounts {
    /// Requests that succeeded.
    pub succeeded: u64,
    /// Requests that failed, cancelled ones apart.
    pub failed: u64,
    /// Requests that the client broke off.
    pub cancelled: u64,
    /// Prompt tokens of the successes by the server's usage; `None` where some had none.
    pub prompt_tokens: Option<u64>,
    /// Completion tokens of the successes by the server's usage; `None` where
    /// some had none.
    pub completion_tokens: Option<u64>,
}

/// What is counted on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Requests that succeeded.
    Requests,
    /// Tokens of their prompts.
    PromptTokens,
    /// Tokens of their completions.
    CompletionTokens,
}

/// One count on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// What is counted.
    pub quantity: Quantity,
    /// The server's metric.
    pub metric: Arc<str>,
    /// By how much it rose over the run, all series and endpoints together.
    pub server: f64,
    /// The client's count.
    pub client: f64,
    /// Whether they agree, as far as the server's way to count is known.
    pub agrees: bool,
}
