//! The documents of a trace as they are read.

use std::collections::HashSet;
use std::fmt;

use foldhash::fast::RandomState;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use base::input::Meter;

use super::chains::SAME_TIME;

#[derive(Deserialize)]
pub(in crate::file) struct Document {
    pub(in crate::file) id: String,
    pub(in crate::file) block_size: u32,
    #[serde(default)]
    pub(in crate::file) hash_id_scope: Scope,
    pub(in crate::file) tool_tokens: Option<u32>,
    pub(in crate::file) system_tokens: Option<u32>,
    pub(in crate::file) timestamp: Option<f64>,
    #[serde(skip)]
    pub(in crate::file) requests: Vec<Entry>,
}

impl Document {
    /// Reads a document request by request, since all together may be large.
    pub(super) fn read<'de, D: Deserializer<'de>>(
        document: D,
        meter: &Meter,
    ) -> Result<Self, D::Error> {
        let (members, requests) = Members(meter).deserialize(document)?;
        let document: Self = serde_json::from_value(members).map_err(Error::custom)?;
        let requests = requests.ok_or_else(|| Error::missing_field("requests"))?;
        Ok(Self { requests, ..document })
    }
}

/// The members of a document, or of an entry of it, and its requests.
struct Members<'a>(&'a Meter);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = (Value, Option<Vec<Entry>>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = (Value, Option<Vec<Entry>>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut plain = Map::new();
        let mut requests = None;
        while let Some(name) = members.next_key::<String>()? {
            if name == "requests" {
                requests = Some(members.next_value_seed(Entries(self.0))?);
            } else {
                plain.insert(name, members.next_value()?);
            }
        }
        Ok((Value::Object(plain), requests))
    }
}

/// A list of requests and sub-agents, each of which is a part.
struct Entries<'a>(&'a Meter);

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = Vec<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Entry>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of requests")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Entry>, A::Error> {
        let mut entries = Vec::new();
        while let Some((members, requests)) = list.next_element_seed(Members(self.0))? {
            self.0.part().map_err(Error::custom)?;
            let mut entry: Entry = serde_json::from_value(members).map_err(Error::custom)?;
            if let Entry::Agent(agent) = &mut entry {
                agent.requests = requests.ok_or_else(|| Error::missing_field("requests"))?;
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

/// Where a hash ID has the same meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::file) enum Scope {
    #[default]
    Local,
    Global,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
pub(in crate::file) enum Entry {
    #[serde(rename = "n", alias = "s")]
    Request(Request),
    #[serde(rename = "subagent")]
    Agent(Agent),
}

#[derive(Default, Deserialize)]
pub(in crate::file) struct Request {
    pub(in crate::file) t: f64,
    #[serde(rename = "in")]
    pub(in crate::file) input: u32,
    #[serde(rename = "out")]
    pub(in crate::file) output: u32,
    #[serde(default)]
    pub(in crate::file) model: String,
    #[serde(default, deserialize_with = "or_empty")]
    pub(in crate::file) hash_ids: Vec<i64>,
    pub(in crate::file) api_time: Option<f64>,
    pub(in crate::file) think_time: Option<f64>,
    /// Number of first blocks that earlier requests of the document have.
    #[serde(skip)]
    pub(in crate::file) known_blocks: usize,
}

#[derive(Deserialize)]
pub(in crate::file) struct Agent {
    pub(in crate::file) t: f64,
    #[serde(rename = "agent_id")]
    pub(in crate::file) id: String,
    pub(in crate::file) duration_ms: Option<f64>,
    pub(in crate::file) tool_tokens: Option<u32>,
    pub(in crate::file) system_tokens: Option<u32>,
    #[serde(skip)]
    pub(in crate::file) requests: Vec<Entry>,
}

/// Tokens of the declared tools and of the system message together.
pub(super) fn opening(tools: Option<u32>, system: Option<u32>) -> u32 {
    tools.unwrap_or(0).saturating_add(system.unwrap_or(0))
}

/// Reads a list; null, which tables have for a missing one, is empty.
fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i64>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Returns a time of a list whose times before `begin` count from it.
pub(super) fn absolute(t: f64, begin: f64) -> f64 {
    if t + SAME_TIME < begin { begin + t } else { t }
}

/// Counts of each request how many of its first blocks earlier ones of the document have.
pub(super) fn count_known(entries: &mut [Entry]) {
    let mut all = Vec::new();
    collect(entries, 0.0, &mut all);
    // Requests at the same time stay in the order of the lists.
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let mut seen: HashSet<i64, RandomState> = HashSet::default();
    for (_, request) in all {
        let known = request.hash_ids.iter().take_while(|id| seen.contains(id)).count();
        seen.extend(&request.hash_ids[known..]);
        request.known_blocks = known;
    }
}

/// Collects all requests with their times.
fn collect<'e>(entries: &'e mut [Entry], begin: f64, all: &mut Vec<(f64, &'e mut Request)>) {
    for entry in entries {
        match entry {
            Entry::Request(request) => all.push((absolute(request.t, begin), request)),
            Entry::Agent(agent) => {
                let begin = absolute(agent.t, begin);
                collect(&mut agent.requests, begin, all);
            }
        }
    }
}

/// Returns the input and output tokens of the longest request, of which `most` may be output, except of
/// sub-agents.
pub(super) fn peak(entries: &[Entry], most: u32) -> u64 {
    let tokens = |entry: &Entry| match entry {
        Entry::Request(it) => u64::from(it.input) + u64::from(it.output.max(1).min(most)),
        Entry::Agent(agent) => peak(&agent.requests, u32::MAX),
    };
    entries.iter().map(tokens).max().unwrap_or(0)
}

/// Returns the number of requests, with those of sub-agents.
pub(super) fn count(entries: &[Entry]) -> u64 {
    let requests = |entry: &Entry| match entry {
        Entry::Request(_) => 1,
        Entry::Agent(agent) => count(&agent.requests),
    };
    entries.iter().map(requests).sum()
}
