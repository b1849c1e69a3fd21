//! Writes the index of the o200k vocabulary as `tokenizer/o200k.rs` reads it.
//!
//! `o200k.tokens` holds the tokens in order of their numbers, a byte of length before the bytes of
//! each. `o200k.index` holds little-endian 32-bit numbers: for each token, the offset of its bytes in
//! `o200k.tokens`; then the slots of the hash table.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

#[path = "tokenizer/o200k/table.rs"]
mod table;

use table::{FREE, Hash, SLOTS};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=tokenizer/o200k");
    let tokens = fs::read("tokenizer/o200k/o200k.tokens")?;
    let mut index = Vec::new();
    let mut slots = vec![FREE; SLOTS];
    let (mut at, mut id) = (0, 0);
    while let Some((length, rest)) = tokens[at..].split_first() {
        let bytes = rest.get(..usize::from(*length)).ok_or("the last token is not whole")?;
        index.push(u32::try_from(at + 1)?);
        let hash = Hash::of_bytes(bytes);
        let free = hash.slots().find(|at| slots[*at] == FREE).ok_or("the table has free slots")?;
        slots[free] = hash.slot(id);
        if table::id(slots[free]) != id {
            return Err(format!("a slot has too few bits for token {id}").into());
        }
        at += 1 + bytes.len();
        id += 1;
    }
    index.append(&mut slots);
    let index: Vec<u8> = index.into_iter().flat_map(u32::to_le_bytes).collect();
    let directory = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    Ok(fs::write(directory.join("o200k.index"), index)?)
}
