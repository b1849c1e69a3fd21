use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

/// `pat_str` of Kimi's code.
const KIMI: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+",
    r"|\s+(?!\S)",
    r"|\s+",
);

const CONFIG: &str = r#"{
    "tokenizer_class": "TikTokenTokenizer",
    "auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", null]},
    "added_tokens_decoder": {
        "280": {"content": "<|im_end|>", "special": true},
        "281": {"content": "<|im_end|>>", "special": true}
    }
}"#;

/// Every byte, and after them tokens in the order in which they are merged.
fn vocabulary(words: &[&str]) -> Vec<Vec<u8>> {
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    bytes.chain(words.iter().map(|word| word.as_bytes().to_vec())).collect()
}

/// Returns the file of these tokens.
fn model(tokens: &[Vec<u8>]) -> Vec<u8> {
    let lines =
        (0..).zip(tokens).map(|(rank, token)| format!("{} {rank}\n", STANDARD.encode(token)));
    lines.collect::<String>().into_bytes()
}

/// Merges of `the`, ` the`, `ab`, `abab`, `中文` and two spaces.
fn words() -> Vec<Vec<u8>> {
    vocabulary(&[
        "th",
        "the",
        " the",
        "ab",
        "abab",
        "\u{4e2d}",
        "\u{6587}",
        "\u{4e2d}\u{6587}",
        "  ",
    ])
}

fn load(tokens: &[Vec<u8>]) -> Tiktoken {
    Tiktoken::parse(&model(tokens), Some(CONFIG.as_bytes())).unwrap()
}

#[test]
fn pairs_are_merged_in_the_order_of_their_ranks() {
    let loaded = load(&words());
    let byte = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    // 256 is `th`, and so on. The numbers are those of the bytes where nothing is merged.
    for (text, tokens) in [
        ("", vec![]),
        ("the", vec![257]),
        ("the the", vec![257, 258]),
        // `th` before `he`, which is not a token; then `the` and `s`.
        ("thes", vec![257, 115]),
        // `ab` `ab` `ab`: the first two of equal rank are merged first.
        ("ababab", vec![260, 259]),
        // The second space belongs to the word, so that two spaces never stand together to merge.
        ("x  the", [&byte("x ")[..], &[258]].concat()),
        ("x   ", [&byte("x")[..], &[264], &byte(" ")].concat()),
        // Chinese characters are pieces of their own.
        ("the\u{4e2d}\u{6587}the", vec![257, 263, 257]),
        ("the<|im_end|>the", vec![257, 280, 257]),
        // The longest name.
        ("<|im_end|>><|im_end|>", vec![281, 280]),
    ] {
        assert_eq!(loaded.encode(text), tokens, "{text:?}");
        assert_eq!(loaded.decode(&tokens), text.as_bytes());
    }
    assert_eq!(loaded.size(), 282);
    assert!(loaded.is_special(280) && !loaded.is_special(264));
    // Between the tokens and the special ones, and beyond all.
    assert_eq!(loaded.decode(&[265, 400, u32::MAX]), b"");
}

