//! What was found, as lines, as JSON and as a Markdown table.

use std::fmt::Write as _;

use chrono::Local;
use serde::Serialize;

use base::platform::host;
use base::redact;

use super::client::Definition;
use super::cores::Cores;
use super::hazard::Hazard;
use super::judge::{Comparison, Comparisons, Verdict, percent, worst};
use super::truth::Truth;

/// The table of clients and hazards.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The version of this program.
    pub(crate) aiperf_version: &'static str,
    /// When the runs began.
    pub(crate) date: String,
    /// The processor and the number of its cores that this process may use.
    pub(crate) machine: String,
    /// The cores of the mock server and of the clients.
    pub(crate) cores: Cores,
    /// The hazards, in the order of the rows.
    pub(crate) hazards: Vec<&'static Hazard>,
    /// The clients, in the order of the columns.
    pub(crate) clients: Vec<ClientInfo>,
    /// What each client did under each hazard.
    pub(crate) cells: Vec<Cell>,
    /// Whether the user interrupted it, so that cells are missing.
    pub is_interrupted: bool,
}

/// A client in the table.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ClientInfo {
    /// Its name.
    pub(crate) name: String,
    /// The version that it prints.
    pub(crate) version: Option<String>,
    /// The page that says how it is called.
    pub(crate) documentation: String,
    /// The source of its definitions.
    pub(crate) source: String,
    /// Its definitions in a sentence.
    pub(crate) says: String,
    /// Its definitions.
    pub(crate) definition: Definition,
}

/// What a client did under a hazard.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Cell {
    /// The hazard.
    pub(crate) hazard: &'static str,
    /// The client.
    pub(crate) client: String,
    /// The command that repeats it.
    pub(crate) repeat: String,
    /// What was found.
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// The outcome of a cell.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub(crate) enum Outcome {
    /// The figures were compared.
    Judged(Judged),
    /// The client cannot be asked for this.
    Impossible {
        /// Why not.
        reason: &'static str,
    },
    /// The client failed, or its results cannot be read.
    Failed {
        /// What happened.
        error: String,
    },
}

/// Figures that were compared.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Judged {
    /// The worst verdict.
    pub(crate) verdict: Verdict,
    /// The figure that is most wrong.
    pub(crate) worst: Option<Comparison>,
    /// What explains the differences.
    pub(crate) deviations: Vec<String>,
    /// Number of requests that reached the server.
    pub(crate) sent: usize,
    /// Number of them that failed.
    pub(crate) failed: usize,
    /// Number of them that the client ended before the server did.
    pub(crate) abandoned: usize,
    /// All figures.
    pub(crate) comparisons: Vec<Comparison>,
}

impl Judged {
    pub(crate) fn new(compared: &Comparisons, deviations: Vec<String>, truth: &Truth) -> Self {
        let worst = worst(compared).cloned();
        Self {
            verdict: worst.as_ref().map_or(Verdict::Undecided, |worst| worst.verdict),
            worst,
            deviations,
            sent: truth.sent(),
            failed: truth.failed(),
            abandoned: truth.abandoned(),
            comparisons: compared.values().cloned().collect(),
        }
    }
}

impl Outcome {
    pub(crate) fn failed(error: &anyhow::Error) -> Self {
        Self::Failed { error: redact::printable(&format!("{error:#}")) }
    }

    /// The verdict in a word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Judged(judged) => match judged.verdict {
                Verdict::Agrees => "agrees",
                Verdict::Undecided => "undecided",
                Verdict::Differs => "differs",
            },
            Self::Impossible { .. } => "not possible",
            Self::Failed { .. } => "failed",
        }
    }

    /// What a cell of the table says beside its verdict.
    pub(crate) fn label(&self) -> String {
        match self {
            Self::Judged(judged) => {
                judged.worst.as_ref().map(Comparison::label).unwrap_or_default()
            }
            Self::Impossible { reason } => (*reason).to_owned(),
            Self::Failed { error } => error.clone(),
        }
    }

    /// The sentences about the differences.
    pub(crate) fn deviations(&self) -> &[String] {
        match self {
            Self::Judged(judged) => &judged.deviations,
            _ => &[],
        }
    }
}

