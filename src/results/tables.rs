//! The tables of results: each is described once, and the terminal and the page draw it.
//!
//! A table has a title, a note on what it is, columns, rows, and what its numbers show in sentences. A
//! percentile of too few values is a [`Cell::Few`], which is shown in brackets everywhere.

mod adaptive;
pub mod cells;
pub mod compare;
pub mod format;
mod phases;
mod prefix_cache;
pub mod runs;
mod speculation;
mod statistics;
mod steady;
mod tenants;
mod time_breakdown;
mod turns;
mod workers;

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use base::statistics::Percent;
use measure::metrics::metric::{MetricResult, Statistic};
use measure::metrics::tag::MetricTag;
use measure::metrics::{Metric, ValueType};
use measure::multi_run::sweep::plain;

use crate::run::RunReport;
use format::{count, four_digits, number};

pub use statistics::{label, of_metrics, statistics};
pub(crate) use turns::TITLE as TURNS;

/// Returns the tables of a run besides those of metrics, in order.
pub fn of_run(report: &RunReport) -> Vec<Table> {
    let details =
        [steady::steady(report), turns::turns(report), prefix_cache::prefix_cache(report)];
    let others = [
        time_breakdown::time_breakdown(report),
        tenants::tenants(report),
        workers::workers(report),
        speculation::speculation(report),
    ];
    let adaptive = adaptive::adaptive(report).map(Some);
    let details = details.into_iter().chain([phases::phases(report)]);
    details.chain(adaptive).chain(others).flatten().collect()
}

/// Returns the tables of the parts of a run and of its load: phases, adaptive loads, tenants, workers and
/// speculative decoding.
pub(crate) fn of_groups(report: &RunReport) -> impl Iterator<Item = Table> {
    let others =
        [tenants::tenants(report), workers::workers(report), speculation::speculation(report)];
    let adaptive = adaptive::adaptive(report);
    phases::phases(report).into_iter().chain(adaptive).chain(others.into_iter().flatten())
}

/// A table of results.
#[derive(Debug, Clone, Default)]
pub struct Table {
    pub title: String,
    /// What the table is, for readers who do not know it.
    pub note: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// What the numbers show, one sentence each.
    pub findings: Vec<String>,
    /// Where a percentile needs its number of values, if not in the whole table: ` in each run`.
    pub scope: &'static str,
}

/// States how many requests the percentiles in parentheses need, `scope` saying where; `None` without any.
pub(crate) fn too_few(percents: impl Iterator<Item = Percent>, scope: &str) -> Option<String> {
    let percents: BTreeSet<Percent> = percents.collect();
    let needed = |it: &Percent| format!("p{it} needs {}", count(it.values_needed()));
    let needed: Vec<String> = percents.iter().map(needed).collect();
    (!needed.is_empty())
        .then(|| format!("In parentheses: too few requests; {}{scope}.", needed.join(", ")))
}

impl Table {
    /// Returns a sentence about the percentiles in brackets, if there are any.
    pub fn few(&self) -> Option<String> {
        let percents = self.rows.iter().flatten().filter_map(|cell| match cell {
            Cell::Few(_, percent) => Some(*percent),
            _ => None,
        });
        too_few(percents, self.scope)
    }

    /// Returns the table without the columns that no row has a value for.
    fn without_empty_columns(mut self) -> Self {
        let is_known = |at: usize| self.rows.iter().any(|row| row.get(at) != Some(&Cell::Absent));
        let known: Vec<bool> = (0..self.columns.len()).map(is_known).collect();
        let mut is_kept = known.iter().copied().cycle();
        self.columns.retain(|_| is_kept.next() == Some(true));
        for row in &mut self.rows {
            let mut is_kept = known.iter();
            row.retain(|_| is_kept.next() == Some(&true));
        }
        self
    }
}

/// What a column contains, which decides its alignment and whether its cells may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Names of rows that end at the column's right side; broken between words only if short names do
    /// not help.
    Label,
    /// The same at the column's left side.
    Name,
    /// Numbers, at the right side.
    Number,
    /// The same with two decimals, and `N/A` if absent.
    Fixed,
    /// Text at the left side, broken between words.
    Text,
    /// A few words at the left side, which are never broken.
    Word,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    pub name: Cow<'static, str>,
    /// The name on a narrow terminal.
    pub short: Option<Cow<'static, str>>,
    pub content: Content,
    /// The order in which columns are left out for lack of width, from 1; 0 is never left out.
    pub(crate) spare: u8,
    /// Whether it is left out, without a note, before anything is made shorter or borders go.
    pub(crate) is_extra: bool,
    /// Whether only pages show it.
    pub(crate) is_detail: bool,
    /// The unit, if the title says it and the name does not.
    unit: &'static str,
}

impl Column {
    /// Creates a column of the names of rows, which end at its right side.
    pub fn label(name: impl Into<Cow<'static, str>>) -> Self {
        Self {
            name: name.into(),
            short: None,
            content: Content::Label,
            spare: 0,
            is_extra: false,
            is_detail: false,
            unit: "",
        }
    }

    /// Creates a column of the names of rows, which begin at its left side.
    pub fn name(name: impl Into<Cow<'static, str>>) -> Self {
        Self { content: Content::Name, ..Self::label(name) }
    }

