//! The runs that are made of one configuration.

use std::path::PathBuf;

use super::RunConfig;
use crate::dataset::Seed;
use crate::multi_run::Member;
use crate::schedule::PhaseKind;
use crate::schedule::config::Limit;

impl RunConfig {
    /// The run `member`, whose files go to `directory`: without the warmup after the
    /// first, unless that is wanted, and with a seed of its own, if that is.
    #[must_use]
    pub fn run_of_many(&self, member: Member, directory: PathBuf) -> Self {
        let mut config = self.clone();
        config.artifacts.directory = directory;
        if member.trial > 0 && !self.multi_run.repeats_warmup {
            config.schedule.phases.retain(|phase| phase.kind != PhaseKind::Warmup);
        }
        if let Some(seed) = self.dataset.random_seed.filter(|_| self.multi_run.varies_seed) {
            let load = member.variation.as_ref().map_or(0, |variation| variation.index);
            let name = format!("run.{load}.{}", member.trial);
            // As many bits as a reader of JSON keeps.
            config.dataset.random_seed = Some(Seed(seed).derive(&name).0 >> 32);
        }
        config.member = Some(member);
        config
    }

    /// The same with `concurrency` sessions in flight: with requests for two rounds of
    /// them at least, and the warmup likewise, if it is to follow.
    #[must_use]
    pub fn at_concurrency(&self, concurrency: u64) -> Self {
        let mut config = self.clone();
        let follows = self.multi_run.search.is_some_and(|search| search.warmup_follows);
        for phase in &mut config.schedule.phases {
            let is_measurement = phase.kind == PhaseKind::Profiling;
            if is_measurement {
                let rounds = concurrency.saturating_mul(2);
                phase.stop.requests = phase.stop.requests.map(|given| given.max(rounds));
            }
            if is_measurement || (follows && phase.concurrency.is_some()) {
                let most = concurrency.min(phase.stop.requests.unwrap_or(concurrency)).max(1);
                phase.concurrency = Some(Limit::constant(most));
            }
            let most = phase.concurrency.map_or(concurrency, |limit| limit.most);
            if let Some(prefill) = &mut phase.prefill_concurrency {
                prefill.most = prefill.most.min(most);
            }
        }
        config
    }
}
