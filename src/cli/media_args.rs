//! Flags of generated images and sound, and what they come to; those of videos
//! are beside them.

use clap::Args;

use super::value::{Choice, number, positive};
use super::video_args::VideoArgs;
use crate::config::ConfigError;
use crate::dataset::{AudioFormat, AudioNoise, ImageFormat, ImageNoise, Spread};

const IMAGE_FORMATS: Choice<ImageFormat> = Choice(&[
    ("png", ImageFormat::Png),
    ("jpeg", ImageFormat::Jpeg),
    ("random", ImageFormat::Random),
]);
const IMAGE_SOURCES: Choice<ImageSource> =
    Choice(&[("noise", ImageSource::Noise), ("assets", ImageSource::Assets)]);
const AUDIO_FORMATS: Choice<AudioFormat> =
    Choice(&[("wav", AudioFormat::Wav), ("mp3", AudioFormat::Mp3)]);

/// What generated images are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageSource {
    Noise,
    Assets,
}

/// Images, sound and videos of generated prompts.
#[derive(Args)]
pub(super) struct MediaArgs {
    /// Pixels of a generated image's row, mean; images need this and the height [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input")]
    pub(super) image_width_mean: Option<f64>,
    /// Pixels of a generated image's row, standard deviation [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input")]
    pub(super) image_width_stddev: Option<f64>,
    /// Rows of a generated image, mean [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input")]
    pub(super) image_height_mean: Option<f64>,
    /// Rows of a generated image, standard deviation [default: 0]
    #[arg(long, value_name = "PIXELS", value_parser = number, help_heading = "Image Input")]
    pub(super) image_height_stddev: Option<f64>,
    /// Generated images of a turn [default: 1]
    #[arg(long, visible_alias = "batch-size-image", value_name = "COUNT",
          value_parser = positive, help_heading = "Image Input")]
    pub(super) image_batch_size: Option<u64>,
    /// Format of generated images [default: png]
    #[arg(long, value_name = "FORMAT", value_parser = IMAGE_FORMATS, help_heading = "Image Input")]
    pub(super) image_format: Option<ImageFormat>,
    /// What generated images show: only noise
    #[arg(long, value_name = "SOURCE", value_parser = IMAGE_SOURCES, help_heading = "Image Input")]
    pub(super) image_source: Option<ImageSource>,
    /// Seconds that generated sound plays, mean; sound needs this [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = number, help_heading = "Audio Input")]
    pub(super) audio_length_mean: Option<f64>,
    /// Seconds that generated sound plays, standard deviation [default: 0]
    #[arg(long, value_name = "SECONDS", value_parser = number, help_heading = "Audio Input")]
    pub(super) audio_length_stddev: Option<f64>,
    /// Generated sound files of a turn [default: 1]
    #[arg(long, visible_alias = "batch-size-audio", value_name = "COUNT",
          value_parser = positive, help_heading = "Audio Input")]
    pub(super) audio_batch_size: Option<u64>,
    /// Format of generated sound; mp3 needs ffmpeg [default: wav]
    #[arg(long, value_name = "FORMAT", value_parser = AUDIO_FORMATS, help_heading = "Audio Input")]
    pub(super) audio_format: Option<AudioFormat>,
    /// Bits of a sample, one of these for each file: 8, 16, 24 or 32 [default: 16]
    #[arg(long, value_name = "BITS", num_args = 1.., value_delimiter = ',', value_parser = positive,
          help_heading = "Audio Input")]
    pub(super) audio_depths: Vec<u64>,
    /// Sample rate in kHz, one of these for each file [default: 16]
    #[arg(long, value_name = "KHZ", num_args = 1.., value_delimiter = ',', value_parser = number,
          help_heading = "Audio Input")]
    pub(super) audio_sample_rates: Vec<f64>,
    /// Channels of generated sound: 1 or 2 [default: 1]
    #[arg(long, value_name = "COUNT", value_parser = positive, help_heading = "Audio Input")]
    pub(super) audio_num_channels: Option<u64>,
    #[command(flatten)]
    pub(super) video: VideoArgs,
}

