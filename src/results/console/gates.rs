//! The results of gates.

use base::redact::printable;
use measure::judge::{Judged, JudgedRun};

use super::layout::{Column, Table};
use super::panel;
use super::style::Style;

/// Renders the gates of a run; empty without any.
pub(super) fn render(gates: &[Judged], style: Style) -> String {
    lines("", gates.iter().map(|judged| (None, judged)), style)
}

/// Renders how many gates held, and which did not; empty without any.
pub(super) fn line(gates: &[Judged], style: Style) -> String {
    let held = gates.iter().filter(|judged| judged.held).count();
    let missed = gates.iter().filter(|judged| !judged.held && !judged.undecided);
    let missed: Vec<String> =
        missed.map(|it| printable(&format!("{} ({})", it.gate, it.shown_value()))).collect();
    let undecided = gates.iter().filter(|judged| judged.undecided).map(|it| {
        let note = it.note.as_deref().unwrap_or_default();
        printable(&format!("{} ({note})", it.gate))
    });
    let undecided: Vec<String> = undecided.collect();
    if gates.is_empty() {
        return String::new();
    }
    if held == gates.len() {
        return format!("Gates: all {held} held.\n");
    }
    let list = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!(" {what}: {}.", names.join(", ")),
    };
    let line = format!(
        "Gates: {held} of {} held.{}{}",
        gates.len(),
        list("Not held", &missed),
        list("Undecided", &undecided)
    );
    let lines = panel::wrapped(&line, style.width.into()).join("\n");
    let lines = lines.replacen("Not held", &style.red("Not held"), 1);
    lines.replacen("Undecided", &style.red("Undecided"), 1) + "\n"
}

/// Renders the gates of several runs; empty without any.
#[must_use]
pub fn render_runs(runs: &[JudgedRun], style: Style) -> String {
    let judged = runs
        .iter()
        .flat_map(|run| run.gates.iter().map(move |judged| (run.label.as_deref(), judged)));
    lines(": each run", judged, style)
}

/// Renders a table, then the notes on its rows.
fn lines<'a>(
    suffix: &str,
    judged: impl Iterator<Item = (Option<&'a str>, &'a Judged)> + Clone,
    style: Style,
) -> String {
    if judged.clone().next().is_none() {
        return String::new();
    }
    let name = |(label, judged): (Option<&str>, &Judged)| {
        let label = label.map(|label| format!("{label}: ")).unwrap_or_default();
        printable(&format!("{label}{}", judged.gate))
    };
    let rows = judged.clone().map(|(label, judged)| {
        [
            name((label, judged)),
            printable(&judged.shown_value()),
            printable(&judged.shown_limit()),
            judged.shown_margin(),
            judged.shown_result().to_owned(),
        ]
    });
    let columns = [
        Column::name("Gate"),
        Column::number("Value"),
        Column::number("Limit").spare(2),
        Column::number("Margin").spare(1),
        Column::number("Held"),
    ];
    let mut text = Table::new(&format!("aiperf | Gates{suffix}"), columns).rows(rows).render(style);
    for (label, judged) in judged {
        if let Some(note) = &judged.note {
            let line = format!("{}: {}", name((label, judged)), printable(note));
            text.push_str(&panel::wrapped(&line, style.width.into()).join("\n"));
            text.push('\n');
        }
    }
    text + "\n"
}
