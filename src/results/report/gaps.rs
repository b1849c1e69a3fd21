//! The times between the content events of requests over the time of a run: how many were how long,
//! and when. Only counts are kept.

use std::path::Path;

use parquet::errors::ParquetError;

use super::chart::Heat;
use super::requests::millis;
use super::timeline::Intervals;
use crate::artifacts::Table;

/// Maximum number of columns.
const MAX_COLUMNS: usize = 120;
/// The lower end of the shortest gaps in milliseconds; shorter ones count to these.
const SHORTEST: f64 = 0.01;
/// Number of rows for gaps up to ten times as long.
const PER_DECADE: u32 = 10;
/// Number of rows: the longest gaps are 100 s and longer.
const ROWS: usize = 71;

/// The number of gaps by the time at which they ended, and by their length.
#[derive(Debug)]
pub(super) struct Gaps {
    columns: Intervals,
    counts: Vec<[u64; ROWS]>,
}

impl Gaps {
    fn new(intervals: Intervals) -> Self {
        let columns = intervals.joined(MAX_COLUMNS);
        Self { columns, counts: columns.each(|| [0; ROWS]) }
    }

    /// Reads the arrivals of the profiling phase, which started at `start_ns`, from the table at
    /// `path`, a row group at a time.
    pub(super) fn read(
        path: &Path,
        start_ns: u64,
        intervals: Intervals,
    ) -> Result<Self, ParquetError> {
        let mut found = Self::new(intervals);
        for group in Table::open(path)?.groups() {
            let group = group?;
            let phase = group.texts("benchmark_phase")?;
            let starts = group.integers("request_start_ns")?;
            let arrivals = group.lists("content_arrival_ms")?;
            for ((phase, started), arrivals) in phase.iter().zip(&starts).zip(&arrivals) {
                let Some(started) = started.filter(|_| phase.as_deref() == Some("profiling"))
                else {
                    continue;
                };
                found.add(millis(i128::from(started) - i128::from(start_ns)), arrivals);
            }
        }
        Ok(found)
    }

    /// Adds the gaps between the `arrivals` of a request in milliseconds since its `start`.
    fn add(&mut self, start: f64, arrivals: &[f64]) {
        for pair in arrivals.windows(2) {
            let [before, after] = pair else { continue };
            let column = self.columns.at(start + after);
            if let Some(counts) = self.counts.get_mut(column) {
                counts[row(after - before)] += 1;
            }
        }
    }

    /// Returns the counts, from the shortest to the longest gaps that there are; `None` without any.
    pub(super) fn heat(&self) -> Option<Heat> {
        let is_used = |row: &usize| self.counts.iter().any(|counts| counts[*row] > 0);
        let first = (0..ROWS).find(is_used)?;
        let last = (0..ROWS).rev().find(is_used)?;
        let mut cells = Vec::new();
        for (column, counts) in (0..).zip(&self.counts) {
            for (row, count) in (0..).zip(&counts[first..=last]) {
                if *count > 0 {
                    cells.push((column, row, *count));
                }
            }
        }
        let rows = (first..=last + 1).map(lower_end).collect();
        Some(Heat { columns: self.columns.edges(), rows, cells })
    }
}

/// Returns the row of a gap in milliseconds.
fn row(gap: f64) -> usize {
    let row = (gap / SHORTEST).log10() * f64::from(PER_DECADE);
    // A negative number, and what is not a number, becomes 0. Ends are exact to a billionth.
    ((row + 1e-9).max(0.0) as usize).min(ROWS - 1)
}

/// Returns the length of the shortest gaps of a row in milliseconds.
fn lower_end(row: usize) -> f64 {
    SHORTEST * 10_f64.powf(row as f64 / f64::from(PER_DECADE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_by_their_end_and_their_length() {
        // Two columns of a second.
        let mut gaps = Gaps::new(Intervals::up_to(2_000.0, 20, 0.0));
        // Gaps of 10, 10 and 1000 ms, which end after 0.92, 0.93 and 1.93 s.
        gaps.add(900.0, &[10.0, 20.0, 30.0, 1_030.0]);
        // A gap of 12 ms, which is less than 10 times the tenth root of 10.
        gaps.add(0.0, &[1.0, 13.0]);
        // No gaps.
        gaps.add(0.0, &[1.0]);
        gaps.add(0.0, &[]);
        let heat = gaps.heat().unwrap();
        assert_eq!(heat.columns, [0.0, 1.0, 2.0]);
        assert_eq!(heat.cells, [(0, 0, 3), (1, 20, 1)]);
        assert_eq!(heat.rows.len(), 22);
        for (row, end) in [(0, 10.0), (10, 100.0), (20, 1_000.0), (21, 1_258.925_411_8)] {
            assert!((heat.rows[row] / end - 1.0).abs() < 1e-9, "{row}: {}", heat.rows[row]);
        }
    }

    #[test]
    fn every_gap_has_a_row() {
        for (gap, at) in [(0.0, 0), (-1.0, 0), (f64::NAN, 0), (0.01, 0), (0.1, 10), (1.0, 20)] {
            assert_eq!(row(gap), at, "{gap}");
        }
        assert_eq!((row(99_999.0), row(100_000.0), row(f64::INFINITY)), (69, 70, 70));
    }

    #[test]
    fn a_long_run_has_few_columns() {
        let gaps = Gaps::new(Intervals::up_to(599_500.0, 1_000_000, 1.0));
        // 600 intervals of a second, of which 5 are a column.
        assert_eq!(gaps.counts.len(), 120);
        assert_eq!(gaps.columns.edges().last(), Some(&599.5));
        assert!(gaps.heat().is_none());
    }
}
