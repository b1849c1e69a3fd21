//! The GPUs that serve the model, their cost, and the metrics that are computed from these.

use serde::{Deserialize, Serialize};

use super::gpu::{self, Fleet, quotient};
use super::metric::{MetricKind, MetricResult, Stats};
use super::registry::Registry;
use super::tag::{self, MetricTag};

/// The GPUs that serve the model, and their cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Deployment {
    /// Number of GPUs that serve the model (`--gpus`); without it, those that exporters report
    /// count.
    #[serde(default)]
    pub gpus: Option<u64>,
    /// Price of one GPU for an hour (`--gpu-hour-price`).
    #[serde(default)]
    pub gpu_hour_price: Option<f64>,
    /// Price of a kilowatt-hour (`--power-price`).
    #[serde(default)]
    pub power_price: Option<f64>,
}

/// The inputs of a metric of the deployment.
#[derive(Debug, Clone, Copy)]
pub struct DeploymentFacts<'a> {
    deployment: &'a Deployment,
    /// The GPUs that exporters report, by vendor.
    fleets: &'a [Fleet],
    /// Results of the profiling phase.
    results: &'a [MetricResult],
    /// The configured concurrency.
    concurrency: Option<u64>,
}

impl DeploymentFacts<'_> {
    /// Returns the number of GPUs.
    pub fn gpus(&self) -> Option<f64> {
        let reported = self.fleets.iter().map(|fleet| fleet.gpus).sum();
        let gpus = self.deployment.gpus.unwrap_or(reported);
        (gpus > 0).then_some(gpus as f64)
    }

    /// Returns the mean or the single value of `tag`, in its display unit.
    pub fn result(&self, tag: MetricTag) -> Option<f64> {
        let result = self.results.iter().find(|result| result.metric.tag == tag)?;
        Some(result.stats.avg).filter(|value| value.is_finite())
    }

    /// Returns the result of `tag` divided by the number of GPUs.
    pub fn per_gpu(&self, tag: MetricTag) -> Option<f64> {
        quotient(self.result(tag)?, self.gpus()?)
    }

    /// Returns the configured concurrency divided by the number of GPUs.
    pub fn users_per_gpu(&self) -> Option<f64> {
        quotient(self.concurrency? as f64, self.gpus()?)
    }

    /// Returns the cost of the profiling phase: the hours of all GPUs, and their energy if it has a
    /// price. `None` without a price, or if something that has a price is not known.
    pub fn cost(&self) -> Option<f64> {
        let Deployment { gpu_hour_price, power_price, .. } = self.deployment;
        let hours = self.result(tag::BENCHMARK_DURATION)? / 3600.0;
        let of_gpus = match gpu_hour_price {
            Some(price) => Some(self.gpus()? * hours * price),
            None => None,
        };
        let of_energy = match power_price {
            Some(price) => Some(self.average_kilowatts()? * hours * price),
            None => None,
        };
        match (of_gpus, of_energy) {
            (None, None) => None,
            (gpus, energy) => Some(gpus.unwrap_or(0.0) + energy.unwrap_or(0.0)),
        }
    }

    /// Returns the cost of the profiling phase divided by the result of `tag`.
    pub(crate) fn cost_per(&self, tag: MetricTag) -> Option<f64> {
        quotient(self.cost()?, self.result(tag)?)
    }

    /// Returns the power of all GPUs that exporters report; `None` if that of any vendor's is not
    /// known.
    fn average_kilowatts(&self) -> Option<f64> {
        let watts: Option<f64> = self.fleets.iter().map(Fleet::average_watts).sum();
        watts.filter(|_| !self.fleets.is_empty()).map(|watts| watts / 1e3)
    }
}

