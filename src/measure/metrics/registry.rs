//! The metrics that a run computes, in the order of their tags, so that each comes after those it
//! depends on.

use std::sync::{Arc, LazyLock};

use client::endpoint::EndpointTraits;
use dataset::MediaKinds;

use super::catalogue;
use super::error::MetricsError;
use super::metric::{
    Facts, Metric, MetricFlags, MetricKind, Objective, Observation, RecordValues, Settings, Value,
};
use super::tag::{self, MetricTag, TagMap};

static CATALOGUE: LazyLock<Vec<&'static Metric>> =
    LazyLock::new(|| catalogue::FAMILIES.iter().flat_map(|family| family.rows).collect());

static BY_TAG: LazyLock<TagMap<&'static Metric>> =
    LazyLock::new(|| CATALOGUE.iter().map(|metric| (metric.tag, *metric)).collect());

/// The metrics of a run.
#[derive(Debug)]
pub struct Registry {
    settings: Settings,
    /// In order of computation.
    rows: Vec<&'static Metric>,
    /// Indices in `rows`, in catalogue order.
    presentation: Vec<usize>,
    positions: TagMap<usize>,
    plan: Plan,
    /// The settings of tenants that have objectives of their own.
    tenants: Vec<(Arc<str>, Settings)>,
}

/// The rows that have something to do for each request, in order of computation.
#[derive(Debug, Default)]
struct Plan {
    /// Those that a successful request may have a value of.
    of_success: Vec<&'static Metric>,
    /// Those that a failed request may have a value of.
    of_failure: Vec<&'static Metric>,
    /// Those of the values that are not kept.
    hidden: Vec<MetricTag>,
    /// Counts and sums of requests.
    increments: Vec<&'static Metric>,
}

impl Plan {
    fn for_rows(rows: &[&'static Metric], developer_mode: bool) -> Self {
        let per_request = |kind| {
            matches!(kind, MetricKind::Record(_) | MetricKind::RecordList(_) | MetricKind::Count(_))
        };
        let all = || rows.iter().copied();
        let with_values = |failed: bool| {
            all().filter(move |row| per_request(row.kind) && row.is_of(failed)).collect()
        };
        let is_hidden = |row: &&Metric| per_request(row.kind) && !row.is_exported(developer_mode);
        let counts =
            |row: &&'static Metric| matches!(row.kind, MetricKind::Count(_) | MetricKind::Tally(_));
        Self {
            of_success: with_values(false),
            of_failure: with_values(true),
            hidden: all().filter(is_hidden).map(|row| row.tag).collect(),
            increments: all().filter(counts).collect(),
        }
    }
}

impl Registry {
    /// Creates a registry of the metrics that apply to `endpoint`, streamed or not, with
    /// `settings`.
    ///
    /// # Errors
    ///
    /// Fails if an objective's metric is not among them.
    pub fn new(
        settings: Settings,
        endpoint: &'static EndpointTraits,
        streaming: bool,
    ) -> Result<Self, MetricsError> {
        Self::from_rows(&CATALOGUE, settings, endpoint, streaming)
    }