    /// Creates a column of numbers.
    pub fn number(name: impl Into<Cow<'static, str>>) -> Self {
        Self { content: Content::Number, ..Self::label(name) }
    }

    /// Creates a column of text that begins at its left side.
    pub fn text(name: impl Into<Cow<'static, str>>) -> Self {
        Self { content: Content::Text, ..Self::label(name) }
    }

    /// Creates a column of a few words that are never broken.
    pub fn word(name: impl Into<Cow<'static, str>>) -> Self {
        Self { content: Content::Word, ..Self::label(name) }
    }

    /// Sets the name on a narrow terminal.
    pub fn or(mut self, short: impl Into<Cow<'static, str>>) -> Self {
        self.short = Some(short.into());
        self
    }

    /// Sets that its numbers have two decimals, and that absent ones are `N/A`.
    pub const fn fixed(mut self) -> Self {
        self.content = Content::Fixed;
        self
    }

    /// Sets that only pages show the column.
    pub const fn detail(mut self) -> Self {
        self.is_detail = true;
        self
    }

    /// Sets the unit, which the name does not have.
    pub const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// Returns the name with its unit.
    pub(crate) fn label_with_unit(&self) -> String {
        if self.unit.is_empty() {
            self.name.to_string()
        } else {
            format!("{} ({})", self.name, self.unit)
        }
    }

    /// Sets that the column is left out before names are shortened.
    pub const fn extra(mut self) -> Self {
        self.is_extra = true;
        self
    }

    /// Sets that the column is left out as number `order`, from 1, for lack of width.
    pub(crate) const fn spare(mut self, order: u8) -> Self {
        self.spare = order;
        self
    }
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Absent,
    /// May come from a server.
    Text(String),
    /// A text, and a shorter one for a narrow terminal.
    Name(String, String),
    Number(f64),
    Count(u64),
    /// A percentile of too few values for its confidence interval.
    Few(f64, Percent),
    /// The ends of an interval.
    Between(f64, f64),
    /// The value of a setting.
    Setting(Value),
}

impl Cell {
    /// Returns a share as a percentage.
    fn percent(share: Option<f64>) -> Self {
        share.map(|share| 100.0 * share).into()
    }

    /// Returns a text that may be absent.
    pub(crate) fn text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Absent, |text| Self::Text(text.into()))
    }

    /// Formats the cell of a column with this `content`; it may still contain control characters.
    pub fn shown(&self, content: Content) -> String {
        let is_fixed = content == Content::Fixed;
        let number = |value| if is_fixed { number(Some(value)) } else { four_digits(value) };
        match self {
            Self::Absent if is_fixed => "N/A".to_owned(),
            Self::Absent => String::new(),
            Self::Text(text) | Self::Name(text, _) => text.clone(),
            Self::Number(value) => number(*value),
            Self::Count(value) => count(*value),
            Self::Few(value, _) => format!("({})", number(*value)),
            Self::Between(low, high) => format!("{} to {}", number(*low), number(*high)),
            Self::Setting(value) => plain(value),
        }
    }

    /// Returns a statistic of `result`, in the metric's display unit.
    fn statistic(result: Option<&MetricResult>, statistic: Statistic) -> Self {
        let Some(MetricResult { metric, stats, .. }) = result else { return Self::Absent };
        let Some(value) = statistic.value_in(stats).filter(|value| value.is_finite()) else {
            return Self::Absent;
        };
        match (statistic, stats.distribution) {
            (Statistic::Percentile(percent), Some(values))
                if values.count < percent.values_needed() =>
            {
                Self::Few(value, percent)
            }
            (Statistic::Avg, None) if is_count(metric, value) => Self::Count(value as u64),
            _ => Self::Number(value),
        }
    }
}

/// Returns whether the value of a metric is a number of things.
fn is_count(metric: &Metric, value: f64) -> bool {
    metric.value_type == ValueType::Int && value >= 0.0 && value.fract() == 0.0
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.filter(|value| value.is_finite()).map_or(Self::Absent, Self::Number)
    }
}

/// A column with a statistic of a metric of groups of requests: its name, the name on a narrow terminal,
/// the order in which it is left out, and what it shows.
type Shown = (&'static str, &'static str, u8, MetricTag, &'static str);

/// The columns of a table of groups of requests: those of `all` that any group has a value for.
struct Groups(Vec<&'static Shown>);

impl Groups {
    fn new<'a, I: Iterator<Item = &'a Vec<MetricResult>>>(
        all: &'static [Shown],
        groups: impl Fn() -> I,
    ) -> Self {
        let has = |tag: MetricTag| groups().flatten().any(|it| it.metric.tag == tag);
        Self(all.iter().filter(|(_, _, _, tag, _)| has(*tag)).collect())
    }

    fn columns(&self) -> impl Iterator<Item = Column> {
        let columns = self.0.iter();
        columns.map(|&&(name, short, spare, ..)| Column::number(name).or(short).spare(spare))
    }

    /// Returns the cells of a group with these results.
    fn cells(&self, results: &[MetricResult]) -> impl Iterator<Item = Cell> {
        self.0.iter().map(|(_, _, _, tag, statistic)| {
            let result = results.iter().find(|result| result.metric.tag == *tag);
            Statistic::named(statistic).map_or(Cell::Absent, |one| Cell::statistic(result, one))
        })
    }
}
