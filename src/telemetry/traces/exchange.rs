//! What a request asks for and a response states beside their texts, read from their JSON.
//!
//! Only exported requests are read, so that nothing here has to be fast.

use opentelemetry::{KeyValue, StringValue, Value as Attribute};
use serde::Deserialize;
use serde_json::Value;

use base::semconv::{Conventions, attribute};
use client::record::ResponseBody;

use super::spans::LONGEST_NAME;

/// Maximum number of stop sequences that are exported; APIs allow at most 16.
const MAX_STOP_SEQUENCES: usize = 16;

/// The parameters in a request's body, of any type, under the names of all dialects.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    stream: Option<Value>,
    temperature: Option<Value>,
    #[serde(alias = "topP")]
    top_p: Option<Value>,
    #[serde(alias = "topK")]
    top_k: Option<Value>,
    seed: Option<Value>,
    #[serde(alias = "stop_sequences", alias = "stopSequences")]
    stop: Option<Value>,
    #[serde(alias = "frequencyPenalty")]
    frequency_penalty: Option<Value>,
    #[serde(alias = "presencePenalty")]
    presence_penalty: Option<Value>,
    #[serde(alias = "candidateCount")]
    n: Option<Value>,
    service_tier: Option<Value>,
    /// An object with the format's `type`.
    #[serde(alias = "output_format")]
    response_format: Option<Value>,
    /// The same of the responses API, in its member `format`.
    text: Option<Value>,
    #[serde(rename = "responseMimeType")]
    response_mime_type: Option<Value>,
    reasoning_effort: Option<Value>,
    /// The same of the responses API, in its member `effort`.
    reasoning: Option<Value>,
    /// The object that contains the parameters in Gemini's and Hugging Face's dialects.
    #[serde(alias = "generationConfig", alias = "parameters")]
    nested: Option<Value>,
}

impl Asked {
    pub(super) fn read(payload: &[u8]) -> Self {
        let mut asked: Self = serde_json::from_slice(payload).unwrap_or_default();
        let nested = asked.nested.take().filter(Value::is_object);
        let Some(inner) = nested.and_then(|nested| serde_json::from_value::<Self>(nested).ok())
        else {
            return asked;
        };
        Self {
            stream: asked.stream,
            temperature: asked.temperature.or(inner.temperature),
            top_p: asked.top_p.or(inner.top_p),
            top_k: asked.top_k.or(inner.top_k),
            seed: asked.seed.or(inner.seed),
            stop: asked.stop.or(inner.stop),
            frequency_penalty: asked.frequency_penalty.or(inner.frequency_penalty),
            presence_penalty: asked.presence_penalty.or(inner.presence_penalty),
            n: asked.n.or(inner.n),
            service_tier: asked.service_tier,
            response_format: asked.response_format.or(inner.response_format),
            text: asked.text,
            response_mime_type: asked.response_mime_type.or(inner.response_mime_type),
            reasoning_effort: asked.reasoning_effort.or(inner.reasoning_effort),
            reasoning: asked.reasoning,
            nested: None,
        }
    }

