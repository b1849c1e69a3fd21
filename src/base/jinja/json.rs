//! The filter `tojson`: JSON in the format of Python's `json.dumps`, which chat templates rely on.
//! HTML is not escaped.

use std::io::{self, Write};

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Maximum number of spaces per indentation level.
const MAX_INDENT: usize = 16;

/// The filter `value|tojson`, with the options `sort_keys`, `indent`, `ensure_ascii` and
/// `separators`.
#[expect(clippy::needless_pass_by_value, reason = "filters are given their options so")]
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let indent: Option<usize> = options.get("indent")?;
    let ascii = options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false);
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sorted = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let invalid =
        |why: serde_json::Error| Error::new(ErrorKind::InvalidOperation, format!("tojson: {why}"));
    let mut value = serde_json::to_value(value).map_err(invalid)?;
    if sorted {
        value.sort_all_objects();
    }
    let mut out = Vec::new();
    let done = if let Some(blanks) = indent {
        let blanks = " ".repeat(blanks.min(MAX_INDENT));
        let pretty = PrettyFormatter::with_indent(blanks.as_bytes());
        value.serialize(&mut Serializer::with_formatter(&mut out, pretty))
    } else {
        let given = separators.unwrap_or_default();
        let separator = |at, usual: &str| given.get(at).map_or(usual, String::as_str).to_owned();
        let line = Line { item: separator(0, ", "), key: separator(1, ": "), ascii };
        value.serialize(&mut Serializer::with_formatter(&mut out, line))
    };
    done.map_err(invalid)?;
    String::from_utf8(out).map_err(|why| Error::new(ErrorKind::InvalidOperation, why.to_string()))
}

/// Formatter that writes everything on one line.
struct Line {
    /// Separator between items.
    item: String,
    /// Separator between a key and its value.
    key: String,
    /// Whether non-ASCII characters are escaped.
    ascii: bool,
}

impl Line {
    fn between<W: Write + ?Sized>(&self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(self.item.as_bytes()) }
    }
}

impl Formatter for Line {
    fn begin_array_value<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.between(out, first)
    }

    fn begin_object_key<W: Write + ?Sized>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.between(out, first)
    }

    fn begin_object_value<W: Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(self.key.as_bytes())
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !self.ascii {
            return out.write_all(fragment.as_bytes());
        }
        for c in fragment.chars() {
            if c.is_ascii() {
                out.write_all(&[c as u8])?;
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}
