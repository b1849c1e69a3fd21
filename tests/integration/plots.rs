//! `aiperf plot`: pictures of whole runs, compared with their files.

use std::path::Path;
use std::process::Output;

use base::units::Nanos;
use mock_server::Script;

use crate::support::load::{faults, mock, varied};
use crate::support::python::run_python;
use crate::support::run::{Run, aiperf, profile, profile_command};

fn plot(directories: &[&Path], flags: &[&str]) -> Output {
    aiperf(&["plot"]).args(directories).args(flags).output().unwrap()
}

/// What the command did.
const LOG: &str = "aiperf_plot.log";

/// Returns the names of the files in `directory`.
fn files(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Returns the names and contents of the pictures in `directory`, which are PNG files.
fn drawings(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let place = directory.join("plots");
    let names = files(&place).into_iter().filter(|name| name.contains(".png"));
    names
        .map(|name| {
            let bytes = std::fs::read(place.join(&name)).unwrap();
            (name, bytes)
        })
        .collect()
}

/// Draws the pictures in both formats, and compares them with the files in `directory`.
fn draw_both(directory: &Path) {
    let output = plot(&[directory], &["--format", "svg,png"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    run_python("tests/read_plots.py", directory);
}

#[test]
fn pictures_show_what_the_files_contain() {
    let server = mock(varied());
    let flags = ["--concurrency", "4", "--request-count", "120", "--slice-duration", "0.2"];
    let flags = [&flags[..], &["--auto-plot"]].concat();
    let run = profile(&server.url(), &flags).succeeded();
    let before = files(run.directory.path());
    let at_once = drawings(run.directory.path());
    let output = plot(&[run.directory.path()], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // From the files come the same pictures as from the results in memory.
    assert!(drawings(run.directory.path()) == at_once);
    let place = run.directory.path().join("plots");
    let said = format!("{} pictures in {}\n", at_once.len(), place.display());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), said);
    assert!(run.stdout().contains(&said), "{}", run.stdout());
    assert_eq!(files(&place).len(), at_once.len() + 2, "{:?}", files(&place));
    draw_both(run.directory.path());
    // Nothing else is written.
    assert_eq!(files(run.directory.path()), before);
    let names = files(&place);
    for name in ["ttft_over_time", "ttft_timeline", "timeslices_ttft", "errors_over_time"] {
        assert!(names.contains(&format!("{name}.png")), "{name}: {names:?}");
    }
    let dark = run.directory.path().join("dark");
    let flags = ["--theme", "dark", "--format", "svg", "--output", dark.to_str().unwrap()];
    let paths = ["--paths", run.directory.path().to_str().unwrap()];
    let output = plot(&[], &[&paths[..], &flags].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let drawn: Vec<&String> = names.iter().filter(|name| name.contains(".svg")).collect();
    let found = files(&dark);
    let pictures: Vec<&String> = found.iter().filter(|name| name.contains(".svg")).collect();
    assert_eq!(pictures, drawn);
    assert_eq!(found.len(), drawn.len() + 2, "{found:?}");
    // AIPerf's layout.
    let summary = std::fs::read_to_string(dark.join("summary.txt")).unwrap();
    let lines: Vec<&str> = summary.lines().collect();
    assert_eq!(lines[1], "=".repeat(50));
    assert_eq!(lines[3], format!("Generated {} plots:", drawn.len()));
    let listed: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("  - ")).collect();
    assert_eq!(listed.len(), drawn.len());
    assert!(drawn.iter().all(|name| listed.contains(&name.as_str())), "{summary}");
    assert_eq!(*lines.last().unwrap(), format!("Output directory: {}", dark.display()));
    let log = std::fs::read_to_string(dark.join(LOG)).unwrap();
    assert_eq!(log.lines().filter(|line| line.contains("drew ")).count(), drawn.len(), "{log}");
    let svg = std::fs::read_to_string(dark.join("ttft_timeline.svg")).unwrap();
    assert!(svg.contains("fill=\"#1b2026\""), "{svg}");
}

#[test]
fn pictures_of_several_runs_compare_them() {
    let server = mock(Script { ttft: Nanos::from_millis(5.0), ..Script::default() });
    let flags = ["--concurrency", "1,2,4", "--request-count", "12", "--auto-plot"];
    let sweep = profile(&server.url(), &flags).succeeded();
    let directory = sweep.directory.path();
    let at_once = drawings(directory);
    assert!(sweep.stdout().contains(" pictures in "), "{}", sweep.stdout());
    draw_both(directory);
    assert!(drawings(directory) == at_once);
    // The same runs, given one by one.
    let cells =
        ["concurrency_4", "concurrency_1", "concurrency_2"].map(|name| directory.join(name));
    let cells = cells.each_ref().map(std::path::PathBuf::as_path);
    let output = plot(&cells, &["--format", "svg"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = |place: &Path| {
        let svg =
            std::fs::read_to_string(place.join("plots/request_throughput_by_cell.svg")).unwrap();
        let from = svg.find("<g class=\"series\">").unwrap();
        let mut circles: Vec<String> = svg[from..]
            .lines()
            .filter(|line| line.starts_with("<circle"))
            .map(str::to_owned)
            .collect();
        circles.sort();
        circles
    };
    assert_eq!(svg(cells[0]).len(), 3);
    assert_eq!(svg(cells[0]), svg(directory));
}

#[test]
fn pictures_that_cannot_be_drawn_after_a_run_are_a_warning_unless_they_are_required() {
    let server = mock(Script::default());
    let run = |more: &[&str]| {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("plots"), "a file in the way").unwrap();
        let flags = [&["--request-count", "3", "--auto-plot"], more].concat();
        let mut command = profile_command(&server.url(), directory.path(), &flags);
        Run { output: command.output().unwrap(), directory }
    };
    for (more, code, said) in [
        (&[][..], 0, "warning: the charts were not drawn: "),
        (&["--plot-required"], 1, "error: the charts were not drawn: "),
        (&["--no-auto-plot", "--plot-required"], 2, "no charts are drawn; add --auto-plot"),
        (&["--export-level", "summary"], 2, "charts need the records of requests"),
    ] {
        let run = run(more);
        assert_eq!(run.exit_code(), Some(code), "{}", run.stderr());
        assert!(run.stderr().contains(said), "{}", run.stderr());
        assert_eq!(run.path("profile_export.jsonl").exists(), code < 2);
    }
}

#[test]
fn what_cannot_be_drawn_is_an_error() {
    let server = mock(Script { faults: faults(&["every=1:status=503"]), ..Script::default() });
    let failed = profile(&server.url(), &["--request-count", "3"]);
    // Failures are drawn.
    let output = plot(&[failed.directory.path()], &["--format", "svg"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = files(&failed.directory.path().join("plots"));
    assert!(names.contains(&"errors_over_time.svg".to_owned()), "{names:?}");
    assert!(!names.contains(&"ttft_timeline.svg".to_owned()), "{names:?}");

    let server = mock(Script::default());
    let summary = profile(&server.url(), &["--request-count", "3", "--export-level", "summary"]);
    let killed = profile(&server.url(), &["--request-count", "3"]).succeeded();
    std::fs::remove_file(killed.directory.path().join("profile_export.parquet")).unwrap();
    let empty = tempfile::tempdir().unwrap();
    for (directory, why) in [
        (empty.path().join("nothing"), "is not a directory"),
        (empty.path().to_owned(), "does not contain a run with the records of its requests"),
        (summary.directory.path().to_owned(), "does not contain a run with the records"),
        (killed.directory.path().to_owned(), "write it with `aiperf report"),
    ] {
        let output = plot(&[&directory], &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(why), "{stderr}");
        assert!(!directory.join("plots").exists());
    }
}
