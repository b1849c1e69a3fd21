//! The migration page lists everything in AIPerf 0.13, with its status in aiperf.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aiperf::cli::{command, parse_with};
use aiperf::config::Environment;
use aiperf::config::aiperf::{commands as aiperf_commands, flags as aiperf_flags};
use results::artifacts::layout::Layout;

use crate::support::python::run_python;

use super::{assert_none, names, page_at, read, rows, variables_read};

/// Returns the lines of a list of names, each with the names of one item.
fn golden(name: &str) -> Vec<Vec<String>> {
    let text = read(&format!("tests/golden/aiperf-0.13/{name}"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn every_flag_of_aiperf_is_on_the_migration_page_with_its_status() {
    let page = page_at("docs/migration.md");
    let below = page.prose.iter().skip_while(|(_, text)| text != "## Flags of profile");
    let within = below.take_while(|(_, text)| text != "## Environment variables");
    let rows = within.filter(|(_, text)| text.starts_with("| `-"));
    let mut listed = Vec::new();
    for (line, row) in rows {
        let cells: Vec<_> = row.split(" | ").collect();
        let status = cells[1].trim();
        for flag in names(cells[0]) {
            let place = format!("{}: {flag}", page.at(*line));
            match status {
                "same" | "same, but" => assert!(is_visible(&flag), "{place} is not the program's"),
                "refused" => assert_refused(&flag, &plain(cells[2]), &place),
                "accepted" => assert_without_effect(&flag, &plain(cells[2]), &place),
                other => panic!("{place}: {other:?} is not a status"),
            }
            listed.push(flag);
        }
    }
    let mut expected = golden("profile_flags.txt").concat();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected, "a flag is missing, or there twice, or not AIPerf's");
}

fn profile_command() -> clap::Command {
    let mut command = command();
    command.build();
    command.find_subcommand("profile").unwrap().clone()
}

fn is_visible(flag: &str) -> bool {
    let is_it = |argument: &clap::Arg| {
        let short = argument.get_short().is_some_and(|short| format!("-{short}") == flag);
        let long = argument.get_long_and_visible_aliases().unwrap_or_default();
        short || long.iter().any(|long| format!("--{long}") == flag)
    };
    // `-vv` is not a separate flag.
    flag == "-vv" || profile_command().get_arguments().any(|arg| is_it(arg) && !arg.is_hide_set())
}

/// Returns the program's output for a run with these additional arguments.
fn refusal(arguments: &[&str]) -> Option<String> {
    let all = ["aiperf", "profile", "--model", "m"].iter().chain(arguments);
    parse_with(all.map(Into::into), Environment::new(&|_| None))
        .err()
        .map(|error| error.to_string())
}

/// Returns a cell as printed in a terminal: without markup, and with links in brackets.
fn plain(cell: &str) -> String {
    let cell = cell.trim().trim_end_matches('|').replace('`', "");
    cell.split(" ([").next().unwrap_or_default().trim().to_owned()
}

fn assert_refused(flag: &str, advice: &str, place: &str) {
    let expected = format!("does not support: {advice}");
    let said = refusal(&[flag]).unwrap_or_default();
    assert!(!advice.is_empty() && said.ends_with(&expected), "{place}: {said:?}, not {expected:?}");
}

fn assert_without_effect(flag: &str, advice: &str, place: &str) {
    let Some((_, value, _)) = aiperf_flags::ONLY_VALUE.iter().find(|(name, ..)| *name == flag)
    else {
        assert!(aiperf_flags::OFF_SWITCHES.contains(&flag), "{place} is not a switch");
        assert_eq!(refusal(&[flag]), None, "{place}");
        return;
    };
    for spelling in [(*value).to_owned(), value.to_uppercase(), value.replace('-', "_")] {
        assert_eq!(refusal(&[flag, &spelling]), None, "{place}");
    }
    let said = refusal(&[flag, "other"]).unwrap_or_default();
    assert!(advice.starts_with(value) && said.contains(advice), "{place}: {said:?}");
}

/// Returns the program's output for these arguments.
fn said(arguments: &[&str]) -> String {
    let all = ["aiperf"].iter().chain(arguments);
    parse_with(all.map(Into::into), Environment::new(&|_| None)).unwrap_err().to_string()
}

#[test]
fn commands_of_aiperf_are_refused_with_what_the_migration_page_says() {
    let page = page_at("docs/migration.md");
    let mut listed = BTreeSet::new();
    for (line, cells) in rows(&page, "| AIPerf | here |") {
        let Some(advice) = cells[1].strip_prefix("none: ") else { continue };
        for name in names(&cells[0]) {
            let expected = format!("does not support: {}", plain(advice));
            for arguments in [vec![name.as_str()], vec![name.as_str(), "file.jsonl", "--flag"]] {
                let said = said(&arguments);
                assert!(said.ends_with(&expected), "{}: {said}", page.at(line));
            }
            listed.insert(name);
        }
    }
    let refused = aiperf_commands::refused().map(|(name, _)| name.to_owned());
    assert_eq!(listed, refused.collect());
    // From `aiperf --help` of AIPerf 0.13, without those that aiperf has.
    for name in
        ["analyze", "kube", "proxy", "service", "speed-bench-report", "--install-completion"]
    {
        assert!(listed.contains(name), "{name}");
    }
    assert!(said(&["plots"]).contains("unrecognized subcommand"));
}

/// Splits a command line into words; text in `'` is one word.
fn shell_words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    let words = parts.flat_map(|(at, part)| match at % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    });
    words.collect()
}

