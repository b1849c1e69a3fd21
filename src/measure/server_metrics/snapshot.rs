//! An exposition in the form used by files and statistics.
//!
//! Counters lose `_total`, the parts of a histogram are one value, labels are sorted, and anything
//! that statistics cannot use is left out.

mod builder;

use std::borrow::Cow;

use client::server_family::SeriesKind;

use super::exposition::Exposition;

/// One scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot<'a> {
    /// Families in the order of the body, except those without series.
    pub families: Vec<Family<'a>>,
}

impl<'a> Snapshot<'a> {
    /// Converts `exposition` to the form that files and statistics share.
    ///
    /// - A counter loses `_total`; a family of type info gains `_info`, and a gauge with that
    ///   suffix is [`SeriesKind::Info`].
    /// - Buckets may be in any order and become ascending. The count of a histogram without `+Inf`
    ///   becomes that bucket, and conversely.
    /// - If a series is repeated, the last value applies; the same holds for two families that get
    ///   the same name and kind.
    /// - Left out are families named `…_created`, `…_uptime` or `…_uptime_…`, gauge histograms, and
    ///   the series that [`Snapshot::and_dropped`] describes.
    #[must_use]
    pub fn from_exposition(exposition: &Exposition<'a>) -> Self {
        Self::and_dropped(exposition).0
    }

    /// Like [`Snapshot::from_exposition`], but also returns the families of which something had to be dropped,
    /// once each: an infinite value or NaN, or a histogram with such a value, without a sum,
    /// without a count in any form, or with an invalid bound. Quantiles of a summary that are NaN
    /// indicate that nothing was observed; they are dropped without being reported here.
    #[must_use]
    pub(crate) fn and_dropped(exposition: &Exposition<'a>) -> (Self, Vec<Cow<'a, str>>) {
        builder::snapshot(exposition)
    }
}

/// The series with one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family<'a> {
    /// Its name in files.
    pub name: Cow<'a, str>,
    pub kind: SeriesKind,
    /// `# HELP`.
    pub description: Option<Cow<'a, str>>,
    /// `# UNIT`.
    pub unit: Option<Cow<'a, str>>,
    pub series: Vec<Point<'a>>,
}

/// A series at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct Point<'a> {
    /// Labels sorted by name, without `le` and `quantile` of a distribution.
    pub labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    pub value: Value<'a>,
}

/// The value of a series at one time. Numbers are finite.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// The value of a gauge, counter, info or unknown metric.
    Number(f64),
    /// The value of a histogram.
    Histogram {
        /// Upper bounds as exposed, with the number of observations up to each; ascending, `+Inf`
        /// last.
        buckets: Vec<(Cow<'a, str>, f64)>,
        /// Sum of the observations.
        sum: f64,
        /// Number of observations.
        count: f64,
    },
    /// The value of a summary.
    Summary {
        /// Quantiles as exposed, ascending, with their values.
        quantiles: Vec<(Cow<'a, str>, f64)>,
        /// Sum of the observations.
        sum: Option<f64>,
        /// Number of observations.
        count: Option<f64>,
    },
}

#[cfg(test)]
mod tests;
