//! `profile_export_aiperf.csv`: distributions, an empty line, single values; then those of phases, if
//! several are measured, and those of GPUs and tenants.

use std::io::{self, Write};

use super::gpu;
use super::json::exported;
use crate::metrics::Metric;
use crate::metrics::metric::{MetricResult, Statistic, Stats};
use crate::run::RunReport;
use crate::units::Unit;

/// The statistics of each row; percentiles that only some runs have follow.
pub(super) const STATISTICS: [&str; 14] = [
    "avg", "min", "max", "sum", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std",
];

/// Writes the sections, rows in order of tag.
pub(super) fn write(out: &mut dyn Write, report: &RunReport) -> io::Result<()> {
    let mut sections = Sections::new(out);
    write_results(&mut sections, None, exported(report, &report.results))?;
    let header = ["Finish Reason", "Requests"].map(str::to_owned);
    let reasons = report.finish_reasons.iter();
    let row = |(reason, count): (&str, u64)| vec![reason.to_owned(), count.to_string()];
    sections.write(header, reasons.map(row))?;
    for phase in &report.by_phase {
        write_results(&mut sections, Some(&phase.name), exported(report, &phase.results))?;
    }
    if let Some(gpus) = &report.outcome.gpus {
        gpu::write_csv(&mut sections, gpus)?;
    }
    let header = ["Tenant", "Share", "Throughput Share", "Slowdown", "Metric"];
    let header = header.into_iter().chain(STATISTICS).map(str::to_owned);
    sections.write(header, tenant_rows(report))
}

/// Returns a row for each metric of each tenant that has a distribution.
fn tenant_rows(report: &RunReport) -> impl Iterator<Item = Vec<String>> {
    let breakdowns = &report.breakdowns;
    let tenants = breakdowns.tenants.iter().flat_map(|found| &found.tenants);
    tenants.zip(&breakdowns.by_tenant).flat_map(move |(tenant, group)| {
        let mut results: Vec<_> = exported(report, &group.results).collect();
        results.retain(|result| result.stats.distribution.is_some());
        results.sort_by_key(|result| result.metric.tag.name());
        results.into_iter().map(move |result| {
            let slowdown = tenant.slowdown.map(number).unwrap_or_default();
            let shares = [tenant.share, tenant.throughput_share].map(|share| format!("{share:.4}"));
            std::iter::once(tenant.name.clone())
                .chain(shares)
                .chain([slowdown])
                .chain(distribution_row(result, &[]))
                .collect()
        })
    })
}

/// Writes the distributions and the single values, in two sections; with the name of their phase in
/// front, if it is one of several.
fn write_results<'a>(
    sections: &mut Sections<'_>,
    phase: Option<&str>,
    results: impl Iterator<Item = &'a MetricResult>,
) -> io::Result<()> {
    let mut results: Vec<_> = results.collect();
    results.sort_by_key(|result| result.metric.tag.name());
    let (distributions, singles): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|result| result.stats.distribution.is_some());
    let further = further(&distributions);
    let first = |name: &str| phase.map(|_| name.to_owned());
    let of_phase = || phase.map(str::to_owned);
    let header = std::iter::once("Metric").chain(STATISTICS).map(str::to_owned);
    let header = header.chain(further.iter().map(Statistic::to_string));
    let row = |result: &MetricResult| {
        of_phase().into_iter().chain(distribution_row(result, &further)).collect()
    };
    sections.write(first("Phase").into_iter().chain(header), distributions.into_iter().map(row))?;
    let header = ["Metric", "Value"].map(str::to_owned);
    let row = |result: &MetricResult| of_phase().into_iter().chain(single_row(result)).collect();
    sections.write(first("Phase").into_iter().chain(header), singles.into_iter().map(row))
}

/// Tables in one file, separated by an empty line. No cell is a formula.
pub(super) struct Sections<'a> {
    out: &'a mut dyn Write,
    is_first: bool,
}

