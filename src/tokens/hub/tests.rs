use std::fs;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::fixture::{response, serve};
use super::*;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// `sha256sum` of `0123456789`.
const SHA256: &str = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882";
/// `git hash-object` of `0123456789`.
const GIT: &str = "ad471007bd7f5983d273b9584e5629230150fd54";

fn hub(cache: &Path, endpoint: &str, variables: &[(&str, &str)]) -> Hub {
    let lookup = |name: &str| match name {
        "HF_HUB_CACHE" => Some(cache.to_str().unwrap().to_owned()),
        "HF_ENDPOINT" => Some(endpoint.to_owned()),
        _ => variables.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned()),
    };
    Hub { pause: Duration::ZERO, ..Hub::new(Environment::new(&lookup)) }
}

fn at(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn open(hub: &Hub, file: &str) -> Result<String, HubError> {
    let mut opened =
        hub.repository(RepositoryKind::Dataset, "org/name", "main")?.open(file, 1000)?;
    let mut text = String::new();
    opened.read_to_string(&mut text).unwrap();
    Ok(text)
}

/// The head of a response with a file of the hub.
fn head(status: &str, etag: &str) -> String {
    format!("{status}\r\nx-repo-commit: {COMMIT}\r\netag: \"{etag}\"")
}

#[test]
fn a_download_has_the_layout_of_the_shared_cache() {
    let (address, requests) = serve(vec![response(&head("200 OK", SHA256), b"0123456789")]);
    let cache = tempfile::tempdir().unwrap();
    let transfers = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&transfers);
    let hub = hub(cache.path(), &at(address), &[]).watched(move |transfer| {
        seen.lock().unwrap().push((transfer.file.to_owned(), transfer.bytes, transfer.total));
    });
    assert_eq!(open(&hub, "data/a b.json").unwrap(), "0123456789");
    let request = requests.recv().unwrap();
    assert!(
        request.starts_with("get /datasets/org/name/resolve/main/data/a%20b.json http/1.1"),
        "{request}"
    );
    let repository = cache.path().join("datasets--org--name");
    let read = |path: &str| fs::read_to_string(repository.join(path)).unwrap();
    assert_eq!(read("refs/main"), COMMIT);
    assert_eq!(read(&format!("blobs/{SHA256}")), "0123456789");
    assert_eq!(read(&format!("snapshots/{COMMIT}/data/a b.json")), "0123456789");
    assert_eq!(fs::read_dir(repository.join("blobs")).unwrap().count(), 1);
    let transfers = transfers.lock().unwrap();
    let name = || "data/a b.json".to_owned();
    assert_eq!(*transfers.first().unwrap(), (name(), 0, Some(10)));
    assert_eq!(*transfers.last().unwrap(), (name(), 10, Some(10)));
    // From now on it is in the cache.
    assert_eq!(open(&hub, "data/a b.json").unwrap(), "0123456789");
}

#[test]
fn an_interrupted_download_is_continued() {
    let whole = response(&head("200 OK", SHA256), b"0123456789");
    let cut = whole[..whole.len() - 6].to_vec();
    let range = head("206 Partial Content", SHA256) + "\r\ncontent-range: bytes 4-9/10";
    let (address, requests) = serve(vec![cut, whole, response(&range, b"456789")]);
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(open(&hub(cache.path(), &at(address), &[]), "a").unwrap(), "0123456789");
    let ranges: Vec<bool> = requests.iter().map(|it| it.contains("range: bytes=4-")).collect();
    assert_eq!(ranges, [false, false, true]);
}

#[test]
fn a_download_of_an_earlier_run_is_continued_or_begun_again() {
    let blobs = |cache: &Path| cache.join("datasets--org--name/blobs");
    let whole = || response(&head("200 OK", GIT), b"0123456789");
    let range = head("206 Partial Content", GIT) + "\r\ncontent-range: bytes 4-9/10";
    for responses in [
        // A hub that ignores ranges, and one that rejects this one.
        vec![whole(), whole()],
        vec![whole(), response("416 Range Not Satisfiable", b"")],
        // The beginning turns out to be wrong.
        vec![whole(), response(&range, b"456789"), whole()],
    ] {
        let (address, _requests) = serve(responses);
        let cache = tempfile::tempdir().unwrap();
        fs::create_dir_all(blobs(cache.path())).unwrap();
        fs::write(blobs(cache.path()).join(format!("{GIT}.incomplete")), "01xx").unwrap();
        assert_eq!(open(&hub(cache.path(), &at(address), &[]), "a").unwrap(), "0123456789");
    }
}

#[test]
fn content_that_does_not_match_its_hash_is_downloaded_again() {
    for etag in [SHA256, GIT] {
        let wrong = response(&head("200 OK", etag), b"012345678x");
        let right = response(&head("200 OK", etag), b"0123456789");
        let (address, _requests) = serve(vec![wrong.clone(), right]);
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(open(&hub(cache.path(), &at(address), &[]), "a").unwrap(), "0123456789");

        let (address, _requests) = serve(vec![wrong; 8]);
        let cache = tempfile::tempdir().unwrap();
        let error = open(&hub(cache.path(), &at(address), &[]), "a").unwrap_err();
        assert!(error.to_string().contains("does not match its checksum"), "{error}");
        assert!(!cache.path().join("datasets--org--name/snapshots").exists());
    }
}

