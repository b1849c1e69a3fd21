//! Shell completions and man pages, tested with the shells and man.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use aiperf::cli::command;
use aiperf::config::aiperf::flags as aiperf_flags;
use tempfile::TempDir;

use crate::support::left_out::left_out;
use crate::support::run::aiperf;

const SHELLS: &[&str] = &["bash", "elvish", "fish", "powershell", "zsh"];

/// Returns what `aiperf` writes to stdout.
fn printed(arguments: &[&str]) -> String {
    let output = aiperf(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn script(shell: &str) -> String {
    printed(&["completions", shell])
}

/// Returns the output of `program` if it is installed; it must succeed.
fn by(program: &str, arguments: &[&str], directory: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    command.env("HOME", directory).env("LANG", "C.UTF-8").env("MANPAGER", "cat");
    command.env("MANWIDTH", "100").env("MANOPT", "--no-hyphenation --no-justification");
    let Ok(output) = command.output() else {
        left_out(program);
        return None;
    };
    assert!(output.status.success() && output.stderr.is_empty(), "{program}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Returns the flags of `profile` in its help.
fn visible_flags() -> Vec<String> {
    let mut command = command();
    command.build();
    let profile = command.find_subcommand("profile").unwrap();
    let visible = profile.get_arguments().filter(|argument| !argument.is_hide_set());
    visible.filter_map(|argument| Some(format!("--{}", argument.get_long()?))).collect()
}

/// Returns whether `flag` is a word of `text`.
fn has_word(text: &str, flag: &str) -> bool {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == flag)
}

/// Returns bash's completions for the last word of `line`.
fn bash_offers(directory: &Path, line: &[&str]) -> Vec<String> {
    let last = line.len() - 1;
    let asked = format!(
        ". ./aiperf.bash; COMP_WORDS=({}); COMP_CWORD={last}; \
         $(complete -p aiperf | sed 's/.*-F \\([^ ]*\\).*/\\1/') aiperf '{}' '{}'; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        line[last],
        line[last - 1],
    );
    let offered = by("bash", &["--norc", "-c", &asked], directory).unwrap();
    offered.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("aiperf.bash"), script("bash")).unwrap();
    let offers = |line: &[&str]| bash_offers(directory.path(), line);
    assert_eq!(offers(&["aiperf", "prof"]), ["profile"]);
    assert_eq!(offers(&["aiperf", "profile", "--request-timeout"]), ["--request-timeout-seconds"]);
    assert_eq!(offers(&["aiperf", "profile", "--ui-type", "s"]), ["simple"]);
    assert_eq!(offers(&["aiperf", "profile", "--export-level", "r"]), ["records", "raw"]);
    assert_eq!(offers(&["aiperf", "completions", "z"]), ["zsh"]);
    let flags = offers(&["aiperf", "profile", "--"]);
    for flag in visible_flags() {
        assert!(flags.contains(&flag), "{flag} is not offered");
    }
    // One that is rejected, and one that is accepted without effect.
    for flag in ["--zmq-host", "--url-strategy"] {
        assert_eq!(offers(&["aiperf", "profile", flag]), [""; 0], "{flag}");
    }
}

#[test]
fn fish_completes_flags_and_values() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("aiperf.fish"), script("fish")).unwrap();
    let offers = |line: &str| {
        let asked = format!("source aiperf.fish; complete -C '{line}'");
        let offered = by("fish", &["--no-config", "-c", &asked], directory.path())?;
        let word = |line: &str| line.split('\t').next().unwrap().to_owned();
        Some(offered.lines().map(word).collect::<Vec<_>>())
    };
    let Some(timeout) = offers("aiperf profile --request-timeout") else { return };
    assert_eq!(timeout, ["--request-timeout-seconds"]);
    assert_eq!(offers("aiperf profile --export-level ra").unwrap(), ["raw"]);
    assert_eq!(offers("aiperf profile --zmq-ho").unwrap(), [""; 0]);
}

#[test]
fn zsh_reads_its_script_and_completes_a_flag() {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("functions")).unwrap();
    fs::write(directory.path().join("functions/_aiperf"), script("zsh")).unwrap();
    by("zsh", &["-f", "-n", "functions/_aiperf"], directory.path());
    let asked = "fpath=(~/functions $fpath); autoload -Uz compinit; compinit -u -D; \
                 echo $_comps[aiperf]; autoload +X _aiperf && whence -w _aiperf";
    if let Some(said) = by("zsh", &["-f", "-c", asked], directory.path()) {
        assert_eq!(said, "_aiperf\n_aiperf: function\n");
        let typed = by("timeout", &["60", "zsh", "-f", "-c", TYPED], directory.path());
        assert!(typed.is_none_or(|typed| typed.trim_end().ends_with("completed")));
    }
}

