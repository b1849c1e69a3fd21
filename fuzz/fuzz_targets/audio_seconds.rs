//! The duration of any file is finite or unknown.
#![no_main]

use dataset::audio_seconds;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    if let Ok(Some(seconds)) = audio_seconds(file) {
        assert!(seconds.is_finite() && seconds >= 0.0);
    }
});