impl Cell {
    /// The line that is printed when the cell is known, and a further one for each deviation.
    pub(crate) fn line(&self) -> String {
        let Self { hazard, client, outcome, .. } = self;
        let (word, label) = (outcome.word(), outcome.label());
        let mut text = format!("{hazard:18}{client:21}{word:13}{label}\n");
        for deviation in outcome.deviations() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:18}{:21}- {deviation}", "", "");
        }
        text
    }

    /// The text of the cell in a table.
    fn markdown(&self) -> String {
        match &self.outcome {
            Outcome::Judged(judged) => match judged.verdict {
                // What is right needs few words.
                Verdict::Agrees => {
                    let error = judged.worst.as_ref().map(|worst| percent(worst.error));
                    format!("✓ {}", error.unwrap_or_default())
                }
                Verdict::Undecided => format!("? {}", self.outcome.label()),
                Verdict::Differs => format!("**✗** {}", self.outcome.label()),
            },
            Outcome::Impossible { .. } => "–".to_owned(),
            Outcome::Failed { .. } => "**failed**".to_owned(),
        }
    }
}

impl Report {
    pub(crate) fn new(
        hazards: &[&'static Hazard],
        clients: Vec<ClientInfo>,
        cores: &Cores,
    ) -> Self {
        let processor = host::processor().unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        let count = (cores.server.len() + cores.client.len()).max(1);
        Self {
            aiperf_version: env!("CARGO_PKG_VERSION"),
            date: Local::now().format("%Y-%m-%d").to_string(),
            machine: format!("{processor}, {count} cores"),
            cores: cores.clone(),
            hazards: hazards.to_vec(),
            clients,
            cells: Vec::new(),
            is_interrupted: false,
        }
    }

    /// Returns the number of cells that agree, are undecided, differ or failed, and are not possible.
    pub fn counts(&self) -> [usize; 4] {
        let count = |words: &[&str]| {
            self.cells.iter().filter(|cell| words.contains(&cell.outcome.word())).count()
        };
        [
            count(&["agrees"]),
            count(&["undecided"]),
            count(&["differs", "failed"]),
            count(&["not possible"]),
        ]
    }

    /// The last line of what is printed.
    pub fn conclusion(&self) -> String {
        let [agree, undecided, differ, impossible] = self.counts();
        let mut text = format!("{agree} agree, {undecided} undecided, {differ} differ");
        if impossible > 0 {
            let _ = write!(text, ", {impossible} not possible");
        }
        text
    }

    pub(crate) fn cell(&self, hazard: &str, client: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.hazard == hazard && cell.client == client)
    }

    /// Returns the table and what explains the differences, as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "aiperf {}, {}, {}. Each cell has the figure that is most wrong: ✓ within 2%, ? no worse \
             than twice the error of the reference client, ✗ wrong, – not possible.\n\n| hazard |",
            self.aiperf_version, self.date, self.machine
        );
        for ClientInfo { name, version, .. } in &self.clients {
            let _ = write!(text, " {} |", named(name, version.as_deref()));
        }
        text.push_str("\n|---|");
        text.push_str(&"---|".repeat(self.clients.len()));
        for hazard in &self.hazards {
            let _ = write!(text, "\n| {} |", hazard.name);
            for client in &self.clients {
                let cell = self.cell(hazard.name, &client.name).map(Cell::markdown);
                let _ = write!(text, " {} |", cell.unwrap_or_default().replace('|', "\\|"));
            }
        }
        text.push_str("\n\n| client | definitions |\n|---|---|\n");
        for ClientInfo { name, version, says, source, documentation, .. } in &self.clients {
            let links = [("call", documentation), ("definitions", source)];
            let links = links.iter().filter(|(_, link)| !link.is_empty());
            let links: Vec<_> = links.map(|(what, link)| format!("[{what}]({link})")).collect();
            let name = named(name, version.as_deref());
            let _ = writeln!(text, "| {name} | {says} {} |", links.join(", "));
        }
        text.push_str("\n| client | hazard | deviation | repeat |\n|---|---|---|---|\n");
        for client in &self.clients {
            for cell in self.cells.iter().filter(|cell| cell.client == client.name) {
                let said = match &cell.outcome {
                    Outcome::Judged(judged) => judged.deviations.join("; "),
                    Outcome::Failed { error } => error.clone(),
                    Outcome::Impossible { .. } => String::new(),
                };
                if !said.is_empty() {
                    let said = said.replace('|', "\\|").replace('\n', " ");
                    let Cell { client, hazard, repeat, .. } = cell;
                    let _ = writeln!(text, "| {client} | {hazard} | {said} | `{repeat}` |");
                }
            }
        }
        text
    }
}

/// The name and the version of a client.
pub(crate) fn named(name: &str, version: Option<&str>) -> String {
    version.map_or_else(|| name.to_owned(), |version| format!("{name} {version}"))
}
