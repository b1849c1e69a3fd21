//! Converts samples of GPUs to OpenTelemetry's hardware metrics.
//!
//! Source: OpenTelemetry semantic conventions, "Semantic conventions for GPU metrics" and "for
//! common hardware metrics".

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum,
};

use measure::gpu::sample::GpuSample;

use super::point::text;

/// A metric of the conventions.
struct Convention {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    kind: InstrumentKind,
    /// The fields that it is made of, with the factor for its unit and an attribute, if any.
    fields: &'static [Source],
}

/// The name of a field, a factor, and an attribute.
type Source = (&'static str, f64, Option<(&'static str, &'static str)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum InstrumentKind {
    Gauge,
    Counter,
    UpDownCounter,
}

/// The attribute of a task of a GPU.
const TASK: &str = "hw.gpu.task";

static CONVENTIONS: &[Convention] = &[
    Convention {
        name: "hw.power",
        description: "Instantaneous power consumed by the component.",
        unit: "W",
        kind: InstrumentKind::Gauge,
        fields: &[("nvidia_power_usage", 1.0, None), ("amd_power", 1.0, None)],
    },
    Convention {
        name: "hw.energy",
        description: "Energy consumed by the component.",
        unit: "J",
        kind: InstrumentKind::Counter,
        fields: &[("nvidia_energy_consumption", 1e6, None), ("amd_energy_consumption", 1e6, None)],
    },
    Convention {
        name: "hw.temperature",
        description: "Temperature in degrees Celsius.",
        unit: "Cel",
        kind: InstrumentKind::Gauge,
        fields: &[("nvidia_temperature", 1.0, None), ("amd_temperature", 1.0, None)],
    },
    Convention {
        name: "hw.gpu.utilization",
        description: "Fraction of time spent in a specific task.",
        unit: "1",
        kind: InstrumentKind::Gauge,
        fields: &[
            ("nvidia_gpu_utilization", 0.01, Some((TASK, "general"))),
            ("amd_gfx_activity", 0.01, Some((TASK, "general"))),
            ("nvidia_decoder_utilization", 0.01, Some((TASK, "decoder"))),
            ("nvidia_encoder_utilization", 0.01, Some((TASK, "encoder"))),
        ],
    },
    Convention {
        name: "hw.gpu.memory.usage",
        description: "GPU memory used.",
        unit: "By",
        kind: InstrumentKind::UpDownCounter,
        fields: &[("nvidia_memory_used", 1e9, None), ("amd_memory_used", 1e9, None)],
    },
    Convention {
        name: "hw.errors",
        description: "Number of errors encountered by the component.",
        unit: "{error}",
        kind: InstrumentKind::Counter,
        fields: &[("amd_ecc_uncorrectable", 1.0, Some(("error.type", "uncorrected")))],
    },
];

/// Returns the metrics of `samples`, which were scraped at `time`, in nanoseconds since the epoch.
pub(super) fn metrics(samples: &[GpuSample], time: u64) -> Vec<Metric> {
    CONVENTIONS.iter().filter_map(|convention| convention.metric(samples, time)).collect()
}

impl Convention {
    fn metric(&self, samples: &[GpuSample], time: u64) -> Option<Metric> {
        let points = samples.iter().flat_map(|sample| {
            let component = component(sample);
            self.fields.iter().filter_map(move |(tag, factor, attribute)| {
                let (_, value) = sample.values.iter().find(|(known, _)| **known == **tag)?;
                let mut attributes = component.clone();
                attributes.extend(attribute.map(|(key, value)| text(key, value)));
                Some(NumberDataPoint {
                    attributes,
                    time_unix_nano: time,
                    value: Some(Value::AsDouble(value * factor)),
                    ..NumberDataPoint::default()
                })
            })
        });
        let data_points: Vec<NumberDataPoint> = points.collect();
        let data = match self.kind {
            _ if data_points.is_empty() => return None,
            InstrumentKind::Gauge => Data::Gauge(Gauge { data_points }),
            InstrumentKind::Counter | InstrumentKind::UpDownCounter => Data::Sum(Sum {
                data_points,
                aggregation_temporality: AggregationTemporality::Cumulative as i32,
                is_monotonic: self.kind == InstrumentKind::Counter,
            }),
        };
        Some(Metric {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            unit: self.unit.to_owned(),
            data: Some(data),
            ..Metric::default()
        })
    }
}

/// Returns the attributes that identify a GPU.
fn component(sample: &GpuSample) -> Vec<KeyValue> {
    let gpu = &sample.gpu;
    let mut attributes = vec![
        text("hw.id", &gpu.gpu_uuid),
        text("hw.type", "gpu"),
        text("hw.name", &format!("GPU {}", gpu.gpu_index)),
        text("hw.model", &gpu.gpu_model_name),
        text("hw.vendor", sample.vendor.title()),
    ];
    // An exporter may report the GPUs of several hosts.
    attributes.extend(gpu.hostname.as_ref().map(|host| text("host.name", host)));
    attributes
}
