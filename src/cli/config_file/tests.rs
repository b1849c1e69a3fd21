mod input_config;
mod of_aiperf;
mod variables;

use proptest::prelude::*;

use super::*;
use crate::cli::{CliError, Command as Parsed, parse_with};
use crate::config::RunConfig;

fn in_file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// The arguments of `flags`, with the file at `path`.
fn arguments(flags: &str, path: &Path) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ["aiperf", "profile", "--config"].map(Into::into).into();
    arguments.push(path.as_os_str().to_owned());
    arguments.extend(flags.split_whitespace().map(Into::into));
    arguments
}

fn lookup(name: &str) -> Option<String> {
    let value = match name {
        "KEY" => "hunter2",
        "AIPERF_API_KEY" => "of-environment",
        _ => return None,
    };
    Some(value.to_owned())
}

fn parsed(text: &str, flags: &str) -> Result<RunConfig, CliError> {
    let file = in_file(text);
    match parse_with(arguments(flags, file.path()), Environment::new(&lookup))? {
        Parsed::Profile(benchmark) => Ok(benchmark.config),
        other => panic!("{other:?}"),
    }
}

/// The flags that the file adds, without the program and the command.
fn added(text: &str) -> Result<Vec<String>, String> {
    let command = crate::cli::command();
    let profile = command.find_subcommand("profile").unwrap();
    let settings = settings(text, profile, Environment::new(&lookup))?;
    Ok(settings.into_iter().flat_map(|setting| setting.arguments).collect())
}

#[test]
fn settings_are_flags_in_groups_or_without() {
    let text = "
endpoint:
  model: [a, b]
  url: http://localhost:9
  streaming: true
load_generator:
  request_count: 12
  arrival-smoothness: 2.5
goodput:
input:
  header: {X-One: 1, X-Two: two}
  goodput: {request_latency: 2000}
  extra-inputs: {stop: [a, b], temperature: 0.5}
output:
  otel-resource-attributes: {team: a}
conversation-num: 3
concurrency: [1, 2]
verbose: 2
set-consistent-seed: false
fixed-schedule: false
use-legacy-max-tokens: no
";
    let expected = [
        "--model=a",
        "--model=b",
        "--url=http://localhost:9",
        "--streaming",
        "--request-count=12",
        "--arrival-smoothness=2.5",
        "--header=X-One:1",
        "--header=X-Two:two",
        "--goodput=request_latency:2000",
        "--extra-inputs=stop:[\"a\",\"b\"]",
        "--extra-inputs=temperature:0.5",
        "--otel-resource-attributes=team=a",
        "--num-sessions=3",
        "--concurrency=1,2",
        "--verbose",
        "--verbose",
        "--no-set-consistent-seed",
        "--no-fixed-schedule",
    ];
    assert_eq!(added(text).unwrap(), expected);
    assert_eq!(added("").unwrap(), [""; 0]);
    assert_eq!(added("endpoint:\n").unwrap(), [""; 0]);
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let text = "model: m\nisl: 100\nosl: 10\napi-key: of-file\nset-consistent-seed: false\n\
                num-profile-runs: 2\n";
    let config = parsed(text, "--isl 200 --set-consistent-seed").unwrap();
    assert_eq!(config.server.api_key.as_ref().unwrap().expose(), "of-environment");
    let value = serde_json::to_value(&config).unwrap().to_string();
    assert!(value.contains("200") && !value.contains("of-file"), "{value}");
    // The alias of a flag is the same setting.
    let config = parsed("model: m\nisl: 100\n", "--synthetic-input-tokens-mean 300").unwrap();
    assert!(serde_json::to_value(&config.dataset).unwrap().to_string().contains("300"));
    let short = parsed("model: m\nurl: http://of-file:1\n", "-u http://of-flag:2").unwrap();
    assert_eq!(short.server.urls[0].expose().as_str(), "http://of-flag:2/");
}

