//! Markers in prompts, which keep a server from answering from its prefix cache.

use std::sync::Arc;

use memchr::memmem;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use uuid::Uuid;

use base::setting::named;

use super::{Conversation, Text, Turn};

/// Where a session has its marker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheBust {
    /// Nowhere.
    #[default]
    None,
    /// Before the system message.
    SystemPrefix,
    /// After the system message.
    SystemSuffix,
    /// Before the first message of the user.
    FirstTurnPrefix,
    /// After the first message of the user.
    FirstTurnSuffix,
    /// Before the system message, in the warmup only and the same in all sessions.
    WarmupIsolationSystem,
    /// Before the first message of the user, in the warmup only and the same in all sessions.
    WarmupIsolationFirstTurn,
}

named! {
    CacheBust {
        "none" => None,
        "system_prefix" => SystemPrefix,
        "system_suffix" => SystemSuffix,
        "first_turn_prefix" => FirstTurnPrefix,
        "first_turn_suffix" => FirstTurnSuffix,
        "warmup_isolation_system" => WarmupIsolationSystem,
        "warmup_isolation_first_turn" => WarmupIsolationFirstTurn,
    }
}

/// The beginning of a session's marker, and the number of its digits after that.
const OPENING: &str = "[rid:";
const DIGITS: usize = 12;

/// The marker of all prompts of the warmup.
const WARMUP: &str = "[warmup]";

impl CacheBust {
    /// Returns the marker of the session `id`, if its prompts have one.
    #[must_use]
    pub fn marker(self, id: Uuid, is_warmup: bool) -> Option<Arc<str>> {
        match self {
            Self::None => None,
            Self::WarmupIsolationSystem | Self::WarmupIsolationFirstTurn => {
                is_warmup.then(|| WARMUP.into())
            }
            _ => Some(format!("{OPENING}{}]", &id.simple().to_string()[..DIGITS]).into()),
        }
    }

    /// Returns whether each session has a marker of its own.
    #[must_use]
    pub const fn marks_sessions(self) -> bool {
        matches!(
            self,
            Self::SystemPrefix | Self::SystemSuffix | Self::FirstTurnPrefix | Self::FirstTurnSuffix
        )
    }

    /// Returns the markers of sessions in a text, as numbers.
    pub fn markers(text: &[u8]) -> impl Iterator<Item = u64> {
        memmem::find_iter(text, OPENING).filter_map(|at| {
            let rest = text.get(at + OPENING.len()..)?;
            let digits = rest.get(..DIGITS).filter(|_| rest.get(DIGITS) == Some(&b']'))?;
            let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
            let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
            u64::from_str_radix(digits, 16).ok()
        })
    }

    pub(super) const fn is_of_system(self) -> bool {
        matches!(self, Self::SystemPrefix | Self::SystemSuffix | Self::WarmupIsolationSystem)
    }

    /// Returns `text` with the marker.
    pub(super) fn marked(self, text: &str, marker: &str) -> String {
        match self {
            Self::SystemSuffix | Self::FirstTurnSuffix => format!("{text}\n\n{marker}"),
            _ => format!("{marker}\n\n{text}"),
        }
    }

    /// Returns the conversation with the marker. Without a system message, it is at the first
    /// message of the user. Turns that contain their history have it each.
    #[must_use]
    pub fn mark(self, conversation: &Conversation, marker: &str) -> Conversation {
        let mut own = conversation.with_all_turns();
        if let Some(system) = own.system.as_mut().filter(|_| self.is_of_system()) {
            *system = self.marked(system, marker).into();
        } else if let Some(context) = &mut own.user_context {
            *context = self.marked(context, marker).into();
        } else {
            let is_whole = own.standalone_turns;
            for (at, turn) in own.turns.iter_mut().enumerate() {
                if at == 0 || is_whole || turn.starts_anew {
                    self.mark_turn(turn, marker);
                }
            }
        }
        own
    }

    fn mark_turn(self, turn: &mut Turn, marker: &str) {
        if let Some(messages) = &turn.messages {
            let changed = self.marked_messages(messages, marker);
            turn.messages = changed.or_else(|| turn.messages.take());
        } else if let Some(prompt) = &mut turn.prompt {
            prompt.mark(self, marker);
        } else if let Some(first) = turn.texts.first_mut() {
            let text = Text::from(self.marked(&first.to_string(), marker));
            *first = match first.name() {
                Some(name) => text.named(name),
                None => text,
            };
        } else {
            turn.texts.push(marker.into());
        }
    }

