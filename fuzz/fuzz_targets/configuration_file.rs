//! Any configuration file is rejected with a message, or becomes a run, with no secret of the environment in what
//! is printed of it.
#![no_main]

use std::ffi::OsString;

use aiperf::cli::{self, Command};
use aiperf::config::Environment;
use libfuzzer_sys::fuzz_target;

const SECRET: &str = "s3cret-hunter2-key";

fuzz_target!(|text: &str| {
    let file = std::env::temp_dir().join(format!("aiperf-fuzz-{}.yaml", std::process::id()));
    let lookup = |name: &str| (name == "API_KEY").then(|| SECRET.to_owned());
    // As it is, and as the settings of a benchmark with a template.
    let inside = text.replace('\n', "\n  ");
    let templated =
        format!("variables: {{key: '${{API_KEY}}', n: 2}}\nbenchmark:\n  model: m\n  {inside}");
    for content in [text, templated.as_str()] {
        if std::fs::write(&file, content).is_err() {
            return;
        }
        let name = |words: &[&str]| -> Vec<OsString> {
            let words = words.iter().map(OsString::from);
            words.chain([file.clone().into_os_string()]).collect()
        };
        let run = name(&["aiperf", "profile", "--model", "m", "--config"]);
        match cli::parse_with(run, Environment::new(&lookup)) {
            Err(error) => assert!(!error.to_string().is_empty()),
            // Without a model, the server of the file would be asked for one.
            Ok(Command::Profile(_)) if content == templated => {
                let all = name(&["aiperf", "config", "expand", "--full"]);
                let shown = match cli::parse_with(all, Environment::new(&lookup)) {
                    Ok(Command::Show(shown)) => shown,
                    Ok(_) => return,
                    Err(error) => error.to_string(),
                };
                assert!(!shown.contains(SECRET), "{shown}");
            }
            Ok(_) => {}
        }
    }
});