impl MediaArgs {
    /// The flags, and whether each is given.
    pub(super) fn given(&self) -> Vec<(&'static str, bool)> {
        let of_images_and_sound = [
            ("--image-width-mean", self.image_width_mean.is_some()),
            ("--image-width-stddev", self.image_width_stddev.is_some()),
            ("--image-height-mean", self.image_height_mean.is_some()),
            ("--image-height-stddev", self.image_height_stddev.is_some()),
            ("--image-batch-size", self.image_batch_size.is_some()),
            ("--image-format", self.image_format.is_some()),
            ("--image-source", self.image_source.is_some()),
            ("--audio-length-mean", self.audio_length_mean.is_some()),
            ("--audio-length-stddev", self.audio_length_stddev.is_some()),
            ("--audio-batch-size", self.audio_batch_size.is_some()),
            ("--audio-format", self.audio_format.is_some()),
            ("--audio-depths", !self.audio_depths.is_empty()),
            ("--audio-sample-rates", !self.audio_sample_rates.is_empty()),
            ("--audio-num-channels", self.audio_num_channels.is_some()),
        ];
        of_images_and_sound.into_iter().chain(self.video.given()).collect()
    }

    /// The images of each turn; `None` without a width and a height.
    pub(super) fn images(&self) -> Result<Option<ImageNoise>, ConfigError> {
        if self.image_source == Some(ImageSource::Assets) {
            let why = "aiperf brings no pictures: leave it out for noise, or name files as `image` \
                       in --input-file";
            return Err(ConfigError::flag("--image-source", why));
        }
        let side = |mean: Option<f64>, stddev: Option<f64>| Spread {
            mean: mean.unwrap_or(0.0),
            stddev: stddev.unwrap_or(0.0),
        };
        let width = side(self.image_width_mean, self.image_width_stddev);
        let height = side(self.image_height_mean, self.image_height_stddev);
        if width.mean > 0.0 && height.mean > 0.0 {
            return Ok(Some(ImageNoise {
                width,
                height,
                batch_size: self.image_batch_size.unwrap_or(1) as usize,
                format: self.image_format.unwrap_or(ImageFormat::Png),
            }));
        }
        let why = "images need --image-width-mean and --image-height-mean, both above 0";
        refuse_alone(
            &self.given(),
            "--image",
            &["--image-width-mean", "--image-height-mean"],
            why,
        )?;
        if width.mean > 0.0 || height.mean > 0.0 {
            return Err(ConfigError::flag("--image-width-mean", why));
        }
        Ok(None)
    }

    /// The sound of each turn; `None` without a length.
    pub(super) fn audio(&self) -> Result<Option<AudioNoise>, ConfigError> {
        let mean = self.audio_length_mean.unwrap_or(0.0);
        if mean == 0.0 {
            let why = "sound needs --audio-length-mean, above 0";
            refuse_alone(&self.given(), "--audio", &["--audio-length-mean"], why)?;
            return Ok(None);
        }
        let bits = |bits: &u64| u16::try_from(*bits).unwrap_or(u16::MAX);
        let hertz = |kilohertz: &f64| (kilohertz * 1000.0).round() as u32;
        let or = |given: Vec<_>, default| if given.is_empty() { vec![default] } else { given };
        let rates: Vec<u32> = self.audio_sample_rates.iter().map(hertz).collect();
        Ok(Some(AudioNoise {
            seconds: Spread { mean, stddev: self.audio_length_stddev.unwrap_or(0.0) },
            batch_size: self.audio_batch_size.unwrap_or(1) as usize,
            depths: or(self.audio_depths.iter().map(bits).collect(), 16),
            sample_rates: if rates.is_empty() { vec![16_000] } else { rates },
            channels: u16::try_from(self.audio_num_channels.unwrap_or(1)).unwrap_or(u16::MAX),
            format: self.audio_format.unwrap_or(AudioFormat::Wav),
        }))
    }
}

/// Refuses a flag that says how, where none says that there are any.
pub(super) fn refuse_alone(
    given: &[(&'static str, bool)],
    about: &str,
    sizes: &[&str],
    why: &'static str,
) -> Result<(), ConfigError> {
    let mut alone = given
        .iter()
        .filter(|(flag, is_given)| *is_given && flag.starts_with(about) && !sizes.contains(flag));
    alone.next().map_or(Ok(()), |(flag, _)| Err(ConfigError::flag(flag, why)))
}
