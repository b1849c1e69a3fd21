//! Combines the shards of a run to one report.
//!
//! Records are read again, shard by shard, and counted together; the result is that of a single
//! process with the same records.

mod parts;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use base::column::{Column, Store};
use client::schedule::config::PhaseConfig;
use client::schedule::{BranchStats, ReplayStats, Shard};
use measure::judge::Gate;
use measure::metrics::breakdown::PhaseTimes;
use measure::metrics::metric::Percent;
use measure::metrics::{ClientHealth, LoadReport};
use measure::server_metrics::conservation::ClientCounts;
use measure::server_metrics::limits::ClientLimits;
use measure::server_metrics::report::ServerMetrics;
use telemetry::TelemetryReport;

use super::lines::Seen;
use super::network_latency;
use super::origin::Origin;
use super::server_metrics::{self, Known};
use super::{Coverage, Gathered, Rebuilt, ReportError, RowOrigin, Rows, Span, most_at_once};
use crate::artifacts::error::WriteFailure;
use crate::artifacts::layout::Layout;
use crate::artifacts::manifest::Manifest;
use crate::artifacts::server_metrics::ServerMetricsFiles;
use crate::artifacts::sink::{LineSink, Output};
use crate::artifacts::{open, replace};
use crate::run::{ClockSpread, Combination, Part, RunDescription, RunOutcome};
use parts::Source;

pub(in crate::artifacts::rebuild) use parts::listed;

/// Combines the shards in `directories`; the files are written to `place`, or by default to
/// `combined` beside the shards, from where those of another run are moved aside if `overwrite` is
/// set. Records, tables and the manifest are written here, summaries by [`write`](super::write).
pub fn combine(
    directories: &[PathBuf],
    place: Option<PathBuf>,
    overwrite: bool,
    gates: &[Gate],
    percentiles: &[Percent],
) -> Result<Rebuilt, ReportError> {
    let mut sources = parts::find(directories)?;
    for source in &mut sources {
        source.run.set_gates(gates);
        source.run.add_percentiles(percentiles);
    }
    let [first, ..] = sources.as_slice() else { return Err(ReportError::NoPlace) };
    let layout = parts::place(&sources, place, overwrite)?;
    let mut run = first.run.clone();
    let registry = Arc::new(run.registry()?);
    let prefix = first.prefix.clone();
    (run.shard, run.agreement) = (None, None);
    let mut notes = Vec::new();
    let mut written = Vec::from_iter(inputs(&sources, &layout)?);
    let store = Store::of_run(layout.directory.clone());
    let mut gathered = Gathered::new(&registry, &run, &store);
    // Until it is complete, its name may be a link to a shard's own file.
    let mut lines = LineSink::create_beside(&layout.records)?;
    let files = sources.iter().map(|source| source.layout.records.as_path());
    let mut seen = Seen::in_files(files, &store);
    let (mut origins, mut clients, mut parts) = (Vec::new(), Vec::new(), Vec::new());
    for source in &sources {
        let before = gathered.records;
        let (repeated, remarks) =
            source.records()?.read(&registry, &mut seen, |record, text| {
                gathered.take(record);
                lines.append(Ok(text));
                lines.append(Ok(b"\n"));
            })?;
        notes.extend(remarks);
        let records = gathered.records - before;
        origins.push(RowOrigin::new(source.name(), &source.layout, records, repeated));
        parts.push(part(source, records));
        let health = source.outcome().and_then(|end| end.client_health.clone());
        clients.extend(health.map(|health| (source.name(), health)));
    }
    if gathered.records == 0 {
        return Err(ReportError::Empty { path: layout.records, was_killed: false });
    }
    // What the shards' own summaries cover is theirs; this is about an earlier combination.
    let coverage = Coverage::from_gathered(&gathered, None);
    if !overwrite {
        coverage.check(&layout)?;
    }
    written.push(lines.persist()?);
    let ends: Vec<&RunOutcome> = sources.iter().filter_map(Source::outcome).collect();
    let implied = gathered.outcome_of_a_killed_run();
    let unknown = (ends.len() < sources.len()).then_some(&implied);
    let times = || ends.iter().copied().chain(unknown);
    let start_wall_ns = times().map(|end| end.start_wall_ns).min().unwrap_or(0);
    let end_wall_ns = times().map(|end| end.end_wall_ns).max().unwrap_or(0);
    let load = load(run.setup.measured_phase(), &ends, &gathered.spans, start_wall_ns);
    notes.extend(clock_spread(&parts).and_then(|spread| spread.warning()));
    let combination = combination(first.shard.count(), parts);
    let mut files = ServerMetricsFiles::default();
    let counts = ClientCounts::in_phases([&gathered.ledger.warmup, &gathered.ledger.profiling])
        .of_choices(run.setup.choices());
    let server_metrics =
        combination.missing.is_empty().then_some(&counts).filter(|_| unknown.is_none());
    let server_metrics = servers(
        &sources,
        &layout,
        server_metrics,
        &gathered,
        &mut files,
        &mut notes,
        &mut written,
    )?;
    let round_trip = round_trip_ns(&sources, &run, &layout, &mut notes, &mut written)?;
    gathered.ledger.profiling.set_round_trip(round_trip);
    let kept = files.clone();
    let outcome = RunOutcome {
        start_wall_ns,
        end_wall_ns,
        phases: phases(&ends),
        was_cancelled: ends.iter().any(|end| end.was_cancelled),
        incomplete_reason: incomplete_reason(&combination, &sources),
        sent: gathered.ledger.sent(),
        branches: branches(&ends),
        replay: ReplayStats::of_all(ends.iter().filter_map(|end| end.replay)),
        client_health: ClientHealth::combined(&clients, &gathered.ledger.health, &load),
        load,
        telemetry: TelemetryReport::combined(ends.iter().filter_map(|end| end.telemetry.clone())),
        // By default only one shard has any.
        gpus: ends.iter().find_map(|end| end.gpus.clone()),
        shards: Some(combination),
        // Such as which prompts several shards share.
        ..RunOutcome::default()
    };
    let mut report = gathered.ledger.report(run, outcome, server_metrics, &mut notes);
    let servers = report.server_metrics.as_ref();
    let configured = servers.map(|servers| servers.report.summary.endpoints_configured.clone());
    report.divide_times(&configured.unwrap_or_default());
    notes.extend(missing_note(report.outcome.shards.as_ref()));
    Manifest::finished(&report, prefix, &kept)
        .write(&layout.manifest)
        .map_err(|error| failed(&layout.manifest, &error))?;
    written.push(layout.manifest.clone());
    let (rows, server_metrics) = (Rows { registry, origins }, files);
    let profiling = gathered.ledger.profiling;
    Ok(Rebuilt { report, layout, server_metrics, notes, profiling, written, rows, coverage })
}

