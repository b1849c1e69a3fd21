//! Writes the o200k vocabulary as `src/tokenizer/o200k.rs` reads it: each token
//! in order of its number, a byte of length before its bytes. Tells a release build
//! which commit it is made of.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let tiktoken = tiktoken_rs::o200k_base()?;
    let mut tokens = Vec::new();
    for bytes in (0..).map_while(|id| tiktoken.decode_bytes(&[id]).ok()) {
        tokens.push(u8::try_from(bytes.len())?);
        tokens.extend(bytes);
    }
    // In a debug build each commit would compile everything again.
    if env::var("PROFILE").as_deref() == Ok("release") {
        commit();
    }
    let directory = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    Ok(fs::write(directory.join("o200k.tokens"), tokens)?)
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
