//! Requests that are drawn from pools of lines.

use std::collections::HashSet;
use std::sync::Arc;

use crate::account::{Conversations, Pool};
use crate::{Conversation, MediaKinds, Seed, Turn};

/// The turns to draw from, each with the number of its line, and how many of them a request has.
type Parts = (Vec<(usize, Turn)>, usize);

/// Draws `entries` requests of a turn of each of `pools`.
pub(super) fn of_each(pools: Vec<Vec<Turn>>, entries: usize, seed: Seed) -> Conversations {
    let mut lines = 0..;
    let pools: Vec<Parts> =
        pools.into_iter().map(|pool| (lines.by_ref().zip(pool).collect(), 1)).collect();
    let lines = pools.iter().map(|(pool, _)| pool.len()).sum();
    requests(&pools, lines, entries, seed)
}

/// Draws `entries` requests with `batch_size` of the texts of `lines`, and with one of each kind of
/// their media. A text may be repeated.
pub(super) fn batches(
    lines: Vec<Conversation>,
    batch_size: usize,
    entries: usize,
    seed: Seed,
) -> Conversations {
    let count = lines.len();
    let mut texts = Vec::new();
    let mut media = MediaKinds::all().iter().map(|kind| (kind, Vec::new())).collect::<Vec<_>>();
    let turns = |(line, conversation): (usize, Conversation)| {
        conversation.turns.into_iter().map(move |turn| (line, turn))
    };
    for (line, mut turn) in lines.into_iter().enumerate().flat_map(turns) {
        let (own_texts, own_media) =
            (std::mem::take(&mut turn.texts), std::mem::take(&mut turn.media));
        let of_text = |text| (line, Turn { texts: vec![text], ..turn.clone() });
        texts.extend(own_texts.into_iter().map(of_text));
        for medium in own_media {
            let pool = media.iter_mut().find(|(kind, _)| *kind == medium.kind);
            if let Some((_, pool)) = pool {
                pool.push((line, Turn { media: vec![medium], ..turn.clone() }));
            }
        }
    }
    let pools = media.into_iter().map(|(_, pool)| (pool, 1));
    let pools = std::iter::once((texts, batch_size)).chain(pools);
    let pools: Vec<Parts> = pools.filter(|(pool, _)| !pool.is_empty()).collect();
    requests(&pools, count, entries, seed)
}

/// Draws `entries` requests, each of as many turns of every pool as it has, one after the other. The
/// pools are of this number of lines.
fn requests(pools: &[Parts], lines: usize, entries: usize, seed: Seed) -> Conversations {
    let seed = seed.derive("dataset.random_pool");
    let drawn: u64 = pools.iter().map(|(_, count)| *count as u64).sum();
    let mut used = HashSet::new();
    let mut request = |index: usize| {
        let mut turn = Turn::default();
        let pools = pools.iter().flat_map(|(pool, count)| std::iter::repeat_n(pool, *count));
        for (number, pool) in (0..).zip(pools) {
            let place = seed.below(index as u64 * drawn + number, pool.len() as u64);
            if let Some((line, part)) = pool.get(place as usize) {
                used.insert(*line);
                merge(&mut turn, part);
            }
        }
        Conversation { turns: vec![turn], ..Conversation::default() }
    };
    let entries = if pools.is_empty() { 0 } else { entries };
    let drawn = (0..entries).map(&mut request).collect();
    let unused = lines.saturating_sub(used.len()) as u64;
    Conversations::drawn(drawn, Pool { lines: lines as u64, unused })
}

fn merge(turn: &mut Turn, part: &Turn) {
    turn.texts.extend(part.texts.iter().cloned());
    turn.media.extend(part.media.iter().cloned());
    turn.max_tokens = turn.max_tokens.or(part.max_tokens);
    turn.role = turn.role.take().or_else(|| part.role.clone());
    if turn.model.is_empty() {
        turn.model = Arc::clone(&part.model);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::Media;

    fn line(texts: &[&str], image: Option<&str>, max_tokens: Option<u32>) -> Conversation {
        let turn = Turn {
            texts: texts.iter().map(|text| (*text).into()).collect(),
            media: image.map(Media::cached_image).into_iter().collect(),
            max_tokens,
            ..Turn::default()
        };
        Conversation { turns: vec![turn], ..Conversation::default() }
    }

    #[test]
    fn a_batch_has_texts_of_all_lines_and_a_medium_of_each_kind() {
        let lines = || {
            vec![
                line(&["a", "b"], None, None),
                line(&["c"], Some("u"), Some(4)),
                line(&[], Some("v"), None),
            ]
        };
        let drawn = batches(lines(), 3, 2000, Seed(5));
        let mut texts: HashMap<String, u32> = HashMap::new();
        let mut first = 0;
        for conversation in &drawn {
            let [turn] = &conversation.turns[..] else { panic!("{conversation:?}") };
            assert_eq!((turn.texts.len(), turn.media.len()), (3, 1));
            for text in &turn.texts {
                *texts.entry(text.to_string()).or_default() += 1;
            }
            first += u32::from(turn.media[0].uuid.as_deref() == Some("u"));
        }
        // 6000 draws of three texts: expected 2000 each, standard deviation sqrt(6000 · 2/9) = 36.5.
        assert_eq!(texts.len(), 3);
        assert!(texts.values().all(|count| count.abs_diff(2000) < 150), "{texts:?}");
        // Expected 1000, standard deviation sqrt(2000 / 4) = 22.4.
        assert!(first.abs_diff(1000) < 90, "{first}");
        let again = batches(lines(), 3, 2000, Seed(5));
        assert_eq!(format!("{drawn:?}"), format!("{again:?}"));
    }

    #[test]
    fn nothing_is_drawn_without_lines() {
        assert!(batches(Vec::new(), 3, 5, Seed(5)).is_empty());
        assert!(of_each(Vec::new(), 5, Seed(5)).is_empty());
    }
}
