//! The documentation is correct: its commands work, its links have targets, and the names in it
//! exist.

mod amount;
mod migration;
mod page;
mod pages;
mod queries;
mod stage;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use aiperf::cli::{command, parse_with};
use aiperf::config::Environment;
use aiperf::config::aiperf::{commands as aiperf_commands, flags as aiperf_flags};
use measure::metrics::Registry;
use results::artifacts::layout::Layout;

use page::{Block, Page};
use stage::Stage;

/// Prefixes of documented commands that build or install, and the line of a script run by `.ci/run`
/// that does the same.
const RUN_BY_CI: &[(&str, &str)] = &[
    ("cargo run -- demo", "cargo run --locked -- demo"),
    ("cargo test", "cargo test --locked"),
    ("cargo bench", "cargo bench --locked"),
    ("cargo install --path .", "cargo install --locked --path ."),
    // Without `UPDATE` it reports files that are out of date.
    ("UPDATE=1 cargo test", "cargo test --locked"),
];

/// The command to which the flags in the table of tasks are added.
const BASE: &str = "aiperf profile --model meta-llama/Llama-3.1-8B-Instruct --streaming";

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn is_run_by_ci(block: &Block) -> bool {
    let known =
        |command: &String| RUN_BY_CI.iter().any(|(documented, _)| command.starts_with(documented));
    !block.commands().is_empty() && block.commands().iter().all(known)
}

fn is_played(block: &Block) -> bool {
    !block.is_not_run() && !is_run_by_ci(block)
}

fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} failed:\n\n{}\n", failures.len(), failures.join("\n\n"));
}

/// Returns the blocks of a page that are played; none if it only has files.
fn played(page: &Page) -> Vec<&Block> {
    let blocks: Vec<_> = page.blocks.iter().filter(|block| is_played(block)).collect();
    let runs = |block: &&Block| ["sh", "python", "sql"].contains(&block.language.as_str());
    if blocks.iter().any(runs) { blocks } else { Vec::new() }
}

/// Runs the blocks of a page in order, in one directory.
fn play(page: &Page) -> Vec<String> {
    let mut stage = Stage::new();
    let mut failures = Vec::new();
    for block in played(page) {
        if let Err(failure) = stage.play(block) {
            failures.push(format!("{}\n{}{failure}", page.at(block.line), block.text));
        }
    }
    failures
}

/// The selectors, faults and kinds of corruption of the page are those of the help, with the same arguments.
#[test]
fn the_help_of_faults_lists_what_the_page_lists() {
    let page = read("docs/mock-server.md");
    let table = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<&str> =
        table.filter_map(|row| row.split(['=', '`', '[']).next()).collect();
    let command = command();
    let server = command.find_subcommand("mock-server").unwrap();
    let flag = server.get_arguments().find(|flag| flag.get_long() == Some("fault")).unwrap();
    let help = flag.get_long_help().unwrap().to_string();
    let (selectors, faults) = help.split_once("Faults:").unwrap();
    let selectors = selectors.lines().filter_map(|line| line.strip_prefix("all, "));
    let selectors = selectors.flat_map(|line| line.split(", ")).chain(["all"]);
    let faults = faults.lines().filter_map(|line| line.trim().split(' ').next());
    let listed = selectors.chain(faults).filter_map(|word| word.split('=').next());
    let listed: BTreeSet<&str> = listed.filter(|word| !word.is_empty()).collect();
    assert_eq!(listed, documented);
    // Selectors, faults and kinds of corruption.
    assert_eq!(listed.len(), 5 + 16 + 11);
}

/// Number of tests that share the rows of the table of tasks.
const PARTS: usize = 4;

/// Runs every `PARTS`th row of the table of tasks, from the row `part` on.
fn run_rows(part: usize) {
    let tasks = page_at("docs/tasks.md");
    let rows: Vec<_> = rows(&tasks, "| to | add |")
        .into_iter()
        .flat_map(|(line, cells)| {
            let flags: Vec<_> = cells[1].split('`').skip(1).step_by(2).map(str::to_owned).collect();
            flags.into_iter().filter(|span| span.starts_with("--")).map(move |span| (line, span))
        })
        .collect();
    assert!(rows.len() > 20, "{rows:?}");
    assert!(read("docs/tasks.md").contains(&format!("`{BASE}`")));
    let files: Vec<_> = tasks.blocks.iter().filter(|block| block.note("file").is_some()).collect();
    let mut failures = Vec::new();
    for (line, flags) in rows.into_iter().skip(part).step_by(PARTS) {
        let text = format!("{BASE} --url http://localhost:8000 {flags}\n");
        let row = Block { line, language: "sh".to_owned(), notes: vec![], text };
        let mut stage = Stage::new();
        let played = files.iter().copied().chain([&row]).try_for_each(|block| stage.play(block));
        if let Err(failure) = played {
            failures.push(format!("{}\n{}{failure}", tasks.at(line), row.text));
        }
    }
    assert_none(&failures);
}

