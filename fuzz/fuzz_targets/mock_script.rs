//! Any fault rule, duration, jitter or write log is parsed or rejected. A parsed rule or log is the
//! same after it is formatted and parsed again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mock_server::{Jitter, Script, parse_duration, read_write_log};

fuzz_target!(|text: &str| {
    if let Ok(rule) = Script::parse_fault(text) {
        assert_eq!(Script::parse_fault(&rule.to_string()).unwrap(), rule);
    }
    let _ = parse_duration(text);
    let _ = text.parse::<Jitter>();
    if let Ok(log) = read_write_log(text.as_bytes()) {
        let lines = log.iter().map(|request| serde_json::to_string(request).unwrap() + "\n");
        assert_eq!(read_write_log(lines.collect::<String>().as_bytes()).unwrap(), log);
    }
});