impl<'a> Sections<'a> {
    pub(super) fn new(out: &'a mut dyn Write) -> Self {
        Self { out, is_first: true }
    }

    /// Writes an empty line in addition to the one between sections.
    pub(super) fn write_empty_line(&mut self) -> io::Result<()> {
        if self.is_first { Ok(()) } else { self.out.write_all(b"\r\n") }
    }

    /// Writes a section, unless it is empty.
    pub(super) fn write(
        &mut self,
        header: impl IntoIterator<Item = String>,
        rows: impl Iterator<Item = Vec<String>>,
    ) -> io::Result<()> {
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        if !self.is_first {
            self.out.write_all(b"\r\n")?;
        }
        self.is_first = false;
        let mut csv = csv::WriterBuilder::new()
            .terminator(csv::Terminator::CRLF)
            .flexible(true)
            .from_writer(&mut *self.out);
        csv.write_record(header.into_iter().map(|cell| text(&cell)))?;
        for row in rows {
            csv.write_record(row.iter().map(|cell| text(cell)))?;
        }
        csv.flush()
    }
}

/// Returns the percentiles of `results` that only some runs have, as all of their metrics do.
fn further(results: &[&MetricResult]) -> Vec<Statistic> {
    let distributions = results.iter().filter_map(|result| result.stats.distribution);
    let most = distributions.max_by_key(|it| it.further.iter().count());
    let percents = most.into_iter().flat_map(|it| it.further.iter());
    percents.map(|(percent, _)| Statistic::Percentile(percent)).collect()
}

fn distribution_row(result: &MetricResult, further: &[Statistic]) -> Vec<String> {
    let of = |statistic: Statistic| statistic.of(&result.stats).map_or_else(String::new, number);
    let common = STATISTICS.iter().filter_map(|name| Statistic::named(name));
    let values = common.chain(further.iter().copied()).map(of);
    std::iter::once(label(result.metric)).chain(values).collect()
}

/// Returns each statistic with its name, but for the number of values; only `avg` without a
/// distribution.
pub(super) fn statistics(stats: &Stats) -> impl Iterator<Item = (Statistic, f64)> + use<> {
    stats.all().filter(|(statistic, _)| *statistic != Statistic::Count)
}

fn single_row(result: &MetricResult) -> Vec<String> {
    let value = match result.stats.instant {
        Some(instant) => instant.to_string(),
        None => number(result.stats.avg),
    };
    vec![label(result.metric), value]
}

/// Formats a number with two decimals; empty without a value.
pub(super) fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { String::new() }
}

/// Returns `Header (unit)`; counts do not have a unit.
fn label(metric: &Metric) -> String {
    match metric.display_unit {
        Unit::Count | Unit::Requests | Unit::Sessions => metric.header.to_owned(),
        unit => format!("{} ({unit})", metric.header),
    }
}

/// Formats a text, which may be of a server, as a cell that no spreadsheet interprets as a formula, on one line,
/// since an empty line ends a section.
pub(super) fn text(said: &str) -> String {
    let cell = said.replace('\r', "\\r").replace('\n', "\\n");
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t']) && cell.parse::<f64>().is_err();
    if is_formula { format!("'{cell}") } else { cell }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_server_is_a_formula_and_numbers_stay() {
        let mut out = Vec::new();
        let mut sections = Sections::new(&mut out);
        let row = ["=1+1", "+cmd", "-x", "@a", "-0.50", "+Inf", "", "a=b", "stop"];
        let header = (0..row.len()).map(|column| column.to_string());
        sections.write(header, std::iter::once(row.map(str::to_owned).to_vec())).unwrap();
        let written = String::from_utf8(out).unwrap();
        let expected = "'=1+1,'+cmd,'-x,'@a,-0.50,+Inf,,a=b,stop";
        assert_eq!(written.lines().nth(1), Some(expected));
    }
}
