//! The file names in a run's directory.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use measure::multi_run::{AGGREGATE, Member, SWEEP_AGGREGATE};

use super::error::ArtifactError;
use super::sweep::Plan;

/// Suffixes that `--profile-export-prefix` may have but that are not part of the prefix.
const PREFIX_ENDINGS: &[&str] = &[
    ".parquet.parts",
    "_server_metrics.parquet",
    "_server_metrics.jsonl",
    "_server_metrics.json",
    "_server_metrics.csv",
    "_network_latency.jsonl",
    "_sessions.jsonl",
    "_gpu_telemetry.jsonl",
    "_gpu_telemetry.parquet",
    "_timeslices.csv",
    "_timeslices.json",
    "_console.txt",
    "_raw.jsonl",
    "_report.html",
    ".html",
    ".parquet",
    ".csv",
    ".json",
    ".jsonl",
];

/// Extension of a compressed file, after its own.
const COMPRESSED: &str = "zst";

/// Maximum number of letters of an extension.
const MAX_EXTENSION: usize = 8;

/// The paths of a run's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The run's directory.
    pub directory: PathBuf,
    /// Statistics as JSON: `profile_export_aiperf.json`.
    pub summary_json: PathBuf,
    /// Statistics as CSV: `profile_export_aiperf.csv`.
    pub(crate) summary_csv: PathBuf,
    /// Statistics of slices as JSON: `profile_export_aiperf_timeslices.json`.
    pub(crate) timeslices_json: PathBuf,
    /// Statistics of slices as CSV: `profile_export_aiperf_timeslices.csv`.
    pub(crate) timeslices_csv: PathBuf,
    /// The console output: `profile_export_console.txt`.
    pub console: PathBuf,
    /// One line per request: `profile_export.jsonl`.
    pub records: PathBuf,
    /// One line per session: `profile_export_sessions.jsonl`.
    pub sessions: PathBuf,
    /// Complete requests and responses: `profile_export_raw.jsonl`.
    pub raw: PathBuf,
    /// One row per request: `profile_export.parquet`.
    pub table: PathBuf,
    /// The directory of the rows that are already written, until the table is complete:
    /// `profile_export.parquet.parts`.
    pub parts: PathBuf,
    /// Statistics of server metrics as JSON: `server_metrics_export.json`.
    pub(crate) server_metrics_json: PathBuf,
    /// Statistics of server metrics as CSV: `server_metrics_export.csv`.
    pub(crate) server_metrics_csv: PathBuf,
    /// One line per scrape: `server_metrics_export.jsonl`.
    pub server_metrics_lines: PathBuf,
    /// Series of server metrics: `server_metrics_export.parquet`.
    pub(crate) server_metrics_table: PathBuf,
    /// One line per GPU and scrape: `gpu_telemetry_export.jsonl`.
    pub gpu_lines: PathBuf,
    /// One row per GPU and scrape: `gpu_telemetry_export.parquet`.
    pub(crate) gpu_table: PathBuf,
    /// One line per probe of the network: `profile_export_network_latency.jsonl`.
    pub(crate) network_latency_lines: PathBuf,
    /// The page (`--html`): `report.html`.
    pub page: PathBuf,
    /// The request bodies: `inputs.json`.
    pub inputs: PathBuf,
    /// The canaries and their known answers: `canaries.jsonl`.
    pub canaries: PathBuf,
    /// The generated texts (`--export-outputs-json`): `outputs.json`.
    pub outputs: PathBuf,
    /// What was sent to MLflow: `mlflow_export.json`.
    pub mlflow: PathBuf,
    /// The data that `aiperf report` needs in addition to the records: `run_manifest.json`.
    pub manifest: PathBuf,
    /// Where the files of adaptive loads are: `adaptive_scale_manifest.json`.
    pub(crate) adaptive_manifest: PathBuf,
    /// The directory of files of phases: `phases`.
    pub phases: PathBuf,
    /// The log: `logs/aiperf.log`.
    pub log: PathBuf,
}

