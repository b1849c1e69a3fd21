//! Videos and MP3 files generated with ffmpeg, as they are sent, and as ffprobe reads them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use mock_server::Script;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::left_out::left_out;
use crate::support::load::mock;
use crate::support::run::{Run, aiperf, profile, profile_command, signal, with_signal};

/// Returns whether ffmpeg is installed; without it, the tests are skipped.
fn has_ffmpeg() -> bool {
    let is_there = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !is_there {
        left_out("ffmpeg");
    }
    is_there
}

/// Two videos of one second with four frames, unless `extra` changes this.
fn videos(extra: &[&str]) -> Run {
    let mut arguments = vec!["--video-width", "64", "--video-height", "48"];
    if !extra.contains(&"--video-duration") {
        arguments.extend(["--video-duration", "1"]);
    }
    made(&[&arguments, extra].concat())
}

fn made(extra: &[&str]) -> Run {
    made_for("2", "7", extra)
}

/// Runs `count` requests with this seed.
fn made_for(requests: &str, seed: &str, extra: &[&str]) -> Run {
    let server = mock(Script::default());
    let base = ["--request-count", requests, "--random-seed", seed, "--export-level", "raw"];
    profile(&server.url(), &[&base[..], extra].concat()).succeeded()
}

/// Returns the media of all requests, in the order of their payloads.
fn media(run: &Run) -> Vec<Value> {
    let mut media: Vec<Value> = Vec::new();
    for line in run.text("profile_export_raw.jsonl").lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let parts = record["payload"]["messages"][0]["content"].as_array().unwrap();
        media.extend(parts.iter().filter(|part| part["type"] != "text").cloned());
    }
    media.sort_by_key(Value::to_string);
    media
}

/// Returns the files of videos, which must have this type.
fn files(run: &Run, media_type: &str) -> Vec<Vec<u8>> {
    let file = |part: Value| {
        let url = part["video_url"]["url"].as_str().unwrap();
        let data = url.strip_prefix(&format!("data:{media_type};base64,"));
        BASE64_STANDARD.decode(data.unwrap_or_else(|| panic!("{url:.60}"))).unwrap()
    };
    media(run).into_iter().map(file).collect()
}

/// Returns ffprobe's description of a file, after reading all its frames.
fn probed(file: &[u8]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, file).unwrap();
    let mut command = Command::new("ffprobe");
    command.args(["-v", "error", "-count_frames", "-show_streams", "-show_format", "-of", "json"]);
    let output = command.arg(path).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn seconds(said: &Value) -> f64 {
    said["format"]["duration"].as_str().unwrap().parse().unwrap()
}

fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
}

#[test]
fn videos_are_what_the_flags_say() {
    if !has_ffmpeg() {
        return;
    }
    let h264 = &["--video-format", "mp4", "--video-codec", "libx264"][..];
    let cases: [(&[&str], _, _, _, _); 4] = [
        (&[], "video/webm", "matroska,webm", "vp9", 4),
        (&["--video-format", "mp4"], "video/mp4", "mov,mp4,m4a,3gp,3g2,mj2", "vp9", 4),
        (h264, "video/mp4", "mov,mp4,m4a,3gp,3g2,mj2", "h264", 4),
        (
            &["--video-duration", "0.5", "--video-fps", "10", "--video-synth-type", "noise"],
            "video/webm",
            "matroska,webm",
            "vp9",
            5,
        ),
    ];
    for (flags, media_type, container, codec, frames) in cases {
        let run = videos(flags);
        let files = files(&run, media_type);
        assert_eq!(files.len(), 2, "{flags:?}");
        assert_ne!(files[0], files[1], "{flags:?}");
        for file in &files {
            let said = probed(file);
            assert_eq!(said["format"]["format_name"], container);
            let length = if frames == 5 { 0.5 } else { 1.0 };
            assert_near(seconds(&said), length, 0.01);
            let streams = said["streams"].as_array().unwrap();
            assert_eq!(streams.len(), 1, "{flags:?}");
            let video = &streams[0];
            assert_eq!(video["codec_name"], codec);
            assert_eq!((&video["width"], &video["height"]), (&64.into(), &48.into()));
            assert_eq!(video["pix_fmt"], "yuv420p");
            assert_eq!(video["nb_read_frames"], frames.to_string());
        }
        if media_type == "video/mp4" {
            // The header that a reader needs first precedes the frames.
            let place = |name: &[u8]| files[0].windows(4).position(|four| four == name).unwrap();
            assert!(place(b"moov") < place(b"mdat"));
        }
    }
}

