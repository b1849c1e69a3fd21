//! `--help WORD`: the flags of a command with a word in their name or text, or those of a section.

use std::ffi::OsString;

use clap::{Arg, Command};

use super::CliError;

/// Returns what `arguments` ask for, if there is a word after `--help`.
pub(super) fn asked(arguments: &[OsString], command: &Command) -> Option<CliError> {
    let texts: Vec<&str> = arguments.iter().map(|text| text.to_str().unwrap_or("")).collect();
    let (mut of, mut name) = (command, command.get_name().to_owned());
    for word in texts.get(1..)? {
        let Some(inner) = of.find_subcommand(word) else { break };
        of = inner;
        name = format!("{name} {}", inner.get_name());
    }
    let at = texts.iter().position(|text| ["--help", "-h", "--"].contains(text))?;
    let words = texts[at + 1..].iter().take_while(|text| !text.starts_with('-'));
    let words = words.copied().collect::<Vec<_>>().join(" ");
    let is_plain = words.is_empty() || texts[at] == "--" || of.get_name() == command.get_name();
    (!is_plain).then(|| found(&words, of, &name))
}

/// Returns the help of the flags of `command` that have the words.
fn found(words: &str, command: &Command, name: &str) -> CliError {
    let flags: Vec<&Arg> = command.get_arguments().filter(|flag| !flag.is_hide_set()).collect();
    let mut sections: Vec<&str> = Vec::new();
    for heading in flags.iter().filter_map(|flag| flag.get_help_heading()) {
        if !sections.contains(&heading) {
            sections.push(heading);
        }
    }
    let is_section = |heading: &str| {
        let is_capital = words.starts_with(|c: char| c.is_uppercase());
        let is_whole = words.contains([' ', '-']);
        is_whole && heading.eq_ignore_ascii_case(&words.replace('-', " "))
            || is_capital && heading.starts_with(words)
    };
    let named: Vec<&str> = sections.iter().copied().filter(|it| is_section(it)).collect();
    let wanted = words.to_lowercase();
    let is_shown = |flag: &Arg| match named.as_slice() {
        [] => has(flag, &wanted),
        named => flag.get_help_heading().is_some_and(|heading| named.contains(&heading)),
    };
    let shown: Vec<_> =
        flags.iter().filter(|flag| is_shown(flag)).map(|flag| flag.get_id().clone()).collect();
    if shown.is_empty() {
        let sections = match sections.as_slice() {
            [] => String::new(),
            all => format!("; the sections are {}", all.join(", ")),
        };
        return CliError::Usage(format!(
            "error: no flag of `{name}` has {words:?} in its name or text{sections}"
        ));
    }
    let only = command.clone().disable_help_flag(true).help_template("{all-args}");
    let mut only = only.mut_args(|flag| {
        let is_hidden = !shown.contains(flag.get_id());
        flag.hide(is_hidden)
    });
    CliError::Shown(format!("{}\n", only.render_long_help().to_string().trim_end()))
}

/// Returns whether a flag has the words in its names, or a word of its text, its values or its section begins
/// with them.
fn has(flag: &Arg, wanted: &str) -> bool {
    let names = flag.get_long_and_visible_aliases().unwrap_or_default();
    let plain = wanted.replace(['_', ' '], "-");
    let begins = |text: &str| {
        let text = text.to_lowercase();
        text.match_indices(wanted).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
    };
    names.iter().any(|name| name.contains(&plain))
        || flag.get_help().is_some_and(|help| begins(&help.to_string()))
        || flag.get_help_heading().is_some_and(begins)
        || flag.get_possible_values().iter().any(|value| begins(value.get_name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse_with;
    use crate::config::Environment;

    fn help(line: &str) -> Result<String, String> {
        let arguments = line.split_whitespace().map(|word| OsString::from(word.replace('+', " ")));
        match parse_with(arguments, Environment::new(&|_| None)).unwrap_err() {
            CliError::Shown(text) => Ok(text),
            other => Err(other.to_string()),
        }
    }

    #[test]
    fn a_word_finds_flags_by_name_and_by_text_with_their_headings() {
        let text = help("aiperf profile --help tokenizer").unwrap();
        for line in [
            "Tokenizer:",
            "      --tokenizer <NAME>",
            "      --tokenizer-revision",
            "Endpoint:",
            "      --use-server-token-count",
        ] {
            assert!(text.lines().any(|it| it.starts_with(line)), "{line}: {text}");
        }
        assert!(!text.contains("--concurrency <") && !text.contains("Usage:"), "{text}");
        assert!(!text.contains("Print help"), "{text}");
        // By a value, by a part of a name, by several words, and in other commands.
        assert!(help("aiperf profile -h mooncake").unwrap().contains("--custom-dataset-type"));
        assert!(
            help("aiperf profile --help request_rate").unwrap().contains("--request-rate <RATE>")
        );
        assert_eq!(
            help("aiperf profile --help requests in flight").unwrap(),
            help("aiperf profile --help requests+in+flight").unwrap()
        );
        assert!(help("aiperf mock-server --help port").unwrap().contains("--port"));
        assert!(help("aiperf dataset validate --help format").is_ok());
    }

    #[test]
    fn a_section_has_its_flags_only() {
        let load = help("aiperf profile --help Load").unwrap();
        assert!(
            load.starts_with("Load Generator:\n") && load.contains("--request-rate <RATE>"),
            "{load}"
        );
        let is_heading = |line: &&str| line.ends_with(':') && !line.starts_with(' ');
        assert_eq!(load.lines().filter(is_heading).count(), 1, "{load}");
        assert_eq!(help("aiperf profile --help load-generator").unwrap(), load);
    }

    #[test]
    fn a_word_that_no_flag_has_names_the_sections() {
        let error = help("aiperf profile --help zzzz").unwrap_err();
        assert!(error.contains("no flag of `aiperf profile` has \"zzzz\""), "{error}");
        assert!(error.contains("the sections are Endpoint, Load Generator, "), "{error}");
    }

    #[test]
    fn help_without_a_word_is_as_before() {
        let plain = help("aiperf profile --help").unwrap();
        assert!(plain.contains("Usage: aiperf profile [OPTIONS]"));
        assert_eq!(help("aiperf profile --help --model x").unwrap(), plain);
        assert_eq!(help("aiperf profile -m x --help").unwrap(), plain);
    }
}
