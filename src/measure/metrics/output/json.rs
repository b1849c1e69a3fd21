//! Finds outputs that are not the JSON that the request asked for.

mod schema;

use memchr::memmem;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// Names and values of which each request for JSON has one.
const SIGNS: [&str; 5] = [
    "\"json_schema\"",
    "\"json_object\"",
    "\"guided_json\"",
    "\"structured_outputs\"",
    "\"application/json\"",
];

/// The members of a request that concern the form of the output.
#[derive(Deserialize)]
struct Asked {
    response_format: Option<Value>,
    /// OpenAI responses have the format in it; other dialects have a text.
    text: Option<Value>,
    output_format: Option<Value>,
    output_config: Option<Value>,
    guided_json: Option<Value>,
    nvext: Option<Value>,
    structured_outputs: Option<Value>,
    json_schema: Option<Value>,
    #[serde(rename = "generationConfig", alias = "generation_config")]
    generation_config: Option<Value>,
    // What makes the output a part of JSON.
    stop: Option<Value>,
    stop_sequences: Option<Value>,
    echo: Option<bool>,
    messages: Option<Vec<Message>>,
}

#[derive(Deserialize)]
struct Message {
    role: Option<String>,
}

/// The JSON that a request asks for.
#[derive(Debug, Default, PartialEq)]
struct Wanted {
    is_object: bool,
    schema: Option<Value>,
}

/// Returns whether the request with this body asks for JSON that one of the outputs is not.
pub(super) fn is_wrong<'a>(mut outputs: impl Iterator<Item = &'a str>, body: &[u8]) -> bool {
    wanted(body).is_some_and(|wanted| outputs.any(|output| !wanted.is(output)))
}

/// Returns the JSON that the request with this body asks for, if it is known.
fn wanted(body: &[u8]) -> Option<Wanted> {
    // In a text of a prompt, the quotation marks would be escaped.
    memmem::find(body, b"json")?;
    SIGNS.iter().find(|sign| memmem::find(body, sign.as_bytes()).is_some())?;
    let asked: Asked = serde_json::from_slice(body).ok()?;
    asked.wanted().filter(|_| !asked.is_partial())
}

impl Asked {
    /// Returns whether the output may be a part of JSON: a stop sequence may end it, or the prompt is a
    /// part of it or begins it.
    fn is_partial(&self) -> bool {
        let config = self.generation_config.as_ref();
        let sequences = ["stopSequences", "stop_sequences"];
        let of_config = sequences.iter().find_map(|name| config?.get(name));
        let mut stops = [&self.stop, &self.stop_sequences].into_iter().flatten().chain(of_config);
        let begins = self.messages.as_ref().and_then(|messages| messages.last()?.role.as_deref());
        stops.any(|stop| !stop.is_null()) || self.echo == Some(true) || begins == Some("assistant")
    }

    fn wanted(&self) -> Option<Wanted> {
        let within = |of: &Option<Value>, name: &str| of.as_ref()?.get(name).cloned();
        let of_openai = self.response_format.as_ref().and_then(of_format);
        let of_responses = self.text.as_ref().and_then(|text| of_format(text.get("format")?));
        let of_messages = self.output_format.as_ref().and_then(of_format);
        let of_config = within(&self.output_config, "format").as_ref().and_then(of_format);
        // A structured output may be JSON, but also a choice or a regular expression.
        let schemas = [
            self.guided_json.clone(),
            within(&self.nvext, "guided_json"),
            within(&self.structured_outputs, "json"),
            self.json_schema.clone(),
        ];
        let of_schema = || schemas.into_iter().flatten().find_map(of_schema);
        let any_object = within(&self.structured_outputs, "json_object") == Some(true.into());
        of_openai
            .or(of_responses)
            .or(of_messages)
            .or(of_config)
            .or_else(of_schema)
            .or_else(|| any_object.then_some(Wanted { is_object: true, schema: None }))
            .or_else(|| self.generation_config.as_ref().and_then(of_gemini))
    }
}

/// Returns what the format of a dialect of OpenAI or Anthropic asks for.
fn of_format(format: &Value) -> Option<Wanted> {
    let schema = || {
        let named = format.pointer("/json_schema/schema");
        named.or_else(|| format.get("schema")).filter(|schema| !schema.is_null()).cloned()
    };
    match format.get("type")?.as_str()? {
        // llama.cpp allows a schema here.
        "json_object" => Some(Wanted { is_object: true, schema: schema() }),
        "json_schema" => Some(Wanted { is_object: false, schema: schema() }),
        _ => None,
    }
}

/// Returns what a schema asks for, which may be in a string.
fn of_schema(schema: Value) -> Option<Wanted> {
    let schema = match schema {
        Value::Object(_) => Some(schema),
        Value::String(text) => serde_json::from_str(&text).ok(),
        _ => return None,
    };
    Some(Wanted { is_object: false, schema })
}

/// Returns what a `generationConfig` asks for.
fn of_gemini(config: &Value) -> Option<Wanted> {
    let either = |names: [&str; 2]| names.iter().find_map(|name| config.get(name));
    let media_type = either(["responseMimeType", "response_mime_type"])?;
    let schema = either(["responseSchema", "response_schema"])
        .or_else(|| either(["responseJsonSchema", "response_json_schema"]));
    (media_type == "application/json").then(|| Wanted { is_object: false, schema: schema.cloned() })
}

impl Wanted {
    /// Returns whether the output is what is wanted.
    fn is(&self, output: &str) -> bool {
        // Unlike a value, what is ignored may be nested deeply and have numbers of any size.
        if serde_json::from_str::<IgnoredAny>(output).is_err() {
            return false;
        }
        if self.is_object && !output.trim_start().starts_with('{') {
            return false;
        }
        let Some(schema) = &self.schema else { return true };
        serde_json::from_str(output).map_or(true, |value| schema::allows(schema, &value))
    }
}

#[cfg(test)]
mod tests;
