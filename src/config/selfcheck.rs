//! Where the limits that `aiperf selfcheck` found are kept.

use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use super::Environment;
use crate::metrics::health::{Machine, SelfCheck};

/// The file that `AIPERF_SELFCHECK_FILE` names, else `aiperf/selfcheck.json` in
/// the user's directory of configuration; `None` where there is no such directory.
#[must_use]
pub fn file(environment: Environment<'_>) -> Option<PathBuf> {
    if let Some(path) = environment.get("AIPERF_SELFCHECK_FILE") {
        return Some(path.into());
    }
    let home = || Some(PathBuf::from(environment.get("HOME")?).join(".config"));
    let directory = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).or_else(home)?;
    Some(directory.join("aiperf").join("selfcheck.json"))
}

/// The machine that this runs on.
#[must_use]
pub fn machine() -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.trim().to_owned())
    });
    Machine {
        cpu: model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: thread::available_parallelism().map_or(1, usize::from),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
    }
}

/// Why what is in the file says nothing of this run.
#[derive(Debug, thiserror::Error)]
pub enum SelfCheckError {
    /// It cannot be read.
    #[error(
        "the self-check {path} cannot be read: {reason}; write it again by `aiperf selfcheck --save`"
    )]
    Unreadable {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// It is of another machine or version.
    #[error(
        "the self-check {path} is of {other}, so it says nothing of this run; write it again by `aiperf selfcheck --save`"
    )]
    Other {
        /// The file.
        path: String,
        /// Of what.
        other: String,
    },
}

/// The check in `path`, if there is one and it is of `machine` and this version.
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

/// The bytes of the file at `path`: of nothing that could keep us waiting.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::other("it is no file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::health::Limits;

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
        assert!(error.contains("of aiperf 0.0.1"), "{error}");
        fs::write(&path, "{").unwrap();
        let error = read(&path, &check.machine).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        // Has no end.
        let error = read(Path::new("/dev/zero"), &check.machine).unwrap_err().to_string();
        assert!(error.contains("/dev/zero cannot be read: it is no file"), "{error}");
    }
}
