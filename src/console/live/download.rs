//! The progress of downloads: a bar on a terminal, a line for each file elsewhere.

use std::fmt;
use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Ui;
use super::line::Screen;
use crate::console::files::size;
use crate::hub::Transfer;
use crate::lock::Lock;

/// Shows downloads, one after the other.
pub(crate) struct DownloadLine {
    output: Option<Lock<Output>>,
}

struct Output {
    kind: Kind,
    /// The file shown last.
    file: String,
}

enum Kind {
    Bar(ProgressBar),
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
    pub(crate) fn new(ui: Ui, width: Option<u16>, out: Box<dyn Write + Send>) -> Self {
        let kind = match (ui, width) {
            (Ui::None, _) => return Self { output: None },
            (_, Some(width)) => Kind::Bar(bar(Screen { width, out: Lock::new(out) })),
            (_, None) => Kind::Lines(out),
        };
        Self { output: Some(Lock::new(Output { kind, file: String::new() })) }
    }

    /// Shows `transfer`; its bar is removed at the end of the file.
    pub(crate) fn update(&self, transfer: Transfer<'_>) {
        let Some(output) = &self.output else { return };
        let mut output = output.lock();
        let Transfer { repository, file, bytes, total } = transfer;
        let is_new = output.file != file;
        if is_new {
            file.clone_into(&mut output.file);
        }
        match &mut output.kind {
            Kind::Bar(bar) => {
                if is_new {
                    bar.reset();
                    bar.set_prefix(file.to_owned());
                }
                bar.set_length(total.unwrap_or(bytes));
                bar.set_position(bytes);
                if total == Some(bytes) {
                    bar.finish_and_clear();
                }
            }
            Kind::Lines(lines) if is_new => {
                let size = total.map(|total| format!(" ({})", size(total)));
                let size = size.unwrap_or_default();
                // An error means that standard error is closed, which does not stop a run.
                let _ = writeln!(lines, "downloading {file} of {repository}{size}");
            }
            Kind::Lines(_) => {}
        }
    }
}

fn bar(screen: Screen) -> ProgressBar {
    let target = ProgressDrawTarget::term_like(Box::new(screen));
    let template = "{prefix} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
    let bar = ProgressBar::with_draw_target(Some(0), target);
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
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
