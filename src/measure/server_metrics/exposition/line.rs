//! Parses the parts of a line, from its beginning.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use super::{Label, Reason};

/// The rest of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a>(&'a str);

/// Separators between the parts of a line, including `\r` of CRLF line ends.
const BLANKS: [char; 3] = [' ', '\t', '\r'];

/// The label whose value is the metric's name.
const NAME: &str = "__name__";

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

    pub(super) fn is_comment(self) -> bool {
        self.0.starts_with('#')
    }

    /// Returns the text after a leading `#` and a blank, without which a comment cannot declare
    /// anything.
    pub(super) fn declaration(self) -> Option<Self> {
        let rest = self.0.strip_prefix('#')?;
        let text = rest.trim_start_matches(BLANKS);
        (text.len() < rest.len()).then_some(Self(text))
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
        self.bare_metric_name().map(Cow::Borrowed).ok_or(Reason::MetricName)
    }

    /// Takes a metric name and the labels of the series, which are appended to `labels`. The name
    /// may be among them, quoted or as the value of `__name__`.
    pub(super) fn series(&mut self, labels: &mut Vec<Label<'a>>) -> Result<Cow<'a, str>, Reason> {
        let from = labels.len();
        if self.eat('{') {
            self.rest_of_labels(labels)?;
            let at = from + name_among(&labels[from..]).ok_or(Reason::MetricName)?;
            let name = labels.remove(at).value;
            let is_single = !name.is_empty() && name_among(&labels[from..]).is_none();
            return if is_single { Ok(name) } else { Err(Reason::MetricName) };
        }
        let name = match self.bare_metric_name() {
            Some(name) => name,
            None => self.odd_metric_name()?,
        };
        if self.0.starts_with('{') {
            self.labels(labels)?;
            if name_among(&labels[from..]).is_some() {
                return Err(Reason::Label);
            }
        }
        Ok(Cow::Borrowed(name))
    }

    /// Takes `{name="value",…}`.
    pub(super) fn labels(&mut self, labels: &mut Vec<Label<'a>>) -> Result<(), Reason> {
        if self.eat('{') { self.rest_of_labels(labels) } else { Err(Reason::Label) }
    }

    fn rest_of_labels(&mut self, labels: &mut Vec<Label<'a>>) -> Result<(), Reason> {
        loop {
            // Labels between commas may be absent, except between `,,`.
            while self.0.starts_with(',') {
                if self.0.starts_with(",,") {
                    return Err(Reason::Label);
                }
                self.eat(',');
            }
            if self.eat('}') {
                return Ok(());
            }
            labels.push(self.label()?);
            if !self.0.starts_with([',', '}']) {
                return Err(if self.is_empty() { Reason::OpenLabels } else { Reason::Label });
            }
        }
    }

    /// Takes a label, or a quoted text, which is the metric's name.
    fn label(&mut self) -> Result<Label<'a>, Reason> {
        let name = if self.0.starts_with('"') {
            let quoted = self.quoted()?;
            if !self.0.starts_with('=') {
                return Ok(Label { name: Cow::Borrowed(NAME), value: quoted });
            }
            quoted
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
            word => parsed(word).ok_or_else(|| Reason::Number(shown(word))),
        }
    }

    /// Takes a number, unless the line ends.
    pub(super) fn optional_number(&mut self) -> Result<Option<f64>, Reason> {
        if self.is_empty() { Ok(None) } else { self.number().map(Some) }
    }

    /// Takes the words up to the end of the line or an exemplar, of which the last one is a number,
    /// and returns it with whether there were others.
    pub(super) fn timestamp(&mut self) -> Result<Option<(f64, bool)>, Reason> {
        let (text, mut words, mut last) = (self.0, 0, "");
        while !self.is_empty() && self.exemplar().is_none() {
            (words, last) = (words + 1, self.word());
        }
        match (words, parsed(last)) {
            (0, _) => Ok(None),
            (_, Some(number)) => Ok(Some((number, words > 1))),
            (1, None) => Err(Reason::Number(shown(last))),
            (_, None) => Err(Reason::Trailing(shown(text))),
        }
    }

    /// Returns the text after the `#` of an exemplar.
    pub(super) fn exemplar(self) -> Option<Self> {
        let rest = self.0.strip_prefix('#')?.trim_start_matches(BLANKS);
        rest.starts_with('{').then_some(Self(rest))
    }

    /// Returns whether the line is a native histogram of the family called `name`:
    /// `name{labels} {count:24,…}`.
    pub(super) fn is_native_histogram(self, name: &str) -> bool {
        let rest = self.0.strip_prefix(name).filter(|rest| rest.starts_with([' ', '{']));
        rest.is_some_and(|rest| rest.contains(" {count:") && rest.ends_with('}'))
    }

    /// Returns an error if any text is left.
    pub(super) fn finish(self) -> Result<(), Reason> {
        if self.is_empty() { Ok(()) } else { Err(Reason::Trailing(shown(self.0))) }
    }

    /// Takes a metric name without quotes, which ends before a blank or `{`.
    fn bare_metric_name(&mut self) -> Option<&'a str> {
        let before = *self;
        let name = self.bare_name()?;
        // An operator of a gate ends it, too; in an exposition it is not a valid value.
        let ends = [b' ', b'\t', b'\r', b'{', b'<', b'>', b'='];
        if before.0.as_bytes().get(name.len()).is_none_or(|next| ends.contains(next)) {
            return Some(name);
        }
        *self = before;
        None
    }

    /// Takes a name that only some readers accept, such as `a.b`, before `{`.
    fn odd_metric_name(&mut self) -> Result<&'a str, Reason> {
        let is_odd = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '.' | '-' | '/');
        let end = memchr(b'{', self.0.as_bytes()).ok_or(Reason::MetricName)?;
        let (name, rest) = self.0.split_at(end);
        let name = name.trim_end_matches(BLANKS);
        if name.is_empty() || !name.chars().all(is_odd) {
            return Err(Reason::MetricName);
        }
        self.0 = rest;
        Ok(name)
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

/// Returns the place of a metric's name among `labels`.
fn name_among(labels: &[Label<'_>]) -> Option<usize> {
    labels.iter().position(|label| label.name == NAME)
}

fn parsed(word: &str) -> Option<f64> {
    word.parse().or_else(|_| word.trim_matches(BLANKS).parse()).ok()
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
