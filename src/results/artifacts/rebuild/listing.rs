//! The runs whose files are below a directory, each with its most important results.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use measure::metrics::health::{LoadVerdict, Verdict};

use super::group::Group;
use super::origin::{Origin, read_json};
use crate::artifacts::layout::{Layout, PAGE};
use crate::run::listed::{Headline, Level, Listed, State};

/// How deep runs may be below the directory.
const DEPTH: usize = 3;
/// Maximum number of directories that are looked at.
const MAX_DIRECTORIES: usize = 20_000;

/// The part of a summary that is listed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Summary {
    benchmark_id: String,
    request_throughput: Statistics,
    output_token_throughput: Statistics,
    time_to_first_token: Statistics,
    inter_token_latency: Statistics,
    request_latency: Statistics,
    request_error_rate: Statistics,
    client_health: Option<WithVerdict<Verdict>>,
    load_health: Option<WithVerdict<LoadVerdict>>,
    output_health: Option<WithVerdict<Verdict>>,
    gates: Vec<Held>,
    is_complete: Option<bool>,
    was_cancelled: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Statistics {
    avg: Option<f64>,
    p99: Option<f64>,
    count: Option<u64>,
}

#[derive(Deserialize)]
struct WithVerdict<T> {
    verdict: Option<T>,
}

#[derive(Deserialize)]
struct Held {
    held: bool,
}

/// Returns the runs below `directory`, the newest first, and whether there are too many directories to
/// look at all.
pub fn list(directory: &Path) -> (Vec<Listed>, bool) {
    let mut budget = MAX_DIRECTORIES;
    let mut found = Vec::new();
    walk(directory, Path::new(""), DEPTH, &mut budget, &mut found);
    found.sort_by(|a, b| {
        b.start_wall_ns.cmp(&a.start_wall_ns).then_with(|| a.directory.cmp(&b.directory))
    });
    (found, budget == 0)
}

/// Adds the runs in `place`, which is below `root`, to `found`.
fn walk(root: &Path, place: &Path, depth: usize, budget: &mut usize, found: &mut Vec<Listed>) {
    if *budget == 0 {
        return;
    }
    *budget -= 1;
    let directory = root.join(place);
    if let Some(listed) = group(&directory, place).or_else(|| run(&directory, place)) {
        found.push(listed);
        return;
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        // Links could lead back here.
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        if is_directory && !name.as_encoded_bytes().starts_with(b".") {
            walk(root, &place.join(name), depth, budget, found);
        }
    }
}

/// Returns the group in `directory`, if it is that of several runs.
fn group(directory: &Path, place: &Path) -> Option<Listed> {
    let group = Group::find(directory).ok()??;
    let parameters = group.config.sweep.iter().flat_map(|sweep| &sweep.parameters);
    let parameters: Vec<&str> = parameters.map(|parameter| &*parameter.name).collect();
    let runs =
        group.runs.iter().filter_map(|it| run(&directory.join(&it.directory), &it.directory));
    let members: Vec<Listed> = runs.collect();
    let first = members.iter().min_by_key(|member| member.start_wall_ns)?;
    let worst = members.iter().map(|member| &member.state).max_by_key(|state| state.level)?;
    let level = worst.level;
    let text = match level {
        Level::Good => format!("{} runs", members.len()),
        Level::Doubtful | Level::Bad => format!("{} runs, worst: {}", members.len(), worst.text),
    };
    Some(Listed {
        directory: place.to_owned(),
        name: first.name.clone(),
        benchmark_id: String::new(),
        models: first.models.clone(),
        load: match parameters.as_slice() {
            [] => first.load.clone(),
            names => format!("by {}", names.join(", ")),
        },
        start_wall_ns: first.start_wall_ns,
        headline: Headline::default(),
        state: State { level, text },
        page: page(directory, &directory.join(PAGE)),
        members,
    })
}