#[test]
fn the_recorded_command_line_has_the_name_of_the_file_only() {
    let config = parsed("model: m\napi-key: ${KEY}\nheader: {X-Token: '${KEY}'}\n", "").unwrap();
    assert!(config.cli_command.contains("--config"), "{}", config.cli_command);
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!serde_json::to_string(&config).unwrap().contains("hunter2"));
}

#[test]
fn errors_name_the_setting_and_never_a_secret() {
    for (text, part) in [
        ("concurency: 1", "concurency is not a setting; did you mean concurrency?"),
        ("zzzzzzzz: 1", "`aiperf config init` prints all settings"),
        ("zmq-host: text", "--zmq-host"),
        ("config: other.yaml", "config is not a setting"),
        ("isl: 1\nendpoint:\n  isl: 2", "isl is set twice"),
        ("ssl-verify: true\nno-ssl-verify: true", "no-ssl-verify is set twice"),
        ("isl: 1\nisl: 2", "not valid YAML"),
        ("endpoint: [", "not valid YAML"),
        ("- model", "expected groups of settings"),
        ("1: 2", "the name of a setting must be a text"),
        ("streaming: maybe", "streaming: expected true or false"),
        ("isl: {mean: 2}", "isl: expected a value or a list"),
        ("model: ${NONE}", "model: the variable NONE is not set"),
        ("nonsense:\n  isl: 1", "nonsense is not a setting"),
    ] {
        let error = added(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    let error = parsed("model: m\nisl: -5\napi-key: ${KEY}\n", "").unwrap_err().to_string();
    assert!(error.contains("--isl"), "{error}");
    let secret = parsed("model: m\nurl: 'http://user:hunter2@[bad'\n", "").unwrap_err();
    assert!(!secret.to_string().contains("hunter2"), "{secret}");
}

#[test]
fn deep_nesting_and_lists_of_lists_are_errors() {
    for nested in ["[".repeat(100_000), "{a: ".repeat(40_000), "[{".repeat(65) + &"}]".repeat(65)] {
        let error = added(&format!("url: {nested}")).unwrap_err();
        assert!(error.contains("nested more than 128 levels deep"), "{error}");
    }
    let error = added("request-count: [[3, 4], [5]]").unwrap_err();
    assert_eq!(error, "request-count: expected a value or a list, got a list of lists");
    assert_eq!(added("request-count: [3, 4]").unwrap(), ["--request-count=3,4"]);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = Path::new("/nonexistent/aiperf.yaml");
    let large = in_file(&format!("# {}\n", "x".repeat(1 << 20)));
    let directory = tempfile::tempdir().unwrap();
    for (path, part) in [
        (missing, "cannot read"),
        (large.path(), "larger than 1 MiB"),
        (directory.path(), "not a regular file"),
    ] {
        let error = parse_with(arguments("", path), Environment::new(&lookup)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(part) && error.contains("--config"), "{error}");
    }
}

fn shown(arguments: &[&str]) -> String {
    let arguments = ["aiperf", "config"].iter().chain(arguments).map(OsString::from);
    match parse_with(arguments, Environment::new(&lookup)).unwrap() {
        Parsed::Show(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_printed_file_has_every_setting_and_is_valid() {
    let text = shown(&["init"]);
    assert_eq!(added(&text).unwrap(), [""; 0], "all settings are comments");
    let command = crate::cli::command();
    let profile = command.find_subcommand("profile").unwrap();
    // With the comments of settings that have a default removed, all are accepted.
    let set: String = text
        .lines()
        .map(|line| match line.strip_prefix("  # ").and_then(|rest| rest.split_once(": ")) {
            Some((long, value)) if find(profile, long).is_some() && !value.is_empty() => {
                format!("  {long}: {value}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let flags = added(&set).unwrap();
    for flag in ["--url=http://localhost:8000", "--export-level=records", "--isl=550"] {
        assert!(flags.iter().any(|other| other == flag), "{flag}: {flags:?}");
    }
    for flag in profile.get_arguments().filter(|flag| !flag.is_hide_set()) {
        let long = flag.get_long().unwrap();
        let is_there = text.contains(&format!("\n  # {long}: "));
        let is_negative = long.starts_with("no-") && opposite(long, profile).is_some();
        assert_eq!(is_there, !is_negative && !["help", "config"].contains(&long), "{long}");
    }
}

#[test]
fn the_effective_settings_say_where_each_is_from() {
    let file = in_file("model: m\nisl: 100\nosl: 5\napi-key: x\nheader: {X-Token: hunter2}\n");
    let path = file.path().to_str().unwrap();
    let text = shown(&["show", "--config", path, "--isl=7", "--concurrency", "3", "--streaming"]);
    for line in [
        format!("  model: \"m\"  # {path}"),
        format!("  osl: 5  # {path}"),
        "  isl: 7  # command line".to_owned(),
        "  concurrency: 3  # command line".to_owned(),
        "  streaming: true  # command line".to_owned(),
        "  # api-key: from AIPERF_API_KEY".to_owned(),
        "  # export-level: \"records\"".to_owned(),
    ] {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
    // What it prints is a file with the same settings.
    let again = in_file(&text.replace("<redacted>", "x"));
    let again = again.path().to_str().unwrap();
    let arguments_of = |text: &str| -> Vec<String> {
        let values = text.lines().filter(|line| !line.starts_with("  # "));
        values.map(|line| line.split("  # ").next().unwrap().to_owned()).collect()
    };
    let twice = shown(&["show", "--config", again]);
    assert_eq!(
        arguments_of(&twice.replace("X-Token:x", "X-Token:<redacted>")),
        arguments_of(&text)
    );
}

#[test]
fn a_file_is_checked_without_a_run() {
    let file = in_file("model: m\nisl: 100\n");
    let path = file.path().to_str().unwrap();
    assert_eq!(shown(&["check", path]), format!("{path}: valid\n"));
    let part = in_file("isl: 100\n");
    let part = part.path().to_str().unwrap();
    assert_eq!(shown(&["validate", part, "--model", "m"]), format!("{part}: valid\n"));
    let arguments = ["aiperf", "config", "check", part].map(OsString::from);
    let error = parse_with(arguments, Environment::new(&lookup)).unwrap_err();
    assert!(error.to_string().contains("--model"), "{error}");
}

proptest! {
    #[test]
    fn any_file_of_aiperf_is_read(
        names in proptest::collection::vec("[a-c]{1,2}", 1..4),
        templates in proptest::collection::vec(
            "(\\{\\{ ?|\\}\\}|\\{%|%\\}|[a-c]{1,2}| \\* |//|\\| ?int|[0-9]{1,2}| |\\$\\{KEY\\}){1,8}", 1..5,
        ),
        is_older: bool,
    ) {
        let variables: serde_json::Map<_, _> =
            names.iter().zip(&templates).map(|(name, text)| (name.clone(), serde_json::json!(text))).collect();
        let of = |at: usize| &templates[at % templates.len()];
        let benchmark = serde_json::json!({
            "model": of(0), "dataset": {"type": "synthetic", "isl": of(1), "osl": of(2)},
            "phases": {"type": "concurrency", "concurrency": of(3), "requests": 4},
        });
        let sweep = serde_json::json!({"parameters": {(format!("variables.{}", names[0])): [1, of(1)]}});
        let mut file = serde_json::json!({"variables": variables, "sweep": sweep});
        match benchmark {
            serde_json::Value::Object(members) if is_older => file.as_object_mut().unwrap().extend(members),
            benchmark => file["benchmark"] = benchmark,
        }
        match added(&file.to_string()) {
            Ok(flags) => prop_assert!(flags.iter().any(|flag| flag.starts_with("--variant")), "{flags:?}"),
            Err(why) => prop_assert!(!why.is_empty() && why.len() < 1000, "{why}"),
        }
    }

    #[test]
    fn any_file_is_read(text in "([a-z-]{1,12}: ?[\\[\\]{}a-z0-9:,$ -]{0,12}\n? ?){0,5}") {
        let _ = added(&text);
    }
}
