//! The page that lists runs. It has neither charts nor scripts.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use base::redact::printable;

use super::page;
use super::theme;
use crate::artifacts::local_minute;
use crate::run::listed::{Level, Listed};
use crate::tables::{self, Cell, Column, Content};

/// What the style of the pages does not have.
const STYLE: &str = "td.good { color: var(--good); } td.doubtful { color: var(--doubtful); } \
    td.bad { color: var(--bad); } caption { text-align: left; }";

/// Writes the page of `runs`, whose directories are relative to that of the page.
pub(super) fn write(out: &mut dyn Write, title: &str, runs: &[Listed]) -> io::Result<()> {
    let table = tables::runs::runs(runs, local_minute);
    let few = table.few().map_or_else(String::new, |few| format!(". {few}"));
    let style = theme::style_sheet_by_preference() + page::STYLE + STYLE;
    let title = escaped(title);
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; \
         img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>{style}</style>\n\
         </head>\n<body>\n<main>\n<h1>{title}</h1>\n<div class=\"table\"><div class=\"scroll\">\n\
         <table>\n<caption class=\"note\">The newest first{few}</caption>\n<thead><tr>",
        page::hash(&style)
    )?;
    for column in &table.columns {
        let class = class(column);
        write!(out, "<th scope=\"col\"{class}>{}</th>", column.name)?;
    }
    out.write_all(b"</tr></thead>\n<tbody>\n")?;
    for (cells, (run, group)) in table.rows.iter().zip(tables::runs::each(runs)) {
        let group = group.map_or(Path::new(""), |group| &group.directory);
        row(out, table.columns.iter().zip(cells), run, &group.join(&run.directory))?;
    }
    out.write_all(b"</tbody>\n</table>\n</div></div>\n</main>\n</body>\n</html>\n")
}

/// Returns the attribute of the cells of a column.
fn class(column: &Column) -> &'static str {
    if column.content == Content::Number { " class=\"number\"" } else { "" }
}

/// Writes the `cells` of a run in `directory`: the first is a link to its page, the last is its state.
fn row<'a>(
    out: &mut dyn Write,
    cells: impl Iterator<Item = (&'a Column, &'a Cell)>,
    run: &Listed,
    directory: &Path,
) -> io::Result<()> {
    let level = match run.state.level {
        Level::Good => "good",
        Level::Doubtful => "doubtful",
        Level::Bad => "bad",
    };
    out.write_all(b"<tr>")?;
    let mut cells = cells.enumerate().peekable();
    while let Some((at, (column, cell))) = cells.next() {
        let text = escaped(&printable(&cell.shown(column.content)));
        match &run.page {
            _ if cells.peek().is_none() => write!(out, "<td class=\"{level}\">{text}</td>")?,
            Some(page) if at == 0 => {
                let link = link(&directory.join(page));
                write!(out, "<td><a href=\"{link}\">{text}</a></td>")?;
            }
            _ => write!(out, "<td{}>{text}</td>", class(column))?,
        }
    }
    out.write_all(b"</tr>\n")
}

/// Returns a relative URL of a path. A name with a colon could be taken for a scheme, so the URL begins
/// with `./`.
fn link(path: &Path) -> String {
    let parts = path.iter().map(|part| {
        let unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        part.as_encoded_bytes().iter().fold(String::new(), |mut text, byte| {
            if unreserved(byte) {
                text.push(char::from(*byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
            text
        })
    });
    format!("./{}", parts.collect::<Vec<_>>().join("/"))
}

/// Returns a text for HTML, also in attributes.
fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, char| {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::listed::{Headline, State};

    fn run(directory: &str) -> Listed {
        Listed {
            directory: directory.into(),
            name: Some("<script>alert(1)</script>".to_owned()),
            benchmark_id: String::new(),
            models: "a & b".to_owned(),
            load: "concurrency 8".to_owned(),
            start_wall_ns: None,
            headline: Headline {
                requests: Some(367),
                ttft_p99: Some(212.34567),
                ..Headline::default()
            },
            state: State { level: Level::Bad, text: "2 of 3 gates held".to_owned() },
            page: Some("report.html".into()),
            members: Vec::new(),
        }
    }

    #[test]
    fn a_run_is_a_row_with_a_link_to_its_page() {
        let member = Listed { name: None, page: None, ..run("concurrency_8") };
        let all = [Listed { members: vec![member], ..run("javascript:x/a b\"") }];
        let mut out = Vec::new();
        write(&mut out, "Runs in artifacts", &all).unwrap();
        let page = String::from_utf8(out).unwrap();
        let link = "<a href=\"./javascript%3Ax/a%20b%22/report.html\">";
        assert!(page.contains(link), "{page}");
        assert!(
            page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script")
        );
        assert!(page.contains("<td>a &amp; b</td>"));
        assert!(page.contains("<td class=\"number\">(212.3)</td>"));
        assert!(page.contains("In parentheses: too few requests; p99 needs 368 in each run."));
        assert!(page.contains("<td class=\"bad\">2 of 3 gates held</td>"));
        assert!(page.contains("<tr><td>└ concurrency_8</td>"));
    }
}