    fn marked_messages(self, messages: &RawValue, marker: &str) -> Option<Arc<RawValue>> {
        let mut messages: Vec<Value> = serde_json::from_str(messages.get()).ok()?;
        let place = |role: &str| messages.iter().position(|message| message["role"] == role);
        let system = self.is_of_system().then(|| place("system")).flatten();
        let at = system.or_else(|| place("user"))?;
        let message = messages.get_mut(at)?;
        match &mut message["content"] {
            Value::String(text) => *text = self.marked(text, marker),
            Value::Array(parts) => match parts.iter_mut().find(|part| part["text"].is_string()) {
                Some(part) => {
                    let text = part["text"].as_str().unwrap_or_default();
                    part["text"] = self.marked(text, marker).into();
                }
                None => parts.insert(0, json!({"type": "text", "text": marker})),
            },
            _ => return None,
        }
        Some(to_raw_value(&messages).ok()?.into())
    }
}

#[cfg(test)]
mod tests {
    use base::setting::Named as _;

    use super::*;

    fn conversation() -> Conversation {
        let turn = |text: &str| Turn { texts: vec![text.into()], ..Turn::default() };
        Conversation { turns: vec![turn("one"), turn("two")], ..Conversation::default() }
    }

    /// The system message, the context, and the texts of the turns.
    fn texts(it: &Conversation) -> Vec<String> {
        let lead = [&it.system, &it.user_context].into_iter().flatten().map(ToString::to_string);
        lead.chain(it.turns.iter().map(|turn| turn.texts[0].to_string())).collect()
    }

    fn marked(mode: &str, conversation: &Conversation) -> Vec<String> {
        texts(&CacheBust::named(mode).unwrap().mark(conversation, "M"))
    }

    #[test]
    fn the_marker_is_where_the_mode_says() {
        let plain = conversation();
        assert_eq!(marked("first_turn_prefix", &plain), ["M\n\none", "two"]);
        assert_eq!(marked("first_turn_suffix", &plain), ["one\n\nM", "two"]);
        assert_eq!(marked("system_suffix", &plain), ["one\n\nM", "two"]);
        let led = Conversation { system: Some("s".into()), ..conversation() };
        assert_eq!(marked("system_prefix", &led), ["M\n\ns", "one", "two"]);
        assert_eq!(marked("system_suffix", &led), ["s\n\nM", "one", "two"]);
        assert_eq!(marked("warmup_isolation_system", &led), ["M\n\ns", "one", "two"]);
        assert_eq!(marked("first_turn_prefix", &led), ["s", "M\n\none", "two"]);
        let context = Conversation { user_context: Some("c".into()), ..led };
        assert_eq!(marked("first_turn_prefix", &context), ["s", "M\n\nc", "one", "two"]);
        let whole = Conversation { standalone_turns: true, ..conversation() };
        assert_eq!(marked("first_turn_prefix", &whole), ["M\n\none", "M\n\ntwo"]);
    }

    #[test]
    fn messages_are_marked_too() {
        let marked = |mode: CacheBust, messages: Value| -> Value {
            let raw = to_raw_value(&messages).unwrap().into();
            let turn = Turn { messages: Some(raw), ..Turn::default() };
            let turns = vec![turn];
            let it = mode.mark(&Conversation { turns, ..Conversation::default() }, "M");
            serde_json::from_str(it.turns[0].messages.as_ref().unwrap().get()).unwrap()
        };
        let messages =
            json!([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]);
        assert_eq!(marked(CacheBust::SystemPrefix, messages.clone())[0]["content"], "M\n\ns");
        assert_eq!(marked(CacheBust::FirstTurnSuffix, messages)[1]["content"], "u\n\nM");
        let parts = json!([{"role": "user", "content": [{"type": "image_url"}, {"text": "t"}]}]);
        assert_eq!(marked(CacheBust::SystemPrefix, parts)[0]["content"][1]["text"], "M\n\nt");
        let image = json!([{"role": "user", "content": [{"type": "image_url"}]}]);
        assert_eq!(marked(CacheBust::SystemPrefix, image)[0]["content"][0]["text"], "M");
        let odd = json!([{"role": "tool", "content": 3}]);
        assert_eq!(marked(CacheBust::SystemPrefix, odd.clone()), odd);
    }

    #[test]
    fn markers_are_of_the_session_or_of_the_warmup() {
        let id = Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        let marker = |mode: CacheBust, is_warmup| mode.marker(id, is_warmup);
        assert_eq!(marker(CacheBust::SystemPrefix, false).as_deref(), Some("[rid:0123456789ab]"));
        assert_eq!(marker(CacheBust::WarmupIsolationSystem, true).as_deref(), Some("[warmup]"));
        assert_eq!(marker(CacheBust::WarmupIsolationFirstTurn, false), None);
        assert_eq!(marker(CacheBust::None, true), None);
    }
}