#[test]
fn usual_command_lines_of_aiperf_are_taken_or_refused_with_what_to_do() {
    let text = read("tests/golden/aiperf-0.13/command_lines.txt");
    let mut failures = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (expected, arguments) = line.split_once(" | ").unwrap();
        let arguments = arguments.replace("FILE", FILE);
        let all = ["aiperf", "profile"].into_iter().chain(shell_words(&arguments));
        let parsed = parse_with(all.map(Into::into), Environment::new(&|_| None));
        let said = parsed.err().map_or("taken".to_owned(), |error| error.to_string());
        if !said.contains(expected) {
            failures.push(format!("{arguments}\n{said}"));
        }
    }
    assert_none(&failures);
}

/// A file that is there, for command lines that name one.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// Returns the beginning of a command line in which the values of a flag apply.
fn setting(flag: &str) -> &'static str {
    match flag {
        "--audio-format" => "--audio-length-mean 1",
        "--convergence-mode" | "--convergence-stat" => {
            "--num-profile-runs 5 --convergence-metric request_latency"
        }
        "--custom-dataset-type" => "--input-file FILE",
        "--degradation-stat" => "--search-recipe concurrency-ramp",
        "--parameter-sweep-mode" => "--concurrency 1,2 --num-profile-runs 2",
        "--random-corpus-style" => "--isl 9 --osl 9 --random-range-ratio 0.5",
        "--search-direction" => {
            "--search-space concurrency:1,9:int --search-metric request_latency \
             --search-max-iterations 3"
        }
        "--search-planner" | "--search-stat" => {
            "--search-space concurrency:1,9:int --search-metric request_latency \
             --search-max-iterations 3 --search-direction minimize"
        }
        "--search-style" => "--search-recipe max-concurrency-under-sla --e2e-sla-ms 100",
        "--sweep-type" => "--concurrency 1,2 --isl 8,9",
        "--video-audio-codec" | "--video-audio-depth" => {
            "--video-width 64 --video-height 64 --video-audio-num-channels 1"
        }
        "--warmup-arrival-pattern" => "--request-rate 1 --warmup-request-count 1",
        _ if flag.starts_with("--image-") => "--image-width-mean 64 --image-height-mean 64",
        _ if flag.starts_with("--video-") => "--video-width 64 --video-height 64",
        _ => "",
    }
}

/// Flags with a value that is rejected, and a part of what is printed.
const REFUSED_VALUES: &[(&str, &str)] = &[
    ("--image-source assets", "name a directory of pictures"),
    ("--image-source-sampling shuffle-cycle", "pictures of a directory"),
    ("--image-source-sampling sequential-cycle", "pictures of a directory"),
    ("--model-selection-strategy weighted", "add --model-weights"),
    ("--public-dataset weka_hf", "with --hf-weka-dataset"),
    ("--request-content-type multipart/form-data", "always application/json"),
    ("--search-planner monotonic_sla", "use --search-recipe max-concurrency-under-sla"),
    ("--search-planner optuna", "bayesian is the only supported value"),
    ("--search-planner smooth_isotonic", "use --search-recipe max-concurrency-under-sla"),
    ("--search-style optuna", "use monotonic"),
    ("--search-style smooth_isotonic", "use monotonic"),
    ("--warmup-arrival-pattern concurrency_burst", "cannot be combined with a request rate"),
];

