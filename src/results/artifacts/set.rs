//! The files of a run while they are open.

use std::borrow::Cow;
use std::io;
use std::mem;
use std::path::PathBuf;

use base::units::Nanos;
use client::schedule::config::PhaseLabels;
use dataset::{self, Canary};
use measure::metrics::Registry;
use measure::metrics::fields::Row;
use measure::metrics::health::ArrivalErrors;
use measure::metrics::metric::MeasuredRecord;

use super::claim::Claim;
use super::config::{Config, ExportLevel};
use super::error::{ArtifactError, WriteFailure};
use super::gpu::GpuLines;
use super::inputs::{self, MAX_INPUT_BYTES};
use super::jsonl::RecordLines;
use super::layout::Layout;
use super::manifest::Manifest;
use super::network_latency::ProbeLines;
use super::outputs::Outputs;
use super::parquet::GrowingTable;
use super::raw::RawLines;
use super::record_file::{FLUSH_INTERVAL, RecordFile};
use super::redacted::redacted_extras;
use super::replace;
use super::server_metrics::{ScrapeLines, ServerMetricsFiles};
use super::sessions;
use super::summaries::write_summaries;
use super::whole::{pretty, remove, write_whole};
use crate::run::{RunDescription, RunReport};

/// The open files of a run.
#[derive(Debug)]
pub struct ArtifactSet {
    layout: Layout,
    prefix: Option<String>,
    server_metrics: ServerMetricsFiles,
    endpoint_type: &'static str,
    phases: PhaseLabels,
    errors: ArrivalErrors,
    of_records: Vec<Box<dyn RecordFile>>,
    /// Whether there is a file of sessions, if a session has several requests.
    has_sessions: bool,
    /// Members of request bodies that contain secrets, with their redacted values.
    redacted: Vec<(String, serde_json::Value)>,
    conversation_ids: Vec<String>,
    next_flush: Nanos,
    written: Vec<PathBuf>,
    failures: Vec<WriteFailure>,
}

impl ArtifactSet {
    /// Checks every path in the directory that `claim` holds, and opens the files that grow during
    /// the run. Records contain the metrics of `registry`.
    pub fn create(
        claim: &Claim,
        config: &Config,
        run: &RunDescription,
        registry: &Registry,
    ) -> Result<Self, ArtifactError> {
        let layout = claim.layout().clone();
        let layout = if config.compress_jsonl { layout.compressed() } else { layout };
        let is_sliced = run.setup.slice_duration.is_some();
        let slices = layout.timeslices().map(|path| (path, is_sliced));
        let statistics = config.server_metrics.statistics(&layout);
        let optional = slices.into_iter().chain(statistics).filter(|(_, is_wanted)| *is_wanted);
        for path in layout.summaries().into_iter().chain(optional.map(|(path, _)| path)) {
            replace::check(path)?;
        }
        let redacted = redacted_extras(&run.setup.extra_inputs);
        let of_records = record_files(&layout, config, run, registry, &redacted)?;
        Manifest::running(run, config.prefix.clone(), &config.server_metrics)
            .write(&layout.manifest)
            .map_err(|why| ArtifactError::NotWritable { path: layout.manifest.clone(), why })?;
        Ok(Self {
            layout,
            prefix: config.prefix.clone(),
            server_metrics: config.server_metrics.clone(),
            endpoint_type: run.endpoint.name,
            phases: PhaseLabels::from_phases(&run.setup.phases),
            errors: ArrivalErrors::default(),
            of_records,
            has_sessions: config.export_level >= ExportLevel::Records,
            redacted,
            conversation_ids: Vec::new(),
            next_flush: Nanos::ZERO,
            written: Vec::new(),
            failures: Vec::new(),
        })
    }

