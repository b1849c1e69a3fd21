use base::setting::Named;

use super::*;
use crate::activity::Finish;
use crate::reply::tests::{both_sides, events, json, read_stream, read_whole, reply};
use crate::reply::{Event, ReplyContent};
use crate::vocabulary::Vocabulary;

const LETTERS: &[&str] = &[
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s",
    "t", "u", "v", "w", "x", "y", "z",
];

/// A response whose text is the alphabet from `start` on, or what the fault makes of it.
fn response(fault: Option<Fault>, start: u64, tokens: u64) -> Reply {
    let vocabulary = Vocabulary::in_order(LETTERS);
    let material = ReplyContent { vocabulary, embedding: String::new() };
    let mut wording = Wording { start, ..Wording::default() };
    if fault == Some(Fault::Corrupt(Corruption::Crosstalk)) {
        wording = Wording::with_prompt(start, "or of a \"long\"\nprompt");
    }
    let mut reply = Reply {
        material: material.into(),
        wording,
        tokens,
        finish: Finish::Length,
        usage: Some(5),
        ..reply(fault)
    };
    reply.truncate();
    reply
}

fn corrupt(kind: Corruption, tokens: u64) -> Reply {
    response(Some(Fault::Corrupt(kind)), 0, tokens)
}

/// What twelve tokens become, of which usage reports as many as given.
const TWELVE: &[(Corruption, &str, u64)] = &[
    (Corruption::Repeat, " a b c d a b c d a b c d", 12),
    (Corruption::Replacement, " a b c \u{fffd} e f g h i j k l", 12),
    (Corruption::Mojibake, " a b c cafÃ© e fÃ¼r g itâ€™s i j k l", 12),
    (Corruption::Script, " a b c d e f для после может было только также", 12),
    (Corruption::Blank, "   \n   \n   \n", 12),
    (Corruption::AfterEnd, " a b c d e f g h i j k l", 12),
    (Corruption::Usage, " a b c d e f g h i j k l", 6),
    (Corruption::Same, " a b c d e f g h i j k l", 12),
    (Corruption::Crosstalk, "or of a \"long\"\nprompt e f g h i j k l", 12),
    (Corruption::Burst, " a b c d e f g h i j k l", 12),
    (Corruption::Truncated, " a b c d", 4),
];

#[test]
fn each_kind_is_read_by_the_client_of_each_dialect() {
    let kinds = TWELVE.iter().map(|(kind, ..)| *kind);
    assert!(kinds.eq(Corruption::NAMES.iter().map(|(_, kind)| *kind)));
    for (dialect, client) in both_sides() {
        for (kind, text, reported) in TWELVE {
            let reply = || Reply { dialect, ..corrupt(*kind, 12) };
            let case = format!("{dialect:?} {kind:?}");
            let has_usage = format!("{dialect:?}") != "SolidoRag";

            let whole = read_whole(&*client, &reply());
            assert_eq!(whole.output_text, *text, "{case}");
            let counts = whole.usage.and_then(|usage| usage.completion_tokens);
            assert_eq!(counts, has_usage.then_some(*reported), "{case}");

            let stream = read_stream(&*client, events(reply()));
            let late =
                if *kind == Corruption::AfterEnd && dialect.can_continue() { " m" } else { "" };
            assert_eq!(stream.output_text, format!("{text}{late}"), "{case}");
            let counts = stream.usage.and_then(|usage| usage.completion_tokens);
            assert_eq!(counts, has_usage.then_some(*reported), "{case}");
        }
    }
}

/// The content, the finish reason and the number of tokens of the events of a stream of chat.
fn outline(reply: Reply) -> Vec<(String, Option<String>, u64)> {
    let has_choice = |event: &Event| event.bytes.starts_with(b"data: {") && event.tokens > 0;
    let outline = |event: Event| {
        let choice = &json(&event)["choices"][0];
        let text = choice["delta"]["content"].as_str().unwrap().to_owned();
        (text, choice["finish_reason"].as_str().map(str::to_owned), event.tokens)
    };
    events(reply).filter(has_choice).map(outline).collect()
}

