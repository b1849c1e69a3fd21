//! Encoding of media with ffmpeg, after all of them are generated: videos, audio as MP3, and pictures
//! that are scaled.

use std::collections::HashMap;

use bytes::Bytes;

use base::setting::Named as _;

use super::ffmpeg::Ffmpeg;
use super::pictures::Conversion;
use super::video::VideoClip;
use super::{
    AudioFormat, ImageShape, Inline, MAX_FILE_BYTES, Media, MediaContent, MediaKinds, kind, mp3,
};
use crate::{Conversation, DatasetError, Seed, Synthetic, Turn};

/// Maximum number of distinct videos in a dataset. Further turns repeat them from the first,
/// because encoding takes seconds per video.
const MAX_VIDEOS: usize = 100;

impl Synthetic {
    /// Returns whether ffmpeg is needed, which takes time.
    #[must_use]
    pub fn needs_encoder(&self) -> bool {
        self.video.is_some() || self.has_mp3() || self.scaled().is_some()
    }

    /// Returns what pictures are converted to.
    fn scaled(&self) -> Option<ImageShape> {
        self.pictures.as_ref()?.scaled
    }

    fn has_mp3(&self) -> bool {
        self.audio.as_ref().is_some_and(|audio| audio.format == AudioFormat::Mp3)
    }
}

/// Encodes the media that `config` describes into the turns that they were generated for.
pub(crate) fn encode(
    conversations: &mut [Conversation],
    config: &Synthetic,
    seed: Seed,
) -> Result<(), DatasetError> {
    let ffmpeg = Ffmpeg::default();
    let turns = conversations.iter_mut().flat_map(|conversation| &mut conversation.turns);
    let mut turns: Vec<_> = turns.collect();
    if let Some(shape) = config.scaled() {
        let images = turns.iter_mut().flat_map(|turn| &mut turn.media);
        let images = images.filter(|media| media.kind == MediaKinds::IMAGE).collect();
        let failed = |reason| DatasetError::Encode { what: "scaled pictures".to_owned(), reason };
        scale(&ffmpeg, images, shape, seed).map_err(failed)?;
    }
    if config.has_mp3() {
        let sounds = turns.iter_mut().flat_map(|turn| &mut turn.media);
        let sounds = sounds.filter(|media| media.kind == MediaKinds::AUDIO).collect();
        let failed = |reason| DatasetError::Encode { what: "MP3".to_owned(), reason };
        to_mp3(&ffmpeg, sounds).map_err(failed)?;
    }
    if let Some(video) = &config.video {
        add_videos(&ffmpeg, turns, video, seed)
            .map_err(|reason| DatasetError::Encode { what: named(video), reason })?;
    }
    Ok(())
}

/// Returns a description of the video with the flags that an encoder may reject.
fn named(video: &VideoClip) -> String {
    let (codec, format) = (&video.codec, video.format.name());
    let sound = video.sound.map_or_else(String::new, |sound| {
        format!(" and --video-audio-codec {}", sound.codec.name())
    });
    format!("{format} videos with --video-codec {codec}{sound}")
}

/// Converts pictures to sizes and formats drawn from `shape`, each combination once.
fn scale(
    ffmpeg: &Ffmpeg,
    images: Vec<&mut Media>,
    shape: ImageShape,
    seed: Seed,
) -> Result<(), String> {
    let mut shapes = seed.stream("dataset.image.size");
    let mut places = HashMap::new();
    let mut conversions: Vec<Conversion> = Vec::new();
    let mut converted: Vec<(&mut Media, usize)> = Vec::new();
    for media in images {
        let MediaContent::Inline(picture) = &media.content else { continue };
        let (width, height, is_png) = shape.draw(&mut shapes);
        if 3 * u64::from(width) * u64::from(height) > MAX_FILE_BYTES {
            return Err(format!("{width} by {height} pixels are too large; make them smaller"));
        }
        // Turns share the bytes of a picture.
        let key = (picture.bytes.as_ptr().addr(), width, height, is_png);
        let place = *places.entry(key).or_insert_with(|| {
            conversions.push(Conversion { picture: picture.clone(), width, height, is_png });
            conversions.len() - 1
        });
        converted.push((media, place));
    }
    let files = ffmpeg.encode_all(conversions.len(), |index| conversions[index].job())?;
    let files = files.into_iter().zip(&conversions).map(|(file, conversion)| {
        let media_type = if conversion.is_png { "image/png" } else { "image/jpeg" };
        content(MediaKinds::IMAGE, media_type, file)
    });
    let files = files.collect::<Result<Vec<_>, _>>()?;
    for (media, place) in converted {
        media.content = files[place].clone();
    }
    Ok(())
}

/// Encodes WAV files as MP3 files; their durations stay the same.
fn to_mp3(ffmpeg: &Ffmpeg, mut sounds: Vec<&mut Media>) -> Result<(), String> {
    let wave = |media: &Media| match &media.content {
        MediaContent::Inline(file) => file.bytes.clone(),
        MediaContent::Url(_) => Bytes::new(),
    };
    let waves: Vec<_> = sounds.iter().map(|media| wave(media)).collect();
    let files = ffmpeg.encode_all(waves.len(), |index| mp3::job(&waves[index]))?;
    for (sound, file) in sounds.iter_mut().zip(files) {
        sound.content = content(MediaKinds::AUDIO, "audio/mpeg", file)?;
    }
    Ok(())
}

fn add_videos(
    ffmpeg: &Ffmpeg,
    turns: Vec<&mut Turn>,
    video: &VideoClip,
    seed: Seed,
) -> Result<(), String> {
    let different = turns.len().saturating_mul(video.batch_size).min(MAX_VIDEOS);
    let seed = seed.derive("dataset.video");
    let files = ffmpeg.encode_all(different, |index| video.job(Seed(seed.number(index as u64))))?;
    let media_type = format!("video/{}", video.format.name());
    let videos = files.into_iter().map(|file| content(MediaKinds::VIDEO, &media_type, file));
    let videos = videos.collect::<Result<Vec<_>, _>>()?;
    let mut videos = videos.iter().cycle();
    for turn in turns {
        let next = videos.by_ref().take(video.batch_size).cloned();
        let kind = MediaKinds::VIDEO;
        turn.media.extend(next.map(|content| Media { kind, content, seconds: None, uuid: None }));
    }
    Ok(())
}

/// Returns the file as content if it has the expected format.
fn content(kind: MediaKinds, media_type: &str, file: Vec<u8>) -> Result<MediaContent, String> {
    if kind::media_type(kind, &file) != Some(media_type) {
        return Err(format!("ffmpeg's output is not {media_type} by its first bytes"));
    }
    Ok(MediaContent::Inline(Inline { media_type: media_type.into(), bytes: file.into() }))
}
