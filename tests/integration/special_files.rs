//! Outputs whose names are those of devices, pipes and links.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use crate::support::load::{mock, varied};
use crate::support::run::{aiperf, profile_command};

#[test]
fn a_pipe_a_link_and_a_device_stay_what_they_are() {
    let mock = mock(varied());
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let shown = |name: &str| path(name).display().to_string();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    fs::write(path("behind"), "before".repeat(100_000)).unwrap();
    symlink("behind", path("link")).unwrap();
    symlink("new", path("dangling")).unwrap();
    let reader = Command::new("cat").arg(path("pipe")).stdout(Stdio::piped()).spawn().unwrap();
    // Its own output is a pipe too.
    let reader = thread::spawn(|| reader.wait_with_output().unwrap().stdout);
    let flags = ["--request-count", "2", "--gate", "request_count:avg>=2"];
    let of = |junit: &str, page: &str| {
        let flags = [&flags[..], &["--junit", junit, "--html", page]].concat();
        let run = tempfile::tempdir().unwrap();
        let output = profile_command(&mock.url(), run.path(), &flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };

    of(&shown("link"), &shown("pipe"));
    let read = reader.join().unwrap();
    let page = String::from_utf8(read).unwrap().to_lowercase();
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    let junit = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        assert!(text.starts_with("<?xml") && text.trim_end().ends_with("</testsuites>"), "{text}");
    };
    junit(&path("behind"));
    of(&shown("dangling"), "/dev/null");
    junit(&path("new"));
    let kind = |name: &str| fs::symlink_metadata(path(name)).unwrap().file_type();
    assert!(kind("pipe").is_fifo() && kind("link").is_symlink() && kind("dangling").is_symlink());
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
}

#[test]
fn a_pipe_that_nobody_reads_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let trace = place.path().join("trace.jsonl");
    fs::write(
        &trace,
        "{\"timestamp\": 0, \"input_length\": 4, \"output_length\": 2, \"hash_ids\": [1]}\n",
    )
    .unwrap();
    let arguments =
        ["analyze-trace", trace.to_str().unwrap(), "--output-file", pipe.to_str().unwrap()];
    let output = aiperf(&arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("nobody reads from it"), "{stderr}");
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}
