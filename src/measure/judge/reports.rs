//! Results of judging for CI systems: JUnit XML, and GitHub's annotations and summaries.

use std::fmt::Write as _;

use base::redact::printable;

use super::{Judged, JudgedRun};

/// A group of test cases in a JUnit file.
#[derive(Debug, Clone)]
pub struct Suite {
    pub name: String,
    pub cases: Vec<Case>,
}

/// A test case.
#[derive(Debug, Clone)]
pub struct Case {
    pub name: String,
    pub outcome: CaseOutcome,
}

/// The outcome of a test case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    /// What was found; empty if there is nothing to say.
    Passed(String),
    /// What was tested is not so, and why.
    Failed(String),
    /// It could not be tested, and why.
    Error(String),
}

/// Returns the test suites of `runs`: a case for each run, which is an error if the run failed, and
/// one for each of its gates.
#[must_use]
pub fn suites(runs: &[JudgedRun]) -> Vec<Suite> {
    let case = |judged: &Judged| Case {
        name: judged.gate.clone(),
        outcome: match (judged.held, judged.undecided) {
            (true, _) => CaseOutcome::Passed(judged.message()),
            (false, true) => CaseOutcome::Error(judged.message()),
            (false, false) => CaseOutcome::Failed(judged.message()),
        },
    };
    let suite = |run: &JudgedRun| {
        let completed = Case {
            name: "run".to_owned(),
            outcome: match &run.failure {
                Some(why) => CaseOutcome::Error(why.clone()),
                None => CaseOutcome::Passed(String::new()),
            },
        };
        let label = run.label.as_ref().map(|label| format!(".{label}")).unwrap_or_default();
        Suite {
            name: format!("aiperf.gates{label}"),
            cases: [completed].into_iter().chain(run.gates.iter().map(case)).collect(),
        }
    };
    runs.iter().map(suite).collect()
}

/// Returns `suites` as a JUnit file.
#[must_use]
pub fn junit(suites: &[Suite]) -> String {
    let all = counts(suites.iter().flat_map(|suite| &suite.cases));
    let suites: String = suites.iter().map(element).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {all}>\n{suites}</testsuites>\n"
    )
}

/// Returns the attributes with the numbers of all cases, of failures and of errors.
fn counts<'a>(cases: impl Iterator<Item = &'a Case>) -> String {
    let [mut tests, mut failures, mut errors] = [0_usize; 3];
    for case in cases {
        tests += 1;
        failures += usize::from(matches!(case.outcome, CaseOutcome::Failed(_)));
        errors += usize::from(matches!(case.outcome, CaseOutcome::Error(_)));
    }
    format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"")
}

fn element(suite: &Suite) -> String {
    let name = xml(&suite.name);
    let case = |case: &Case| {
        let of = xml(&case.name);
        let inner = match &case.outcome {
            CaseOutcome::Passed(found) if found.is_empty() => String::new(),
            // What most systems show of a case that passed.
            CaseOutcome::Passed(found) => {
                format!("\n      <system-out>{}</system-out>\n    ", xml(found))
            }
            CaseOutcome::Failed(why) => reason("failure", &of, &xml(why)),
            CaseOutcome::Error(why) => reason("error", &of, &xml(why)),
        };
        format!("    <testcase classname=\"{name}\" name=\"{of}\">{inner}</testcase>\n")
    };
    let cases: String = suite.cases.iter().map(case).collect();
    let counts = counts(suite.cases.iter());
    format!("  <testsuite name=\"{name}\" {counts}>\n{cases}  </testsuite>\n")
}

fn reason(kind: &str, of: &str, why: &str) -> String {
    format!("\n      <{kind} message=\"{why}\">{of}: {why}</{kind}>\n    ")
}

/// Returns `text` as it may stand in an element or an attribute, without characters that XML 1.0 does not
/// allow, even escaped.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for letter in printable(text).chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// Returns GitHub's commands that annotate a workflow with each gate that failed.
#[must_use]
pub fn annotations(runs: &[JudgedRun]) -> String {
    let mut text = String::new();
    for run in runs {
        let label = run.label.as_ref().map(|label| format!("{label}: ")).unwrap_or_default();
        for judged in run.gates.iter().filter(|judged| !judged.held) {
            let line = format!("{label}{}: {}", judged.gate, judged.message());
            // The message ends with the line, and `%` begins an escape.
            let line = printable(&line).replace('%', "%25");
            // Writing to a string cannot fail.
            let what = if judged.undecided { "undecided" } else { "failed" };
            let _ = writeln!(text, "::error title=aiperf gate {what}::{line}");
        }
    }
    text
}

/// Returns how many gates held, and how many runs failed.
fn verdict(runs: &[JudgedRun]) -> String {
    let all = runs.iter().flat_map(|run| &run.gates);
    let undecided = all.clone().filter(|judged| judged.undecided).count();
    let missed = all.clone().filter(|judged| !judged.held).count() - undecided;
    let held = match (all.count(), missed, undecided) {
        (1, 0, 0) => "The gate held.".to_owned(),
        (all, 0, 0) => format!("All {all} gates held."),
        (all, 0, undecided) => format!("{undecided} of {all} gates are undecided."),
        (all, missed, 0) => format!("{missed} of {all} gates did not hold."),
        (all, missed, undecided) => {
            format!("{missed} of {all} gates did not hold, {undecided} are undecided.")
        }
    };
    let failed = runs.iter().filter(|run| run.failure.is_some()).count();
    match failed {
        0 => held,
        _ if runs.len() == 1 => format!("The run failed. {held}"),
        failed => format!("{failed} of {} runs failed. {held}", runs.len()),
    }
}

/// Returns the verdict, and the gates as a Markdown table.
#[must_use]
pub fn markdown(runs: &[JudgedRun]) -> String {
    let has_labels = runs.iter().any(|run| run.label.is_some());
    let row = |cells: &[&str]| {
        let cells: Vec<String> =
            cells.iter().skip(usize::from(!has_labels)).map(|cell| markdown_cell(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = format!("### aiperf gates\n\n**{}**\n\n", verdict(runs));
    text += &row(&["Run", "Gate", "Value", "Limit", "Margin", "Held", "Note"]);
    text += &row(&["---", "---", "---:", "---:", "---:", "---", "---"]);
    for run in runs {
        let label = run.label.as_deref().unwrap_or_default();
        for judged in &run.gates {
            text += &row(&[
                label,
                &judged.gate,
                &judged.shown_value(),
                &judged.shown_limit(),
                &judged.shown_margin(),
                &match judged.shown_result() {
                    "yes" => "yes".to_owned(),
                    other => format!("**{other}**"),
                },
                judged.note.as_deref().unwrap_or_default(),
            ]);
        }
    }
    for run in runs {
        if let Some(why) = &run.failure {
            let label = run.label.as_deref().unwrap_or("The run");
            let _ = write!(text, "\n{label} failed: {}\n", markdown_cell(why));
        }
    }
    text + "\n"
}

/// Escapes what would end a cell or begin an HTML tag.
fn markdown_cell(text: &str) -> String {
    printable(text).replace('|', "\\|").replace('<', "&lt;")
}

#[cfg(test)]
mod tests;
