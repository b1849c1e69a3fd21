//! What ffmpeg makes for generated turns, once they are all there: videos, and MP3
//! of the sound.

use bytes::Bytes;

use super::ffmpeg::Ffmpeg;
use super::video::VideoClip;
use super::{AudioFormat, Inline, Media, MediaContent, MediaKinds, kind, mp3};
use crate::dataset::{Conversation, DatasetError, Seed, Synthetic, Turn};

/// Most different videos of a dataset. Further turns bear them again, from the
/// first: encoding one takes seconds.
const MOST_VIDEOS: usize = 100;

impl Synthetic {
    /// Whether ffmpeg has something to do, which takes its time.
    #[must_use]
    pub fn needs_encoder(&self) -> bool {
        self.video.is_some() || self.has_mp3()
    }

    fn has_mp3(&self) -> bool {
        self.audio.as_ref().is_some_and(|audio| audio.format == AudioFormat::Mp3)
    }
}

/// Encodes what `config` asks for, into the turns that it was generated for.
pub(in crate::dataset) fn encode(
    conversations: &mut [Conversation],
    config: &Synthetic,
    seed: Seed,
) -> Result<(), DatasetError> {
    let ffmpeg = Ffmpeg::default();
    let turns = conversations.iter_mut().flat_map(|conversation| &mut conversation.turns);
    let mut turns: Vec<_> = turns.collect();
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

/// The video by the flags that an encoder may have something against.
fn named(video: &VideoClip) -> String {
    let (codec, format) = (&video.codec, video.format.name());
    let sound = video.sound.map_or_else(String::new, |sound| {
        format!(" and --video-audio-codec {}", sound.codec.name())
    });
    format!("{format} videos by --video-codec {codec}{sound}")
}

/// Makes MP3 files of WAV files, each as long as it was.
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
    let different = turns.len().saturating_mul(video.batch_size).min(MOST_VIDEOS);
    let seed = seed.derive("dataset.video");
    let files = ffmpeg.encode_all(different, |index| video.job(Seed(seed.number(index as u64))))?;
    let media_type = format!("video/{}", video.format.name());
    let videos = files.into_iter().map(|file| content(MediaKinds::VIDEO, &media_type, file));
    let videos = videos.collect::<Result<Vec<_>, _>>()?;
    let mut videos = videos.iter().cycle();
    for turn in turns {
        let next = videos.by_ref().take(video.batch_size).cloned();
        let kind = MediaKinds::VIDEO;
        turn.media.extend(next.map(|content| Media { kind, content, seconds: None }));
    }
    Ok(())
}

/// The file, if it is what it was to be.
fn content(kind: MediaKinds, media_type: &str, file: Vec<u8>) -> Result<MediaContent, String> {
    if kind::media_type(kind, &file) != Some(media_type) {
        return Err(format!("what ffmpeg wrote is no {media_type} by its first bytes"));
    }
    Ok(MediaContent::Inline(Inline { media_type: media_type.into(), bytes: file.into() }))
}
