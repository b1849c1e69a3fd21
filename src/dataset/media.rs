//! Images, audio and video that requests contain in addition to their text.

mod duration;
mod encode;
mod ffmpeg;
mod files;
mod image;
mod kind;
mod mp3;
mod noise;
mod ogg;
mod pictures;
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
pub use self::noise::{AudioFormat, AudioNoise, ImageFormat, ImageNoise, ImageShape};
pub(crate) use self::pictures::Gallery;
pub use self::pictures::{PictureSampling, Pictures};
pub use self::video::{Scene, SoundCodec, VideoClip, VideoFormat, VideoSound};

/// Maximum size of a media file, in bytes.
pub const MAX_FILE_BYTES: u64 = 256 << 20;
/// Maximum size of all media of a dataset together, in bytes; they are kept in memory.
pub const MAX_TOTAL_BYTES: u64 = 4 << 30;

bitflags! {
    /// Kinds of media.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MediaKinds: u8 {
        /// Images.
        const IMAGE = 1;
        /// Audio.
        const AUDIO = 1 << 1;
        /// Video.
        const VIDEO = 1 << 2;
    }
}

/// An image, audio clip or video of a turn.
#[derive(Debug, Clone)]
pub struct Media {
    /// Kind of the medium; exactly one.
    pub kind: MediaKinds,
    /// Content of the medium, or its URL.
    pub content: MediaContent,
    /// Duration in seconds, if it is known.
    pub seconds: Option<f64>,
    /// UUID under which a server such as vLLM caches the medium, from the dataset.
    pub uuid: Option<Arc<str>>,
}

impl Media {
    /// Creates an image that the server has cached under this UUID.
    pub fn cached_image(uuid: &str) -> Self {
        let content = MediaContent::Url("".into());
        Self { kind: MediaKinds::IMAGE, content, seconds: None, uuid: Some(uuid.into()) }
    }

    /// Returns whether only the UUID is sent, since the server has the medium cached.
    #[must_use]
    pub fn is_cached(&self) -> bool {
        matches!(&self.content, MediaContent::Url(url) if url.is_empty())
    }

    /// Creates an image from the bytes of its file.
    ///
    /// # Errors
    ///
    /// Describes the error if the bytes do not begin like a known format.
    pub fn image(bytes: Bytes) -> Result<Self, String> {
        let kind = MediaKinds::IMAGE;
        let media_type = kind::media_type(kind, &bytes).ok_or_else(|| {
            format!(
                "its first bytes are not those of an image; supported formats are {}",
                kind::known(kind)
            )
        })?;
        let file = Inline { media_type: media_type.into(), bytes };
        Ok(Self { kind, content: MediaContent::Inline(file), seconds: None, uuid: None })
    }
}

/// Location of a medium.
#[derive(Debug, Clone)]
pub enum MediaContent {
    /// An `http` or `https` URL, from which the server loads it; empty if the server has it cached.
    Url(Arc<str>),
    /// Content within the request.
    Inline(Inline),
}

/// A file in memory.
#[derive(Clone)]
pub struct Inline {
    /// Media type, as in `image/png`.
    pub media_type: Arc<str>,
    /// Content of the file.
    pub bytes: Bytes,
}

impl Inline {
    /// Returns the content in base64 (RFC 4648, with padding).
    #[must_use]
    pub fn base64(&self) -> String {
        BASE64_STANDARD.encode(&self.bytes)
    }

    /// Returns the short name of the format, which is also the extension of its files: `mp3` for
    /// `audio/mpeg`.
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

    /// Returns the file as a data URL (RFC 2397).
    #[must_use]
    pub(crate) fn data_url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.base64())
    }
}

impl MediaKinds {
    /// Returns the names of the kinds, as in `image and video`.
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
    /// Returns the URL, or the file as a data URL.
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
