//! The rows that a run computes, ordered so that each comes after those it reads.

use std::sync::LazyLock;

use super::metric::{
    Facts, Kind, Metric, MetricFlags, MetricTag, Observation, RecordValues, Settings, TagMap, Value,
};
use super::{MetricsError, catalogue};
use crate::dataset::MediaKinds;
use crate::endpoint::EndpointTraits;

static CATALOGUE: LazyLock<Vec<&'static Metric>> =
    LazyLock::new(|| catalogue::FAMILIES.iter().flat_map(|family| family.rows).collect());

/// The metrics of a run.
#[derive(Debug)]
pub struct Registry {
    settings: Settings,
    /// In order of computation.
    rows: Vec<&'static Metric>,
    /// Positions in `rows`, in catalogue order.
    presentation: Vec<usize>,
    positions: TagMap<usize>,
}

impl Registry {
    /// The metrics that apply to `endpoint`, streamed or not, under `settings`.
    ///
    /// # Errors
    /// When an objective's metric is not among them, or the catalogue itself is
    /// inconsistent.
    pub fn new(
        settings: Settings,
        endpoint: &'static EndpointTraits,
        streaming: bool,
    ) -> Result<Self, MetricsError> {
        Self::from_rows(&CATALOGUE, settings, endpoint, streaming)
    }

    /// As [`Registry::new`], of a catalogue other than the program's own.
    pub fn from_rows(
        catalogue: &[&'static Metric],
        settings: Settings,
        endpoint: &'static EndpointTraits,
        streaming: bool,
    ) -> Result<Self, MetricsError> {
        let ordered = in_order_of_computation(catalogue)?;
        let refused = refusals(&settings, endpoint, streaming);
        let mut rows: Vec<&'static Metric> = Vec::with_capacity(ordered.len());
        let mut positions = TagMap::default();
        for metric in ordered {
            let applies = !metric.flags.intersects(refused)
                && metric.requires.iter().all(|tag| positions.contains_key(tag));
            if applies {
                positions.insert(metric.tag, rows.len());
                rows.push(metric);
            }
        }
        for objective in &settings.objectives {
            if !positions.contains_key(objective.tag) {
                return Err(MetricsError::ObjectiveNotMeasured {
                    tag: objective.tag,
                    reason: if streaming {
                        "this endpoint or these settings give it no value; name another metric"
                    } else {
                        "it may need streamed responses; add --streaming or name another metric"
                    },
                });
            }
        }
        let presentation =
            catalogue.iter().filter_map(|metric| positions.get(metric.tag).copied()).collect();
        Ok(Self { settings, rows, presentation, positions })
    }

    /// Every row, in the order of presentation.
    #[must_use]
    pub fn catalogue() -> &'static [&'static Metric] {
        &CATALOGUE
    }

    /// The row of `tag`, whether or not a run computes it.
    #[must_use]
    pub fn find(tag: &str) -> Option<&'static Metric> {
        CATALOGUE.iter().find(|metric| metric.tag == tag).copied()
    }

    /// The thresholds and objectives in force.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The rows that apply, in order of computation.
    #[must_use]
    pub fn rows(&self) -> &[&'static Metric] {
        &self.rows
    }

    /// Where in [`Registry::rows`] `tag` is.
    #[must_use]
    pub fn position(&self, tag: &str) -> Option<usize> {
        self.positions.get(tag).copied()
    }

    /// Positions in [`Registry::rows`], in the order of presentation.
    #[must_use]
    pub fn presentation(&self) -> &[usize] {
        &self.presentation
    }

    /// The values of one request. A failed one has those of
    /// [`MetricFlags::ERROR_ONLY`] rows alone, any other one those of the rest.
    /// Internal metrics are among them in developer mode only.
    #[must_use]
    pub fn compute(&self, facts: &Facts<'_>) -> RecordValues {
        let mut values = RecordValues::with_capacity(self.rows.len());
        let failed = facts.error.is_some();
        // One or two: few enough to be compared with, tag by tag.
        let mut hidden: Vec<MetricTag> = Vec::new();
        for metric in &self.rows {
            if metric.flags.contains(MetricFlags::ERROR_ONLY) != failed {
                continue;
            }
            if let Some(value) = self.value(metric, facts, &values) {
                if !metric.is_exported(self.settings.developer_mode) {
                    hidden.push(metric.tag);
                }
                values.push(metric.tag, value);
            }
        }
        if !hidden.is_empty() {
            values.retain(|tag| !hidden.contains(&tag));
        }
        values
    }

    fn value(&self, metric: &Metric, facts: &Facts<'_>, values: &RecordValues) -> Option<Value> {
        match metric.kind {
            Kind::Record(compute) => compute(facts, values).map(Value::Scalar),
            Kind::RecordList(compute) => compute(facts).map(Value::List),
            Kind::Count(counts) => counts(values, &self.settings).then_some(Value::Scalar(1.0)),
            _ => None,
        }
    }

    /// What one request adds to each count and sum, in the metric's own unit;
    /// sums that the request says nothing about are left out.
    pub fn aggregates<'a>(
        &'a self,
        observation: &'a Observation,
    ) -> impl Iterator<Item = (MetricTag, f64)> + 'a {
        self.rows.iter().filter_map(|metric| {
            self.increment(metric, observation).map(|increment| (metric.tag, increment))
        })
    }

    /// What one request adds to `metric`, if that is a count or a sum.
    #[must_use]
    pub fn increment(&self, metric: &Metric, observation: &Observation) -> Option<f64> {
        match metric.kind {
            Kind::Count(_) => Some(observation.values.scalar(metric.tag).unwrap_or(0.0)),
            Kind::Sum(increment) => increment(observation, &self.settings),
            _ => None,
        }
    }
}

