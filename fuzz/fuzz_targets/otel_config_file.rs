//! Any configuration file of OpenTelemetry is applied or refused.
#![no_main]

use base::environment::Environment;
use libfuzzer_sys::fuzz_target;
use telemetry::check_configuration_file;

fuzz_target!(|text: &str| {
    let lookup = |name: &str| (name == "A").then(|| "${B}: [1".to_owned());
    let environment = Environment::new(&lookup);
    let _ = check_configuration_file(text, environment);
    let _ = check_configuration_file(&format!("file_format: \"1.1\"\n{text}"), environment);
});
