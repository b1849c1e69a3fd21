//! Why outputs ended, as the server reports it.

use std::collections::BTreeMap;

/// Maximum number of distinct reasons; further ones are counted as [`OTHER`].
const MAX_REASONS: usize = 64;

/// Name of the reasons beyond that.
const OTHER: &str = "_OTHER";

/// The reasons with which outputs usually end: the model or a stop sequence ended it, the limit was
/// reached, or it calls tools.
const USUAL: [&str; 14] = [
    "stop",
    "length",
    "tool_calls",
    "function_call",
    // Anthropic
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    // OpenAI responses
    "completed",
    "max_output_tokens",
    // Gemini
    "STOP",
    "MAX_TOKENS",
    // TGI
    "eos_token",
    // Several servers
    "eos",
];

/// Joins the different reasons of a response, in the order of its choices; `None` without any.
#[must_use]
pub fn joined(reasons: &[String]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for reason in reasons.iter().map(String::as_str).filter(|reason| !reason.is_empty()) {
        if !distinct.contains(&reason) {
            distinct.push(reason);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join(","))
}

/// The number of successful requests with each reason. A request whose choices ended for several
/// reasons counts for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinishReasons {
    /// Requests with any reason.
    requests: u64,
    /// Requests without one.
    without: u64,
    counts: BTreeMap<String, u64>,
}

impl FinishReasons {
    /// No requests.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self { requests: 0, without: 0, counts: BTreeMap::new() };

    /// Adds a successful request with [`joined`] reasons.
    pub fn observe(&mut self, joined: Option<&str>) {
        let Some(joined) = joined else {
            self.without += 1;
            return;
        };
        self.requests += 1;
        for reason in joined.split(',') {
            let has_room = self.counts.len() < MAX_REASONS || self.counts.contains_key(reason);
            let name = if has_room { reason } else { OTHER };
            match self.counts.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.counts.insert(name.to_owned(), 1)),
            }
        }
    }

    /// Returns the number of requests with any reason.
    pub(crate) const fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of requests with `reason`; `None` if no request has any.
    pub(crate) fn count(&self, reason: &str) -> Option<u64> {
        (self.requests > 0).then(|| self.counts.get(reason).copied().unwrap_or(0))
    }

    /// Iterates over the reasons with their numbers of requests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(reason, count)| (reason.as_str(), *count))
    }

    /// Returns the reasons with the most requests first, if any of them is unusual, or if only some
    /// requests have one.
    pub(crate) fn telling(&self) -> Option<Vec<(&str, u64)>> {
        let is_unusual = self.iter().any(|(reason, _)| !USUAL.contains(&reason));
        if self.requests == 0 || (!is_unusual && self.without == 0) {
            return None;
        }
        let mut all: Vec<(&str, u64)> = self.iter().collect();
        if self.without > 0 {
            all.push(("none", self.without));
        }
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(all: &[Option<&str>]) -> FinishReasons {
        let mut reasons = FinishReasons::default();
        for joined in all {
            reasons.observe(*joined);
        }
        reasons
    }

    #[test]
    fn choices_with_the_same_reason_are_one() {
        let of =
            |reasons: &[&str]| joined(&reasons.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(of(&["stop", "length", "stop"]).as_deref(), Some("stop,length"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[""]), None);
    }

    #[test]
    fn a_request_counts_once_for_each_reason() {
        let found = of(&[Some("stop"), Some("stop,length"), None, Some("content_filter")]);
        let counts: Vec<_> = found.iter().collect();
        assert_eq!(counts, [("content_filter", 1), ("length", 1), ("stop", 2)]);
        assert_eq!(found.requests(), 3);
        assert_eq!(found.count("stop"), Some(2));
        assert_eq!(found.count("abort"), Some(0));
        assert_eq!(of(&[None]).count("abort"), None);
    }

    #[test]
    fn usual_reasons_are_not_told() {
        assert_eq!(of(&[Some("stop"), Some("length")]).telling(), None);
        assert_eq!(of(&[None]).telling(), None, "the endpoint does not report any");
        let filtered = of(&[Some("stop"), Some("stop"), Some("content_filter")]);
        assert_eq!(filtered.telling().unwrap(), [("stop", 2), ("content_filter", 1)]);
        assert_eq!(of(&[Some("stop"), None]).telling().unwrap(), [("stop", 1), ("none", 1)]);
    }

    #[test]
    fn reasons_are_limited() {
        let mut found = FinishReasons::default();
        for number in 0..100 {
            found.observe(Some(&format!("reason {number}")));
        }
        assert_eq!(found.iter().count(), MAX_REASONS + 1);
        assert_eq!(found.count(OTHER), Some(36));
    }
}
