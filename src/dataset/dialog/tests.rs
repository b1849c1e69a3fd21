use std::collections::HashMap;
use std::sync::LazyLock;

use proptest::prelude::*;

use tokens::tokenizer::TokenCounter;

use super::*;
use crate::{Corpus, Seed};

static WORDS: LazyLock<Arc<Words>> = LazyLock::new(|| {
    let corpus = Corpus::Coding.text().unwrap();
    Words::new(corpus, &TokenCounter::builtin(), Seed(3)).unwrap().into()
});

/// Blocks with identifiers, input tokens and output tokens.
type Asked<'a> = (&'a [i64], u32, u32);

fn dialog(block_tokens: u32, system_blocks: u32, asked: &[Asked<'_>]) -> Dialog {
    let mut builder = Builder::new(block_tokens);
    let mut known = HashMap::new();
    let mut next = 0;
    let recorded = asked.iter().map(|(hash_ids, input_tokens, output_tokens)| Recorded {
        input_tokens: *input_tokens,
        output_tokens: *output_tokens,
        hash_ids,
    });
    let recorded: Vec<_> = recorded.collect();
    let mut before = None;
    for own in &recorded {
        builder.add(before, own, |id| {
            next += 1;
            id.map_or(next, |id| *known.entry(id).or_insert(next))
        });
        before = Some(own);
    }
    builder.finish(Arc::clone(&WORDS), system_blocks)
}

/// Returns each prompt as its messages: the first letter of the role, the number of blocks, and the
/// tokens after them.
fn outlines(system_blocks: u32, asked: &[Asked<'_>]) -> Vec<String> {
    let dialog = dialog(4, system_blocks, asked);
    let message = |it: Outline| match it.tail.1 {
        0 => format!("{}{}", &it.role[..1], it.blocks),
        tokens => format!("{}{}+{tokens}", &it.role[..1], it.blocks),
    };
    let prompt = |at| dialog.outline(at).into_iter().map(message).collect::<Vec<_>>().join(" ");
    (0..asked.len()).map(prompt).collect()
}

/// The values are those of AIPerf's own functions, with blocks of 4 tokens.
#[test]
fn prompts_are_divided_among_system_user_and_assistant() {
    let grown: [Asked<'_>; 3] = [(&[1, 2], 10, 4), (&[1, 2, 3, 4], 18, 6), (&[1, 2, 3, 5], 17, 2)];
    // The assistant has ⌈4/4⌉ = 1 block, and then min(⌈6/4⌉, 1) = 1.
    assert_eq!(outlines(1, &grown), ["s1 u1+2", "s1 u1 a1 u1+2", "s1 u1 a1 a1 u0+1"]);
    let handed_back: [Asked<'_>; 3] =
        [(&[1, 2], 8, 3), (&[1, 2, 3, 4, 5], 20, 4), (&[1, 2, 3, 4, 5, 6], 24, 1)];
    assert_eq!(outlines(1, &handed_back), ["s1 u1", "s1 u1 a1 u2", "s1 u1 a1 u2 u1"]);
    let without_system: [Asked<'_>; 2] = [(&[1], 4, 8), (&[1, 2, 3], 12, 4)];
    assert_eq!(outlines(0, &without_system), ["u1", "u1 a1 u1"]);
    let compacted: [Asked<'_>; 3] =
        [(&[1, 2, 3], 12, 4), (&[1, 9], 8, 4), (&[1, 9, 10, 11], 16, 4)];
    assert_eq!(outlines(1, &compacted), ["s1 u2", "s1 u1", "s1 u1 a1 u1"]);
    let truncated: [Asked<'_>; 2] = [(&[1], 14, 4), (&[1, 2], 22, 4)];
    // (14 − 4) and (22 − 8) tokens do not have a hash ID.
    assert_eq!(outlines(0, &truncated), ["u1+10", "u1 a1 u0+14"]);
}

/// As AIPerf plans it: the third prompt keeps two blocks, and ends with the user.
#[test]
fn a_prompt_that_only_keeps_blocks_ends_with_the_user() {
    let asked: [Asked<'_>; 3] = [(&[1], 4, 8), (&[1, 2, 3, 4], 16, 4), (&[1, 2], 8, 1)];
    assert_eq!(outlines(0, &asked), ["u1", "u1 u3", "u1 u1"]);
    assert_eq!(outlines(0, &asked[..2]), ["u1", "u1 a2 u1"]);
}

#[test]
fn texts_have_the_tokens_and_share_what_is_kept() {
    let asked: [Asked<'_>; 3] = [(&[1, 2], 40, 16), (&[1, 2, 3, 4], 72, 6), (&[1, 2, 3, 5], 65, 2)];
    let counter = TokenCounter::builtin();
    let prompts: Vec<Prompt> = prompts(dialog(16, 1, &asked)).collect();
    for (prompt, (_, tokens, _)) in prompts.iter().zip(asked) {
        let sum: u64 = prompt.messages().iter().map(|it| counter.count(&it.text.to_string())).sum();
        assert_eq!((sum, prompt.tokens()), (tokens.into(), Some(tokens.into())));
        assert_eq!(counter.count(&prompt.text().to_string()), u64::from(tokens));
    }
    let texts = |at: usize| -> Vec<String> {
        prompts[at].messages().iter().map(|it| it.text.to_string()).collect()
    };
    let (first, second, third) = (texts(0), texts(1), texts(2));
    // The rest of the first message of the user is not part of the second prompt.
    assert!(first[0] == second[0] && first[1].starts_with(&second[1]));
    assert_eq!(second[..3], third[..3]);
    assert_ne!(second[3], third[3]);
}

#[test]
fn a_marker_is_in_the_message_that_the_mode_names() {
    let asked: [Asked<'_>; 2] = [(&[1, 2], 40, 16), (&[1, 2, 3, 4], 64, 6)];
    let marked = |mode, system_blocks| -> Vec<bool> {
        let mut prompt = prompts(dialog(16, system_blocks, &asked)).nth(1).unwrap();
        prompt.mark(mode, "[x]");
        let has = |it: &Message| it.text.to_string().starts_with("[x]\n\n");
        prompt.messages().iter().map(has).collect()
    };
    assert_eq!(marked(CacheBust::FirstTurnPrefix, 1), [false, true, false, false]);
    assert_eq!(marked(CacheBust::SystemPrefix, 1), [true, false, false, false]);
    assert_eq!(marked(CacheBust::SystemPrefix, 0), [true, false, false]);
}

proptest! {
    /// Whatever a trace has, messages have its blocks in their order, and all tokens.
    #[test]
    fn messages_are_the_whole_prompt(
        asked in prop::collection::vec(
            (prop::collection::vec(0i64..4, 0..9), 1u32..40, 0u32..20), 1..8),
        system_blocks in 0u32..4,
    ) {
        let asked: Vec<Asked<'_>> =
            asked.iter().map(|(ids, input, output)| (&ids[..], *input, *output)).collect();
        let dialog = dialog(4, system_blocks, &asked);
        let mut numbers: HashMap<u32, i64> = HashMap::new();
        for (at, (ids, input, _)) in asked.iter().enumerate() {
            let outline = dialog.outline(at);
            let blocks: Vec<u32> = outline
                .iter()
                .flat_map(|it| &dialog.blocks[it.first as usize..][..it.blocks as usize])
                .copied()
                .collect();
            let covered = &ids[..ids.len().min((input / 4) as usize)];
            prop_assert_eq!(blocks.len(), covered.len());
            for (number, id) in blocks.iter().zip(covered) {
                prop_assert_eq!(*numbers.entry(*number).or_insert(*id), *id);
            }
            let tokens = outline.iter().map(|it| it.blocks * 4 + it.tail.1).sum::<u32>();
            prop_assert_eq!(tokens, *input);
            prop_assert_eq!(dialog.tokens(at), Some(u64::from(*input)));
        }
    }
}
