//! Errors of loading a dataset.

use std::path::PathBuf;

use thiserror::Error;

use base::setting::InvalidSetting;

/// Error of loading a dataset.
#[derive(Debug, Error)]
pub enum DatasetError {
    /// The file cannot be read.
    #[error("cannot read the dataset {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A line of the file does not match its format.
    #[error("{path}, line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Description of the error, and of the expected content.
        reason: String,
    },
    /// An entry of the document does not match the format.
    #[error("{path}, entry {entry}: {reason}")]
    Entry {
        /// The file.
        path: PathBuf,
        /// Number of the entry in the document's array, from 1.
        entry: usize,
        /// Description of the error, and of the expected content.
        reason: String,
    },
    /// The content matches no known format.
    #[error(
        "cannot detect the format of {path}: its first line has none of the fields `text`, \
         `texts`, `turns`, `image`, `audio`, `video`, `data`, `input_length`, `text_input`, \
         `messages`, `chat_id`, `captureData`, `requests` and `resourceSpans`, and is not a BurstGPT \
         header; use --custom-dataset-type"
    )]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file contains no usable conversation.
    #[error("{path} contains no usable conversation{note}")]
    Empty {
        /// The file.
        path: PathBuf,
        /// Note on what was skipped; may be empty.
        note: String,
    },
    /// The dataset cannot be downloaded, or is not usable.
    #[error("cannot load the dataset {name}: {reason}")]
    Hub {
        /// Name of the repository.
        name: String,
        /// Description of the error.
        reason: String,
    },
    /// Media could not be encoded.
    #[error("cannot generate {what}: {reason}")]
    Encode {
        /// Description of the media.
        what: String,
        /// Failure of the encoder.
        reason: String,
    },
    /// A setting from which no dataset can be generated.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
}

impl DatasetError {
    /// Returns whether the error is in the command line, and not in the system.
    #[must_use]
    pub const fn is_of_the_command_line(&self) -> bool {
        !matches!(self, Self::Encode { .. } | Self::Hub { .. })
    }
}
