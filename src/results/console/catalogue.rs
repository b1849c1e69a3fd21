//! The catalogue of metrics.

use measure::metrics::listing;

use super::layout::{Column, Table};
use super::style::Style;

/// The order in which a narrow terminal does without the columns.
const SPARE: [u8; 7] = [0, 4, 5, 3, 2, 1, 0];

/// Renders the catalogue as a table that fits the terminal.
#[must_use]
pub fn metrics(style: Style) -> String {
    let columns = listing::TITLES.into_iter().zip(SPARE).map(|(title, order)| match title {
        "MEASURES" => Column::text(title),
        _ => Column::name(title).spare(order),
    });
    Table::plain(columns).rows(listing::lines()).render(style)
}

#[cfg(test)]
mod tests {
    use measure::metrics::Registry;

    use super::*;

    #[test]
    fn the_catalogue_fits_a_terminal() {
        for width in [80, 100, 160, 300] {
            let text = metrics(Style { width, colour: false });
            assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
            let mut tags = Registry::catalogue().iter().map(|metric| metric.tag.name());
            assert!(tags.all(|tag| text.contains(tag)), "{text}");
        }
    }
}
