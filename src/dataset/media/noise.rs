//! Generated media: images and audio of noise.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flate2::Compression;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use base::png;
use base::setting::{InvalidSetting, named};

use super::{Inline, MAX_FILE_BYTES, MAX_TOTAL_BYTES, Media, MediaContent, MediaKinds};
use super::{image, mp3, wave};
use crate::{DatasetError, NormalDistribution, Seed};
use serde::Serialize;

/// Settings of generated images.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImageNoise {
    /// Width in pixels.
    pub width: NormalDistribution,
    /// Height in pixels.
    pub height: NormalDistribution,
    /// Number of images per turn.
    pub batch_size: usize,
    pub format: ImageFormat,
}

/// Sizes and formats of images, which are drawn for each.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ImageShape {
    /// Width in pixels.
    pub width: NormalDistribution,
    /// Height in pixels.
    pub height: NormalDistribution,
    pub format: ImageFormat,
}

/// Formats of generated images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageFormat {
    Png,
    Jpeg,
    /// Randomly PNG or JPEG for each image.
    Random,
}

named! { ImageFormat { "png" => Png, "jpeg" => Jpeg, "random" => Random } }

/// Settings of generated audio.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AudioNoise {
    /// Duration in seconds.
    pub seconds: NormalDistribution,
    /// Number of files per turn.
    pub batch_size: usize,
    /// Bits per sample, of which each file gets one: 8, 16, 24 or 32.
    pub depths: Vec<u16>,
    /// Samples per second, of which each file gets one.
    pub sample_rates: Vec<u32>,
    pub channels: u16,
    pub format: AudioFormat,
}

/// Formats of generated audio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AudioFormat {
    Wav,
    /// MP3, encoded from WAV by ffmpeg.
    Mp3,
}

named! { AudioFormat { "wav" => Wav, "mp3" => Mp3 } }

/// Maximum width and height of an image in pixels, which is the limit of JPEG.
const MAX_SIDE: f64 = 65_535.0;
/// Approximate overhead of a file in bytes.
const BESIDE_BYTES: u64 = 512;
/// Minimum duration in seconds.
const MIN_SECONDS: f64 = 0.01;

impl ImageNoise {
    /// Rejects settings from which no image can be generated.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        self.shape().check()
    }

    const fn shape(&self) -> ImageShape {
        ImageShape { width: self.width, height: self.height, format: self.format }
    }
}

impl ImageShape {
    /// Rejects sizes of which no image can be made.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        self.width.check("--image-width-mean", 1.0)?;
        self.height.check("--image-height-mean", 1.0)?;
        if self.width.mean.max(self.height.mean) > MAX_SIDE {
            return Err(InvalidSetting::new(
                "--image-width-mean",
                format!("width and height must be at most {MAX_SIDE}"),
            ));
        }
        Ok(())
    }
}

impl ImageShape {
    /// Draws the width, the height, and whether the format is PNG; otherwise it is JPEG.
    pub(super) fn draw(self, rng: &mut ChaCha8Rng) -> (u16, u16, bool) {
        let mut side =
            |spread: NormalDistribution| f64::from(spread.draw_count(rng)).min(MAX_SIDE) as u16;
        let (width, height) = (side(self.width), side(self.height));
        let is_png = match self.format {
            ImageFormat::Png => true,
            ImageFormat::Jpeg => false,
            ImageFormat::Random => rng.next_u32() & 1 == 0,
        };
        (width, height, is_png)
    }
}

impl AudioNoise {
    /// Rejects settings from which no audio can be generated.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        self.seconds.check("--audio-length-mean", MIN_SECONDS)?;
        if self.depths.is_empty() || self.depths.iter().any(|d| !matches!(d, 8 | 16 | 24 | 32)) {
            return Err(InvalidSetting::new(
                "--audio-depths",
                "must be 8, 16, 24 or 32 bits".to_owned(),
            ));
        }
        if self.sample_rates.is_empty()
            || self.sample_rates.iter().any(|r| !(1..=768_000).contains(r))
        {
            let reason = "must be above 0 and at most 768 kHz".to_owned();
            return Err(InvalidSetting::new("--audio-sample-rates", reason));
        }
        let is_of_mp3 = |rate: &u32| mp3::SAMPLE_RATES.contains(rate);
        if self.format == AudioFormat::Mp3 && !self.sample_rates.iter().all(is_of_mp3) {
            let rates = mp3::SAMPLE_RATES.map(|rate| (f64::from(rate) / 1000.0).to_string());
            let reason = format!("MP3 supports only {} kHz", rates.join(", "));
            return Err(InvalidSetting::new("--audio-sample-rates", reason));
        }
        if !(1..=2).contains(&self.channels) {
            return Err(InvalidSetting::new("--audio-num-channels", "must be 1 or 2".to_owned()));
        }
        Ok(())
    }
}