/// The flags of rows that this run cannot or need not compute.
fn refusals(settings: &Settings, endpoint: &EndpointTraits, streaming: bool) -> MetricFlags {
    let mut refused = MetricFlags::empty();
    let (takes, produces) = (endpoint.takes, endpoint.produces);
    refused.set(MetricFlags::SUPPORTS_IMAGE_ONLY, !takes.contains(MediaKinds::IMAGE));
    refused.set(MetricFlags::SUPPORTS_VIDEO_ONLY, !takes.contains(MediaKinds::VIDEO));
    refused.set(MetricFlags::PRODUCES_VIDEO_ONLY, !produces.contains(MediaKinds::VIDEO));
    refused.set(MetricFlags::STREAMING_ONLY, !streaming);
    refused.set(MetricFlags::PRODUCES_TOKENS_ONLY, !endpoint.produces_tokens);
    // Any endpoint that generates may be given audio; its usage says so.
    let has_audio = endpoint.produces_tokens || takes.contains(MediaKinds::AUDIO);
    refused.set(MetricFlags::SUPPORTS_AUDIO_ONLY, !has_audio);
    refused.set(MetricFlags::TOKENIZES_INPUT_ONLY, !endpoint.tokenizes_input);
    refused.set(MetricFlags::GOODPUT, settings.objectives.is_empty());
    refused.set(MetricFlags::FIXED_SCHEDULE_ONLY, !settings.fixed_schedule);
    // The server's counts compared with themselves say nothing.
    refused.set(MetricFlags::USAGE_DIFF_ONLY, settings.use_server_token_count);
    refused
}

/// `catalogue`, each row after those that it requires: first record metrics, then
/// aggregates (goodness compares any of the former), then derived ones.
fn in_order_of_computation(
    catalogue: &[&'static Metric],
) -> Result<Vec<&'static Metric>, MetricsError> {
    check_tags(catalogue)?;
    let mut ordered: Vec<&'static Metric> = Vec::with_capacity(catalogue.len());
    let mut waiting = catalogue.to_vec();
    while !waiting.is_empty() {
        let before = waiting.len();
        waiting.retain(|metric| {
            let ready =
                metric.requires.iter().all(|tag| ordered.iter().any(|done| done.tag == *tag));
            if ready {
                ordered.push(metric);
            }
            !ready
        });
        if waiting.len() == before {
            return Err(MetricsError::Circular(waiting.iter().map(|metric| metric.tag).collect()));
        }
    }
    ordered.sort_by_key(|metric| metric.kind.stage());
    Ok(ordered)
}

fn check_tags(catalogue: &[&'static Metric]) -> Result<(), MetricsError> {
    for (at, metric) in catalogue.iter().enumerate() {
        if catalogue[..at].iter().any(|earlier| earlier.tag == metric.tag) {
            return Err(MetricsError::Duplicate(metric.tag));
        }
        for required in metric.requires {
            if !catalogue.iter().any(|other| other.tag == *required) {
                return Err(MetricsError::MissingRequirement { tag: metric.tag, required });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
