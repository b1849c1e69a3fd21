//! Checks a value against a JSON Schema, without ever rejecting a valid one.
//!
//! Keywords that are not known are ignored, and so is what would take long. That is possible because the
//! known ones only restrict: there is no negation, so that a part that counts as valid never makes the
//! whole invalid.

use serde_json::{Map, Value};

/// Most schemas within each other, each of which may refer to another one.
const DEPTH: u32 = 64;

/// Most schemas and values that are looked at.
const WORK: u32 = 100_000;

/// Returns whether the schema allows the value, as far as it is checked.
pub(super) fn allows(schema: &Value, value: &Value) -> bool {
    Check { root: schema, left: WORK }.allows(schema, value, 0)
}

struct Check<'a> {
    /// The whole schema, to which references refer.
    root: &'a Value,
    /// How many schemas and values may still be looked at.
    left: u32,
}

impl Check<'_> {
    fn allows(&mut self, schema: &Value, value: &Value, depth: u32) -> bool {
        self.left = self.left.saturating_sub(1);
        if depth > DEPTH || self.left == 0 {
            return true;
        }
        let schema = match schema {
            Value::Bool(allows) => return *allows,
            Value::Object(schema) => schema,
            _ => return true,
        };
        // The references of a schema with an identifier are relative to it.
        let is_another = depth > 0 && schema.contains_key("$id");
        if is_another || (value.is_null() && schema.get("nullable") == Some(&Value::Bool(true))) {
            return true;
        }
        // In older drafts, keywords beside a reference are ignored.
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let target = reference.strip_prefix('#').and_then(|path| self.root.pointer(path));
            return target.is_none_or(|target| self.allows(target, value, depth + 1));
        }
        has_type(schema, value)
            && self.is_one_of(schema, value)
            && is_within_bounds(schema, value)
            && self.combinations_allow(schema, value, depth + 1)
            && match value {
                Value::Object(members) => self.members_are_allowed(schema, members, depth + 1),
                Value::Array(items) => self.items_are_allowed(schema, items, depth + 1),
                _ => true,
            }
    }

    fn is_one_of(&mut self, schema: &Map<String, Value>, value: &Value) -> bool {
        let options = schema.get("enum").and_then(Value::as_array);
        options.is_none_or(|options| options.iter().any(|option| self.is_equal(option, value)))
            && schema.get("const").is_none_or(|constant| self.is_equal(constant, value))
    }

    /// Returns whether both are equal as JSON, in which `1` and `1.0` are.
    fn is_equal(&mut self, one: &Value, other: &Value) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            return true;
        }
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                one == other || one.as_f64() == other.as_f64()
            }
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| self.is_equal(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                one.len() == other.len()
                    && one.iter().all(|(name, one)| {
                        other.get(name).is_some_and(|other| self.is_equal(one, other))
                    })
            }
            _ => one == other,
        }
    }

    fn combinations_allow(
        &mut self,
        schema: &Map<String, Value>,
        value: &Value,
        depth: u32,
    ) -> bool {
        let schemas = |name: &str| schema.get(name).and_then(Value::as_array);
        // What several of `oneOf` allow is not valid, but is not rejected.
        ["anyOf", "oneOf"].into_iter().filter_map(schemas).all(|options| {
            options.is_empty() || options.iter().any(|option| self.allows(option, value, depth))
        }) && schemas("allOf")
            .is_none_or(|parts| parts.iter().all(|part| self.allows(part, value, depth)))
    }

    fn members_are_allowed(
        &mut self,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        depth: u32,
    ) -> bool {
        let required =
            schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if required.iter().filter_map(Value::as_str).any(|name| !members.contains_key(name)) {
            return false;
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        // Patterns are not matched, so that nothing is known of members that one may allow.
        let additional = schema
            .get("additionalProperties")
            .filter(|_| !schema.contains_key("patternProperties"));
        members.iter().all(|(name, member)| {
            let property = properties.and_then(|properties| properties.get(name));
            let expected = property.or(additional);
            expected.is_none_or(|expected| self.allows(expected, member, depth))
        })
    }

    fn items_are_allowed(
        &mut self,
        schema: &Map<String, Value>,
        items: &[Value],
        depth: u32,
    ) -> bool {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        let all = schema.get("items");
        // In older drafts, `items` is what `prefixItems` is now.
        let first = first.or_else(|| all?.as_array()).map_or(&[][..], Vec::as_slice);
        let all = all.filter(|all| !all.is_array());
        items.iter().enumerate().all(|(at, item)| {
            let expected = first.get(at).or(all);
            expected.is_none_or(|expected| self.allows(expected, item, depth))
        })
    }
}

/// Returns whether the value is of a type that the schema has; types that are not known allow it. Those of
/// Gemini are in upper case.
fn has_type(schema: &Map<String, Value>, value: &Value) -> bool {
    let is = |name: &Value| {
        let Some(name) = name.as_str() else { return true };
        match name.to_ascii_lowercase().as_str() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "number" => value.is_number(),
            // Numbers without a fraction are integers, such as 1.0.
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        }
    };
    match schema.get("type") {
        None => true,
        Some(Value::Array(names)) => names.is_empty() || names.iter().any(is),
        Some(name) => is(name),
    }
}

/// Returns whether a number, and the length of a text or a list, are within the bounds.
fn is_within_bounds(schema: &Map<String, Value>, value: &Value) -> bool {
    let (size, least, most) = match value {
        Value::Number(_) => (value.as_f64(), "minimum", "maximum"),
        Value::String(text) => (Some(text.chars().count() as f64), "minLength", "maxLength"),
        Value::Array(items) => (Some(items.len() as f64), "minItems", "maxItems"),
        _ => return true,
    };
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let Some(size) = size else { return true };
    bound(least).is_none_or(|least| size >= least) && bound(most).is_none_or(|most| size <= most)
}

#[cfg(test)]
mod tests;
