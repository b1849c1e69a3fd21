//! What the command line prints: help and errors, as snapshots in `tests/integration/snapshots`.
//! After a change, `INSTA_UPDATE=always cargo test --test integration shown` writes them again, to
//! be read before they are committed.

use std::fmt::Write as _;

use super::parse_in;

fn printed(arguments: &[&str]) -> String {
    parse_in(arguments, &[]).unwrap_err().to_string()
}

#[test]
fn help_of_every_command() {
    insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("help", printed(&["--help"]));
        for command in [
            "profile",
            "demo",
            "mock-server",
            "selfcheck",
            "config",
            "report",
            "compare",
            "ab",
            "capacity",
            "list",
            "show",
            "explain",
            "anonymize",
            "plot",
            "metrics",
            "man",
        ] {
            insta::assert_snapshot!(format!("help_{command}"), printed(&[command, "--help"]));
        }
        insta::assert_snapshot!("short_help_profile", printed(&["profile", "-h"]));
    });
}

#[test]
fn errors_name_the_flag_and_what_to_do() {
    let wrong = [
        "",
        "--concurrency 0",
        "--concurrency four",
        "--concurrency 99999999",
        "--request-rate 0",
        "--request-rate-ramp-duration 5",
        "--request-rate inf --request-rate-ramp-duration 5",
        "--arrival-pattern constant --arrival-smoothness 2 --request-rate 1",
        "--prefill-concurrency 2",
        "--streaming --prefill-concurrency 5 --concurrency 4",
        "--warmup-concurrency 4",
        "--warmup-request-count 4 --warmup-arrival-pattern constant",
        "--user-centric-rate 2 --num-users 4",
        "--num-users 4",
        "--fixed-schedule",
        "--endpoint-type chats",
        "--endpoint-type embeddings --streaming",
        "--endpoint-type embeddings --use-server-token-count",
        "--endpoint-type image_retrieval --isl 5",
        "--rankings-passages-mean 3",
        "--isl -1",
        "--isl 0",
        "--isl-stddev x",
        "--seq-dist 1,2",
        "--osl-stddev 3",
        "--num-prefix-prompts 3",
        "--system-prompt a --shared-system-prompt-length 5",
        "--batch-size 2",
        "--apply-chat-template",
        "--image-width-mean 64",
        "--video-width 64",
        "--audio-format mp3",
        "--input-file /no/such/file",
        "--input-file /no/such/file --isl 5",
        "--header nonsense",
        "--header a\u{7f}b:c",
        "--extra-inputs nonsense",
        "--url ftp://host",
        "--goodput ttft",
        "--goodput nonsense:5",
        "--num-profile-runs 11",
        "--confidence-level 0.9",
        "--search-recipe max-goodput-under-slo",
        "--shard 0/2",
        "--shard 2/2 --random-seed 1 --start-at 1",
        "--no-server-metrics --server-metrics-summary",
        "--slice-duration 0",
        "--trace-sample 5%",
        "--request-timeout-seconds 0",
        "--gpu-telemetry all",
        "--no-such-flag",
    ];
    let mut shown = String::new();
    for flags in wrong {
        let given: Vec<&str> =
            "profile --model m".split(' ').chain(flags.split_whitespace()).collect();
        let closed = vec!["profile", "--url", "localhost:1"];
        let given = if flags.is_empty() { closed } else { given };
        let error = printed(&given);
        // The usage line repeats the flags.
        let words = error.lines().take_while(|line| !line.starts_with("Usage:"));
        let words: Vec<&str> = words.map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let _ = writeln!(shown, "$ aiperf {}\n{}\n", given.join(" "), words.join("\n"));
    }
    insta::with_settings!({ snapshot_path => "../snapshots", prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("errors", shown);
    });
}
