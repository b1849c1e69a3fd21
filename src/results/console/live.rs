//! Progress during a run: the live view on a terminal, a bar, or periodic lines.

mod bar;
mod block;
mod download;
pub mod draw;
mod line;
mod sheet;

pub use block::block;
pub use download::DownloadLine;
pub use line::ProgressLine;

use base::setting::named;

/// How a run shows its progress (`--ui`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ui {
    /// No progress.
    None,
    /// A progress bar, or lines without a terminal.
    Simple,
    /// The live view; the same as `Simple` if the terminal cannot show it.
    #[default]
    Dashboard,
}

named! { Ui { "dashboard" => Dashboard, "simple" => Simple, "none" => None } }

/// Formats a time as `12 s`, `3 min 20 s` or `2 h 5 min`, rounded up.
fn duration(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Formats a time as `01:30`, minutes and seconds.
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{:02}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests;
