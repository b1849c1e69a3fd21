//! The progress of downloads: a bar on a terminal, a line for each file elsewhere.

use std::fmt;
use std::io::Write;

use base::lock::Lock;
use base::units::{Clock, Nanos};
use tokens::hub::Transfer;

use super::bar::{BarLine, bar};
use super::{Ui, duration};
use crate::console::files::size;

/// Shows downloads, one after the other.
pub struct DownloadLine {
    output: Option<Lock<Output>>,
}

struct Output {
    kind: DownloadOutput,
    /// The file shown last.
    file: String,
}

enum DownloadOutput {
    /// A bar, and when its file began.
    Bar(BarLine, Nanos),
    Lines(Box<dyn Write + Send>),
}

impl fmt::Debug for DownloadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DownloadLine").finish_non_exhaustive()
    }
}

impl DownloadLine {
    /// Creates a view on `out` for the mode `ui`: a bar if `out` is a terminal of `width` columns,
    /// otherwise lines.
    pub fn new(ui: Ui, width: Option<u16>, out: Box<dyn Write + Send>) -> Self {
        let kind = match (ui, width) {
            (Ui::None, _) => return Self { output: None },
            (_, Some(width)) => DownloadOutput::Bar(BarLine::new(width, out), Clock::now()),
            (_, None) => DownloadOutput::Lines(out),
        };
        Self { output: Some(Lock::new(Output { kind, file: String::new() })) }
    }

    /// Shows `transfer`; its bar is removed at the end of the file.
    pub fn update(&self, transfer: Transfer<'_>) {
        let Some(output) = &self.output else { return };
        let mut output = output.lock();
        let Transfer { repository, file, bytes, total } = transfer;
        let is_new = output.file != file;
        if is_new {
            file.clone_into(&mut output.file);
        }
        match &mut output.kind {
            DownloadOutput::Bar(shown, start) => {
                if is_new {
                    shown.clear();
                    *start = Clock::now();
                }
                shown.show(|| status(file, bytes, total, Clock::now().since(*start).as_seconds()));
                if total == Some(bytes) {
                    shown.clear();
                }
            }
            DownloadOutput::Lines(lines) if is_new => {
                let size = total.map(|total| format!(" ({})", size(total)));
                let size = size.unwrap_or_default();
                // An error means that standard error is closed, which does not stop a run.
                let _ = writeln!(lines, "downloading {file} of {repository}{size}");
            }
            DownloadOutput::Lines(_) => {}
        }
    }
}

/// `model.safetensors [███░░░] 3.0 MB/6.0 MB 1.0 MB/s 3 s left`
fn status(file: &str, bytes: u64, total: Option<u64>, seconds: f64) -> String {
    let rate = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
    let of_all = total.unwrap_or(bytes);
    let left = (rate > 0.0).then(|| of_all.saturating_sub(bytes) as f64 / rate);
    let left = left.map(|left| format!(" {} left", duration(left))).unwrap_or_default();
    let share = bytes as f64 / of_all.max(1) as f64;
    let [bytes, of_all, rate] = [bytes, of_all, rate as u64].map(size);
    format!("{file} {} {bytes}/{of_all} {rate}/s{left}", bar(share))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Lock<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn shown(ui: Ui, width: Option<u16>) -> String {
        let shared = Shared::default();
        let line = DownloadLine::new(ui, width, Box::new(shared.clone()));
        for (file, bytes) in [("a.parquet", 0), ("a.parquet", 3_000_000), ("b.parquet", 0)] {
            let total = Some(3_000_000);
            line.update(Transfer { repository: "org/name", file, bytes, total });
        }
        String::from_utf8(shared.0.lock().clone()).unwrap()
    }

    #[test]
    fn each_file_has_a_line_without_a_terminal_and_a_bar_on_one() {
        assert_eq!(
            shown(Ui::Simple, None),
            "downloading a.parquet of org/name (3.0 MB)\ndownloading b.parquet of org/name (3.0 MB)\n"
        );
        assert!(shown(Ui::Dashboard, Some(80)).contains("a.parquet ["));
        assert_eq!(shown(Ui::None, Some(80)), "");
    }
}
