//! `tiktoken.model`: the tokens of a model, in the format of OpenAI's tiktoken.
//!
//! A line has the bytes of a token in base64, and its rank. The file does not define how text is split
//! before tokens are merged: that is in the Python code of the model, which `tokenizer_config.json`
//! names. Such a file can therefore only be read if the expressions of that code are known here.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foldhash::fast::RandomState;
use regex_automata::meta::Regex;
use serde::Deserialize;

use super::bpe::{self, Pieces, Tokens};
use super::sha256;

/// Name of the file.
pub(super) const TIKTOKEN: &str = "tiktoken.model";

/// The Python classes whose expressions are known, with these: those for everything but spaces, which all
/// classes split alike.
///
/// Source: `pat_str` in `tokenization_kimi.py` of `moonshotai/Kimi-K2-Instruct` and its successors.
const CLASSES: [(&str, &str); 1] = [(
    "tokenization_kimi.TikTokenTokenizer",
    concat!(
        r"[\p{Han}]+",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}",
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"|\s*[\r\n]+",
    ),
)];

/// Maximum distance of a special token's number from those of the other tokens; Kimi reserves 256.
const MAX_SPECIAL: u32 = 1 << 16;

/// Encoder and decoder of a file.
pub(super) struct Tiktoken {
    tokens: Ranks,
    pieces: Pieces,
    specials: Specials,
    pub(super) sha256: Arc<str>,
}

/// The tokens of the file.
struct Ranks {
    ids: HashMap<Arc<[u8]>, u32, RandomState>,
    bytes: Vec<Arc<[u8]>>,
}

impl Tokens for Ranks {
    fn id(&self, bytes: &[u8]) -> Option<u32> {
        self.ids.get(bytes).copied()
    }

    fn bytes(&self, token: u32) -> &[u8] {
        self.bytes.get(token as usize).map_or(&[], |bytes| bytes)
    }
}

/// The special tokens, which a text may contain by their names.
struct Specials {
    /// Names with numbers, longest first.
    all: Vec<(String, u32)>,
    /// An expression for each of them; `None` without any.
    names: Option<Regex>,
}

/// The members of `tokenizer_config.json` that are used.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    auto_map: AutoMap,
    #[serde(default)]
    added_tokens_decoder: HashMap<String, AddedToken>,
}

#[derive(Default, Deserialize)]
struct AutoMap {
    #[serde(rename = "AutoTokenizer")]
    tokenizer: Option<Classes>,
}

/// The class of a model's code, or its slow and its fast one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Classes {
    One(String),
    SlowAndFast(Vec<Option<String>>),
}

#[derive(Deserialize)]
struct AddedToken {
    content: String,
}

impl Tiktoken {
    /// Parses the file and the `tokenizer_config.json` beside it. The error describes what is not usable.
    pub(super) fn parse(model: &[u8], config: Option<&[u8]>) -> Result<Self, String> {
        let config = config.ok_or(
            "the tokenizer_config.json beside it is missing, which names the code that splits text",
        )?;
        let config: Config = serde_json::from_slice(config)
            .map_err(|error| format!("tokenizer_config.json: {error}"))?;
        let words = config.words()?;
        let tokens = Ranks::parse(model)?;
        let specials = Specials::new(config.added_tokens_decoder, tokens.bytes.len() as u32)?;
        let pieces = Pieces::new(words).map_err(|error| error.to_string())?;
        Ok(Self { tokens, pieces, specials, sha256: sha256(model) })
    }

    pub(super) fn encode(&self, text: &str) -> Vec<u32> {
        let mut found = Vec::with_capacity(text.len() / 4);
        let mut rest = 0;
        for (at, special) in self.specials.within(text) {
            bpe::encode(&self.tokens, &self.pieces, &text[rest..at.start], &mut found);
            found.push(special);
            rest = at.end;
        }
        bpe::encode(&self.tokens, &self.pieces, &text[rest..], &mut found);
        found
    }

    /// Returns the bytes of `tokens`; unknown tokens have none.
    pub(super) fn decode(&self, tokens: &[u32]) -> Vec<u8> {
        let bytes = tokens.iter().map(|token| match self.tokens.bytes(*token) {
            [] => self.specials.name(*token).unwrap_or_default().as_bytes(),
            bytes => bytes,
        });
        bytes.collect::<Vec<_>>().concat()
    }

    /// Returns the number of token IDs, of which some may be unused.
    pub(super) fn size(&self) -> u32 {
        let specials = self.specials.all.iter().map(|(_, id)| id + 1);
        specials.fold(self.tokens.bytes.len() as u32, u32::max)
    }

