//! A run's claim on its directory: one run at a time, and no overwriting of another run's files.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::ArtifactError;
use super::layout::{self, Layout};
use super::{manifest, replace};

/// A requested directory.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The directory for the files.
    pub directory: &'a Path,
    /// The user's prefix for file names, if any.
    pub prefix: Option<&'a str>,
    /// Whether the files of an earlier run may be moved aside (`--overwrite`).
    pub overwrite: bool,
}

impl Wanted<'_> {
    /// Rejects a directory with files of an earlier run that must not be moved. Can be called
    /// before lengthy preparations, since it changes nothing.
    pub fn check(self) -> Result<(), ArtifactError> {
        match self.earlier().first() {
            Some(first) if !self.overwrite => Err(self.taken(first)),
            _ => Ok(()),
        }
    }

    /// Returns the files of one or several earlier runs.
    fn earlier(self) -> Vec<PathBuf> {
        let plain = Layout::new(self.directory, None);
        let before = manifest::prefix(&plain.manifest);
        let mut files = plain.all_files();
        for prefix in [self.prefix, before.as_deref()].into_iter().flatten() {
            files.extend(Layout::new(self.directory, Some(prefix)).all_files());
        }
        files.extend(layout::of_many_runs(self.directory));
        // The name of a dangling link is in use, too.
        let exists = |path: &PathBuf| fs::symlink_metadata(path).is_ok();
        files.retain(&exists);
        // Pictures do not make a directory one of a run, but belong to its run.
        if !files.is_empty() {
            files.extend(Some(self.directory.join(layout::PLOTS)).filter(&exists));
        }
        files.into_iter().collect()
    }

    fn taken(self, file: &Path) -> ArtifactError {
        let file = file.strip_prefix(self.directory).unwrap_or(file).to_owned();
        ArtifactError::Taken { path: self.directory.to_owned(), file }
    }
}

/// Directories that belong to one run, or to several runs of one command, until this value is
/// dropped.
///
/// They are locked by `flock`, which is released however the process ends, and contain no file of
/// another run.
#[derive(Debug)]
pub struct Claim {
    layout: Layout,
    /// The directory to which the files of an earlier run were moved.
    moved_to: Option<PathBuf>,
    _locks: Vec<File>,
}

impl Claim {
    /// Creates and locks the directory that `wanted` names. Files of an earlier run in it are moved
    /// to a directory beside them if that is allowed.
    ///
    /// # Errors
    ///
    /// Fails if they must not be moved, or if another run holds the directory.
    pub fn take(wanted: Wanted<'_>) -> Result<Self, ArtifactError> {
        let mut claim = Self::lock(wanted)?;
        claim.moved_to = match (wanted.earlier().as_slice(), wanted.overwrite) {
            ([], _) => None,
            ([first, ..], false) => return Err(wanted.taken(first)),
            (files, true) => Some(move_aside(wanted.directory, files)?),
        };
        claim.clear();
        Ok(claim)
    }

    /// Like [`take`](Self::take), but for a default directory: if it has the files of an earlier run,
    /// or another run is writing to it, the next one with a number is used, as in `directory-2`.
    /// Returns the directory, too.
    ///
    /// # Errors
    ///
    /// Fails if none of them can be used.
    pub fn take_next(wanted: Wanted<'_>) -> Result<(Self, PathBuf), ArtifactError> {
        let mut outcome = Err(ArtifactError::InUse { path: wanted.directory.to_owned() });
        for directory in numbered(wanted.directory).take(MAX_NUMBER) {
            outcome = Self::take(Wanted { directory: &directory, ..wanted });
            match outcome {
                Err(ArtifactError::Taken { .. } | ArtifactError::InUse { .. }) => {}
                outcome => return outcome.map(|claim| (claim, directory)),
            }
        }
        outcome.map(|claim| (claim, wanted.directory.to_owned()))
    }

    /// Makes `latest`, beside the directory, a link to it. A link that cannot be made is only logged.
    pub fn link_latest(&self) {
        let directory = &self.layout.directory;
        let Some((parent, name)) = directory.parent().zip(directory.file_name()) else { return };
        if let Err(why) = replace::link(Path::new(name), &parent.join(LATEST)) {
            tracing::debug!("cannot link {LATEST} to {}: {why}", directory.display());
        }
    }

    /// Locks the directory of runs that are continued; their files stay in place.
    ///
    /// # Errors
    ///
    /// Fails if another run holds the directory.
    pub fn again(wanted: Wanted<'_>) -> Result<Self, ArtifactError> {
        let claim = Self::lock(wanted)?;
        claim.clear();
        Ok(claim)
    }

    /// Creates and locks the directory that `wanted` names.
    fn lock(wanted: Wanted<'_>) -> Result<Self, ArtifactError> {
        let layout = Layout::new(wanted.directory, wanted.prefix);
        layout.make_directories()?;
        let directories = layout.directories();
        let locks = directories.iter().map(|path| lock(path)).collect::<Result<_, _>>()?;
        Ok(Self { layout, moved_to: None, _locks: locks })
    }

    /// Deletes the temporary files that a killed run left.
    fn clear(&self) {
        for directory in self.layout.directories() {
            replace::clear_temporary(directory);
        }
    }

    /// Returns the paths of the run's files.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the directory to which the files of an earlier run were moved, if there were any.
    #[must_use]
    pub fn moved_to(&self) -> Option<&Path> {
        self.moved_to.as_deref()
    }
}

/// Name of the link to the newest run beside it.
const LATEST: &str = "latest";

/// Maximum number of a default directory.
const MAX_NUMBER: usize = 100_000;

/// Returns `directory`, `directory-2`, `directory-3` and so on.
fn numbered(directory: &Path) -> impl Iterator<Item = PathBuf> {
    let later = |number: u64| {
        let mut name = directory.file_name().unwrap_or_default().to_owned();
        name.push(format!("-{number}"));
        directory.with_file_name(name)
    };
    std::iter::once(directory.to_owned()).chain((2..).map(later))
}

/// Returns the last of the directories `directory`, `directory-2` and so on that exist, or the first
/// if none does.
pub fn newest(directory: &Path) -> PathBuf {
    let existing = numbered(directory).take_while(|it| it.exists());
    existing.take(MAX_NUMBER).last().unwrap_or_else(|| directory.to_owned())
}

/// Locks `directory`; on a file system without locks it stays unlocked.
fn lock(directory: &Path) -> Result<File, ArtifactError> {
    let unusable = |why| ArtifactError::Directory { path: directory.to_owned(), why };
    let file = File::open(directory).map_err(unusable)?;
    match file.try_lock() {
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ArtifactError::InUse { path: directory.to_owned() }),
    }
}

/// Moves `files` to a new directory in `directory`: `previous-1`, or the next free number.
fn move_aside(directory: &Path, files: &[PathBuf]) -> Result<PathBuf, ArtifactError> {
    let place = new_directory(directory)
        .map_err(|why| ArtifactError::Directory { path: directory.to_owned(), why })?;
    for from in files {
        let name = from.strip_prefix(directory).ok();
        let name = name.or_else(|| from.file_name().map(Path::new)).unwrap_or(from);
        let to = place.join(name);
        let moved =
            fs::create_dir_all(to.parent().unwrap_or(&place)).and_then(|()| fs::rename(from, &to));
        moved.map_err(|why| ArtifactError::NotMoved { path: from.clone(), why })?;
    }
    Ok(place)
}

fn new_directory(directory: &Path) -> io::Result<PathBuf> {
    let mut number = 1_u64;
    loop {
        let place = directory.join(format!("previous-{number}"));
        match fs::create_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| place),
        }
    }
}
