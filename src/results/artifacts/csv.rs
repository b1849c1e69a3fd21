//! `profile_export_aiperf.csv`: distributions, an empty line, single values; then those of phases, if
//! several are measured, and those of GPUs and tenants.

use std::io::{self, Write};

use base::units::Unit;
use measure::metrics::Metric;
use measure::metrics::metric::{MetricResult, Statistic, Stats};

use super::entry::exported;
use super::gpu;
use super::sections::{Sections, number};
use crate::run::RunReport;

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

/// Returns the percentiles of `results` that only some runs have, as all of their metrics do.
fn further(results: &[&MetricResult]) -> Vec<Statistic> {
    let distributions = results.iter().filter_map(|result| result.stats.distribution);
    let most = distributions.max_by_key(|it| it.further.iter().count());
    let percents = most.into_iter().flat_map(|it| it.further.iter());
    percents.map(|(percent, _)| Statistic::Percentile(percent)).collect()
}

fn distribution_row(result: &MetricResult, further: &[Statistic]) -> Vec<String> {
    let value =
        |statistic: Statistic| statistic.value_in(&result.stats).map_or_else(String::new, number);
    let common = STATISTICS.iter().filter_map(|name| Statistic::named(name));
    let values = common.chain(further.iter().copied()).map(value);
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

/// Returns `Header (unit)`; counts do not have a unit.
fn label(metric: &Metric) -> String {
    match metric.display_unit {
        Unit::Count | Unit::Requests | Unit::Sessions => metric.header.to_owned(),
        unit => format!("{} ({unit})", metric.header),
    }
}
