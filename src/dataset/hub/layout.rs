//! Which of a repository's files have the rows of a subset and split.

use base::setting::InvalidSetting;

/// The splits to look for if none is given.
const SPLITS: &[&str] = &["train", "validation", "test", "dev"];

/// The endings of data files; the first that a repository has is used.
const ENDINGS: [&[&str]; 3] = [&[".parquet"], &[".jsonl", ".ndjson"], &[".json"]];

/// Selects among the files that the hub made: `subset/split/0000.parquet`, or
/// `subset/partial-split/0000.parquet` if it converted only a part.
pub(super) fn converted(
    files: &[String],
    subset: Option<&str>,
    split: Option<&str>,
) -> Result<Vec<String>, InvalidSetting> {
    let parts = |file: &'_ String| -> Option<(String, String)> {
        let mut parts = file.strip_suffix(".parquet")?.split('/');
        let (subset, split) = (parts.next()?, parts.next()?);
        parts.next()?;
        let split = split.strip_prefix("partial-").unwrap_or(split);
        Some((subset.to_owned(), split.to_owned()))
    };
    let found: Vec<(String, String)> = files.iter().filter_map(parts).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let subsets = found.iter().map(|(subset, _)| &**subset).collect();
    let subset = chosen("--hf-subset", "subset", subset, subsets, &["default"])?;
    let of_subset = found.iter().filter(|(name, _)| *name == subset);
    let splits = of_subset.map(|(_, split)| &**split).collect();
    let split = chosen("--hf-split", "split", split, splits, SPLITS)?;
    let is_wanted = |file: &&String| parts(file).is_some_and(|(a, b)| a == subset && b == split);
    Ok(files.iter().filter(is_wanted).cloned().collect())
}

/// Returns the wanted name, which must be one of `names`; if none is wanted, the only one or the
/// first of the `usual` ones.
fn chosen(
    flag: &str,
    what: &str,
    wanted: Option<&str>,
    mut names: Vec<&str>,
    usual: &[&str],
) -> Result<String, InvalidSetting> {
    names.dedup();
    let found = match (wanted, &*names) {
        (Some(wanted), names) => names.iter().find(|name| **name == wanted),
        (None, [only]) => Some(only),
        (None, names) => usual.iter().find(|name| names.contains(name)),
    };
    found.map(|name| (*name).to_owned()).ok_or_else(|| {
        let problem = match wanted {
            Some(wanted) => format!("the dataset does not have a {what} {wanted:?}"),
            None => format!("the dataset has several {what}s"),
        };
        InvalidSetting::new(flag, format!("{problem}; choose one of {}", names.join(", ")))
    })
}

/// Selects among a repository's own files by the names in their paths.
pub(super) fn own(
    files: &[String],
    subset: Option<&str>,
    split: Option<&str>,
) -> Result<Vec<String>, InvalidSetting> {
    let is_data = |file: &str, endings: &[&str]| {
        let is_hidden = file.split('/').any(|part| part.starts_with('.'));
        // The description of a dataset is beside its files.
        let is_description = file.ends_with("dataset_infos.json");
        !is_hidden && !is_description && endings.iter().any(|ending| file.ends_with(ending))
    };
    let with = |endings: &&[&str]| -> Vec<&String> {
        files.iter().filter(|file| is_data(file, endings)).collect()
    };
    let mut data = ENDINGS.iter().map(with).find(|data| !data.is_empty()).unwrap_or_default();
    if data.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(subset) = subset {
        data = named("--hf-subset", &data, subset)?;
    }
    if let Some(split) = split {
        data = named("--hf-split", &data, split)?;
    } else if let Some(found) = SPLITS.iter().find_map(|split| named("", &data, split).ok()) {
        data = found;
    }
    Ok(data.into_iter().cloned().collect())
}

/// Returns the files that have `name` in their path, between dashes, dots and the like.
fn named<'a>(
    flag: &str,
    files: &[&'a String],
    name: &str,
) -> Result<Vec<&'a String>, InvalidSetting> {
    let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let has = |file: &&&String| {
        file.match_indices(name).any(|(at, _)| {
            let (before, after) = (&file[..at], &file[at + name.len()..]);
            ends(before.chars().next_back()) && ends(after.chars().next())
        })
    };
    let found: Vec<&String> = files.iter().filter(has).copied().collect();
    if found.is_empty() {
        let shown: Vec<&str> = files.iter().take(10).map(|file| file.as_str()).collect();
        let why = format!("no file is named after {name:?}; the files are {}", shown.join(", "));
        return Err(InvalidSetting::new(flag, why));
    }
    Ok(found)
}
