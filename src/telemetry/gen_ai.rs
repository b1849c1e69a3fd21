//! The instruments of the GenAI conventions, in the versions that are exported.
//!
//! Most have the values of a metric of the catalogue ([`GEN_AI`]). The others are the durations of
//! requests, and what the newest conventions count of requests that have failed or do not have usage:
//! zeros, so that each request is in each of these instruments.

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::instruments::Column;
use crate::metrics::metric::MeasuredRecord;
use crate::metrics::otel::{GEN_AI, GenAi, GenAiPoints};
use crate::metrics::tag::{self, MetricTag};
use crate::semconv::{Conventions, attribute, metric};

/// The meters of the conventions.
#[derive(Debug)]
pub(super) struct GenAiMeters {
    /// The versions that are exported.
    pub(super) conventions: Conventions,
    /// Creates the instruments of 1.41.1.
    pub(super) v1_41: Meter,
    /// Creates those of the newest version.
    pub(super) latest: Meter,
}

/// The columns of the conventions.
#[derive(Debug, Default)]
pub(super) struct GenAiColumns {
    of_metrics: Vec<OfMetric>,
    /// The durations of failed requests.
    failed_durations: Vec<usize>,
    /// The durations of all requests.
    durations: Vec<usize>,
    /// The numbers of tokens of requests, which are 0 if they failed.
    tokens: Vec<usize>,
    /// The usage of requests, which is 0 if the server did not report it.
    usage: Vec<usize>,
}

/// The columns with the values of a metric.
#[derive(Debug)]
struct OfMetric {
    tag: MetricTag,
    column: usize,
    /// The column for requests that do not consist of text alone.
    unless_text: Option<usize>,
}

/// Returns the versions that apply to an operation. The newest does not have instruments for
/// embeddings yet.
pub(super) fn of_operation(conventions: Conventions, operation: &str) -> Conventions {
    if operation == "embeddings" { Conventions::V1_41 } else { conventions }
}

impl GenAiColumns {
    /// Creates the columns, and appends them to `columns`.
    pub(super) fn new(meters: &GenAiMeters, columns: &mut Vec<Column>) -> Self {
        let mut all = Self::default();
        for row in GEN_AI.iter().filter(|row| meters.conventions.include(row.of)) {
            all.add(row, meters, columns);
        }
        if meters.conventions.include(Conventions::Latest) {
            let spec = (&metric::GEN_AI_CLIENT_INFERENCE_DURATION).into();
            all.durations.extend(push(columns, Column::new(&meters.latest, &spec, None)));
        }
        all
    }

    fn add(&mut self, row: &GenAi, meters: &GenAiMeters, columns: &mut Vec<Column>) {
        let GenAi { tag, definition, .. } = *row;
        let is_latest = row.of == Conventions::Latest;
        let meter = if is_latest { &meters.latest } else { &meters.v1_41 };
        let mut column = |extra: Option<KeyValue>| {
            let ignores_errors = row.points == GenAiPoints::Modality;
            let column = Column::new(meter, &definition.into(), extra);
            push(columns, if ignores_errors { column.map(Column::ignoring_errors) } else { column })
        };
        let modality = |of| Some(KeyValue::new(attribute::GEN_AI_TOKEN_MODALITY, of));
        let (made, unless_text) = match row.points {
            GenAiPoints::All | GenAiPoints::Succeeded => (column(None), None),
            GenAiPoints::TokenType(of) => {
                (column(Some(KeyValue::new(attribute::GEN_AI_TOKEN_TYPE, of))), None)
            }
            GenAiPoints::Modality => (column(modality("text")), column(modality("unknown"))),
        };
        let Some(column) = made else { return };
        self.of_metrics.push(OfMetric { tag, column, unless_text });
        self.usage.extend(unless_text);
        match row.points {
            GenAiPoints::Succeeded if is_latest => self.tokens.push(column),
            GenAiPoints::Succeeded => self.failed_durations.push(column),
            _ => {}
        }
    }

    /// Returns the columns with the values of a metric, each with that for requests that do not
    /// consist of text alone.
    pub(super) fn of(&self, tag: MetricTag) -> impl Iterator<Item = (usize, Option<usize>)> {
        let found = self.of_metrics.iter().filter(move |of| of.tag == tag);
        found.map(|of| (of.column, of.unless_text))
    }

    /// Returns the values of a request that are not those of a metric, by column.
    pub(super) fn further(&self, measured: &MeasuredRecord) -> impl Iterator<Item = (usize, f64)> {
        let (record, observation) = (&measured.record, &measured.observation);
        let duration = record.end.since(record.start).as_seconds();
        let failed = observation.error.is_some();
        let has_usage = [tag::USAGE_PROMPT_TOKENS, tag::USAGE_COMPLETION_TOKENS]
            .into_iter()
            .any(|tag| observation.values.get(tag).is_some());
        let all = self.durations.iter().map(move |column| (*column, duration));
        let of_failed = self.failed_durations.iter().map(move |column| (*column, duration));
        let of_failed = of_failed.chain(self.tokens.iter().map(|column| (*column, 0.0)));
        let without_usage = self.usage.iter().map(|column| (*column, 0.0));
        all.chain(of_failed.filter(move |_| failed))
            .chain(without_usage.filter(move |_| !has_usage))
    }
}

/// Appends a column, and returns its index.
fn push(columns: &mut Vec<Column>, column: Option<Column>) -> Option<usize> {
    let place = columns.len();
    columns.push(column?);
    Some(place)
}
