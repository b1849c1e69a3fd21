//! Any fault rule, duration or jitter is parsed or rejected. A parsed rule is the same after it is
//! formatted and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mock_server::{Jitter, Script, parse_duration};

fuzz_target!(|text: &str| {
    if let Ok(rule) = Script::parse_fault(text) {
        assert_eq!(Script::parse_fault(&rule.to_string()).unwrap(), rule);
    }
    let _ = parse_duration(text);
    let _ = text.parse::<Jitter>();
});