#[test]
fn rows_of_the_table_of_tasks_run_1_of_4() {
    run_rows(0);
}

#[test]
fn rows_of_the_table_of_tasks_run_2_of_4() {
    run_rows(1);
}

#[test]
fn rows_of_the_table_of_tasks_run_3_of_4() {
    run_rows(2);
}

#[test]
fn rows_of_the_table_of_tasks_run_4_of_4() {
    run_rows(3);
}

/// Returns the cells of the rows below a table's header, with their lines.
fn rows(page: &Page, head: &str) -> Vec<(usize, Vec<String>)> {
    let below = page.prose.iter().skip_while(|(_, text)| text != head).skip(2);
    below
        .take_while(|(_, text)| text.starts_with('|'))
        .map(|(line, text)| {
            let cells = text.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned());
            (*line, cells.collect())
        })
        .collect()
}

#[test]
fn data_can_be_parsed() {
    let mut failures = Vec::new();
    for page in page::all() {
        for block in &page.blocks {
            let error = match block.language.as_str() {
                "json" => serde_json::from_str::<serde_json::Value>(&block.text).err(),
                "jsonl" => block
                    .text
                    .lines()
                    .find_map(|line| serde_json::from_str::<serde_json::Value>(line).err()),
                "yaml" => serde_norway::from_str::<serde_norway::Value>(&block.text)
                    .err()
                    .map(serde::de::Error::custom),
                _ => None,
            };
            failures.extend(error.map(|error| format!("{}\n{error}", page.at(block.line))));
        }
    }
    assert_none(&failures);
}

#[test]
fn what_builds_is_run_by_ci() {
    let run = read(".ci/run");
    let called = run.lines().filter(|line| line.starts_with("scripts/"));
    let called = called.filter_map(|line| line.split(' ').next());
    let steps: Vec<_> = called.map(read).collect();
    assert!(steps.len() > 3, "{run}");
    let mut found = BTreeSet::new();
    for page in page::all() {
        for block in page.blocks.iter().filter(|block| block.language == "sh") {
            for command in block.commands().iter().filter(|command| command.contains("cargo ")) {
                let known = RUN_BY_CI.iter().find(|(known, _)| command.starts_with(known));
                // Other commands need the repository too and are in the same blocks.
                assert!(
                    known.is_some() || block.is_not_run(),
                    "{}: {command} is not among RUN_BY_CI",
                    page.at(block.line)
                );
                found.extend(known);
            }
            let is_mixed = block.commands().iter().any(|command| command.contains("cargo "))
                && !is_run_by_ci(block)
                && !block.is_not_run();
            assert!(!is_mixed, "{}: builds and runs in one block", page.at(block.line));
        }
    }
    for (documented, step) in found {
        assert!(
            steps.iter().any(|script| script.contains(step)),
            "`{documented}` is documented; no script of .ci/run has `{step}`"
        );
    }
}

/// The program that a `sh not-run` block starts must have a row in the deployment guide's table of
/// programs that are not run.
#[test]
fn what_is_not_run_is_listed_with_its_reason() {
    let pages = page::all();
    let guide = pages.iter().find(|page| page.path == Path::new("docs/deployment.md"));
    let table = guide.map(|guide| rows(guide, "| not run | why |")).unwrap_or_default();
    let listed: Vec<_> = table.iter().flat_map(|(_, cells)| names(&cells[0])).collect();
    for page in &pages {
        for block in page.blocks.iter().filter(|block| block.is_not_run()) {
            let program = block.text.split_whitespace().next().unwrap_or_default();
            assert!(
                listed.iter().any(|span| span.split(' ').next() == Some(program)),
                "{}: `{program}` is missing from docs/deployment.md's table of what is not run",
                page.at(block.line)
            );
        }
    }
}

