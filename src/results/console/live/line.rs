//! Progress in one line: a bar on a terminal, periodic lines elsewhere.

use std::fmt;
use std::io::Write;

use base::units::Nanos;
use client::schedule::{PhaseKind, PhaseStats};

use super::bar::{BarLine, bar};
use super::block::head;
use super::{Ui, duration};
use crate::console::panel::wrapped;
use crate::tables::format::count;

/// Interval between lines without a terminal, by default.
const LINE_INTERVAL: Nanos = Nanos(10_000_000_000);

/// Shows the progress of a run. It may be updated often: it limits its own output.
pub struct ProgressLine {
    output: Output,
    /// The phase shown last.
    phase: Option<(PhaseKind, u32)>,
    /// Its name.
    name: String,
    next_line: Nanos,
    /// Interval between blocks of statistics, if there are any; zero for no periodic output.
    interval: Option<Nanos>,
    /// The line written last.
    last_line: String,
}

enum Output {
    Nothing,
    /// A bar, and the width of its terminal.
    Bar(BarLine, u16),
    Lines(Box<dyn Write + Send>),
}

impl fmt::Debug for ProgressLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressLine").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl ProgressLine {
    /// Creates a view on `out` for the mode `ui`: a bar if `out` is a terminal of `width` columns,
    /// otherwise lines. With an `interval`, blocks of statistics are written at this interval, above
    /// the bar or instead of lines; none if it is zero.
    #[must_use]
    pub fn new(
        ui: Ui,
        width: Option<u16>,
        interval: Option<Nanos>,
        out: Box<dyn Write + Send>,
    ) -> Self {
        let output = match (ui, width) {
            (Ui::None, _) => Output::Nothing,
            (Ui::Simple | Ui::Dashboard, Some(width)) => {
                Output::Bar(BarLine::new(width, out), width)
            }
            (Ui::Simple | Ui::Dashboard, None) => Output::Lines(out),
        };
        Self {
            output,
            phase: None,
            name: String::new(),
            next_line: Nanos::ZERO,
            interval,
            last_line: String::new(),
        }
    }

    /// Shows `stats` of the phase `name`, and whether the client `is_behind` with processing records. Lines are
    /// written when a phase begins and every ten seconds; or else blocks, with the lines that
    /// `details` returns.
    pub fn update(
        &mut self,
        name: &str,
        stats: &PhaseStats,
        is_behind: bool,
        details: impl FnOnce() -> String,
    ) {
        let phase = Some((stats.phase, stats.phase_index));
        let is_new = self.phase != phase;
        self.phase = phase;
        name.clone_into(&mut self.name);
        let interval = self.interval.unwrap_or(LINE_INTERVAL);
        if is_new {
            self.next_line = stats.now + interval;
        }
        let is_due = interval > Nanos::ZERO && stats.now >= self.next_line;
        if is_due {
            self.next_line = stats.now + interval;
        }
        let block = (is_due && self.interval.is_some()).then(|| {
            let (head, line) = (head(name, stats), line(stats, is_behind));
            format!("{head} {line}\n{}", details())
        });
        match &mut self.output {
            Output::Nothing => {}
            Output::Bar(shown, width) => {
                shown.show(|| {
                    let percent = stats.progress_percent();
                    let bar = bar(percent / 100.0);
                    format!("{name} {bar} {percent:.0}% {}", status(stats, is_behind))
                });
                if let Some(block) = block {
                    let lines = block.trim_end().lines();
                    let lines = lines.flat_map(|line| wrapped(line, usize::from(*width)));
                    shown.print_above(&lines.collect::<Vec<_>>().join("\n"));
                }
            }
            Output::Lines(lines) => match block {
                // A closed standard error does not stop a run.
                Some(block) => {
                    let _ = lines.write_all(block.as_bytes()).and_then(|()| lines.flush());
                }
                None if is_new || is_due => {
                    let line = format!("{name} {}", line(stats, is_behind));
                    write_line(lines.as_mut(), line, &mut self.last_line);
                }
                None => {}
            },
        }
    }

    /// Shows the end of a phase and removes the bar.
    pub fn finish(&mut self, stats: &PhaseStats) {
        match &mut self.output {
            Output::Nothing => {}
            Output::Bar(shown, _) => shown.clear(),
            Output::Lines(lines) => {
                let line = format!("{} {}", self.name, line(stats, false));
                write_line(lines.as_mut(), line, &mut self.last_line);
            }
        }
    }
}

