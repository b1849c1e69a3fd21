//! Numbers of requests by names that a response has, such as its finish reasons.

use std::collections::BTreeMap;

/// Maximum number of distinct names; further ones are counted as [`OTHER`].
const MAX_NAMES: usize = 64;

/// Name of those beyond that.
const OTHER: &str = "_OTHER";

/// Joins the different names of a response by commas, in their order; `None` without any.
#[must_use]
pub fn joined<S: AsRef<str>>(names: &[S]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names.iter().map(AsRef::as_ref).filter(|name| !name.is_empty()) {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    (!distinct.is_empty()).then(|| distinct.join(","))
}

/// The number of successful requests with each name. A request with several names counts for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NameCounts {
    /// Requests with any name.
    requests: u64,
    /// Requests without one.
    without: u64,
    counts: BTreeMap<String, u64>,
}

impl NameCounts {
    /// No requests.
    #[cfg(test)]
    pub const NONE: Self = Self { requests: 0, without: 0, counts: BTreeMap::new() };

    /// The counts of requests with these [`joined`] names.
    #[cfg(test)]
    pub(super) fn from_names(all: &[Option<&str>]) -> Self {
        let mut counts = Self::default();
        for joined in all {
            counts.observe(*joined);
        }
        counts
    }

    /// Adds a successful request with [`joined`] names.
    pub fn observe(&mut self, joined: Option<&str>) {
        let Some(joined) = joined else {
            self.without += 1;
            return;
        };
        self.requests += 1;
        for name in joined.split(',') {
            let has_room = self.counts.len() < MAX_NAMES || self.counts.contains_key(name);
            let name = if has_room { name } else { OTHER };
            match self.counts.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.counts.insert(name.to_owned(), 1)),
            }
        }
    }

    /// Returns the number of requests with any name.
    pub const fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the number of requests without one.
    pub const fn without(&self) -> u64 {
        self.without
    }

    /// Returns the number of requests with `name`; `None` if no request has any.
    pub fn count(&self, name: &str) -> Option<u64> {
        (self.requests > 0).then(|| self.counts.get(name).copied().unwrap_or(0))
    }

    /// Iterates over the names with their numbers of requests.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.counts.iter().map(|(name, count)| (name.as_str(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let found = NameCounts::from_names(&[
            Some("stop"),
            Some("stop,length"),
            None,
            Some("content_filter"),
        ]);
        let counts: Vec<_> = found.iter().collect();
        assert_eq!(counts, [("content_filter", 1), ("length", 1), ("stop", 2)]);
        assert_eq!(found.requests(), 3);
        assert_eq!(found.count("stop"), Some(2));
        assert_eq!(found.count("abort"), Some(0));
        assert_eq!(NameCounts::from_names(&[None]).count("abort"), None);
    }

    #[test]
    fn reasons_are_limited() {
        let mut found = NameCounts::default();
        for number in 0..100 {
            found.observe(Some(&format!("reason {number}")));
        }
        assert_eq!(found.iter().count(), MAX_NAMES + 1);
        assert_eq!(found.count(OTHER), Some(36));
    }
}
