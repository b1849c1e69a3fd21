//! The instruments of the GenAI conventions, in the versions that are exported.
//!
//! Most have the values of a metric of the catalogue ([`GEN_AI`]). The others are the durations of
//! requests, and what the newest conventions count of requests that have failed or do not have usage:
//! zeros, so that each request is in each of these instruments.

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use base::semconv::{Conventions, attribute, metric};
use measure::metrics::metric::MeasuredRecord;
use measure::metrics::otel::{GEN_AI, GenAi, GenAiPoints};
use measure::metrics::tag::{self, MetricTag};

use super::instruments::Column;

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
    /// The columns of modalities other than text.
    modalities: Option<Modalities>,
}

/// The columns of modalities other than text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Modalities {
    /// Tokens of a request that does not consist of text alone, and that its usage does not tell
    /// apart.
    unknown: usize,
    /// The column of audio, and the number of its tokens in the usage.
    audio: Option<(usize, MetricTag)>,
}

impl Modalities {
    /// Passes the tokens of each modality to `add`; `text` is the column of text.
    pub(super) fn split(
        self,
        measured: &MeasuredRecord,
        text: usize,
        tokens: f64,
        mut add: impl FnMut(usize, f64),
    ) {
        let reported = |(column, tag)| {
            let audio = measured.observation.values.scalar(tag)?;
            Some((column, audio.min(tokens))).filter(|_| audio > 0.0)
        };
        let rest = if measured.is_text { text } else { self.unknown };
        match self.audio.and_then(reported) {
            Some((column, audio)) => {
                add(column, audio);
                add(self.unknown, tokens - audio);
            }
            None => add(rest, tokens),
        }
    }
}

/// The modality of some of a metric's tokens, which the usage tells apart.
const AUDIO: [(MetricTag, MetricTag); 2] = [
    (tag::USAGE_PROMPT_TOKENS, tag::USAGE_PROMPT_AUDIO_TOKENS),
    (tag::USAGE_COMPLETION_TOKENS, tag::USAGE_COMPLETION_AUDIO_TOKENS),
];

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
        let made = match row.points {
            GenAiPoints::All | GenAiPoints::Succeeded => column(None),
            GenAiPoints::TokenType(of) => {
                column(Some(KeyValue::new(attribute::GEN_AI_TOKEN_TYPE, of)))
            }
            GenAiPoints::Modality => column(modality("text")),
        };
        let unknown = (row.points == GenAiPoints::Modality).then(|| column(modality("unknown")));
        let modalities = unknown.flatten().map(|unknown| {
            let of_audio = AUDIO.iter().find(|(of, _)| *of == tag);
            let audio = of_audio.and_then(|(_, of)| Some((column(modality("audio"))?, *of)));
            Modalities { unknown, audio }
        });
        let Some(column) = made else { return };
        self.of_metrics.push(OfMetric { tag, column, modalities });
        self.usage.extend(modalities.map(|of| of.unknown));
        match row.points {
            GenAiPoints::Succeeded if is_latest => self.tokens.push(column),
            GenAiPoints::Succeeded => self.failed_durations.push(column),
            _ => {}
        }
    }

    /// Returns the columns with the values of a metric, each with those of modalities other than text.
    pub(super) fn for_metric(
        &self,
        tag: MetricTag,
    ) -> impl Iterator<Item = (usize, Option<Modalities>)> {
        let found = self.of_metrics.iter().filter(move |of| of.tag == tag);
        found.map(|of| (of.column, of.modalities))
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
