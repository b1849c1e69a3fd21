use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::hub::fixture::{response, serve};

const GOLDEN: &str = "../../tests/golden/tiny-model";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Texts with their counts from the Python package `tokenizers` 0.23.3 for the golden tokenizer
/// (`add_special_tokens=False`), and from the JavaScript package `js-tiktoken` 1.0.21 for o200k (no
/// special tokens allowed).
const COUNTS: &[(&str, u64, u64)] = &[
    ("", 0, 0),
    ("Hello, world!", 6, 4),
    ("The quick brown fox jumps over the lazy dog.", 20, 10),
    ("1234567890", 6, 4),
    ("  two  spaces\n\nand lines\t", 10, 8),
    ("Ünïcödé 漢字 \u{1F600}", 22, 9),
    ("<|im_start|>user\nHi<|im_end|>", 6, 15),
    ("fn main() { println!(\"{}\", 1 + 1); }", 19, 13),
    ("don't DON'T we'll", 10, 3),
];

fn golden() -> TokenCounter {
    TokenCounter::load(&Source::parse(GOLDEN), Environment::new(&|_| None)).unwrap()
}

fn hub(name: &str) -> Source {
    Source::Hub { name: name.to_owned(), revision: "main".to_owned() }
}

fn load_with(source: &Source, variables: &[(&str, &str)]) -> Result<TokenCounter, TokenizerError> {
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    let lookup = |name: &str| variables.get(name).map(ToString::to_string);
    TokenCounter::load(source, Environment::new(&lookup))
}

#[test]
fn counts_are_those_of_other_implementations() {
    let (golden, builtin) = (golden(), TokenCounter::builtin());
    for &(text, in_golden, in_o200k) in COUNTS {
        assert_eq!(golden.count(text), in_golden, "{text:?}");
        assert_eq!(builtin.count(text), in_o200k, "{text:?}");
    }
}

#[test]
fn tokens_are_those_of_other_implementations() {
    assert_eq!(golden().encode("Hello, world!"), [43, 2171, 82, 15, 3123, 4]);
    let builtin = TokenCounter::builtin();
    assert_eq!(builtin.encode("Hello, world!"), [13225, 11, 2375, 0]);
    assert_eq!(
        builtin.encode("Ünïcödé 漢字 \u{1F600}"),
        [8858, 77, 191_375, 43369, 377, 82867, 95, 8134, 88038]
    );
}

#[test]
fn unknown_tokens_and_cut_characters_do_not_break_decoding() {
    for counter in [golden(), TokenCounter::builtin()] {
        let mut tokens = counter.encode("ab");
        tokens.push(u32::MAX);
        assert_eq!(counter.decode(&tokens), "ab");
    }
    let builtin = TokenCounter::builtin();
    // o200k does not have a token for this rare character and uses several.
    let tokens = builtin.encode("\u{12345}");
    assert!(tokens.len() > 1);
    assert!(builtin.decode(&tokens[..1]).contains('\u{fffd}'));
}

#[test]
fn sources_are_told_apart() {
    assert_eq!(Source::parse("builtin"), Source::Builtin);
    assert_eq!(Source::parse(GOLDEN), Source::Path(GOLDEN.into()));
    assert_eq!(Source::parse("org/model"), hub("org/model"));
    let Source::Hub { revision, .. } = Source::parse("org/model").at_revision("v2") else {
        panic!("not of the hub")
    };
    assert_eq!(revision, "v2");
}

#[test]
fn a_path_may_be_the_file_or_its_directory() {
    let file = Source::Path(PathBuf::from(GOLDEN).join("tokenizer.json"));
    assert_eq!(
        TokenCounter::load(&file, Environment::new(&|_| None)).unwrap().count("Hello, world!"),
        6
    );
}

#[test]
fn a_model_without_a_tokenizer_json_may_have_a_tiktoken_model() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let config = r#"{"auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", null]},
        "added_tokens_decoder": {"257": {"content": "<|im_end|>"}}}"#;
    // Every byte, and `ab`.
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]).chain([b"ab".to_vec()]);
    let lines = (0..).zip(bytes).map(|(rank, token)| {
        let token = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, token);
        format!("{token} {rank}\n")
    });
    std::fs::write(path.join("tiktoken.model"), lines.collect::<String>()).unwrap();
    let load = |path: &Path| {
        TokenCounter::load(&Source::Path(path.to_owned()), Environment::new(&|_| None))
    };
    let error = load(path).unwrap_err().to_string();
    assert!(error.contains("tokenizer_config.json beside it is missing"), "{error}");
    std::fs::write(path.join("tokenizer_config.json"), config).unwrap();
    for place in [path.to_owned(), path.join("tiktoken.model")] {
        let counter = load(&place).unwrap();
        assert_eq!(counter.encode("abc<|im_end|>"), [256, 99, 257]);
        assert_eq!(counter.decode(&[256, 99, 257]), "abc<|im_end|>");
        assert_eq!((counter.vocabulary_size(), counter.added_tokens()), (258, 0));
        assert!(counter.is_text(256) && !counter.is_text(257));
        assert!(is_local(place.to_str().unwrap(), "main", Environment::new(&|_| None)));
    }
    // A tokenizer.json is preferred.
    let golden = Path::new(GOLDEN).join("tokenizer.json");
    std::fs::copy(golden, path.join("tokenizer.json")).unwrap();
    assert_eq!(load(path).unwrap().encode("Hello, world!"), [43, 2171, 82, 15, 3123, 4]);
}

