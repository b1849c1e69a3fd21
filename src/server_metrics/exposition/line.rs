//! Parses the parts of a line, from its beginning.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::{Label, Reason};

/// The rest of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a>(&'a str);

/// Separators between the parts of a line, including `\r` of CRLF line ends.
const BLANKS: [char; 3] = [' ', '\t', '\r'];

impl<'a> Line<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self(text.trim_matches(BLANKS))
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text that was not taken.
    pub(super) const fn rest(self) -> &'a str {
        self.0
    }

    /// Returns the text after a leading `#`.
    pub(super) fn comment(self) -> Option<Self> {
        self.0.strip_prefix('#').map(|rest| Self(rest.trim_start_matches(BLANKS)))
    }

    /// Takes the text up to the next separator.
    pub(super) fn word(&mut self) -> &'a str {
        let bytes = self.0.as_bytes();
        let end = memchr2(b' ', b'\t', bytes).unwrap_or(bytes.len());
        let (word, rest) = self.0.split_at(end);
        self.skip_blanks(rest);
        word
    }

    /// Returns the rest as the text of a `HELP`, where `\\`, `\n` and `\"` are escapes.
    pub(super) fn help(&mut self) -> Cow<'a, str> {
        unescaped(std::mem::take(&mut self.0))
    }

    /// Takes a metric name, quoted or not, without labels.
    pub(super) fn metric_name(&mut self) -> Result<Cow<'a, str>, Reason> {
        if self.0.starts_with('"') {
            return self.quoted();
        }
        self.bare_name().map(Cow::Borrowed).ok_or(Reason::MetricName)
    }

    /// Takes a metric name and the labels of the series, which are appended to `labels`; a quoted
    /// name is among them.
    pub(super) fn series(&mut self, labels: &mut Vec<Label<'a>>) -> Result<Cow<'a, str>, Reason> {
        if let Some(name) = self.bare_name() {
            if self.0.starts_with('{') {
                self.labels(labels)?;
            }
            return Ok(Cow::Borrowed(name));
        }
        if !self.eat('{') || !self.0.starts_with('"') {
            return Err(Reason::MetricName);
        }
        let name = self.quoted()?;
        if !self.eat(',') && !self.0.starts_with('}') {
            return Err(Reason::Label);
        }
        self.rest_of_labels(labels)?;
        Ok(name)
    }

    /// Takes `{name="value",…}`.
    pub(super) fn labels(&mut self, labels: &mut Vec<Label<'a>>) -> Result<(), Reason> {
        if self.eat('{') { self.rest_of_labels(labels) } else { Err(Reason::Label) }
    }

    fn rest_of_labels(&mut self, labels: &mut Vec<Label<'a>>) -> Result<(), Reason> {
        loop {
            if self.eat('}') {
                return Ok(());
            }
            labels.push(self.label()?);
            if !self.eat(',') && !self.0.starts_with('}') {
                return Err(if self.is_empty() { Reason::OpenLabels } else { Reason::Label });
            }
        }
    }

    fn label(&mut self) -> Result<Label<'a>, Reason> {
        let name = if self.0.starts_with('"') {
            self.quoted()?
        } else {
            let missing = if self.is_empty() { Reason::OpenLabels } else { Reason::Label };
            Cow::Borrowed(self.bare_name().ok_or(missing)?)
        };
        if !self.eat('=') || !self.0.starts_with('"') {
            return Err(Reason::Label);
        }
        Ok(Label { name, value: self.quoted()? })
    }

    /// Takes a number, which is required.
    pub(super) fn number(&mut self) -> Result<f64, Reason> {
        match self.word() {
            "" => Err(Reason::MissingValue),
            word => word.parse().map_err(|_| Reason::Number(shown(word))),
        }
    }

    /// Takes a number, unless the line ends or an exemplar begins.
    pub(super) fn optional_number(&mut self) -> Result<Option<f64>, Reason> {
        if self.is_empty() || self.0.starts_with('#') { Ok(None) } else { self.number().map(Some) }
    }

    /// Returns the text after the `#` of an exemplar.
    pub(super) fn exemplar(self) -> Option<Self> {
        self.comment().filter(|rest| rest.0.starts_with('{'))
    }

    /// Returns an error if any text is left.
    pub(super) fn finish(self) -> Result<(), Reason> {
        if self.is_empty() { Ok(()) } else { Err(Reason::Trailing(shown(self.0))) }
    }

    /// Takes a name without quotes: letters, digits, `_` and `:`, beginning with a non-digit.
    fn bare_name(&mut self) -> Option<&'a str> {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
        let bytes = self.0.as_bytes();
        let end = bytes.iter().position(|byte| !is_name(byte)).unwrap_or(bytes.len());
        if end == 0 || bytes[0].is_ascii_digit() {
            return None;
        }
        let (name, rest) = self.0.split_at(end);
        self.skip_blanks(rest);
        Some(name)
    }

    /// Takes a quoted text and resolves its escapes.
    fn quoted(&mut self) -> Result<Cow<'a, str>, Reason> {
        let text = &self.0[1..];
        let mut end = 0;
        loop {
            let found = memchr2(b'"', b'\\', &text.as_bytes()[end..]).ok_or(Reason::OpenQuote)?;
            end += found;
            if text.as_bytes()[end] == b'"' {
                break;
            }
            // The escaped byte may be the first of a multi-byte character.
            end += 2;
            if end > text.len() {
                return Err(Reason::OpenQuote);
            }
        }
        self.skip_blanks(&text[end + 1..]);
        Ok(unescaped(&text[..end]))
    }

    /// Takes `wanted` and the separators after it; returns whether it was there.
    fn eat(&mut self, wanted: char) -> bool {
        match self.0.strip_prefix(wanted) {
            Some(rest) => {
                self.skip_blanks(rest);
                true
            }
            None => false,
        }
    }

    fn skip_blanks(&mut self, rest: &'a str) {
        self.0 = rest.trim_start_matches(BLANKS);
    }
}

/// Returns `text` with `\\`, `\n` and `\"` resolved; other backslashes are kept.
fn unescaped(text: &str) -> Cow<'_, str> {
    if memchr(b'\\', text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => plain.push('\n'),
            Some(escaped @ ('\\' | '"')) => plain.push(escaped),
            Some(other) => plain.extend(['\\', other]),
            None => plain.push('\\'),
        }
    }
    Cow::Owned(plain)
}

/// Returns the beginning of `text`, for a message.
fn shown(text: &str) -> String {
    const MAX_SHOWN_CHARS: usize = 40;
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
