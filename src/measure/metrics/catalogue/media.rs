//! Metrics of images, audio and videos.

use base::units::Unit;

use super::{SECOND, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::metrics::tag;

pub(super) const IMAGES: &str = "Images in requests, for endpoint types that accept images.";
pub(super) const VIDEO: &str =
    "Cost of generating videos as the server reports it, for endpoint types that generate videos.";
pub(super) const AUDIO: &str = "Audio in requests, for endpoint types that accept audio.";

pub(super) static IMAGE_ROWS: &[Metric] = &[
    Metric::record(tag::NUM_IMAGES, "Number of Images", Unit::Images, |facts, _| {
        (facts.images > 0).then_some(facts.images as f64)
    })
    .short("Num Images")
    .flagged(Flag::SUPPORTS_IMAGE_ONLY)
    .off_console()
    .says(
        "Images in the request.",
        "count(images of the turn, and of the earlier turns that the request repeats). Absent \
         without images.",
    ),
    Metric::record(
        tag::IMAGE_THROUGHPUT,
        "Image Throughput",
        Unit::ImagesPerSecond,
        |_, values| {
            let latency = values.scalar(tag::REQUEST_LATENCY)? / SECOND;
            ratio(values.scalar(tag::NUM_IMAGES)?, latency)
        },
    )
    .float()
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_IMAGE_ONLY))
    .at(Default, 860)
    .requires(&[tag::NUM_IMAGES, tag::REQUEST_LATENCY])
    .says("Images per second of request latency.", "num_images / request_latency."),
    Metric::record(tag::IMAGE_LATENCY, "Image Latency", Unit::MillisecondsPerImage, |_, values| {
        let latency = values.scalar(tag::REQUEST_LATENCY)?;
        ratio(
            Unit::Nanoseconds.convert(latency, Unit::Milliseconds),
            values.scalar(tag::NUM_IMAGES)?,
        )
    })
    .float()
    .flagged(Flag::SUPPORTS_IMAGE_ONLY)
    .at(Default, 861)
    .requires(&[tag::NUM_IMAGES, tag::REQUEST_LATENCY])
    .says("Request latency per image.", "request_latency / num_images."),
];

pub(super) static VIDEO_ROWS: &[Metric] = &[
    Metric::record(tag::VIDEO_INFERENCE_TIME, "Video Inference Time", Unit::Seconds, |facts, _| {
        facts.response.inference_seconds
    })
    .float()
    .short("Inference Time")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::PRODUCES_VIDEO_ONLY)
    .at(Default, 310)
    .says(
        "Time to generate the video, as the server reports it.",
        "`inference_time_s` of the job. Absent if the server does not report it.",
    ),
    Metric::record(tag::VIDEO_PEAK_MEMORY, "Video Peak Memory", Unit::Megabytes, |facts, _| {
        facts.response.peak_memory_megabytes
    })
    .float()
    .short("Peak Memory")
    .flagged(Flag::PRODUCES_VIDEO_ONLY)
    .at(Default, 311)
    .says(
        "Peak accelerator memory while generating the video, as the server reports it.",
        "`peak_memory_mb` of the job. Absent if the server does not report it.",
    ),
];

pub(super) static AUDIO_ROWS: &[Metric] = &[
    Metric::record(tag::AUDIO_DURATION, "Audio Duration", Unit::Seconds, |facts, _| {
        facts.audio_seconds
    })
    .float()
    .short("Audio Dur")
    .flagged(Flag::SUPPORTS_AUDIO_ONLY)
    .off_console()
    .says(
        "Duration of the audio in the request.",
        "sum(seconds of each audio file of the turn, and of the earlier turns that the request \
         repeats), from the file headers. Absent without audio, or if the duration of a file is \
         unknown.",
    ),
    Metric::record(tag::RTFX, "Inverse Real-Time Factor (RTFx)", Unit::Ratio, |_, values| {
        let latency = values.scalar(tag::REQUEST_LATENCY)? / SECOND;
        ratio(values.scalar(tag::AUDIO_DURATION)?, latency)
    })
    .float()
    .short("RTFx")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Default, 850)
    .requires(&[tag::AUDIO_DURATION, tag::REQUEST_LATENCY])
    .says(
        "How many times faster than real time audio was processed.",
        "audio_duration / request_latency.",
    ),
];
