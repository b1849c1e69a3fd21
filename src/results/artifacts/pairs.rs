//! JSON objects whose members have an order.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
