//! Media in the lines of a dataset: a path, a URL, or a data URL.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use url::Url;

use base::input;
use base::redact::{self, ShownUrl};

use super::duration::audio_seconds;
use super::{Inline, MAX_FILE_BYTES, MAX_TOTAL_BYTES, Media, MediaContent, MediaKinds, kind};

/// Reader of a dataset's media files, which reads each file once.
#[derive(Debug, Default)]
pub(crate) struct MediaFiles {
    directory: PathBuf,
    read: HashMap<(PathBuf, u8), Media>,
    total: u64,
}

impl MediaFiles {
    /// Resolves relative paths from the directory of the file `dataset`.
    pub(crate) fn beside(dataset: &Path) -> Self {
        let directory = dataset.parent().unwrap_or(Path::new("")).to_owned();
        Self { directory, read: HashMap::new(), total: 0 }
    }

    /// Opens the medium of this kind that `text` names. The error describes why it cannot be used.
    pub(crate) fn open(&mut self, kind: MediaKinds, text: &str) -> Result<Media, String> {
        let begins = |scheme: &str| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if text.is_empty() {
            return Err(format!("the reference to its {} is empty", kind.names()));
        }
        if text.contains("://") && !begins("data:") {
            let refused = |why: &dyn fmt::Display| {
                format!(
                    "{} {} is not a valid URL: {why}",
                    kind.names(),
                    shown(&ShownUrl::new(text))
                )
            };
            if !(begins("http://") || begins("https://")) {
                return Err(refused(&"expected http://…, https://…, data:… or a path"));
            }
            let url = Url::parse(text).map_err(|why| refused(&why))?;
            let content = MediaContent::Url(url.as_str().into());
            return Ok(Media { kind, content, seconds: None, uuid: None });
        }
        if begins("data:") {
            let bytes = data_url(text).map_err(|why| {
                format!("{} {} is not a valid data URL: {why}", kind.names(), shown(text))
            })?;
            return self.inline(kind, bytes, &shown(text));
        }
        self.read(kind, self.directory.join(text))
    }

    /// Reads the medium of this kind in the file at `path`, once.
    pub(crate) fn read(&mut self, kind: MediaKinds, path: PathBuf) -> Result<Media, String> {
        let key = (path, kind.bits());
        if let Some(media) = self.read.get(&key) {
            return Ok(media.clone());
        }
        let shown = shown(&key.0.display().to_string());
        let bytes =
            read(&key.0).map_err(|why| format!("cannot read {} {shown}: {why}", kind.names()))?;
        let media = self.inline(kind, bytes, &shown)?;
        self.read.insert(key, media.clone());
        Ok(media)
    }

    /// Returns the medium of this kind with the content `bytes`, which messages call `shown`.
    pub(crate) fn inline(
        &mut self,
        kind: MediaKinds,
        bytes: Vec<u8>,
        shown: &str,
    ) -> Result<Media, String> {
        let media_type = kind::media_type(kind, &bytes).ok_or_else(|| {
            let known = kind::known(kind);
            format!(
                "the first bytes of {shown} do not match any {} format; supported formats are \
                     {known}",
                kind.names()
            )
        })?;
        self.total += bytes.len() as u64;
        if self.total > MAX_TOTAL_BYTES {
            let most = MAX_TOTAL_BYTES >> 30;
            return Err(format!("with {shown} the dataset's media exceed {most} GiB"));
        }
        let seconds = if kind == MediaKinds::AUDIO {
            audio_seconds(&bytes)
                .map_err(|why| format!("{shown} starts like {media_type}, but {why}"))?
        } else {
            None
        };
        let file = Inline { media_type: media_type.into(), bytes: Bytes::from(bytes) };
        Ok(Media { kind, content: MediaContent::Inline(file), seconds, uuid: None })
    }
}

/// Reads a regular file of limited length.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would block until a writer opens it.
    let found = std::fs::metadata(path).map_err(|why| why.to_string())?;
    if !found.is_file() {
        return Err("not a file".to_owned());
    }
    let bytes = input::bytes(path, MAX_FILE_BYTES).map_err(|why| why.to_string())?;
    if bytes.is_empty() { Err("the file is empty".to_owned()) } else { Ok(bytes) }
}

