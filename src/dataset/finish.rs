//! Common last steps for conversations from any source: identifiers, models, requested lengths and
//! token counts.

use std::collections::HashSet;
use std::sync::Arc;

use rand::RngExt;

use super::{Config, Conversation, ModelSelection, NormalDistribution, Seed, Turn, payload};
use crate::tokenizer::TokenCounter;
use crate::units::Nanos;

/// Removes token counts if the input of the endpoint is not text.
pub(super) fn forget_tokens(conversations: &mut [Conversation]) {
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.input_tokens = None;
    }
}

/// Returns a generated identifier for the conversation at `index`. Runs of the same dataset can be
/// joined by it.
#[must_use]
pub(crate) fn conversation_id(index: usize) -> String {
    format!("session_{index:06}")
}

/// Gives a unique identifier to each conversation without one in the file.
pub(super) fn fill_ids(conversations: &mut [Conversation]) {
    let named: HashSet<Arc<str>> = conversations.iter().map(|c| Arc::clone(&c.id)).collect();
    for (index, conversation) in conversations.iter_mut().enumerate() {
        if conversation.id.is_empty() {
            let mut id = conversation_id(index);
            while named.contains(id.as_str()) {
                id.push('_');
            }
            conversation.id = id.into();
        }
    }
}

/// Assigns one of the configured models to each turn without one.
pub(super) fn assign_models(conversations: &mut [Conversation], config: &Config, seed: Seed) {
    let models: Vec<Arc<str>> = config.models.iter().map(|name| name.as_str().into()).collect();
    if models.is_empty() {
        return;
    }
    let mut rng = seed.stream("dataset.model");
    let mut next = 0;
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        if turn.model.is_empty() {
            let chosen = match config.model_selection {
                ModelSelection::RoundRobin => next % models.len(),
                ModelSelection::Random => rng.random_range(0..models.len()),
            };
            turn.model = Arc::clone(&models[chosen]);
            next += 1;
        }
    }
}

/// Draws the requested output length of each turn without one, except for payloads that are sent
/// unchanged.
pub(super) fn fill_output_tokens(
    conversations: &mut [Conversation],
    output_tokens: Option<NormalDistribution>,
    seed: Seed,
) {
    let Some(spread) = output_tokens else { return };
    let mut rng = seed.stream("dataset.output_tokens");
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        if turn.max_tokens.is_none() && turn.raw_payload.is_none() {
            turn.max_tokens = Some(spread.draw_count(&mut rng));
        }
    }
}

/// Multiplies every delay by `ratio`.
pub(super) fn scale_delays(conversations: &mut [Conversation], ratio: f64) {
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.delay = Nanos((turn.delay.0 as f64 * ratio).round() as u64);
    }
}

/// Counts the tokens of every text whose count is unknown. Roles and the tokens of the chat
/// template are not included.
pub(super) fn count_tokens(conversations: &mut [Conversation], counter: &TokenCounter) {
    // All conversations may share one system prompt.
    let mut shared: Option<(Arc<str>, u64)> = None;
    for conversation in conversations {
        let system = conversation.system.as_ref().map_or(0, |system| match &shared {
            Some((text, tokens)) if Arc::ptr_eq(text, system) => *tokens,
            _ => {
                let tokens = counter.count(system);
                shared = Some((Arc::clone(system), tokens));
                tokens
            }
        });
        let context = conversation.user_context.as_ref().map_or(0, |text| counter.count(text));
        conversation.context_tokens = Some(system + context);
        for turn in &mut conversation.turns {
            if turn.input_tokens.is_none() {
                turn.input_tokens = own_tokens(turn, counter);
            }
        }
    }
}

/// Returns the tokens of the turn itself; `None` without text.
fn own_tokens(turn: &Turn, counter: &TokenCounter) -> Option<u64> {
    match (&turn.raw_payload, &turn.messages) {
        (Some(body), _) => payload::count_tokens(body, counter),
        (None, Some(messages)) => payload::count_messages(messages, turn.tools.as_deref(), counter),
        (None, None) => Some(turn.texts.iter().map(|text| counter.count(&text.to_string())).sum()),
    }
}
