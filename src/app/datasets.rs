//! Datasets from the hub: their list, and the progress of their downloads.

use std::fmt::Write as _;
use std::io;

use serde_json::{Value, json};

use dataset::{PUBLIC, Public};
use results::console::DownloadLine;
use results::terminal::{Stderr, terminal_width};
use tokens::hub::Hub;

use crate::config::{Environment, Ui};

/// The hub, whose downloads are shown as `ui` asks.
pub(super) fn hub(ui: Ui) -> Hub {
    let line = DownloadLine::new(ui, terminal_width(&io::stderr()), Box::new(Stderr));
    Hub::new(Environment::process()).watched(move |transfer| line.update(transfer))
}

/// The output of `aiperf dataset list`: a table with a line for each public dataset.
pub(super) fn table() -> String {
    let titles = ["NAME", "ROWS", "LICENCE", "CONTENT", "REPOSITORY"];
    let lines: Vec<[&str; 5]> = std::iter::once(titles).chain(PUBLIC.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in &lines {
        let padded = line.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            format!("{cell:width$}")
        });
        let padded = padded.collect::<Vec<_>>().join("  ");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", padded.trim_end());
    }
    text
}

/// The same as a JSON array.
pub(super) fn json() -> String {
    let list: Value = PUBLIC
        .iter()
        .map(|public| {
            let [name, rows, licence, content, repository] = cells(public);
            json!({
                "name": name,
                "repository": repository,
                "revision": public.revision,
                "subset": public.subset(),
                "split": public.split(),
                "rows": rows,
                "licence": licence,
                "content": content,
            })
        })
        .collect();
    format!("{list:#}\n")
}

const fn cells(public: &Public) -> [&'static str; 5] {
    [public.name, public.rows, public.licence, public.content, public.repository]
}
