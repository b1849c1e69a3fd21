//! The energy of the processors, by the kernel's power capping framework (RAPL).

use std::fs;
use std::path::Path;

/// The directory of the energy counters, each in a directory of its own.
const COUNTERS: &str = "/sys/class/powercap";

/// A counter of a processor package, in microjoules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    directory: String,
    microjoules: u64,
    /// The value after which it starts again at 0.
    range: u64,
}

/// Returns the counters of the processor packages; none if they cannot be read, as is usual for
/// programs without privileges.
#[must_use]
pub fn packages() -> Vec<Counter> {
    packages_in(Path::new(COUNTERS))
}

fn packages_in(root: &Path) -> Vec<Counter> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let counter = |entry: fs::DirEntry| {
        let read = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let number = |file: &str| read(file)?.trim().parse().ok();
        // A package contains the other domains, such as its cores.
        let is_package = read("name")?.starts_with("package");
        let directory = entry.file_name().to_string_lossy().into_owned();
        let (microjoules, range) = (number("energy_uj")?, number("max_energy_range_uj")?);
        is_package.then_some(Counter { directory, microjoules, range })
    };
    let mut counters: Vec<Counter> = entries.filter_map(counter).collect();
    counters.sort_by(|one, other| one.directory.cmp(&other.directory));
    counters
}

/// Returns the energy of all packages between two readings in joules; `None` without counters, or
/// if they are not the same ones.
#[must_use]
pub fn joules(before: &[Counter], after: &[Counter]) -> Option<f64> {
    let are_same = before.len() == after.len()
        && before.iter().zip(after).all(|(one, other)| one.directory == other.directory);
    let pairs = before.iter().zip(after).filter(|_| are_same);
    let rises = pairs.map(|(before, after)| {
        let wrapped = if after.microjoules < before.microjoules { before.range } else { 0 };
        (after.microjoules.saturating_add(wrapped).saturating_sub(before.microjoules)) as f64 / 1e6
    });
    rises.reduce(|one, other| one + other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(root: &Path, directory: &str, name: &str, microjoules: &str) {
        let place = root.join(directory);
        fs::create_dir(&place).unwrap();
        for (file, text) in
            [("name", name), ("energy_uj", microjoules), ("max_energy_range_uj", "1000000000")]
        {
            fs::write(place.join(file), format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn packages_are_added_up_and_may_start_again() {
        let [before, after] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        for (root, first, second) in
            [(&before, "5000000", "999000000"), (&after, "25000000", "4000000")]
        {
            counter(root.path(), "intel-rapl:0", "package-0", first);
            counter(root.path(), "intel-rapl:1", "package-1", second);
            counter(root.path(), "intel-rapl:0:0", "core", first);
            counter(root.path(), "intel-rapl:2", "psys", first);
        }
        let [before, after] = [&before, &after].map(|root| packages_in(root.path()));
        assert_eq!(before.len(), 2);
        // 20 J, and 1 J to the end of the range and 4 J after it.
        assert_eq!(joules(&before, &after), Some(25.0));
        assert_eq!(joules(&before, &after[..1]), None);
        assert_eq!(joules(&[], &[]), None);
        assert!(packages_in(Path::new("/nonexistent")).is_empty());
    }
}
