//! Generated videos: settings and encoding.

use std::fmt::Display;

use base::setting::{InvalidSetting, Named as _, named};

use super::ffmpeg::Job;
use super::noise::noise_of;
use super::scene::Frames;
use super::{MAX_FILE_BYTES, wave};
use crate::Seed;
use serde::Serialize;

/// Settings of generated videos.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct VideoClip {
    /// Width in pixels; even, since the colour has half the resolution.
    pub width: u32,
    /// Height in pixels; even.
    pub height: u32,
    /// Duration in seconds.
    pub seconds: f64,
    /// Frames per second.
    pub frame_rate: u32,
    /// Number of videos per turn.
    pub batch_size: usize,
    /// Content of the videos.
    pub scene: Scene,
    pub format: VideoFormat,
    /// Name of the encoder in ffmpeg.
    pub codec: String,
    /// Sound track, if any.
    pub sound: Option<VideoSound>,
}

/// Content of a generated video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scene {
    /// A red and a blue disc and a green square that move across a black background.
    MovingShapes,
    /// A clock on a grid, whose long hand turns once.
    GridClock,
    /// Noise, different in each frame.
    Noise,
}

named! {
    Scene { "moving_shapes" => MovingShapes, "grid_clock" => GridClock, "noise" => Noise }
}

/// Formats of generated videos, by their names in ffmpeg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VideoFormat {
    /// `WebM`.
    Webm,
    /// MPEG-4, with the metadata at the start of the file.
    Mp4,
}

named! { VideoFormat { "webm" => Webm, "mp4" => Mp4 } }

/// Sound track of generated videos: noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct VideoSound {
    /// Samples per second.
    pub sample_rate: u32,
    /// Number of channels: 1 or 2.
    pub channels: u16,
    /// Bits per sample before encoding: 8, 16, 24 or 32.
    pub depth: u16,
    pub codec: SoundCodec,
}

/// Encoders of sound in videos, by their names in ffmpeg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundCodec {
    Aac,
    Vorbis,
    /// Opus, which always has 48,000 samples per second.
    Opus,
}

named! { SoundCodec { "aac" => Aac, "libvorbis" => Vorbis, "libopus" => Opus } }

/// Maximum width and height of a video in pixels.
const MAX_SIDE: u32 = 8192;
/// Maximum duration of a video, in seconds.
const MAX_SECONDS: f64 = 3600.0;
/// Maximum number of frames per second.
const MAX_FRAME_RATE: u32 = 240;
/// Maximum number of videos per turn.
const MAX_BATCH: usize = 1000;
/// Maximum size in bytes of all frames of a video before encoding; six minutes of 1920 by 1080
/// pixels at 30 frames per second are less.
const MAX_RAW_BYTES: u64 = 64 << 30;

impl VideoFormat {
    /// Returns the encoder of sound that AIPerf uses for this format.
    #[must_use]
    pub const fn sound_codec(self) -> SoundCodec {
        match self {
            Self::Webm => SoundCodec::Vorbis,
            Self::Mp4 => SoundCodec::Opus,
        }
    }
}

