//! Any `--gate`, absolute or relative, is rejected, or its text describes the same gate again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use measure::judge::{Gate, RelativeGate};

fuzz_target!(|text: &str| {
    if let Ok(gate) = text.parse::<Gate>() {
        let again: Gate = gate.to_string().parse().expect("a gate's text is a gate");
        assert_eq!(format!("{gate:?}"), format!("{again:?}"));
    }
    if let Ok(gate) = text.parse::<RelativeGate>() {
        let again: RelativeGate = gate.to_string().parse().expect("a gate's text is a gate");
        assert_eq!(format!("{gate:?}"), format!("{again:?}"));
    }
});
