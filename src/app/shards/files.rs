//! The files by which shards know of each other.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use base::platform::replace;
use base::units::{Clock, Nanos};
use results::artifacts::open;
use results::run::ClockOffset;

use super::ProcessId;

/// Name of the directory of these files in that of all shards.
const DIRECTORY: &str = ".barrier";

/// Maximum size of a file; the start names each shard.
const MAX_BYTES: u64 = 16 << 20;

/// Resolution of the times of files: a tick of the kernel, of which Linux has 100 to 1,000 a second.
const TICK_NS: u64 = 10_000_000;

/// The same of file systems that store only seconds.
const COARSE_TICK_NS: u64 = 1_000_000_000;

/// What a shard is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// It is ready and waits for the others.
    Ready,
    /// It sends its part of the load, or is about to.
    Running,
    /// It has ended, with or without results.
    Ended,
}

/// What a shard tells the others. It replaces its file again and again, with another `beat`, so that
/// they see that it is alive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The process.
    pub(super) id: ProcessId,
    /// ID of the settings that all shards share.
    pub(super) settings: Uuid,
    /// What tells this start of the job from others, if the scheduler says it.
    pub(super) attempt: Option<String>,
    /// The process of shard 0 with these settings that it knows of.
    pub(super) leader: Option<ProcessId>,
    pub(super) state: State,
    /// How often the file was written.
    pub(super) beat: u64,
    /// Time for which it has been waiting.
    pub(super) waited: Nanos,
    /// Time that it needs between the agreement and the start.
    pub(super) lead: Nanos,
    /// The clock of its host.
    pub(super) clock: Option<ClockOffset>,
}

/// The agreed start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Agreed {
    /// What tells this start of the job from others, if the scheduler says it.
    pub(super) attempt: Option<String>,
    /// The start, in nanoseconds since the epoch.
    pub(super) start_at_ns: u64,
    /// The shards that start, with their processes.
    pub(super) members: BTreeMap<u64, ProcessId>,
}

/// The directory of the files.
#[derive(Debug, Clone)]
pub(super) struct Files {
    directory: PathBuf,
}

impl Files {
    /// Creates the directory in that of all shards.
    pub(super) fn create(shared: &Path) -> io::Result<Self> {
        let directory = shared.join(DIRECTORY);
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Replaces the file of a shard, and returns how the clock of this host differs from that of the
    /// file system.
    pub(super) fn tell(&self, shard: u64, note: &Note) -> io::Result<Option<ClockOffset>> {
        let path = self.of_shard(shard);
        let before = wall_ns();
        write(&path, note)?;
        let after = wall_ns();
        let modified = fs::metadata(&path)?.modified()?.duration_since(UNIX_EPOCH);
        let modified = modified.ok().and_then(|since| u64::try_from(since.as_nanos()).ok());
        Ok(modified.map(|modified| offset(before, after, modified)))
    }

    /// Removes the file of a shard.
    pub(super) fn withdraw(&self, shard: u64) -> io::Result<()> {
        fs::remove_file(self.of_shard(shard))
    }

    /// Returns what a shard told; `None` if it has not told anything that this version understands.
    pub(super) fn heard(&self, shard: u64) -> Option<Note> {
        read(&self.of_shard(shard))
    }

    /// Tells the agreed start.
    pub(super) fn agree(&self, agreed: &Agreed) -> io::Result<()> {
        write(&self.of_start(), agreed)
    }

    /// Returns the start that was agreed last, maybe in an earlier run.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        read(&self.of_start())
    }

    fn of_shard(&self, shard: u64) -> PathBuf {
        self.directory.join(format!("shard-{shard}.json"))
    }

    fn of_start(&self) -> PathBuf {
        self.directory.join("start.json")
    }
}

fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    replace::replace_whole(path, |file| file.write_all(&bytes))
}

/// A file that cannot be read is read again at the next step, so its error is not kept.
fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let content = || {
        let mut bytes = Vec::new();
        open::regular(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let bytes = content()
        .inspect_err(|why| tracing::debug!("cannot read {}: {why}", path.display()))
        .ok()?;
    serde_json::from_slice(&bytes)
        .inspect_err(|why| tracing::debug!("cannot use {}: {why}", path.display()))
        .ok()
}

/// Returns how the clock of this host differs from that of the file system, which stamped a file with
/// `modified` between `before` and `after` by this host's clock. All are nanoseconds since the epoch.
/// The stamp is that of the last tick.
fn offset(before: u64, after: u64, modified: u64) -> ClockOffset {
    let tick = if modified.is_multiple_of(COARSE_TICK_NS) { COARSE_TICK_NS } else { TICK_NS };
    let millis = |ns: i128| ns as f64 / 1e6;
    // The true time of the stamp is between `modified` and `modified + tick`.
    let least = i128::from(before) - i128::from(modified) - i128::from(tick);
    let most = i128::from(after) - i128::from(modified);
    ClockOffset { ahead_ms: millis(least + most) / 2.0, error_ms: millis(most - least) / 2.0 }
}

/// Returns the current time in nanoseconds since the epoch.
pub(super) fn wall_ns() -> u64 {
    Clock::start().wall_ns(Clock::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_within_its_error() {
        const MS: u64 = 1_000_000;
        let base = 1_795_273_445_000 * MS;
        // A host whose clock is 300 ms ahead writes for 4 ms; the file system stamps the file after
        // 1 ms, with the start of its tick 7 ms before.
        let (stamped, ahead) = (base + 123 * MS, 300 * MS);
        let before = stamped - MS + ahead;
        let found = offset(before, before + 4 * MS, stamped - 7 * MS);
        assert_eq!(found, ClockOffset { ahead_ms: 303.0, error_ms: 7.0 });
        assert!((found.ahead_ms - 300.0).abs() <= found.error_ms);
        // Only seconds are stored: 0.9 s are lost.
        let coarse = offset(base + 900 * MS, base + 902 * MS, base);
        assert_eq!(coarse, ClockOffset { ahead_ms: 401.0, error_ms: 501.0 });
        // Behind.
        let behind = offset(base - 50 * MS, base - 50 * MS, base + 5 * MS);
        assert_eq!(behind, ClockOffset { ahead_ms: -60.0, error_ms: 5.0 });
    }

    #[test]
    fn what_is_not_a_file_counts_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::create(directory.path()).unwrap();
        // Reading it would never end.
        std::os::unix::fs::symlink("/dev/zero", files.of_shard(0)).unwrap();
        assert_eq!(files.heard(0), None);
        std::os::unix::fs::symlink("/dev/zero", files.of_start()).unwrap();
        assert_eq!(files.agreed(), None);
        let pipe = std::process::Command::new("mkfifo").arg(files.of_shard(1)).status();
        assert!(pipe.unwrap().success());
        assert_eq!(files.heard(1), None);
    }

    #[test]
    fn incomplete_files_count_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::create(directory.path()).unwrap();
        assert_eq!(files.heard(0), None);
        let agreed = Agreed { attempt: None, start_at_ns: 7, members: BTreeMap::new() };
        files.agree(&agreed).unwrap();
        assert_eq!(files.agreed(), Some(agreed));
        let text = fs::read(files.of_start()).unwrap();
        fs::write(files.of_start(), &text[..text.len() - 1]).unwrap();
        assert_eq!(files.agreed(), None);
    }
}
