//! Media that a dataset's lines name: a path, a URL, or a URL that is the file.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use percent_encoding::percent_decode_str;
use url::Url;

use super::duration::audio_seconds;
use super::{Inline, MAX_FILE_BYTES, MAX_TOTAL_BYTES, Media, MediaContent, MediaKinds, kind};
use crate::redact;

/// Reads the files of a dataset, each once.
#[derive(Debug)]
pub(in crate::dataset) struct MediaFiles {
    directory: PathBuf,
    read: HashMap<(PathBuf, u8), Media>,
    total: u64,
}

impl MediaFiles {
    /// Paths that are not absolute begin where the file `dataset` is.
    pub(in crate::dataset) fn beside(dataset: &Path) -> Self {
        let directory = dataset.parent().unwrap_or(Path::new("")).to_owned();
        Self { directory, read: HashMap::new(), total: 0 }
    }

    /// The medium that `text` names, of this kind. The error says why there is none.
    pub(in crate::dataset) fn open(
        &mut self,
        kind: MediaKinds,
        text: &str,
    ) -> Result<Media, String> {
        let begins = |scheme: &str| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        };
        if text.is_empty() {
            return Err(format!("its {} is named by an empty text", kind.names()));
        }
        if text.contains("://") && !begins("data:") {
            let refused = |why: &dyn fmt::Display| {
                format!("{} {} is no URL: {why}", kind.names(), shown(&redact::url(text)))
            };
            if !(begins("http://") || begins("https://")) {
                return Err(refused(&"give http://…, https://…, data:… or a path"));
            }
            let url = Url::parse(text).map_err(|why| refused(&why))?;
            let content = MediaContent::Url(url.as_str().into());
            return Ok(Media { kind, content, seconds: None });
        }
        if begins("data:") {
            let bytes = data_url(text)
                .map_err(|why| format!("{} {} is no data URL: {why}", kind.names(), shown(text)))?;
            return self.inline(kind, bytes, &shown(text));
        }
        let path = self.directory.join(text);
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

    fn inline(&mut self, kind: MediaKinds, bytes: Vec<u8>, shown: &str) -> Result<Media, String> {
        let media_type = kind::media_type(kind, &bytes).ok_or_else(|| {
            let known = kind::known(kind);
            format!("{shown} is no {} by its first bytes; known are {known}", kind.names())
        })?;
        self.total += bytes.len() as u64;
        if self.total > MAX_TOTAL_BYTES {
            let most = MAX_TOTAL_BYTES >> 30;
            return Err(format!("with {shown} the dataset's media are more than {most} GiB"));
        }
        let seconds = if kind == MediaKinds::AUDIO {
            audio_seconds(&bytes)
                .map_err(|why| format!("{shown} begins as {media_type} does, but {why}"))?
        } else {
            None
        };
        let file = Inline { media_type: media_type.into(), bytes: Bytes::from(bytes) };
        Ok(Media { kind, content: MediaContent::Inline(file), seconds })
    }
}

/// The bytes of a file that is one, of bounded length.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    // Opening a pipe would wait for somebody who writes.
    let found = std::fs::metadata(path).map_err(|why| why.to_string())?;
    if !found.is_file() {
        return Err("it is no file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|why| why.to_string())?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|why| why.to_string())?;
    match bytes.len() as u64 {
        0 => Err("it is empty".to_owned()),
        length if length > MAX_FILE_BYTES => {
            Err(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20))
        }
        _ => Ok(bytes),
    }
}

/// The file that a `data:` URL is (RFC 2397).
fn data_url(url: &str) -> Result<Vec<u8>, String> {
    let (head, data) = url.split_once(',').ok_or("it has no comma before its data")?;
    if head.to_ascii_lowercase().ends_with(";base64") {
        BASE64_STANDARD.decode(data.trim()).map_err(|why| format!("its base64 is wrong: {why}"))
    } else {
        Ok(percent_decode_str(data).collect())
    }
}

/// As much of a name as a message should bear.
fn shown(text: &str) -> String {
    let printable = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let start: String = text.chars().map(printable).take(120).collect();
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
    fn what_is_no_medium_is_refused_by_name() {
        let (_folder, mut files) = files();
        let mut refusal = |kind, text: &str| files.open(kind, text).unwrap_err();
        let (image, audio) = (MediaKinds::IMAGE, MediaKinds::AUDIO);
        assert!(refusal(image, "none.png").starts_with("cannot read image "));
        assert!(refusal(image, "none.png").contains("none.png: No such file"));
        assert!(refusal(image, ".").ends_with("it is no file"));
        assert!(refusal(image, "/dev/zero").ends_with("it is no file"));
        assert!(refusal(image, "empty").ends_with("it is empty"));
        assert!(refusal(image, "a.txt").contains("a.txt is no image by its first bytes"));
        assert!(refusal(audio, "a.png").contains("is no audio by its first bytes; known are WAV"));
        assert!(
            refusal(audio, "half.wav").contains("begins as audio/wav does, but it has no data")
        );
        assert!(refusal(image, "http://").contains("is no URL"));
        assert!(refusal(image, "data:image/png").contains("no comma"));
        assert!(refusal(image, "data:image/png;base64,####").contains("its base64 is wrong"));
        assert!(refusal(image, "").contains("empty text"));
        assert!(refusal(image, "s3://bucket/a.png").contains("no URL: give http://"));
        assert!(!refusal(image, "a\u{1b}[2J.png").contains('\u{1b}'));
        for url in ["http://u:s3cret@h:99999/a", "https://u:s3cret@[::/a", "ftp://u:s3cret@h/a"] {
            assert!(!refusal(image, url).contains("s3cret"), "{}", refusal(image, url));
        }
        // What is in the data of a URL is no scheme.
        assert!(
            refusal(image, "data:image/svg+xml,<svg xmlns='http://x'/>").contains("first bytes")
        );
        let long = format!("data:image/png,{}", "x".repeat(1000));
        assert!(refusal(image, &long).len() < 300);
    }
}