#[test]
fn content_after_the_end() {
    let event = |text: &str, reason: Option<&str>| (text.to_owned(), reason.map(str::to_owned), 1);
    let expected = [event(" a", None), event(" b", Some("length")), event(" c", None)];
    assert_eq!(outline(corrupt(Corruption::AfterEnd, 2)), expected);
}

#[test]
fn a_burst_is_one_event_at_the_end() {
    let expected = (" a b c d e".to_owned(), Some("length".to_owned()), 5);
    assert_eq!(outline(corrupt(Corruption::Burst, 5)), [expected]);
    // Chunks are due at 110, 120, 130, 140 and 150.
    let dues: Vec<_> = events(corrupt(Corruption::Burst, 5)).map(|event| event.due.0).collect();
    assert!(dues.iter().all(|due| *due == 150), "{dues:?}");
    let reasons = Reply { reasoning: 2, ..corrupt(Corruption::Burst, 5) };
    assert_eq!((reasons.chunks(), reasons.content_events()), (5, 2));
}

#[test]
fn a_truncated_output_says_that_it_is_complete() {
    let event = |text: &str, reason: Option<&str>| (text.to_owned(), reason.map(str::to_owned), 1);
    let expected = [event(" a", None), event(" b", Some("stop"))];
    assert_eq!(outline(corrupt(Corruption::Truncated, 8)), expected);
    let one = corrupt(Corruption::Truncated, 2);
    assert_eq!((one.tokens, one.whole_tokens()), (1, 1));
    assert_eq!(corrupt(Corruption::Truncated, 0).tokens, 0);
}

#[test]
fn the_last_tokens_before_a_third_are_repeated() {
    let text = |tokens| corrupt(Corruption::Repeat, tokens).text(0, tokens);
    assert_eq!(text(15), " a b c d e b c d e b c d e b c");
    assert_eq!(text(6), " a b a b a b");
    // There is nothing to repeat.
    assert_eq!(text(2), " a b");
}

#[test]
fn the_middle_half_of_a_long_text_is_corrupt() {
    let text = corrupt(Corruption::Replacement, 32).text(0, 32);
    // The tokens 8 and 16 of those from 8 to 23.
    let expected = " a b c d e f g h \u{fffd} j k l m n o p \u{fffd} r s t u v w x y z a b c d e f";
    assert_eq!(text, expected);
    assert_eq!(corrupt(Corruption::Replacement, 1).text(0, 1), " \u{fffd}");
}

#[test]
fn reasoning_is_left_as_it_is() {
    let reply = Reply { reasoning: 2, ..corrupt(Corruption::Repeat, 8) };
    assert_eq!([reply.text(0, 2), reply.text(2, 6)], [" a b", " c d c d c d"]);
    let blank = Reply { reasoning: 2, ..corrupt(Corruption::Blank, 7) };
    assert_eq!([blank.text(0, 2), blank.text(2, 5)], [" a b", "   \\n "]);
}

#[test]
fn a_text_begins_where_its_prompt_says() {
    let text = |fault: Option<Fault>| response(fault, 24, 4).text(0, 4);
    assert_eq!(text(None), " y z a b");
    assert_eq!(text(Some(Fault::NoDone)), " y z a b");
    assert_eq!(text(Some(Fault::Corrupt(Corruption::Same))), " a b c d");
    let mut second = String::new();
    response(None, 0, 4).append_text(&mut second, 1, 0, 2);
    assert_eq!(second, " r s");
}

#[test]
fn a_text_may_go_on_elsewhere() {
    let varied = |fault| {
        let reply = response(fault, 0, 12);
        let wording = Wording { turn: Some([3, 20]), ..reply.wording.clone() };
        Reply { wording, ..reply }
    };
    let pieces = |reply: &Reply, lengths: &[u64]| {
        let mut first = 0;
        let mut text = String::new();
        for length in lengths {
            reply.append_text(&mut text, 0, first, *length);
            first += length;
        }
        text
    };
    let corrupt = |kind| varied(Some(Fault::Corrupt(kind)));
    for lengths in [&[12][..], &[3, 9], &[2, 2, 8], &[1; 12]] {
        // The token 3 of the text from the position 20 on is the letter 23.
        assert_eq!(pieces(&varied(None), lengths), " a b c x y z a b c d e f");
        assert_eq!(pieces(&corrupt(Corruption::Repeat), lengths), " a b c x a b c x a b c x");
        assert_eq!(pieces(&corrupt(Corruption::Same), lengths), " a b c d e f g h i j k l");
    }
}

