//! Writes the o200k vocabulary as `src/tokenizer/o200k.rs` reads it: each token
//! in order of its number, a byte of length before its bytes.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let tiktoken = tiktoken_rs::o200k_base()?;
    let mut tokens = Vec::new();
    for bytes in (0..).map_while(|id| tiktoken.decode_bytes(&[id]).ok()) {
        tokens.push(u8::try_from(bytes.len())?);
        tokens.extend(bytes);
    }
    let directory = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    Ok(fs::write(directory.join("o200k.tokens"), tokens)?)
}
