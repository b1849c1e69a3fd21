//! A run of several processes that agree on its start (`--shard auto`).

use std::io::{self, Write};

use anyhow::Context as _;

use base::interrupt::Interrupt;
use results::artifacts::ExportLevel;
use results::artifacts::rebuild;
use results::follow::Followers;

use super::measure::Measured;
use super::{Outcome, Run};
use crate::app::ending::{Delivery, Ending, deliver};
use crate::app::output::Output;
use crate::app::report;
use crate::app::shards::{Barrier, Member, Together};
use crate::app::start::Start;
use crate::config::RunConfig;

impl Run {
    /// Waits for the other shards and takes the start on which all agree; `None` if the start does
    /// not depend on others, or if the user interrupts.
    pub(super) fn meet_others(&mut self, interrupt: &Interrupt) -> anyhow::Result<Option<Member>> {
        // Without a start, the ID is that of the settings that the shards share.
        let settings = self.description.benchmark_id;
        let lead = Start::lead(&self.config);
        let Some(barrier) = Barrier::from_config(&self.config, settings, lead)? else {
            return Ok(None);
        };
        let Some(met) = barrier.meet(interrupt)? else { return Ok(None) };
        self.config.schedule.start_at = Some(met.start_at_ns);
        self.config.warnings.extend(met.warnings);
        self.description.start_at_ns = Some(met.start_at_ns);
        self.description.agreement = Some(met.agreement);
        self.description.benchmark_id = self.config.benchmark_id(self.seed);
        self.description.config = serde_json::to_value(&self.config)?;
        Ok(Some(met.member))
    }

    /// Writes the files of this shard. Shard 0 then combines those of all, and prints the results; if
    /// there are no records, each shard prints its own.
    pub(super) fn finish_together(
        mut self,
        measured: Measured,
        member: &Member,
        followers: Followers,
        interrupt: &Interrupt,
        out: &mut impl Write,
    ) -> anyhow::Result<Outcome> {
        if self.config.artifacts.export_level == ExportLevel::Summary {
            return self.finish(measured, followers, interrupt, out);
        }
        let (config, id) = (self.config.clone(), self.description.benchmark_id);
        // What describes the whole run is not for a shard.
        self.config.page = None;
        self.config.auto_plot = results::report::plot::AutoPlot::Off;
        let own = self.finish(measured, followers, interrupt, &mut io::sink());
        if member.shard().index() != 0 {
            return own;
        }
        let interrupt = &interrupt.since_now();
        member.wait_for_others(interrupt);
        let combined = combine(&config, member, id, interrupt, out);
        let combined = combined.context("cannot combine the shards");
        own.and_then(|own| if own == Outcome::Done { combined } else { Ok(own) })
    }
}

/// Combines the shards of the run with this ID that have files, and prints the results.
fn combine(
    config: &RunConfig,
    member: &Member,
    id: uuid::Uuid,
    interrupt: &Interrupt,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let together = Together::from_config(config);
    let directories = rebuild::shards_of(together.directory(), member.shard().count(), id);
    let (place, overwrite) = (Some(together.combined()), together.overwrites());
    let rebuilt = rebuild::combine(&directories, place, overwrite, &[], &[])?;
    let ending = Ending::Run(Box::new(report::written(rebuilt, overwrite)?));
    let delivery = Delivery::new(config, Followers::default(), interrupt);
    let mut out = Output::new(out);
    let outcome = deliver(ending, &delivery, &mut out);
    out.finish(outcome)
}
