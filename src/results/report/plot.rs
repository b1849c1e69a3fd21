//! Pictures of charts, as PNG and SVG files.

mod draw;
mod font;
mod intervals;
mod labels;
mod png;
mod scale;
mod scene;
mod svg;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base::platform::replace::replace;
use base::setting::named;

use self::draw::Style;
use self::font::Font;
use super::chart::Chart;
use super::theme::ThemeName;
use crate::artifacts::WriteFailure;

/// A format of pictures (`--format`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Pixels.
    Png,
    /// Shapes and text.
    Svg,
}

/// Whether charts are drawn after a run (`--auto-plot`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AutoPlot {
    /// No.
    #[default]
    Off,
    /// Yes; a failure is a warning.
    On,
    /// Yes; a failure is an error (`--plot-required`).
    Required,
}

impl AutoPlot {
    /// Returns whether charts are drawn if they are asked for, and whether they are required.
    #[must_use]
    pub const fn new(is_asked: bool, is_required: bool) -> Self {
        match (is_asked, is_required) {
            (false, _) => Self::Off,
            (true, false) => Self::On,
            (true, true) => Self::Required,
        }
    }
}

named! { Format { "png" => Png, "svg" => Svg } }

/// How pictures are made.
#[derive(Debug, Clone)]
pub struct Config {
    pub theme: ThemeName,
    /// The formats, each of which is a file.
    pub formats: Vec<Format>,
}

/// The default theme, and PNG, as AIPerf draws.
impl Default for Config {
    fn default() -> Self {
        Self { theme: ThemeName::default(), formats: vec![Format::Png] }
    }
}

/// The charts of runs, and what was run.
pub struct Charts {
    pub(super) subject: String,
    pub(super) charts: Vec<Chart>,
}

impl Charts {
    /// Returns whether there is nothing to see.
    pub fn is_empty(&self) -> bool {
        self.charts.is_empty()
    }

    /// Writes the pictures to `directory`, creating it if necessary; returns their paths.
    pub fn write(&self, directory: &Path, config: &Config) -> Result<Vec<PathBuf>, WriteFailure> {
        let failed = |path: &Path, error: io::Error| WriteFailure {
            path: path.to_owned(),
            error: error.to_string(),
        };
        fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        let font = Font::embedded();
        let font =
            font.ok_or_else(|| failed(directory, io::Error::other("the font is damaged")))?;
        let style = Style { font: &font, theme: config.theme.theme(), subject: &self.subject };
        let end = self.end();
        let mut written = Vec::new();
        for chart in &self.charts {
            let scene = draw::draw(chart, end, &style);
            for format in &config.formats {
                let (extension, bytes) = match format {
                    Format::Png => ("png", png::file(&scene, &font).unwrap_or_default()),
                    Format::Svg => ("svg", svg::file(&scene).into_bytes()),
                };
                let path = directory.join(format!("{}.{extension}", chart.name));
                replace(&path, |out| out.write_all(&bytes))
                    .map_err(|error| failed(&path, error))?;
                written.push(path);
            }
        }
        Ok(written)
    }

    /// Returns the end of the time axis that all charts over time share, in seconds.
    fn end(&self) -> f64 {
        let timelines = self.charts.iter().filter(|chart| chart.is_timeline);
        let points = timelines.flat_map(|chart| &chart.series).flat_map(|series| &series.points);
        points.map(|point| point.x).fold(0.0, f64::max)
    }
}
