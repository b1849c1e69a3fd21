//! `aiperf explain`: what a name means that the output has, or what limits a run. The texts are those
//! of the documentation, of the help and of the warnings.

mod run;

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use anyhow::bail;

use base::setting;
use client::record::ErrorKind;
use measure::metrics::health::{
    LoadVerdict, Verdict, output_reasons_by_example, reasons_by_example,
};
use measure::metrics::metric::Percent;
use measure::metrics::{Registry, reference};
use results::console::{self, Term, WORDS};
use results::terminal::terminal_style;
use results::warnings::Warning;

use super::outcome::Outcome;
use crate::cli::{self, Explain};

const CONCEPTS: &str = include_str!("../../docs/concepts.md");
const GATES: &str = include_str!("../../docs/gates.md");

/// Units that a screen adds to a name.
const UNITS: [&str; 5] = [" (ms)", " (s)", " (%)", " (requests/s)", " (whole)"];

/// Maximum number of similar names that are suggested.
const MAX_SUGGESTIONS: usize = 3;

/// Something that has a name.
struct Entry {
    kind: &'static str,
    /// Its name, and others under which it is found: how it is written on screens, too.
    names: Vec<String>,
    /// What it means, as Markdown.
    text: String,
}

impl Entry {
    fn new(kind: &'static str, names: &[&str], text: String) -> Self {
        Self { kind, names: names.iter().map(|name| (*name).to_owned()).collect(), text }
    }

    fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }
}

const METRIC: &str = "metric";
const WARNING: &str = "warning";
const REASON: &str = "reason for doubt about the client";
const FAULT: &str = "fault of an output";
const CONCEPT: &str = "concept";
const GATE: &str = "gate";
const ERROR: &str = "error type";
const FLAG: &str = "flag";
const WORD: &str = "word of the screens";

/// The kinds, in the order in which they are listed, and what lists all of a kind that has too many.
const KINDS: [(&str, &str, Option<&str>); 9] = [
    (METRIC, "Metrics", Some("`aiperf list metrics`")),
    (WARNING, "Warnings", None),
    (REASON, "Reasons for doubt about the client", None),
    (FAULT, "Faults of outputs", None),
    (CONCEPT, "Concepts and verdicts", None),
    (GATE, "Gates, also by their text, such as 'ttft:p99<=200ms'", None),
    (WORD, "Words of the screens", None),
    (ERROR, "Error types", None),
    (FLAG, "Flags", Some("`--help` of each command")),
];

/// Prints what `asked` names.
///
/// # Errors
/// If nothing has that name, or the directory does not have a run.
pub(super) fn explain(asked: &Explain, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let style = terminal_style();
    let text = match asked.name.as_deref() {
        None => console::document(&listing(&entries()), style),
        Some(name) if Path::new(name).is_dir() => run::explained(Path::new(name), style)?,
        Some(name) => console::document(&found(name, &entries())?, style),
    };
    out.write_all(text.as_bytes())?;
    Ok(Outcome::Done)
}

/// Returns everything that has a name.
fn entries() -> Vec<Entry> {
    let metrics = Registry::catalogue().iter().map(|metric| {
        let term = Term::for_metric(metric);
        let names = [metric.tag.name(), metric.short_header, metric.header, term.name, term.short];
        Entry::new(METRIC, &names, reference::entry(metric))
    });
    let warnings = Warning::examples().into_iter().map(|warning| {
        let list = |lines: &[String]| -> String {
            lines.iter().flat_map(|line| ["- ", line.trim(), "\n"]).collect()
        };
        let text = format!(
            "{}. For example:\n\n{}\nWhat to do:\n\n{}",
            warning.title,
            list(&warning.findings),
            list(&warning.advice)
        );
        Entry::new(WARNING, &[warning.name, warning.title], text)
    });
    let of_client = reasons_by_example().into_iter().map(|reason| (REASON, "client", reason));
    let outputs = output_reasons_by_example().into_iter();
    let of_outputs = outputs.map(|reason| (FAULT, "outputs", reason));
    let reasons = of_client.chain(of_outputs).map(|(kind, what, reason)| {
        let text = format!(
            "The verdict on the {what} is {}, for example since {}.\n\nWhat to do: {}.",
            reason.verdict.as_str(),
            reason.finding,
            reason.advice
        );
        Entry::new(kind, &[&reason.name], text)
    });
    let concepts = sections(CONCEPTS).map(|(title, text)| {
        let mut entry = Entry::new(CONCEPT, &[title], text.to_owned());
        let verdicts: Vec<&str> = match title {
            "Client health" => {
                let verdicts = Verdict::ALL.iter().map(|verdict| verdict.as_str());
                verdicts.chain(["client"]).collect()
            }
            "Output health" => ["outputs", "corrupted_outputs", "output_faults"].to_vec(),
            "Load health" => {
                let verdicts = LoadVerdict::ALL.iter().map(|verdict| verdict.as_str());
                verdicts.chain(["load", "offered", "served"]).collect()
            }
            _ => Vec::new(),
        };
        entry.names.extend(verdicts.into_iter().map(str::to_owned));
        // What a section defines is in bold.
        entry.names.extend(text.split("**").skip(1).step_by(2).map(str::to_owned));
        entry
    });
    let gates = sections(GATES).filter(|(title, _)| *title == "Syntax");
    let gates = gates.map(|(_, text)| Entry::new(GATE, &["gate", "gates"], text.to_owned()));
    let words = WORDS.iter().map(|(names, text)| Entry::new(WORD, names, (*text).to_owned()));
    let errors = ErrorKind::ALL
        .iter()
        .map(|kind| Entry::new(ERROR, &[kind.as_str()], kind.meaning().to_owned()));
    let flags = cli::flags().into_iter().map(|flag| Entry {
        kind: FLAG,
        names: flag.names,
        text: flag.text,
    });
    metrics
        .chain(warnings)
        .chain(reasons)
        .chain(concepts)
        .chain(gates)
        .chain(words)
        .chain(errors)
        .chain(flags)
        .collect()
}

