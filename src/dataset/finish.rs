//! Common last steps for conversations from any source: identifiers, models, requested lengths and
//! token counts.

use std::collections::HashSet;
use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;

use base::setting::InvalidSetting;
use base::units::Nanos;
use tokens::tokenizer::TokenCounter;

use super::account::{Conversations, LeftOut};
use super::trees::tree;
use super::{
    Config, Conversation, Length, Media, ModelSelection, Prompt, Seed, TraceSettings, Turn, payload,
};

/// Removes token counts if the input of the endpoint is not text.
pub(super) fn forget_tokens(conversations: &mut [Conversation]) {
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        turn.input_tokens = None;
    }
}

/// Returns a generated identifier for the conversation at `index`. Runs of the same dataset can be
/// joined by it.
#[must_use]
pub fn conversation_id(index: usize) -> String {
    format!("session_{index:06}")
}

/// Gives a unique identifier to each conversation without one in the file. The first one has `number`,
/// which becomes that of the next part.
pub(super) fn fill_ids(conversations: &mut [Conversation], number: &mut usize) {
    let named: HashSet<Arc<str>> = conversations.iter().map(|c| Arc::clone(&c.id)).collect();
    for (index, conversation) in conversations.iter_mut().enumerate() {
        if conversation.id.is_empty() {
            let mut id = conversation_id(*number + index);
            while named.contains(id.as_str()) {
                id.push('_');
            }
            conversation.id = id.into();
        }
    }
    *number += conversations.len();
}

/// Sends each image with a UUID only once in a conversation, and only the UUID in later turns. Within
/// a turn nothing is removed, since the server does not cache an image before the request is complete.
///
/// # Errors
///
/// Fails if no image has a UUID, or if later turns repeat the images of earlier ones anyway.
pub(super) fn strip_repeated_images(
    conversations: &mut [Conversation],
) -> Result<(), InvalidSetting> {
    let refuse = |why| Err(InvalidSetting::new("--uuid-and-strip", why));
    let mut has_uuids = false;
    for conversation in conversations {
        let mut sent: HashSet<Arc<str>> = HashSet::new();
        for turn in &mut conversation.turns {
            let mut new = Vec::new();
            for media in &mut turn.media {
                let Some(uuid) = media.uuid.clone() else { continue };
                has_uuids = true;
                if sent.contains(&uuid) {
                    *media = Media::cached_image(&uuid);
                } else if !media.is_cached() {
                    new.push(uuid);
                }
            }
            sent.extend(new);
        }
        if !sent.is_empty() && conversation.turns.len() > 1 && !conversation.standalone_turns {
            return refuse(
                "the requests of a multi_turn file repeat the images of earlier turns; use a \
                 single_turn file, whose lines have a `session_id`",
            );
        }
    }
    if has_uuids {
        return Ok(());
    }
    refuse("no image of the dataset has a UUID; add `image_uuids` to its lines, or remove the flag")
}

/// Assigns one of the configured models to each turn without one, or one of the LoRA adapters to
/// all turns of a conversation. Turns take models in turn from that of number `first` on.
pub(super) fn assign_models(
    conversations: &mut [Conversation],
    config: &Config,
    seed: Seed,
    first: u64,
) {
    let names = config.requested_models();
    let names: Vec<Arc<str>> = names.iter().map(|name| name.as_str().into()).collect();
    if names.is_empty() {
        return;
    }
    if !config.lora_modules.is_empty() {
        return assign_adapters(conversations, &names, seed);
    }
    let mut rng = seed.stream("dataset.model");
    let mut next = (first % names.len() as u64) as usize;
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        if turn.model.is_empty() {
            let chosen = match config.model_selection {
                ModelSelection::RoundRobin => next % names.len(),
                ModelSelection::Random => rng.random_range(0..names.len()),
                ModelSelection::Weighted => weighted(&config.model_weights, rng.random()),
            };
            turn.model = Arc::clone(&names[chosen.min(names.len() - 1)]);
            next += 1;
        }
    }
}

/// Draws an adapter for each conversation. Those that it starts have the same one, since they
/// continue its prompts.
fn assign_adapters(conversations: &mut [Conversation], adapters: &[Arc<str>], seed: Seed) {
    let mut rng = seed.stream("dataset.lora");
    let mut inherited: Vec<Option<usize>> = vec![None; conversations.len()];
    for at in 0..conversations.len() {
        let chosen = inherited[at].unwrap_or_else(|| rng.random_range(0..adapters.len()));
        let conversation = &mut conversations[at];
        for branch in &conversation.branches {
            if let Some(child) = inherited.get_mut(branch.conversation) {
                child.get_or_insert(chosen);
            }
        }
        for turn in conversation.turns.iter_mut().filter(|turn| turn.model.is_empty()) {
            turn.model = Arc::clone(&adapters[chosen]);
        }
    }
}

