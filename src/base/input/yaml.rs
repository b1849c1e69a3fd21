//! YAML within limits, and texts with the values of environment variables in it.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_norway::Value;

use super::size;

/// Maximum depth of lists and groups within each other. The time to parse grows with its square.
pub const MAX_DEPTH: usize = 128;

/// Maximum time to parse a text.
const MAX_TIME: Duration = Duration::from_secs(10);

/// Maximum size of all values of variables in a document, in bytes.
const MAX_VALUE_BYTES: usize = 4 << 20;

/// Parses YAML. Text that takes too long is an error; its thread ends with the program.
///
/// # Errors
///
/// The reason does not quote the text, which may be a secret.
pub fn parsed(text: &str) -> Result<Value, String> {
    let too_deep = || format!("nested more than {MAX_DEPTH} levels deep");
    if depth(text) > MAX_DEPTH {
        return Err(too_deep());
    }
    let (tell, parsed) = mpsc::channel();
    let text = text.to_owned();
    let parse = move || drop(tell.send(serde_norway::from_str::<Value>(&text)));
    let started = thread::Builder::new().name("yaml".to_owned()).spawn(parse);
    started.map_err(|error| format!("not parsed, since a thread cannot be started: {error}"))?;
    parsed.recv_timeout(MAX_TIME).map_err(|_| too_deep())?.map_err(|error| {
        error.location().map_or_else(
            || format!("not valid YAML: {error}"),
            |at| format!("not valid YAML at line {}, column {}", at.line(), at.column()),
        )
    })
}

/// Returns the greatest number of brackets that are open at the same place, or of lists that begin on
/// one line. Those in texts count too, which rarely have many.
fn depth(text: &str) -> usize {
    let (mut depth, mut greatest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        greatest = greatest.max(depth);
    }
    let begun = |line: &str| {
        let marks = line.split([' ', '\t']).filter(|word| !word.is_empty());
        marks.take_while(|word| ["-", "?", ":"].contains(word)).count()
    };
    text.split(['\n', '\r']).map(begun).fold(greatest, usize::max)
}

/// How many bytes the values of variables in a document may still have.
#[derive(Debug)]
pub struct Room(usize);

impl Default for Room {
    fn default() -> Self {
        Self(MAX_VALUE_BYTES)
    }
}

impl Room {
    /// Takes the room of a value.
    ///
    /// # Errors
    ///
    /// Fails if there is not enough left.
    pub fn take(&mut self, value: &str) -> Result<(), String> {
        let left = self.0.checked_sub(value.len());
        self.0 = left.ok_or_else(|| {
            format!("the values of variables exceed {}", size(MAX_VALUE_BYTES as u64))
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_is_limited_in_every_notation() {
        for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")] {
            let nested = |levels: usize| {
                let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
                parsed(&text)
            };
            assert!(nested(100).is_ok(), "{open}");
            for levels in [129, 100_000] {
                let error = nested(levels).unwrap_err();
                assert_eq!(error, "nested more than 128 levels deep", "{open}");
            }
        }
    }
}