#[test]
fn a_file_whose_code_is_not_known_is_rejected() {
    let config = |text: &str| Some(CONFIG.replace("tokenization_kimi.TikTokenTokenizer", text));
    let copied = config("org/model--tokenization_kimi.TikTokenTokenizer");
    let model = model(&words());
    assert!(Tiktoken::parse(&model, copied.as_deref().map(str::as_bytes)).is_ok());
    let other = config("tokenization_other.Tokenizer");
    let nothing = Some("{}".to_owned());
    let broken = Some("[".to_owned());
    for (config, words) in [
        (None, "tokenizer_config.json beside it is missing"),
        (nothing, "does not name the code"),
        (broken, "tokenizer_config.json: "),
        (other, "by the code \"tokenization_other.Tokenizer\" of the model, which is not run"),
        (
            Some(CONFIG.replace("280", "12")),
            "with the number \"12\" is not one after the 265 of tiktoken.model",
        ),
    ] {
        let error = Tiktoken::parse(&model, config.as_deref().map(str::as_bytes)).err().unwrap();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_file_that_is_not_a_vocabulary_is_rejected() {
    let all = String::from_utf8(model(&words())).unwrap();
    for (text, words) in [
        (String::new(), "the byte 0 is not a token"),
        (all.replacen("YWI= 259\n", "YWI 259\n", 1), "line 260 is not a token in base64"),
        (all.replacen("YWI= 259\n", "YWI=\n", 1), "line 260 is not a token in base64"),
        (all.replacen("YWI= 259\n", " 259\n", 1), "line 260 is not a token in base64"),
        (all.replacen("YWI= 259\n", "YWI= 300\n", 1), "its ranks are not those from 0 to 264"),
        (all.replacen("YWI= 259\n", "YWI= 258\n", 1), "its ranks are not those from 0 to 264"),
        (format!("{all}YWI= 265\n"), "line 266 has a token that a line before has too"),
        (all.replacen("AA== 0\n", "eHk= 0\n", 1), "the byte 0 is not a token"),
    ] {
        let error = Tiktoken::parse(text.as_bytes(), Some(CONFIG.as_bytes())).err().unwrap();
        assert!(error.contains(words), "{error}");
    }
    // The order of lines, and how they end, does not matter.
    let mut lines: Vec<&str> = all.lines().collect();
    lines.reverse();
    let reversed = Tiktoken::parse(lines.join("\r\n").as_bytes(), Some(CONFIG.as_bytes())).unwrap();
    assert_eq!(reversed.encode("ababab"), [260, 259]);
}

/// Returns tokens of up to 12 bytes, each of which is two tokens before it.
fn grown(pairs: &[(prop::sample::Index, prop::sample::Index)]) -> Vec<Vec<u8>> {
    let mut tokens = vocabulary(&[]);
    // Few bytes, so that tokens occur in texts.
    let alphabet: Vec<Vec<u8>> =
        b"abtheN '\n.1\xe4\xb8\xad".iter().map(|byte| vec![*byte]).collect();
    for (left, right) in pairs {
        let known = [&alphabet[..], &tokens[256..]].concat();
        let union = [&*known[left.index(known.len())], &known[right.index(known.len())]].concat();
        if union.len() <= 12 && !tokens.contains(&union) {
            tokens.push(union);
        }
    }
    tokens
}

/// Returns tiktoken itself with these tokens.
fn tiktoken(tokens: &[Vec<u8>]) -> tiktoken_rs::CoreBPE {
    let ranks = (0..).zip(tokens).map(|(rank, token)| (token.clone(), rank)).collect();
    let specials = [("<|im_end|>".to_owned(), 280_000)].into_iter().collect();
    tiktoken_rs::CoreBPE::new(ranks, specials, KIMI).unwrap()
}

/// One vocabulary for many texts, as it takes long to make: all syllables of two letters, and words of them.
static SYLLABLES: LazyLock<(Tiktoken, tiktoken_rs::CoreBPE)> = LazyLock::new(|| {
    let letters = "abeht N1.\n'";
    let pairs = letters.chars().flat_map(|a| letters.chars().map(move |b| format!("{a}{b}")));
    let pairs: Vec<String> = pairs.collect();
    let longer = pairs.iter().zip(pairs.iter().skip(7)).map(|(a, b)| format!("{a}{b}"));
    let all: Vec<String> = pairs.iter().cloned().chain(longer).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let tokens = vocabulary(&all);
    let config = CONFIG.replace("\"280\"", "\"1280\"").replace("\"281\"", "\"1281\"");
    (Tiktoken::parse(&model(&tokens), Some(config.as_bytes())).unwrap(), tiktoken(&tokens))
});

proptest! {
    #[test]
    fn tokens_are_tiktokens(text in "\\PC{0,120}|[abehtN1. \n']{0,200}|[\\p{Han}a-cA-C1 \n]{0,80}|\\s{0,20}\\PC{0,20}\\s{0,20}") {
        let (loaded, tiktoken) = &*SYLLABLES;
        prop_assert_eq!(loaded.encode(&text), tiktoken.encode_ordinary(&text));
        prop_assert_eq!(loaded.decode(&loaded.encode(&text)), text.as_bytes());
    }

    #[test]
    fn any_vocabulary_is_merged_as_by_tiktoken(
        pairs in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..60),
        text in "[abtheN '\n.1\u{4e2d}]{0,80}",
    ) {
        let tokens = grown(&pairs);
        let config = CONFIG.replace("\"280\"", "\"1280\"").replace("\"281\"", "\"1281\"");
        let loaded = Tiktoken::parse(&model(&tokens), Some(config.as_bytes())).unwrap();
        prop_assert_eq!(loaded.encode(&text), tiktoken(&tokens).encode_ordinary(&text));
    }

    #[test]
    fn no_file_panics(model in prop::collection::vec(any::<u8>(), 0..200), line in "[A-Za-z=]{0,8} [0-9]{0,12}", config in "\\PC{0,80}", id in "[0-9]{0,12}") {
        let _ = Tiktoken::parse(&model, Some(config.as_bytes()));
        let _ = Tiktoken::parse(line.as_bytes(), Some(CONFIG.as_bytes()));
        let _ = Tiktoken::parse(&self::model(&words()), Some(CONFIG.replace("280", &id).as_bytes()));
    }
}