#[test]
fn videos_have_sound() {
    if !has_ffmpeg() {
        return;
    }
    let mp4 = ["--video-format", "mp4"];
    let aac = ["--video-format", "mp4", "--video-audio-codec", "aac"];
    // Opus always uses 48 kHz, whatever the input.
    for (flags, media_type, codec, rate) in [
        (&[][..], "video/webm", "vorbis", "22050"),
        (&["--video-audio-codec", "libopus"], "video/webm", "opus", "48000"),
        (&mp4, "video/mp4", "opus", "48000"),
        (&aac, "video/mp4", "aac", "22050"),
    ] {
        let base = ["--video-audio-num-channels", "2", "--video-audio-sample-rate", "22.05"];
        let run = videos(&[&base[..], flags, &["--video-audio-depth", "24"]].concat());
        let files = files(&run, media_type);
        assert_eq!(files.len(), 2);
        let said = probed(&files[0]);
        let streams = said["streams"].as_array().unwrap();
        assert_eq!(streams.len(), 2, "{flags:?}");
        assert_eq!(
            (&streams[0]["codec_name"], &streams[0]["nb_read_frames"]),
            (&"vp9".into(), &"4".into())
        );
        assert_eq!(
            (&streams[1]["codec_name"], &streams[1]["channels"]),
            (&codec.into(), &2.into())
        );
        assert_eq!(streams[1]["sample_rate"], rate);
        // Audio encoders round up to complete blocks of at most 2048 samples.
        assert_near(seconds(&said), 1.0, 0.15);
        let config = &run.summary()["input_config"]["datasets"][0]["video"];
        assert_eq!(config["audio"]["sample_rate"], 22.05);
        assert_eq!((&config["fps"], &config["duration"]), (&4.into(), &1.0.into()));
    }
}

#[test]
fn the_same_seed_makes_the_same_videos() {
    if !has_ffmpeg() {
        return;
    }
    for scene in ["moving_shapes", "grid-clock", "noise"] {
        let size = ["--video-width", "32", "--video-height", "32", "--video-duration", "0.5"];
        let flags = ["--video-synth-type", scene, "--video-audio-num-channels", "1"];
        let bytes = |seed: &str| {
            let flags = [&size[..], &flags, &["--video-batch-size", "2"]].concat();
            files(&made_for("2", seed, &flags), "video/webm")
        };
        let first = bytes("1");
        assert_eq!(first.len(), 4);
        assert!(first.windows(2).all(|two| two[0] != two[1]), "{scene}");
        assert_eq!(first, bytes("1"), "{scene}");
        assert_ne!(first, bytes("2"), "{scene}");
    }
}

#[test]
fn a_hundred_videos_are_borne_again() {
    if !has_ffmpeg() {
        return;
    }
    let size = ["--video-width", "16", "--video-height", "16", "--video-duration", "0.25"];
    let run = made_for("101", "7", &size);
    let files = files(&run, "video/webm");
    assert_eq!(files.len(), 101);
    let different: std::collections::HashSet<_> = files.iter().collect();
    assert_eq!(different.len(), 100);
}

#[test]
fn sound_is_mp3() {
    if !has_ffmpeg() {
        return;
    }
    let flags =
        ["--audio-length-mean", "1.5", "--audio-format", "mp3", "--audio-sample-rates", "24"];
    let run = made(&[&flags[..], &["--audio-num-channels", "2"]].concat());
    let parts = media(&run);
    assert_eq!(parts.len(), 2);
    assert_ne!(parts[0], parts[1]);
    for part in &parts {
        assert_eq!(part["input_audio"]["format"], "mp3");
        let data = part["input_audio"]["data"].as_str().unwrap();
        let said = probed(&BASE64_STANDARD.decode(data).unwrap());
        assert_eq!(said["format"]["format_name"], "mp3");
        let sound = &said["streams"][0];
        assert_eq!((&sound["codec_name"], &sound["channels"]), (&"mp3".into(), &2.into()));
        assert_eq!(sound["sample_rate"], "24000");
        // The encoder adds its delay and its last block: 576 samples each.
        assert_near(seconds(&said), 1.5, 0.1);
    }
    for record in run.records() {
        assert_eq!(record["metrics"]["audio_duration"]["value"], 1.5);
    }
    assert_eq!(run.summary()["input_config"]["datasets"][0]["audio"]["format"], "mp3");
    let again = made(&[&flags[..], &["--audio-num-channels", "2"]].concat());
    assert_eq!(parts, media(&again));
}