    /// Returns the attributes of the parameters that the request has.
    pub(super) fn attributes(&self, conventions: Conventions) -> Vec<KeyValue> {
        let double = |of: &Option<Value>| of.as_ref().and_then(Value::as_f64).map(Into::into);
        let int = |of: &Option<Value>| of.as_ref().and_then(Value::as_i64);
        let streams = (self.stream == Some(Value::Bool(true))).then(|| true.into());
        // As the conventions require: a single choice and the tier `auto` are not stated.
        let choices = int(&self.n).filter(|n| *n != 1).map(Into::into);
        let tier = self.service_tier.as_ref().and_then(Value::as_str);
        let tier = tier.filter(|tier| *tier != "auto").and_then(named);
        // The newest conventions have it as a whole number, those before as a floating-point one.
        let top_k = if conventions == Conventions::Latest {
            int(&self.top_k).map(Into::into)
        } else {
            double(&self.top_k)
        };
        let level = self.reasoning_level().filter(|_| conventions.include(Conventions::Latest));
        let pairs: [(&'static str, Option<Attribute>); 12] = [
            (attribute::GEN_AI_REQUEST_STREAM, streams),
            (attribute::GEN_AI_REQUEST_TEMPERATURE, double(&self.temperature)),
            (attribute::GEN_AI_REQUEST_TOP_P, double(&self.top_p)),
            (attribute::GEN_AI_REQUEST_TOP_K, top_k),
            (attribute::GEN_AI_REQUEST_REASONING_LEVEL, level.and_then(named)),
            (attribute::GEN_AI_REQUEST_SEED, int(&self.seed).map(Into::into)),
            (attribute::GEN_AI_REQUEST_STOP_SEQUENCES, self.stop_sequences()),
            (attribute::GEN_AI_REQUEST_FREQUENCY_PENALTY, double(&self.frequency_penalty)),
            (attribute::GEN_AI_REQUEST_PRESENCE_PENALTY, double(&self.presence_penalty)),
            (attribute::GEN_AI_REQUEST_CHOICE_COUNT, choices),
            (attribute::GEN_AI_OUTPUT_TYPE, self.output_type().map(Into::into)),
            (attribute::OPENAI_REQUEST_SERVICE_TIER, tier),
        ];
        let present = pairs.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?)));
        present.collect()
    }

    /// Returns the number of choices, at least 1.
    pub(super) fn choices(&self) -> u64 {
        self.n.as_ref().and_then(Value::as_u64).unwrap_or(1).max(1)
    }

    /// Returns the level of reasoning that the request states.
    fn reasoning_level(&self) -> Option<&str> {
        let inner = self.reasoning.as_ref().and_then(|reasoning| reasoning.get("effort"));
        self.reasoning_effort.as_ref().or(inner)?.as_str()
    }

    /// Returns one or several stop sequences.
    fn stop_sequences(&self) -> Option<Attribute> {
        let texts = match self.stop.as_ref()? {
            Value::String(text) => vec![text.as_str()],
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            _ => return None,
        };
        let fits = !texts.is_empty()
            && texts.len() <= MAX_STOP_SEQUENCES
            && texts.iter().all(|text| text.len() <= LONGEST_NAME);
        fits.then(|| list(texts))
    }

    /// Returns the format that the request asks for, if it asks for one.
    fn output_type(&self) -> Option<&'static str> {
        let kind = |of: &Option<Value>| Some(of.as_ref()?.get("type")?.as_str()?.to_owned());
        let in_text = self.text.as_ref().and_then(|text| text.get("format").cloned());
        let mime = self.response_mime_type.as_ref().and_then(Value::as_str);
        let kind = kind(&self.response_format).or_else(|| kind(&in_text));
        match kind.as_deref().or(mime)? {
            "json_object" | "json_schema" | "application/json" => Some("json"),
            "text" | "text/plain" => Some("text"),
            _ => None,
        }
    }
}

/// What a response states about itself, in its first event or its last ones.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Stated {
    #[serde(alias = "responseId")]
    id: Option<Value>,
    service_tier: Option<Value>,
    system_fingerprint: Option<Value>,
    /// The object that contains these members in events of the dialects responses and messages.
    #[serde(alias = "message")]
    response: Option<Box<Self>>,
}

/// Number of events at the end of a stream that are read: usage and `[DONE]` come after the content.
const LAST_EVENTS: usize = 2;

impl Stated {
    pub(super) fn read(body: &ResponseBody) -> Self {
        let count = body.events.len();
        let last = body.events.iter().skip(1.max(count.saturating_sub(LAST_EVENTS)));
        let mut all = Self::default();
        for event in body.events.first().into_iter().chain(last) {
            let raw = body.raw(event);
            let json = if body.is_event_stream {
                raw.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data:"))
            } else {
                Some(raw)
            };
            let Some(Ok(found)) = json.map(serde_json::from_slice::<Self>) else { continue };
            let Self { id, service_tier, system_fingerprint, response } = found;
            let inner = response.map(|inner| *inner).unwrap_or_default();
            // A response has one ID; the tier is only known at the end.
            all.id = all.id.or(id).or(inner.id);
            all.service_tier = service_tier.or(inner.service_tier).or(all.service_tier);
            all.system_fingerprint = system_fingerprint.or(all.system_fingerprint);
        }
        all
    }