/// Returns the index that `point`, from 0 to below 1, falls on if each index has a share in
/// proportion to its weight. The weights are not all 0.
fn weighted(weights: &[f64], point: f64) -> usize {
    let point = point * weights.iter().sum::<f64>();
    let mut end = 0.0;
    let falls_on = |weight: &f64| {
        end += weight;
        point < end
    };
    let last = || weights.iter().rposition(|weight| *weight > 0.0);
    weights.iter().position(falls_on).or_else(last).unwrap_or_default()
}

/// Draws the requested output length of each turn without one, except for payloads that are sent
/// unchanged.
pub(super) fn fill_output_tokens(
    conversations: &mut [Conversation],
    output_tokens: Option<&Length>,
    seed: Seed,
) {
    let Some(length) = output_tokens else { return };
    let mut rng = seed.stream("dataset.output_tokens");
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        if turn.max_tokens.is_none() && turn.raw_payload.is_none() {
            turn.max_tokens = Some(length.draw_count(&mut rng));
        }
    }
}

/// Leaves out conversations with a request that is too long, and then draws the share of the others
/// that `traces` asks for, at least one. Which are drawn depends only on the seed and on their
/// number. Conversations are left out together with those that they start.
pub(super) fn select(conversations: &mut Conversations, traces: &TraceSettings, seed: Seed) {
    if let Some(most) = traces.max_context_tokens {
        let is_short = |tree: &[usize]| {
            tree.iter().all(|at| longest_context(&conversations[*at]) <= u64::from(most))
        };
        let roots = super::roots(conversations);
        let kept = (0..roots).filter(|root| is_short(&tree(conversations, *root))).collect();
        keep(conversations, LeftOut::MaxContext, &kept);
    }
    let Some(ratio) = traces.session_sample_ratio.filter(|ratio| *ratio < 1.0) else { return };
    let roots = super::roots(conversations);
    let wanted = ((roots as f64 * ratio).round() as usize).max(1);
    let mut order: Vec<usize> = (0..roots).collect();
    order.shuffle(&mut seed.stream("dataset.session_sample"));
    keep(conversations, LeftOut::NotSampled, &order.into_iter().take(wanted).collect());
}

/// Keeps the `roots` and what they start.
fn keep(conversations: &mut Conversations, why: LeftOut, roots: &HashSet<usize>) {
    let kept: HashSet<usize> = roots.iter().flat_map(|root| tree(conversations, *root)).collect();
    let mut places = vec![0; conversations.len()];
    let mut kept_before = 0;
    for (at, place) in places.iter_mut().enumerate() {
        *place = kept_before;
        kept_before += usize::from(kept.contains(&at));
    }
    conversations.retain(why, |at, _| kept.contains(&at));
    for conversation in conversations.iter_mut() {
        for branch in &mut conversation.branches {
            branch.conversation = places[branch.conversation];
        }
        for before in conversation.turns.iter_mut().flat_map(|turn| &mut turn.predecessors) {
            before.conversation = places[before.conversation];
        }
    }
}

/// Returns the input and output tokens of the longest request, as far as they are known. Responses
/// are assumed to have as many tokens as were requested.
fn longest_context(conversation: &Conversation) -> u64 {
    let mut history = conversation.context_tokens.unwrap_or(0);
    let mut longest = 0;
    for turn in conversation.all_turns() {
        if turn.starts_anew {
            history = conversation.context_tokens.unwrap_or(0);
        }
        let prompt = history + turn.input_tokens.unwrap_or(0);
        let request = prompt + u64::from(turn.max_tokens.unwrap_or(0));
        longest = longest.max(request);
        if !conversation.standalone_turns {
            history = if turn.answer_is_recorded { prompt } else { request };
        }
    }
    longest
}

