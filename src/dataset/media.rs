//! Images, audio and video that requests bear beside their text.

mod duration;
mod encode;
mod ffmpeg;
mod files;
mod image;
mod kind;
mod mp3;
mod noise;
mod ogg;
mod scene;
mod video;
mod wave;

use std::fmt;
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bitflags::bitflags;
use bytes::Bytes;

pub use self::duration::audio_seconds;
pub(super) use self::encode::encode;
pub(super) use self::files::MediaFiles;
pub(super) use self::noise::MediaMaker;
pub use self::noise::{AudioFormat, AudioNoise, ImageFormat, ImageNoise};
pub use self::video::{Scene, SoundCodec, VideoClip, VideoFormat, VideoSound};

/// Longest file of a medium, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 256 << 20;
/// Most bytes of all media of a dataset together: they are kept in memory.
pub(super) const MAX_TOTAL_BYTES: u64 = 4 << 30;

bitflags! {
    /// Kinds of media.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MediaKinds: u8 {
        /// Pictures.
        const IMAGE = 1;
        /// Sound.
        const AUDIO = 1 << 1;
        /// Moving pictures.
        const VIDEO = 1 << 2;
    }
}

/// One image, audio clip or video of a turn.
#[derive(Debug, Clone)]
pub struct Media {
    /// What it is: one kind.
    pub kind: MediaKinds,
    /// Where it is.
    pub content: MediaContent,
    /// How long it plays, in seconds, where that is known.
    pub seconds: Option<f64>,
}

/// Where a medium is.
#[derive(Debug, Clone)]
pub enum MediaContent {
    /// At an `http` or `https` URL, from which the server gets it.
    Url(Arc<str>),
    /// In the request.
    Inline(Inline),
}

/// A file in memory.
#[derive(Clone)]
pub struct Inline {
    /// Its media type, as in `image/png`.
    pub media_type: Arc<str>,
    /// Its bytes.
    pub bytes: Bytes,
}

impl Inline {
    /// Its bytes in base64 (RFC 4648, with padding).
    #[must_use]
    pub fn base64(&self) -> String {
        BASE64_STANDARD.encode(&self.bytes)
    }

    /// The short name of its format, which is also the end of its file names: `mp3`
    /// for `audio/mpeg`.
    #[must_use]
    pub fn format(&self) -> &str {
        let subtype = self.media_type.rsplit('/').next().unwrap_or_default();
        match subtype {
            "mpeg" => "mp3",
            "mp4" if self.media_type.starts_with("audio") => "m4a",
            "quicktime" => "mov",
            "x-msvideo" => "avi",
            "x-matroska" => "mkv",
            subtype => subtype,
        }
    }

    /// Itself as a URL (RFC 2397).
    #[must_use]
    pub fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64())
    }
}

impl MediaKinds {
    /// The kinds by name, as in `image and video`.
    #[must_use]
    pub fn names(self) -> String {
        let name = |kind| match kind {
            Self::IMAGE => "image",
            Self::AUDIO => "audio",
            _ => "video",
        };
        self.iter().map(name).collect::<Vec<_>>().join(" and ")
    }
}

impl MediaContent {
    /// The URL, or the file as one.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::Url(url) => url.to_string(),
            Self::Inline(file) => file.data_url(),
        }
    }
}

impl fmt::Debug for Inline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inline")
            .field("media_type", &self.media_type)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_is_a_url_of_its_own() {
        // RFC 4648, section 10.
        let file = Inline { media_type: "text/plain".into(), bytes: Bytes::from_static(b"fooba") };
        assert_eq!(file.data_url(), "data:text/plain;base64,Zm9vYmE=");
        assert_eq!(MediaContent::Inline(file).url(), "data:text/plain;base64,Zm9vYmE=");
        assert_eq!(MediaContent::Url("http://x/a.png".into()).url(), "http://x/a.png");
    }
}
