//! An exposition as files and statistics have it.
//!
//! Counters lose `_total`, the parts of a histogram are one value, labels are in
//! order, and what no statistic can use is left out.

mod builder;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::exposition::Exposition;

/// What kind of series a family has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Any number.
    Gauge,
    /// Only rises, but for resets.
    Counter,
    /// Cumulative buckets, a sum and a count.
    Histogram,
    /// No type was declared, or `untyped`: statistics as of a gauge.
    Unknown,
    /// Labels that do not change; the value is 1. Named `…_info`.
    Info,
    /// Quantiles over the server's whole life, a sum and a count.
    Summary,
}

/// One scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot<'a> {
    /// Families in the body's order, those without series left out.
    pub families: Vec<Family<'a>>,
}

impl<'a> Snapshot<'a> {
    /// Brings `exposition` to the form that files and statistics share.
    ///
    /// - A counter loses `_total`; a family of type info gains `_info`, and a gauge
    ///   that has it is [`Kind::Info`].
    /// - Buckets come in any order and leave it ascending. A histogram without
    ///   `+Inf` has it from its count, one without a count has that from `+Inf`.
    /// - A series that is said twice has the value said last; so have two families
    ///   that come to one name and kind.
    /// - Left out are families named `…_created`, `…_uptime` or `…_uptime_…`, gauge
    ///   histograms, and the series that [`Snapshot::and_dropped`] tells of.
    #[must_use]
    pub fn of(exposition: &Exposition<'a>) -> Self {
        Self::and_dropped(exposition).0
    }

    /// As [`Snapshot::of`], and the families of which something had to be dropped,
    /// each once: a value that is infinite or no number, a histogram with such a
    /// value, without a sum, without a count in any form, or with a bound that is
    /// no number. Quantiles of a summary that are no number say that nothing was
    /// observed: they are dropped without being named here.
    #[must_use]
    pub fn and_dropped(exposition: &Exposition<'a>) -> (Self, Vec<Cow<'a, str>>) {
        builder::snapshot(exposition)
    }
}

/// Series of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family<'a> {
    /// Its name in files.
    pub name: Cow<'a, str>,
    /// What its series are.
    pub kind: Kind,
    /// `# HELP`.
    pub description: Option<Cow<'a, str>>,
    /// `# UNIT`.
    pub unit: Option<Cow<'a, str>>,
    /// Its series.
    pub series: Vec<Point<'a>>,
}

/// One series at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Point<'a> {
    /// Labels sorted by name, without `le` and `quantile` of a distribution.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Its value.
    pub value: Value<'a>,
}

/// The value of a series at one time. Numbers are finite.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Of a gauge, a counter, an info or an unknown.
    Number(f64),
    /// Of a histogram.
    Histogram {
        /// Upper bound as sent, and the count of observations up to it; ascending,
        /// `+Inf` last.
        buckets: Vec<(Cow<'a, str>, f64)>,
        /// Sum of the observations.
        sum: f64,
        /// Number of the observations.
        count: f64,
    },
    /// Of a summary.
    Summary {
        /// Quantile as sent, and its value; ascending.
        quantiles: Vec<(Cow<'a, str>, f64)>,
        /// Sum of the observations.
        sum: Option<f64>,
        /// Number of the observations.
        count: Option<f64>,
    },
}

#[cfg(test)]
mod tests;
