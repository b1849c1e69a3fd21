//! The live view of the real program in a pseudo-terminal of 80 columns and 24 rows, which
//! `script` of util-linux provides.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::load::{faulty, mock, varied};
use crate::support::metrics_endpoint::wait_until;
use crate::support::run::{profile_command, summary};

/// Switches to the alternate screen.
const ENTER: &str = "\x1b[?1049h";
/// Shows the cursor and returns to the normal screen.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// The program in a terminal.
struct Session {
    script: Child,
    keys: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
    directory: TempDir,
}

/// Profiles the server at `url` in a terminal.
fn start(url: &str, flags: &[&str], variables: &[(&str, &str)]) -> Session {
    let directory = tempfile::tempdir().unwrap();
    let run = profile_command(url, &directory.path().join("run"), flags);
    let arguments = run.get_args().map(|it| it.to_str().unwrap());
    // The run's own flag is the last one.
    let words: Vec<String> = [run.get_program().to_str().unwrap()]
        .into_iter()
        .chain(arguments)
        .map(|word| format!("'{}'", if word == "none" { "dashboard" } else { word }))
        .collect();
    let program = directory.path().join("program");
    let place = directory.path().display();
    let lines = format!(
        "trap : INT\nstty cols {COLUMNS} rows {ROWS}\nsh -c 'echo $$ > {place}/pid; exec \"$@\"' sh {}\n\
         echo \"code $?\"\nstty -a\n",
        words.join(" ")
    );
    fs::write(&program, lines).unwrap();
    let mut script = Command::new("script");
    script.args(["-qfc", &format!("sh {}", program.display()), "/dev/null"]);
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script.env("TERM", "xterm").envs(variables.iter().copied());
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut script = script.spawn().unwrap();
    let keys = script.stdin.take().unwrap();
    let mut stdout = script.stdout.take().unwrap();
    let output = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&output);
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut buffer) {
            received.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
    });
    Session { script, keys, output, directory }
}

impl Session {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    /// Waits until the output contains `text`, or the rows of a screen do.
    fn wait_for(&self, text: &str) {
        wait_until(text, || {
            let output = self.text();
            output.contains(text) || screen(&output).iter().any(|row| row.contains(text))
        });
    }

    /// Waits for the end, and returns what came before and after the end of the view.
    fn end(&mut self) -> (String, String) {
        // Written after the program has ended.
        self.wait_for(" icanon");
        self.wait_for(" echo ");
        self.script.wait().unwrap();
        let text = self.text();
        assert_eq!(text.matches(ENTER).count(), 1, "{text}");
        assert_eq!(text.matches(LEAVE).count(), 1, "{text}");
        let (view, after) = text.split_once(LEAVE).unwrap();
        (view.to_owned(), after.to_owned())
    }

    fn run(&self) -> Value {
        summary(&self.directory.path().join("run"))
    }

    fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.directory.path().join("pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

/// Returns the rows of the screen after `output`, with the control sequences of the view.
fn screen(output: &str) -> Vec<String> {
    let mut rows = vec![vec![' '; COLUMNS]; ROWS];
    let (mut row, mut column) = (0, 0);
    let from = output.find(ENTER).unwrap_or(output.len());
    let mut letters = output[from..].chars();
    while let Some(letter) = letters.next() {
        if letter != '\x1b' {
            if let Some(cell) = rows.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = letter;
            }
            column += 1;
            continue;
        }
        let mut sequence = String::new();
        for letter in letters.by_ref().skip(1) {
            sequence.push(letter);
            if letter.is_ascii_alphabetic() {
                break;
            }
        }
        match sequence.chars().last() {
            Some('H') => {
                let place = sequence.trim_end_matches('H').split_once(';').unwrap();
                (row, column) = (place.0.parse().unwrap(), place.1.parse().unwrap());
                (row, column) = (row - 1, column - 1);
            }
            Some('J') => rows = vec![vec![' '; COLUMNS]; ROWS],
            Some('m' | 'h' | 'l') | None => {}
            _ => panic!("unexpected control sequence {sequence:?}"),
        }
    }
    rows.into_iter().map(|row| row.into_iter().collect()).collect()
}

/// The numbers in the row that begins with `label`.
fn numbers(rows: &[String], label: &str) -> Vec<f64> {
    let row = rows.iter().find_map(|row| row.trim_start().strip_prefix(label));
    let words = row.unwrap_or_else(|| panic!("{label} is not in {rows:#?}")).split_whitespace();
    // Percentiles of few requests are in brackets.
    words.map_while(|word| word.replace([',', '(', ')'], "").parse().ok()).collect()
}

#[test]
fn the_last_frame_agrees_with_the_files_and_warnings_follow_it() {
    let server = mock(varied());
    let flags = ["--request-count", "60", "--concurrency", "4", "--warmup-request-count", "5"];
    let variables = [("AIPERF_HTTP_CONNECTION_LIMIT", "2")];
    let mut session = start(&server.url(), &flags, &variables);
    let (view, after) = session.end();
    let run = session.run();
    let rows = screen(&view);
    assert!(rows[1].contains("profiling") && rows[1].contains("100%"), "{rows:#?}");

    let value = |metric: &str, statistic: &str| run[metric][statistic].as_f64().unwrap();
    assert_eq!(numbers(&rows, "Succeeded"), [value("request_count", "avg")]);
    assert_eq!(numbers(&rows, "Failed")[1], value("error_request_count", "avg"));
    for (label, metric) in [
        ("TTFT (ms)", "time_to_first_token"),
        ("ITL (ms)", "inter_token_latency"),
        ("Latency (ms)", "request_latency"),
    ] {
        let shown = &numbers(&rows, label)[3..];
        for (shown, statistic) in shown.iter().zip(["p50", "p90", "p99"]) {
            let exact = value(metric, statistic);
            // At most 0.8% too high, and four digits.
            assert!(
                *shown >= exact * 0.999 && *shown <= exact * 1.009,
                "{metric} {statistic}: {shown}"
            );
        }
    }
    for (label, metric) in
        [("Requests/s", "request_throughput"), ("Out tokens/s", "output_token_throughput")]
    {
        let (shown, exact) = (numbers(&rows, label)[1], value(metric, "avg"));
        assert!((shown / exact - 1.0).abs() < 0.001, "{metric}: {shown}, not {exact}");
    }
    assert!(rows.iter().any(|row| row.contains("× 503 Service Unavailable")), "{rows:#?}");

    let warning = "the limit of 2 connections makes some of the";
    assert!(rows.join(" ").contains("WARN"), "{rows:#?}");
    assert!(!view.contains('\n'), "something was written into the view: {view}");
    assert_eq!(after.matches(warning).count(), 1, "{after}");
    assert!(after.contains("Requests/s") && after.contains("code 0"), "{after}");
}

#[test]
fn the_terminal_is_restored_however_the_run_ends() {
    let server = mock(mock_server::Script::default());
    let flags = ["--request-rate", "20", "--benchmark-duration", "600"];
    thread::scope(|scope| {
        for end in 0..4 {
            let (server, flags) = (&server, &flags);
            scope.spawn(move || {
                let mut session = start(&server.url(), flags, &[]);
                session.wait_for("profiling");
                match end {
                    0 => session.keys.write_all(b"q").unwrap(),
                    1 => session.keys.write_all(b"Q").unwrap(),
                    2 => session.keys.write_all(b"\x03").unwrap(),
                    _ => session.signal(Signal::TERM),
                }
                let (_, after) = session.end();
                assert!(after.contains("code 130"), "{after}");
            });
        }
    });
}

#[test]
fn a_silent_server_and_the_run_of_a_sweep_are_shown() {
    let server = faulty("every=3:stall=0,600s");
    let flags =
        ["--concurrency", "1,2", "--request-count", "10", "--request-timeout-seconds", "600"];
    let mut session = start(&server.url(), &flags, &[]);
    session.wait_for("Run 1 of 2: concurrency_1");
    session.wait_for("no response for ");
    session.keys.write_all(b"2").unwrap();
    session.wait_for("Errors and log");
    session.keys.write_all(b"Q").unwrap();
    let (_, after) = session.end();
    assert!(after.contains("code 130"), "{after}");
}

#[test]
fn a_terminal_that_cannot_show_the_view_gets_a_line() {
    let server = mock(mock_server::Script::default());
    let mut session = start(&server.url(), &["--request-count", "5"], &[("TERM", "dumb")]);
    session.wait_for(" icanon");
    session.script.wait().unwrap();
    let text = session.text();
    assert!(text.contains("code 0") && !text.contains(ENTER), "{text}");
    assert_eq!(session.run()["request_count"]["avg"], 5.0);
}

/// One slot of 100 ms serves 10 of 40 requests per second.
#[test]
fn a_growing_queue_and_shares_are_shown_with_the_configured_load() {
    let script = mock_server::Script {
        ttft: base::units::Nanos::from_millis(100.0),
        max_concurrent: Some(1),
        ..mock_server::Script::default()
    };
    let server = mock(script);
    let flags = [
        "--request-rate",
        "40",
        "--arrival-pattern",
        "constant",
        "--benchmark-duration",
        "60",
        "--goodput",
        "request_latency<=3600s",
    ];
    let mut session = start(&server.url(), &flags, &[]);
    session.wait_for("40 req/s, 60 s");
    session.wait_for("good requests 100%");
    session.wait_for("the queue grows by 3");
    session.wait_for("Offered/s");
    session.keys.write_all(b"Q").unwrap();
    session.end();
}
