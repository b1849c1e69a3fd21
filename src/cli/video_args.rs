//! The flags for generated videos, and the settings they make.

use clap::Args;

use dataset::{Scene, SoundCodec, VideoClip, VideoFormat, VideoSound};

use super::value::{choice, count, number, positive, seconds_above_zero};

/// Sample rates above this are in Hz, others in kHz.
const MAX_KILOHERTZ: f64 = 1000.0;

/// Videos in generated prompts.
#[derive(Args)]
#[expect(clippy::struct_field_names, reason = "flags are named after them")]
#[command(next_help_heading = "Video Input")]
pub(super) struct VideoArgs {
    /// Number of generated videos in each turn; 0 for none [default: 1]
    #[arg(long, visible_alias = "batch-size-video", value_name = "COUNT", value_parser = count)]
    video_batch_size: Option<u64>,
    /// Length of generated videos in seconds [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "video_width")]
    video_duration: Option<f64>,
    /// Frames per second of generated videos [default: 4]
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "video_width")]
    video_fps: Option<u64>,
    /// Width of generated videos in pixels, an even number; videos require this, --video-height and
    /// ffmpeg
    #[arg(long, value_name = "PIXELS", value_parser = positive, requires = "video_height")]
    video_width: Option<u64>,
    /// Height of generated videos in pixels, an even number; videos require this, --video-width and
    /// ffmpeg
    #[arg(long, value_name = "PIXELS", value_parser = positive, requires = "video_width")]
    video_height: Option<u64>,
    /// Content of generated videos [default: moving-shapes]
    #[arg(long, value_name = "SCENE", value_parser = choice::<Scene>(), requires = "video_width")]
    video_synth_type: Option<Scene>,
    /// Format of generated videos [default: webm]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<VideoFormat>(), requires = "video_width")]
    video_format: Option<VideoFormat>,
    /// ffmpeg encoder for generated videos [default: libvpx-vp9]
    #[arg(long, value_name = "ENCODER", requires = "video_width")]
    video_codec: Option<String>,
    /// Sample rate of the audio in generated videos in Hz, or in kHz if at most 1000
    /// [default: 44100]
    #[arg(long, value_name = "HZ", value_parser = number, requires = "video_audio_num_channels")]
    video_audio_sample_rate: Option<f64>,
    /// Number of audio channels in generated videos: 1 or 2, or 0 for no audio [default: 0]
    #[arg(long, value_name = "COUNT", value_parser = count, requires = "video_width")]
    video_audio_num_channels: Option<u64>,
    /// ffmpeg encoder for the audio in generated videos [default: libvorbis for webm, libopus for
    /// mp4]
    #[arg(long, value_name = "ENCODER", value_parser = choice::<SoundCodec>(), requires = "video_audio_num_channels")]
    video_audio_codec: Option<SoundCodec>,
    /// Bit depth of the audio in generated videos before it is encoded: 8, 16, 24 or 32
    /// [default: 16]
    #[arg(long, value_name = "BITS", value_parser = positive, requires = "video_audio_num_channels")]
    video_audio_depth: Option<u64>,
}

impl VideoArgs {
    /// The videos in each turn; `None` without a size.
    pub(super) fn video(&self) -> Option<VideoClip> {
        let batch_size = self.video_batch_size.unwrap_or(1) as usize;
        if batch_size == 0 {
            return None;
        }
        let (Some(width), Some(height)) = (self.video_width, self.video_height) else {
            return None;
        };
        let pixels = |side: u64| u32::try_from(side).unwrap_or(u32::MAX);
        let format = self.video_format.unwrap_or(VideoFormat::Webm);
        Some(VideoClip {
            width: pixels(width),
            height: pixels(height),
            seconds: self.video_duration.unwrap_or(5.0),
            frame_rate: pixels(self.video_fps.unwrap_or(4)),
            batch_size,
            scene: self.video_synth_type.unwrap_or(Scene::MovingShapes),
            format,
            codec: self.video_codec.clone().unwrap_or_else(|| "libvpx-vp9".to_owned()),
            sound: self.sound(format),
        })
    }

    fn sound(&self, format: VideoFormat) -> Option<VideoSound> {
        let channels = self.video_audio_num_channels.unwrap_or(0);
        if channels == 0 {
            return None;
        }
        let rate = self.video_audio_sample_rate.unwrap_or(44_100.0);
        let hertz = if rate > MAX_KILOHERTZ { rate } else { rate * 1000.0 };
        let short = |number: u64| u16::try_from(number).unwrap_or(u16::MAX);
        Some(VideoSound {
            sample_rate: hertz.round() as u32,
            channels: short(channels),
            depth: short(self.video_audio_depth.unwrap_or(16)),
            codec: self.video_audio_codec.unwrap_or(format.sound_codec()),
        })
    }
}
