//! Any arguments are rejected with a message, or result in a configuration whose debug output does
//! not contain headers.
#![no_main]

use std::ffi::OsString;

use aiperf::cli::{self, Command};
use aiperf::config::Environment;
use base::redact;
use client::runner::RequestBuilder;
use libfuzzer_sys::fuzz_target;
use uuid::Uuid;

// Each line is an argument.
fuzz_target!(|lines: &str| {
    let mut arguments: Vec<OsString> =
        ["aiperf", "profile", "--model", "m", "--streaming"].map(Into::into).to_vec();
    for line in lines.lines() {
        arguments.push(line.into());
        let _ = (redact::ShownUrl::new(line), redact::command_line(&[line, line]));
    }
    match cli::parse_with(arguments, Environment::new(&|_| None)) {
        Err(error) => assert!(!error.to_string().is_empty()),
        Ok(Command::Profile(benchmark)) => {
            let config = &benchmark.config;
            let headers = &config.server.headers;
            let endpoint = config.endpoint.endpoint_type.traits();
            if let Ok(builder) = RequestBuilder::new(endpoint, true, Some("s3cret-key"), headers) {
                let shown = format!("{:?}", builder.headers(Uuid::nil(), Uuid::nil()));
                assert!(!shown.contains("s3cret-key"));
            }
        }
        Ok(_) => {}
    }
});
