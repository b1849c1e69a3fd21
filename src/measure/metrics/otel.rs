//! The OpenTelemetry instruments of metrics.

use base::semconv::{Conventions, Definition, InstrumentKind, MetricSpec, metric};
use base::units::Unit;

use super::metric::{Metric, MetricFlags, MetricKind};
use super::steady::HEADLINES;
use super::tag::{self, MetricTag};
use super::time_breakdown::Stage;

/// The instrument of a metric and the conversion from the metric's own unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Instrument {
    /// Name, kind, unit and bucket boundaries.
    pub spec: MetricSpec,
    /// Conversion of a value in the metric's own unit.
    pub scale: Scale,
    /// The value of `aiperf.stage`, if other stages have the same instrument.
    pub stage: Option<&'static str>,
}

/// Conversion of a value to the unit of an instrument.
///
/// Seconds are nanoseconds divided by 10⁹: the closest number. Multiplied by 10⁻⁹, which is not
/// exact, a value may move beyond the boundary of its bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// The value is multiplied by this number.
    Times(f64),
    /// The value is divided by this number.
    Over(f64),
}

impl Scale {
    /// Converts `value`.
    #[must_use]
    pub const fn convert(self, value: f64) -> f64 {
        match self {
            Self::Times(factor) => value * factor,
            Self::Over(divisor) => value / divisor,
        }
    }
}

/// An instrument of the GenAI semantic conventions that has the values of a metric.
#[derive(Debug, Clone, Copy)]
pub struct GenAi {
    /// The version that has the instrument; never both.
    pub of: Conventions,
    pub tag: MetricTag,
    pub definition: &'static Definition,
    pub points: GenAiPoints,
}

/// Which points of a GenAI instrument have the values of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenAiPoints {
    /// All.
    All,
    /// Those of successful requests; failed ones have others.
    Succeeded,
    /// Those with this `gen_ai.token.type`.
    TokenType(&'static str),
    /// All, by `gen_ai.token.modality`; requests without usage count 0.
    Modality,
}

/// The instruments of both versions of the conventions.
pub const GEN_AI: &[GenAi] = {
    use Conventions::{Latest, V1_41};
    use GenAiPoints::{All, Modality, Succeeded, TokenType};
    const fn row(
        of: Conventions,
        tag: MetricTag,
        definition: &'static Definition,
        points: GenAiPoints,
    ) -> GenAi {
        GenAi { of, tag, definition, points }
    }
    &[
        row(V1_41, tag::REQUEST_LATENCY, &metric::GEN_AI_CLIENT_OPERATION_DURATION, Succeeded),
        row(
            V1_41,
            tag::TIME_TO_FIRST_TOKEN,
            &metric::GEN_AI_CLIENT_OPERATION_TIME_TO_FIRST_CHUNK,
            All,
        ),
        row(
            V1_41,
            tag::INTER_TOKEN_LATENCY,
            &metric::GEN_AI_CLIENT_OPERATION_TIME_PER_OUTPUT_CHUNK,
            All,
        ),
        row(
            V1_41,
            tag::INPUT_SEQUENCE_LENGTH,
            &metric::GEN_AI_CLIENT_TOKEN_USAGE,
            TokenType("input"),
        ),
        // Reasoning is billed and counted as output, so it is included here.
        row(
            V1_41,
            tag::OUTPUT_SEQUENCE_LENGTH,
            &metric::GEN_AI_CLIENT_TOKEN_USAGE,
            TokenType("output"),
        ),
        row(
            Latest,
            tag::TIME_TO_FIRST_TOKEN,
            &metric::GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK,
            All,
        ),
        row(
            Latest,
            tag::INTER_CHUNK_LATENCY,
            &metric::GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK,
            All,
        ),
        row(
            Latest,
            tag::INPUT_SEQUENCE_LENGTH,
            &metric::GEN_AI_CLIENT_INFERENCE_OPERATION_INPUT_TOKENS,
            Succeeded,
        ),
        row(
            Latest,
            tag::OUTPUT_SEQUENCE_LENGTH,
            &metric::GEN_AI_CLIENT_INFERENCE_OPERATION_OUTPUT_TOKENS,
            Succeeded,
        ),
        row(
            Latest,
            tag::USAGE_PROMPT_TOKENS,
            &metric::GEN_AI_CLIENT_INFERENCE_USAGE_INPUT_TOKENS,
            Modality,
        ),
        row(
            Latest,
            tag::USAGE_COMPLETION_TOKENS,
            &metric::GEN_AI_CLIENT_INFERENCE_USAGE_OUTPUT_TOKENS,
            Modality,
        ),
        row(
            Latest,
            tag::USAGE_PROMPT_CACHE_READ_TOKENS,
            &metric::GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_READ_INPUT_TOKENS,
            Modality,
        ),
        row(
            Latest,
            tag::USAGE_PROMPT_CACHE_WRITE_TOKENS,
            &metric::GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_WRITE_INPUT_TOKENS,
            Modality,
        ),
        row(
            Latest,
            tag::USAGE_REASONING_TOKENS,
            &metric::GEN_AI_CLIENT_INFERENCE_USAGE_REASONING_OUTPUT_TOKENS,
            Modality,
        ),
    ]
};