impl Layout {
    /// Returns the paths of a run in `directory`, with `prefix` in the names if there is one.
    #[must_use]
    pub fn new(directory: &Path, prefix: Option<&str>) -> Self {
        let name = |with_prefix: &str, default: &str| match prefix.map(strip_ending) {
            Some(prefix) if !prefix.is_empty() => directory.join(format!("{prefix}{with_prefix}")),
            _ => directory.join(default),
        };
        Self {
            summary_json: name(".json", "profile_export_aiperf.json"),
            summary_csv: name(".csv", "profile_export_aiperf.csv"),
            timeslices_json: name("_timeslices.json", "profile_export_aiperf_timeslices.json"),
            timeslices_csv: name("_timeslices.csv", "profile_export_aiperf_timeslices.csv"),
            console: name("_console.txt", "profile_export_console.txt"),
            records: name(".jsonl", "profile_export.jsonl"),
            sessions: name("_sessions.jsonl", "profile_export_sessions.jsonl"),
            raw: name("_raw.jsonl", "profile_export_raw.jsonl"),
            table: name(".parquet", "profile_export.parquet"),
            parts: name(".parquet.parts", "profile_export.parquet.parts"),
            server_metrics_json: name("_server_metrics.json", "server_metrics_export.json"),
            server_metrics_csv: name("_server_metrics.csv", "server_metrics_export.csv"),
            server_metrics_lines: name("_server_metrics.jsonl", "server_metrics_export.jsonl"),
            server_metrics_table: name("_server_metrics.parquet", "server_metrics_export.parquet"),
            gpu_lines: name("_gpu_telemetry.jsonl", "gpu_telemetry_export.jsonl"),
            gpu_table: name("_gpu_telemetry.parquet", "gpu_telemetry_export.parquet"),
            network_latency_lines: name(
                "_network_latency.jsonl",
                "profile_export_network_latency.jsonl",
            ),
            page: name("_report.html", PAGE),
            inputs: directory.join("inputs.json"),
            canaries: directory.join("canaries.jsonl"),
            outputs: directory.join("outputs.json"),
            mlflow: directory.join("mlflow_export.json"),
            manifest: directory.join("run_manifest.json"),
            adaptive_manifest: directory.join("adaptive_scale_manifest.json"),
            phases: directory.join("phases"),
            log: directory.join("logs").join("aiperf.log"),
            directory: directory.to_owned(),
        }
    }

    /// Returns the files that are replaced as a whole.
    pub(super) fn summaries(&self) -> [&Path; 5] {
        [&self.summary_json, &self.summary_csv, &self.console, &self.inputs, &self.manifest]
    }

    /// Returns the files of slices, which are also replaced as a whole, if there are any.
    pub(super) fn timeslices(&self) -> [&Path; 2] {
        [&self.timeslices_json, &self.timeslices_csv]
    }

    /// Returns the paths of a run whose files of lines are compressed.
    pub(super) fn compressed(mut self) -> Self {
        for path in self.lines() {
            *path = compressed(path);
        }
        self
    }

    /// Returns the paths of an existing run, whose files of lines may be compressed.
    pub(super) fn existing(mut self) -> Self {
        for path in self.lines() {
            let compressed = compressed(path);
            if !path.exists() && compressed.exists() {
                *path = compressed;
            }
        }
        self
    }

    /// Returns the files of lines.
    fn lines(&mut self) -> [&mut PathBuf; 6] {
        let Self { records, sessions, raw, server_metrics_lines, gpu_lines, .. } = self;
        let probes = &mut self.network_latency_lines;
        [records, sessions, raw, server_metrics_lines, gpu_lines, probes]
    }

    /// Returns every file that a run may have, compressed or not.
    #[must_use]
    pub fn all_files(self) -> BTreeSet<PathBuf> {
        let mut files: BTreeSet<PathBuf> = self.files().map(Path::to_owned).collect();
        files.extend(self.compressed().files().map(Path::to_owned));
        files
    }

    /// Iterates over every file that a run may have, and the directories of parts and of phases.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let lines = [
            &self.records,
            &self.sessions,
            &self.raw,
            &self.table,
            &self.parts,
            &self.log,
            &self.page,
        ];
        let server_metrics = [
            &self.server_metrics_json,
            &self.server_metrics_csv,
            &self.server_metrics_lines,
            &self.server_metrics_table,
            &self.gpu_lines,
            &self.gpu_table,
            &self.network_latency_lines,
            &self.canaries,
            &self.outputs,
            &self.mlflow,
            &self.adaptive_manifest,
            &self.phases,
        ];
        let grown = lines.into_iter().chain(server_metrics).map(PathBuf::as_path);
        self.summaries().into_iter().chain(self.timeslices()).chain(grown)
    }

    /// Returns each directory of a file once.
    pub(super) fn directories(&self) -> BTreeSet<&Path> {
        let files = [&self.summary_json, &self.inputs, &self.log];
        files.into_iter().map(|file| file.parent().unwrap_or(&self.directory)).collect()
    }

    /// Creates the directories of all files.
    pub(super) fn make_directories(&self) -> Result<(), ArtifactError> {
        for directory in self.directories() {
            fs::create_dir_all(directory)
                .map_err(|why| ArtifactError::Directory { path: directory.to_owned(), why })?;
        }
        Ok(())
    }
}

/// File of the cells of a sweep, in the directory of its runs.
pub(super) const SWEEP_PLAN: &str = "sweep_plan.json";

/// File of the loads that a search has tried, in the directory of its runs.
pub(super) const SEARCH_HISTORY: &str = "search_history.json";

/// The page of a run without a prefix, and of several runs.
pub(super) const PAGE: &str = "report.html";
/// The directory of the pictures of runs (`aiperf plot`).
pub const PLOTS: &str = "plots";