/// Requests as many output tokens at least as at most.
pub(super) fn force_min_tokens(conversations: &mut [Conversation]) {
    for turn in conversations.iter_mut().flat_map(|conversation| &mut conversation.turns) {
        if let Some(tokens) = turn.max_tokens.filter(|_| turn.raw_payload.is_none()) {
            turn.extra.push(("min_tokens".to_owned(), tokens.into()));
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
/// template are not included. All conversations may share one system prompt: the last one is `shared`,
/// with its tokens.
pub(super) fn count_tokens(
    conversations: &mut [Conversation],
    counter: &TokenCounter,
    shared: &mut Option<(Arc<str>, u64)>,
) {
    for conversation in conversations {
        let system = conversation.system.as_ref().map_or(0, |system| match &*shared {
            Some((text, tokens)) if Arc::ptr_eq(text, system) => *tokens,
            _ => {
                let tokens = counter.count(system);
                *shared = Some((Arc::clone(system), tokens));
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
        (None, None) => {
            let made = turn.prompt.as_ref().map(Prompt::messages).unwrap_or_default();
            let texts = turn.texts.iter().chain(made.iter().map(|message| &message.text));
            Some(texts.map(|text| counter.count(&text.to_string())).sum())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MediaContent;

    fn conversation(turns: &[(u64, u32)], standalone_turns: bool) -> Conversation {
        let turn = |(input, output): &(u64, u32)| Turn {
            input_tokens: Some(*input),
            max_tokens: Some(*output),
            ..Turn::default()
        };
        let turns = turns.iter().map(turn).collect();
        Conversation { standalone_turns, turns, ..Conversation::default() }
    }

    #[test]
    fn contexts_grow_unless_turns_have_their_history() {
        let turns = [(100, 20), (30, 10)];
        assert_eq!(longest_context(&conversation(&turns, false)), 160);
        assert_eq!(longest_context(&conversation(&turns, true)), 120);
        // A turn that begins anew repeats nothing, and one may bring the response before it.
        let mut mixed = conversation(&[(100, 20), (30, 10), (50, 5), (60, 5)], false);
        mixed.turns[0].answer_is_recorded = true;
        mixed.turns[2].starts_anew = true;
        assert_eq!(longest_context(&mixed), 140);
        let mut all: Conversations =
            vec![conversation(&turns, false), conversation(&turns, true)].into();
        let settings = TraceSettings { max_context_tokens: Some(159), ..TraceSettings::default() };
        select(&mut all, &settings, Seed(1));
        assert!(all.len() == 1 && all[0].standalone_turns);
    }

    #[test]
    fn a_share_of_the_conversations_is_drawn_by_the_seed() {
        let drawn = |ratio, seed| {
            let all: Vec<_> = (0..100).map(|n| conversation(&[(n, 1)], true)).collect();
            let mut all = Conversations::from(all);
            let ratio = Some(ratio);
            let settings =
                TraceSettings { session_sample_ratio: ratio, ..TraceSettings::default() };
            select(&mut all, &settings, Seed(seed));
            all.iter().map(|it| it.turns[0].input_tokens.unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(drawn(0.25, 1).len(), 25);
        assert!(drawn(0.25, 1).is_sorted());
        assert_eq!(drawn(0.25, 1), drawn(0.25, 1));
        assert_ne!(drawn(0.25, 1), drawn(0.25, 2));
        assert_eq!((drawn(0.001, 1).len(), drawn(1.0, 1).len()), (1, 100));
    }

    fn images(turns: &[&[&str]], standalone_turns: bool) -> Conversation {
        let image = |uuid: &&str| Media {
            content: MediaContent::Url("http://x/y".into()),
            ..Media::cached_image(uuid)
        };
        let turn =
            |uuids: &&[&str]| Turn { media: uuids.iter().map(image).collect(), ..Turn::default() };
        let turns = turns.iter().map(turn).collect();
        Conversation { standalone_turns, turns, ..Conversation::default() }
    }

    #[test]
    fn images_that_an_earlier_turn_has_sent_are_stripped() {
        let mut all = vec![images(&[&["a", "a", "b"], &["a", "c"], &["c", "b"]], true)];
        all.push(images(&[&["a"]], false));
        all[0].turns[0].media[2] = Media::cached_image("b");
        strip_repeated_images(&mut all).unwrap();
        let sent = |turn: &Turn| -> Vec<(String, bool)> {
            let media = turn.media.iter();
            media.map(|it| (it.uuid.as_deref().unwrap().to_owned(), !it.is_cached())).collect()
        };
        let expected = |all: &[(&str, bool)]| -> Vec<(String, bool)> {
            all.iter().map(|(uuid, has_bytes)| ((*uuid).to_owned(), *has_bytes)).collect()
        };
        let turns = &all[0].turns;
        assert_eq!(sent(&turns[0]), expected(&[("a", true), ("a", true), ("b", false)]));
        assert_eq!(sent(&turns[1]), expected(&[("a", false), ("c", true)]));
        // The bytes of b have not been sent in this session.
        assert_eq!(sent(&turns[2]), expected(&[("c", false), ("b", true)]));
        assert_eq!(sent(&all[1].turns[0]), expected(&[("a", true)]));
    }

    #[test]
    fn images_are_not_stripped_from_a_history_or_without_uuids() {
        let said =
            |mut all: Vec<Conversation>| strip_repeated_images(&mut all).unwrap_err().to_string();
        let history = said(vec![images(&[&["a"], &["a"]], false)]);
        assert!(history.starts_with("--uuid-and-strip: the requests of a multi_turn"), "{history}");
        let none = said(vec![conversation(&[(1, 1)], true)]);
        assert!(none.contains("no image of the dataset has a UUID"), "{none}");
    }

    #[test]
    fn minimum_output_lengths_are_those_requested() {
        let mut all = vec![conversation(&[(1, 7)], false)];
        force_min_tokens(&mut all);
        assert_eq!(all[0].turns[0].extra, [("min_tokens".to_owned(), 7.into())]);
    }
}