/// Generator of media for turns.
pub(crate) struct MediaMaker<'a> {
    images: Option<ImageNoise>,
    audio: Option<AudioNoise>,
    sizes: ChaCha8Rng,
    pixels: ChaCha8Rng,
    lengths: ChaCha8Rng,
    formats: ChaCha8Rng,
    samples: ChaCha8Rng,
    /// Bytes of all media of the dataset so far.
    total: &'a AtomicU64,
}

impl<'a> MediaMaker<'a> {
    /// Creates the generator of the media of a conversation, which adds their bytes to `total`.
    pub(crate) fn new(
        images: Option<&ImageNoise>,
        audio: Option<&AudioNoise>,
        seed: Seed,
        total: &'a AtomicU64,
    ) -> Self {
        Self {
            images: images.cloned(),
            audio: audio.cloned(),
            sizes: seed.stream("dataset.image.size"),
            pixels: seed.stream("dataset.image.pixels"),
            lengths: seed.stream("dataset.audio.length"),
            formats: seed.stream("dataset.audio.format"),
            samples: seed.stream("dataset.audio.samples"),
            total,
        }
    }

    /// Generates the media of the next turn.
    pub(crate) fn media(&mut self) -> Result<Vec<Media>, DatasetError> {
        let mut media = Vec::new();
        if let Some(images) = self.images.take() {
            for _ in 0..images.batch_size {
                media.push(self.image(&images)?);
            }
            self.images = Some(images);
        }
        if let Some(audio) = self.audio.take() {
            for _ in 0..audio.batch_size {
                media.push(self.sound(&audio)?);
            }
            self.audio = Some(audio);
        }
        Ok(media)
    }

    fn image(&mut self, noise: &ImageNoise) -> Result<Media, DatasetError> {
        let (width, height, is_png) = noise.shape().draw(&mut self.sizes);
        let bytes = 3 * u64::from(width) * u64::from(height);
        self.make_room("--image-width-mean", bytes)?;
        let pixels = noise_of(&mut self.pixels, bytes);
        let (media_type, file) = if is_png {
            ("image/png", png::file(&pixels, width, height, Compression::none()))
        } else {
            ("image/jpeg", image::jpeg(&pixels, width, height))
        };
        Ok(inline(MediaKinds::IMAGE, media_type, file, None))
    }

    fn sound(&mut self, noise: &AudioNoise) -> Result<Media, DatasetError> {
        let seconds = noise.seconds.draw(&mut self.lengths).max(MIN_SECONDS);
        let rate = noise.sample_rates.choose(&mut self.formats).copied().unwrap_or(16_000);
        let depth = noise.depths.choose(&mut self.formats).copied().unwrap_or(16);
        let frames = (seconds * f64::from(rate)).round();
        let bytes = frames as u64 * u64::from(noise.channels) * u64::from(depth / 8);
        self.make_room("--audio-length-mean", bytes)?;
        let samples = noise_of(&mut self.samples, bytes);
        let file = wave::write(&samples, rate, noise.channels, depth);
        Ok(inline(MediaKinds::AUDIO, "audio/wav", file, Some(frames / f64::from(rate))))
    }

    fn make_room(&mut self, flag: &'static str, bytes: u64) -> Result<(), DatasetError> {
        let own = bytes.saturating_add(BESIDE_BYTES);
        let total = self.total.fetch_add(own, Relaxed).saturating_add(own);
        let (most, of) = if bytes > MAX_FILE_BYTES {
            (MAX_FILE_BYTES, "a file")
        } else if total > MAX_TOTAL_BYTES {
            (MAX_TOTAL_BYTES, "all files together")
        } else {
            return Ok(());
        };
        let most = most >> 20;
        let reason = format!(
            "{of} would exceed {most} MiB in memory; make them smaller, or lower \
             --num-dataset-entries"
        );
        Err(InvalidSetting::new(flag, reason).into())
    }
}

pub(super) fn noise_of(rng: &mut ChaCha8Rng, bytes: u64) -> Vec<u8> {
    let mut noise = vec![0; bytes as usize];
    rng.fill_bytes(&mut noise);
    noise
}