    /// Returns the attributes of what is stated.
    pub(super) fn attributes(&self) -> Vec<KeyValue> {
        let name = |of: &Option<Value>| of.as_ref().and_then(Value::as_str).and_then(named);
        let pairs = [
            (attribute::GEN_AI_RESPONSE_ID, name(&self.id)),
            (attribute::OPENAI_RESPONSE_SERVICE_TIER, name(&self.service_tier)),
            (attribute::OPENAI_RESPONSE_SYSTEM_FINGERPRINT, name(&self.system_fingerprint)),
        ];
        let present = pairs.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?)));
        present.collect()
    }
}

/// Returns a name from outside, if it is not too long.
pub(super) fn named(name: &str) -> Option<Attribute> {
    (!name.is_empty() && name.len() <= LONGEST_NAME).then(|| name.to_owned().into())
}

/// Returns a list of texts.
pub(super) fn list<'t>(texts: impl IntoIterator<Item = &'t str>) -> Attribute {
    let texts: Vec<StringValue> =
        texts.into_iter().map(|text| StringValue::from(text.to_owned())).collect();
    Attribute::Array(texts.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use client::record::{Arrival, SseEvent};

    use super::*;

    fn asked(body: &Value) -> BTreeMap<String, String> {
        let attributes = Asked::read(body.to_string().as_bytes()).attributes(Conventions::V1_41);
        attributes.into_iter().map(|pair| (pair.key.to_string(), pair.value.to_string())).collect()
    }

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_are_read_under_the_names_of_each_dialect() {
        let openai = json!({
            "stream": true, "temperature": 0.5, "top_p": 0.9, "top_k": 40, "seed": 7,
            "stop": ["END", "\n\n"], "frequency_penalty": 1, "presence_penalty": -0.5, "n": 2,
            "service_tier": "flex", "response_format": {"type": "json_schema", "json_schema": {}},
        });
        let expected = map(&[
            ("gen_ai.request.stream", "true"),
            ("gen_ai.request.temperature", "0.5"),
            ("gen_ai.request.top_p", "0.9"),
            ("gen_ai.request.top_k", "40"),
            ("gen_ai.request.seed", "7"),
            ("gen_ai.request.stop_sequences", "[\"END\",\"\n\n\"]"),
            ("gen_ai.request.frequency_penalty", "1"),
            ("gen_ai.request.presence_penalty", "-0.5"),
            ("gen_ai.request.choice.count", "2"),
            ("gen_ai.output.type", "json"),
            ("openai.request.service_tier", "flex"),
        ]);
        let mut found = asked(&openai);
        let stop =
            found.insert("gen_ai.request.stop_sequences".into(), "[\"END\",\"\n\n\"]".into());
        assert!(stop.is_some_and(|stop| stop.contains("END")));
        assert_eq!(found, expected);
        let gemini = json!({"contents": [], "generationConfig": {
            "topK": 3, "topP": 0.1, "stopSequences": ["x"], "candidateCount": 4, "seed": 1,
            "responseMimeType": "application/json",
        }});
        let found = asked(&gemini);
        let has = |key: &str, value: &str| assert_eq!(found[key], value, "{key}");
        has("gen_ai.request.top_k", "3");
        has("gen_ai.request.top_p", "0.1");
        has("gen_ai.request.choice.count", "4");
        has("gen_ai.output.type", "json");
        assert_eq!(found.len(), 6);
        let tgi = json!({"inputs": "hi", "parameters": {"temperature": 0.2, "stop": ["y"]}});
        assert_eq!(asked(&tgi)["gen_ai.request.temperature"], "0.2");
        let responses = json!({"text": {"format": {"type": "text"}}});
        assert_eq!(asked(&responses), map(&[("gen_ai.output.type", "text")]));
    }

    #[test]
    fn the_newest_conventions_have_whole_numbers_and_the_level_of_reasoning() {
        let text_of = |body: &Value, conventions, key: &str| {
            let all = Asked::read(body.to_string().as_bytes()).attributes(conventions);
            all.into_iter().find(|pair| pair.key.as_str() == key).map(|pair| pair.value)
        };
        let (top_k, level) = ("gen_ai.request.top_k", "gen_ai.request.reasoning.level");
        let chat = json!({"top_k": 40, "reasoning_effort": "low"});
        assert_eq!(text_of(&chat, Conventions::V1_41, top_k), Some(40.0.into()));
        assert_eq!(text_of(&chat, Conventions::Both, top_k), Some(40.0.into()));
        assert_eq!(text_of(&chat, Conventions::Latest, top_k), Some(40_i64.into()));
        assert_eq!(text_of(&chat, Conventions::V1_41, level), None);
        assert_eq!(text_of(&chat, Conventions::Both, level), Some("low".into()));
        let responses = json!({"reasoning": {"effort": "high"}});
        assert_eq!(text_of(&responses, Conventions::Latest, level), Some("high".into()));
    }

    #[test]
    fn defaults_and_wrong_types_are_not_stated() {
        for body in [
            json!({"n": 1, "service_tier": "auto", "stream": false}),
            json!({"n": "2", "stop": 5, "top_k": "many", "response_format": "url", "text": "hi"}),
            json!({"stop": [], "parameters": "x", "temperature": null}),
            json!({"stop": vec!["x"; 17]}),
            json!("text"),
        ] {
            assert_eq!(asked(&body), BTreeMap::new(), "{body}");
        }
    }

    fn stated(events: &[Value], is_event_stream: bool) -> BTreeMap<String, String> {
        let mut body = ResponseBody { is_event_stream, ..ResponseBody::default() };
        for event in events {
            let text = if is_event_stream { format!("data: {event}") } else { event.to_string() };
            let (start, end) = (body.bytes.len() as u32, (body.bytes.len() + text.len()) as u32);
            body.bytes.extend_from_slice(text.as_bytes());
            body.events.push(SseEvent { start, end, arrival: Arrival::default() });
        }
        let attributes = Stated::read(&body).attributes();
        attributes.into_iter().map(|pair| (pair.key.to_string(), pair.value.to_string())).collect()
    }

    #[test]
    fn a_response_states_its_id_tier_and_fingerprint() {
        let chunk = json!({"id": "c-1", "service_tier": "default", "system_fingerprint": "fp"});
        let expected = map(&[
            ("gen_ai.response.id", "c-1"),
            ("openai.response.service_tier", "default"),
            ("openai.response.system_fingerprint", "fp"),
        ]);
        assert_eq!(stated(std::slice::from_ref(&chunk), false), expected);
        assert_eq!(stated(&[chunk, json!({"id": "c-2"})], true), expected);
        // The tier that was used is only stated at the end.
        let events = [
            json!({"type": "response.created", "response": {"id": "r", "service_tier": "auto"}}),
            json!({"type": "response.completed", "response": {"id": "r", "service_tier": "flex"}}),
        ];
        let expected =
            map(&[("gen_ai.response.id", "r"), ("openai.response.service_tier", "flex")]);
        assert_eq!(stated(&events, true), expected);
        let message = json!({"type": "message_start", "message": {"id": "msg_1"}});
        assert_eq!(stated(&[message], true), map(&[("gen_ai.response.id", "msg_1")]));
        assert_eq!(
            stated(&[json!({"responseId": "g"})], true),
            map(&[("gen_ai.response.id", "g")])
        );
        assert_eq!(stated(&[json!({"message": "no"}), json!([1])], true), BTreeMap::new());
        assert_eq!(stated(&[], true), BTreeMap::new());
    }
}