/// Returns the error of a run that is rejected before its first request.
fn refusal(change: impl FnOnce(&mut Command) -> &mut Command, extra: &[&str]) -> String {
    let server = mock(Script::default());
    let directory = tempfile::tempdir().unwrap();
    let size = ["--request-count", "1", "--video-width", "64", "--video-height", "48"];
    let mut command =
        profile_command(&server.url(), directory.path(), &[&size[..], extra].concat());
    change(&mut command);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{extra:?}");
    assert_eq!(server.requests_received(), 0);
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_missing_ffmpeg_and_one_that_fails_are_told_before_the_run() {
    let none = tempfile::tempdir().unwrap();
    let said = refusal(|command| command.env("PATH", none.path()), &[]);
    assert!(said.contains("cannot generate webm videos with --video-codec libvpx-vp9"), "{said}");
    assert!(said.contains("apt-get install ffmpeg") && said.contains("--input-file"), "{said}");
    let mp3 = ["--audio-length-mean", "1", "--audio-format", "mp3"];
    let said = refusal(|command| command.env("PATH", none.path()), &mp3);
    assert!(said.contains("cannot generate MP3: ffmpeg is required"), "{said}");
    // The substitute for ffmpeg performs the action in the argument before the output: `webm`.
    let fake = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake");
    let path = format!("{}:/usr/bin:/bin", fake.display());
    let said = refusal(|command| command.env("PATH", path), &[]);
    assert!(
        said.contains("ffmpeg failed with exit status: 127: ") && said.contains("webm"),
        "{said}"
    );
    if has_ffmpeg() {
        let said = refusal(|command| command, &["--video-codec", "no-such-encoder"]);
        let words = "with --video-codec no-such-encoder: ffmpeg failed with exit status: ";
        assert!(said.contains(words) && said.contains("Unknown encoder"), "{said}");
    }
}

#[test]
fn an_interrupt_ends_the_encoding() {
    if !has_ffmpeg() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // A job that takes hours.
    let flags = ["--video-width", "640", "--video-height", "480", "--video-duration", "3600"];
    let mut command = aiperf(&["profile", "--model", "m", "--url", "http://127.0.0.1:1"]);
    command.args(["--ui", "simple", "--artifact-dir"]).arg(directory.path()).args(flags);
    // Files that it may leave there are deleted with the directory.
    command.env("TMPDIR", directory.path());
    let mut child = with_signal("--default-signal=INT", &command).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "encoding media with ffmpeg before the run starts\n");
    signal(&child, Signal::INT);
    assert!(!child.wait().unwrap().success());
}

/// Runs ffmpeg and returns what it writes to its output.
fn ffmpeg(arguments: &[&str]) -> Vec<u8> {
    let quiet = ["-nostdin", "-loglevel", "error", "-y"];
    let output = Command::new("ffmpeg").args(quiet).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Pictures of one color in each format have the size that was asked for, and still the color.
#[test]
fn pictures_are_scaled_to_the_size_of_the_flags() {
    if !has_ffmpeg() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for name in ["a.png", "b.jpg", "c.gif", "d.bmp", "e.tiff"] {
        ffmpeg(&["-f", "lavfi", "-i", "color=red:size=100x80", "-frames:v", "1", &path(name)]);
    }
    let scaled = |extra: &[&str]| {
        let source = ["--image-source", folder.path().to_str().unwrap()];
        let order = ["--image-source-sampling", "sequential-cycle"];
        let sizes = ["--image-width-mean", "32", "--image-height-mean", "16"];
        let run = made_for("6", "7", &[&source[..], &order, &sizes, extra].concat());
        let file = |part: Value| {
            let url = part["image_url"]["url"].as_str().unwrap().to_owned();
            let (head, data) = url.split_once(',').unwrap();
            (head.to_owned(), BASE64_STANDARD.decode(data).unwrap())
        };
        media(&run).into_iter().map(file).collect::<Vec<_>>()
    };
    for (format, head) in [("png", "data:image/png;base64"), ("jpeg", "data:image/jpeg;base64")] {
        let files = scaled(&["--image-format", format]);
        assert_eq!(files.len(), 6);
        for (found, file) in files {
            assert_eq!(found, head);
            let copy = path("copy");
            fs::write(&copy, file).unwrap();
            let raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1"];
            let pixels = ffmpeg(&[&["-i", &copy][..], &raw].concat());
            fs::remove_file(&copy).unwrap();
            assert_eq!(pixels.len(), 32 * 16 * 3);
            let is_red = |pixel: &[u8]| pixel[0] > 245 && pixel[1] < 10 && pixel[2] < 10;
            assert!(pixels.chunks(3).all(is_red), "{:?}", &pixels[..6]);
        }
    }
    let both = scaled(&["--image-width-stddev", "8", "--image-format", "random"]);
    let sizes: std::collections::HashSet<usize> = both.iter().map(|(_, file)| file.len()).collect();
    assert!(sizes.len() > 2, "{sizes:?}");
    fs::write(path("f.png"), b"\x89PNG\r\n\x1a\nno picture").unwrap();
    let server = mock(Script::default());
    let source = ["--image-source", folder.path().to_str().unwrap(), "--request-count", "6"];
    let order = ["--image-source-sampling", "sequential-cycle"];
    let sizes = ["--image-width-mean", "32", "--image-height-mean", "16"];
    let run = profile(&server.url(), &[&source[..], &order, &sizes].concat());
    assert_ne!(run.exit_code(), Some(0));
    assert!(run.stderr().contains("cannot generate scaled pictures: ffmpeg"), "{}", run.stderr());
}
