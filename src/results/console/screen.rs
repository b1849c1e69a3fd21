//! The end of a run on one screen: its parts, each with a rank, and what is left out if they do not fit.

/// Number of lines of the smallest terminal, less that of the files.
pub(super) const LINES: usize = 23;

/// How important parts are: those with the lowest rank are the first to be left out.
pub(super) mod rank {
    pub(in super::super) const BLANK: u8 = 5;
    pub(in super::super) const NOTE: u8 = 10;
    pub(in super::super) const SPANS: u8 = 12;
    pub(in super::super) const HIGHLIGHT: u8 = 15;
    pub(in super::super) const LAST_WARNING: u8 = 30;
    pub(in super::super) const TOKENIZER: u8 = 35;
    pub(in super::super) const SUBMISSION: u8 = 40;
    pub(in super::super) const ROW: u8 = 45;
    pub(in super::super) const DATASET: u8 = 50;
    pub(in super::super) const GROUPS: u8 = 60;
    pub(in super::super) const ERROR: u8 = 70;
    pub(in super::super) const FIRST_WARNING: u8 = 80;
    /// Never left out.
    pub(in super::super) const KEPT: u8 = u8::MAX;
}

/// A part of a screen, as forms that get shorter; each has the rank at which the next one replaces it.
struct Part(Vec<(u8, String)>);

impl Part {
    /// Returns the number of lines, and the rank of the part as it is now shown.
    fn size(&self) -> (usize, u8) {
        self.0.first().map_or((0, rank::KEPT), |(rank, text)| (text.lines().count(), *rank))
    }
}

/// The parts of a screen in order.
#[derive(Default)]
pub(super) struct Screen(Vec<Part>);

impl Screen {
    /// Adds a part of whole lines.
    pub(super) fn add(&mut self, rank: u8, text: String) {
        self.add_forms([(rank, text)]);
    }

    /// Adds a part that has several forms, the longest one first.
    pub(super) fn add_forms(&mut self, forms: impl IntoIterator<Item = (u8, String)>) {
        self.0.push(Part(forms.into_iter().collect()));
    }

    /// Returns the text, of at most `most` lines if that is possible without the parts that are kept.
    pub(super) fn fitted(mut self, most: usize) -> String {
        while self.0.iter().map(|part| part.size().0).sum::<usize>() > most {
            let least = self.0.iter_mut().min_by_key(|part| part.size().1);
            let Some(least) = least.filter(|part| part.size().1 < rank::KEPT) else { break };
            least.0.remove(0);
        }
        self.0.iter().filter_map(|part| part.0.first()).map(|(_, text)| text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_least_is_left_out_and_long_forms_become_short() {
        let screen = |most: usize| {
            let mut screen = Screen::default();
            screen.add(rank::KEPT, "title\n".to_owned());
            screen.add(rank::BLANK, "\n".to_owned());
            screen.add_forms([(20, "a\nb\nc\n".to_owned()), (40, "a\n".to_owned())]);
            screen.add(30, "note\n".to_owned());
            screen.fitted(most)
        };
        assert_eq!(screen(6), "title\n\na\nb\nc\nnote\n");
        assert_eq!(screen(5), "title\na\nb\nc\nnote\n");
        assert_eq!(screen(4), "title\na\nnote\n");
        assert_eq!(screen(2), "title\na\n");
        assert_eq!(screen(1), "title\n");
        assert_eq!(screen(0), "title\n", "the title is kept");
    }
}
