//! The referee: runs benchmark clients against a mock server, and compares what they report with
//! the server's own log of its writes.
//!
//! A [`Hazard`] is what the server does and the load that is asked for. A [`Client`] is a description:
//! how the program is called, where it reports which figure, and how it defines them. [`truth`] computes
//! the figures of the log for these definitions, [`judge`] compares them with the reported ones, and
//! [`deviation`] names what explains a difference. A [reference](mod@reference) client that does
//! nothing but stamp what it reads tells how exact this machine is.

#![warn(missing_docs)]

mod client;
mod cores;
mod deviation;
mod figure;
mod hazard;
mod judge;
mod page;
mod reference;
mod report;
mod results;
mod run;
mod server;
mod tokenizer;
mod truth;

use std::ffi::OsString;
use std::io::Write;

use base::interrupt::Interrupt;
use base::platform::cores::keep_to;
use base::redact;

pub use self::client::Client;
pub use self::cores::Cores;
use self::figure::{Figures, Statistic};
pub use self::hazard::{ALL as HAZARDS, Hazard};
use self::judge::Verdict;
pub use self::report::Report;
use self::report::{Cell, ClientInfo, Judged, Outcome};
use self::run::{Failure, Finished};
pub use self::server::Server;

/// An error that no coincidence explains.
const CERTAIN: f64 = 0.2;

/// A client that is run.
#[derive(Debug, Clone)]
pub struct Contestant {
    client: Client,
    /// The arguments of `aiperf referee` that name it, for the command that repeats a cell.
    arguments: Vec<String>,
}

impl Contestant {
    /// A client that is called as its description says.
    pub fn described(client: Client, name: &str) -> Self {
        Self { client, arguments: vec!["--client".to_owned(), name.to_owned()] }
    }

    /// This program itself.
    pub fn this_program(mut client: Client, program: &OsString) -> Self {
        let program = program.to_string_lossy().into_owned();
        for line in [&mut client.command.closed, &mut client.command.open, &mut client.version] {
            line.iter_mut().take(1).for_each(|name| name.clone_from(&program));
        }
        Self { client, arguments: vec!["--self".to_owned()] }
    }

    /// Calls the client by a command of the user instead: for closed loops if it has `{concurrency}`, and
    /// for open ones if it has `{rate}`.
    #[must_use]
    pub fn called_by(mut self, command: &[String]) -> Self {
        let if_it_has = |placeholder: &str| {
            let has = command.iter().any(|argument| argument.contains(placeholder));
            if has { command.to_vec() } else { Vec::new() }
        };
        self.client.command.closed = if_it_has("{concurrency}");
        self.client.command.open = if_it_has("{rate}");
        self.client.command.extra_body = Vec::new();
        self.client.command.tls = Vec::new();
        self.arguments.push("--".to_owned());
        self.arguments.extend(command.iter().cloned());
        self
    }

    fn info(&self, interrupt: &Interrupt) -> ClientInfo {
        let Client { name, documentation, source, says, definition, .. } = self.client.clone();
        let version = run::version(&self.client.version, interrupt);
        ClientInfo { name, version, documentation, source, says, definition }
    }

    /// Returns the command that repeats a cell.
    fn repeat(&self, hazard: &Hazard) -> String {
        let command = ["aiperf", "referee", "--hazard", hazard.name];
        let arguments = self.arguments.iter().map(String::as_str);
        redact::command_line(&command.into_iter().chain(arguments).collect::<Vec<_>>())
    }
}

/// Runs each of `contestants` under each of `hazards`, again up to `repeats` times if a figure is not
/// right, and writes a line for each to `out` as it ends. Returns what was found, as far as the user did
/// not interrupt it.
///
/// # Errors
///
/// If the mock server cannot be run or its log cannot be read, or `out` cannot be written.
pub fn run(
    contestants: &[Contestant],
    hazards: &[&'static Hazard],
    repeats: usize,
    interrupt: &Interrupt,
    out: &mut impl Write,
) -> anyhow::Result<Report> {
    let cores = Cores::split();
    keep_to(&cores.client)?;
    let infos = contestants.iter().map(|it| it.info(interrupt)).collect();
    let mut report = Report::new(hazards, infos, &cores);
    for hazard in hazards {
        let mut noise = None;
        for (at, contestant) in contestants.iter().enumerate() {
            let Some(outcome) =
                outcome(contestant, hazard, repeats, &cores, &mut noise, interrupt)?
            else {
                report.is_interrupted = true;
                return Ok(report);
            };
            let cell = Cell {
                hazard: hazard.name,
                client: report.clients[at].name.clone(),
                repeat: contestant.repeat(hazard),
                outcome,
            };
            out.write_all(cell.line().as_bytes())?;
            out.flush()?;
            report.cells.push(cell);
        }
    }
    Ok(report)
}

/// Returns what a client does under a hazard; `None` if the user interrupts it.
fn outcome(
    contestant: &Contestant,
    hazard: &Hazard,
    repeats: usize,
    cores: &Cores,
    noise: &mut Option<Figures>,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Outcome>> {
    let client = &contestant.client;
    let line = match client.arguments(hazard) {
        Ok(line) => line,
        Err(reason) => return Ok(Some(Outcome::Impossible { reason })),
    };
    let once = || match run::client(client, &line, hazard, cores, interrupt) {
        Ok(finished) => Ok(Some(Ok(finished))),
        Err(Failure::Interrupted) => Ok(None),
        Err(Failure::Client(error)) => Ok(Some(Err(error))),
        Err(Failure::Referee(error)) => Err(error),
    };
    if noise.is_none() {
        *noise = Some(run::noise(hazard, cores)?);
    }
    let mut runs: Vec<Finished> = Vec::new();
    loop {
        match once()? {
            None => return Ok(None),
            Some(Err(error)) => return Ok(Some(Outcome::failed(&error))),
            Some(Ok(finished)) => runs.push(finished),
        }
        // What is wrong because something disturbed a run is right, or noise, in another one.
        let known = noise.get_or_insert_default();
        let compared = runs.iter().map(|run| (judge::compare(&run.observed, known), run));
        let best = compared.min_by(|one, other| judge::order(&one.0, &other.0));
        let Some((compared, finished)) = best else { return Ok(None) };
        if runs.len() > repeats || !needs_repeating(&compared) {
            let deviations = deviation::names(&compared, &finished.truth, &client.definition);
            let judged = Judged::new(&compared, deviations, &finished.truth);
            return Ok(Some(Outcome::Judged(judged)));
        }
        for (key, error) in run::noise(hazard, cores)? {
            let worst = known.entry(key).or_insert(error);
            *worst = worst.max(error);
        }
    }
}

/// Whether something that disturbed a run may explain what is not right. Counts are right or wrong, and a pause of
/// the machine shifts only high percentiles far.
fn needs_repeating(compared: &judge::Comparisons) -> bool {
    let mut wrong = compared.values().filter(|it| it.verdict != Verdict::Agrees).peekable();
    let is_certain = |it: &judge::Comparison| {
        let is_high = matches!(it.statistic, Statistic::P90 | Statistic::P99);
        let is_far = it.error.abs() > CERTAIN && !is_high;
        it.verdict == Verdict::Differs && (it.figure.is_count() || is_far)
    };
    wrong.peek().is_some() && !wrong.any(is_certain)
}
