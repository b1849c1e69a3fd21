//! Pictures of a directory in generated prompts.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::Serialize;

use base::setting::{self, InvalidSetting, named};

use super::ffmpeg::Job;
use super::{ImageShape, Inline, Media, MediaFiles, MediaKinds};
use crate::{DatasetError, Sampler, Sampling, Seed};

/// Settings of pictures in generated prompts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pictures {
    /// Directory of the pictures (`--image-source`).
    #[serde(serialize_with = "setting::path")]
    pub directory: PathBuf,
    /// How pictures are drawn from it.
    pub sampling: PictureSampling,
    /// Number of pictures per turn.
    pub batch_size: usize,
    /// The format to which pictures are converted; `None` sends them as they are.
    pub scaled: Option<ImageShape>,
}

/// How pictures are drawn from a directory (`--image-source-sampling`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PictureSampling {
    /// Independently at random.
    #[default]
    Random,
    /// Every picture once in random order, then in a new order.
    Shuffle,
    /// In the order of their names, repeatedly.
    Sequential,
}

named! {
    PictureSampling {
        "random_with_replacement" => Random,
        "shuffle_cycle" => Shuffle,
        "sequential_cycle" => Sequential,
    }
}

/// Endings of the files that are read.
const ENDINGS: [&str; 9] = ["png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "avif"];

/// The pictures of a directory, from which turns get theirs.
#[derive(Debug)]
pub(crate) struct Gallery {
    pictures: Vec<Media>,
    sampler: Sampler,
    batch_size: usize,
}

impl Gallery {
    /// Reads the pictures of the directory itself, in the order of their names.
    ///
    /// # Errors
    ///
    /// Fails if there are none, or if the content of a file is not a picture, is too large or cannot
    /// be read.
    pub(crate) fn open(config: &Pictures, seed: Seed) -> Result<Self, DatasetError> {
        let Pictures { directory, sampling, batch_size, .. } = config;
        let refuse = |why: String| InvalidSetting::new("--image-source", why);
        let shown = directory.display();
        let paths = paths(directory).map_err(|why| {
            refuse(format!(
                "cannot read the directory {shown}: {why}; the source is noise or a directory"
            ))
        })?;
        if paths.is_empty() {
            let endings = ENDINGS.join(", ");
            let why = format!(
                "the directory {shown} does not contain pictures: files that end in {endings}"
            );
            return Err(refuse(why).into());
        }
        let mut files = MediaFiles::default();
        let opened = paths.into_iter().map(|path| files.read(MediaKinds::IMAGE, path));
        let pictures = opened.collect::<Result<Vec<_>, _>>().map_err(refuse)?;
        let sampling = match sampling {
            PictureSampling::Random => Sampling::Random,
            PictureSampling::Shuffle => Sampling::Shuffle,
            PictureSampling::Sequential => Sampling::Sequential,
        };
        let sampler =
            Sampler::new(sampling, 0..pictures.len(), seed.derive("dataset.image.source"));
        Ok(Self { pictures, sampler, batch_size: *batch_size })
    }

    /// Returns the pictures of the turn with this number.
    pub(crate) fn draw(&self, number: u64) -> Vec<Media> {
        let first = number.wrapping_mul(self.batch_size as u64);
        let own = first..first.saturating_add(self.batch_size as u64);
        own.filter_map(|number| self.pictures.get(self.sampler.conversation(number)).cloned())
            .collect()
    }
}

/// A picture, and what it is converted to.
#[derive(Debug, Clone)]
pub(super) struct Conversion {
    pub(super) picture: Inline,
    pub(super) width: u16,
    pub(super) height: u16,
    /// Whether the result is a PNG file; otherwise it is a JPEG file.
    pub(super) is_png: bool,
}

impl Conversion {
    /// Returns the job that converts the first frame of the picture, without its proportions.
    pub(super) fn job(&self) -> Job {
        let Self { picture, width, height, is_png } = self;
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        // The only format of which ffmpeg finds neither the kind nor the end in a pipe.
        let is_tiff = &*picture.media_type == "image/tiff";
        let length = picture.bytes.len().to_string();
        let tiff = ["-f", "tiff_pipe", "-frame_size", &length];
        let codec: &[&str] =
            if *is_png { &["-c:v", "png"] } else { &["-c:v", "mjpeg", "-pix_fmt", "yuvj420p"] };
        let filter = format!("select=not(n),scale={width}:{height},setsar=1");
        let output = [&["-vf", &filter][..], codec, &["-f", "image2pipe"]].concat();
        Job {
            input: if is_tiff { texts(&tiff) } else { Vec::new() },
            pieces: Box::new(std::iter::once(picture.bytes.to_vec())),
            sound: None,
            output: texts(&output),
        }
    }
}

/// Returns the files in `directory` with the ending of a picture, sorted.
fn paths(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_picture = |path: &Path| {
        let ending = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
        ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str())) && path.is_file()
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if is_picture(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::MediaContent;
    use super::*;

    /// A directory of `names`, each with the first bytes of a PNG file and its name.
    fn directory(names: &[&str]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in names {
            let bytes = [b"\x89PNG\r\n\x1a\n", name.as_bytes()].concat();
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        directory
    }

    fn gallery(
        directory: &Path,
        sampling: PictureSampling,
        seed: u64,
    ) -> Result<Gallery, DatasetError> {
        let directory = directory.to_owned();
        Gallery::open(&Pictures { directory, sampling, batch_size: 2, scaled: None }, Seed(seed))
    }

    /// The names of the pictures of `turns` turns.
    fn drawn(directory: &Path, sampling: PictureSampling, seed: u64, turns: usize) -> Vec<String> {
        let gallery = gallery(directory, sampling, seed).unwrap();
        let pictures = (0..turns).flat_map(|turn| gallery.draw(turn as u64));
        let name = |media: Media| match media.content {
            MediaContent::Inline(file) => String::from_utf8(file.bytes[8..].to_vec()).unwrap(),
            MediaContent::Url(url) => panic!("{url}"),
        };
        pictures.map(name).collect()
    }

    #[test]
    fn pictures_are_drawn_as_the_setting_says() {
        let directory = directory(&["b.png", "a.PNG", "c.png", ".hidden", "notes.txt"]);
        let path = directory.path();
        let sequential = drawn(path, PictureSampling::Sequential, 1, 2);
        assert_eq!(sequential, ["a.PNG", "b.png", "c.png", "a.PNG"]);
        let shuffled = drawn(path, PictureSampling::Shuffle, 1, 30);
        for cycle in shuffled.chunks(3) {
            let mut cycle = cycle.to_vec();
            cycle.sort();
            assert_eq!(cycle, ["a.PNG", "b.png", "c.png"]);
        }
        let random = drawn(path, PictureSampling::Random, 1, 3000);
        for name in ["a.PNG", "b.png", "c.png"] {
            // Expected 2000 of 6000, standard deviation sqrt(6000 · 2/9) = 36.5.
            let count = random.iter().filter(|drawn| *drawn == name).count();
            assert!(count.abs_diff(2000) < 150, "{name}: {count}");
        }
        assert_eq!(random, drawn(path, PictureSampling::Random, 1, 3000));
        assert_ne!(random, drawn(path, PictureSampling::Random, 2, 3000));
    }

    #[test]
    fn directories_without_pictures_are_refused() {
        let refused = |directory: &Path| {
            gallery(directory, PictureSampling::Random, 1).err().unwrap().to_string()
        };
        let missing = refused(Path::new("/nonexistent"));
        assert!(
            missing.starts_with("--image-source: cannot read the directory /nonexistent: No such")
        );
        let empty = refused(directory(&["notes.txt"]).path());
        assert!(empty.contains("does not contain pictures: files that end in png, jpg"), "{empty}");
        let wrong = directory(&["a.png"]);
        fs::write(wrong.path().join("b.jpg"), "<html>").unwrap();
        let wrong = refused(wrong.path());
        assert!(wrong.contains("b.jpg do not match any image format"), "{wrong}");
    }
}