impl VideoClip {
    /// Rejects settings from which no video can be generated.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        for (flag, side) in [("--video-width", self.width), ("--video-height", self.height)] {
            within(flag, side, 2, MAX_SIDE, "pixels")?;
            if side % 2 == 1 {
                let reason = format!("must be even, got {side}; use {} or {}", side - 1, side + 1);
                return Err(InvalidSetting::new(flag, reason));
            }
        }
        within("--video-batch-size", self.batch_size, 1, MAX_BATCH, "videos")?;
        within("--video-fps", self.frame_rate, 1, MAX_FRAME_RATE, "frames per second")?;
        let flag = "--video-duration";
        within(flag, self.seconds, 0.0, MAX_SECONDS, "s")?;
        if self.frames() == 0 {
            let (seconds, rate) = (self.seconds, self.frame_rate);
            let reason = format!("{seconds} s at {rate} frames per second is less than one frame");
            return Err(InvalidSetting::new(flag, reason));
        }
        let raw = 3 * u64::from(self.width) * u64::from(self.height) * u64::from(self.frames());
        if raw > MAX_RAW_BYTES {
            let most = MAX_RAW_BYTES >> 30;
            let reason = format!("its frames exceed {most} GiB; make it shorter or smaller");
            return Err(InvalidSetting::new(flag, reason));
        }
        if self.codec.is_empty() {
            return Err(InvalidSetting::new(
                "--video-codec",
                "must be an ffmpeg encoder".to_owned(),
            ));
        }
        self.sound.map_or(Ok(()), |sound| self.check_sound(sound))
    }

    fn check_sound(&self, sound: VideoSound) -> Result<(), InvalidSetting> {
        within("--video-audio-num-channels", sound.channels, 1, 2, "channels")?;
        within("--video-audio-sample-rate", sound.sample_rate, 8000, 96_000, "samples per second")?;
        if !matches!(sound.depth, 8 | 16 | 24 | 32) {
            let reason = "must be 8, 16, 24 or 32 bits".to_owned();
            return Err(InvalidSetting::new("--video-audio-depth", reason));
        }
        if self.sound_bytes(sound) > MAX_FILE_BYTES {
            let most = MAX_FILE_BYTES >> 20;
            let reason = format!("its audio exceeds {most} MiB; make it shorter");
            return Err(InvalidSetting::new("--video-duration", reason));
        }
        Ok(())
    }

    /// Returns the number of frames of a video.
    pub(super) fn frames(&self) -> u32 {
        // Compensates for rounding of the product: 0.29 s at 100 frames per second are 29.
        (self.seconds * f64::from(self.frame_rate) + 1e-6) as u32
    }

    /// Returns the size in bytes of the samples for the duration of the frames.
    fn sound_bytes(&self, sound: VideoSound) -> u64 {
        let seconds = f64::from(self.frames()) / f64::from(self.frame_rate);
        let samples = (seconds * f64::from(sound.sample_rate)).round() as u64;
        samples * u64::from(sound.channels) * u64::from(sound.depth / 8)
    }

    /// Returns the job that encodes the video of this seed.
    pub(super) fn job(&self, seed: Seed) -> Job {
        let size = format!("{}x{}", self.width, self.height);
        let rate = self.frame_rate.to_string();
        let input = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", &size, "-r", &rate];
        let mut output = strings(["-c:v", &self.codec, "-pix_fmt", "yuv420p"]);
        if let Some(sound) = self.sound {
            output.extend(strings(["-c:a", sound.codec.name()]));
        }
        if self.format == VideoFormat::Mp4 {
            output.extend(strings(["-movflags", "faststart"]));
        }
        output.extend(strings(["-f", self.format.name()]));
        Job {
            input: strings(input),
            pieces: Box::new(Frames::new(self, seed.stream("frames"))),
            sound: self.sound.map(|sound| self.sound_of(sound, seed)),
            output,
        }
    }

    fn sound_of(&self, sound: VideoSound, seed: Seed) -> Vec<u8> {
        let samples = noise_of(&mut seed.stream("sound"), self.sound_bytes(sound));
        wave::write(&samples, sound.sample_rate, sound.channels, sound.depth)
    }
}

fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).into()
}

fn within<T: PartialOrd + Display + Copy>(
    flag: &'static str,
    value: T,
    least: T,
    most: T,
    unit: &str,
) -> Result<(), InvalidSetting> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let reason = format!("must be between {least} and {most} {unit}, got {value}");
    Err(InvalidSetting::new(flag, reason))
}

