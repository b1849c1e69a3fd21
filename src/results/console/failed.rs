//! The screen of a run without a single success: what the server said, how often, what it offers, and
//! what to try.

use base::redact::{printable, printable_names, quote};
use client::record::{ErrorKind, RequestError};

use super::run::{self, bounded_lines};
use super::screen::{Screen, rank};
use super::style::Style;
use super::{headline, panel};
use crate::run::{Offered, RunReport};

/// Maximum number of lines of the server's words.
const MAX_LINES: usize = 9;
/// Maximum number of models or paths that are named.
const MAX_NAMED: usize = 8;
/// The end of a base URL that is twice in a URL whose base has it, too.
const VERSION: &str = "/v1";

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
    let why = if is_page(&most.error_details) {
        let code = most.error_details.code.map(|code| format!("{code} ")).unwrap_or_default();
        format!("{code}{}, with an HTML page", most.error_details.name)
    } else {
        run::reason(&most.error_details)
    };
    bounded_lines(&printable(&(what + &why)), MAX_LINES, style)
}

/// Returns whether the response is an HTML page.
fn is_page(error: &RequestError) -> bool {
    let text = error.message.to_ascii_lowercase();
    ["<!doctype html", "<html"].iter().any(|start| text.contains(start))
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
        let is_version_twice = url.ends_with(&VERSION.repeat(2));
        let mut needs_key = false;
        if is_version_twice {
            url.truncate(url.len() - 2 * VERSION.len());
            advice.push(format!("The URL has {VERSION} twice; use --url {url}"));
        } else if error.name == "TlsError" && error.message.contains("does not use TLS") {
            url = url.replacen("https://", "http://", 1);
            advice.push(format!("The server does not use TLS; use --url {url}"));
        } else if matches!(error.code, Some(401 | 403)) {
            needs_key = true;
            advice.push(if setup.has_credentials {
                "The server does not accept the key; check --api-key, AIPERF_API_KEY or --header."
                    .to_owned()
            } else {
                "The server needs a key; set it with --api-key or AIPERF_API_KEY.".to_owned()
            });
        } else if error.name == "ConnectionRefused" {
            advice.push(format!(
                "Nothing listens at {url}. Start the server, or set its address with --url; \
                 --wait-for-model-timeout 60 waits until it is ready."
            ));
        } else if is_page(error) {
            advice.push(format!(
                "{url} is the address of a web page, not of an API; set that of the API with --url."
            ));
        } else if error.kind == ErrorKind::Timeout {
            advice.push(
                "Raise --request-timeout-seconds, or check that the server responds at all."
                    .to_owned(),
            );
        } else if error.message.contains("context") && error.code == Some(400) {
            advice.push("Send shorter requests with --isl and --osl.".to_owned());
        } else if offered == Offered::default() && error.code.is_some() {
            advice.push("Check --url, --endpoint-type, --endpoint and --model.".to_owned());
        }
        if let Some(first) = offered.models.first().filter(|_| !offered.models.contains(&model)) {
            let names = printable_names(&offered.models, MAX_NAMED);
            advice.push(format!("The server offers {names}; choose with --model."));
            model.clone_from(first);
        }
        if !offered.paths.is_empty() && !is_version_twice {
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