#[test]
fn every_value_of_aiperf_is_taken_in_any_spelling_or_refused_with_what_to_do() {
    let mut failures = Vec::new();
    let mut refused: BTreeSet<&(&str, &str)> = BTreeSet::new();
    for line in golden("profile_values.txt") {
        let (flag, values) = line.split_first().unwrap();
        if aiperf_flags::refused().any(|(known, _)| known == flag) {
            continue;
        }
        let setting = setting(flag).replace("FILE", FILE);
        for value in values {
            let given = format!("{flag} {value}");
            let expected = REFUSED_VALUES.iter().find(|(refused, _)| *refused == given);
            let spellings = [value.clone(), value.replace('_', "-"), value.replace('-', "_")];
            for spelling in spellings.iter().flat_map(|it| [it.clone(), it.to_uppercase()]) {
                let mut arguments: Vec<&str> = setting.split_whitespace().collect();
                arguments.extend([&**flag, &*spelling]);
                let is_as_listed = match (refusal(&arguments), expected) {
                    (None, None) => true,
                    (Some(said), Some((_, part))) => said.contains(part),
                    _ => false,
                };
                if !is_as_listed {
                    failures.push(format!("{arguments:?}\n{:?}", refusal(&arguments)));
                }
            }
            refused.extend(expected);
        }
    }
    assert_none(&failures);
    assert_eq!(refused.len(), REFUSED_VALUES.len(), "a value is not in AIPerf's list: {refused:?}");
}

#[test]
fn the_lists_of_flags_are_those_of_aiperf() {
    let lists = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/aiperf-0.13");
    run_python("tests/read_aiperf_flags.py", &lists);
}

#[test]
fn the_migration_page_has_the_variables_that_are_read() {
    let page = page_at("docs/migration.md");
    let below = page.prose.iter().skip_while(|(_, text)| text != "## Environment variables");
    let list = below.skip(4).take_while(|(_, text)| !text.is_empty());
    let listed: BTreeSet<_> = list.flat_map(|(_, text)| names(text)).collect();
    let theirs: BTreeSet<_> = golden("variables.txt").concat().into_iter().collect();
    let read = variables_read();
    assert!(read.len() > 20, "{read:?}");
    let expected: BTreeSet<_> = theirs.intersection(&read).cloned().collect();
    assert_eq!(listed, expected);
}

/// Returns all sources of the program below `src`.
fn sources(below: &str) -> String {
    let mut left = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(below)];
    let mut text = String::new();
    while let Some(place) = left.pop() {
        if place.is_dir() {
            left.extend(std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            text.push_str(&std::fs::read_to_string(place).unwrap());
        }
    }
    text
}

/// Returns the names of files in a cell: `name.json` and, after it, `.csv` as `name.csv`.
fn file_names(cell: &str) -> Vec<String> {
    let endings = ["json", "jsonl", "csv", "parquet", "txt", "html", "log", "zst"];
    let mut found: Vec<String> = Vec::new();
    for name in names(cell) {
        let Some((stem, ending)) = name.rsplit_once('.') else { continue };
        if !endings.contains(&ending) {
            continue;
        }
        let whole = match found.last() {
            Some(before) if stem.is_empty() => {
                Path::new(before).with_extension(ending).to_str().unwrap().to_owned()
            }
            _ => name,
        };
        found.push(whole);
    }
    found
}

