//! An exposition as files and statistics have it.
//!
//! Counters lose `_total`, the parts of a histogram are one value, labels are in
//! order, and what no statistic can use is left out.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

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
