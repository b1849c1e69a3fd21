//! Text to token counts.

use std::path::PathBuf;

/// Which tokenizer counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The embedded o200k vocabulary.
    Builtin,
    /// A `tokenizer.json`, or a directory that holds one.
    Path(PathBuf),
    /// A name on the model hub: from the local cache, else downloaded.
    Hub {
        /// As in `org/name`.
        name: String,
        /// Branch, tag or commit.
        revision: String,
    },
}