    /// Returns the paths of the files.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Writes `inputs.json`, the request bodies of each conversation in the order of the dataset.
    /// From now on, records name their conversations by its IDs. Returns false, and leaves no file,
    /// if it would exceed [`MAX_INPUT_BYTES`] or `is_wanted` returns false meanwhile.
    pub fn write_inputs<P: IntoIterator<Item = Vec<u8>>>(
        &mut self,
        sessions: impl IntoIterator<Item = (String, P)>,
        is_wanted: &dyn Fn() -> bool,
    ) -> bool {
        let ids = &mut self.conversation_ids;
        let redacted = &self.redacted;
        let mut is_whole = true;
        let outcome = write_whole(&self.layout.inputs, |out| {
            let goes_on = |bytes| bytes <= MAX_INPUT_BYTES && is_wanted();
            is_whole = inputs::write(out, sessions, redacted, ids, &goes_on)?;
            if is_whole { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
        if is_whole {
            self.note(outcome);
        }
        is_whole
    }

    /// Does not write `inputs.json`. From now on, records name their conversations by `ids`.
    pub fn leave_out_inputs(&mut self, ids: impl IntoIterator<Item = String>) {
        self.conversation_ids = ids.into_iter().collect();
    }

    /// Writes `canaries.jsonl`, which a later run can use as its canaries.
    pub fn write_canaries(&mut self, canaries: &[Canary]) {
        let outcome = write_whole(&self.layout.canaries, |out| {
            for canary in canaries {
                serde_json::to_writer(&mut *out, canary)?;
                out.write_all(b"\n")?;
            }
            Ok(())
        });
        self.note(outcome);
    }

    /// Appends a finished request to the files of records.
    pub fn record(&mut self, measured: &MeasuredRecord) {
        if self.of_records.is_empty() {
            return;
        }
        let row = Row {
            measured,
            conversation_id: &conversation_id(&self.conversation_ids, measured),
            endpoint_type: self.endpoint_type,
            phases: &self.phases,
            errors: self.errors.of_request(measured),
        };
        for file in &mut self.of_records {
            file.push(&row);
        }
        if self.of_records.iter().any(|file| file.is_full()) {
            self.flush();
        }
    }

    /// Returns the ID by which records name the conversation of a request.
    pub fn conversation_id<'a>(&'a self, measured: &'a MeasuredRecord) -> Cow<'a, str> {
        conversation_id(&self.conversation_ids, measured)
    }

    /// Opens the file of scrapes, if it is requested.
    pub fn open_scrapes(&mut self) -> Result<Option<ScrapeLines>, ArtifactError> {
        let path = &self.layout.server_metrics_lines;
        if self.server_metrics.formats.jsonl && !self.server_metrics.endpoints.is_empty() {
            let lines = ScrapeLines::create(path, self.server_metrics.batch_size)?;
            return Ok(Some(lines.naming(self.phases.clone())));
        }
        Ok(None)
    }

    /// Closes the file of scrapes, and removes it if there were none.
    pub fn close_scrapes(&mut self, lines: ScrapeLines) {
        let is_empty = lines.is_empty();
        match lines.finish() {
            Ok(path) if is_empty => self.failures.extend(remove(&path).err()),
            outcome => self.note(outcome),
        }
    }

    /// Returns the writer of the samples of GPUs, which is flushed every `batch_size` lines.
    pub fn gpu_lines(&self, batch_size: usize) -> GpuLines {
        GpuLines::new(&self.layout.gpu_lines, batch_size)
    }

    /// Closes the file of the samples of GPUs.
    pub fn close_gpu_lines(&mut self, lines: GpuLines) {
        if let Some(outcome) = lines.finish() {
            self.note(outcome);
        }
    }

    /// Opens the file of probes of the network.
    pub fn open_probes(&self) -> Result<ProbeLines, ArtifactError> {
        ProbeLines::create(&self.layout.network_latency_lines)
    }

    /// Closes the file of probes of the network.
    pub fn close_probes(&mut self, lines: ProbeLines) {
        self.note(lines.finish());
    }

    /// Flushes the files once per second, so that a kill does not lose more than that. Must be
    /// called often.
    pub fn tick(&mut self, now: Nanos) {
        if now >= self.next_flush {
            self.next_flush = now + FLUSH_INTERVAL;
            self.flush();
        }
    }

    /// Flushes the files in the order in which they were opened: a killed run has the lines of all
    /// rows in its table.
    fn flush(&mut self) {
        self.of_records.iter_mut().for_each(|file| file.flush());
    }

    /// Closes the files of records and writes the summaries; `console_text` is the console output.
    /// Returns the files written.
    pub fn finish(
        mut self,
        report: &RunReport,
        console_text: &str,
    ) -> Result<Vec<PathBuf>, ArtifactError> {
        for file in mem::take(&mut self.of_records) {
            self.note(file.finish(report));
        }
        if self.has_sessions {
            match sessions::write(&self.layout.sessions, report) {
                Ok(path) => self.written.extend(path),
                Err(failure) => self.failures.push(failure),
            }
        }
        for outcome in write_summaries(&self.layout, &self.server_metrics, report, console_text) {
            self.note(outcome);
        }
        // They are closed first, but listed with the other files of scraped metrics.
        let early = [&self.layout.server_metrics_lines, &self.layout.gpu_lines];
        self.written.sort_by_key(|path| early.contains(&path));
        let manifest = Manifest::finished(report, self.prefix.clone(), &self.server_metrics);
        let path = self.layout.manifest.clone();
        self.note(write_whole(&path, |out| pretty(out, &manifest)));
        if self.failures.is_empty() {
            Ok(self.written)
        } else {
            let has_records = self.written.contains(&self.layout.records);
            Err(ArtifactError::Incomplete {
                written: self.written,
                failures: self.failures,
                has_records,
            })
        }
    }

    /// Records the outcome of a file that was written separately.
    pub fn note(&mut self, outcome: Result<PathBuf, WriteFailure>) {
        match outcome {
            Ok(path) => self.written.push(path),
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// Returns the ID of the conversation of a request among `ids`, by conversation; a generated one
/// without it.
fn conversation_id<'a>(ids: &'a [String], measured: &'a MeasuredRecord) -> Cow<'a, str> {
    // One that was made while the run went on has its own.
    let conversation = measured.record.turn.conversation;
    let made = || measured.record.grown.as_ref().map(|made| Cow::from(&*made.id));
    let known = ids.get(conversation).map(Cow::from).or_else(made);
    known.unwrap_or_else(|| dataset::conversation_id(conversation).into())
}

/// Opens the files of records that `config` asks for.
fn record_files(
    layout: &Layout,
    config: &Config,
    run: &RunDescription,
    registry: &Registry,
    redacted: &[(String, serde_json::Value)],
) -> Result<Vec<Box<dyn RecordFile>>, ArtifactError> {
    let mut files: Vec<Box<dyn RecordFile>> = Vec::new();
    if config.export_level >= ExportLevel::Records {
        let lines = RecordLines::create(&layout.records, registry, config.http_trace)?;
        files.push(Box::new(lines));
    }
    if config.export_level >= ExportLevel::Raw {
        files.push(Box::new(RawLines::create(&layout.raw, redacted.to_vec())?));
    }
    if config.outputs {
        files.push(Box::new(Outputs::create(&layout.outputs, registry)?));
    }
    if config.export_level >= ExportLevel::Records {
        files.push(Box::new(GrowingTable::create(layout, registry, run)?));
    }
    Ok(files)
}
