//! Tenants compared with each other: what each got of the throughput for its share.

use serde::{Deserialize, Serialize};

use super::GroupResult;
use crate::metrics::tag::{self, MetricTag};

/// The settings of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entitled {
    pub name: String,
    /// Share of the throughput that it is entitled to; those of all tenants sum to 1.
    pub share: f64,
    /// Mean request latency in milliseconds of a run in which it was alone, if there was one.
    #[serde(default)]
    pub alone_latency_ms: Option<f64>,
}

/// The tenants compared with each other.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Tenants {
    /// Jain's index of fairness over the throughput of each tenant divided by its share: from 1/n, if
    /// one of n tenants had everything, to 1, if each had its share. Absent if none had any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain_index: Option<f64>,
    /// The unit of the throughput.
    pub counted: Counted,
    /// In the order of the file.
    pub tenants: Vec<Tenant>,
}

/// The unit of the throughput of tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Output tokens of successful requests.
    OutputTokens,
    /// Successful requests, if the endpoint does not produce tokens.
    Requests,
}

/// One tenant.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Tenant {
    /// Its name, as in `by_tenant`.
    pub name: String,
    /// Share of the throughput that it is entitled to.
    pub share: f64,
    /// Share of the throughput that it had.
    pub throughput_share: f64,
    /// Mean request latency divided by that of the run in which it was alone, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
}

/// Compares `entitled`, whose results are among `groups`; `None` without tenants.
pub(super) fn compare(entitled: &[Entitled], groups: &[GroupResult]) -> Option<Tenants> {
    if entitled.is_empty() {
        return None;
    }
    let value = |name: &str, tag: MetricTag| {
        groups.iter().find(|group| *group.name == *name)?.value(tag, "avg")
    };
    let has_tokens = entitled.iter().any(|it| value(&it.name, tag::TOTAL_OSL).is_some());
    let (counted, tag) = if has_tokens {
        (Counted::OutputTokens, tag::TOTAL_OSL)
    } else {
        (Counted::Requests, tag::REQUEST_COUNT)
    };
    // All over the same time, so that counts compare as rates do.
    let throughput = |it: &Entitled| value(&it.name, tag).unwrap_or(0.0);
    let total: f64 = entitled.iter().map(throughput).sum();
    let tenants = entitled.iter().map(|it| Tenant {
        name: it.name.clone(),
        share: it.share,
        throughput_share: if total > 0.0 { throughput(it) / total } else { 0.0 },
        slowdown: value(&it.name, tag::REQUEST_LATENCY)
            .zip(it.alone_latency_ms.filter(|alone| *alone > 0.0))
            .map(|(here, alone)| here / alone),
    });
    let by_share: Vec<f64> = entitled.iter().map(|it| throughput(it) / it.share).collect();
    Some(Tenants { jain_index: jain_index(&by_share), counted, tenants: tenants.collect() })
}

/// Returns Jain's index of fairness, (Σx)² / (n·Σx²), if any value is above 0 (Jain, Chiu and Hawe, "A
/// quantitative measure of fairness and discrimination for resource allocation in shared computer
/// systems", 1984).
fn jain_index(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_that_of_the_formula() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0]), Some(1.0));
        // One of four has everything: 1/4.
        assert_eq!(jain_index(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        // (1 + 3)² / (2·(1 + 9)) = 16/20.
        assert_eq!(jain_index(&[1.0, 3.0]), Some(0.8));
        assert_eq!(jain_index(&[0.0, 0.0]), None);
        assert_eq!(jain_index(&[]), None);
    }
}