fn inline(kind: MediaKinds, media_type: &str, file: Vec<u8>, seconds: Option<f64>) -> Media {
    let file = Inline { media_type: media_type.into(), bytes: file.into() };
    Media { kind, content: MediaContent::Inline(file), seconds, uuid: None }
}

#[cfg(test)]
mod tests {
    use super::super::duration::audio_seconds;
    use super::super::kind::media_type;
    use super::*;

    fn images(width: f64, format: ImageFormat) -> ImageNoise {
        let (width, height) =
            (NormalDistribution { mean: width, stddev: 4.0 }, NormalDistribution::exactly(8.0));
        ImageNoise { width, height, batch_size: 2, format }
    }

    fn sound(depth: u16) -> AudioNoise {
        AudioNoise {
            seconds: NormalDistribution { mean: 0.1, stddev: 0.02 },
            batch_size: 1,
            depths: vec![depth],
            sample_rates: vec![8000, 16_000],
            channels: 2,
            format: AudioFormat::Wav,
        }
    }

    fn made(images: Option<&ImageNoise>, audio: Option<&AudioNoise>, seed: u64) -> Vec<Media> {
        let total = AtomicU64::new(0);
        let mut maker = MediaMaker::new(images, audio, Seed(seed), &total);
        (0..8).flat_map(|_| maker.media().unwrap()).collect()
    }

    fn files(media: &[Media]) -> Vec<Inline> {
        let file = |media: &Media| match &media.content {
            MediaContent::Inline(file) => file.clone(),
            MediaContent::Url(url) => panic!("{url}"),
        };
        media.iter().map(file).collect()
    }

    #[test]
    fn the_same_seed_makes_the_same_bytes() {
        let (images, sound) = (images(16.0, ImageFormat::Random), sound(24));
        let bytes = |seed| {
            let media = made(Some(&images), Some(&sound), seed);
            files(&media).into_iter().map(|file| file.bytes).collect::<Vec<_>>()
        };
        assert_eq!(bytes(5), bytes(5));
        assert_ne!(bytes(5), bytes(6));
        // The audio is the same with and without images.
        let alone = files(&made(None, Some(&sound), 5)).remove(0).bytes;
        assert_eq!(bytes(5)[2], alone);
    }

    #[test]
    fn files_are_what_they_say() {
        for file in files(&made(Some(&images(16.0, ImageFormat::Random)), None, 1)) {
            assert_eq!(media_type(MediaKinds::IMAGE, &file.bytes), Some(&*file.media_type));
        }
        let types = |format| {
            let files = files(&made(Some(&images(16.0, format)), None, 1));
            files.iter().map(|file| file.media_type.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(types(ImageFormat::Png), vec!["image/png"; 16]);
        let random = types(ImageFormat::Random);
        assert!(random.contains(&"image/png".into()) && random.contains(&"image/jpeg".into()));
    }

    #[test]
    fn sound_plays_as_long_as_it_says() {
        for depth in [8, 16, 24, 32] {
            let media = made(None, Some(&sound(depth)), 3);
            for (media, file) in media.iter().zip(files(&media)) {
                assert_eq!(audio_seconds(&file.bytes).unwrap(), media.seconds, "{depth} bits");
            }
        }
    }

    #[test]
    fn settings_that_no_media_can_be_made_of_are_refused() {
        let refusal = |noise: &AudioNoise| noise.check().unwrap_err().to_string();
        assert!(refusal(&sound(12)).starts_with("--audio-depths: "));
        assert!(refusal(&AudioNoise { channels: 3, ..sound(8) }).contains("1 or 2"));
        let format = AudioFormat::Mp3;
        assert!(AudioNoise { format, ..sound(8) }.check().is_ok());
        let odd = AudioNoise { format, sample_rates: vec![16_000, 44_000], ..sound(8) };
        let said = refusal(&odd);
        assert!(
            said.starts_with("--audio-sample-rates: MP3 supports only 8, 11.025, 12, "),
            "{said}"
        );
        let short = AudioNoise { seconds: NormalDistribution::exactly(0.0), ..sound(8) };
        assert!(refusal(&short).starts_with("--audio-length-mean: "));
        let endless = AudioNoise { seconds: NormalDistribution::exactly(1e6), ..sound(32) };
        let total = AtomicU64::new(0);
        let mut maker = MediaMaker::new(None, Some(&endless), Seed(1), &total);
        assert!(maker.media().unwrap_err().to_string().contains("MiB in memory"));
        assert!(images(1e6, ImageFormat::Png).check().is_err());
    }
}
