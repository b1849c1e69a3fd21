//! Client health of the combined shards of a run.

use super::client_health::{ClientHealth, Cpu, Queue, Reads, Reason, Verdict};
use super::collect::Health;
use super::load::LoadReport;
use super::verdict;

/// Maximum number of reasons listed; there may be a thousand shards.
const MAX_REASONS: usize = 20;

impl ClientHealth {
    /// Combines the health of `clients`, given by name. Counts are summed, slips, retries and
    /// error bounds are those of all `records`, ratios those of the whole `load`. The verdict is
    /// the worst of the clients' and that of the error bounds, with the reasons of all. Percentiles
    /// that only the clients' own summaries have are left out, since percentiles cannot be
    /// combined. `None` if nothing is known.
    #[must_use]
    pub fn combined(
        clients: &[(String, Self)],
        records: &Health,
        load: &LoadReport,
    ) -> Option<Self> {
        if clients.is_empty() {
            return records.recomputed(None, load);
        }
        let all = || clients.iter().map(|(_, client)| client);
        let ratio = |reached: f64, asked: f64| Some(reached / asked).filter(|r| r.is_finite());
        let rate = load.requested_rate.zip(load.reached_rate);
        let error_bounds_ms = records.error_bounds();
        let mut health = Self {
            error_bounds_ms,
            throughput_bounds: records.rate_bounds(load).filter(|_| error_bounds_ms.is_some()),
            schedule_slip_ms: records.slips(),
            reads: all().filter_map(|client| client.reads).reduce(Reads::and),
            queue: all().filter_map(|client| client.queue).reduce(Queue::and),
            cpu: all().filter_map(|client| client.cpu).reduce(Cpu::and),
            rate_ratio: rate.and_then(|(asked, reached)| ratio(reached, asked)),
            concurrency_ratio: load
                .requested_concurrency
                .and_then(|asked| ratio(load.reached_concurrency as f64, asked as f64)),
            retries: Some(records.retries()),
            ..Self::default()
        };
        let of_all =
            [verdict::uncertain_statistic(&health), verdict::uncertain_throughput(&health)];
        let of_all: Vec<Reason> = of_all.into_iter().flatten().collect();
        let verdicts = all().filter_map(|client| client.verdict);
        health.verdict = verdicts.chain(of_all.iter().map(|reason| reason.verdict)).max();
        health.reasons = reasons(clients, of_all);
        Some(health)
    }
}

/// Returns the reasons, the most serious first: those of all clients together, and those of each
/// client with its name.
fn reasons(clients: &[(String, ClientHealth)], of_all: Vec<Reason>) -> Vec<Reason> {
    let of_clients = clients.iter().flat_map(|(name, client)| {
        client.reasons.iter().map(move |reason| Reason {
            finding: format!("{name}: {}", reason.finding),
            ..reason.clone()
        })
    });
    let mut all: Vec<Reason> = of_all.into_iter().chain(of_clients).collect();
    all.sort_by_key(|reason| std::cmp::Reverse(reason.verdict));
    if all.len() > MAX_REASONS {
        let rest = all.split_off(MAX_REASONS);
        all.push(Reason {
            verdict: rest.first().map_or(Verdict::Suspect, |reason| reason.verdict),
            name: "further-findings".into(),
            finding: format!("{} further findings", rest.len()),
            advice: "see the summary of each shard".to_owned(),
        });
    }
    all
}

impl Reads {
    fn and(self, other: Self) -> Self {
        let total = self.total.saturating_add(other.total);
        let kernel_stamped = self.kernel_stamped.saturating_add(other.kernel_stamped);
        let kernel_share = kernel_stamped as f64 / total.max(1) as f64;
        Self { total, kernel_stamped, kernel_share }
    }
}

impl Queue {
    /// Sums queue statistics, including limit and peak, since each host has its own memory.
    const fn and(self, other: Self) -> Self {
        Self {
            budget_bytes: self.budget_bytes.saturating_add(other.budget_bytes),
            peak_bytes: self.peak_bytes.saturating_add(other.peak_bytes),
            pauses: self.pauses.saturating_add(other.pauses),
            spilled_records: self.spilled_records.saturating_add(other.spilled_records),
            spilled_bytes: self.spilled_bytes.saturating_add(other.spilled_bytes),
            kept_over_budget: self.kept_over_budget.saturating_add(other.kept_over_budget),
            lost_records: self.lost_records.saturating_add(other.lost_records),
        }
    }
}

