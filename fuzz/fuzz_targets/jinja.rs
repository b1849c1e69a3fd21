//! Any text is a template or rejected with a message, and rendering it ends.
#![no_main]

use base::jinja::{Template, environment};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|source: &str| {
    let mut environment = environment();
    environment.set_fuel(Some(10_000));
    let context = json!({"text": "a", "messages": [{"role": "user", "content": "b"}]});
    match Template::new(environment, source.to_owned()).and_then(|made| made.render(context)) {
        Ok(_) => {}
        Err(why) => assert!(!why.is_empty()),
    }
});
