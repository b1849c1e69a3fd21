//! Cards of servers whose truth is known (`tests/bench/answers`), those that take a few seconds.

use std::process::Command;

use crate::support::left_out::python;
use crate::support::run::program;

/// Asks a part of the short cards, such as `1/3`.
fn ask(part: &str) {
    let Some(python) = python() else { return };
    let cards = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/answers");
    let mut command = Command::new(python);
    command.args([cards, "--short", "--part", part, "--together", "2", "--aiperf"]).arg(program());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let reasons = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{reasons}");
    assert!(said.contains(" | 1 | 0 | 0 |\n"), "{said}");
    assert!(part != "3/3" || said.contains("| load-429 | 33% rejected | 1 | 0 | 0 |"), "{said}");
}

#[test]
fn short_cards_have_right_answers_1_of_3() {
    ask("1/3");
}

#[test]
fn short_cards_have_right_answers_2_of_3() {
    ask("2/3");
}

#[test]
fn short_cards_have_right_answers_3_of_3() {
    ask("3/3");
}
