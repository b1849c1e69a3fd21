//! What requests bear beside their text, and what videos took.

use super::{SECOND, ratio};
use crate::metrics::ConsoleGroup::Default;
use crate::metrics::metric::{Metric, MetricFlags as Flag};
use crate::units::Unit;

pub(super) const IMAGES: &str = "Images that requests bear, of endpoints that take some.";
pub(super) const VIDEO: &str =
    "What generating videos took, as the server says, of endpoints that generate some.";
pub(super) const AUDIO: &str = "Sound that requests bear, of endpoints that take some.";

pub(super) static IMAGE_ROWS: &[Metric] = &[
    Metric::record("num_images", "Number of Images", Unit::Images, |facts, _| {
        (facts.images > 0).then_some(facts.images as f64)
    })
    .short("Num Images")
    .flagged(Flag::SUPPORTS_IMAGE_ONLY)
    .off_console()
    .says(
        "Images that the request bears.",
        "count(images of the turn, and of the earlier turns that the request repeats). Absent \
         without any.",
    ),
    Metric::record("image_throughput", "Image Throughput", Unit::ImagesPerSecond, |_, values| {
        let latency = values.scalar("request_latency")? / SECOND;
        ratio(values.scalar("num_images")?, latency)
    })
    .float()
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_IMAGE_ONLY))
    .at(Default, 860)
    .requires(&["num_images", "request_latency"])
    .says("Images per second of the request's latency.", "num_images / request_latency."),
    Metric::record("image_latency", "Image Latency", Unit::MillisecondsPerImage, |_, values| {
        let latency = values.scalar("request_latency")?;
        ratio(Unit::Nanoseconds.convert(latency, Unit::Milliseconds), values.scalar("num_images")?)
    })
    .float()
    .flagged(Flag::SUPPORTS_IMAGE_ONLY)
    .at(Default, 861)
    .requires(&["num_images", "request_latency"])
    .says("Latency of the request for each of its images.", "request_latency / num_images."),
];

pub(super) static VIDEO_ROWS: &[Metric] = &[
    Metric::record("video_inference_time", "Video Inference Time", Unit::Seconds, |facts, _| {
        facts.response.inference_seconds
    })
    .float()
    .short("Inference Time")
    .shown_in(Unit::Milliseconds)
    .flagged(Flag::PRODUCES_VIDEO_ONLY)
    .at(Default, 310)
    .says(
        "Time that the server says it took to generate the video.",
        "`inference_time_s` of the job. Absent where the server does not say it.",
    ),
    Metric::record("video_peak_memory", "Video Peak Memory", Unit::Megabytes, |facts, _| {
        facts.response.peak_memory_megabytes
    })
    .float()
    .short("Peak Memory")
    .flagged(Flag::PRODUCES_VIDEO_ONLY)
    .at(Default, 311)
    .says(
        "Most memory of the accelerator that the server says generating the video took.",
        "`peak_memory_mb` of the job. Absent where the server does not say it.",
    ),
];

pub(super) static AUDIO_ROWS: &[Metric] = &[
    Metric::record("audio_duration", "Audio Duration", Unit::Seconds, |facts, _| {
        facts.audio_seconds
    })
    .float()
    .short("Audio Dur")
    .flagged(Flag::SUPPORTS_AUDIO_ONLY)
    .off_console()
    .says(
        "How long the sound that the request bears plays.",
        "sum(seconds of each sound of the turn, and of the earlier turns that the request \
         repeats), by the headers of their files. Absent without any, or where one does not say \
         it.",
    ),
    Metric::record("rtfx", "Inverse Real-Time Factor (RTFx)", Unit::Ratio, |_, values| {
        let latency = values.scalar("request_latency")? / SECOND;
        ratio(values.scalar("audio_duration")?, latency)
    })
    .float()
    .short("RTFx")
    .flagged(Flag::LARGER_IS_BETTER.union(Flag::SUPPORTS_AUDIO_ONLY))
    .at(Default, 850)
    .requires(&["audio_duration", "request_latency"])
    .says(
        "How many times faster than it plays sound was dealt with.",
        "audio_duration / request_latency.",
    ),
];