#[cfg(test)]
impl VideoClip {
    /// Returns a video of one second with four frames.
    pub(super) fn small() -> Self {
        Self {
            width: 64,
            height: 48,
            seconds: 1.0,
            frame_rate: 4,
            batch_size: 1,
            scene: Scene::MovingShapes,
            format: VideoFormat::Webm,
            codec: "libvpx-vp9".to_owned(),
            sound: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::duration::audio_seconds;
    use super::*;

    const SOUND: VideoSound =
        VideoSound { sample_rate: 44_100, channels: 2, depth: 24, codec: SoundCodec::Opus };

    #[test]
    fn frames_are_whole() {
        let frames =
            |seconds, frame_rate| VideoClip { seconds, frame_rate, ..VideoClip::small() }.frames();
        assert_eq!(frames(5.0, 4), 20);
        // 0.29 * 100 is 28.999999999999996.
        assert_eq!(frames(0.29, 100), 29);
        assert_eq!(frames(1.99, 1), 1);
        assert_eq!(frames(0.2, 4), 0);
    }

    #[test]
    fn sound_is_as_long_as_the_frames() {
        // 1.3 s at four frames per second are five frames, which last 1.25 s.
        let video = VideoClip { seconds: 1.3, sound: Some(SOUND), ..VideoClip::small() };
        let job = video.job(Seed(1));
        assert_eq!(job.pieces.count(), 5);
        let sound = job.sound.unwrap();
        assert!((audio_seconds(&sound).unwrap().unwrap() - 1.25).abs() < 1.0 / 44_100.0);
        assert_eq!(Some(sound), video.job(Seed(1)).sound);
        assert_ne!(video.job(Seed(2)).sound, video.job(Seed(1)).sound);
    }

    #[test]
    fn settings_that_no_video_can_be_made_of_are_refused_by_their_flag() {
        let refusal = |video: VideoClip| video.check().unwrap_err().to_string();
        let small = VideoClip::small;
        assert!(small().check().is_ok());
        let odd = refusal(VideoClip { width: 65, ..small() });
        assert!(
            odd.starts_with("--video-width: must be even, got 65") && odd.ends_with("64 or 66"),
            "{odd}"
        );
        assert!(
            refusal(VideoClip { height: 0, ..small() })
                .starts_with("--video-height: must be between")
        );
        assert!(refusal(VideoClip { height: 8194, ..small() }).starts_with("--video-height: "));
        assert!(
            refusal(VideoClip { frame_rate: 0, ..small() })
                .starts_with("--video-fps: must be between")
        );
        let many = refusal(VideoClip { batch_size: 1001, ..small() });
        assert!(many.starts_with("--video-batch-size: ") && many.ends_with("got 1001"), "{many}");
        for seconds in [f64::NAN, f64::INFINITY, -1.0, 0.0, 0.1, 3601.0] {
            let said = refusal(VideoClip { seconds, ..small() });
            assert!(said.starts_with("--video-duration: "), "{said}");
        }
        let huge = VideoClip { width: 8192, height: 8192, seconds: 100.0, ..small() };
        assert!(refusal(huge).contains("exceed 64 GiB"));
        assert!(refusal(VideoClip { codec: String::new(), ..small() }).contains("--video-codec"));

        let heard = |sound| VideoClip { sound: Some(sound), ..small() };
        assert!(heard(SOUND).check().is_ok());
        let refused = |sound| refusal(heard(sound));
        assert!(
            refused(VideoSound { channels: 3, ..SOUND }).contains("--video-audio-num-channels")
        );
        assert!(refused(VideoSound { depth: 12, ..SOUND }).contains("--video-audio-depth"));
        let slow = refused(VideoSound { sample_rate: 7999, ..SOUND });
        assert!(
            slow.contains("--video-audio-sample-rate: must be between 8000 and 96000"),
            "{slow}"
        );
        let long = VideoClip { seconds: 3600.0, frame_rate: 1, ..heard(SOUND) };
        assert!(refusal(long).contains("its audio exceeds 256 MiB"));
    }
}
