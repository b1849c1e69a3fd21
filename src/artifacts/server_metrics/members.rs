//! The elements of both JSON layouts: members that may be absent, objects with a fixed order, and
//! lists that are generated while they are written.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::server_family::Kind;

/// Declares a JSON object whose members are absent without a value.
macro_rules! members {
    ($(#[$attribute:meta])* $name:ident { $($member:ident: $type:ty),+ $(,)? }) => {
        $(#[$attribute])*
        #[derive(Debug, Default, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(deny_unknown_fields)]
        struct $name {
            $(#[serde(skip_serializing_if = "Option::is_none")] $member: Option<$type>,)+
        }
    };
}
pub(super) use members;

/// Returns `value`, if JSON can represent it.
pub(super) fn finite(value: f64) -> Option<f64> {
    Some(value).filter(|value| value.is_finite())
}

/// Returns a count, which expositions contain as a float, as an integer.
pub(super) fn whole(count: f64) -> u64 {
    count.round() as u64
}

/// The members of an object, in the order given.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Pairs<V>(
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, V>"))]
    pub(super)  Vec<(Arc<str>, V)>,
);

impl<V> Pairs<V> {
    /// Returns `None` for an object without members.
    pub(super) fn unless_empty(self) -> Option<Self> {
        Some(self).filter(|pairs| !pairs.0.is_empty())
    }
}

impl<V> FromIterator<(Arc<str>, V)> for Pairs<V> {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl<V: Serialize> Serialize for Pairs<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

struct PairsVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<V> {
    type Value = Pairs<V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}

/// A metric with series of any kind.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Metric<S> {
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    pub(super) description: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unit: Option<Arc<str>>,
    pub(super) series: S,
}

/// A list whose items are converted one by one while they are written, which avoids a second copy
/// of a large report.
pub(super) struct Each<'a, T, F>(pub(super) &'a [T], pub(super) F);

impl<'a, T, F, O> Serialize for Each<'a, T, F>
where
    F: Fn(&'a T) -> O,
    O: Serialize,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(&self.1))
    }
}

/// Returns the kind of a metric in files, where an info is a gauge with the value 1.
pub(super) const fn exported_kind(kind: Kind) -> Kind {
    match kind {
        Kind::Info => Kind::Gauge,
        other => other,
    }
}

pub(super) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Gauge | Kind::Info => "gauge",
        Kind::Counter => "counter",
        Kind::Histogram => "histogram",
        Kind::Unknown => "unknown",
        Kind::Summary => "summary",
    }
}
