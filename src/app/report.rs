//! `aiperf report`: recomputes summaries from the records of a run, its shards, or several
//! runs.

use std::io::{self, Write};
use std::path::Path;

use anyhow::bail;

use base::interrupt::Interrupt;
use base::platform::signals;
use base::redact;
use measure::multi_run::sweep::Step;
use measure::multi_run::{
    self, Failure, GroupResults, Next, Planner, RunResult, Trials, Variation,
};
use results::artifacts::rebuild::{self, Group, GroupRun, Rebuilt, ReportError, Wanted};
use results::console;
use results::follow::Followers;
use results::mlflow::Resender;
use results::terminal::Stderr;

use super::ending::{
    Delivery, Ending, GroupEnding, RunEnding, Runs, deliver, line_of_cell, line_of_run,
};
use super::outcome::Outcome;
use super::output::Output;
use super::{gates, page};
use crate::cli::Report;

/// Recomputes the summaries of the directories. A single directory is that of a run or of
/// several runs; several directories are the shards of one run.
pub(super) fn report(asked: &Report, out: &mut impl Write) -> anyhow::Result<Outcome> {
    signals::survive_full_files()?;
    gates::check(asked.judge.junit.as_deref())?;
    page::check(asked.page.as_ref())?;
    let delivery = delivery(asked);
    let mut out = Output::new(out);
    let ending = match (asked.directories.as_slice(), asked.artifact_dir.clone()) {
        ([only], None) => {
            if let Some(group) = Group::find(only)? {
                let read = |path: &Path| {
                    let mut run = read(path, asked)?;
                    run.tell(&delivery.followers, &delivery.interrupt);
                    Ok(run)
                };
                Ending::Group(Box::new(gathered(only, group, read, &mut out)?))
            } else {
                let needs_server_metrics = asked.page.is_some();
                let wanted = Wanted { needs_server_metrics, ..wanted(asked) };
                one(rebuild::rebuild_with(only, wanted)?, asked)?
            }
        }
        (parts, place) => one(
            rebuild::combine(
                parts,
                place,
                asked.overwrite,
                &asked.judge.gates,
                &asked.percentiles,
            )?,
            asked,
        )?,
    };
    let outcome = deliver(ending, &delivery, &mut out);
    out.finish(outcome)
}

/// Returns what to write and print besides the files of the runs.
fn delivery(asked: &Report) -> Delivery {
    let mut followers = Followers::default();
    if let Some(mlflow) = &asked.mlflow {
        followers.add(std::sync::Arc::new(Resender::new((**mlflow).clone())));
    }
    Delivery {
        page: asked.page.clone(),
        junit: asked.judge.junit.clone(),
        undecided: asked.judge.undecided,
        auto_plot: asked.auto_plot,
        tables: asked.tables,
        lists_files: asked.files,
        followers,
        interrupt: Interrupt::never(),
    }
}

/// Writes the files of a single run.
fn one(rebuilt: Rebuilt, asked: &Report) -> anyhow::Result<Ending> {
    Ok(Ending::Run(Box::new(written(rebuilt, asked.overwrite)?)))
}

/// Returns the results of the `group` in `directory`, whose runs `read` reads, with the statistics over
/// all.
pub(super) fn gathered(
    directory: &Path,
    group: Group,
    read: impl Fn(&Path) -> Result<RunEnding, Failure>,
    out: &mut Output<'_>,
) -> anyhow::Result<GroupEnding> {
    warn(&group.notes)?;
    let Group { config, sweep_id, cells, runs: planned, .. } = group;
    let all = config.planned(cells.len());
    let trials = |variation| (variation, Trials::new(config.clone(), sweep_id));
    let mut cells: Vec<(Option<Variation>, Trials)> = cells.into_iter().map(trials).collect();
    let mut runs = Runs::default();
    let mut results: Vec<(usize, RunResult)> = Vec::new();
    for GroupRun { number, cell, member, directory: place } in planned {
        let run = match read(&directory.join(&place)) {
            Ok(run) => runs.add(run, member, place, &config),
            Err(failure) => runs.add_failed(failure, member, place, &config),
        };
        out.say(&line_of_run(&config, &run, number, all));
        results.push((cell, run));
    }
    replay(&config, &mut cells, results, out);
    check_any(directory, cells.iter().flat_map(|(_, trials)| &trials.runs))?;
    let results = GroupResults::from_cells(&config, sweep_id, cells);
    Ok(GroupEnding { directory: directory.to_owned(), results, runs, cut: None })
}

