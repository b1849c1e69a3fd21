//! The directories of a run's shards, and the check whether they belong together.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::super::lines::RecordReader;
use super::super::origin::Origin;
use super::super::{ReportError, Shard};
use crate::artifacts::error::ArtifactError;
use crate::artifacts::layout::{self, Layout};
use crate::artifacts::manifest::End;
use crate::artifacts::server_metrics::ServerMetricsFiles;
use crate::artifacts::{Claim, Wanted, open};
use crate::run::{RunDescription, RunOutcome};

/// Maximum number of items that are listed.
const MAX_NAMED: usize = 10;

/// Maximum number of characters shown of a setting that differs.
const MAX_SHOWN: usize = 100;

/// A shard's directory.
pub(super) struct Source {
    pub(super) layout: Layout,
    pub(super) prefix: Option<String>,
    version: String,
    pub(super) shard: Shard,
    pub(super) run: RunDescription,
    /// Absent if it was killed.
    pub(super) end: Option<End>,
    /// The files of server metrics, if it scraped any.
    pub(super) files: Option<ServerMetricsFiles>,
}

/// Returns the shards in `directories`, in order.
///
/// # Errors
///
/// Fails if they are not of one run.
pub(super) fn find(directories: &[PathBuf]) -> Result<Vec<Source>, ReportError> {
    let mut sources: Vec<Source> =
        directories.iter().map(|directory| Source::open(directory)).collect::<Result<_, _>>()?;
    sources.sort_by_key(|source| source.shard);
    for pair in sources.windows(2) {
        let [first, other] = pair else { continue };
        let differences = first.differences(other);
        if !differences.is_empty() {
            return Err(first.differs(other, &differences.join(", ")));
        }
        if first.shard == other.shard {
            return Err(ReportError::Twice {
                shard: first.shard,
                first: first.layout.directory.clone(),
                other: other.layout.directory.clone(),
            });
        }
    }
    Ok(sources)
}

impl Source {
    /// Returns its outcome; `None` if it was killed.
    pub(super) fn outcome(&self) -> Option<&RunOutcome> {
        self.end.as_ref().map(|end| &end.outcome)
    }

    fn open(directory: &Path) -> Result<Self, ReportError> {
        let not_a_part = || ReportError::NotAPart { directory: directory.to_owned() };
        let found = fs::metadata(directory).and_then(|found| {
            found.is_dir().then_some(()).ok_or_else(|| io::ErrorKind::NotADirectory.into())
        });
        found.map_err(|why| ReportError::NoDirectory { path: directory.to_owned(), why })?;
        let origin = Origin::find(directory)?;
        if !origin.has_manifest() {
            return Err(not_a_part());
        }
        let prefix = origin.prefix().map(ToOwned::to_owned);
        let version = origin.version().to_owned();
        let layout = Layout::new(directory, prefix.as_deref()).existing();
        let files = origin.server_metrics_files();
        let (run, end) = origin.describe(&layout)?;
        let shard = run.shard.ok_or_else(not_a_part)?;
        Ok(Self { layout, prefix, version, shard, run, end, files })
    }

    /// `shard 3`
    pub(super) fn name(&self) -> String {
        format!("shard {}", self.shard.index())
    }

    pub(super) fn records(&self) -> Result<RecordReader, ReportError> {
        RecordReader::open(&self.layout.records)
    }

    /// Returns the number of successful scrapes.
    pub(super) fn fetches(&self) -> u64 {
        let outcome = self.end.as_ref().and_then(|end| end.server_metrics.as_ref());
        let fetches = outcome.iter().flat_map(|outcome| &outcome.endpoints).map(|end| end.fetches);
        fetches.fold(0, u64::saturating_add)
    }

    pub(super) fn differs(&self, other: &Self, differences: &str) -> ReportError {
        ReportError::NotOneRun {
            first: self.layout.directory.clone(),
            other: other.layout.directory.clone(),
            differences: differences.to_owned(),
        }
    }

