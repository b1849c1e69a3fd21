//! The table as a page of its own.

use std::fmt::Write as _;

use super::report::{Cell, Outcome, Report, named};

/// The style of the page, for light and dark screens.
const STYLE: &str = "
:root { color-scheme: light dark; --line: #8884; --agrees: #2a9d4a; --undecided: #c98a00; --differs: #d33; }
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; }
table { border-collapse: collapse; margin-bottom: 2em; }
th, td { border: 1px solid var(--line); padding: .3em .6em; text-align: left; vertical-align: top; }
thead th { position: sticky; top: 0; background: Canvas; }
td.agrees { border-left: 4px solid var(--agrees); }
td.undecided { border-left: 4px solid var(--undecided); }
td.differs, td.failed { border-left: 4px solid var(--differs); }
td.impossible { opacity: .6; }
small { display: block; opacity: .8; }
code { overflow-wrap: anywhere; }
";

impl Report {
    /// Returns the page, which needs no other file.
    pub fn page(&self) -> String {
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <title>Benchmark clients and the truth</title><style>{STYLE}</style></head><body>\n\
             <h1>Benchmark clients and the truth</h1>\n<p>aiperf {}, {}, {}: {}. Each cell has the \
             figure that is most wrong.</p>\n<table><thead><tr><th>hazard</th>",
            self.aiperf_version,
            self.date,
            escaped(&self.machine),
            self.conclusion()
        );
        for client in &self.clients {
            let name = escaped(&named(&client.name, client.version.as_deref()));
            let _ = write!(page, "<th>{name}<small>{}</small></th>", escaped(&client.says));
        }
        page.push_str("</tr></thead><tbody>\n");
        for hazard in &self.hazards {
            let says = escaped(hazard.says);
            let _ = write!(page, "<tr><th>{}<small>{says}</small></th>", hazard.name);
            for client in &self.clients {
                match self.cell(hazard.name, &client.name) {
                    Some(cell) => page.push_str(&table_cell(cell)),
                    None => page.push_str("<td></td>"),
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody></table></body></html>\n");
        page
    }
}

fn table_cell(cell: &Cell) -> String {
    let class = match &cell.outcome {
        Outcome::Impossible { .. } => "impossible",
        other => other.word(),
    };
    let mut text = format!(
        "<td class=\"{class}\" title=\"{}\">{}: {}",
        escaped(&cell.repeat),
        cell.outcome.word(),
        escaped(&cell.outcome.label())
    );
    for deviation in cell.outcome.deviations() {
        let _ = write!(text, "<small>{}</small>", escaped(deviation));
    }
    text.push_str("</td>");
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