impl Metric {
    /// Returns the instrument of the GenAI semantic conventions 1.41.1 that has the metric too.
    #[must_use]
    pub fn gen_ai(&self) -> Option<&'static Definition> {
        self.gen_ai_of(Conventions::V1_41)
    }

    /// Returns the instrument of one version of the GenAI semantic conventions that has the metric
    /// too.
    #[must_use]
    pub(crate) fn gen_ai_of(&self, version: Conventions) -> Option<&'static Definition> {
        let found = GEN_AI.iter().find(|row| row.tag == self.tag && row.of == version);
        found.map(|row| row.definition)
    }

    /// Returns the metric's instrument; `None` for internal and experimental metrics, for
    /// timestamps, which cannot be aggregated, and for metrics with only percentiles.
    #[must_use]
    pub fn instrument(&self) -> Option<Instrument> {
        let kind = match self.kind {
            MetricKind::Record(_) | MetricKind::RecordList(_) => InstrumentKind::Histogram,
            MetricKind::Count(_) | MetricKind::Tally(_) => InstrumentKind::Counter,
            MetricKind::Earliest(_) | MetricKind::Latest(_) | MetricKind::WithFailures(_) => {
                return None;
            }
            MetricKind::Derived(_)
            | MetricKind::SumOf(_)
            | MetricKind::PercentileOf(..)
            | MetricKind::ShareOf(..)
            | MetricKind::OverTime(..)
            | MetricKind::RoundTrip
            | MetricKind::LessRoundTrip(_)
            | MetricKind::OfSession(_)
            | MetricKind::OfSessions(_)
            | MetricKind::OfGpus(..)
            | MetricKind::OfDeployment(_) => InstrumentKind::Gauge,
        };
        let own = self.instrument_of(kind, format!("aiperf.{}", self.tag))?;
        let Some(stage) = Stage::of_server(self.tag) else { return Some(own) };
        let spec = (&metric::AIPERF_SERVER_STAGE_DURATION).into();
        Some(Instrument { spec, stage: Some(stage.name()), ..own })
    }

    fn instrument_of(&self, kind: InstrumentKind, name: String) -> Option<Instrument> {
        let (unit, scale) = ucum(self.unit);
        let boundaries = match kind {
            InstrumentKind::Histogram => boundaries(self),
            _ => Vec::new(),
        };
        let spec = MetricSpec { name, kind, unit, brief: self.brief, boundaries };
        self.is_exported(false).then_some(Instrument { spec, scale, stage: None })
    }

    /// Returns the gauge with the percentiles of a phase's exact distribution, one point each with
    /// the attribute `aiperf.percentile`; `None` for a metric without a distribution.
    #[must_use]
    pub fn percentiles_instrument(&self) -> Option<Instrument> {
        let has_distribution = matches!(
            self.kind,
            MetricKind::Record(_)
                | MetricKind::RecordList(_)
                | MetricKind::OverTime(..)
                | MetricKind::WithFailures(_)
                | MetricKind::LessRoundTrip(_)
                | MetricKind::OfSession(_)
        );
        let name = || format!("aiperf.percentiles.{}", self.tag);
        has_distribution.then(|| self.instrument_of(InstrumentKind::Gauge, name())).flatten()
    }

    /// Returns the gauge with the metric's statistics in the steady state, one point each with the
    /// attribute `aiperf.statistic`; `None` if the metric is not one of the headlines.
    #[must_use]
    pub fn steady_state_instrument(&self) -> Option<Instrument> {
        let name = || format!("aiperf.steady_state.{}", self.tag);
        let is_headline = HEADLINES.contains(&self.tag);
        is_headline.then(|| self.instrument_of(InstrumentKind::Gauge, name())).flatten()
    }

    /// Returns the metric's most detailed instrument.
    #[must_use]
    pub fn main_instrument(&self) -> Option<Instrument> {
        self.instrument().or_else(|| self.percentiles_instrument())
    }
}

