//! `aiperf capacity`: what a server does at loads that were not tried.

use std::io::Write;
use std::path::Path;

use anyhow::{anyhow, bail};
use uuid::Uuid;

use measure::multi_run::capacity::{Demand, Level, Model};
use measure::multi_run::{Config, Filter, Member, Trials};
use results::artifacts::rebuild::{self, Group, GroupRun};
use results::console;
use results::terminal::terminal_style;

use super::outcome::Outcome;
use super::profile;
use crate::cli::Capacity;
use crate::config::Benchmark;

/// Predicts what `asked` asks for, performs the `run` that confirms it if there is one, and writes the
/// result to `out`.
pub(super) fn capacity(
    asked: &Capacity,
    run: Option<Benchmark>,
    out: &mut impl Write,
) -> anyhow::Result<Outcome> {
    let think_seconds = asked.think_time.unwrap_or(0.0);
    let demand = match (asked.rate, asked.users) {
        (Some(rate), _) => Some(Demand::Rate(rate)),
        (None, Some(users)) => Some(Demand::Users { count: users as f64, think_seconds }),
        (None, None) => None,
    };
    if asked.confirm.is_some() && demand.is_none() {
        bail!("--confirm requires --rate or --users, which say what is predicted");
    }
    let levels = levels(&asked.directory, &asked.objectives)?;
    let model = Model::fit(levels, asked.confidence_level)
        .map_err(|why| anyhow!("{}: {why}", asked.directory.display()))?;
    let style = terminal_style();
    let mut text = console::capacity::render(&model, style);
    let prediction = demand.and_then(|demand| model.predict(demand));
    if let Some(demand) = demand {
        text += &console::capacity::render_prediction(
            demand,
            prediction.as_ref(),
            &asked.objectives,
            style,
        );
    }
    if !asked.objectives.is_empty() {
        let most = model.most_users(think_seconds, &asked.objectives);
        text += &console::capacity::render_replicas(
            most,
            asked.users,
            think_seconds,
            &asked.objectives,
        );
    }
    let mut outcome = Outcome::Done;
    if let Some(run) = run.filter(|_| prediction.is_some()) {
        profile::check_place(&run.config)?;
        let ended = profile::profile(run, out)?;
        if ended != Outcome::Done {
            return Ok(ended);
        }
    }
    match (&asked.confirm, &prediction) {
        (Some(directory), Some(prediction)) => {
            let run = confirming(directory, &asked.objectives)?;
            let of_run = demand.and_then(|demand| model.predict_run(demand, run.requests));
            let compared = of_run.as_ref().unwrap_or(prediction).compare(&run);
            if compared.iter().any(|(.., is_true)| !is_true) {
                outcome = Outcome::Missed;
            }
            text += &console::capacity::render_confirmed(&compared, style);
        }
        (Some(_), None) => bail!("there is no prediction to confirm: {text}"),
        (None, _) => text += &demand.map(console::capacity::render_command).unwrap_or_default(),
    }
    out.write_all(text.as_bytes())?;
    Ok(outcome)
}

/// Returns the loads of the group in `directory`.
fn levels(directory: &Path, objectives: &[Filter]) -> anyhow::Result<Vec<Level>> {
    let Some(Group { config, sweep_id, cells, runs, .. }) = Group::find(directory)? else {
        bail!(
            "{} is not the directory of a sweep or a search; make one with --concurrency 1,2,4,8,16 or \
             --sweep-auto",
            directory.display()
        );
    };
    let mut all: Vec<Trials> =
        cells.iter().map(|_| Trials::new(config.clone(), sweep_id)).collect();
    for GroupRun { cell, member, directory: place, .. } in runs {
        // A run that cannot be read is not a load that was tried.
        let Ok(rebuilt) = rebuild::rebuild(&directory.join(&place)) else { continue };
        if let Some(trials) = all.get_mut(cell) {
            trials.add(rebuilt.into_result(member, place, &config));
        }
    }
    let cells = cells.iter().zip(&all);
    let level = |(cell, trials): (&Option<_>, &Trials)| {
        Level::from_trials(cell.as_ref()?, trials, objectives)
    };
    Ok(cells.filter_map(level).collect())
}

/// Returns the run in `directory`.
fn confirming(directory: &Path, objectives: &[Filter]) -> anyhow::Result<Level> {
    let rebuilt = rebuild::rebuild(directory)?;
    let member = Member::new(Uuid::nil(), 0, None);
    let run = rebuilt.into_result(member, directory.to_owned(), &Config::default());
    Level::of_run(&run, objectives)
        .ok_or_else(|| anyhow!("{} does not have a throughput and a latency", directory.display()))
}
