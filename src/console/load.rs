//! The verdict on the load.

use super::panel;
use super::style::Style;
use crate::metrics::health::{LoadHealth, LoadVerdict};

/// Renders `Load: sustained (offered 20.0/s, served 20.0/s)`, or another verdict with what it means.
pub(super) fn render(health: &LoadHealth, style: Style) -> String {
    let LoadHealth { verdict, .. } = health;
    let word = verdict.words();
    let coloured = match verdict {
        LoadVerdict::Sustained => style.green(word),
        LoadVerdict::TooShort | LoadVerdict::NotStationary => style.yellow(word),
        LoadVerdict::Saturated => style.red(word),
    };
    let lines = panel::wrapped(&format!("Load: {health}"), style.width.into());
    // Colour codes do not take any width, so they are added last.
    lines.join("\n").replacen(word, &coloured, 1) + "\n\n"
}