/// Returns the UCUM unit for values in `unit`, and the conversion.
const fn ucum(unit: Unit) -> (&'static str, Scale) {
    match unit {
        Unit::Nanoseconds => ("s", Scale::Over(1e9)),
        Unit::Milliseconds => ("s", Scale::Over(1e3)),
        Unit::Seconds => ("s", Scale::Times(1.0)),
        Unit::Tokens => ("{token}", Scale::Times(1.0)),
        Unit::Requests => ("{request}", Scale::Times(1.0)),
        Unit::Count => ("{count}", Scale::Times(1.0)),
        Unit::Ratio => ("1", Scale::Times(1.0)),
        Unit::Percent => ("%", Scale::Times(1.0)),
        Unit::TokensPerSecond | Unit::TokensPerSecondPerUser | Unit::TokensPerSecondPerGpu => {
            ("{token}/s", Scale::Times(1.0))
        }
        Unit::RequestsPerSecond | Unit::RequestsPerSecondPerGpu => {
            ("{request}/s", Scale::Times(1.0))
        }
        Unit::Sessions => ("{session}", Scale::Times(1.0)),
        Unit::SessionsPerSecond => ("{session}/s", Scale::Times(1.0)),
        Unit::Bytes => ("By", Scale::Times(1.0)),
        Unit::Kilobytes => ("By", Scale::Times(1024.0)),
        // Servers do not specify whether this is 10^6 or 2^20 bytes.
        Unit::Megabytes => ("By", Scale::Times(1e6)),
        Unit::Images => ("{image}", Scale::Times(1.0)),
        Unit::ImagesPerSecond => ("{image}/s", Scale::Times(1.0)),
        Unit::MillisecondsPerImage => ("s/{image}", Scale::Over(1e3)),
        Unit::Watts => ("W", Scale::Times(1.0)),
        Unit::Joules => ("J", Scale::Times(1.0)),
        Unit::JouleSeconds => ("J.s", Scale::Times(1.0)),
        Unit::JoulesPerRequest => ("J/{request}", Scale::Times(1.0)),
        Unit::JoulesPerUser => ("J/{user}", Scale::Times(1.0)),
        Unit::MillijoulesPerToken => ("J/{token}", Scale::Over(1e3)),
        Unit::JoulesPerMillionTokens => ("J/{token}", Scale::Over(1e6)),
        // Requests per second and watt are requests per joule.
        Unit::RequestsPerSecondPerWatt | Unit::GoodRequestsPerSecondPerWatt => {
            ("{request}/J", Scale::Times(1.0))
        }
        Unit::UsersPerGpu => ("{user}/{gpu}", Scale::Times(1.0)),
        Unit::PricePerMillionTokens => ("{price}/{token}", Scale::Over(1e6)),
        Unit::PricePerRequest => ("{price}/{request}", Scale::Times(1.0)),
        Unit::TokensPerSecondPerWatt | Unit::TokensPerJoule => ("{token}/J", Scale::Times(1.0)),
    }
}

