//! The elements of both JSON layouts: members that may be absent, and lists that are generated while
//! they are written.

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

use client::server_family::SeriesKind;

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

/// A metric with series of any kind.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Metric<S> {
    #[serde(rename = "type")]
    pub(super) kind: SeriesKind,
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
pub(super) const fn exported_kind(kind: SeriesKind) -> SeriesKind {
    match kind {
        SeriesKind::Info => SeriesKind::Gauge,
        other => other,
    }
}

pub(super) const fn kind_name(kind: SeriesKind) -> &'static str {
    match kind {
        SeriesKind::Gauge | SeriesKind::Info => "gauge",
        SeriesKind::Counter => "counter",
        SeriesKind::Histogram => "histogram",
        SeriesKind::Unknown => "unknown",
        SeriesKind::Summary => "summary",
    }
}