#[test]
fn only_failures_that_may_pass_are_repeated() {
    let busy = || response("503 Service Unavailable", b"");
    let ok = response(&head("200 OK", SHA256), b"0123456789");
    let (address, _requests) =
        serve(vec![busy(), response("429 Too Many\r\nretry-after: 0", b""), ok]);
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(open(&hub(cache.path(), &at(address), &[]), "a").unwrap(), "0123456789");

    let cases = [("503 Service Unavailable", 8), ("404 Not Found", 1), ("403 Forbidden", 1)];
    for (status, attempts) in cases {
        let (address, requests) = serve(vec![response(status, b""); attempts]);
        let cache = tempfile::tempdir().unwrap();
        let error = open(&hub(cache.path(), &at(address), &[]), "a").unwrap_err();
        assert_eq!(requests.iter().count(), attempts, "{error}");
    }
    // A long pause is not waited for, and not ignored either.
    let (address, requests) = serve(vec![response("429 Too Many\r\nretry-after: 3600", b"")]);
    let cache = tempfile::tempdir().unwrap();
    let error = open(&hub(cache.path(), &at(address), &[]), "a").unwrap_err();
    assert_eq!(requests.iter().count(), 1);
    let error = error.to_string();
    assert!(error.contains("asked for a pause of 3600 s"), "{error}");
}

#[test]
fn a_hub_that_never_responds_is_not_asked_for_long() {
    let cache = tempfile::tempdir().unwrap();
    let (address, requests) = serve(vec![Vec::new(); 3]);
    let error = open(&hub(cache.path(), &at(address), &[]), "a").unwrap_err();
    assert_eq!(requests.iter().count(), 3, "{error}");
    assert!(error.to_string().contains("is HF_ENDPOINT the URL of a hub?"), "{error}");

    // After a response, a connection that is closed may be a matter of luck.
    let closed = vec![Vec::new(); 4];
    let busy = vec![response("503 Service Unavailable", b"")];
    let ok = vec![response(&head("200 OK", SHA256), b"0123456789")];
    let (address, _requests) = serve([busy, closed, ok].concat());
    assert_eq!(open(&hub(cache.path(), &at(address), &[]), "a").unwrap(), "0123456789");

    let error = open(&hub(cache.path(), "file:///", &[]), "b").unwrap_err();
    assert!(error.to_string().contains("cannot download over file"), "{error}");
}

#[test]
fn files_that_are_too_large_and_caches_that_cannot_be_written() {
    let body = vec![b'x'; 1001];
    let (address, _requests) = serve(vec![response(&head("200 OK", "weak-1"), &body)]);
    let cache = tempfile::tempdir().unwrap();
    let error = open(&hub(cache.path(), &at(address), &[]), "a").unwrap_err();
    assert!(error.to_string().contains("it exceeds"), "{error}");

    let (address, _requests) = serve(vec![response(&head("200 OK", SHA256), b"0123456789")]);
    let file = cache.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(open(&hub(&file, &at(address), &[]), "a").unwrap(), "0123456789");
}

#[test]
fn the_list_of_files_is_that_of_the_hub_or_of_the_cache() {
    let list = format!(
        r#"{{"sha": "{COMMIT}", "siblings": [{{"rfilename": "b/c.json"}}, {{"rfilename": "a"}}]}}"#
    );
    let file = response(&head("200 OK", SHA256), b"0123456789");
    let (address, requests) = serve(vec![response("200 OK", list.as_bytes()), file]);
    let cache = tempfile::tempdir().unwrap();
    let listed = |hub: &Hub| {
        hub.repository(RepositoryKind::Dataset, "org/name", "refs/convert/parquet").unwrap().list()
    };
    let online = hub(cache.path(), &at(address), &[("HF_TOKEN", "hf_secret")]);
    let listing = listed(&online).unwrap();
    assert_eq!(
        (listing.commit.as_str(), &*listing.files),
        (COMMIT, &["a".into(), "b/c.json".into()][..])
    );
    let request = requests.recv().unwrap();
    assert!(
        request.starts_with("get /api/datasets/org/name/revision/refs%2fconvert%2fparquet http"),
        "{request}"
    );
    assert!(request.contains("authorization: bearer hf_secret"), "{request}");

    let offline = hub(cache.path(), &at(address), &[("HF_HUB_OFFLINE", "1")]);
    assert!(matches!(listed(&offline), Err(HubError::Offline { .. })));
    online
        .repository(RepositoryKind::Dataset, "org/name", COMMIT)
        .unwrap()
        .open("b/c.json", 100)
        .unwrap();
    assert_eq!(listed(&offline).unwrap().files, ["b/c.json"]);
    // The hub cannot be reached any more.
    assert_eq!(listed(&online).unwrap().files, ["b/c.json"]);
}

#[test]
fn the_token_stays_with_the_hub() {
    let (other, requests) = serve(vec![response("200 OK", b"{}")]);
    let cache = tempfile::tempdir().unwrap();
    let hub = hub(cache.path(), "http://127.0.0.1:1", &[("HF_TOKEN", "hf_secret")]);
    assert_eq!(hub.get(&format!("http://{other}/file"), 10).unwrap(), b"{}");
    assert!(!requests.recv().unwrap().contains("authorization"));
    assert!(!format!("{hub:?}").contains("hf_secret"));
}

#[test]
fn names_that_would_leave_the_cache_are_rejected() {
    let cache = tempfile::tempdir().unwrap();
    let hub = hub(cache.path(), "http://127.0.0.1:1", &[]);
    for name in ["../x", "a/b/c", "", "a/", ".."] {
        assert!(hub.repository(RepositoryKind::Dataset, name, "main").is_err(), "{name}");
    }
    let repository = hub.repository(RepositoryKind::Dataset, "org/name", "main").unwrap();
    for file in ["../x", "a/../../x", "/etc/passwd", "a\\b", "c:x", "a//b", ""] {
        assert!(matches!(repository.open(file, 10), Err(HubError::Name { .. })), "{file}");
        assert!(repository.cached(file).is_none(), "{file}");
    }
}
