//! Service level objectives as the user writes them.

use super::metric::{Kind, Objective};
use super::{MetricTag, MetricsError, Registry};

/// Names offered for one that does not exist.
const MOST_SUGGESTIONS: usize = 3;

/// Reads `tag:bound` pairs separated by white space, as in
/// `time_to_first_token:200 inter_token_latency:10`. Bounds are in display units.
///
/// # Errors
/// When a pair is malformed or repeated, or its metric does not exist or has no
/// single value for each request.
pub fn parse_objectives(text: &str) -> Result<Vec<Objective>, MetricsError> {
    let mut objectives: Vec<Objective> = Vec::new();
    for pair in text.split_whitespace() {
        let objective = parse_one(pair)?;
        if objectives.iter().any(|earlier| earlier.tag == objective.tag) {
            return Err(MetricsError::RepeatedObjective(objective.tag));
        }
        objectives.push(objective);
    }
    Ok(objectives)
}

fn parse_one(pair: &str) -> Result<Objective, MetricsError> {
    let (tag, bound) = pair
        .split_once(':')
        .filter(|(tag, bound)| !tag.is_empty() && !bound.is_empty())
        .ok_or_else(|| MetricsError::MalformedObjective(pair.to_owned()))?;
    let metric = Registry::find(tag).ok_or_else(|| MetricsError::UnknownObjective {
        tag: tag.to_owned(),
        near: names_like(tag),
    })?;
    if !matches!(metric.kind, Kind::Record(_)) {
        return Err(MetricsError::NotPerRequest(metric.tag));
    }
    let threshold =
        bound.parse().ok().filter(|bound: &f64| bound.is_finite()).ok_or_else(|| {
            MetricsError::ObjectiveThreshold {
                tag: metric.tag,
                threshold: bound.to_owned(),
                unit: metric.display_unit.label(),
            }
        })?;
    Ok(Objective { tag: metric.tag, threshold })
}

/// Tags of record metrics that a mistyped `name` may have meant, nearest first.
fn names_like(name: &str) -> Vec<MetricTag> {
    let name: Vec<char> = name.chars().take(64).collect();
    let mut near: Vec<(usize, MetricTag)> = Registry::catalogue()
        .iter()
        .filter(|metric| matches!(metric.kind, Kind::Record(_)))
        .map(|metric| (edits(&name, metric.tag), metric.tag))
        .filter(|(edits, tag)| *edits * 2 <= tag.len())
        .collect();
    near.sort_unstable();
    near.into_iter().take(MOST_SUGGESTIONS).map(|(_, tag)| tag).collect()
}

/// Levenshtein's distance: single characters to insert, delete or replace.
fn edits(a: &[char], b: &str) -> usize {
    let mut row: Vec<usize> = (0..=a.len()).collect();
    for (i, b_char) in b.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, a_char) in a.iter().enumerate() {
            let replaced = diagonal + usize::from(*a_char != b_char);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[a.len()]
}

#[cfg(test)]
mod tests;