    /// Like [`Registry::new`], with another catalogue.
    pub fn from_rows(
        catalogue: &[&'static Metric],
        settings: Settings,
        endpoint: &'static EndpointTraits,
        streaming: bool,
    ) -> Result<Self, MetricsError> {
        let mut ordered = catalogue.to_vec();
        ordered.sort_by_key(|metric| metric.tag.slot());
        let refused = refusals(&settings, endpoint, streaming);
        let mut rows: Vec<&'static Metric> = Vec::with_capacity(ordered.len());
        let mut positions = TagMap::default();
        for metric in ordered {
            let applies = !metric.flags.intersects(refused)
                && metric.requires.iter().all(|tag| positions.contains(*tag));
            if applies {
                positions.insert(metric.tag, rows.len());
                rows.push(metric);
            }
        }
        for objective in &settings.objectives {
            if !positions.contains(objective.tag) {
                return Err(MetricsError::ObjectiveNotMeasured {
                    tag: objective.tag,
                    reason: if streaming {
                        "it is not measured with this endpoint or these settings; use another metric"
                    } else {
                        "it may require streamed responses; add --streaming or use another metric"
                    },
                });
            }
        }
        let presentation =
            catalogue.iter().filter_map(|metric| positions.get(metric.tag).copied()).collect();
        let plan = Plan::for_rows(&rows, settings.developer_mode);
        Ok(Self { settings, rows, presentation, positions, plan, tenants: Vec::new() })
    }

    /// Judges the requests of each of these tenants by its own objectives; an empty list stands for those of
    /// the run.
    #[must_use]
    pub fn with_tenants<'a>(
        self,
        tenants: impl Iterator<Item = (&'a str, &'a [Objective])>,
    ) -> Self {
        let own = tenants.filter(|(_, objectives)| !objectives.is_empty());
        let own = own.map(|(name, objectives)| {
            (name.into(), Settings { objectives: objectives.to_vec(), ..self.settings.clone() })
        });
        Self { tenants: own.collect(), ..self }
    }

    /// Returns whether a tenant has objectives of its own.
    pub(crate) const fn has_own_objectives(&self) -> bool {
        !self.tenants.is_empty()
    }

    /// Returns a registry of those of its metrics that have one of `tags`. A metric that requires
    /// others needs them too.
    #[must_use]
    pub(crate) fn limited_to(&self, tags: &[MetricTag]) -> Self {
        let mut limited = Self {
            settings: self.settings.clone(),
            rows: Vec::new(),
            presentation: Vec::new(),
            positions: TagMap::default(),
            plan: Plan::default(),
            tenants: self.tenants.clone(),
        };
        for metric in self.rows.iter().filter(|metric| tags.contains(&metric.tag)) {
            limited.positions.insert(metric.tag, limited.rows.len());
            limited.rows.push(metric);
        }
        let shown = self.presentation.iter().map(|at| self.rows[*at].tag);
        limited.presentation =
            shown.filter_map(|tag| limited.positions.get(tag).copied()).collect();
        limited.plan = Plan::for_rows(&limited.rows, limited.settings.developer_mode);
        limited
    }

    /// Returns the whole catalogue, in display order.
    #[must_use]
    pub fn catalogue() -> &'static [&'static Metric] {
        &CATALOGUE
    }

