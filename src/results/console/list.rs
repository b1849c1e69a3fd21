//! The table of the runs in a directory.

use super::layout::Table;
use super::style::Style;
use crate::artifacts::local_minute;
use crate::run::listed::{Level, Listed};
use crate::tables;

/// Renders a row for each run, with the members of groups below these.
#[must_use]
pub fn runs(runs: &[Listed], style: Style) -> String {
    let table = tables::runs::runs(runs, local_minute);
    let few = table.few().map_or_else(String::new, |few| format!("{few}\n"));
    let mut drawn = Table::plain(table.columns);
    for (cells, (run, _)) in table.rows.iter().zip(tables::runs::each(runs)) {
        drawn.row_with(cells, String::new(), run.state.level == Level::Bad);
    }
    drawn.render(style) + &few
}
