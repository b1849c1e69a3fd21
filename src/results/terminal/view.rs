//! The progress of runs on the terminal: the live view, or a line.
//!
//! The live view has a thread of low priority that draws and reads keys. Meanwhile all other
//! output on standard error is held back ([`stderr`]), shown in the view, and written after it.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::sync::{Arc, Once};
use std::time::Duration;
use std::{panic, thread};

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};

use base::interrupt::{Interrupt, Interrupter};
use base::lock::Lock;
use base::platform::Background;
use base::platform::process::yield_to_measurement;
use base::platform::terminal::{Keyboard, Terminal};
use base::units::{Clock, Nanos};
use client::schedule::PhaseStats;

use super::stderr::{self, Stderr};
use super::style::terminal_width;
use crate::console::Ui;
use crate::console::live::draw::{Choice, Page, SMALLEST, draw};
use crate::console::{ProgressLine, block};
use crate::follow::{Follower, Progress};
use crate::status::Status;
use crate::status::snapshot::Snapshot;

/// Interval between two frames.
const FRAME: Duration = Duration::from_millis(250);

/// Size of the log's end that a frame may need.
const LOG_BYTES: usize = 16 << 10;

/// Switches to the alternate screen, and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";

/// Undoes [`ENTER`].
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// The keyboard while the live view has the terminal, to be given back.
static TAKEN: Lock<Option<Arc<Keyboard>>> = Lock::new(None);

/// Shows the progress of the runs of a command, while it is open.
pub struct View {
    ui: Ui,
    /// Interval between blocks of statistics, if there are any.
    stats_interval: Option<Nanos>,
    interrupter: Interrupter,
    status: Arc<Status>,
    shown: Lock<Shown>,
}

/// What a view shows, if anything.
#[derive(Default)]
struct Shown {
    is_open: bool,
    line: Option<ProgressLine>,
    screen: Option<Arc<Screen>>,
}

/// The live view.
pub(crate) struct Screen {
    interrupter: Interrupter,
    interrupt: Interrupt,
    status: Arc<Status>,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    choice: Choice,
    /// What is shown while the view is paused.
    frozen: Option<Snapshot>,
    /// The screen's content.
    painted: Buffer,
}

impl View {
    /// Creates the view that `ui` specifies, which is closed. Lines have blocks of statistics at
    /// `stats_interval`, if given.
    pub fn new(
        ui: Ui,
        stats_interval: Option<Nanos>,
        interrupter: &Interrupter,
        status: &Arc<Status>,
    ) -> Self {
        let (interrupter, status) = (interrupter.clone(), Arc::clone(status));
        Self { ui, stats_interval, interrupter, status, shown: Lock::default() }
    }

    /// Begins to show progress: in the live view if it is wanted, standard error is a terminal that
    /// is large enough, the program is in its foreground, and the threads can be started, or else as
    /// lines.
    pub fn open(&self) {
        let start = || Screen::start(&self.interrupter, &self.status);
        let screen = (self.ui == Ui::Dashboard).then(start).flatten();
        *self.shown.lock() = Shown { is_open: true, line: None, screen };
    }

    /// Returns whether the status is shown.
    pub fn needs_status(&self) -> bool {
        let has_blocks = self.ui != Ui::None && self.stats_interval.is_some();
        has_blocks || self.screen().is_some()
    }

    /// Returns the live view, if it is shown: a panic ends it.
    fn screen(&self) -> Option<Arc<Screen>> {
        self.shown.lock().screen.clone().filter(|_| stderr::is_held())
    }

    /// Shows a line for standard output in the live view. Returns whether the caller need not
    /// write it, since it will be written after the view.
    pub fn takes(&self, text: &str) -> bool {
        if self.screen().is_none() {
            return false;
        }
        let is_same_terminal = io::stdout().is_terminal();
        if is_same_terminal {
            // An error means that the terminal is gone; there is nowhere to report it.
            let _ = io::Write::write_all(&mut Stderr, text.as_bytes());
        } else {
            stderr::note(text);
        }
        is_same_terminal
    }

    /// Gives the terminal back, after a last frame, and shows no more progress.
    pub fn close(&self) {
        let Shown { screen, .. } = std::mem::take(&mut *self.shown.lock());
        if let Some(screen) = screen {
            {
                let mut state = screen.state.lock();
                state.frozen = None;
                state.choice.is_paused = false;
            }
            stderr::finish();
            screen.draw();
            leave();
            // What follows on standard output belongs to the normal screen.
            stderr::finish();
        }
    }
}

impl Follower for View {
    fn progress(&self, progress: &Progress<'_>) {
        let Some(stats) = progress.phases.last().filter(|_| self.screen().is_none()) else {
            return;
        };
        let mut shown = self.shown.lock();
        if !shown.is_open {
            return;
        }
        let (ui, interval) = (self.ui, self.stats_interval);
        let line = shown.line.get_or_insert_with(|| {
            ProgressLine::new(ui, terminal_width(&io::stderr()), interval, Box::new(Stderr))
        });
        let known = &self.status;
        line.update(progress.name, stats, progress.is_behind, || {
            block(&known.snapshot().statistics, &known.results())
        });
    }

