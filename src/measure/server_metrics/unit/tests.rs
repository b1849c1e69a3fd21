use super::*;

/// Returns the unit of a gauge with this name and without a description.
fn by_name(name: &str) -> Option<&'static str> {
    infer(name, SeriesKind::Gauge, "")
}

fn by_description(description: &str) -> Option<&'static str> {
    infer("x_total", SeriesKind::Gauge, description)
}

#[test]
fn suffixes_of_the_specification() {
    let rows: [(&[&str], &str); 18] = [
        (&["x_seconds", "x_seconds_total"], "seconds"),
        (&["x_milliseconds", "x_ms", "x_ms_total"], "milliseconds"),
        (&["x_nanoseconds", "x_ns", "x_ns_total"], "nanoseconds"),
        (&["x_us", "x_us_total", "x_microseconds", "x_microseconds_total"], "microseconds"),
        (&["x_bytes", "x_bytes_total"], "bytes"),
        (&["x_kilobytes"], "kilobytes"),
        (&["x_megabytes"], "megabytes"),
        (&["x_gigabytes"], "gigabytes"),
        (&["x_total", "x_count"], "count"),
        (&["x_tokens", "x_tokens_total"], "tokens"),
        (&["x_requests", "x_requests_total", "x_reqs"], "requests"),
        (&["vllm:request_success", "a_num_requests_running"], "requests"),
        (&["x_errors", "x_errors_total", "x_error_count", "x_error_count_total"], "errors"),
        (&["x_blocks", "x_blocks_total", "x_block_count"], "blocks"),
        (&["x_gb_s"], "gb/s"),
        (&["x_ratio"], "ratio"),
        (&["x_percent", "x_perc"], "percent"),
        (&["x_celsius"], "celsius"),
    ];
    for (names, unit) in rows {
        for name in names {
            assert_eq!(by_name(name), Some(unit), "{name}");
        }
    }
    assert_eq!(by_name("Foo_Seconds"), Some("seconds"));
    assert_eq!(by_name("Foo_TOKENS_Total"), Some("tokens"));
    assert_eq!(by_name("Num_Requests_Waiting"), Some("requests"));
    assert_eq!(by_name("x_joules"), Some("joule"));
    assert_eq!(by_name("x_watts"), Some("watt"));
    assert_eq!(by_name("tokens"), None);
}

#[test]
fn a_counter_has_the_unit_of_its_name_in_files() {
    let counter = |name| infer(name, SeriesKind::Counter, "");
    assert_eq!(counter("vllm:generation_tokens"), Some("tokens"));
    assert_eq!(counter("vllm:request_success"), Some("requests"));
    assert_eq!(counter("nv_inference_request_duration_us"), Some("microseconds"));
    assert_eq!(counter("vllm:num_preemptions"), None);
}

#[test]
fn descriptions_come_before_names() {
    let rows = [
        ("KV-cache usage. 1 means 100 percent usage.", "ratio"),
        ("Utilization (0-1), in bytes", "ratio"),
        ("Range 0.0-1.0.", "ratio"),
        ("From 0 to 1", "ratio"),
        ("KV-cache usage as a fraction of available cache blocks.", "ratio"),
        ("Load, 1 = 100%.", "ratio"),
        ("KV cache usage [0.0 - 1.0]", "ratio"),
        ("Usage from 0.0 to 1.0.", "ratio"),
        ("Cache usage (1=100%)", "ratio"),
        ("USAGE, 1 MEANS 100 PERCENT", "ratio"),
        ("GPU utilization, 0 to 100%", "percent"),
        ("Time spent IN SECOND(S)", "seconds"),
        ("Wait in millisecond(s).", "milliseconds"),
        ("Fan speed (in Percent)", "percent"),
        ("Utilization (0-100)", "percent"),
        ("Utilization 0-100%", "percent"),
        ("Memory (in MiB)", "megabytes"),
        ("Power (in mW)", "milliwatt"),
        ("Energy (in MJ)", "megajoule"),
        ("Clock (in MHz)", "megahertz"),
        ("Bandwidth (in GB/s)", "gb/s"),
        ("Load (in %)", "percent"),
        ("Latency in milliseconds.", "milliseconds"),
        ("Histogram of e2e request latency in seconds.", "seconds"),
        ("Speed (GB/s)", "gb/s"),
        ("Speed (tokens/s)", "tokens/s"),
        ("Length in tokens", "tokens"),
        ("Wait in second.", "seconds"),
        ("Wait (second)", "seconds"),
        ("Wait (Millisecond)", "milliseconds"),
        ("Wait in nanosecond", "nanoseconds"),
        ("Size (byte)", "bytes"),
        ("Speed in token/second", "tokens/s"),
        ("Load in requests/sec.", "requests/s"),
    ];
    for (description, unit) in rows {
        assert_eq!(by_description(description), Some(unit), "{description}");
    }
    for description in [
        "From 0 to 1000",
        "10 to 1",
        "10.0 - 1.0",
        "0 - 1000 items",
        "11=100%",
        "Diffraction often",
        "in secondsworth",
        "in secondary storage",
        "Blocks (in zz)",
        "",
    ] {
        assert_eq!(by_description(description), Some("count"), "{description}");
    }
}
