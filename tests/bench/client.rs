//! Runs `aiperf profile` as a user would, on its own core.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::machine::{AIPERF, Side, Usage, on, run};

/// A finished run.
pub(crate) struct Run {
    pub(crate) usage: Usage,
    summary: Value,
}

impl Run {
    /// The mean, or the single value, of a metric.
    pub(crate) fn metric(&self, tag: &str) -> anyhow::Result<f64> {
        self.summary[tag]["avg"].as_f64().with_context(|| format!("the summary has no {tag}"))
    }

    /// The member of the summary at the JSON pointer `path`.
    pub(crate) fn member(&self, path: &str) -> Option<&Value> {
        self.summary.pointer(path)
    }

    /// Time in seconds that the process took in addition to the benchmark itself.
    pub(crate) fn overhead(&self) -> anyhow::Result<f64> {
        Ok(self.usage.wall.as_secs_f64() - self.metric("benchmark_duration")?)
    }
}

/// Profiles the server at `url`; `flags` are separated by spaces.
pub(crate) fn profile(url: &str, flags: &str) -> anyhow::Result<Run> {
    profile_on(&[Side::Client.core()], url, flags)
}

/// The same on `cores`.
pub(crate) fn profile_on(cores: &[usize], url: &str, flags: &str) -> anyhow::Result<Run> {
    let directory = tempfile::tempdir()?;
    let files = directory.path().join("run");
    let usage = run(on(cores, AIPERF)
        .args(["profile", "--model", "mock-model", "--tokenizer", "builtin", "--ui", "none"])
        .args(["--url", url, "--artifact-dir"])
        .arg(&files)
        .args(flags.split(' ')))?;
    let summary = read(&files.join("profile_export_aiperf.json"))?;
    Ok(Run { usage, summary })
}

/// Runs the self-check at the loads in `flags`.
pub(crate) fn selfcheck(flags: &str) -> anyhow::Result<Value> {
    let directory = tempfile::tempdir()?;
    let output = directory.path().join("selfcheck.json");
    // It assigns itself and its server to separate cores.
    let mut command = std::process::Command::new(AIPERF);
    run(command.arg("selfcheck").args(flags.split(' ')).arg("--output").arg(&output))?;
    read(&output)
}

fn read(path: &Path) -> anyhow::Result<Value> {
    let file = File::open(path).with_context(|| format!("no {}", path.display()))?;
    Ok(serde_json::from_reader(file)?)
}