    pub(super) fn is_special(&self, token: u32) -> bool {
        self.specials.name(token).is_some()
    }
}

impl Config {
    /// Returns the expressions of the model's class.
    fn words(&self) -> Result<&'static str, String> {
        let class = match &self.auto_map.tokenizer {
            Some(Classes::One(class)) => Some(class),
            Some(Classes::SlowAndFast(classes)) => classes.iter().flatten().next(),
            None => None,
        };
        let Some(class) = class else {
            return Err("tokenizer_config.json does not name the code that splits text".to_owned());
        };
        // A copy names the repository of the code, as in `org/model--file.Class`.
        let (_, class) = class.rsplit_once("--").unwrap_or(("", class));
        let known = CLASSES.iter().find(|(name, _)| *name == class);
        known.map(|(_, words)| *words).ok_or_else(|| {
            let known = CLASSES.map(|(name, _)| name).join(", ");
            format!(
                "its text is split by the code {class:?} of the model, which is not run; known is what \
                 {known} does"
            )
        })
    }
}

impl Ranks {
    fn parse(model: &[u8]) -> Result<Self, String> {
        let mut ids: HashMap<Arc<[u8]>, u32, RandomState> = HashMap::default();
        let lines = model.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        for (number, line) in (1..).zip(lines).filter(|(_, line)| !line.is_empty()) {
            let (bytes, rank) = token(line)
                .ok_or_else(|| format!("line {number} is not a token in base64 and its rank"))?;
            if ids.insert(bytes.into(), rank).is_some() {
                return Err(format!("line {number} has a token that a line before has too"));
            }
        }
        let mut bytes: Vec<Arc<[u8]>> = vec![Arc::from(&[][..]); ids.len()];
        for (token, rank) in &ids {
            match bytes.get_mut(*rank as usize) {
                Some(free) if free.is_empty() => *free = token.clone(),
                _ => return Err(format!("its ranks are not those from 0 to {}", ids.len() - 1)),
            }
        }
        match (0..=u8::MAX).find(|byte| !ids.contains_key(&[*byte][..])) {
            Some(byte) => {
                Err(format!("the byte {byte} is not a token, so that not all text can be encoded"))
            }
            None => Ok(Self { ids, bytes }),
        }
    }
}

/// Parses a line: a token, which is not empty, and its rank.
fn token(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let space = line.iter().position(|byte| *byte == b' ')?;
    let bytes = STANDARD.decode(&line[..space]).ok().filter(|bytes| !bytes.is_empty())?;
    let rank = std::str::from_utf8(&line[space + 1..]).ok()?.parse().ok()?;
    Some((bytes, rank))
}

impl Specials {
    /// Creates the special tokens of a vocabulary with `count` other tokens.
    fn new(added: HashMap<String, AddedToken>, count: u32) -> Result<Self, String> {
        let mut all = Vec::with_capacity(added.len());
        for (number, AddedToken { content }) in added {
            let id = number
                .parse()
                .ok()
                .filter(|id| *id >= count && id - count < MAX_SPECIAL && !content.is_empty());
            let id = id.ok_or_else(|| {
                format!(
                    "tokenizer_config.json: the special token {content:?} with the number {number:?} is not \
                     one after the {count} of {TIKTOKEN}"
                )
            })?;
            all.push((content, id));
        }
        all.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.cmp(b)));
        let names: Vec<String> = all.iter().map(|(name, _)| escaped(name)).collect();
        let names = if names.is_empty() {
            None
        } else {
            let compiled = Regex::new_many(&names);
            Some(compiled.map_err(|error| format!("its special tokens: {error}"))?)
        };
        Ok(Self { all, names })
    }

    /// Returns where special tokens are in `text`.
    fn within<'t>(
        &'t self,
        text: &'t str,
    ) -> impl Iterator<Item = (std::ops::Range<usize>, u32)> + 't {
        let names = self.names.iter().flat_map(move |names| names.find_iter(text));
        names.map(|found| (found.range(), self.all[found.pattern().as_usize()].1))
    }

    fn name(&self, token: u32) -> Option<&str> {
        self.all.iter().find(|(_, id)| *id == token).map(|(name, _)| name.as_str())
    }
}

/// Returns an expression that matches `text` only.
fn escaped(text: &str) -> String {
    let mut expression = String::new();
    for c in text.chars() {
        // Writing to a string does not fail.
        let _ = write!(expression, "\\x{{{:x}}}", u32::from(c));
    }
    expression
}

#[cfg(test)]
mod tests;
