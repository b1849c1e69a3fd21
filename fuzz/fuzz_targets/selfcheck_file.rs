//! Any self-check file is valid for this machine and version, or rejected with a message. A parsed
//! one is the same after it is written and parsed again.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use aiperf::config::selfcheck;
use libfuzzer_sys::fuzz_target;
use measure::metrics::health::Machine;
use tempfile::NamedTempFile;

static FILE: LazyLock<NamedTempFile> = LazyLock::new(|| NamedTempFile::new().unwrap());

fuzz_target!(|bytes: &[u8]| {
    let machine = Machine { cpu: "a".to_owned(), cores: 2, kernel: "6".to_owned() };
    fs::write(FILE.path(), bytes).unwrap();
    match selfcheck::read(FILE.path(), &machine) {
        Err(error) => assert!(error.to_string().contains("self-check")),
        Ok(None) => panic!("there is a file"),
        Ok(Some(check)) => {
            let _ = check.excess(Some(1), Some(1.0));
            fs::write(FILE.path(), serde_json::to_vec(&check).unwrap()).unwrap();
            assert_eq!(selfcheck::read(FILE.path(), &machine).unwrap(), Some(check));
        }
    }
});
