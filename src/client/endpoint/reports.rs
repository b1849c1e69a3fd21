//! What a server reports about its own times, in members of its responses.

use serde_json::value::RawValue;

use crate::server_family::{MEMBERS, Member, Object, ServerTiming};

/// The members of one response or event, in the order of [`MEMBERS`].
pub(super) type Members<'e> = [Option<&'e RawValue>; MEMBERS.len()];

/// What the events of a response reported so far.
#[derive(Debug, Default)]
pub(super) struct Reports {
    timing: ServerTiming,
    /// The last text of each member. Some servers repeat a member in each event.
    last: [Option<Box<str>>; MEMBERS.len()],
}

impl Reports {
    /// Adds the members of a response or event.
    pub(super) fn members(&mut self, members: &Members<'_>) {
        for ((member, last), raw) in MEMBERS.iter().zip(&mut self.last).zip(members) {
            if let Some(raw) = raw.filter(|raw| Some(raw.get()) != last.as_deref()) {
                *last = Some(raw.get().into());
                self.timing.member(member, &Object::parse(raw.get()));
            }
        }
    }

    /// Adds a member that is elsewhere in a response.
    pub(super) fn member(&mut self, name: &str, raw: &RawValue) {
        if let Some(member) = Member::find(name) {
            self.timing.member(member, &Object::parse(raw.get()));
        }
    }

    /// Adds what `usage` says of times, which few servers do.
    pub(super) fn usage(&mut self, usage: &RawValue) {
        if usage.get().contains("\"queue_time\"") {
            self.timing.usage(&Object::parse(usage.get()));
        }
    }

    /// Adds a response without a member for times.
    pub(super) fn response(&mut self, json: &[u8]) {
        self.timing.response(&object(json));
    }

    /// Adds the data of TensorRT-LLM's event.
    pub(super) fn tensorrt_llm_event(&mut self, data: &[u8]) {
        self.timing.tensorrt_llm_event(&object(data));
    }

    /// Returns what was reported, if anything was.
    pub(super) fn into_timing(self) -> Option<Box<ServerTiming>> {
        (!self.timing.is_empty()).then(|| Box::new(self.timing))
    }
}

/// Returns the members of the object in `json`; none if it is not an object.
fn object(json: &[u8]) -> Object<'_> {
    std::str::from_utf8(json).map(Object::parse).unwrap_or_default()
}

#[cfg(test)]
mod tests;