impl Cpu {
    fn and(self, other: Self) -> Self {
        let workers = self.workers.saturating_add(other.workers);
        let busy = |cpu: &Self| cpu.worker_mean * cpu.workers as f64;
        Self {
            workers,
            worker_max: self.worker_max.max(other.worker_max),
            worker_mean: (busy(&self) + busy(&other)) / workers.max(1) as f64,
            process: self.process + other.process,
            cores: self.cores.saturating_add(other.cores),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::metrics::fixture;
    use client::record::RequestError;

    use super::*;
    use crate::metrics::health::ClientErrors;
    use crate::metrics::metric::{Observation, RecordValues, Value};
    use crate::metrics::tag;

    const MS: u64 = 1_000_000;

    fn client(verdict: Verdict, worker_max: f64, reasons: usize) -> ClientHealth {
        let (finding, advice) = ("slow".to_owned(), "help".to_owned());
        let reason = Reason { verdict, name: "late-sends".into(), finding, advice };
        ClientHealth {
            verdict: Some(verdict),
            reasons: vec![reason; reasons],
            reads: Some(Reads { total: 10, kernel_stamped: 5, kernel_share: 0.5 }),
            cpu: Some(Cpu {
                workers: 2,
                worker_max,
                worker_mean: worker_max / 2.0,
                process: 1.0,
                cores: 4,
            }),
            queue: Some(Queue { lost_records: 3, ..Queue::default() }),
            ..ClientHealth::default()
        }
    }

    fn request(latency_ns: f64, error: Option<RequestError>) -> Observation {
        let mut values = RecordValues::default();
        values.set(tag::REQUEST_LATENCY, Value::Scalar(latency_ns));
        Observation {
            start_wall_ns: 10 * MS,
            end_wall_ns: 10 * MS + latency_ns as u64,
            error,
            values,
            ..fixture::observation()
        }
    }

    /// The lines of failed requests with these slips and as many retries each.
    fn lines(slips_ms: &[u64], retries: u64) -> Health {
        let mut health = Health::default();
        for slip in slips_ms {
            let failed = request(1e6, Some(RequestError::cancelled("")));
            health.observe_line(&failed, Some((10 - slip) * MS), retries, None);
        }
        health
    }

    #[test]
    fn statistics_of_all_shards_are_judged_too() {
        let clients = [
            ("shard 0".to_owned(), client(Verdict::Valid, 0.2, 0)),
            ("shard 1".to_owned(), client(Verdict::Suspect, 0.4, 1)),
        ];
        let mut records = Health::default();
        for number in 0..400 {
            // 3% were sent 40 ms late.
            let (latency, send_delay) = if number % 33 == 0 { (100.0, 40 * MS) } else { (60.0, 0) };
            let late = Some(0);
            let errors = ClientErrors { send_delay, late, ..ClientErrors::default() };
            records.observe_line(&request(latency * 1e6, None), None, 0, Some(errors));
        }
        let load = LoadReport::default();
        let health = ClientHealth::combined(&clients, &records, &load).unwrap();
        let p99 = health.error_bounds_ms.unwrap().request_latency.unwrap().p99;
        assert_eq!((p99.value, p99.below), (100.0, 40.0));
        assert_eq!(health.verdict, Some(Verdict::Invalid));
        let findings: Vec<_> = health.reasons.iter().map(|reason| &*reason.finding).collect();
        assert_eq!(
            findings,
            [
                "the client was late to send or to read, so that the p99 of the request latency, \
                 100 ms, may be 40.0 ms (40%) lower",
                "shard 1: slow"
            ]
        );
    }

    #[test]
    fn the_worst_client_decides_and_is_named() {
        let clients = [
            ("shard 0".to_owned(), client(Verdict::Valid, 0.2, 0)),
            ("shard 1".to_owned(), client(Verdict::Suspect, 0.4, 1)),
            ("shard 2".to_owned(), client(Verdict::Invalid, 0.6, 1)),
        ];
        let load = LoadReport {
            requested_rate: Some(10.0),
            reached_rate: Some(9.0),
            ..LoadReport::default()
        };
        let health = ClientHealth::combined(&clients, &lines(&[1, 3], 7), &load).unwrap();
        assert_eq!(health.verdict, Some(Verdict::Invalid));
        let findings: Vec<_> = health.reasons.iter().map(|reason| &*reason.finding).collect();
        assert_eq!(findings, ["shard 2: slow", "shard 1: slow"]);
        assert_eq!(health.schedule_slip_ms.unwrap().avg, 2.0);
        assert_eq!((health.retries, health.rate_ratio), (Some(14), Some(0.9)));
        assert_eq!(health.reads.unwrap().kernel_share, 0.5);
        assert_eq!(health.queue.unwrap().lost_records, 9);
        let cpu = health.cpu.unwrap();
        assert_eq!((cpu.workers, cpu.worker_max, cpu.cores), (6, 0.6, 12));
        assert!((cpu.worker_mean - 0.2).abs() < 1e-12);
    }

    #[test]
    fn a_thousand_reasons_are_not_all_told() {
        let clients = [("shard 0".to_owned(), client(Verdict::Suspect, 0.5, 1000))];
        let load = LoadReport::default();
        let health = ClientHealth::combined(&clients, &lines(&[], 0), &load).unwrap();
        assert_eq!(health.reasons.len(), MAX_REASONS + 1);
        assert!(health.reasons[MAX_REASONS].finding.starts_with("980 further"));
        let nothing = ClientHealth::combined(&[], &lines(&[], 0), &load);
        assert!(nothing.is_none());
    }
}
