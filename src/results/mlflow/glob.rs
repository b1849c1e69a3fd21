//! Patterns of files: `*` and `?` within a name, and `**` for any directories.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The usual patterns: those of AIPerf.
pub(super) const USUAL: [&str; 10] = [
    "*.json",
    "*.csv",
    "*.jsonl",
    "*.parquet",
    "*_timeslices.*",
    "**/*.png",
    "**/*.jpg",
    "**/*.jpeg",
    "**/*.svg",
    "**/*.html",
];

/// Maximum depth of directories.
const MAX_DEPTH: usize = 8;

/// Returns the files in `directory` that match one of `globs`, sorted, without the file at
/// `except`; their names have `/` between directories.
pub(super) fn files(directory: &Path, globs: &[&str], except: &Path) -> Vec<String> {
    let mut found = BTreeSet::new();
    collect(directory, "", MAX_DEPTH, &mut found);
    let is_wanted = |name: &String| {
        directory.join(name) != except && globs.iter().any(|glob| matches(glob, name))
    };
    found.into_iter().filter(is_wanted).collect()
}

fn collect(directory: &Path, prefix: &str, depth: usize, found: &mut BTreeSet<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (Ok(about), Some(name)) =
            (entry.metadata(), entry.file_name().to_str().map(|name| format!("{prefix}{name}")))
        else {
            continue;
        };
        if about.is_dir() && depth > 0 {
            collect(&entry.path(), &format!("{name}/"), depth - 1, found);
        } else if about.is_file() {
            found.insert(name);
        }
    }
}

/// Returns whether the pattern `glob` matches the whole of `name`.
fn matches(glob: &str, name: &str) -> bool {
    let (globs, names): (Vec<_>, Vec<_>) = (glob.split('/').collect(), name.split('/').collect());
    within(&globs, &names, &|glob| *glob == "**", &|glob, name| {
        let (glob, name): (Vec<_>, Vec<_>) = (glob.chars().collect(), name.chars().collect());
        within(&glob, &name, &|c| *c == '*', &|c, d| *c == '?' || c == d)
    })
}

/// Returns whether a pattern matches a sequence, of which a wildcard matches any part.
fn within<T>(
    pattern: &[T],
    sequence: &[T],
    is_any: &dyn Fn(&T) -> bool,
    is_one: &dyn Fn(&T, &T) -> bool,
) -> bool {
    // By the end of the sequence: whether the pattern so far matches up to there.
    let mut reached = vec![false; sequence.len() + 1];
    reached[0] = true;
    for part in pattern {
        let mut next = vec![false; sequence.len() + 1];
        for (at, is_reached) in reached.iter().enumerate() {
            if is_any(part) {
                next[at] = *is_reached || (at > 0 && next[at - 1]);
            } else if *is_reached && sequence.get(at).is_some_and(|item| is_one(part, item)) {
                next[at + 1] = true;
            }
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (glob, name) in [
            ("*.json", "a.json"),
            ("*.json", ".json"),
            ("**/*.png", "a.png"),
            ("**/*.png", "plots/deep/a.png"),
            ("a?c*", "abcd"),
            ("logs/**", "logs/a/b"),
            ("*_timeslices.*", "profile_export_aiperf_timeslices.csv"),
        ] {
            assert!(matches(glob, name), "{glob} {name}");
        }
        for (glob, name) in [
            ("*.json", "a.jsonl"),
            ("*.json", "logs/a.json"),
            ("*/a", "a"),
            ("?", ""),
            ("**/*.png", "a.png/b"),
            ("", "a"),
        ] {
            assert!(!matches(glob, name), "{glob} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_name_matches_itself_and_wildcards_for_any_part(
            name in "[a-z./]{1,12}", from in 0_usize..12, to in 0_usize..12,
        ) {
            prop_assert!(matches(&name, &name) && matches("**", &name));
            let (from, to) = (from.min(to).min(name.len()), from.max(to).min(name.len()));
            let is_name = !name[from..to].contains('/');
            let glob = format!("{}*{}", &name[..from], &name[to..]);
            // Two stars next to each other are another wildcard.
            prop_assert!(!is_name || glob.contains("**") || matches(&glob, &name));
        }
    }
}