/// Returns the run in `directory`, if there is one.
fn run(directory: &Path, place: &Path) -> Option<Listed> {
    let origin = Origin::find(directory).ok()?;
    let layout = Layout::new(directory, origin.prefix()).existing();
    if !origin.has_manifest() && !layout.summary_json.is_file() {
        return None;
    }
    let summary: Option<Summary> = read_json(&layout.summary_json).ok()?;
    let (described, end) = origin.describe(&layout).ok()?;
    let outcome = end.as_ref().map(|end| &end.outcome);
    let state = state(summary.as_ref(), outcome.is_some());
    let summary = summary.unwrap_or_default();
    Some(Listed {
        directory: place.to_owned(),
        name: described.setup.run_name.clone(),
        benchmark_id: summary.benchmark_id,
        models: described.setup.models.join(", "),
        load: outcome.map(|outcome| outcome.load.to_string()).unwrap_or_default(),
        start_wall_ns: outcome.map(|outcome| outcome.start_wall_ns),
        headline: Headline {
            requests: summary.request_latency.count,
            request_throughput: summary.request_throughput.avg,
            output_token_throughput: summary.output_token_throughput.avg,
            ttft_p99: summary.time_to_first_token.p99,
            itl_p99: summary.inter_token_latency.p99,
            latency_p99: summary.request_latency.p99,
            error_rate: summary.request_error_rate.avg,
        },
        state,
        page: page(directory, &layout.page),
        members: Vec::new(),
    })
}

/// Returns the path of a page relative to its directory, if it exists.
fn page(directory: &Path, path: &Path) -> Option<PathBuf> {
    path.is_file().then(|| path.strip_prefix(directory).ok().map(Path::to_owned)).flatten()
}

/// Returns what became of a run with this summary.
fn state(summary: Option<&Summary>, has_ended: bool) -> State {
    let state = |level, text: &str| State { level, text: text.to_owned() };
    let Some(summary) = summary else {
        // A run that was killed leaves the same files as one that still runs.
        let text = if has_ended { "without summary" } else { "running or killed" };
        return state(Level::Doubtful, text);
    };
    if summary.was_cancelled {
        return state(Level::Doubtful, "cancelled");
    }
    if summary.is_complete == Some(false) {
        return state(Level::Bad, "incomplete");
    }
    let held = summary.gates.iter().filter(|gate| gate.held).count();
    if held < summary.gates.len() {
        let text = format!("{held} of {} gates held", summary.gates.len());
        return state(Level::Bad, &text);
    }
    let client = summary.client_health.as_ref().and_then(|health| health.verdict);
    let load = summary.load_health.as_ref().and_then(|health| health.verdict);
    let outputs = summary.output_health.as_ref().and_then(|health| health.verdict);
    let saturated = load.filter(|load| load.is_too_much());
    let corrupt = match outputs {
        Some(Verdict::Invalid) => Some("outputs invalid"),
        Some(Verdict::Suspect) => Some("outputs suspect"),
        Some(Verdict::Valid) | None => None,
    };
    let words = [client.map(Verdict::as_str), saturated.map(LoadVerdict::words), corrupt];
    let words: Vec<&str> = words.into_iter().flatten().collect();
    let level = match (client.max(outputs), load) {
        (Some(Verdict::Invalid), _) => Level::Bad,
        (Some(Verdict::Suspect), _)
        | (_, Some(LoadVerdict::Saturated | LoadVerdict::Rejecting)) => Level::Doubtful,
        _ => Level::Good,
    };
    if words.is_empty() { state(level, "complete") } else { state(level, &words.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn corrupt_outputs_are_a_part_of_the_state() {
        let state_of = |client: &str, outputs: &str| {
            let client = (!client.is_empty()).then(|| json!({"verdict": client}));
            let health = json!({"client_health": client, "output_health": {"verdict": outputs}});
            let summary: Summary = serde_json::from_value(health).unwrap();
            let State { level, text } = state(Some(&summary), true);
            (level, text)
        };
        assert_eq!(state_of("valid", "valid"), (Level::Good, "valid".to_owned()));
        assert_eq!(
            state_of("valid", "suspect"),
            (Level::Doubtful, "valid, outputs suspect".to_owned())
        );
        assert_eq!(state_of("", "invalid"), (Level::Bad, "outputs invalid".to_owned()));
    }
}
