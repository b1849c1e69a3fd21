//! The content of a page: figures, charts and tables.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::chart::{Chart, rounded};
use crate::tables;

/// The content of a page. All texts are plain text.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    pub title: String,
    /// What was run, as names with values.
    pub facts: Vec<(&'static str, String)>,
    /// The answer, and what else to know before reading the figures; shown in one box.
    pub notices: Vec<Notice>,
    /// The most important figures.
    pub figures: Vec<Figure>,
    pub sections: Vec<Section>,
    /// The requests that charts and tables refer to.
    pub requests: ShownRequests,
}

/// A sentence above the figures.
#[derive(Debug, Serialize)]
pub(crate) struct Notice {
    pub level: Level,
    pub text: String,
}

/// How serious a sentence is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Good,
    Doubtful,
    Bad,
}

/// A figure of the first screen.
#[derive(Debug, Serialize)]
pub(crate) struct Figure {
    pub title: String,
    pub value: f64,
    pub unit: String,
    /// Further values.
    pub detail: String,
}

/// A part of the page.
#[derive(Debug, Serialize)]
pub(crate) struct Section {
    pub title: Cow<'static, str>,
    pub text: String,
    pub charts: Vec<Chart>,
    pub tables: Vec<Table>,
}

/// A table, whose rows can be sorted and searched.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    pub title: String,
    pub note: String,
    pub columns: Vec<String>,
    /// The cells of each row: numbers, texts, or null.
    pub rows: Vec<Vec<Value>>,
    /// The request of each row, as an index in the requests of the page.
    pub requests: Vec<u32>,
}

impl From<tables::Table> for Table {
    fn from(table: tables::Table) -> Self {
        let few = table.few();
        let sentences =
            few.iter().chain(&table.findings).map(|it| format!(" {}.", it.trim_end_matches('.')));
        let cell = |cell: &tables::Cell| match cell {
            tables::Cell::Absent => Value::Null,
            tables::Cell::Text(text) => json!(text),
            tables::Cell::Name(name, _) => json!(name.replace('\n', " ")),
            tables::Cell::Number(value) => json!(value),
            tables::Cell::Count(number) => json!(number),
            tables::Cell::Few(value, _) => json!(format!("({})", rounded(*value))),
            tables::Cell::Between(low, high) => {
                json!(format!("{} to {}", rounded(*low), rounded(*high)))
            }
            tables::Cell::Setting(value) => value.clone(),
        };
        let note = table.note + &sentences.collect::<String>();
        Self {
            title: table.title,
            note: note.trim_start().to_owned(),
            columns: table.columns.iter().map(tables::Column::label_with_unit).collect(),
            rows: table.rows.iter().map(|row| row.iter().map(cell).collect()).collect(),
            requests: Vec::new(),
        }
    }
}

/// The requests that the page shows one by one.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ShownRequests {
    /// The names of the parts of a request's time.
    pub phases: Vec<&'static str>,
    /// What is measured of each request.
    pub measures: Vec<Measure>,
    /// Number of requests of the run, of which those in `rows` are shown.
    pub count: usize,
    /// The indices of the rows of which statistics can be computed: those of every n-th request.
    /// Absent if the rows are all requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    /// The requests in order of start.
    pub rows: Vec<ShownRequest>,
}

/// Something that is measured of each request.
#[derive(Debug, Serialize)]
pub(crate) struct Measure {
    pub title: &'static str,
    pub unit: &'static str,
    /// The names of its cumulative distribution and of its histogram.
    pub charts: [String; 2],
}

/// Every n-th request: unlike the others of a sample, these are chosen without regard to their values.
#[derive(Debug, Serialize)]
pub(crate) struct Every {
    pub nth: usize,
    /// Their indices among the rows.
    pub rows: Vec<u32>,
}

/// A request: identifier, start in seconds, duration in milliseconds, class of the failure, durations of
/// the phases and arrivals of content in milliseconds, facts, and measures. A tuple, so that the page
/// does not repeat the names for each.
#[derive(Debug, Serialize)]
pub(crate) struct ShownRequest(
    pub String,
    pub f64,
    pub f64,
    pub Option<String>,
    pub Vec<Option<f64>>,
    pub Vec<f64>,
    pub Vec<(&'static str, Value)>,
    pub Vec<Option<f64>>,
);

impl Section {
    /// Creates a section with the charts that show anything.
    pub(crate) fn new(
        title: impl Into<Cow<'static, str>>,
        text: impl Into<String>,
        charts: Vec<Chart>,
    ) -> Self {
        let charts = charts.into_iter().filter(|chart| !chart.is_empty()).collect();
        Self { title: title.into(), text: text.into(), charts, tables: Vec::new() }
    }

    /// Creates the section of a table.
    pub(crate) fn from_table(table: tables::Table) -> Self {
        Self::new(table.title.clone(), "", Vec::new()).with([table])
    }

    /// Adds tables.
    pub(crate) fn with<T: Into<Table>>(mut self, tables: impl IntoIterator<Item = T>) -> Self {
        self.tables.extend(tables.into_iter().map(Into::into));
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.charts.is_empty() && self.tables.iter().all(|table| table.rows.is_empty())
    }
}
