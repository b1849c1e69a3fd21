//! The flags for generated images and audio, and the settings they make.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use dataset::{
    AudioFormat, AudioNoise, ImageFormat, ImageNoise, ImageShape, NormalDistribution,
    PictureSampling, Pictures,
};

use super::value::{choice, number, positive, seconds};
use crate::config::ConfigError;

/// A value of `--image-source`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ImageSource {
    Noise,
    Directory(PathBuf),
}

fn image_source(text: &str) -> Result<ImageSource, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "noise" => Ok(ImageSource::Noise),
        "assets" => {
            Err("aiperf includes no pictures; name a directory of pictures, or noise".into())
        }
        _ => Ok(ImageSource::Directory(text.into())),
    }
}

/// Images and audio in generated prompts.
#[derive(Args)]
#[command(group = ArgGroup::new("images").multiple(true))]
pub(super) struct MediaArgs {
    /// Mean width of generated images in pixels; images require this and --image-height-mean
    /// [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input", requires = "image_height_mean", group = "images")]
    pub(super) image_width_mean: Option<f64>,
    /// Standard deviation of the width of generated images in pixels [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input", requires = "image_width_mean", requires = "image_height_mean")]
    pub(super) image_width_stddev: Option<f64>,
    /// Mean height of generated images in pixels; images require this and --image-width-mean
    /// [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input", requires = "image_width_mean")]
    pub(super) image_height_mean: Option<f64>,
    /// Standard deviation of the height of generated images in pixels [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input", requires = "image_width_mean", requires = "image_height_mean")]
    pub(super) image_height_stddev: Option<f64>,
    /// Number of images in each turn [default: 1]
    #[arg(long, visible_alias = "batch-size-image", value_name = "COUNT",
          value_parser = positive, help_heading = "Image Input", requires = "images")]
    pub(super) image_batch_size: Option<u64>,
    /// Format of generated images [default: png]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<ImageFormat>(), help_heading = "Image Input", requires = "image_width_mean", requires = "image_height_mean")]
    pub(super) image_format: Option<ImageFormat>,
    /// Content of images: noise, or a directory of pictures, which are sent as they are, or with
    /// --image-width-mean converted by ffmpeg [default: noise]
    #[arg(long, value_name = "SOURCE", value_parser = image_source, help_heading = "Image Input", group = "images")]
    pub(super) image_source: Option<ImageSource>,
    /// Order in which pictures are drawn from the directory [default: random-with-replacement]
    #[arg(long, value_name = "STRATEGY", value_parser = choice::<PictureSampling>(), help_heading = "Image Input")]
    pub(super) image_source_sampling: Option<PictureSampling>,
    /// Mean length of generated audio in seconds; audio requires this [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Audio Input")]
    pub(super) audio_length_mean: Option<f64>,
    /// Standard deviation of the length of generated audio in seconds [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = "Audio Input", requires = "audio_length_mean")]
    pub(super) audio_length_stddev: Option<f64>,
    /// Number of generated audio files in each turn [default: 1]
    #[arg(long, visible_alias = "batch-size-audio", value_name = "COUNT",
          value_parser = positive, help_heading = "Audio Input", requires = "audio_length_mean")]
    pub(super) audio_batch_size: Option<u64>,
    /// Format of generated audio; mp3 requires ffmpeg [default: wav]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<AudioFormat>(), help_heading = "Audio Input", requires = "audio_length_mean")]
    pub(super) audio_format: Option<AudioFormat>,
    /// Bit depths of generated audio, one of which is chosen for each file: 8, 16, 24 or 32
    /// [default: 16]
    #[arg(long, value_name = "BITS", num_args = 1.., value_delimiter = ',', value_parser = positive,
          help_heading = "Audio Input", requires = "audio_length_mean")]
    pub(super) audio_depths: Vec<u64>,
    /// Sample rates of generated audio in kHz, one of which is chosen for each file [default: 16]
    #[arg(long, value_name = "KHZ", num_args = 1.., value_delimiter = ',', value_parser = number,
          help_heading = "Audio Input", requires = "audio_length_mean")]
    pub(super) audio_sample_rates: Vec<f64>,
    /// Number of channels of generated audio: 1 or 2 [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = positive, help_heading = "Audio Input", requires = "audio_length_mean")]
    pub(super) audio_num_channels: Option<u64>,
}

impl MediaArgs {
    /// The images of noise in each turn; `None` without a size.
    pub(super) fn images(&self) -> Result<Option<ImageNoise>, ConfigError> {
        if self.image_source == Some(ImageSource::Noise) && self.image_width_mean.is_none() {
            let why = "noise requires --image-width-mean and --image-height-mean";
            return Err(ConfigError::flag("--image-source", why));
        }
        if matches!(self.image_source, Some(ImageSource::Directory(_))) {
            return Ok(None);
        }
        // As in AIPerf, sizes of 0 make no images.
        Ok(self.image_shape().map(|ImageShape { width, height, format }| ImageNoise {
            width,
            height,
            batch_size: self.image_batch_size.unwrap_or(1) as usize,
            format,
        }))
    }

    /// The sizes and formats of images; `None` without a size.
    fn image_shape(&self) -> Option<ImageShape> {
        let side = |mean: Option<f64>, stddev: Option<f64>| NormalDistribution {
            mean: mean.unwrap_or(0.0),
            stddev: stddev.unwrap_or(0.0),
        };
        let width = side(self.image_width_mean, self.image_width_stddev);
        let height = side(self.image_height_mean, self.image_height_stddev);
        let format = self.image_format.unwrap_or(ImageFormat::Png);
        (width.mean > 0.0 || height.mean > 0.0).then_some(ImageShape { width, height, format })
    }

    /// The pictures in each turn; `None` without a directory.
    pub(super) fn pictures(&self) -> Result<Option<Pictures>, ConfigError> {
        let sampling = self.image_source_sampling.unwrap_or_default();
        let Some(ImageSource::Directory(directory)) = &self.image_source else {
            if sampling == PictureSampling::default() {
                return Ok(None);
            }
            let why = "applies to the pictures of a directory; name one with --image-source, or \
                       remove the flag";
            return Err(ConfigError::flag("--image-source-sampling", why));
        };
        Ok(Some(Pictures {
            directory: directory.clone(),
            sampling,
            batch_size: self.image_batch_size.unwrap_or(1) as usize,
            scaled: self.image_shape(),
        }))
    }

    /// The audio in each turn; `None` without a length.
    pub(super) fn audio(&self) -> Option<AudioNoise> {
        let mean = self.audio_length_mean.unwrap_or(0.0);
        if mean == 0.0 {
            return None;
        }
        let bits = |bits: &u64| u16::try_from(*bits).unwrap_or(u16::MAX);
        let hertz = |kilohertz: &f64| (kilohertz * 1000.0).round() as u32;
        let or = |given: Vec<_>, default| if given.is_empty() { vec![default] } else { given };
        let rates: Vec<u32> = self.audio_sample_rates.iter().map(hertz).collect();
        Some(AudioNoise {
            seconds: NormalDistribution { mean, stddev: self.audio_length_stddev.unwrap_or(0.0) },
            batch_size: self.audio_batch_size.unwrap_or(1) as usize,
            depths: or(self.audio_depths.iter().map(bits).collect(), 16),
            sample_rates: if rates.is_empty() { vec![16_000] } else { rates },
            channels: u16::try_from(self.audio_num_channels.unwrap_or(1)).unwrap_or(u16::MAX),
            format: self.audio_format.unwrap_or(AudioFormat::Wav),
        })
    }
}