    /// Returns the differences that show another shard to be of another run, in the user's terms;
    /// the ID is omitted if anything else differs.
    fn differences(&self, other: &Self) -> Vec<String> {
        let (a, b) = (&self.run, &other.run);
        let (a_set, b_set) = (&a.setup, &b.setup);
        let mut all = Vec::new();
        let mut hold = |what: &str, one: Value, other: Value| {
            if one != other {
                let shown = |value: &Value| match value {
                    Value::Null => "none".to_owned(),
                    value => value.to_string(),
                };
                let [one, other] = around_the_difference(&shown(&one), &shown(&other));
                all.push(format!("{what} ({one} and {other})"));
            }
        };
        hold("the aiperf version", json!(self.version), json!(other.version));
        hold("the number of shards", json!(self.shard.count()), json!(other.shard.count()));
        hold("the models", json!(a_set.models), json!(b_set.models));
        hold("the endpoint type", json!(a.endpoint.name), json!(b.endpoint.name));
        hold("the servers", json!(a_set.urls), json!(b_set.urls));
        hold("streaming", json!(a.streaming), json!(b.streaming));
        hold("the load", json!(a_set.phases), json!(b_set.phases));
        hold("the dataset", json!(a_set.dataset), json!(b_set.dataset));
        hold("--random-seed", json!(a.random_seed), json!(b.random_seed));
        hold("the start (--start-at)", json!(a.start_at_ns), json!(b.start_at_ns));
        if a.settings.objectives != b.settings.objectives {
            hold("--goodput", json!(a.settings.objectives), json!(b.settings.objectives));
        } else if a.settings != b.settings {
            all.push("the metric thresholds".to_owned());
        }
        if all.is_empty() && a.benchmark_id != b.benchmark_id {
            all.push(format!("their benchmark IDs ({} and {})", a.benchmark_id, b.benchmark_id));
        }
        all
    }
}

/// Returns two texts; if they are long, an extract of each that begins shortly before the
/// difference.
fn around_the_difference(one: &str, other: &str) -> [String; 2] {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let skipped = same.saturating_sub(MAX_SHOWN / 2);
    [one, other].map(|text| {
        if text.chars().count() <= MAX_SHOWN {
            return text.to_owned();
        }
        let mut rest = text.chars().skip(skipped);
        let shown: String = rest.by_ref().take(MAX_SHOWN).collect();
        let mark = |is_cut: bool| if is_cut { "…" } else { "" };
        format!("{}{shown}{}", mark(skipped > 0), mark(rest.next().is_some()))
    })
}

/// Returns the layout of the combined files: in `place`, or else in `combined` in the directory
/// that contains all shards. Files of the same run there are replaced; those of another run remain,
/// or are moved aside if `overwrite` is set.
pub(super) fn place(
    sources: &[Source],
    place: Option<PathBuf>,
    overwrite: bool,
) -> Result<Layout, ReportError> {
    let directory = match place {
        Some(directory) => directory,
        None => beside(sources)?,
    };
    let prefix = sources.first().and_then(|source| source.prefix.as_deref());
    let mut layout = Layout::new(&directory, prefix);
    if sources.iter().any(|source| layout::is_compressed(&source.layout.records)) {
        layout = layout.compressed();
    }
    layout.make_directories()?;
    let real = |path: &Path| {
        fs::canonicalize(path)
            .map_err(|why| ArtifactError::Directory { path: path.to_owned(), why })
    };
    let own = real(&directory)?;
    for source in sources {
        if real(&source.layout.directory)? == own {
            return Err(ReportError::OwnPlace { directory });
        }
    }
    let is_of = |source: &Source| {
        Origin::find(&directory).is_ok_and(|origin| origin.is_of(source.run.benchmark_id))
    };
    if !sources.first().is_some_and(is_of) {
        Claim::take(Wanted { directory: &directory, prefix, overwrite })?;
    }
    Ok(layout)
}

fn beside(sources: &[Source]) -> Result<PathBuf, ReportError> {
    let parent = |source: &Source| {
        let real = fs::canonicalize(&source.layout.directory).ok()?;
        real.parent().map(ToOwned::to_owned)
    };
    let mut parents = sources.iter().map(parent);
    let first = parents.next().flatten().ok_or(ReportError::NoPlace)?;
    if !parents.all(|other| other.as_ref() == Some(&first)) {
        return Err(ReportError::NoPlace);
    }
    // Prefers the user's spelling of the path, if it is equivalent.
    let written = sources.first().and_then(|source| source.layout.directory.parent());
    let is_same = |path: &Path| fs::canonicalize(path).is_ok_and(|real| real == first);
    let parent = written.filter(|path| is_same(path)).map(ToOwned::to_owned);
    Ok(parent.unwrap_or(first).join("combined"))
}

/// Returns whether two files have the same content.
pub(super) fn are_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (open::regular(one)?, open::regular(other)?);
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (ours, theirs) = (one.fill_buf()?, other.fill_buf()?);
        let length = ours.len().min(theirs.len());
        if ours[..length] != theirs[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(ours.is_empty() && theirs.is_empty());
        }
        one.consume(length);
        other.consume(length);
    }
}

/// Formats `a, b, c`; a long list is cut, with the number of omitted items.
pub(in crate::artifacts::rebuild) fn listed(all: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = all.collect();
    let rest = all.len().saturating_sub(MAX_NAMED);
    all.truncate(MAX_NAMED);
    let named = all.join(", ");
    if rest > 0 { format!("{named} and {rest} more") } else { named }
}
