//! Any text is a file of fields of DCGM, of which each line is read or has an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::gpu::fields::Fields;

fuzz_target!(|text: &str| {
    let errors = Fields::default().extend(text);
    assert!(errors.len() <= text.lines().count());
    for error in errors {
        assert!(error.line <= text.lines().count());
        assert!(!error.to_string().is_empty());
    }
});
