//! The page of a comparison: the verdict, its table, and the distributions of both sides.

use std::path::PathBuf;

use parquet::errors::ParquetError;

use measure::judge::Comparison;
use measure::judge::compare::Conclusion;

use super::cells::{MAX_DISTRIBUTIONS, distributions, latencies, requests};
use super::document::{Document, Level, Notice, Section, ShownRequests};
use crate::tables::compare::{comparison, conclusion, different_loads};

/// The runs of a side of a comparison.
#[derive(Debug)]
pub struct Side {
    /// Its name in charts.
    pub name: String,
    /// The directories of its runs.
    pub runs: Vec<PathBuf>,
}

/// Returns the page of `comparisons`, those of each directory that is compared with the same one, and of
/// the runs of their `sides`.
pub(super) fn document(
    comparisons: &[Vec<Comparison>],
    sides: &[Side],
) -> Result<Document, ParquetError> {
    let tables: Vec<_> = comparisons.iter().map(|cells| comparison(cells)).collect();
    let titles: Vec<&str> = tables.iter().map(|table| &*table.title).collect();
    let title = format!("{} | aiperf", titles.join("; "));
    let shown = sides.iter().take(MAX_DISTRIBUTIONS);
    let found = shown.map(|side| Ok((&*side.name, latencies(&requests(&side.runs)?))));
    let found: Vec<_> = found.collect::<Result<_, ParquetError>>()?;
    let all = found.iter().map(|(name, points)| (*name, points.as_slice()));
    let charts = distributions(&all, sides.len() - found.len(), "sides");
    let about = "Successful requests of all runs of a side.";
    let mut sections = vec![
        Section::new("Comparison", "", Vec::new()).with(tables),
        Section::new("Distributions", about, charts),
    ];
    sections.retain(|section| !section.is_empty());
    Ok(Document {
        title,
        facts: Vec::new(),
        notices: comparisons.iter().flat_map(|cells| notices(cells, comparisons.len())).collect(),
        figures: Vec::new(),
        sections,
        requests: ShownRequests::default(),
    })
}

/// Returns the verdict on the cells of a directory, one of `all`; in what the loads differ; and the first
/// reason why nothing can be concluded.
fn notices(cells: &[Comparison], all: usize) -> impl Iterator<Item = Notice> {
    let level = match cells.iter().map(|one| one.compared.outcome).max() {
        Some(Conclusion::NoRegression) => Level::Good,
        Some(Conclusion::CannotTell) | None => Level::Doubtful,
        Some(Conclusion::Regression) => Level::Bad,
    };
    let new = cells.first().filter(|_| all > 1).map(|one| format!("{}: ", one.new));
    let verdict = new.unwrap_or_default() + &conclusion(cells);
    let loads = Some(different_loads(cells)).filter(|text| !text.is_empty());
    let loads = loads.map(|text| Notice { level: Level::Bad, text });
    let mut judged = cells.iter().filter(|one| !one.compared.is_withdrawn());
    let obstacle = judged.find_map(|one| one.compared.obstacle.as_ref());
    let obstacle = obstacle.map(|why| Notice { level: Level::Doubtful, text: format!("{why}.") });
    std::iter::once(Notice { level, text: verdict }).chain(loads).chain(obstacle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::compare::tests::compared;

    #[test]
    fn the_verdict_is_first_and_the_table_is_that_of_the_terminal() {
        let mut worse = compared();
        worse.compared.outcome = Conclusion::Regression;
        worse.compared.rows[1].finding = measure::judge::compare::Finding::Regression;
        let page = document(&[vec![worse]], &[]).unwrap();
        assert_eq!(page.title, "after compared with before | aiperf");
        let [verdict] = page.notices.as_slice() else { panic!("{:?}", page.notices) };
        assert_eq!(
            (verdict.level, &*verdict.text),
            (Level::Bad, "Regression: inter_token_latency avg.")
        );
        let [section] = page.sections.as_slice() else { panic!("{:?}", page.sections) };
        let [table] = section.tables.as_slice() else { panic!("{section:?}") };
        let row: Vec<_> = table.rows[1].iter().map(ToString::to_string).collect();
        let expected = [
            "\"*\"",
            "\"inter_token_latency avg (ms)\"",
            "5.0238",
            "5.978322",
            "\"+18.9%\"",
            "\"+18.5% to +19.4%\"",
            "\"regression\"",
        ];
        assert_eq!(row[..3], expected[..3]);
        assert_eq!(row[4..], expected[4..]);
        assert!(table.note.contains("Differs: concurrency 1 \u{2192} 2."), "{}", table.note);
    }

    #[test]
    fn each_directory_has_a_verdict_and_other_loads_are_said() {
        let mut other = compared();
        other.new = "other".to_owned();
        other.compared.obstacle = Some("NEW: the sweep does not have the cell".to_owned());
        other.different_loads = vec!["concurrency 1 and 2".to_owned()];
        let page = document(&[vec![compared()], vec![other]], &[]).unwrap();
        let said: Vec<&str> = page.notices.iter().map(|notice| &*notice.text).collect();
        let verdict = "Cannot tell: the runs have none of the metrics.";
        assert_eq!(
            said,
            [
                &*format!("after: {verdict}"),
                &*format!("other: {verdict}"),
                "these runs had different loads: concurrency 1 and 2",
                "NEW: the sweep does not have the cell.",
            ]
        );
    }
}