/// Writes a line unless it repeats `last`. Errors are ignored, so that a closed standard
/// error does not stop a run.
fn write_line(lines: &mut dyn Write, line: String, last: &mut String) {
    if line != *last {
        let _ = writeln!(lines, "{line}");
        let _ = lines.flush();
        *last = line;
    }
}

/// `45%: ` and the status.
fn line(stats: &PhaseStats, is_behind: bool) -> String {
    format!("{:.0}%: {}", stats.progress_percent(), status(stats, is_behind))
}

/// `1,200 done, 98.5 requests/s, 10 in flight, 3 errors, 12 s left, client behind`
fn status(stats: &PhaseStats, is_behind: bool) -> String {
    let elapsed = stats.elapsed_seconds();
    let rate = if elapsed > 0.0 { stats.requests_returned as f64 / elapsed } else { 0.0 };
    let left = stats.seconds_left().map(|left| format!(", {} left", duration(left)));
    format!(
        "{} done, {rate:.1} requests/s, {} in flight, {} errors{}{}",
        count(stats.requests_returned),
        count(stats.requests_in_flight()),
        count(stats.request_errors),
        left.unwrap_or_default(),
        if is_behind { ", client behind: records are waiting to be processed" } else { "" },
    )
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn stats(seconds: u64, completed: u64) -> PhaseStats {
        PhaseStats {
            start: Nanos(5_000_000_000),
            now: Nanos((5 + seconds) * 1_000_000_000),
            total_expected_requests: Some(4000),
            requests_sent: completed + 10,
            requests_returned: completed,
            request_errors: 3,
            ..PhaseStats::default()
        }
    }

    #[test]
    fn lines_come_at_the_start_and_then_every_ten_seconds() {
        let shared = Shared::default();
        let mut view = ProgressLine::new(Ui::Dashboard, None, None, Box::new(shared.clone()));
        for seconds in 0..=20 {
            view.update("storm", &stats(seconds, seconds * 100), seconds == 10, String::new);
        }
        view.finish(&stats(20, 2000));
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        let expected = "\
storm 0%: 0 done, 0.0 requests/s, 10 in flight, 3 errors
storm 25%: 1,000 done, 100.0 requests/s, 10 in flight, 3 errors, 30 s left, client behind: records are waiting to be processed
storm 50%: 2,000 done, 100.0 requests/s, 10 in flight, 3 errors, 20 s left
";
        assert_eq!(text, expected);
    }

    #[test]
    fn blocks_replace_lines_and_come_at_their_interval() {
        for (interval, blocks) in [(4, 5), (0, 0)] {
            let shared = Shared::default();
            let interval = Some(Nanos(interval * 1_000_000_000));
            let mut view = ProgressLine::new(Ui::Simple, None, interval, Box::new(shared.clone()));
            for seconds in 0..=20 {
                view.update("profiling", &stats(seconds, seconds * 100), false, || {
                    "  details\n".to_owned()
                });
            }
            view.finish(&stats(20, 2000));
            let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.matches("  details\n").count(), blocks, "{text}");
            assert_eq!(text.lines().count(), 2 + 2 * blocks, "{text}");
            let first = "[realtime 00:04 profiling] 10%: 400 done, 100.0 requests/s, 10 in flight";
            assert_eq!(text.contains(first), blocks > 0, "{text}");
        }
    }

    #[test]
    fn blocks_above_a_bar_are_wrapped_between_words() {
        let shared = Shared::default();
        let interval = Some(Nanos(1_000_000_000));
        let mut view = ProgressLine::new(Ui::Simple, Some(30), interval, Box::new(shared.clone()));
        let details = || "  done=1,203 ok=1,200 err=3 tput_out=203.2\n".to_owned();
        view.update("profiling", &stats(1, 5), false, details);
        view.update("profiling", &stats(3, 5), false, details);
        view.finish(&stats(4, 10));
        let text = String::from_utf8(shared.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("  done=1,203 ok=1,200 err=3"), "{text:?}");
        assert!(text.contains("  tput_out=203.2"), "{text:?}");
    }

    #[test]
    fn none_is_silent() {
        let shared = Shared::default();
        let interval = Some(Nanos(1_000_000_000));
        let mut view = ProgressLine::new(Ui::None, None, interval, Box::new(shared.clone()));
        view.update("profiling", &stats(1, 5), true, String::new);
        view.finish(&stats(2, 10));
        assert!(shared.0.lock().unwrap().is_empty());
    }
}
