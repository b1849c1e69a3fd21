//! Lines of a text file, each of limited length.

use base::input::{self, Input, MAX_PART_BYTES, Meter, lines::LineFault};

use super::Fault;

/// The lines that are not blank, in order.
pub(super) struct Lines<'r> {
    lines: input::lines::Lines<Input<'r>>,
    meter: Meter,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Number of the line, from 1; blank lines count.
    pub(super) number: u64,
    /// Text of the line, without the line end.
    pub(super) text: String,
}

impl<'r> Lines<'r> {
    pub(super) fn new(input: Input<'r>) -> Self {
        Self::within(input, MAX_PART_BYTES)
    }

    /// Reads lines of at most `max_bytes` bytes.
    fn within(input: Input<'r>, max_bytes: u64) -> Self {
        let meter = input.meter();
        Self { lines: input::lines::Lines::new(input, max_bytes), meter }
    }

    /// Returns the next line that has more than white space of ASCII; `None` at the end.
    fn read(&mut self) -> Result<Option<Line>, Fault> {
        let line = self.lines.next().map_err(|fault| match fault {
            LineFault::Read(error) => Fault::Read(error),
            LineFault::TooLong { number, why } => Fault::Line(number, why),
        })?;
        self.meter.part().map_err(Fault::Read)?;
        let Some(input::lines::Line { number, bytes, .. }) = line else { return Ok(None) };
        let mut text = String::from_utf8(bytes.to_vec()).map_err(|error| {
            let at = error.utf8_error().valid_up_to() + 1;
            Fault::Line(number, format!("invalid UTF-8 at byte {at}"))
        })?;
        text.truncate(text.trim_end_matches('\r').len());
        Ok(Some(Line { number, text }))
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<Line, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read().transpose()? {
                Ok(line) if line.text.trim().is_empty() => {}
                other => return Some(other),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(bytes: &[u8], max_bytes: u64) -> Lines<'_> {
        Lines::within(bytes.into(), max_bytes)
    }

    #[test]
    fn numbers_count_blank_lines() {
        let read: Vec<Line> = lines(b"a\r\n\n  \nb", 100).map(Result::unwrap).collect();
        let line = |number, text: &str| Line { number, text: text.to_owned() };
        assert_eq!(read, [line(1, "a"), line(4, "b")]);
    }

    #[test]
    fn a_line_of_the_limit_passes_and_one_more_byte_does_not() {
        assert_eq!(lines(b"12345\n12345", 5).flatten().count(), 2);
        match lines(b"ok\n123456\n", 5).nth(1) {
            Some(Err(Fault::Line(2, reason))) => assert_eq!(reason, "longer than 5 bytes"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_named_with_their_line() {
        match lines(b"ok\nab\xff\n", 100).nth(1) {
            Some(Err(Fault::Line(2, reason))) => assert_eq!(reason, "invalid UTF-8 at byte 3"),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_text(text in "[a-z \n]{0,60}") {
            let read: Vec<String> =
                lines(text.as_bytes(), 100).map(|line| line.unwrap().text).collect();
            let expected: Vec<&str> = text.split('\n').filter(|l| !l.trim().is_empty()).collect();
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(lines(&bytes, 8).take(300).count() <= 200);
        }
    }
}