/// Decodes a `data:` URL (RFC 2397).
fn data_url(url: &str) -> Result<Vec<u8>, String> {
    let (head, data) = url.split_once(',').ok_or("the comma before the data is missing")?;
    if head.to_ascii_lowercase().ends_with(";base64") {
        BASE64_STANDARD.decode(data.trim()).map_err(|why| format!("invalid base64: {why}"))
    } else {
        Ok(percent_decode_str(data).collect())
    }
}

/// Shortens a name for a message.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(120).collect();
    let start = redact::printable(&start);
    if text.chars().nth(120).is_some() { format!("{start}…") } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";

    fn files() -> (tempfile::TempDir, MediaFiles) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.png"), PNG).unwrap();
        std::fs::write(folder.path().join("a.txt"), "text").unwrap();
        std::fs::write(folder.path().join("empty"), "").unwrap();
        std::fs::write(folder.path().join("half.wav"), "RIFF\0\0\0\0WAVEfmt ").unwrap();
        let files = MediaFiles::beside(&folder.path().join("data.jsonl"));
        (folder, files)
    }

    #[test]
    fn paths_begin_at_the_dataset_and_files_are_read_once() {
        let (folder, mut files) = files();
        let media = files.open(MediaKinds::IMAGE, "a.png").unwrap();
        let MediaContent::Inline(file) = &media.content else { panic!("{media:?}") };
        assert_eq!((&*file.media_type, &file.bytes[..]), ("image/png", PNG));
        std::fs::remove_file(folder.path().join("a.png")).unwrap();
        assert!(files.open(MediaKinds::IMAGE, "a.png").is_ok());
        assert_eq!(files.total, PNG.len() as u64);
    }

    #[test]
    fn urls_stay_or_are_the_file() {
        let (_folder, mut files) = files();
        let media = files.open(MediaKinds::VIDEO, "HTTP://x/a.mp4").unwrap();
        assert_eq!(media.content.url(), "http://x/a.mp4");
        let media = files.open(MediaKinds::IMAGE, "data:image/png;base64,iVBORw0KGgo=").unwrap();
        assert_eq!(media.content.url(), "data:image/png;base64,iVBORw0KGgo=");
    }

    #[test]
    fn what_is_not_a_medium_is_refused_by_name() {
        let (_folder, mut files) = files();
        let mut refusal = |kind, text: &str| files.open(kind, text).unwrap_err();
        let (image, audio) = (MediaKinds::IMAGE, MediaKinds::AUDIO);
        assert!(refusal(image, "none.png").starts_with("cannot read image "));
        assert!(refusal(image, "none.png").contains("none.png: No such file"));
        assert!(refusal(image, ".").ends_with("not a file"));
        assert!(refusal(image, "/dev/zero").ends_with("not a file"));
        assert!(refusal(image, "empty").ends_with("the file is empty"));
        assert!(refusal(image, "a.txt").contains("a.txt do not match any image format"));
        assert!(
            refusal(audio, "a.png")
                .contains("do not match any audio format; supported formats are WAV")
        );
        assert!(
            refusal(audio, "half.wav")
                .contains("starts like audio/wav, but it does not contain any data")
        );
        assert!(refusal(image, "http://").contains("is not a valid URL"));
        assert!(refusal(image, "data:image/png").contains("comma before the data is missing"));
        assert!(refusal(image, "data:image/png;base64,####").contains("invalid base64"));
        assert!(refusal(image, "").contains("is empty"));
        assert!(refusal(image, "s3://bucket/a.png").contains("not a valid URL: expected http://"));
        assert!(!refusal(image, "a\u{1b}[2J.png").contains('\u{1b}'));
        for url in ["http://u:s3cret@h:99999/a", "https://u:s3cret@[::/a", "ftp://u:s3cret@h/a"] {
            assert!(!refusal(image, url).contains("s3cret"), "{}", refusal(image, url));
        }
        // The data of a URL is not mistaken for a scheme.
        assert!(
            refusal(image, "data:image/svg+xml,<svg xmlns='http://x'/>").contains("first bytes")
        );
        let long = format!("data:image/png,{}", "x".repeat(1000));
        assert!(refusal(image, &long).len() < 300);
    }
}