/// Types the start of a flag and a tab into a new zsh, and waits for the completion.
const TYPED: &str = r#"
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PROMPT=; fpath=(~/functions \$fpath); autoload -Uz compinit; compinit -u -D; print re''ady"
zpty -r z out '*ready*'
zpty -w -n z $'aiperf profile --request-timeo\t'
zpty -r z out '*--request-timeout-seconds*' && print completed
zpty -d z
"#;

#[test]
fn scripts_have_every_flag_and_none_that_is_refused() {
    for shell in SHELLS {
        // fish and elvish name flags without their dashes.
        let script = script(shell).replace("-l ", "--");
        for flag in visible_flags() {
            assert!(has_word(&script, &flag), "{shell}: {flag} is missing");
        }
        let others = aiperf_flags::OFF_SWITCHES.iter().copied();
        for flag in others.chain(aiperf_flags::refused().map(|(flag, _)| flag)) {
            let is_there = flag.starts_with("--") && has_word(&script, flag);
            assert!(!is_there, "{shell}: {flag} is offered");
        }
    }
    let wrong = aiperf(&["completions", "ksh"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("bash, elvish, fish"), "{wrong:?}");
}

/// Removes overstruck letters, as a terminal would.
fn unstruck(text: &str) -> String {
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '\u{8}' => drop(plain.pop()),
            _ => plain.push(letter),
        }
    }
    plain
}

#[test]
fn man_pages_say_what_the_help_says() {
    let directory = TempDir::new().unwrap();
    let place = directory.path().join("share/man/man1");
    assert_eq!(printed(&["man", "--dir", place.to_str().unwrap()]), "");
    let mut command = command();
    command.build();
    for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
        let name = subcommand.get_name();
        let file = fs::read_to_string(place.join(format!("aiperf-{name}.1"))).unwrap();
        assert_eq!(file, printed(&["man", name]), "{name}");
        assert!(file.contains(&format!(".TH aiperf-{name} 1 ")), "{name}: {file}");
        // Dashes that users may copy are escaped.
        for argument in subcommand.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let Some(long) = argument.get_long() else { continue };
            let flag = format!("\\-\\-{}", long.replace('-', "\\-"));
            assert!(file.contains(&format!("\\fB{flag}\\fR")), "{name}: --{long} is missing");
        }
    }
    let of_group = fs::read_to_string(place.join("aiperf-dataset-validate.1")).unwrap();
    assert_eq!(of_group, printed(&["man", "dataset", "validate"]));
    let program = printed(&["man"]);
    assert_eq!(fs::read_to_string(place.join("aiperf.1")).unwrap(), program);
    assert!(program.contains("aiperf\\-profile(1)"), "{program}");
    for reader in [&["man", "-l"][..], &["mandoc", "-Tutf8"]] {
        let arguments = [&reader[1..], &["share/man/man1/aiperf-profile.1"]].concat();
        let Some(read) = by(reader[0], &arguments, directory.path()) else { continue };
        let read = unstruck(&read);
        assert!(read.contains("aiperf profile [OPTIONS]"), "{read}");
        assert!(read.contains(concat!("aiperf ", env!("CARGO_PKG_VERSION"))), "{read}");
        assert!(read.contains("WARMUP") && read.contains("[possible values: chat,"), "{read}");
        for alias in ["--request-rate-mode", "--num-requests", "--output-artifact-dir"] {
            assert!(has_word(&read, alias), "{alias} is missing:\n{read}");
        }
        for flag in visible_flags() {
            assert!(has_word(&read, &flag), "{flag} is missing:\n{read}");
        }
        for (flag, _) in aiperf_flags::refused().filter(|(flag, _)| flag.starts_with("--")) {
            assert!(!has_word(&read, flag), "{flag} is there");
        }
    }
    let wrong = aiperf(&["man", "nothing"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("mock-server"), "{wrong:?}");
    let no_place = aiperf(&["man", "--dir", "/dev/null/man1"]).output().unwrap();
    assert_eq!(no_place.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&no_place.stderr).contains("/dev/null/man1"), "{no_place:?}");
}
