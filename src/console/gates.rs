//! The results of gates.

use std::fmt::Write as _;

use comfy_table::CellAlignment;

use super::style::Style;
use super::table;
use crate::judge::{Judged, JudgedRun};
use crate::redact::printable;

/// Renders the gates of a run; empty without any.
pub(super) fn render(gates: &[Judged], style: Style) -> String {
    lines("", gates.iter().map(|judged| (None, judged)), style)
}

/// Renders the gates of several runs; empty without any.
#[must_use]
pub(crate) fn render_runs(runs: &[JudgedRun], style: Style) -> String {
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
            if judged.held { "yes" } else { "no" }.to_owned(),
        ]
    });
    let header = ["Gate", "Value", "Limit", "Margin", "Held"];
    let title = format!("aiperf | Gates{suffix}");
    let mut text = table::lined(&title, header, rows, style, |column| match column {
        0 => CellAlignment::Left,
        _ => CellAlignment::Right,
    });
    for (label, judged) in judged {
        if let Some(note) = &judged.note {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}: {}", name((label, judged)), printable(note));
        }
    }
    text + "\n"
}
