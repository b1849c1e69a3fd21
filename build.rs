//! Passes its commit to a release build.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // In a debug build each commit would compile the program again.
    if env::var("PROFILE").as_deref() == Ok("release") {
        commit();
    }
}

/// Sets `AIPERF_COMMIT` for the compiler, where this is a git checkout and git is there.
fn commit() {
    let Some(text) = git(&["rev-parse", "HEAD"]) else { return };
    let is_changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    let dirty = if is_changed.is_some_and(|text| !text.is_empty()) { "-dirty" } else { "" };
    println!("cargo::rustc-env=AIPERF_COMMIT={text}{dirty}");
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