    /// Returns the metric `tag`, whether or not a run computes it.
    #[must_use]
    pub fn row(tag: MetricTag) -> Option<&'static Metric> {
        BY_TAG.get(tag).copied()
    }

    /// Returns the metric called `name`, whether or not a run computes it.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Metric> {
        Self::row(MetricTag::find(name)?)
    }

    /// Returns the thresholds and objectives.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the metrics that apply, in order of computation.
    #[must_use]
    pub fn rows(&self) -> &[&'static Metric] {
        &self.rows
    }

    /// Returns the index of `tag` in [`Registry::rows`].
    #[must_use]
    pub fn position(&self, tag: MetricTag) -> Option<usize> {
        self.positions.get(tag).copied()
    }

    /// Returns indices in [`Registry::rows`], in display order.
    #[must_use]
    pub fn presentation(&self) -> &[usize] {
        &self.presentation
    }

    /// Computes the values of a request. A failed request has only [`MetricFlags::ERROR_ONLY`]
    /// metrics and HTTP timing; a successful one has all but `ERROR_ONLY` metrics. Internal
    /// metrics are included only in developer mode.
    #[must_use]
    pub fn compute(&self, facts: &Facts<'_>) -> RecordValues {
        let rows =
            if facts.error.is_some() { &self.plan.of_failure } else { &self.plan.of_success };
        let mut values = RecordValues::with_capacity(rows.len());
        for metric in rows {
            if let Some(value) = self.value(metric, facts, &values) {
                values.set(metric.tag, value);
            }
        }
        for tag in &self.plan.hidden {
            values.remove(*tag);
        }
        values
    }

    fn value(&self, metric: &Metric, facts: &Facts<'_>, values: &RecordValues) -> Option<Value> {
        match metric.kind {
            MetricKind::Record(compute) => compute(facts, values).map(Value::Scalar),
            MetricKind::RecordList(compute) => compute(facts).map(Value::List),
            MetricKind::Count(counts) => {
                counts(values, &self.settings).then_some(Value::Scalar(1.0))
            }
            _ => None,
        }
    }

    /// Judges a request by the objectives of this registry, instead of those by which it was judged.
    pub fn judge(&self, observation: &mut Observation) {
        self.judge_by(&self.settings, observation);
    }

    /// Judges a request by the objectives of its `tenant`, if that has its own.
    pub fn judge_of_tenant(&self, tenant: Option<&str>, observation: &mut Observation) {
        let own = self.tenants.iter().find(|(name, _)| tenant == Some(name));
        if let Some((_, settings)) = own {
            self.judge_by(settings, observation);
        }
    }

    fn judge_by(&self, settings: &Settings, observation: &mut Observation) {
        let Observation { values, error, .. } = observation;
        values.remove(tag::GOOD_REQUEST_COUNT);
        let judged = self.rows.iter().find(|row| row.tag == tag::GOOD_REQUEST_COUNT);
        if let (Some(row), None) = (judged, error)
            && let MetricKind::Count(counts) = row.kind
            && counts(values, settings)
        {
            values.set(row.tag, Value::Scalar(1.0));
        }
    }

    /// Returns what a request adds to each count and sum, in the metric's own unit; sums without
    /// a value in this request are left out.
    pub fn aggregates<'a>(
        &'a self,
        observation: &'a Observation,
    ) -> impl Iterator<Item = (MetricTag, f64)> + 'a {
        self.plan.increments.iter().filter_map(|metric| {
            self.increment(metric, observation).map(|increment| (metric.tag, increment))
        })
    }

    /// Returns what a request adds to `metric`, if it is a count or a sum.
    #[must_use]
    pub fn increment(&self, metric: &Metric, observation: &Observation) -> Option<f64> {
        let counts_all = [tag::CONTEXT_OVERFLOW_COUNT, tag::SKIPPED_CONTEXT_OVERFLOW_COUNT]
            .contains(&metric.tag);
        if !counts_all && self.settings.leaves_out(observation) {
            return None;
        }
        match metric.kind {
            MetricKind::Count(_) => Some(observation.values.scalar(metric.tag).unwrap_or(0.0)),
            MetricKind::Tally(holds) => {
                holds(observation, &self.settings).map(|holds| f64::from(u8::from(holds)))
            }
            _ => None,
        }
    }
}

/// Returns the flags of metrics that this run does not compute.
fn refusals(settings: &Settings, endpoint: &EndpointTraits, streaming: bool) -> MetricFlags {
    let mut refused = MetricFlags::empty();
    let (takes, produces) = (endpoint.takes, endpoint.produces);
    refused.set(MetricFlags::SUPPORTS_IMAGE_ONLY, !takes.contains(MediaKinds::IMAGE));
    refused.set(MetricFlags::SUPPORTS_VIDEO_ONLY, !takes.contains(MediaKinds::VIDEO));
    refused.set(MetricFlags::PRODUCES_VIDEO_ONLY, !produces.contains(MediaKinds::VIDEO));
    refused.set(MetricFlags::STREAMING_ONLY, !streaming);
    refused.set(MetricFlags::PRODUCES_TOKENS_ONLY, !endpoint.produces_tokens);
    refused.set(MetricFlags::SUPPORTS_AUDIO_ONLY, !takes.contains(MediaKinds::AUDIO));
    refused.set(MetricFlags::TOKENIZES_INPUT_ONLY, !endpoint.tokenizes_input);
    refused.set(MetricFlags::GOODPUT, settings.objectives.is_empty());
    refused.set(MetricFlags::FIXED_SCHEDULE_ONLY, !settings.fixed_schedule);
    // Comparing the server's counts with themselves is pointless.
    refused.set(MetricFlags::USAGE_DIFF_ONLY, settings.use_server_token_count);
    refused
}

#[cfg(test)]
mod tests;