#[test]
fn links_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = page::all();
    let mut failures = Vec::new();
    for page in &pages {
        for (line, link) in page.links() {
            if link.starts_with("http://") || link.starts_with("https://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => page.path.clone(),
                _ => normal(&page.path.parent().unwrap().join(file)),
            };
            let linked = pages.iter().find(|other| other.path == target);
            let has_anchor = |page: &Page| page.anchors().iter().any(|name| name == anchor);
            if !root.join(&target).exists()
                || (!anchor.is_empty() && !linked.is_some_and(has_anchor))
            {
                failures.push(format!("{}: {link} leads nowhere", page.at(line)));
            }
        }
    }
    assert_none(&failures);
}

/// Returns the path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part.as_os_str() == ".." {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

/// Returns every flag of every subcommand, including hidden ones.
fn flags() -> BTreeSet<String> {
    let mut command = command();
    command.build();
    let mut found = BTreeSet::from(["--version".to_owned()]);
    let groups = command.get_subcommands().flat_map(clap::Command::get_subcommands);
    for subcommand in command.get_subcommands().chain(groups) {
        for argument in subcommand.get_arguments() {
            let names = argument.get_long_and_visible_aliases().unwrap_or_default();
            found.extend(names.iter().map(|name| format!("--{name}")));
        }
    }
    found
}

/// Flags of other programs in the documentation.
const FLAGS_OF_OTHERS: &[&str] = &[
    "--aiperf",
    "--config",
    "--enable-feature",
    "--enable-prompt-tokens-details",
    "--mode",
    "--set",
];

#[test]
fn flags_are_the_programs() {
    let flags = flags();
    let mut failures = Vec::new();
    for page in page::all() {
        let is_of_another =
            page.path == Path::new("docs/migration.md") || page.path.starts_with("docs/decisions");
        let refused = || aiperf_flags::refused().chain(aiperf_commands::refused());
        for (line, span) in page.spans() {
            // In the command of another program, flags belong to that program.
            let is_ours = span.starts_with("--") || span.starts_with("aiperf ");
            for word in span.split([' ', '=']).filter(|word| is_ours && is_flag(word)) {
                let word = word.trim_end_matches([',', '…', '.']);
                let is_known = flags.contains(word)
                    || FLAGS_OF_OTHERS.contains(&word)
                    || (is_of_another && refused().any(|(flag, _)| flag == word));
                if !is_known {
                    failures.push(format!("{}: {word} is not a flag of aiperf", page.at(line)));
                }
            }
        }
    }
    assert_none(&failures);
}

/// Returns whether it is a single flag, and not one of Prometheus, which contain dots.
fn is_flag(word: &str) -> bool {
    word.starts_with("--") && word.len() > 2 && !word.contains(['*', '.'])
}

#[test]
fn files_of_a_run_are_those_that_are_written() {
    let layout = Layout::new(Path::new(""), None);
    let written = format!("{layout:?}");
    let mut failures = Vec::new();
    for page in page::all().iter().filter(|page| page.path != Path::new("docs/migration.md")) {
        for (line, span) in page.spans() {
            let is_name =
                span.starts_with("profile_export") || span.starts_with("server_metrics_export");
            if is_name
                && span.contains('.')
                && !span.contains(' ')
                && !written.contains(&format!("\"{span}\""))
            {
                failures.push(format!("{}: no run writes {span}", page.at(line)));
            }
        }
    }
    assert_none(&failures);
}

fn page_at(path: &str) -> Page {
    Page::parse(path.into(), &read(path))
}

