//! What was run, the most important figures, and all statistics.

use serde_json::{Value, json};

use base::statistics::further;
use measure::metrics::metric::{MetricResult, Percent, Statistic};
use measure::metrics::tag::{self, MetricTag};

use super::Run;
use crate::console::Term;
use crate::console::highlights;
use crate::report::chart::rounded;
use crate::report::document::{Figure, Table};
use crate::run::RunReport;

/// The metrics of the first screen; the first four that the run has.
const FIGURES: &[MetricTag] = &[
    tag::REQUEST_THROUGHPUT,
    tag::OUTPUT_TOKEN_THROUGHPUT,
    tag::TIME_TO_FIRST_TOKEN,
    tag::INTER_TOKEN_LATENCY,
    tag::REQUEST_LATENCY,
    tag::REQUEST_COUNT,
    tag::ERROR_REQUEST_COUNT,
];

impl Run<'_> {
    pub(super) fn title(&self) -> String {
        match self.report.run.setup.models.as_slice() {
            [] => "aiperf".to_owned(),
            names => format!("{} | aiperf", names.join(", ")),
        }
    }

    /// Returns what was run, in one line.
    pub(super) fn subject(&self) -> String {
        let RunReport { run, outcome, .. } = self.report;
        let second = crate::artifacts::local_second(outcome.start_wall_ns);
        let program = &run.provenance.program;
        let models = run.setup.models.join(", ");
        let parts = [models, run.endpoint.name.to_owned(), outcome.load.to_string(), second];
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let parts = parts.chain([format!("{} {}", program.name, program.version)]);
        parts.collect::<Vec<_>>().join(" | ")
    }

    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let RunReport { run, outcome, .. } = self.report;
        let provenance = &run.provenance;
        let mut facts = vec![
            ("Load", outcome.load.to_string()),
            (
                "Endpoint",
                format!("{}{}", run.endpoint.name, if run.streaming { ", streaming" } else { "" }),
            ),
        ];
        facts.push(("Server", run.servers().join(", ")));
        if let Some(tokenizer) = &provenance.tokenizer {
            facts.push(("Tokenizer", tokenizer.name.clone()));
        }
        if let Some(account) = self.report.dataset() {
            facts.push(("Dataset", account.text()));
        }
        let host = &provenance.host;
        let cpu = host.cpu.as_deref().unwrap_or(&host.arch);
        facts.push(("Client", format!("{}, {cpu}, {} cores, {}", host.name, host.cores, host.os)));
        facts.push(("Client's cores", host.about_cores().join("; ")));
        let health = outcome.client_health.as_ref();
        let activity = health.and_then(|health| health.host.as_ref());
        facts.push((
            "Client's machine",
            activity.map(|activity| activity.facts().join("; ")).unwrap_or_default(),
        ));
        let program = &provenance.program;
        let commit = program.commit.as_ref().map(|commit| format!(" ({commit:.12})"));
        facts.push((
            "Program",
            format!("{} {}{}", program.name, program.version, commit.unwrap_or_default()),
        ));
        facts.extend(highlights(self.report).into_iter().map(|one| (one.title, one.text)));
        facts.push(("Start", crate::artifacts::local_second(outcome.start_wall_ns)));
        let seconds = outcome.end_wall_ns.saturating_sub(outcome.start_wall_ns) as f64 / 1e9;
        facts.push(("Duration", format!("{} s", rounded(seconds))));
        facts.push(("Command", run.cli_command.clone()));
        facts.push(("Benchmark ID", run.benchmark_id.to_string()));
        facts.retain(|(_, value)| !value.is_empty());
        facts
    }

    pub(super) fn figures(&self) -> Vec<Figure> {
        let known = FIGURES.iter().filter_map(|tag| self.result(*tag));
        known.filter_map(figure).take(4).collect()
    }

    /// Returns how far the client may have shifted the latencies, if that is known.
    pub(super) fn error_bounds(&self) -> Option<Table> {
        let bounds = self.report.outcome.client_health.as_ref()?.error_bounds_ms?;
        let rows = bounds.iter().flat_map(|(metric, statistics)| {
            statistics.percentiles().map(move |(percent, bound)| {
                let [likely_below, likely_above] = bound.likely();
                let [sample_low, sample_high] = bound.sample_interval();
                vec![
                    json!(metric),
                    json!(format!("p{percent}")),
                    json!(bound.value),
                    json!(bound.below),
                    json!(bound.above),
                    json!(likely_below),
                    json!(likely_above),
                    json!(sample_low),
                    json!(sample_high),
                ]
            })
        });
        let columns = [
            "Latency",
            "Statistic",
            "Value (ms)",
            "At most lower by (ms)",
            "At most higher by (ms)",
            "Likely lower by (ms)",
            "Likely higher by (ms)",
            "Sample from (ms)",
            "Sample to (ms)",
        ];
        let note = "How much lower and higher each statistic may be because of the client: at most, \
                    and with a probability of 95%. The sample interval is the 95% confidence \
                    interval for other requests of the same kind.";
        let few = bounds.too_few().into_iter().map(|text| format!(" {text}."));
        Some(Table {
            title: "Error bounds".to_owned(),
            note: std::iter::once(note.to_owned()).chain(few).collect(),
            columns: columns.map(str::to_owned).to_vec(),
            rows: rows.collect(),
            requests: Vec::new(),
        })
    }

    pub(super) fn statistics(&self) -> Table {
        let settings = &self.report.run.settings;
        statistics(&self.report.results, &settings.percentiles, settings.developer_mode)
    }
}

/// Returns all statistics of `results`.
fn statistics(results: &[MetricResult], percents: &[Percent], developer_mode: bool) -> Table {
    let own = further(percents).map(Statistic::Percentile);
    let all: Vec<Statistic> = Statistic::ALL.into_iter().chain(own).collect();
    let row = |result: &MetricResult| {
        let value = |statistic: &Statistic| {
            let value = statistic.value_in(&result.stats).filter(|value| value.is_finite());
            value.map_or(Value::Null, |value| json!(value))
        };
        let names = [json!(result.metric.tag), json!(result.metric.display_unit.label())];
        names.into_iter().chain(all.iter().map(value)).collect()
    };
    let exported = results.iter().filter(|result| result.metric.is_exported(developer_mode));
    let statistics = all.iter().map(Statistic::to_string);
    Table {
        title: "All metrics".to_owned(),
        note: String::new(),
        columns: ["metric", "unit"].map(str::to_owned).into_iter().chain(statistics).collect(),
        rows: exported.map(row).collect(),
        requests: Vec::new(),
    }
}

/// Returns the figure of a result: the median of a distribution, or the single value.
fn figure(result: &MetricResult) -> Option<Figure> {
    let metric = result.metric;
    let (title, value, detail) = match result.stats.distribution {
        Some(found) => (
            format!("{} p50", Term::for_metric(metric).name),
            found.p50,
            format!("p99 {}, avg {}", rounded(found.p99), rounded(result.stats.avg)),
        ),
        None => (Term::for_metric(metric).name.to_owned(), result.stats.avg, String::new()),
    };
    let unit = Term::for_metric(metric).unit.to_owned();
    value.is_finite().then_some(Figure { title, value, unit, detail })
}