/// Adds the results to their cells, and prints the lines about loads of a search in the order in which
/// it made their runs.
fn replay(
    config: &multi_run::Config,
    cells: &mut [(Option<Variation>, Trials)],
    mut results: Vec<(usize, RunResult)>,
    out: &mut Output<'_>,
) {
    let planner = Planner::from_config(config);
    let mut begun = 0;
    while config.sweep.as_ref().is_some_and(|sweep| sweep.search().is_some()) {
        let known: Vec<&Trials> = cells.iter().take(begun).map(|(_, trials)| trials).collect();
        let step = planner.step(config.runs, &known).or_else(|| {
            match planner.next(varied(cells, begun))? {
                Next::Again(step) => Some(step),
                Next::Cell(_) => Some(Step { cell: begun, trial: 0 }),
            }
        });
        let is_next = |(cell, run): &(usize, RunResult)| {
            step.is_some_and(|step| step.cell == *cell && step.trial == run.member.trial)
        };
        let Some(at) = results.iter().position(is_next) else { break };
        let (cell, run) = results.remove(at);
        begun = begun.max(cell + 1);
        let Some((_, trials)) = cells.get_mut(cell) else { break };
        trials.add(run);
        if !trials.is_short() {
            out.say(&line_of_cell(config, Some(cell), varied(cells, begun)));
        }
    }
    for (cell, run) in results {
        if let Some((_, trials)) = cells.get_mut(cell) {
            trials.add(run);
        }
    }
}

/// The first `count` of the cells, with their settings.
fn varied(
    cells: &[(Option<Variation>, Trials)],
    count: usize,
) -> impl Iterator<Item = (&Variation, &Trials)> {
    let begun = cells.iter().take(count);
    begun.filter_map(|(variation, trials)| Some((variation.as_ref()?, trials)))
}

/// Recomputes the summaries of the run in `directory`.
fn read(directory: &Path, asked: &Report) -> Result<RunEnding, Failure> {
    let rebuilt = rebuild::rebuild_with(directory, wanted(asked)).map_err(|error| {
        let was_killed = matches!(error, ReportError::Empty { was_killed: true, .. });
        let why = error.to_string();
        if was_killed { Failure::Partial(why) } else { Failure::Client(why) }
    })?;
    written(rebuilt, asked.overwrite).map_err(|error| Failure::Client(format!("{error:#}")))
}

/// Returns an error if the summaries of no run could be recomputed.
fn check_any<'a>(
    directory: &Path,
    runs: impl IntoIterator<Item = &'a RunResult>,
) -> anyhow::Result<()> {
    if runs.into_iter().all(|run| run.benchmark_id.is_none()) {
        bail!("the summaries of none of the runs in {} can be recomputed", directory.display());
    }
    Ok(())
}

fn wanted(asked: &Report) -> Wanted<'_> {
    let percentiles = &asked.percentiles;
    Wanted { gates: &asked.judge.gates, percentiles, ..Wanted::default() }
}

/// Writes the files of a run, also in place of those that cover more requests if `overwrite` is
/// set.
pub(super) fn written(mut rebuilt: Rebuilt, overwrite: bool) -> anyhow::Result<RunEnding> {
    let text = console::render_file(&rebuilt.report);
    if !overwrite {
        rebuilt.check_coverage()?;
    }
    let files = rebuild::write(&mut rebuilt, &text);
    warn(&rebuilt.notes)?;
    let files = Ok(files?);
    let Rebuilt { report, layout, profiling, .. } = rebuilt;
    Ok(RunEnding { report, layout, values: profiling, files })
}

pub(super) fn warn(notes: &[String]) -> io::Result<()> {
    let said = |note: &String| writeln!(Stderr, "warning: {}", redact::printable(note));
    notes.iter().try_for_each(said)
}