/// Returns the code spans of a cell.
fn names(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Returns every variable that the configuration of a run reads.
fn variables_read() -> BTreeSet<String> {
    let asked = RefCell::new(BTreeSet::new());
    let lookup = |name: &str| {
        asked.borrow_mut().insert(name.to_owned());
        None
    };
    let arguments =
        "aiperf profile --model m --otel-url http://localhost:4317 --server-metrics-summary";
    parse_with(arguments.split(' ').map(Into::into), Environment::new(&lookup)).unwrap();
    asked.into_inner()
}

#[test]
fn every_variable_of_a_run_is_documented() {
    let pages = page::all();
    let spans: BTreeSet<_> = pages.iter().flat_map(Page::spans).map(|(_, span)| span).collect();
    for variable in variables_read().iter().filter(|name| name.starts_with("AIPERF_")) {
        let is_it = |span: &&String| span.split(['=', ' ']).next() == Some(variable.as_str());
        assert!(spans.iter().any(|span| is_it(&span)), "no page says what {variable} is");
    }
}

#[test]
fn the_architecture_has_the_modules_in_their_order() {
    let page = page_at("docs/architecture.md");
    let listed: Vec<_> = rows(&page, "| module | its one job |")
        .into_iter()
        .map(|(_, cells)| cells[0].trim_matches('`').to_owned())
        .collect();
    let name = |line: &str| {
        let declaration = line.strip_prefix("pub ").unwrap_or(line);
        Some(declaration.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    };
    let modules_of = |library: &str| -> Vec<String> {
        read(&format!("src/{library}")).lines().filter_map(name).collect()
    };
    let mut modules = Vec::new();
    let manifest = read("Cargo.toml");
    let crates = manifest.split_once("default-members = [").unwrap().1.split_once(']').unwrap().0;
    for name in crates.split(['"', ',']).filter_map(|member| member.strip_prefix("src/")) {
        let prefix = name.replace('-', "_");
        if ["otlp", "mock-server", "referee", "dataset", "telemetry"].contains(&name) {
            // These are a module each.
            modules.push(prefix);
        } else {
            let inside = modules_of(&format!("{name}/lib.rs"));
            modules.extend(inside.into_iter().map(|module| format!("{prefix}::{module}")));
        }
    }
    modules.extend(modules_of("lib.rs"));
    assert_eq!(listed, modules);
}

#[test]
fn the_page_of_the_referee_has_its_hazards() {
    let page = page_at("docs/referee.md");
    let listed: Vec<_> = rows(&page, "| hazard | what happens |")
        .into_iter()
        .map(|(_, cells)| (cells[0].trim_matches('`').to_owned(), cells[1].clone()))
        .collect();
    let hazards = referee::HAZARDS.iter();
    let expected: Vec<_> = hazards.map(|it| (it.name.to_owned(), it.says.to_owned())).collect();
    assert_eq!(listed, expected);
}

/// Prefixes of paths in the repository.
const TOP: &[&str] = &[
    "src/",
    "tests/",
    "fuzz/",
    "docs/",
    "scripts/",
    "semconv/",
    "collector-config/",
    "dashboards/",
];

#[test]
fn code_and_files_that_are_shown_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut failures = Vec::new();
    for page in page::all() {
        for block in &page.blocks {
            let Some(file) = block.note("from") else { continue };
            if !words(&read(file)).contains(&words(&block.text)) {
                failures.push(format!("{}: {file} does not have this", page.at(block.line)));
            }
        }
        for (line, span) in page.spans() {
            let is_path = TOP.iter().any(|top| span.starts_with(top));
            let is_one = is_path && !span.contains(['*', ' ', '<', '{']);
            if is_one && !root.join(&span).exists() {
                failures.push(format!("{}: there is no {span}", page.at(line)));
            }
        }
    }
    assert_none(&failures);
}

#[test]
fn every_page_is_linked_from_its_index() {
    let readme = page_at("README.md");
    let decisions = page_at("docs/decisions/README.md");
    let mut failures = Vec::new();
    for page in page::all() {
        let name = page.path.file_name().unwrap().to_string_lossy().into_owned();
        let is_decision = page.path.starts_with("docs/decisions") && name != "README.md";
        let (index, link) = match page.path.to_str().unwrap() {
            "README.md" => continue,
            _ if is_decision => (&decisions, name),
            path => (&readme, path.to_owned()),
        };
        if !index.links().iter().any(|(_, target)| target.split('#').next() == Some(&link)) {
            failures.push(format!(
                "{} is not linked from {}",
                page.path.display(),
                index.path.display()
            ));
        }
    }
    assert_none(&failures);
}

/// Members of files, arguments of formats and so on, which are not metrics.
const NO_METRICS: &[&str] = &[
    "benchmark_phase",
    "client_health",
    "credit_issued_ns",
    "load_health",
    "missing_answers",
    "not_stationary",
    "request_due_ns",
    "request_sent_ns",
    "request_start_ns",
    "steady_state",
    "too_short_to_tell",
    "warmup_metrics",
];

#[test]
fn metrics_that_are_named_are_in_the_catalogue() {
    let mut failures = Vec::new();
    for path in ["README.md", "docs/quick-start.md", "docs/concepts.md"] {
        let page = page_at(path);
        for (line, span) in page.spans() {
            let is_tag = span.contains('_')
                && span.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
            if is_tag && Registry::find(&span).is_none() && !NO_METRICS.contains(&span.as_str()) {
                failures.push(format!("{}: {span} is not a metric", page.at(line)));
            }
        }
    }
    assert_none(&failures);
}
