//! Names of the GenAI conventions for the latencies of servers (`--otel-server-semconv`).
//!
//! The families of servers declare which of their histograms have the conventions' meaning. A
//! translated histogram is exported beside the server's own, with the same values and buckets.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric};

use base::semconv::{Definition, attribute, metric};
use base::units::Nanos;
use client::server_family::{self, Time};

use super::point::text;

/// The labels in which servers name the model.
const MODEL: [&str; 2] = ["model_name", "model"];

/// The unit of the conventions.
const SECOND: Nanos = Nanos(1_000_000_000);

/// What the points of all servers of a run have in common.
#[derive(Debug)]
pub(super) struct Translation {
    /// `gen_ai.operation.name`
    pub(super) operation: &'static str,
    /// `gen_ai.provider.name`
    pub(super) provider: String,
    /// `gen_ai.request.model` of a server that does not name it.
    pub(super) model: String,
}

/// Returns the metric of the conventions that the histogram `name` of a server has the meaning of.
fn definition(name: &str) -> Option<&'static Definition> {
    let is_named = |time: &Option<Time>| {
        time.is_some_and(|time| time.metric == name && time.unit == SECOND && time.only.is_none())
    };
    server_family::ALL.iter().map(|family| &family.times).find_map(|times| {
        let table = [
            (&times.first_token, &metric::GEN_AI_SERVER_TIME_TO_FIRST_TOKEN),
            (&times.per_token, &metric::GEN_AI_SERVER_TIME_PER_OUTPUT_TOKEN),
            (&times.whole, &metric::GEN_AI_SERVER_REQUEST_DURATION),
        ];
        table.into_iter().find(|(time, _)| is_named(time)).map(|(_, definition)| definition)
    })
}

impl Translation {
    /// Returns the histogram `metric` of a server under the name of the conventions, if they have
    /// one.
    pub(super) fn translate(&self, metric: &Metric) -> Option<Metric> {
        let definition = definition(&metric.name)?;
        let Some(Data::Histogram(mut histogram)) = metric.data.clone() else { return None };
        for point in &mut histogram.data_points {
            self.describe(point, &metric.name);
        }
        Some(Metric {
            name: definition.name.to_owned(),
            description: definition.brief.to_owned(),
            unit: definition.unit.to_owned(),
            data: Some(Data::Histogram(histogram)),
            ..Metric::default()
        })
    }

    /// Adds the attributes of the conventions, and the server's name of the metric.
    fn describe(&self, point: &mut HistogramDataPoint, name: &str) {
        let model = MODEL.iter().find_map(|label| value(&point.attributes, label));
        let model = model.unwrap_or_else(|| self.model.clone());
        point.attributes.extend([
            text(attribute::GEN_AI_OPERATION_NAME, self.operation),
            text(attribute::GEN_AI_PROVIDER_NAME, &self.provider),
            text(attribute::GEN_AI_REQUEST_MODEL, &model),
            text(attribute::AIPERF_SERVER_METRIC, name),
        ]);
    }
}

/// Returns the value of a label that is not empty.
fn value(attributes: &[KeyValue], label: &str) -> Option<String> {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let pair = attributes.iter().find(|pair| pair.key == label)?;
    match pair.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}
