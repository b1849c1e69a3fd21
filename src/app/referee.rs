//! `aiperf referee`: holds what benchmark clients report against the log of the mock server.

use std::fs;
use std::io::Write;

use anyhow::{Context, bail};

use base::platform::process;
use base::platform::replace::replace;
use referee::{Client, Contestant, HAZARDS, Hazard};

use super::interrupt;
use super::outcome::Outcome;
use crate::cli::{self, HazardName};

/// Runs the clients of `asked` under its hazards and writes the table.
pub(super) fn run(asked: &cli::Referee, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let known = Client::known()?;
    if asked.list {
        list(&known, out)?;
        return Ok(Outcome::Done);
    }
    let contestants = contestants(asked, &known)?;
    let hazards: Vec<&'static Hazard> = if asked.hazard.is_empty() {
        HAZARDS.iter().collect()
    } else {
        asked.hazard.iter().map(|HazardName(hazard)| *hazard).collect()
    };
    if let Some(directory) = &asked.output {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
    }
    let interrupt = interrupt::listen()?.interrupt();
    let report = referee::run(&contestants, &hazards, asked.repeats, &interrupt, out)?;
    if let Some(directory) = &asked.output {
        let json = serde_json::to_string_pretty(&report)?;
        let files = [
            ("referee.md", report.markdown()),
            ("referee.html", report.page()),
            ("referee.json", json),
        ];
        for (name, text) in files {
            let path = directory.join(name);
            replace(&path, |file| file.write_all(text.as_bytes()))
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    writeln!(out, "{}", report.conclusion())?;
    let [_, _, differ, _] = report.counts();
    Ok(match (report.is_interrupted, differ) {
        (true, _) => Outcome::Interrupted,
        (false, 0) => Outcome::Done,
        (false, _) => Outcome::Missed,
    })
}

/// Returns the clients that are asked for.
fn contestants(asked: &cli::Referee, known: &[Client]) -> anyhow::Result<Vec<Contestant>> {
    if asked.itself {
        let own = Client::of_program(known, "aiperf").context("it does not describe itself")?;
        return Ok(vec![Contestant::this_program(own, &process::own_program())]);
    }
    if let Some(program) = asked.command.first() {
        return of_command(asked, program, known).map(|contestant| vec![contestant]);
    }
    if asked.client.is_empty() {
        bail!("no client is specified; use --self, --client NAME, or a command after --");
    }
    if asked.client == ["all"] {
        let installed: Vec<_> = known.iter().filter(|client| client.is_installed()).collect();
        if installed.is_empty() {
            bail!("no known client is installed; put one on PATH, or use --self");
        }
        let described = |client: &Client| Contestant::described(client.clone(), &client.name);
        return Ok(installed.into_iter().map(described).collect());
    }
    let find = |name: &String| Ok(Contestant::described(Client::find(known, name)?, name));
    asked.client.iter().map(find).collect()
}

/// Returns the client of a command of the user.
fn of_command(asked: &cli::Referee, program: &str, known: &[Client]) -> anyhow::Result<Contestant> {
    let command = &asked.command;
    if !command.iter().any(|it| it.contains("{url}") || it.contains("{port}")) {
        bail!(
            "the command does not have {{url}} or {{port}}, so that it would not reach the server"
        );
    }
    let (client, name) = match &asked.client[..] {
        [] => {
            let client = Client::of_program(known, program).with_context(|| {
                format!("{program:?} is not a known client; describe it with --client FILE.toml")
            })?;
            let name = client.name.clone();
            (client, name)
        }
        [name] => (Client::find(known, name)?, name.clone()),
        _ => bail!("one command is one client; specify --client once"),
    };
    Ok(Contestant::described(client, &name).called_by(command))
}

fn list(known: &[Client], out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "Hazards:")?;
    for Hazard { name, says, .. } in HAZARDS {
        writeln!(out, "  {name:18}{says}")?;
    }
    writeln!(out, "\nClients:")?;
    for client in known {
        let installed = if client.is_installed() { "installed" } else { "not installed" };
        writeln!(out, "  {:21}{:24}{installed}", client.name, client.program)?;
    }
    Ok(())
}