#[test]
fn truncation_and_padding_of_the_file_are_not_obeyed() {
    let text = std::fs::read_to_string(PathBuf::from(GOLDEN).join("tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["truncation"] = serde_json::json!({
        "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0
    });
    json["padding"] = serde_json::json!({
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"
    });
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("tokenizer.json"), json.to_string()).unwrap();
    let source = Source::Path(directory.path().to_owned());
    assert_eq!(
        TokenCounter::load(&source, Environment::new(&|_| None)).unwrap().count("Hello, world!"),
        6
    );
}

#[test]
fn files_that_are_not_tokenizers_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let source = Source::Path(directory.path().to_owned());
    let error = TokenCounter::load(&source, Environment::new(&|_| None)).unwrap_err();
    assert!(matches!(error, TokenizerError::Read { .. }), "{error}");

    std::fs::write(directory.path().join("tokenizer.json"), "{}").unwrap();
    let error = TokenCounter::load(&source, Environment::new(&|_| None)).unwrap_err();
    assert!(matches!(error, TokenizerError::Invalid { .. }), "{error}");
}

#[test]
fn names_that_would_leave_the_cache_are_refused() {
    for name in ["", "../x", "a/../b", "a/b/c", "a b", "/etc", "org/", "a\\b", "https://x/y"] {
        let error = load_with(&hub(name), &[("HF_HUB_OFFLINE", "1")]).unwrap_err();
        assert!(matches!(error, TokenizerError::Name { .. }), "{name}: {error}");
    }
    let source = hub("org/model").at_revision("../../x");
    let error = load_with(&source, &[("HF_HUB_OFFLINE", "1")]).unwrap_err();
    assert!(matches!(error, TokenizerError::Name { .. }), "{error}");
}

/// Stores the golden tokenizer in a cache, as other clients of the hub do.
fn fill_cache(cache: &Path, with_ref: bool) {
    let model = cache.join("models--org--model");
    let snapshot = model.join("snapshots").join(COMMIT);
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::copy(Path::new(GOLDEN).join("tokenizer.json"), snapshot.join("tokenizer.json"))
        .unwrap();
    if with_ref {
        std::fs::create_dir_all(model.join("refs")).unwrap();
        std::fs::write(model.join("refs/main"), COMMIT).unwrap();
    }
}

#[test]
fn the_cache_is_found_by_each_of_its_variables() {
    let directory = tempfile::tempdir().unwrap();
    for (variable, below) in [
        ("HF_HUB_CACHE", ""),
        ("HF_HOME", "hub"),
        ("XDG_CACHE_HOME", "huggingface/hub"),
        ("HOME", ".cache/huggingface/hub"),
    ] {
        let root = directory.path().join(variable);
        fill_cache(&root.join(below), true);
        let variables = [(variable, root.to_str().unwrap()), ("HF_HUB_OFFLINE", "1")];
        let counter = load_with(&hub("org/model"), &variables).unwrap();
        assert_eq!((counter.name(), counter.count("Hello, world!")), ("org/model", 6));
    }
}

#[test]
fn a_commit_needs_no_reference() {
    let directory = tempfile::tempdir().unwrap();
    fill_cache(directory.path(), false);
    let cache = ("HF_HUB_CACHE", directory.path().to_str().unwrap());
    let offline = ("TRANSFORMERS_OFFLINE", "yes");
    assert!(load_with(&hub("org/model").at_revision(COMMIT), &[cache, offline]).is_ok());
    let error = load_with(&hub("org/model"), &[cache, offline]).unwrap_err();
    assert!(
        matches!(error, TokenizerError::Offline { variable: "TRANSFORMERS_OFFLINE", .. }),
        "{error}"
    );
}