/// Returns which directories of the shards of the run `benchmark_id` have files, of those in `directory`.
#[must_use]
pub fn shards_of(directory: &Path, count: u64, benchmark_id: Uuid) -> Vec<PathBuf> {
    let all = (0..count).filter_map(|index| Shard::checked(index, count).ok());
    let place = |shard: Shard| directory.join(shard.directory());
    let is_of = |place: &PathBuf| Origin::find(place).is_ok_and(|it| it.is_of(benchmark_id));
    all.map(place).filter(is_of).collect()
}

/// Returns what became of the conversations that others started in all shards, if each of them knows.
fn branches(ends: &[&RunOutcome]) -> Option<BranchStats> {
    ends.iter().map(|end| end.branches).sum::<Option<_>>().filter(|_| !ends.is_empty())
}

/// Returns what is known of a shard with this number of records.
fn part(source: &Source, records: u64) -> Part {
    let end = source.outcome();
    Part {
        index: source.shard.index(),
        records,
        start_wall_ns: end.map(|end| end.start_wall_ns),
        end_wall_ns: end.map(|end| end.end_wall_ns),
        is_complete: end.is_some_and(|end| end.incomplete_reason.is_none() && !end.was_cancelled),
        verdict: end.and_then(|end| end.client_health.as_ref()?.verdict),
        clock: source.run.agreement.as_ref().and_then(|agreement| agreement.clock),
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> WriteFailure {
    WriteFailure { path: path.to_owned(), error: error.to_string() }
}

/// Copies a file, replacing `to`, even if it is a link to the file itself. Each is compressed if its
/// name says so.
fn copy(from: &Path, to: &Path) -> Result<(), WriteFailure> {
    let copied = |out: &mut dyn io::Write| {
        let mut out = Output::new(out, to)?;
        io::copy(&mut open::decompressed(from)?, &mut out)?;
        out.finish().map(drop)
    };
    replace::replace(to, copied).map_err(|error| failed(to, &error))
}

/// Returns the round-trip time of the network in nanoseconds over the probes of all shards, which
/// are written to one file if there are any.
fn round_trip_ns(
    sources: &[Source],
    run: &RunDescription,
    layout: &Layout,
    notes: &mut Vec<String>,
    written: &mut Vec<PathBuf>,
) -> Result<Option<f64>, ReportError> {
    let files = sources.iter().map(|source| source.layout.network_latency_lines.as_path());
    let files: Vec<&Path> = files.filter(|path| path.exists()).collect();
    let has_any = !files.is_empty();
    let lines = has_any.then(|| LineSink::create_beside(&layout.network_latency_lines));
    let mut lines = lines.transpose()?;
    let found = network_latency::round_trip_ns(run, files, notes, |text| {
        if let Some(lines) = &mut lines {
            lines.append(Ok(text));
            lines.append(Ok(b"\n"));
        }
    });
    written.extend(lines.map(LineSink::persist).transpose()?);
    Ok(found)
}

/// Returns the load that was configured for all shards together, and the load reached according to
/// their records.
fn load(
    phase: Option<&PhaseConfig>,
    ends: &[&RunOutcome],
    spans: &Column<Span>,
    start: u64,
) -> LoadReport {
    let has = |of: &dyn Fn(&LoadReport) -> bool| ends.iter().any(|end| of(&end.load));
    let last = spans.iter().map(|span| span.start).max().unwrap_or(0);
    let seconds = last.saturating_sub(start) as f64 / 1e9;
    let rate = (spans.len().saturating_sub(1)) as f64 / seconds;
    LoadReport {
        slot_seconds: ends.iter().map(|end| end.load.slot_seconds).sum(),
        sends_held_back: ends.iter().map(|end| end.load.sends_held_back).sum(),
        requested_concurrency: phase
            .and_then(|phase| Some(phase.concurrency?.most))
            .filter(|_| has(&|load| load.requested_concurrency.is_some())),
        reached_concurrency: most_at_once(spans),
        requested_rate: phase
            .and_then(PhaseConfig::rate)
            .filter(|_| has(&|load| load.requested_rate.is_some())),
        reached_rate: Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0),
    }
}

/// Returns when each phase ran: from its first start in any shard to its last end.
fn phases(ends: &[&RunOutcome]) -> Vec<PhaseTimes> {
    let shard = |index: usize| {
        let times = || ends.iter().filter_map(|end| end.phases.get(index));
        Some(PhaseTimes {
            start_wall_ns: times().map(|times| times.start_wall_ns).min()?,
            end_wall_ns: times().map(|times| times.end_wall_ns).max()?,
        })
    };
    (0..).map_while(shard).collect()
}

fn combination(count: u64, parts: Vec<Part>) -> Combination {
    let have: BTreeSet<u64> = parts.iter().map(|part| part.index).collect();
    let starts = || parts.iter().filter_map(|part| part.start_wall_ns);
    let spread =
        starts().max().zip(starts().min()).map(|(last, first)| (last - first) as f64 / 1e6);
    let clocks = clock_spread(&parts);
    Combination {
        count,
        missing: (0..count).filter(|index| !have.contains(index)).collect(),
        start_spread_ms: spread,
        clock_spread_ms: clocks.map(|clocks| clocks.spread_ms),
        clock_spread_error_ms: clocks.map(|clocks| clocks.error_ms),
        parts,
    }
}

/// Returns the largest difference between the clocks of the shards, as far as they are known.
fn clock_spread(parts: &[Part]) -> Option<ClockSpread> {
    ClockSpread::from_clocks(parts.iter().filter_map(|part| Some((part.index, part.clock?))))
}

/// `2 of 8 shards are missing: 3, 5`
fn missing_note(combination: Option<&Combination>) -> Option<String> {
    let Combination { count, missing, .. } = combination?;
    let numbers = missing.iter().map(ToString::to_string);
    (!missing.is_empty())
        .then(|| format!("{} of {count} shards are missing: {}", missing.len(), listed(numbers)))
}

/// Returns what is missing in the combined run, if anything.
fn incomplete_reason(combination: &Combination, sources: &[Source]) -> Option<String> {
    let of_parts: Vec<String> = sources
        .iter()
        .filter_map(|source| {
            let reason = match source.outcome() {
                None => {
                    "it ended before it could write its summary; requests in flight are missing"
                }
                Some(end) => end.incomplete_reason.as_deref()?,
            };
            Some(format!("{}: {reason}", source.name()))
        })
        .collect();
    let of_parts = (!of_parts.is_empty()).then(|| listed(of_parts.into_iter()));
    let reasons: Vec<String> =
        missing_note(Some(combination)).into_iter().chain(of_parts).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Writes `inputs.json`, which is the same in all shards; a difference reveals another dataset.
fn inputs(sources: &[Source], layout: &Layout) -> Result<Option<PathBuf>, ReportError> {
    let mut have = sources.iter().filter(|source| source.layout.inputs.exists());
    let Some(first) = have.next() else { return Ok(None) };
    for other in have {
        let is_same = parts::are_equal(&first.layout.inputs, &other.layout.inputs);
        if !is_same.map_err(|error| failed(&other.layout.inputs, &error))? {
            return Err(first.differs(other, "the requests (inputs.json)"));
        }
    }
    copy(&first.layout.inputs, &layout.inputs)?;
    Ok(Some(layout.inputs.clone()))
}

/// Returns the server metrics of the shard with the most scrapes; the server's counts are compared
/// with those of all `clients`, if all are known.
fn servers(
    sources: &[Source],
    layout: &Layout,
    clients: Option<&ClientCounts>,
    gathered: &Gathered,
    files: &mut ServerMetricsFiles,
    notes: &mut Vec<String>,
    written: &mut Vec<PathBuf>,
) -> Result<Option<ServerMetrics>, ReportError> {
    let mut looked = sources.iter().filter(|source| source.files.is_some());
    let fetches = |source: &&Source| (source.fetches(), std::cmp::Reverse(source.shard));
    let Some(source) = looked.clone().max_by_key(fetches) else { return Ok(None) };
    if looked.clone().count() > 1 {
        let others = looked.by_ref().filter(|other| other.shard != source.shard);
        notes.push(format!(
            "server metrics are taken from {}; those of {} are not used",
            source.name(),
            listed(others.map(Source::name))
        ));
    }
    *files = source.files.clone().unwrap_or_default();
    let outcome = source.end.as_ref().and_then(|end| end.server_metrics.as_ref());
    let known = Known {
        layout: &source.layout,
        outcome,
        first_request_ns: gathered.spans.iter().map(|span| span.start).min(),
        // Each client's requests are among the server's.
        limits: clients.and_then(|_| ClientLimits::from_accumulator(&gathered.ledger.profiling)),
        is_needed: source.run.needs_server_metrics(),
    };
    let mut metrics = server_metrics::rebuild(&known, files, notes);
    let is_left = metrics.is_none();
    let (of, to) = (&source.layout, layout);
    for (from, to, is_rewritten) in [
        (&of.server_metrics_json, &to.server_metrics_json, files.formats.json && !is_left),
        (&of.server_metrics_csv, &to.server_metrics_csv, files.formats.csv && !is_left),
        (&of.server_metrics_table, &to.server_metrics_table, files.formats.parquet && !is_left),
        (&of.server_metrics_lines, &to.server_metrics_lines, false),
    ] {
        if from.exists() && !is_rewritten {
            copy(from, to)?;
            written.push(to.clone());
        }
    }
    if let Some(metrics) = &mut metrics {
        let last_end = gathered.spans.iter().map(|span| span.end).max().unwrap_or(0);
        let is_late =
            outcome.and_then(|outcome| outcome.last_scrape_ns).is_some_and(|at| at >= last_end);
        let counts = clients.filter(|_| is_late);
        if counts.is_none() && !metrics.conservation.is_empty() {
            notes.push(
                "the server's counts are not compared with the client's, since not all of them are \
                 known or the last scrape was before the end of the last request"
                    .to_owned(),
            );
        }
        metrics.conservation = counts.map_or_else(Vec::new, |counts| {
            metrics.conservation.iter().filter_map(|one| one.with_all(counts)).collect()
        });
    }
    Ok(metrics)
}