#[test]
fn the_files_on_the_migration_page_are_those_of_the_program() {
    let page = page_at("docs/migration.md");
    let of_run: BTreeSet<PathBuf> = Layout::new(Path::new(""), None).all_files();
    let sources = sources("results/artifacts")
        + &sources("measure/multi_run.rs")
        + &sources("measure/multi_run");
    let is_known = |name: &str| {
        let file = Path::new(name).file_name().unwrap().to_str().unwrap();
        let (stem, _) = file.rsplit_once('.').unwrap();
        // Files of many runs have their names without their endings in the sources, or with them.
        let literals = [format!("\"{file}\""), format!("\"{stem}\""), format!("\"{stem}.")];
        of_run.contains(Path::new(name)) || literals.iter().any(|it| sources.contains(it))
    };
    let mut failures = Vec::new();
    let mut listed = BTreeSet::new();
    let below = page.prose.iter().skip_while(|(_, text)| text != "## Files");
    let within = below.take_while(|(_, text)| text != "### Keys of the summary");
    for (line, row) in within.filter(|(_, text)| text.starts_with("| `") || text.starts_with("| |"))
    {
        let cells: Vec<_> = row.trim_start_matches("| ").split(" | ").collect();
        let here = cells.last().unwrap().trim_end_matches(" |");
        let is_absent = here.starts_with("none");
        // A file that only this program has is named in the second cell.
        let own = row.starts_with("| |").then(|| here.split(':').next().unwrap());
        for name in file_names(own.unwrap_or(cells[0])) {
            if is_known(&name) == is_absent {
                failures.push(format!("{}: {name}", page.at(*line)));
            }
            listed.insert(PathBuf::from(name));
        }
    }
    assert_none(&failures);
    assert!(listed.len() > 25, "{listed:?}");
    // Whatever a run may write is listed, apart from directories, compressed files and unfinished tables.
    let is_own = |path: &&PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        !matches!(ending, None | Some("zst" | "parts"))
    };
    let missing: Vec<_> = of_run.iter().filter(is_own).filter(|it| !listed.contains(*it)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn the_keys_on_the_migration_page_are_those_of_the_program() {
    let page = page_at("docs/migration.md");
    let record = sources("measure/metrics/fields.rs");
    let summary = sources("results/artifacts/json.rs");
    let has = |source: &str, name: &str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        source.match_indices(name).any(|(at, _)| {
            let before = source[..at].chars().next_back();
            let after = source[at + name.len()..].chars().next();
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })
    };
    let mut failures = Vec::new();
    let mut checked = 0;
    for (heading, prefix, source) in
        [("### Keys of a record", "metadata.", record), ("### Keys of the summary", "", summary)]
    {
        let below = page.prose.iter().skip_while(|(_, text)| text != heading);
        let within = below.skip(1).take_while(|(_, text)| !text.starts_with('#'));
        for (line, row) in within.filter(|(_, text)| text.starts_with("| ")) {
            let cells: Vec<_> = row.split(" | ").collect();
            let status = cells[1].trim_end_matches(" |");
            let is_of = |name: &String| prefix.is_empty() || name.starts_with(prefix);
            let all = names(cells[0]);
            if !all.first().is_some_and(is_of) {
                continue;
            }
            for name in &all {
                let key = name.trim_start_matches(prefix).trim_start_matches('.');
                let is_key = key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                // Members of members, and tags of metrics, are written elsewhere.
                if !is_key || (prefix.is_empty() && !SUMMARY_KEYS.contains(&key)) {
                    continue;
                }
                checked += 1;
                if has(&source, key) == status.starts_with("absent") {
                    failures.push(format!("{}: {name} is {status:?}", page.at(*line)));
                }
            }
        }
    }
    assert_none(&failures);
    assert!(checked > 25, "{checked}");
}

/// The keys of the summary that the page names and that are not those of metrics.
const SUMMARY_KEYS: [&str; 18] = [
    "telemetry_data",
    "input_config",
    "run_info",
    "was_cancelled",
    "is_complete",
    "incomplete_reason",
    "error_summary",
    "start_time",
    "end_time",
    "warmup_metrics",
    "branch_stats",
    "pooled_spec_decode_acceptance_histogram",
    "client_health",
    "load",
    "telemetry",
    "server_metrics",
    "by_model",
    "by_url",
];

#[test]
fn the_new_flags_on_the_migration_page_are_those_that_aiperf_lacks() {
    let page = page_at("docs/migration.md");
    let theirs: BTreeSet<String> = golden("profile_flags.txt").concat().into_iter().collect();
    let below = page.prose.iter().skip_while(|(_, text)| text != "### New flags");
    let within = below.take_while(|(_, text)| text != "## Environment variables");
    let listed: BTreeSet<String> = within
        .flat_map(|(_, text)| names(text))
        .filter(|name| name.starts_with("--"))
        .map(|name| name.split([' ', '=']).next().unwrap_or_default().to_owned())
        .collect();
    for flag in &listed {
        assert!(is_visible(flag), "{flag} is not a flag");
        assert!(!theirs.contains(flag), "{flag} is AIPerf's");
    }
    let profile = profile_command();
    let visible = profile.get_arguments().filter(|argument| !argument.is_hide_set());
    let own: BTreeSet<String> = visible
        .filter_map(|argument| argument.get_long().map(|long| format!("--{long}")))
        .filter(|flag| !theirs.contains(flag) && !flag.starts_with("--no-"))
        .filter(|flag| !["--help", "--version"].contains(&flag.as_str()))
        .collect();
    let missing: Vec<_> = own.difference(&listed).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
}
