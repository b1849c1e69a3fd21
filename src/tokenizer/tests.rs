//! Counts are held to those of the Python packages `tokenizers` and `tiktoken`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tiny-model");

fn no_environment(_: &str) -> Option<String> {
    None
}

fn tiny() -> TokenCounter {
    TokenCounter::load(&Source::Path(TINY.into()), &no_environment).unwrap()
}

#[test]
fn a_local_tokenizer_counts_as_the_python_package_does() {
    let counter = tiny();
    for (text, tokens) in [
        ("Tell me a story about the benchmark.", 13),
        ("", 0),
        ("Hello, wörld! 你好 🎉", 21),
        ("def f(x):\n    return x ** 2\n", 11),
        (" the the the", 3),
        ("<|im_start|>user", 2),
    ] {
        assert_eq!(counter.count(text), tokens, "{text:?}");
    }
    assert_eq!(counter.encode(" the the the"), [276, 276, 276]);
    assert_eq!(counter.decode(&[276, 276]), " the the");
}

#[test]
fn the_builtin_vocabulary_is_o200k() {
    let counter = TokenCounter::builtin();
    // Published with tiktoken: o200k_base of "hello world" is [24912, 2375].
    assert_eq!(counter.encode("hello world"), [24912, 2375]);
    assert_eq!(counter.count("hello world"), 2);
    assert_eq!(counter.decode(&[24912, 2375]), "hello world");
}

#[test]
fn a_file_and_its_directory_are_the_same_tokenizer() {
    let file = Source::Path(Path::new(TINY).join("tokenizer.json"));
    let counter = TokenCounter::load(&file, &no_environment).unwrap();
    assert_eq!(counter.count(" the the the"), 3);
}

#[test]
fn what_is_no_tokenizer_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let load = |path: &Path| TokenCounter::load(&Source::Path(path.to_owned()), &no_environment);
    assert!(matches!(load(directory.path()), Err(TokenizerError::Missing(_))));
    let file = directory.path().join("tokenizer.json");
    fs::write(&file, "{}").unwrap();
    let message = load(&file).unwrap_err().to_string();
    assert!(message.contains("tokenizer.json") && message.contains("no tokenizer"), "{message}");
}

/// Lays the tiny tokenizer into a hub cache.
fn cache_with(name: &str) -> tempfile::TempDir {
    let cache = tempfile::tempdir().unwrap();
    let model = cache.path().join(format!("models--{}", name.replace('/', "--")));
    fs::create_dir_all(model.join("snapshots/abc123")).unwrap();
    fs::create_dir_all(model.join("refs")).unwrap();
    fs::write(model.join("refs/main"), "abc123\n").unwrap();
    fs::copy(Path::new(TINY).join("tokenizer.json"), model.join("snapshots/abc123/tokenizer.json"))
        .unwrap();
    cache
}

fn hub(name: &str) -> Source {
    Source::Hub { name: name.into(), revision: "main".into() }
}

#[test]
fn a_cached_name_needs_no_network() {
    let cache = cache_with("org/tiny");
    let path = cache.path().to_string_lossy().into_owned();
    let environment = |name: &str| match name {
        "HF_HUB_CACHE" => Some(path.clone()),
        "HF_HUB_OFFLINE" => Some("1".into()),
        _ => None,
    };
    assert!(is_cached("org/tiny", "main", &environment));
    assert_eq!(TokenCounter::load(&hub("org/tiny"), &environment).unwrap().count(" the"), 1);
    let message = TokenCounter::load(&hub("org/other"), &environment).unwrap_err().to_string();
    assert!(message.contains("HF_HUB_OFFLINE") && message.contains("builtin"), "{message}");
}

#[test]
fn names_do_not_leave_the_cache() {
    let environment = |name: &str| (name == "HF_HUB_CACHE").then(|| "/".to_owned());
    for name in ["../x", "a/..", "/etc", ""] {
        assert!(!is_cached(name, "main", &environment), "{name}");
    }
}

#[test]
fn a_download_goes_into_the_cache_and_shows_no_token() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            request.push(byte[0]);
        }
        let body = fs::read(Path::new(TINY).join("tokenizer.json")).unwrap();
        let head = format!(
            "HTTP/1.1 200 OK\r\nx-repo-commit: c0ffee\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        String::from_utf8(request).unwrap()
    });
    let cache = tempfile::tempdir().unwrap();
    let path = cache.path().to_string_lossy().into_owned();
    let environment = |name: &str| match name {
        "HF_HUB_CACHE" => Some(path.clone()),
        "HF_ENDPOINT" => Some(endpoint.clone()),
        "HF_TOKEN" => Some("s3cret".into()),
        _ => None,
    };
    let counter = TokenCounter::load(&hub("org/tiny"), &environment).unwrap();
    assert_eq!(counter.count(" the the"), 2);
    let request = server.join().unwrap();
    assert!(request.starts_with("GET /org/tiny/resolve/main/tokenizer.json "), "{request}");
    assert!(request.to_ascii_lowercase().contains("authorization: bearer s3cret"));
    let model = cache.path().join("models--org--tiny");
    assert_eq!(fs::read_to_string(model.join("refs/main")).unwrap(), "c0ffee");
    assert!(model.join("snapshots/c0ffee/tokenizer.json").is_file());
    // The server is gone: an error that names the model and no secret.
    let message = TokenCounter::load(&hub("org/more"), &environment).unwrap_err().to_string();
    assert!(message.contains("org/more") && !message.contains("s3cret"), "{message}");
}