/// Returns the sections of a page: their titles, and their texts with those of the sections in them.
fn sections(page: &str) -> impl Iterator<Item = (&str, &str)> {
    page.split("\n## ").skip(1).filter_map(|section| section.split_once('\n'))
}

/// Lists the kinds and the names of each.
fn listing(entries: &[Entry]) -> String {
    let mut text = String::from(
        "`aiperf explain NAME` describes a name, and `aiperf explain DIR` what limits the run in an \
         artifact directory.\n",
    );
    for (kind, title, all) in KINDS {
        let names: Vec<&str> =
            entries.iter().filter(|entry| entry.kind == kind).map(Entry::name).collect();
        let names = match all {
            Some(command) => format!("{}, listed by {command}", names.len()),
            None => names.join(", "),
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- {title}: {names}");
    }
    text
}

/// Returns the texts of all that `name` is a name of.
fn found(name: &str, entries: &[Entry]) -> anyhow::Result<String> {
    let wanted = subject(name);
    let is_gate = wanted != plain(name) && name.contains(['<', '>', '=']);
    let found = entries.iter().filter(|entry| {
        entry.names.iter().any(|name| plain(name) == wanted) || is_gate && entry.kind == GATE
    });
    let texts: Vec<String> = found
        .map(|entry| format!("# {} ({})\n\n{}\n", entry.name(), entry.kind, entry.text.trim()))
        .collect();
    if !texts.is_empty() {
        return Ok(texts.join("\n"));
    }
    let names = entries.iter().flat_map(|entry| &entry.names);
    let plain_names: Vec<(String, &String)> = names.map(|name| (plain(name), name)).collect();
    let near = setting::similar(&wanted, plain_names.iter().map(|(name, _)| name.as_str()));
    let mut near: Vec<&str> = near
        .into_iter()
        .filter_map(|near| plain_names.iter().find(|(name, _)| name == near))
        .map(|(_, name)| name.as_str())
        .collect();
    near.dedup();
    near.truncate(MAX_SUGGESTIONS);
    let hint = match near.as_slice() {
        [] => "`aiperf explain` lists the kinds of names".to_owned(),
        near => format!("did you mean {}?", near.join(", ")),
    };
    bail!("nothing is called {name:?}; {hint}")
}

/// Returns a name without what differs between its spellings, a percentile and a unit: `osl_mismatch` for
/// `OSL-Mismatch`.
fn plain(name: &str) -> String {
    let name = name.trim().trim_start_matches("--");
    let name = UNITS.iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
    let is_percent =
        |text: &str| text.strip_prefix('p').is_some_and(|it| it.parse::<Percent>().is_ok());
    let name =
        name.rsplit_once(' ').filter(|(_, last)| is_percent(last)).map_or(name, |(name, _)| name);
    name.trim().to_lowercase().replace([' ', '-'], "_")
}

/// Returns the name itself, or what a gate limits: `time_to_first_token` for
/// `steady:time_to_first_token:p99<=200ms`.
fn subject(name: &str) -> String {
    let Some((subject, _)) = name.split_once(['<', '>', '=']) else {
        let metric = name.split_once(':').map_or(name, |(metric, _)| metric);
        return plain(metric);
    };
    let subject = subject.strip_prefix("steady:").unwrap_or(subject);
    plain(subject.split_once(':').map_or(subject, |(metric, _)| metric))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn text_of(name: &str) -> String {
        found(name, &entries()).unwrap()
    }

    #[test]
    fn each_kind_has_names_and_each_name_a_text() {
        let all = entries();
        for (kind, ..) in KINDS {
            let of_kind: Vec<_> = all.iter().filter(|entry| entry.kind == kind).collect();
            assert!(!of_kind.is_empty(), "{kind}");
            let names: BTreeSet<_> = of_kind.iter().map(|entry| entry.name()).collect();
            assert_eq!(names.len(), of_kind.len(), "{kind}");
            assert!(of_kind.iter().all(|entry| entry.text.trim().len() > 10), "{kind}");
        }
    }

    #[test]
    fn names_are_found_in_any_spelling() {
        assert!(
            text_of("TTFT").contains("Time from sending the request to the first content event")
        );
        assert_eq!(text_of("Time-to-First Token"), text_of("time_to_first_token"));
        assert!(text_of("osl-mismatch").contains("ignore_eos"));
        assert!(text_of("suspect").contains("the client may have contributed"));
        assert!(text_of("--concurrency").contains("Maximum number of requests in flight"));
        assert!(text_of("http_5xx").contains("5xx"));
    }

    #[test]
    fn a_gate_is_explained_with_the_metric_that_it_limits() {
        let text = text_of("steady:time_to_first_token:p99<=200ms");
        assert!(text.contains("first content event") && text.contains("client_health"), "{text}");
        assert!(!text_of("time_to_first_token").contains("client_health==valid"));
    }

    /// The screens of the ends of runs, and the tables, as the tests of the console have them.
    const ENDS: &str = include_str!(
        "../results/console/tests/snapshots/aiperf_results__console__tests__ends__ends_at_80_columns.snap"
    );
    const TABLES: [&str; 4] = [
        include_str!(
            "../results/console/tests/snapshots/aiperf_results__console__tests__widths__the_tables_of_a_run_at_four_widths.snap"
        ),
        include_str!(
            "../results/console/tests/snapshots/aiperf_results__console__tests__widths__the_other_tables_of_a_run_at_four_widths.snap"
        ),
        include_str!(
            "../results/console/runs/snapshots/aiperf_results__console__runs__tests__the_tables_of_runs_at_four_widths.snap"
        ),
        include_str!(
            "../results/console/snapshots/aiperf_results__console__compare__tests__the_table_of_a_comparison_at_four_widths.snap"
        ),
    ];

    /// Returns the words of the screens: headings of columns and rows, what stands before a colon, and
    /// the names of warnings.
    fn words_of_screens() -> BTreeSet<&'static str> {
        // Those of runs that failed have sentences instead.
        let screens = || ENDS.split("\n=== ").skip(1).filter(|screen| screen.contains(" avg "));
        let of_table = |screen: &'static str| {
            let mut lines =
                screen.lines().skip_while(|line| !line.trim_start().starts_with("avg "));
            let headings = lines.next().into_iter().flat_map(|line| line.split("  "));
            let rows = lines.take_while(|line| line.contains("  ") && !line.starts_with(' '));
            headings.chain(rows.filter_map(|line| line.split("  ").next()))
        };
        let labels = screens().flat_map(str::lines).filter_map(|line| {
            let (label, _) = line.split_once(": ")?;
            let label = label.strip_prefix("! ").unwrap_or(label);
            (label.starts_with(char::is_alphabetic) && label != "What to do").then_some(label)
        });
        let headings =
            TABLES.iter().flat_map(|table| table.lines()).filter(|line| line.contains('┃'));
        let headings = headings.flat_map(|line| line.split('┃'));
        let words = screens().flat_map(of_table).chain(labels).chain(headings).map(str::trim);
        // Everybody knows these.
        let plain = ["Metric", "Request", "Value", "Unit", "Meaning", "start (s)"];
        let is_word = |word: &&str| word.contains(char::is_alphabetic) && !plain.contains(word);
        words.filter(is_word).collect()
    }

    #[test]
    fn every_word_of_the_screens_is_explained() {
        let entries = entries();
        let words = words_of_screens();
        for known in [
            "Time to first token (ms)",
            "p50 95% CI",
            "osl-mismatch",
            "Fairness (Jain's index)",
            "Finding",
        ] {
            assert!(words.contains(known), "{known} in {words:?}");
        }
        let unknown: Vec<_> =
            words.into_iter().filter(|word| found(word, &entries).is_err()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        for word in ["load", "needs", "read lag", "stolen", "cannot tell", "client delays"] {
            found(word, &entries).unwrap();
        }
    }

    #[test]
    fn an_unknown_name_has_the_nearest_ones() {
        let error = |name| found(name, &entries()).unwrap_err().to_string();
        assert!(
            error("osl-mismach").contains("did you mean osl-mismatch"),
            "{}",
            error("osl-mismach")
        );
        assert!(error("qqqqqqqqqqqqqqqqqqqq").contains("lists the kinds of names"));
    }
}
