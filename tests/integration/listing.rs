//! `aiperf list` and `aiperf show`.

use std::path::Path;
use std::process::Output;

use mock_server::Script;

use crate::support::load::mock;
use crate::support::run::{aiperf, profile_command, summary};

fn ran(arguments: &[&str], place: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = aiperf(arguments).current_dir(place).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (status.code(), text(&stdout), text(&stderr))
}

fn measure(url: &str, directory: &Path, flags: &[&str]) {
    let output = profile_command(url, directory, flags).output().unwrap();
    let code = output.status.code();
    assert!(code == Some(0) || code == Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(unix)]
#[test]
fn names_of_directories_do_not_control_the_terminal() {
    let server = mock(Script::default());
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("all\u{1b}[31m");
    measure(&server.url(), &runs.join("run\u{1b}[2J"), &["--request-count", "2"]);
    let directory = runs.to_str().unwrap();
    for arguments in [
        &["list", directory, "--html"][..],
        &["show", "--artifact-dir", directory],
        &["report", directory],
        &["list", "no\u{1b}[31m"],
    ] {
        let (_, output, said) = ran(arguments, place.path());
        assert!(!output.contains('\u{1b}') && !said.contains('\u{1b}'), "{output}{said}");
    }
    let page = std::fs::read_to_string(runs.join("index.html")).unwrap();
    assert!(!page.contains('\u{1b}'));
}

/// A single run with a name, a sweep of two, and a run that misses its gate, in this order.
#[test]
fn runs_are_listed_newest_first_and_shown_again() {
    let server = mock(Script::default());
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("artifacts");
    let flags = ["--request-count", "4", "--run-name", "baseline", "--html"];
    measure(&server.url(), &runs.join("first"), &flags);
    measure(&server.url(), &runs.join("swept"), &["--request-count", "4", "--concurrency", "1,2"]);
    let gated = ["--request-count", "4", "--gate", "request_latency:avg<=0.000001ms"];
    measure(&server.url(), &runs.join("deep/gated"), &gated);
    // What is not a run, and a link to one, are not listed.
    std::fs::create_dir(runs.join("notes")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("first", runs.join("latest")).unwrap();

    let (code, listed, said) = ran(&["list", "--html"], place.path());
    assert_eq!(code, Some(0), "{said}");
    let rows: Vec<&str> =
        listed.lines().skip_while(|line| !line.starts_with("Run ")).skip(1).collect();
    let first_words: Vec<&str> = rows
        .iter()
        .map(|row| row.split_whitespace().find(|it| *it != "└").unwrap_or_default())
        .collect();
    let expected =
        ["deep/gated", "swept", "concurrency_1", "concurrency_2", "first", "In", "Page:"];
    assert_eq!(first_words, expected, "{listed}");
    assert!(rows[0].ends_with("0 of 1 gates held"), "{listed}");
    assert!(rows[1].contains("by concurrency") && rows[1].contains(" 2 runs"), "{listed}");
    assert!(rows[4].starts_with("first (baseline)"), "{listed}");
    let p99 = summary(&runs.join("first"))["request_latency"]["p99"].as_f64().unwrap();
    let shown = rows[4]
        .split_whitespace()
        .filter_map(|word| word.replace([',', '(', ')'], "").parse().ok());
    assert!(
        shown.into_iter().any(|value: f64| (value - p99).abs() <= 1e-3 * p99),
        "{p99} {listed}"
    );

    let page = std::fs::read_to_string(runs.join("index.html")).unwrap();
    assert!(page.contains("<a href=\"./first/report.html\">first (baseline)</a>"), "{page}");
    assert!(page.contains("0 of 1 gates held"));

    // A page in another directory leads to the same pages.
    std::fs::create_dir_all(place.path().join("site/runs")).unwrap();
    let (code, _, said) = ran(&["list", "--html", "site/runs/all.html"], place.path());
    assert_eq!(code, Some(0), "{said}");
    let page = std::fs::read_to_string(place.path().join("site/runs/all.html")).unwrap();
    let link = "../../artifacts/first/report.html";
    assert!(page.contains(&format!("<a href=\"./{link}\">")), "{page}");
    assert!(place.path().join("site/runs").join(link).is_file());

    // By name, by path, by ID, and the newest.
    let again = |arguments: &[&str]| {
        let (code, text, said) = ran(&[&["show"], arguments].concat(), place.path());
        assert_eq!(code, Some(0), "{said}");
        text
    };
    let named = again(&["baseline"]);
    assert!(named.contains("Request latency (ms)") && named.contains("of 4 requests"), "{named}");
    assert_eq!(again(&["artifacts/first"]).lines().next(), named.lines().next());
    let id = summary(&runs.join("first"))["benchmark_id"].as_str().unwrap().to_owned();
    assert_eq!(again(&[&id[..8]]), named);
    assert!(again(&[]).contains("Gates: 0 of 1 held"), "{}", again(&[]));
    assert!(again(&["swept"]).contains("concurrency"), "{}", again(&["swept"]));
    assert!(again(&["concurrency_2"]).contains("concurrency 2"), "{}", again(&["concurrency_2"]));
    assert!(again(&["baseline", "--tables", "all"]).len() > named.len());
}

#[test]
fn what_is_not_there_is_named() {
    let place = tempfile::tempdir().unwrap();
    for arguments in [&["list"][..], &["show"]] {
        let (code, _, said) = ran(arguments, place.path());
        assert_eq!(code, Some(1));
        assert!(said.contains("artifacts is not a directory"), "{said}");
    }
    std::fs::create_dir(place.path().join("artifacts")).unwrap();
    let (_, _, said) = ran(&["list"], place.path());
    assert!(said.contains("artifacts does not contain the artifacts of a run"), "{said}");
    let server = mock(Script::default());
    measure(&server.url(), &place.path().join("artifacts/one"), &["--request-count", "2"]);
    let (code, _, said) = ran(&["show", "other"], place.path());
    assert_eq!(code, Some(1));
    assert!(said.contains("does not contain a run called \"other\""), "{said}");
}

/// A run that was killed has a manifest without an end; a summary alone is one of AIPerf's.
#[test]
fn unfinished_and_foreign_runs_are_listed_with_what_is_known() {
    let server = mock(Script::default());
    let place = tempfile::tempdir().unwrap();
    let runs = place.path().join("artifacts");
    measure(&server.url(), &runs.join("killed"), &["--request-count", "2"]);
    let manifest = runs.join("killed/run_manifest.json");
    let mut text: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&manifest).unwrap()).unwrap();
    text.as_object_mut().unwrap().remove("end");
    std::fs::write(&manifest, text.to_string()).unwrap();
    std::fs::remove_file(runs.join("killed/profile_export_aiperf.json")).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/aiperf-0.13");
    std::fs::create_dir(runs.join("foreign")).unwrap();
    let name = "profile_export_aiperf.json";
    std::fs::copy(golden.join(name), runs.join("foreign").join(name)).unwrap();
    let (code, listed, said) = ran(&["list"], place.path());
    assert_eq!(code, Some(0), "{said}");
    let row = |name: &str| listed.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(row("killed").ends_with("running or killed"), "{listed}");
    assert!(row("foreign").ends_with("complete"), "{listed}");
}
