//! What every conversation gets, wherever it came from: identifier, models,
//! requested lengths, token counts.

use std::sync::Arc;

use rand::RngExt;

use super::{Config, Conversation, DatasetError, ModelSelection, Seed, Spread, Turn, payload};
use crate::tokenizer::TokenCounter;
use crate::units::Nanos;

/// Takes away counts of an input that is no text to the endpoint.
pub(super) fn forget_tokens(conversations: &mut [Conversation]) {
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.input_tokens = None;
    }
}

/// Gives an identifier to each conversation whose file named none.
pub(super) fn fill_ids(conversations: &mut [Conversation], seed: Seed) {
    for (index, conversation) in (0..).zip(conversations) {
        if conversation.id.is_empty() {
            conversation.id = seed.uuid("dataset.conversation", index).to_string().into();
        }
    }
}

/// Gives one of the configured models to each turn that names none.
pub(super) fn assign_models(
    conversations: &mut [Conversation],
    config: &Config,
    seed: Seed,
) -> Result<(), DatasetError> {
    let models: Vec<Arc<str>> = config.models.iter().map(|name| name.as_str().into()).collect();
    if models.is_empty() {
        let reason = "at least one model is needed".to_owned();
        return Err(DatasetError::Setting { flag: "--model", reason });
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
    Ok(())
}

/// Draws the requested output length of each turn that has none; payloads that
/// are sent as they are keep theirs.
pub(super) fn fill_output_tokens(
    conversations: &mut [Conversation],
    output_tokens: Option<Spread>,
    seed: Seed,
) -> Result<(), DatasetError> {
    let Some(spread) = output_tokens else { return Ok(()) };
    spread.check("--osl")?;
    let mut rng = seed.stream("dataset.output_tokens");
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        if turn.max_tokens.is_none() && turn.raw_payload.is_none() {
            turn.max_tokens = Some(spread.draw_count(&mut rng));
        }
    }
    Ok(())
}

/// Multiplies every delay by `ratio`.
pub(super) fn scale_delays(
    conversations: &mut [Conversation],
    ratio: f64,
) -> Result<(), DatasetError> {
    if !ratio.is_finite() || ratio < 0.0 {
        let reason = "it must be a number of zero or more".to_owned();
        return Err(DatasetError::Setting { flag: "--session-delay-ratio", reason });
    }
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.delay = Nanos((turn.delay.0 as f64 * ratio).round() as u64);
    }
    Ok(())
}

/// Counts the tokens of every text whose number is not known. Roles and the chat
/// template's own tokens are not in these counts.
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

/// Tokens of the turn itself; `None` where what it sends has no text.
fn own_tokens(turn: &Turn, counter: &TokenCounter) -> Option<u64> {
    match (&turn.raw_payload, &turn.messages) {
        (Some(body), _) => payload::count_tokens(body, counter),
        (None, Some(messages)) => payload::count_messages(messages, counter),
        (None, None) => Some(turn.texts.iter().map(|text| counter.count(&text.to_string())).sum()),
    }
}
