//! The flags of AIPerf that are accepted without effect, as arguments of the command line.

use clap::{Arg, ArgAction, Command};

use crate::config::aiperf::flags::{OFF_SWITCHES, ONLY_VALUE};

/// Adds the flags that are accepted without effect, hidden from `--help`.
pub(super) fn accept(command: Command) -> Command {
    let name = |flag: &'static str| flag.trim_start_matches('-');
    // `--request-rate -1` is an invalid value, not an unknown flag.
    let command = command.allow_negative_numbers(true);
    let command = OFF_SWITCHES.iter().fold(command, |command, flag| {
        command.arg(Arg::new(*flag).long(name(flag)).action(ArgAction::SetTrue).hide(true))
    });
    ONLY_VALUE.iter().fold(command, |command, &(flag, value, advice)| {
        let only = move |text: &str| only(text, value, advice);
        command
            .arg(Arg::new(flag).long(name(flag)).value_name("VALUE").value_parser(only).hide(true))
    })
}

/// Accepts `text` if it is `value`, ignoring case and treating `_` as `-`.
fn only(text: &str, value: &'static str, advice: &str) -> Result<&'static str, String> {
    let is_it = text.trim().to_ascii_lowercase().replace('_', "-") == value;
    is_it.then_some(value).ok_or_else(|| format!("{value} is the only supported value; {advice}"))
}

#[cfg(test)]
mod tests {
    use crate::config::aiperf::flags::{REFUSED_SWITCHES, of_genai_perf, refusal};

    #[test]
    fn flags_of_genai_perf_get_advice_that_names_flags_of_ours() {
        let profile = crate::cli::command();
        let profile = profile.find_subcommand("profile").unwrap();
        let names: Vec<&str> = profile
            .get_arguments()
            .flat_map(|one| one.get_long_and_visible_aliases().unwrap_or_default())
            .collect();
        for (flag, advice) in of_genai_perf() {
            assert!(!names.contains(&flag.trim_start_matches('-')), "{flag} is a flag of ours");
            let words = advice.split([' ', ',', ';', '.', ')']);
            for named in words.filter_map(|word| word.strip_prefix("--")) {
                assert!(names.contains(&named), "--{named} is not a flag: {advice}");
            }
        }
        let told = refusal("--service-kind=openai").unwrap();
        assert!(told.starts_with("--service-kind is a GenAI-Perf flag"), "{told}");
        let told = refusal("--measurement-interval").unwrap();
        assert!(told.contains("use --benchmark-duration SECONDS"), "{told}");
        assert!(refusal("--wandb-tag").unwrap().starts_with("--wandb-tag is an AIPerf flag"));
    }

    #[test]
    fn refused_switches_are_refused() {
        for switch in REFUSED_SWITCHES.split(' ') {
            assert!(refusal(switch).is_some(), "{switch} is not among the refused");
        }
    }
}
