//! The files of a sweep: its plan, from which it can be continued, and its results.

mod cells;
mod evaluation;
mod plan;
mod summary;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use measure::multi_run::sweep::{Best, Cell, Results, plain};

use super::aggregate::make;
use super::error::{ArtifactError, WriteFailure};
use super::replace;
use super::sections::Sections;
use super::whole::{pretty, write_whole};
use summary::Combination;

pub use plan::Plan;
pub(super) use summary::Summary;

/// The statistics over trials of a metric in the CSV file, as in [`summary::Figures::values`], and their decimals.
const COLUMNS: [(&str, usize); 5] = [("mean", 2), ("std", 2), ("min", 2), ("max", 2), ("cv", 4)];

/// The paths of the results.
#[derive(Debug)]
pub struct SweepFiles {
    json: PathBuf,
    csv: PathBuf,
    table: PathBuf,
    /// A row for each cell, without other sections.
    cells: PathBuf,
}

impl SweepFiles {
    /// Creates `directory` and checks every path.
    pub fn create(directory: &Path) -> Result<Self, ArtifactError> {
        make(directory)?;
        let file = |ending: &str| directory.join(format!("profile_export_aiperf_sweep.{ending}"));
        let files = Self {
            json: file("json"),
            csv: file("csv"),
            table: file("parquet"),
            cells: directory.join("sweep_cells.csv"),
        };
        [&files.json, &files.csv, &files.table, &files.cells]
            .into_iter()
            .try_for_each(|p| replace::check(p))?;
        Ok(files)
    }

    /// Writes all files.
    pub fn write(&self, results: &Results) -> Result<Vec<PathBuf>, WriteFailure> {
        let cells: Vec<Combination<'_>> =
            results.cells.iter().map(|cell| Combination::new(results, cell)).collect();
        let mut written = vec![
            write_whole(&self.json, |out| pretty(out, &Summary::new(results, &cells)))?,
            write_whole(&self.csv, |out| write_csv(out, results, &cells))?,
            table::write(&self.table, results)?,
            write_whole(&self.cells, |out| cells::write(out, results))?,
        ];
        if let Some(evaluation) = &results.sweep.evaluation {
            let (name, content) = evaluation::file(results, evaluation);
            let path = self.json.with_file_name(name);
            written.push(write_whole(&path, |out| pretty(out, &content))?);
        }
        Ok(written)
    }
}

fn successful(results: &Results) -> usize {
    results.cells.iter().map(|cell| cell.trials.successful().count()).sum()
}

/// Returns the cells with the highest throughput and the lowest latency.
fn best_cells(results: &Results) -> [Option<Best<'_>>; 2] {
    [results.best_throughput(), results.best_latency()]
}

/// `profile_export_aiperf_sweep.csv`: the cells, the best of them, the Pareto front, the settings,
/// and where the time went.
fn write_csv(
    out: &mut dyn io::Write,
    results: &Results,
    cells: &[Combination<'_>],
) -> io::Result<()> {
    let names: Vec<String> = results.sweep.aiperf_names().into_iter().map(str::to_owned).collect();
    let values = |cell: &Cell| -> Vec<String> {
        let paths = results.sweep.parameters.iter().map(|parameter| &parameter.path);
        paths.map(|path| cell.variation.values.get(path).map(plain).unwrap_or_default()).collect()
    };
    let of_cells: Vec<BTreeMap<&str, [Option<f64>; 5]>> = cells
        .iter()
        .map(|cell| cell.metrics.0.iter().map(|(key, it)| (&**key, it.values())).collect())
        .collect();
    let keys: BTreeSet<&str> = of_cells.iter().flat_map(|cell| cell.keys().copied()).collect();
    let header =
        keys.iter().flat_map(|key| COLUMNS.iter().map(move |(name, _)| format!("{key}_{name}")));
    let mut sections = Sections::new(out);
    let rows = results.cells.iter().zip(&of_cells).map(|(cell, metrics)| {
        let figures = keys.iter().flat_map(|key| {
            let values = metrics.get(key).copied().unwrap_or_default();
            COLUMNS.iter().zip(values).map(|((_, decimals), value)| {
                value.map(|value| format!("{value:.decimals$}")).unwrap_or_default()
            })
        });
        values(cell).into_iter().chain(figures).collect()
    });
    sections.write(names.iter().cloned().chain(header), rows)?;

    let with_title = |title: &str| vec![title.to_owned()];
    let best: Vec<Vec<String>> = ["Best Throughput", "Best Latency P99"]
        .into_iter()
        .zip(best_cells(results))
        .filter_map(|(title, best)| {
            let best = best?;
            let mut row = with_title(title);
            row.extend(values(best.cell));
            row.push(format!("{:.2}", best.row.across.mean));
            row.push(best.row.metric.display_unit.label().to_owned());
            Some(row)
        })
        .collect();
    let mut header = with_title("Configuration");
    header.extend(names.iter().cloned());
    header.extend(["Metric", "Unit"].map(str::to_owned));
    sections.write(with_title("Best Configurations"), std::iter::once(header).chain(best))?;

    let rows: Vec<Vec<String>> = match results.front().as_slice() {
        [] => vec![with_title("None")],
        front => std::iter::once(names.clone()).chain(front.iter().map(|c| values(c))).collect(),
    };
    sections.write(with_title("Pareto Optimal Points"), rows.into_iter())?;

    let facts = [
        ("Field", "Value".to_owned()),
        ("Aggregation Type", "sweep".to_owned()),
        ("Sweep Parameters", names.join(" ")),
        ("Number of Combinations", results.cells.len().to_string()),
        ("Number of Profile Runs", results.planned().to_string()),
        ("Number of Successful Runs", successful(results).to_string()),
    ];
    let pair = |(name, value): (&str, String)| vec![name.to_owned(), value];
    sections.write(with_title("Metadata"), facts.into_iter().map(pair))?;

    let mut parts: Vec<Vec<String>> = Vec::new();
    for cell in &results.cells {
        for row in cell.time_breakdown.iter().flatten().flatten() {
            for part in &row.parts {
                let mut line = values(cell);
                line.extend([row.metric.name().to_owned(), part.stage.title().to_owned()]);
                line.extend([part.mean_ms.mean, part.bound_ms].map(|ms| format!("{ms:.6}")));
                parts.push(line);
            }
        }
    }
    if parts.is_empty() {
        return Ok(());
    }
    let mut header = names;
    header.extend(["Metric", "Part", "Mean (ms)", "Bound (ms)"].map(str::to_owned));
    let rows = std::iter::once(header).chain(parts);
    sections.write(with_title("Time Breakdown"), rows)
}
