//! The power and energy of GPUs, and the metrics that are computed from them.

use serde::{Deserialize, Serialize};

use base::setting::named;

use super::metric::{MetricKind, MetricResult, Stats};
use super::registry::Registry;
use super::tag::MetricTag;

/// The vendor of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vendor {
    /// NVIDIA.
    Nvidia,
    /// AMD.
    Amd,
}

named! { Vendor { "nvidia" => Nvidia, "amd" => Amd } }

impl Vendor {
    /// Returns its name in titles.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Nvidia => "NVIDIA",
            Self::Amd => "AMD",
        }
    }
}

/// How the energy of a phase is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnergySource {
    /// The increase of a counter of the GPU.
    Counter,
    /// The integral of the GPU's power over time.
    Power,
    /// Counters of some GPUs, and the power of others.
    Mixed,
}

/// An amount of energy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Energy {
    /// The best estimate, in joules.
    pub joules: f64,
    /// The lowest value that the samples permit.
    pub(crate) min_joules: f64,
    /// The highest value that the samples permit.
    pub(crate) max_joules: f64,
    /// How it is known.
    pub source: EnergySource,
}

impl Energy {
    /// Returns how far the true value may be from the estimate, in joules.
    #[must_use]
    pub fn error(&self) -> f64 {
        (self.joules - self.min_joules).max(self.max_joules - self.joules).max(0.0)
    }

    /// Returns the sum of two amounts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            joules: self.joules + other.joules,
            min_joules: self.min_joules + other.min_joules,
            max_joules: self.max_joules + other.max_joules,
            source: if self.source == other.source { self.source } else { EnergySource::Mixed },
        }
    }
}

/// The GPUs of one vendor in the profiling phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// Their vendor.
    pub vendor: Vendor,
    /// Number of GPUs.
    pub gpus: u64,
    /// Length of the phase in seconds.
    pub seconds: f64,
    /// Energy of all of them in the phase; absent if it is not known for each.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub energy: Option<Energy>,
    /// Sum of their mean powers, in watts; absent without power samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) power_watts: Option<f64>,
    /// Sum of their mean powers before the first request, in watts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_watts: Option<f64>,
}

impl Fleet {
    /// Returns the power averaged over the phase, in watts: the energy divided by the time, or else
    /// the mean of the samples.
    pub(crate) fn average_watts(&self) -> Option<f64> {
        let by_energy = self.energy.and_then(|energy| quotient(energy.joules, self.seconds));
        by_energy.or(self.power_watts)
    }
}

/// The inputs of a metric of GPUs.
#[derive(Debug, Clone, Copy)]
pub struct GpuFacts<'a> {
    pub(crate) fleet: &'a Fleet,
    /// Results of the profiling phase.
    results: &'a [MetricResult],
    /// The configured concurrency.
    concurrency: Option<u64>,
}

impl GpuFacts<'_> {
    /// Returns the energy in joules.
    pub fn joules(&self) -> Option<f64> {
        self.fleet.energy.map(|energy| energy.joules)
    }

    /// Returns the energy divided by the result of `tag`, in joules.
    pub(crate) fn joules_per(&self, tag: MetricTag) -> Option<f64> {
        quotient(self.joules()?, self.result(tag)?)
    }

    /// Returns the power averaged over the phase, in watts.
    pub(crate) fn average_watts(&self) -> Option<f64> {
        self.fleet.average_watts()
    }

    /// Returns the result of `tag` divided by the average power.
    pub(crate) fn per_watt(&self, tag: MetricTag) -> Option<f64> {
        quotient(self.result(tag)?, self.average_watts()?)
    }

    /// Returns the mean or the single value of `tag`, in its display unit.
    pub fn result(&self, tag: MetricTag) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some(result.stats.avg).filter(|value| value.is_finite())
    }

    /// Returns the configured concurrency.
    pub fn concurrency(&self) -> Option<f64> {
        self.concurrency.map(|requests| requests as f64)
    }
}

/// Returns `dividend / divisor`; `None` unless the divisor is positive.
pub(crate) fn quotient(dividend: f64, divisor: f64) -> Option<f64> {
    (divisor > 0.0).then(|| dividend / divisor)
}

/// Computes the metrics of GPUs from their energy and the `results` of the requests; `concurrency`
/// is the configured one.
#[must_use]
pub(super) fn results(
    fleets: &[Fleet],
    results: &[MetricResult],
    concurrency: Option<u64>,
) -> Vec<MetricResult> {
    let total_of_fleet = |fleet| {
        let facts = GpuFacts { fleet, results, concurrency };
        Registry::catalogue().iter().copied().filter_map(move |metric| match metric.kind {
            MetricKind::OfGpus(vendor, compute) if vendor == facts.fleet.vendor => {
                let avg = compute(&facts).filter(|value| value.is_finite())?;
                Some(MetricResult { metric, stats: Stats { avg, ..Stats::default() } })
            }
            _ => None,
        })
    };
    fleets.iter().flat_map(total_of_fleet).collect()
}
