//! The view in a pseudo-terminal, which `script` of util-linux provides.

use std::env;
use std::process::{Command, Stdio};

use client::schedule::PhaseKind;

use super::*;

/// Set in the process that runs in the terminal.
const IN_TERMINAL: &str = "AIPERF_TEST_IN_TERMINAL";

const MESSAGE: &str = "a thread has panicked";

#[test]
fn a_panic_gives_the_terminal_back() {
    if env::var_os(IN_TERMINAL).is_some() {
        return panic_during_the_view();
    }
    let program = env::current_exe().unwrap();
    let commands = format!(
        "stty cols 80 rows 24; '{}' --exact terminal::view::tests::a_panic_gives_the_terminal_back \
         --nocapture; stty -a",
        program.display()
    );
    let mut script = Command::new("script");
    script.args(["-qfc", &commands, "/dev/null"]).env("TERM", "xterm").env(IN_TERMINAL, "1");
    script.env("SHELL", "/bin/sh").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut script = script.spawn().unwrap();
    // The end of the input would be a key.
    let keys = script.stdin.take();
    let output = script.wait_with_output().unwrap();
    drop(keys);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!((text.matches(ENTER).count(), text.matches(LEAVE).count()), (1, 1), "{text}");
    let (_, view) = text.split_once(ENTER).unwrap();
    let (view, after) = view.split_once(LEAVE).unwrap();
    assert!(!view.contains(MESSAGE) && !view.contains("a warning"), "{view}");
    let (before, after) = after.split_once(MESSAGE).unwrap_or_else(|| panic!("{text}"));
    assert!(before.contains("a warning"), "{text}");
    // The progress goes on as a line.
    assert!(after.contains("profiling"), "{text}");
    assert!(after.contains("test result: ok"), "{text}");
    for mode in [" icanon", " echo ", "susp = ^Z", "quit = ^\\"] {
        assert!(after.contains(mode), "{mode}: {text}");
    }
}

/// The worst case: the thread that panics holds what a frame is drawn from.
fn panic_during_the_view() {
    stderr::start();
    let interrupter = Interrupter::default();
    let status = Status::new(interrupter.interrupt(), false);
    let view = View::new(Ui::Dashboard, None, &interrupter, &status);
    view.open();
    let screen = view.screen().unwrap();
    let _ = io::Write::write_all(&mut Stderr, b"a warning\n");
    let thread = thread::spawn(move || {
        let _state = screen.state.lock();
        panic!("{MESSAGE}");
    });
    assert!(thread.join().is_err());
    assert!(view.screen().is_none());
    let sending = PhaseStats { phase: PhaseKind::Profiling, ..PhaseStats::default() };
    let phases = [sending];
    let health = || unreachable!("lines do not show client health");
    let load_times = || unreachable!("lines do not show the load");
    let progress = Progress {
        phases: &phases,
        name: "profiling",
        is_behind: false,
        health: &health,
        load_times: &load_times,
    };
    view.progress(&progress);
    stderr::finish();
    view.close();
}
