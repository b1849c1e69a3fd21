//! The tool calls of a response, and whether their arguments can be used.

use serde::de::IgnoredAny;

/// Maximum number of calls whose parts may arrive interleaved.
const PARALLEL: usize = 64;

/// The numbers of tool calls of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolCalls {
    /// All calls.
    pub count: u64,
    /// The calls whose arguments are not a JSON object.
    pub invalid: u64,
}

/// The calls read so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// Whether a call without arguments may have an empty text in place of an empty object.
    pub(super) may_be_empty: bool,
}

/// The place of a call: the choice, and the index in its list of calls.
pub(super) type CallPlace = (u64, u64);

#[derive(Debug, Default)]
struct Call {
    place: CallPlace,
    id: String,
    arguments: String,
}

impl Calls {
    /// Adds a part of the call at `place`. Some servers give all calls of a stream the same place, so
    /// that a new `id` is a new call.
    pub(super) fn part(&mut self, place: CallPlace, id: &str, arguments: &str) {
        let is_at_place = |call: &&mut Call| call.place == place;
        match self.calls.iter_mut().rev().take(PARALLEL).find(is_at_place) {
            Some(call) if id.is_empty() || call.id.is_empty() || call.id == id => {
                if call.id.is_empty() {
                    id.clone_into(&mut call.id);
                }
                call.arguments.push_str(arguments);
            }
            _ => {
                self.calls.push(Call { place, id: id.to_owned(), arguments: arguments.to_owned() });
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a call with these arguments.
    pub(super) fn whole(&mut self, arguments: &str) {
        self.calls.push(Call { arguments: arguments.to_owned(), ..Call::default() });
    }

    /// Adds to the arguments of the last call, if there is one.
    pub(super) fn more(&mut self, arguments: &str) {
        if let Some(call) = self.calls.last_mut() {
            call.arguments.push_str(arguments);
        }
    }

    /// Returns the numbers of calls.
    pub(super) fn counted(&self) -> ToolCalls {
        let is_valid = |call: &&Call| {
            let text = call.arguments.trim_start();
            text.is_empty() && self.may_be_empty
                || text.starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
        };
        let (count, valid) = (self.calls.len(), self.calls.iter().filter(is_valid).count());
        ToolCalls { count: count as u64, invalid: (count - valid) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(calls: &Calls) -> (u64, u64) {
        let ToolCalls { count, invalid } = calls.counted();
        (count, invalid)
    }

    #[test]
    fn interleaved_parts_are_joined_by_place() {
        let mut calls = Calls::default();
        calls.part((0, 0), "a", "");
        calls.part((0, 1), "b", r#"{"x""#);
        calls.part((0, 0), "", r#"{"y":[1,"#);
        calls.part((0, 1), "", ":1}");
        calls.part((0, 0), "", "2]}");
        assert_eq!(counted(&calls), (2, 0));
        calls.part((1, 0), "", "{");
        assert_eq!(counted(&calls), (3, 1));
    }

    #[test]
    fn a_new_id_is_a_new_call() {
        let mut calls = Calls::default();
        calls.part((0, 0), "a", "{}");
        calls.part((0, 0), "b", "{}");
        calls.part((0, 0), "b", "");
        assert_eq!(counted(&calls), (2, 0));
    }

    #[test]
    fn arguments_must_be_an_object() {
        for (arguments, invalid) in [
            ("{}", 0),
            (" {\"a\": null} ", 0),
            ("[]", 1),
            ("\"{}\"", 1),
            ("{", 1),
            ("{}{}", 1),
            ("", 1),
        ] {
            let mut calls = Calls::default();
            calls.whole(arguments);
            assert_eq!(counted(&calls), (1, invalid), "{arguments}");
        }
        let mut calls = Calls { may_be_empty: true, ..Calls::default() };
        calls.whole("");
        assert_eq!(counted(&calls), (1, 0));
    }
}