#[test]
fn a_short_text_has_only_a_part_of_the_other_prompt() {
    assert_eq!(corrupt(Corruption::Crosstalk, 2).plain_text(), "or of");
    let alone = Reply { wording: Wording::default(), ..corrupt(Corruption::Crosstalk, 2) };
    assert_eq!(alone.plain_text(), " a b");
}

#[test]
fn other_prompts_are_cut_before_spaces() {
    let pieces = |prompt| Wording::with_prompt(7, prompt).foreign;
    assert_eq!(pieces(" of  a\nday "), [" of", " ", " a\nday", " "]);
    assert_eq!(pieces("day"), ["day"]);
    assert!(pieces("").is_empty());
}

/// A response to a prompt that asks for four words, of 12 tokens unless it may end before them.
fn copying(fault: Option<Fault>) -> Reply {
    let reply = response(fault, 0, 12);
    let prompt =
        "Be brief. Repeat the following words exactly, and nothing else: one two \"3\" four";
    let wording = reply.wording.clone().copying(prompt);
    Reply { wording, ..reply }
}

#[test]
fn a_prompt_has_its_words_repeated() {
    let reply = copying(None);
    assert_eq!(reply.plain_text(), "one two \"3\" four e f g h i j k l");
    assert_eq!(reply.text(0, 3), "one two \\\"3\\\"");
    assert_eq!([reply.text(1, 1), reply.text(3, 2)], [" two", " four e"]);
    let reasons = Reply { reasoning: 2, ..copying(None) };
    assert_eq!(reasons.plain_text(), " a bone two \"3\" four g h i j k l");
    assert_eq!(reasons.text(1, 2), " bone");
    // It turns into another text behind them.
    let turning = |at| {
        let wording = Wording { turn: Some([at, 20]), ..copying(None).wording };
        Reply { wording, ..copying(None) }
    };
    assert_eq!(turning(1).plain_text(), "one two \"3\" four y z a b c d e f");
    assert_eq!(turning(1).text(2, 3), " \\\"3\\\" four y");
    assert_eq!(turning(6).plain_text(), "one two \"3\" four e f a b c d e f");
    let pieces = |prompt| Wording::default().copying(prompt).copied;
    assert!(pieces("Repeat the following words: one").is_empty());
    let named = "Repeat the following words exactly, and nothing else: a b\nc";
    assert_eq!(pieces(named), ["a", " b"]);
}

#[test]
fn what_is_repeated_is_corrupt_like_other_text() {
    let text = |kind| {
        let mut reply = copying(Some(Fault::Corrupt(kind)));
        // 5 tokens, of which truncated outputs have one.
        reply.tokens = 12;
        reply.end_after_copy();
        reply.truncate();
        reply.plain_text()
    };
    let expected = [
        (Corruption::Repeat, "oneoneoneoneone"),
        (Corruption::Replacement, "one \u{fffd} \"3\" four e"),
        (Corruption::Mojibake, "one cafÃ© \"3\" fÃ¼r e"),
        (Corruption::Script, "one two год что это"),
        (Corruption::Blank, "   \n "),
        (Corruption::Same, " a b c d e"),
        (Corruption::Crosstalk, "or of a \"long\"\nprompt e"),
        (Corruption::Truncated, "one"),
        (Corruption::Burst, "one two \"3\" four e"),
    ];
    for (kind, text_of_kind) in expected {
        assert_eq!(text(kind), text_of_kind, "{kind:?}");
    }
}

#[test]
fn an_output_ends_soon_after_what_is_repeated() {
    let ended = |reply: Reply| {
        let mut reply = reply;
        reply.end_after_copy();
        (reply.tokens, reply.finish)
    };
    assert_eq!(ended(copying(None)), (5, Finish::Stop));
    assert_eq!(ended(Reply { reasoning: 2, ..copying(None) }), (7, Finish::Stop));
    assert_eq!(ended(Reply { tokens: 5, ..copying(None) }), (5, Finish::Length));
    assert_eq!(ended(response(None, 0, 12)), (12, Finish::Length));
}
