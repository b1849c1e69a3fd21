//! The colours of charts and pages.

use std::fmt::Write as _;

use base::setting::named;

/// A colour as `#rrggbb`.
pub(super) type Colour = &'static str;

/// The theme of a picture (`--theme`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ThemeName {
    /// Dark text on white.
    #[default]
    Light,
    /// Light text on a dark ground.
    Dark,
}

named! { ThemeName { "light" => Light, "dark" => Dark } }

impl ThemeName {
    pub(super) const fn theme(self) -> &'static Theme {
        match self {
            Self::Light => &LIGHT,
            Self::Dark => &DARK,
        }
    }
}

/// The colours of a theme.
#[derive(Debug)]
pub(super) struct Theme {
    /// Text.
    pub(super) text: Colour,
    /// Text of less importance.
    pub(super) faint: Colour,
    /// Axes and borders.
    pub(super) line: Colour,
    /// The ground of charts.
    pub(super) panel: Colour,
    /// The ground of a page.
    ground: Colour,
    good: Colour,
    doubtful: Colour,
    /// Failures.
    pub(super) bad: Colour,
    /// The series, by their position.
    palette: [Colour; 9],
}

const LIGHT: Theme = Theme {
    text: "#1c2126",
    faint: "#57606a",
    line: "#d0d7de",
    panel: "#ffffff",
    ground: "#f5f6f8",
    good: "#1a7f37",
    doubtful: "#9a6700",
    bad: "#c5221f",
    palette: [
        "#0868ac", "#d95f02", "#1b9e77", "#7570b3", "#a6761d", "#c51b7d", "#4d4d4d", "#5a9a10",
        "#1f97b0",
    ],
};

const DARK: Theme = Theme {
    text: "#e6e9ed",
    faint: "#a0a9b4",
    line: "#3a424c",
    panel: "#1b2026",
    ground: "#12161b",
    good: "#57c272",
    doubtful: "#d9a53a",
    bad: "#ff7b72",
    palette: [
        "#6baed6", "#fdae6b", "#66c2a5", "#b3a8e0", "#e0c070", "#f48cc0", "#c0c0c0", "#a6d854",
        "#7fdbea",
    ],
};

impl Theme {
    /// Returns the colour of the series at the position `at`.
    pub(super) fn series(&self, at: usize) -> Colour {
        self.palette[at % self.palette.len()]
    }

    /// Returns the variables of a style sheet.
    fn variables(&self) -> String {
        let named = [
            ("text", self.text),
            ("faint", self.faint),
            ("line", self.line),
            ("panel", self.panel),
            ("ground", self.ground),
            ("good", self.good),
            ("doubtful", self.doubtful),
            ("bad", self.bad),
        ];
        let series = self.palette.iter().enumerate();
        let series = series.map(|(at, colour)| (format!("series-{at}"), *colour));
        let mut variables = String::new();
        for (name, colour) in
            named.map(|(name, at)| (name.to_owned(), at)).into_iter().chain(series)
        {
            let _ = write!(variables, " --{name}: {colour};");
        }
        variables
    }
}

/// Returns the variables of both themes as a style sheet; the user's preference selects the theme.
pub(super) fn style_sheet_by_preference() -> String {
    format!(
        ":root {{{} color-scheme: light; }}\n@media (prefers-color-scheme: dark) {{ :root {{{} \
         color-scheme: dark; }} }}\n",
        LIGHT.variables(),
        DARK.variables()
    )
}

/// Returns the variables of both themes as a style sheet; `data-theme` selects the theme.
pub(super) fn style_sheet() -> String {
    format!(
        ":root {{{} color-scheme: light; }}\n:root[data-theme=\"dark\"] {{{} color-scheme: dark; }}\n",
        LIGHT.variables(),
        DARK.variables()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(colour: Colour) -> f64 {
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    fn contrast(a: Colour, b: Colour) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// WCAG 2.2, level AA: 4.5 for text, 3 for what is drawn.
    #[test]
    fn contrast_is_sufficient() {
        assert_eq!(contrast("#000000", "#ffffff"), 21.0);
        for theme in [&LIGHT, &DARK] {
            for ground in [theme.panel, theme.ground] {
                for text in [theme.text, theme.faint] {
                    assert!(contrast(text, ground) >= 4.5, "{text} on {ground}");
                }
            }
            let marks = [theme.good, theme.doubtful, theme.bad];
            for drawn in theme.palette.iter().chain(&marks) {
                assert!(contrast(drawn, theme.panel) >= 3.0, "{drawn} on {}", theme.panel);
            }
        }
    }
}
