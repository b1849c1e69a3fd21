//! What `aiperf selfcheck` found on this machine, as it travels with results.

<<<<<<< ours
=======
use std::fs;
use std::io;
use std::path::Path;
use std::thread;

>>>>>>> theirs
use serde::{Deserialize, Serialize};

/// How much of this machine's load can be measured, and how well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SelfCheck {
    /// Version of aiperf that was checked.
    pub aiperf_version: String,
    /// When, in the machine's own time zone.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// What the 99th percentile of every error had to stay within, in milliseconds.
    pub bound_ms: f64,
    /// The loads up to which it did.
    pub limits: Limits,
}

/// The highest loads at which every error stayed within the bound; absent where
/// even the lowest failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Concurrent streams.
    pub concurrency: Option<u64>,
    /// Requests a second.
    pub request_rate: Option<f64>,
}

/// What decides how fast a machine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor, where the system tells it.
    pub cpu: String,
    /// Cores that the program may use.
    pub cores: usize,
    /// Release of the kernel.
    pub kernel: String,
}

impl SelfCheck {
<<<<<<< ours
=======
    /// The check in `path`, if there is one and it is of `machine` and this version.
    pub fn read(path: &Path, machine: &Machine) -> Result<Option<Self>, SelfCheckError> {
        let shown = path.display().to_string();
        let unreadable =
            |reason: String| SelfCheckError::Unreadable { path: shown.clone(), reason };
        let text = match read_file(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let check: Self =
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

>>>>>>> theirs
    /// What to tell of a run that asks for more than was found to be measured well.
    #[must_use]
    pub fn excess(&self, concurrency: Option<u64>, rate: Option<f64>) -> Vec<String> {
        let bound = self.bound_ms;
        let advice = "see client_health, or spread the load over several machines";
        let streams = concurrency
            .filter(|asked| self.limits.concurrency.is_none_or(|limit| *asked > limit))
            .map(|asked| {
                let limit = self.limits.concurrency.unwrap_or(0);
                format!(
                    "--concurrency {asked} is more than the {limit} streams for which the \
                     self-check found errors within {bound} ms; {advice}"
                )
            });
        let rate = rate
            .filter(|asked| self.limits.request_rate.is_none_or(|limit| *asked > limit))
            .map(|asked| {
                let limit = self.limits.request_rate.unwrap_or(0.0);
                format!(
                    "--request-rate {asked} is more than the {limit} a second for which the \
                     self-check found errors within {bound} ms; {advice}"
                )
            });
        streams.into_iter().chain(rate).collect()
    }
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

    fn check() -> SelfCheck {
        SelfCheck {
            aiperf_version: env!("CARGO_PKG_VERSION").to_owned(),
            date: "2026-01-02T03:04:05+00:00".to_owned(),
            machine: Machine { cpu: "a".to_owned(), cores: 2, kernel: "6".to_owned() },
            bound_ms: 1.0,
            limits: Limits { concurrency: Some(500), request_rate: None },
        }
    }

    #[test]
<<<<<<< ours
=======
    fn only_a_check_of_this_machine_and_version_counts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("selfcheck.json");
        let check = check();
        assert!(SelfCheck::read(&path, &check.machine).unwrap().is_none());
        fs::write(&path, serde_json::to_vec(&check).unwrap()).unwrap();
        assert_eq!(SelfCheck::read(&path, &check.machine).unwrap(), Some(check.clone()));
        let other = Machine { cores: 4, ..check.machine.clone() };
        let error = SelfCheck::read(&path, &other).unwrap_err().to_string();
        assert!(error.contains("another machine (a, 2 cores, kernel 6)"), "{error}");
        let old = SelfCheck { aiperf_version: "0.0.1".to_owned(), ..check.clone() };
        fs::write(&path, serde_json::to_vec(&old).unwrap()).unwrap();
        let error = SelfCheck::read(&path, &check.machine).unwrap_err().to_string();
        assert!(error.contains("of aiperf 0.0.1"), "{error}");
        fs::write(&path, "{").unwrap();
        let error = SelfCheck::read(&path, &check.machine).unwrap_err().to_string();
        assert!(error.contains("cannot be read"), "{error}");
        // Has no end.
        let zeros = Path::new("/dev/zero");
        let error = SelfCheck::read(zeros, &check.machine).unwrap_err().to_string();
        assert!(error.contains("/dev/zero cannot be read: it is no file"), "{error}");
    }

    #[test]
>>>>>>> theirs
    fn more_than_was_found_is_told() {
        assert!(check().excess(Some(500), None).is_empty());
        assert!(check().excess(None, None).is_empty());
        let told = check().excess(Some(501), Some(1.0));
        assert!(told[0].contains("--concurrency 501") && told[0].contains("500 streams"));
        // No rate was found to hold: every rate is more.
        assert!(told[1].contains("--request-rate 1 "), "{told:?}");
    }
}
