//! Names of the files in a run's directory.

use std::path::{Path, PathBuf};

use super::ArtifactError;

/// Endings that `--profile-export-prefix` may bear and that are no part of it.
const PREFIX_ENDINGS: [&str; 14] = [
    "_server_metrics.parquet",
    "_server_metrics.jsonl",
    "_server_metrics.json",
    "_server_metrics.csv",
    "_network_latency.jsonl",
    "_gpu_telemetry.jsonl",
    "_timeslices.csv",
    "_timeslices.json",
    "_console.txt",
    "_raw.jsonl",
    ".parquet",
    ".csv",
    ".json",
    ".jsonl",
];

/// Where each file of a run is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The run's directory.
    pub directory: PathBuf,
    /// Statistics as JSON: `profile_export_aiperf.json`.
    pub summary_json: PathBuf,
    /// Statistics as CSV: `profile_export_aiperf.csv`.
    pub summary_csv: PathBuf,
    /// Statistics of slices as JSON: `profile_export_aiperf_timeslices.json`.
    pub timeslices_json: PathBuf,
    /// Statistics of slices as CSV: `profile_export_aiperf_timeslices.csv`.
    pub timeslices_csv: PathBuf,
    /// What the console said: `profile_export_console.txt`.
    pub console: PathBuf,
    /// One line a request: `profile_export.jsonl`.
    pub records: PathBuf,
    /// Requests and responses whole: `profile_export_raw.jsonl`.
    pub raw: PathBuf,
    /// One row a request: `profile_export.parquet`.
    pub table: PathBuf,
    /// The server's statistics as JSON: `server_metrics_export.json`.
    pub server_metrics_json: PathBuf,
    /// The server's statistics as CSV: `server_metrics_export.csv`.
    pub server_metrics_csv: PathBuf,
    /// One line a scrape: `server_metrics_export.jsonl`.
    pub server_metrics_lines: PathBuf,
    /// The server's series: `server_metrics_export.parquet`.
    pub server_metrics_table: PathBuf,
    /// What was sent: `inputs.json`.
    pub inputs: PathBuf,
    /// What `aiperf report` needs beside the records: `run_manifest.json`.
    pub manifest: PathBuf,
    /// The log: `logs/aiperf.log`.
    pub log: PathBuf,
}

impl Layout {
    /// The files of a run in `directory`, named by `prefix` if there is one.
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
            raw: name("_raw.jsonl", "profile_export_raw.jsonl"),
            table: name(".parquet", "profile_export.parquet"),
            server_metrics_json: name("_server_metrics.json", "server_metrics_export.json"),
            server_metrics_csv: name("_server_metrics.csv", "server_metrics_export.csv"),
            server_metrics_lines: name("_server_metrics.jsonl", "server_metrics_export.jsonl"),
            server_metrics_table: name("_server_metrics.parquet", "server_metrics_export.parquet"),
            inputs: directory.join("inputs.json"),
            manifest: directory.join("run_manifest.json"),
            log: directory.join("logs").join("aiperf.log"),
            directory: directory.to_owned(),
        }
    }

    /// Files that are replaced as a whole.
    pub(super) fn summaries(&self) -> [&Path; 5] {
        [&self.summary_json, &self.summary_csv, &self.console, &self.inputs, &self.manifest]
    }

    /// The files of slices, which are replaced as a whole too, where there are any.
    pub(super) fn timeslices(&self) -> [&Path; 2] {
        [&self.timeslices_json, &self.timeslices_csv]
    }

    /// Makes every directory that a file is in.
    pub(super) fn make_directories(&self) -> Result<(), ArtifactError> {
        for file in [&self.summary_json, &self.inputs, &self.log] {
            let directory = file.parent().unwrap_or(&self.directory);
            std::fs::create_dir_all(directory)
                .map_err(|why| ArtifactError::Directory { path: directory.to_owned(), why })?;
        }
        Ok(())
    }
}

/// The prefix without the ending of a file name that users paste with it.
fn strip_ending(prefix: &str) -> &str {
    PREFIX_ENDINGS.iter().find_map(|ending| prefix.strip_suffix(ending)).unwrap_or(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn endings_are_no_part_of_a_prefix() {
        for given in ["foo.json", "foo.jsonl", "foo_raw.jsonl", "foo_timeslices.csv", "foo"] {
            assert_eq!(strip_ending(given), "foo", "{given}");
        }
        assert_eq!(strip_ending("v1.0"), "v1.0");
        // Only an ending: nothing is left to name files by.
        let layout = Layout::new(Path::new("run"), Some(".json"));
        assert_eq!(layout.summary_json, Path::new("run/profile_export_aiperf.json"));
    }
}
