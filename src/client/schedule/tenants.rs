//! Tenants: clients whose requests together are the load.
//!
//! Each has a part of the load: of the rate, with arrivals of its own, or of the slots of a closed
//! loop. In an open loop, the arrivals of all are superposed, as in Xiang et al., "`ServeGen`: Workload
//! characterization and generation of large language model serving in production", 2025.

use serde::{Deserialize, Serialize};

use base::units::Nanos;
use dataset::Seed;

use super::Shard;
use super::arrivals::Arrivals;
use super::config::{ArrivalPattern, Rate, RatePoint};

/// A client that has a part of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Share of the throughput that it is entitled to; those of all tenants sum to 1.
    pub share: f64,
    /// Its part of the load; those of all tenants sum to 1.
    pub load: f64,
    /// Distribution of its arrivals; `None` is that of the phase.
    pub arrivals: Option<ArrivalPattern>,
}

/// The arrivals of several tenants in order of time.
#[derive(Debug, Clone)]
pub(super) struct Superposed {
    /// The next arrival of each tenant, and those after it.
    each: Vec<(Nanos, Arrivals)>,
    /// Number of arrivals so far, including those of other shards.
    count: u64,
    shard: Shard,
}

impl Superposed {
    /// Creates the arrivals at `rate` of all `tenants` together. The first arrival of each is after
    /// one interval of its own. Each draws from a stream of its own, so that its arrivals do not
    /// depend on the other tenants.
    pub(super) fn new(rate: &Rate, tenants: &[Tenant], seed: Seed, phase: &str) -> Self {
        let weight_of = |tenant: &Tenant| {
            let part = |point: &RatePoint| RatePoint { rate: point.rate * tenant.load, ..*point };
            let own = Rate {
                points: rate.points.iter().map(part).collect(),
                ramp: rate.ramp,
                pattern: tenant.arrivals.unwrap_or(rate.pattern),
            };
            let rng = seed.stream(&format!("timing.arrivals.{phase}.{}", tenant.name));
            let mut arrivals = Arrivals::new(&own, rng);
            // The first one is at the start.
            arrivals.next_due();
            (arrivals.next_due(), arrivals)
        };
        Self { each: tenants.iter().map(weight_of).collect(), count: 0, shard: Shard::WHOLE }
    }

    /// Restricts the arrivals to those of `shard`.
    pub(super) fn shard(self, shard: Shard) -> Self {
        Self { shard, ..self }
    }

    /// Returns the next arrival, and the index of its tenant. Of several at the same time, that of the
    /// first tenant comes first.
    pub(super) fn next(&mut self) -> Option<(Nanos, usize)> {
        loop {
            let (tenant, (next, arrivals)) =
                self.each.iter_mut().enumerate().min_by_key(|(at, (next, _))| (*next, *at))?;
            let due = std::mem::replace(next, arrivals.next_due());
            self.count += 1;
            if self.shard.has(self.count - 1) {
                return Some((due, tenant));
            }
        }
    }
}

/// Gives slots to tenants, so that at any time each has its part of them, as nearly as possible.
#[derive(Debug, Clone)]
pub struct Apportionment {
    loads: Vec<f64>,
    given: Vec<u64>,
}

impl Apportionment {
    /// Creates an apportionment of which nothing has been given.
    pub fn new(tenants: &[Tenant]) -> Self {
        let loads: Vec<f64> = tenants.iter().map(|tenant| tenant.load).collect();
        Self { given: vec![0; loads.len()], loads }
    }

    /// Returns the index of the tenant that gets the next slot: the one with the least for its part
    /// (the method of Webster); `None` without tenants.
    pub fn next(&mut self) -> Option<usize> {
        let priority = |at: &usize| self.loads[*at] / (self.given[*at] as f64 + 0.5);
        // Of equal ones, the first.
        let next = (0..self.loads.len())
            .reduce(|best, at| if priority(&at) > priority(&best) { at } else { best })?;
        self.given[next] += 1;
        Some(next)
    }

    /// Returns how many of `slots` each tenant gets.
    pub fn apportion(tenants: &[Tenant], slots: u64) -> Vec<u64> {
        let mut apportionment = Self::new(tenants);
        for _ in 0..slots {
            apportionment.next();
        }
        apportionment.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str, load: f64, arrivals: Option<ArrivalPattern>) -> Tenant {
        Tenant { name: name.to_owned(), share: load, load, arrivals }
    }

    fn superposed(rate: f64, tenants: &[Tenant]) -> Superposed {
        let rate = Rate::constant(rate, ArrivalPattern::Constant);
        Superposed::new(&rate, tenants, Seed(3), "profiling")
    }

    #[test]
    fn arrivals_of_tenants_are_in_order_of_time() {
        // 4 and 2 of 6 per second: every 250 ms and every 500 ms; of equal times, the first tenant's.
        let tenants = [tenant("a", 2.0 / 3.0, None), tenant("b", 1.0 / 3.0, None)];
        let mut arrivals = superposed(6.0, &tenants);
        let next: Vec<(f64, usize)> = (0..6)
            .map(|_| arrivals.next().map(|(due, tenant)| (due.as_seconds(), tenant)).unwrap())
            .collect();
        let expected = [(0.25, 0), (0.5, 0), (0.5, 1), (0.75, 0), (1.0, 0), (1.0, 1)];
        for (found, expected) in next.iter().zip(expected) {
            assert!((found.0 - expected.0).abs() < 1e-9 && found.1 == expected.1, "{next:?}");
        }
    }

    #[test]
    fn shards_together_have_all_arrivals() {
        let tenants = [tenant("a", 0.7, Some(ArrivalPattern::Poisson)), tenant("b", 0.3, None)];
        let take = |mut of: Superposed, count| -> Vec<(Nanos, usize)> {
            (0..count).filter_map(|_| of.next()).collect()
        };
        let whole = take(superposed(10.0, &tenants), 300);
        let mut parts: Vec<_> = (0..3)
            .flat_map(|at| take(superposed(10.0, &tenants).shard(Shard::new(at, 3)), 100))
            .collect();
        parts.sort_unstable();
        let mut sorted = whole.clone();
        sorted.sort_unstable();
        assert_eq!(parts, sorted);
    }

    #[test]
    fn a_tenant_arrives_as_if_it_were_alone() {
        let bursty = Some(ArrivalPattern::Gamma { shape: 0.5 });
        let of_b = |others: &[Tenant]| -> Vec<Nanos> {
            let mut all = others.to_vec();
            all.push(tenant("b", 0.25, bursty));
            let at = all.len() - 1;
            let mut arrivals = superposed(8.0, &all);
            let mut found = Vec::new();
            while found.len() < 50 {
                found.extend(
                    arrivals.next().filter(|(_, tenant)| *tenant == at).map(|(due, _)| due),
                );
            }
            found
        };
        assert_eq!(of_b(&[]), of_b(&[tenant("a", 0.75, None)]));
    }

    #[test]
    fn slots_are_given_by_the_parts_of_the_load() {
        let tenants = [tenant("a", 0.75, None), tenant("b", 0.25, None)];
        // 0.75/0.5 = 1.5; then 0.75/1.5 = 0.5 beside 0.25/0.5 = 0.5, of which the first; then b.
        let mut apportionment = Apportionment::new(&tenants);
        let first: Vec<_> = (0..4).filter_map(|_| apportionment.next()).collect();
        assert_eq!(first, [0, 0, 1, 0]);
        assert_eq!(Apportionment::apportion(&tenants, 16), [12, 4]);
        assert_eq!(Apportionment::apportion(&[], 3), Vec::<u64>::new());
    }
}
