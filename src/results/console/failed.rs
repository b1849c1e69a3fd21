//! The screen of a run without a single success: what the server said, how often, what it offers, and
//! what to try.

use base::redact::{printable, printable_names, quote};
use client::record::{Remedy, RequestError};

use super::run::{self, bounded_lines};
use super::screen::{Screen, rank};
use super::style::Style;
use super::{headline, panel};
use crate::run::{Offered, RunReport};

/// Maximum number of lines of the server's words.
const MAX_LINES: usize = 9;
/// Maximum number of models or paths that are named.
const MAX_NAMED: usize = 8;
/// Names of the warnings that say what this screen says.
pub(super) const STATED: [&str; 2] = ["nothing-succeeded", "not-authorized"];

/// Returns whether requests failed and none succeeded.
pub(super) fn has_failed(report: &RunReport) -> bool {
    report.failed() > 0 && !report.has_success()
}

/// Returns the screen of a run for which [`has_failed`] is true.
pub(super) fn render(report: &RunReport, style: Style) -> Screen {
    let mut screen = Screen::default();
    screen.add(rank::KEPT, style.bold(&headline::title(report)) + "\n");
    for (rank, line) in headline::lines(report) {
        if rank == rank::KEPT {
            let line = panel::wrapped(&printable(&line), style.width.into());
            screen.add(rank, line.join("\n") + "\n");
        }
    }
    screen.add(rank::BLANK, "\n".to_owned());
    screen.add(rank::KEPT, what_happened(report, style));
    screen.add(rank::ERROR, run::errors(report, style));
    let Some(most) = report.failures().next() else { return screen };
    let try_next = TryNext::after(&most.error_details, report);
    screen.add(rank::BLANK, "\n".to_owned());
    for line in &try_next.advice {
        screen.add(rank::KEPT, panel::wrapped_line(&printable(line), style));
    }
    screen.add(rank::KEPT, try_next.command(report, style.width.into()));
    screen
}

/// Renders how many requests failed, and the most frequent error in the server's own words.
fn what_happened(report: &RunReport, style: Style) -> String {
    let failed = super::count(report.failed());
    let Some(most) = report.failures().next() else { return String::new() };
    let what = if report.failures().count() > 1 {
        let times = super::count(most.count);
        format!("All {failed} requests failed, {times} of them with: ")
    } else if most.count == 1 {
        "The request failed: ".to_owned()
    } else {
        format!("All {failed} requests failed: ")
    };
    let why = most.error_details.in_words();
    bounded_lines(&printable(&(what + &why)), MAX_LINES, style)
}

/// What to try after a run that failed.
struct TryNext {
    /// One sentence each.
    advice: Vec<String>,
    url: String,
    model: String,
    needs_key: bool,
}

impl TryNext {
    /// Returns what to try after a run whose most frequent error is this.
    fn after(error: &RequestError, report: &RunReport) -> Self {
        let setup = &report.run.setup;
        let mut url = setup.urls.first().cloned().unwrap_or_default();
        let mut model = setup.requested_models().first().cloned().unwrap_or_default();
        let mut advice = Vec::new();
        let offered = report.outcome.offered.clone().unwrap_or_default();
        let remedy = error.remedy(&url, setup.has_credentials);
        let needs_key = remedy.as_ref().is_some_and(|remedy| remedy.needs_key);
        let has_other_url = remedy.as_ref().is_some_and(|remedy| remedy.url.is_some());
        if let Some(Remedy { advice: first, url: other, .. }) = remedy {
            advice.push(first);
            url = other.unwrap_or(url);
        } else if offered == Offered::default() && error.code.is_some() {
            advice.push("Check --url, --endpoint-type, --endpoint and --model.".to_owned());
        }
        if let Some(first) = offered.models.first().filter(|_| !offered.models.contains(&model)) {
            let names = printable_names(&offered.models, MAX_NAMED);
            advice.push(format!("The server offers {names}; choose with --model."));
            model.clone_from(first);
        }
        if !offered.paths.is_empty() && !has_other_url {
            let paths = printable_names(&offered.paths, MAX_NAMED);
            advice.push(format!(
                "The server answers at {paths}; choose with --endpoint-type or --endpoint."
            ));
        }
        Self { advice, url, model, needs_key }
    }

    /// Renders the command that sends one request, in lines of at most `width` columns as far as its words
    /// allow.
    fn command(&self, report: &RunReport, width: usize) -> String {
        let endpoint = report.run.endpoint;
        let can_chat =
            endpoint.produces_tokens && endpoint.supports_streaming && !endpoint.path.is_empty();
        let (url, model) = (quote(&self.url), quote(&self.model));
        let mut flags = vec![format!("--url {url}"), format!("--model {model}")];
        if endpoint.name != "chat" {
            flags.push(format!("--endpoint-type {}", endpoint.name));
        }
        if self.needs_key {
            flags.push("--api-key \"$KEY\"".to_owned());
        }
        flags.push(if can_chat { "--message hello" } else { "--request-count 1" }.to_owned());
        let mut text = format!("Try: aiperf {}", if can_chat { "chat" } else { "profile" });
        let mut column = text.chars().count();
        for flag in flags.iter().map(|flag| printable(flag)) {
            let length = flag.chars().count() + 1;
            // A continued line ends with a space and a backslash.
            if column + length + 2 > width {
                text.push_str(" \\\n    ");
                column = 4;
            }
            text.extend([" ", &flag]);
            column += length;
        }
        text + "\n"
    }
}
