//! Any description of a client is parsed or rejected, and any results are read or rejected in each
//! format.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use referee::Client;

static CLIENTS: LazyLock<Vec<Client>> = LazyLock::new(|| {
    let places = [("json", "/a/0"), ("csv", "/TTFT/p99"), ("text", r"([\d.]+)(ms|s)?")];
    let describe = |(format, place)| {
        let text = format!(
            "name = \"a\"\nprogram = \"a\"\nresults = {{ file = \"stdout\", format = \"{format}\" }}\n\
             [figures]\ntime_to_first_token = {{ unit = \"ms\", mean = '{place}' }}"
        );
        Client::parse(&text).unwrap()
    };
    places.map(describe).into()
});

fuzz_target!(|text: &str| {
    if let Ok(client) = Client::parse(text) {
        let _ = client.check_results("{}");
    }
    for client in CLIENTS.iter() {
        let _ = client.check_results(text);
    }
});