/// Computes the metrics of the deployment and of its GPUs from the `results` of the requests;
/// `concurrency` is the configured one.
#[must_use]
pub fn results(
    deployment: &Deployment,
    fleets: &[Fleet],
    results: &[MetricResult],
    concurrency: Option<u64>,
) -> Vec<MetricResult> {
    let facts = DeploymentFacts { deployment, fleets, results, concurrency };
    let of_deployment = |metric: &'static super::Metric| match metric.kind {
        MetricKind::OfDeployment(compute) => {
            let avg = compute(&facts).filter(|value| value.is_finite())?;
            Some(MetricResult { metric, stats: Stats { avg, ..Stats::default() } })
        }
        _ => None,
    };
    let mut found = gpu::results(fleets, results, concurrency);
    found.extend(Registry::catalogue().iter().copied().filter_map(of_deployment));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::gpu::{Energy, EnergySource, Vendor};

    fn result(tag: MetricTag, avg: f64) -> MetricResult {
        let metric = Registry::row(tag).unwrap();
        MetricResult { metric, stats: Stats { avg, ..Stats::default() } }
    }

    fn fleet(gpus: u64, joules: f64) -> Fleet {
        let energy = Energy {
            joules,
            min_joules: joules,
            max_joules: joules,
            source: EnergySource::Counter,
        };
        Fleet {
            vendor: Vendor::Nvidia,
            gpus,
            seconds: 1800.0,
            energy: Some(energy),
            power_watts: None,
            idle_watts: None,
        }
    }

    /// Half an hour of 1,800 requests, with 3.6 million input tokens and 0.9 million output tokens.
    fn requests() -> Vec<MetricResult> {
        vec![
            result(tag::BENCHMARK_DURATION, 1800.0),
            result(tag::REQUEST_COUNT, 1800.0),
            result(tag::TOTAL_ISL, 3.6e6),
            result(tag::TOTAL_OSL, 0.9e6),
            result(tag::OUTPUT_TOKEN_THROUGHPUT, 500.0),
            result(tag::TOTAL_TOKEN_THROUGHPUT, 2500.0),
            result(tag::REQUEST_THROUGHPUT, 1.0),
        ]
    }

    fn value_of_metric(deployment: &Deployment, fleets: &[Fleet], tag: MetricTag) -> Option<f64> {
        let results = results(deployment, fleets, &requests(), Some(64));
        results.iter().find(|result| result.metric.tag == tag).map(|result| result.stats.avg)
    }

    #[test]
    fn throughput_and_users_are_divided_by_the_gpus() {
        let deployment = Deployment { gpus: Some(8), ..Deployment::default() };
        let value = |tag| value_of_metric(&deployment, &[], tag);
        assert_eq!(value(tag::GPU_COUNT), Some(8.0));
        assert_eq!(value(tag::OUTPUT_TOKEN_THROUGHPUT_PER_GPU), Some(62.5));
        assert_eq!(value(tag::TOTAL_TOKEN_THROUGHPUT_PER_GPU), Some(312.5));
        assert_eq!(value(tag::REQUEST_THROUGHPUT_PER_GPU), Some(0.125));
        assert_eq!(value(tag::USERS_PER_GPU), Some(8.0));
        assert_eq!(value(tag::COST_PER_REQUEST), None);
    }

    #[test]
    fn gpus_that_exporters_report_count_unless_their_number_is_given() {
        let fleets = [fleet(2, 1.0), fleet(2, 1.0)];
        let given = Deployment { gpus: Some(2), ..Deployment::default() };
        assert_eq!(value_of_metric(&Deployment::default(), &fleets, tag::GPU_COUNT), Some(4.0));
        assert_eq!(value_of_metric(&given, &fleets, tag::GPU_COUNT), Some(2.0));
        assert_eq!(value_of_metric(&Deployment::default(), &[], tag::GPU_COUNT), None);
    }

    #[test]
    fn costs_are_those_of_the_hours_and_of_the_energy() {
        // Half an hour of 8 GPUs at 2.50 an hour is 10.
        let hours =
            Deployment { gpus: Some(8), gpu_hour_price: Some(2.5), ..Deployment::default() };
        let close = |deployment: &Deployment, fleets: &[Fleet], tag, expected: f64| {
            let found = value_of_metric(deployment, fleets, tag).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-12, "{tag}: {found}, not {expected}");
        };
        close(&hours, &[], tag::COST_PER_REQUEST, 10.0 / 1800.0);
        close(&hours, &[], tag::COST_PER_MILLION_INPUT_TOKENS, 10.0 / 3.6);
        close(&hours, &[], tag::COST_PER_MILLION_OUTPUT_TOKENS, 10.0 / 0.9);
        close(&hours, &[], tag::COST_PER_MILLION_TOKENS, 10.0 / 4.5);
        // 9 MJ are 2.5 kWh, which cost 0.50 at 0.20.
        let both = Deployment { power_price: Some(0.2), ..hours };
        close(&both, &[fleet(8, 9e6)], tag::COST_PER_REQUEST, 10.5 / 1800.0);
        // The energy is not known, so that neither is the cost.
        assert_eq!(value_of_metric(&both, &[], tag::COST_PER_REQUEST), None);
        let energy = Deployment { power_price: Some(0.2), ..Deployment::default() };
        close(&energy, &[fleet(8, 9e6)], tag::COST_PER_REQUEST, 0.5 / 1800.0);
    }
}