/// Returns bucket boundaries in a geometric series over the metric's range of values: ratio 1.25
/// for times, tokens and rates (so that a quantile computed from the buckets is within 12%), 2 for
/// others, mirrored around zero for signed values. The phases of an HTTP request, and
/// the server's times, range from zero over microseconds to minutes.
fn boundaries(metric: &Metric) -> Vec<f64> {
    match metric.unit {
        Unit::Nanoseconds if metric.is_signed() => mirrored(&geometric(1e-6, 2.0, 600.0)),
        Unit::Nanoseconds
            if metric
                .flags
                .intersects(MetricFlags::HTTP_TRACE_ONLY.union(MetricFlags::SERVER_TIMING)) =>
        {
            [0.0].into_iter().chain(geometric(1e-6, 2.0, 600.0)).collect()
        }
        Unit::Nanoseconds | Unit::Milliseconds | Unit::Seconds | Unit::MillisecondsPerImage => {
            geometric(1e-4, 1.25, 600.0)
        }
        Unit::Tokens => geometric(1.0, 1.25, 2_097_152.0),
        Unit::Megabytes => geometric(1e6, 2.0, 1e12),
        Unit::Bytes | Unit::Kilobytes => geometric(64.0, 2.0, 1_073_741_824.0),
        Unit::Percent if metric.is_signed() => mirrored(&geometric(0.125, 2.0, 1024.0)),
        Unit::Ratio if metric.tag == tag::RTFX => geometric(0.125, 2.0, 262_144.0),
        // Tokens per step.
        Unit::Ratio if metric.tag == tag::SPEC_DECODE_ACCEPTANCE_LENGTH => {
            geometric(1.0, 1.25, 64.0)
        }
        Unit::Ratio => vec![0.0, 1.0],
        Unit::Percent => [0.0].into_iter().chain(geometric(0.125, 2.0, 1024.0)).collect(),
        _ => geometric(0.125, 1.25, 262_144.0),
    }
}

/// Returns the boundaries with their negative counterparts and zero.
fn mirrored(upper: &[f64]) -> Vec<f64> {
    let lower = upper.iter().rev().map(|bound| -bound);
    lower.chain([0.0]).chain(upper.iter().copied()).collect()
}

/// Returns `first`, `first · ratio`, … up to the first boundary of at least `last`, each
/// rounded to six significant digits so that all exporters format it alike.
fn geometric(first: f64, ratio: f64, last: f64) -> Vec<f64> {
    let mut bounds = Vec::new();
    let mut bound = first;
    loop {
        let scale = 10f64.powi(5 - bound.log10().floor() as i32);
        bounds.push((bound * scale).round() / scale);
        if bound >= last {
            return bounds;
        }
        bound *= ratio;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_on_a_boundary_stay_there() {
        let (_, scale) = ucum(Unit::Nanoseconds);
        assert_eq!(scale.convert(2_000.0), 2e-6);
        assert_eq!(ucum(Unit::Kilobytes).1.convert(3.0), 3_072.0);
    }

    #[test]
    fn geometric_bounds_span_the_range() {
        assert_eq!(geometric(1.0, 2.0, 8.0), [1.0, 2.0, 4.0, 8.0]);
        let times = geometric(1e-4, 1.25, 600.0);
        assert_eq!(times[0], 1e-4);
        assert_eq!(times[1], 0.000_125);
        assert!(*times.last().unwrap() >= 600.0 && times[times.len() - 2] < 600.0);
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