/// Iterates over what a command with several runs leaves in its directory.
pub(super) fn of_many_runs(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let fixed = [AGGREGATE, SWEEP_AGGREGATE, SWEEP_PLAN, SEARCH_HISTORY, PAGE, Member::PLACES]
        .map(|name| directory.join(name));
    fixed.into_iter().chain(Plan::directories(directory))
}

/// Returns whether the file at `path` is compressed.
pub(super) fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == COMPRESSED)
}

/// Returns the name of the file at `path` if it is compressed.
fn compressed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(COMPRESSED);
    name.into()
}

/// Removes the suffix of a pasted file name from the prefix: that of one of the run's own files, or
/// else any extension of letters. `qwen3-0.6B` and `run.v2` have none.
fn strip_ending(prefix: &str) -> &str {
    let prefix = prefix.strip_suffix(".zst").unwrap_or(prefix);
    let own = PREFIX_ENDINGS.iter().find_map(|ending| prefix.strip_suffix(ending));
    let is_extension = |end: &str| {
        (1..=MAX_EXTENSION).contains(&end.len())
            && end.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let any = || {
        let parts = prefix.rsplit_once('.');
        parts.filter(|(stem, end)| !stem.is_empty() && is_extension(end))
    };
    own.or_else(|| any().map(|(stem, _)| stem)).unwrap_or(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_listed() {
        let layout = Layout::new(Path::new("run"), None);
        // The paths in its debug output, without the directory itself.
        let shown = format!("{layout:?}");
        let named = shown.matches("\"run/").count();
        assert_eq!(layout.files().collect::<BTreeSet<_>>().len(), named);
        assert_eq!(layout.directories(), BTreeSet::from(["run", "run/logs"].map(Path::new)));
    }

    #[test]
    fn default_names() {
        let layout = Layout::new(Path::new("run"), None);
        assert_eq!(layout.summary_json, Path::new("run/profile_export_aiperf.json"));
        assert_eq!(layout.summary_csv, Path::new("run/profile_export_aiperf.csv"));
        assert_eq!(layout.records, Path::new("run/profile_export.jsonl"));
        assert_eq!(layout.raw, Path::new("run/profile_export_raw.jsonl"));
        assert_eq!(layout.console, Path::new("run/profile_export_console.txt"));
        let [json, csv] = layout.timeslices();
        assert_eq!(json, Path::new("run/profile_export_aiperf_timeslices.json"));
        assert_eq!(csv, Path::new("run/profile_export_aiperf_timeslices.csv"));
        assert_eq!(layout.inputs, Path::new("run/inputs.json"));
        assert_eq!(layout.log, Path::new("run/logs/aiperf.log"));
    }

    #[test]
    fn any_extension_is_taken_off_a_prefix() {
        for (prefix, stem) in [
            ("foo.txt", "foo"),
            ("foo.json", "foo"),
            ("foo_raw.jsonl", "foo"),
            ("a.b.yaml", "a.b"),
            ("foo_raw.jsonl.zst", "foo"),
            // None of these ends in an extension.
            ("qwen3-0.6B", "qwen3-0.6B"),
            ("run.v2", "run.v2"),
            ("run.", "run."),
            (".hidden", ".hidden"),
            ("dir.name/foo", "dir.name/foo"),
        ] {
            assert_eq!(strip_ending(prefix), stem, "{prefix}");
        }
    }

    #[test]
    fn a_prefix_names_all_but_the_fixed_files() {
        let layout = Layout::new(Path::new("run"), Some("foo"));
        assert_eq!(layout.summary_json, Path::new("run/foo.json"));
        assert_eq!(layout.summary_csv, Path::new("run/foo.csv"));
        assert_eq!(layout.records, Path::new("run/foo.jsonl"));
        assert_eq!(layout.raw, Path::new("run/foo_raw.jsonl"));
        assert_eq!(layout.console, Path::new("run/foo_console.txt"));
        let [json, csv] = layout.timeslices();
        assert_eq!(json, Path::new("run/foo_timeslices.json"));
        assert_eq!(csv, Path::new("run/foo_timeslices.csv"));
        assert_eq!(layout.inputs, Path::new("run/inputs.json"));
    }

    #[test]
    fn endings_are_not_part_of_a_prefix() {
        for given in ["foo.json", "foo.jsonl", "foo_raw.jsonl", "foo_timeslices.csv", "foo"] {
            assert_eq!(strip_ending(given), "foo", "{given}");
        }
        assert_eq!(strip_ending("v1.0"), "v1.0");
        // The names of all files that a prefix is part of.
        for file in Layout::new(Path::new("run"), Some("foo")).all_files() {
            let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("foo") {
                assert_eq!(strip_ending(name), "foo", "{name}");
            }
        }
        // Only a suffix: no prefix is left.
        let layout = Layout::new(Path::new("run"), Some(".json"));
        assert_eq!(layout.summary_json, Path::new("run/profile_export_aiperf.json"));
    }
}