    fn load_ended(&self, phase: &PhaseStats) {
        if let Some(mut line) = self.shown.lock().line.take() {
            line.finish(phase);
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.close();
    }
}

/// Gives the terminal back, if the live view has it.
fn leave() {
    let taken = TAKEN.lock().take();
    if let Some(keyboard) = taken {
        keyboard.give_back();
        stderr::release(LEAVE.as_bytes());
    }
}

impl Screen {
    /// Takes the terminal; `None` if it is not fit for the view.
    fn start(interrupter: &Interrupter, status: &Arc<Status>) -> Option<Arc<Self>> {
        if !io::stderr().is_terminal() || std::env::var_os("TERM").is_none_or(|it| it == "dumb") {
            return None;
        }
        let (columns, rows) = io::stderr().size()?;
        if columns < SMALLEST.0 || rows < SMALLEST.1 {
            return None;
        }
        let keyboard = Arc::new(Keyboard::take().ok()?);
        let choice = Choice {
            has_colour: std::env::var_os("NO_COLOR").is_none_or(|it| it.is_empty()),
            ..Choice::default()
        };
        let screen = Arc::new(Self {
            interrupter: interrupter.clone(),
            interrupt: interrupter.interrupt(),
            status: Arc::clone(status),
            state: Lock::new(State { choice, ..State::default() }),
        });
        let (drawing, keys) = (Arc::clone(&screen), Arc::clone(&keyboard));
        *TAKEN.lock() = Some(keyboard);
        leave_before_panics();
        let is_held = stderr::hold(ENTER.as_bytes());
        let thread = thread::Builder::new().name("view".to_owned());
        let started = thread.spawn(move || {
            yield_to_measurement(Background::Timely);
            drawing.run(&keys);
        });
        if !is_held || started.is_err() {
            leave();
            return None;
        }
        Some(screen)
    }

    /// Draws and reads keys until the terminal is given back.
    fn run(&self, keyboard: &Keyboard) {
        let mut has_keys = true;
        let mut next = Clock::now();
        while stderr::is_held() {
            let wait = Duration::from(next.since(Clock::now()));
            let keys = if has_keys {
                keyboard.wait(wait)
            } else {
                thread::sleep(wait);
                Ok(Vec::new())
            };
            match keys {
                Ok(keys) => keys.iter().for_each(|key| self.press(*key)),
                Err(error) => has_keys = error.kind() == io::ErrorKind::Interrupted,
            }
            if Clock::now() >= next {
                next = Clock::now() + FRAME.into();
                self.draw();
            }
        }
    }

    fn press(&self, key: u8) {
        let mut state = self.state.lock();
        let choice = &mut state.choice;
        match key {
            b'q' if !self.interrupt.is_draining() => self.interrupter.signal(),
            b'Q' => {
                self.interrupter.signal();
                self.interrupter.signal();
            }
            b'p' | b' ' => {
                choice.is_paused = !choice.is_paused;
                state.frozen = None;
            }
            b'\t' => choice.page = choice.page.next(),
            b'?' | b'h' => choice.shows_help = !choice.shows_help,
            // Escape.
            0x1b => choice.shows_help = false,
            // Ctrl-L.
            0x0c => state.painted = Buffer::default(),
            b'1'..=b'3' => {
                choice.page = Page::ALL[usize::from(key - b'1')];
                choice.shows_help = false;
            }
            _ => {}
        }
    }

    /// Draws a frame, unless the terminal has not taken the last one.
    fn draw(&self) {
        let Some(log) = stderr::ready(LOG_BYTES) else { return };
        let Some(size) = io::stderr().size() else { return };
        let mut state = self.state.lock();
        let snapshot = match state.frozen.take() {
            Some(frozen) => frozen,
            None => self.status.snapshot(),
        };
        if state.choice.is_paused {
            state.frozen = Some(snapshot.clone());
        }
        let buffer = draw(&Snapshot { log, ..snapshot }, state.choice, size);
        let text = changes(&mut state.painted, buffer);
        stderr::frame(text.as_bytes());
    }
}

/// Returns what turns the screen's content into `next`, which replaces it.
fn changes(painted: &mut Buffer, next: Buffer) -> String {
    let mut text = String::new();
    if painted.area != next.area {
        text.push_str("\x1b[0m\x1b[2J");
        *painted = Buffer::empty(next.area);
    }
    let mut cursor = None;
    let mut style = None;
    for (x, y, cell) in painted.diff(&next) {
        if cursor != Some((x, y)) {
            let _ = write!(text, "\x1b[{};{}H", y + 1, x + 1);
        }
        if style != Some((cell.fg, cell.modifier)) {
            style = Some((cell.fg, cell.modifier));
            text.push_str(&rendition(cell));
        }
        text.push_str(cell.symbol());
        // The width of other characters depends on the terminal.
        cursor = cell.symbol().is_ascii().then_some((x + 1, y));
    }
    text.push_str("\x1b[0m");
    *painted = next;
    text
}

/// The control sequence for the style of `cell` (ECMA-48 SGR).
fn rendition(cell: &Cell) -> String {
    let mut text = "\x1b[0".to_owned();
    if cell.modifier.contains(Modifier::BOLD) {
        text.push_str(";1");
    }
    if cell.modifier.contains(Modifier::DIM) {
        text.push_str(";2");
    }
    text.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::Cyan => ";36",
        _ => "",
    });
    text.push('m');
    text
}

/// Has the message of a panic written to the normal screen.
fn leave_before_panics() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            leave();
            stderr::finish();
            before(info);
        }));
    });
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
