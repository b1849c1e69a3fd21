//! The file in which `aiperf selfcheck --save` keeps this machine's limits.

use std::path::{Path, PathBuf};
use std::{fs, io};

use base::input;
use measure::metrics::health::{Machine, SelfCheck};
use results::run::provenance::Host;

use super::Environment;

/// The path in `AIPERF_SELFCHECK_FILE`, or else `aiperf/selfcheck.json` in the user's
/// configuration directory; `None` if neither is known.
#[must_use]
pub fn file(environment: Environment<'_>) -> Option<PathBuf> {
    if let Some(path) = environment.get("AIPERF_SELFCHECK_FILE") {
        return Some(path.into());
    }
    let home = || Some(PathBuf::from(environment.get("HOME")?).join(".config"));
    let directory = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(directory.join("aiperf").join("selfcheck.json"))
}

/// The machine that the program runs on.
#[must_use]
pub fn machine() -> Machine {
    let Host { cpu, cores, kernel, arch, .. } = Host::this();
    Machine { cpu: cpu.unwrap_or(arch), cores, kernel }
}

/// Why a saved self-check does not apply to this run.
#[derive(Debug, thiserror::Error)]
pub enum SelfCheckError {
    /// The file cannot be read.
    #[error(
        "cannot read the self-check {path:?}: {reason}; rewrite it with `aiperf selfcheck --save`"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// The self-check is from another machine or version.
    #[error(
        "the self-check {path:?} is from {other} and does not apply to this run; rewrite it with \
         `aiperf selfcheck --save`"
    )]
    Other {
        /// The file.
        path: String,
        /// The machine or version it is from.
        other: String,
    },
}

/// Reads the self-check in the file `path`; `None` if the file does not exist.
///
/// # Errors
/// If the file cannot be read, or is from another machine or version.
pub fn read(path: &Path, machine: &Machine) -> Result<Option<SelfCheck>, SelfCheckError> {
    let shown = path.display().to_string();
    let unreadable = |reason: String| SelfCheckError::Unreadable { path: shown.clone(), reason };
    let text = match read_file(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    };
    let check: SelfCheck =
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    if check.aiperf_version != env!("CARGO_PKG_VERSION") {
        let other = format!("aiperf {}", check.aiperf_version);
        return Err(SelfCheckError::Other { path: shown, other });
    }
    if check.machine != *machine {
        let Machine { cpu, cores, kernel } = &check.machine;
        let other = format!("another machine ({cpu}, {cores} cores, kernel {kernel})");
        return Err(SelfCheckError::Other { path: shown, other });
    }
    Ok(Some(check))
}

/// Reads a regular file; anything else, such as a pipe, might block.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        input::bytes(path, input::MAX_SETTINGS_BYTES)
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use measure::metrics::health::Limits;

    use super::*;

    #[test]
    fn the_nearest_variable_wins() {
        let among = |set: &'static [(&str, &str)]| {
            let look = move |name: &str| {
                set.iter().find(|(have, _)| *have == name).map(|(_, value)| (*value).to_owned())
            };
            file(Environment::new(&look)).map(|path| path.display().to_string())
        };
        assert_eq!(among(&[]), None);
        assert_eq!(among(&[("HOME", "/h")]).unwrap(), "/h/.config/aiperf/selfcheck.json");
        assert_eq!(
            among(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/x")]).unwrap(),
            "/x/aiperf/selfcheck.json"
        );
        assert_eq!(among(&[("HOME", "/h"), ("AIPERF_SELFCHECK_FILE", "f")]).unwrap(), "f");
    }

    #[test]
    fn only_a_check_of_this_machine_and_version_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("selfcheck.json");
        let check = SelfCheck {
            aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            date: "2026-01-02T03:04:05+00:00".to_owned(),
            machine: Machine { cpu: "a".to_owned(), cores: 2, kernel: "6".to_owned() },
            bound_ms: 1.0,
            limits: Limits { concurrency: Some(500), request_rate: None },
        };
        assert!(read(&path, &check.machine).unwrap().is_none());
        fs::write(&path, serde_json::to_vec(&check).unwrap()).unwrap();
        assert_eq!(read(&path, &check.machine).unwrap(), Some(check.clone()));
        let other = Machine { cores: 4, ..check.machine.clone() };
        let error = read(&path, &other).unwrap_err().to_string();
        assert!(error.contains("another machine (a, 2 cores, kernel 6)"), "{error}");
        let old = SelfCheck { aiperf_version: "0.0.1".to_owned(), ..check.clone() };
        fs::write(&path, serde_json::to_vec(&old).unwrap()).unwrap();
        let error = read(&path, &check.machine).unwrap_err().to_string();
        assert!(error.contains("from aiperf 0.0.1"), "{error}");
        fs::write(&path, "{").unwrap();
        let error = read(&path, &check.machine).unwrap_err().to_string();
        assert!(error.contains("cannot read"), "{error}");
        // Never ends.
        let error = read(Path::new("/dev/zero"), &check.machine).unwrap_err().to_string();
        assert!(error.contains("\"/dev/zero\": not a regular file"), "{error}");
    }
}