#[test]
fn a_download_fills_the_cache_and_the_token_stays_with_the_hub() {
    let tokenizer = std::fs::read(Path::new(GOLDEN).join("tokenizer.json")).unwrap();
    let (storage, asked_storage) = serve(vec![response("200 OK", &tokenizer)]);
    let (endpoint, asked_hub) = serve(vec![response(
        &format!(
            "302 Found\r\nx-repo-commit: {COMMIT}\r\nx-linked-etag: \"{}\"\r\n\
             location: http://{storage}/blob?sig=1",
            sha256(&tokenizer)
        ),
        b"",
    )]);
    let directory = tempfile::tempdir().unwrap();
    let cache = ("HF_HUB_CACHE", directory.path().to_str().unwrap());
    let endpoint = format!("http://{endpoint}/");
    let variables = [cache, ("HF_ENDPOINT", endpoint.as_str()), ("HF_TOKEN", "hf_secret")];

    let counter = load_with(&hub("org/model"), &variables).unwrap();
    assert_eq!(counter.count("Hello, world!"), 6);

    let request = asked_hub.recv().unwrap();
    assert!(request.starts_with("get /org/model/resolve/main/tokenizer.json http/1.1"));
    assert!(request.contains("authorization: bearer hf_secret"), "{request}");
    let request = asked_storage.recv().unwrap();
    assert!(request.starts_with("get /blob?sig=1 http/1.1"));
    assert!(!request.contains("authorization"), "{request}");

    // Found in the cache from now on; the server is gone.
    assert!(load_with(&hub("org/model"), &variables).is_ok());
    let reference = directory.path().join("models--org--model/refs/main");
    assert_eq!(std::fs::read_to_string(reference).unwrap(), COMMIT);
}

#[test]
fn failed_downloads_say_what_to_do_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let cache = ("HF_HUB_CACHE", directory.path().to_str().unwrap());
    for (head, words) in [
        ("401 Unauthorized", "set HF_TOKEN"),
        ("404 Not Found", "the model does not exist"),
        ("302 Found", "a redirect without a location"),
    ] {
        // A second file is looked for if the first one is missing.
        let (address, _requests) = serve(vec![response(head, b"no"); 2]);
        let endpoint = format!("http://user:hf_secret@{address}");
        let variables = [cache, ("HF_ENDPOINT", endpoint.as_str()), ("HF_TOKEN", "hf_secret")];
        let error = load_with(&hub("org/model"), &variables).unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.contains(words) && text.contains("`builtin`"), "{text}");
        assert!(!text.contains("hf_secret"), "{text}");
    }
}

#[test]
fn redirects_without_end_are_given_up() {
    let (address, _requests) = serve(vec![response("307 Temporary\r\nlocation: /again", b""); 6]);
    let directory = tempfile::tempdir().unwrap();
    let cache = ("HF_HUB_CACHE", directory.path().to_str().unwrap());
    let endpoint = format!("http://{address}");
    let error =
        load_with(&hub("org/model"), &[cache, ("HF_ENDPOINT", endpoint.as_str())]).unwrap_err();
    assert!(error.to_string().contains("more than 5 redirects"), "{error}");
}

#[test]
fn a_download_that_is_not_a_tokenizer_is_not_kept() {
    let head = format!("200 OK\r\nx-repo-commit: {COMMIT}");
    let (address, _requests) = serve(vec![response(&head, b"<html>")]);
    let directory = tempfile::tempdir().unwrap();
    let cache = ("HF_HUB_CACHE", directory.path().to_str().unwrap());
    let endpoint = format!("http://{address}");
    let error =
        load_with(&hub("org/model"), &[cache, ("HF_ENDPOINT", endpoint.as_str())]).unwrap_err();
    assert!(matches!(error, TokenizerError::Invalid { .. }), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_download_works_where_an_async_runtime_runs() {
    let (address, _requests) = serve(vec![response("404 Not Found", b"")]);
    let endpoint = format!("http://{address}");
    let error = load_with(
        &hub("org/model"),
        &[("HF_HUB_CACHE", "/nonexistent"), ("HF_ENDPOINT", endpoint.as_str())],
    )
    .unwrap_err();
    assert!(matches!(error, TokenizerError::Download { .. }), "{error}");
}

proptest! {
    #[test]
    fn builtin_text_survives(text in ".{0,80}") {
        let builtin = TokenCounter::builtin();
        let tokens = builtin.encode(&text);
        prop_assert_eq!(tokens.len() as u64, builtin.count(&text));
        prop_assert_eq!(builtin.decode(&tokens), text);
    }

    #[test]
    fn any_tokens_decode(tokens in prop::collection::vec(any::<u32>(), 0..20)) {
        let _ = TokenCounter::builtin().decode(&tokens);
    }
}
