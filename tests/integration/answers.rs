//! Cards of servers whose truth is known (`tests/bench/answers`), those that take a few seconds.

use std::process::Command;

use crate::support::left_out::python;
use crate::support::run::program;

#[test]
fn short_cards_have_right_answers() {
    let Some(python) = python() else { return };
    let cards = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench/answers");
    let mut command = Command::new(python);
    command.arg(cards).args(["--short", "--together", "2", "--aiperf"]).arg(program());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let reasons = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{reasons}");
    assert!(said.contains("| load-429 | 33% rejected | 1 | 0 | 0 |"), "{said}");
}
