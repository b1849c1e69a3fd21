//! The page: one HTML file with its data, styles and scripts, which loads nothing.

use std::io::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest;

use super::document::Document;
use super::theme;

pub(super) const STYLE: &str = include_str!("../../../assets/report/page.css");
/// Apache `ECharts`, whose licence is beside it.
const CHARTS: &str = include_str!("../../../assets/echarts/echarts.common.min.js");
/// Each file uses those before it.
const SCRIPT: &str = concat!(
    include_str!("../../../assets/report/dom.js"),
    include_str!("../../../assets/report/selection.js"),
    include_str!("../../../assets/report/selector.js"),
    include_str!("../../../assets/report/access.js"),
    include_str!("../../../assets/report/figure.js"),
    include_str!("../../../assets/report/labels.js"),
    include_str!("../../../assets/report/heat.js"),
    include_str!("../../../assets/report/spans.js"),
    include_str!("../../../assets/report/request.js"),
    include_str!("../../../assets/report/page.js"),
);

/// Writes the page with `document`.
pub(super) fn write(out: &mut dyn Write, document: &Document) -> io::Result<()> {
    let style = theme::style_sheet() + STYLE;
    // Only these scripts run, whatever a model or a server is called, and nothing is loaded.
    let policy = format!(
        "default-src 'none'; script-src {} {}; style-src {}; img-src data: blob:; \
         base-uri 'none'; form-action 'none'",
        hash(CHARTS),
        hash(SCRIPT),
        hash(&style)
    );
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>aiperf</title>\n\
         <style>{style}</style>\n</head>\n<body>\n\
         <noscript>This page needs JavaScript to draw its charts.</noscript>\n<main></main>\n\
         <script type=\"application/json\" id=\"data\">"
    )?;
    serde_json::to_writer(Escaped(&mut *out), document)?;
    write!(
        out,
        "</script>\n<script>{CHARTS}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Returns the source expression of a script or style for the Content-Security-Policy.
pub(super) fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(digest::digest(&digest::SHA256, text.as_bytes())))
}

/// Escapes what could end a script element. In JSON, these characters are only inside strings.
struct Escaped<'a>(&'a mut dyn Write);

impl Write for Escaped<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| b"<>&".contains(byte)) {
            self.0.write_all(&rest[..at])?;
            write!(self.0, "\\u{:04x}", rest[at])?;
            rest = &rest[at + 1..];
        }
        self.0.write_all(rest)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_data() {
        let mut out = Vec::new();
        let text = "</script><img src=x onerror=alert(1)>&amp;";
        serde_json::to_writer(Escaped(&mut out), text).unwrap();
        let written = String::from_utf8(out).unwrap();
        assert!(!written.contains(['<', '>', '&']), "{written}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }

    #[test]
    fn scripts_do_not_end_early() {
        for script in [CHARTS, SCRIPT] {
            assert!(!script.to_lowercase().contains("</script"));
            assert!(!script.contains("<!--"));
        }
        assert!(!STYLE.to_lowercase().contains("</style"));
    }
}
