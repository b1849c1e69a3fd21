use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A schema, values that it allows, and values that it does not.
type Case = (Value, Vec<Value>, Vec<Value>);

fn check(cases: Vec<Case>) {
    for (schema, valid, invalid) in cases {
        for value in valid {
            assert!(allows(&schema, &value), "{schema} allows {value}");
        }
        for value in invalid {
            assert!(!allows(&schema, &value), "{schema} does not allow {value}");
        }
    }
}

#[test]
fn types_are_checked() {
    check(vec![
        (
            json!({"type": "integer"}),
            vec![json!(1), json!(1.0), json!(-3)],
            vec![json!(1.5), json!("1")],
        ),
        (json!({"type": "number"}), vec![json!(1), json!(1.5)], vec![json!("1"), json!(null)]),
        (json!({"type": ["string", "null"]}), vec![json!("a"), json!(null)], vec![json!(1)]),
        (json!({"type": "OBJECT"}), vec![json!({})], vec![json!([])]),
        (json!({"type": "ARRAY"}), vec![json!([])], vec![json!({})]),
        (json!({"type": "Boolean"}), vec![json!(true)], vec![json!(0)]),
        (json!({"type": "STRING", "nullable": true}), vec![json!(null), json!("")], vec![json!(1)]),
        (json!({"type": "STRING", "nullable": false}), vec![], vec![json!(null)]),
        (json!({"type": "of a later draft"}), vec![json!(null)], vec![]),
        (json!({"type": []}), vec![json!(null)], vec![]),
        (json!({"type": 1, "pattern": "^a$", "not": {}}), vec![json!("b")], vec![]),
        (json!(true), vec![json!(1)], vec![]),
        (json!(false), vec![], vec![json!(1)]),
        (json!("a text"), vec![json!(1)], vec![]),
    ]);
}

#[test]
fn members_are_checked() {
    let closed = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": false,
    });
    let of_numbers = json!({"properties": {"a": {}}, "additionalProperties": {"type": "number"}});
    let patterns = json!({"patternProperties": {"^x": {}}, "additionalProperties": false});
    check(vec![
        (
            closed,
            vec![json!({"a": 1}), json!({"b": "c", "a": 1})],
            vec![
                json!({}),
                json!({"a": "1"}),
                json!({"a": 1, "c": 1}),
                json!([]),
                json!({"b": "c"}),
            ],
        ),
        (of_numbers, vec![json!({"a": "b", "c": 1})], vec![json!({"c": "d"})]),
        (patterns, vec![json!({"y": 1})], vec![]),
        (json!({"required": ["a"]}), vec![json!({"a": null}), json!(1)], vec![json!({"b": 1})]),
        (json!({"required": true, "properties": 1}), vec![json!({})], vec![]),
    ]);
}

#[test]
fn items_are_checked() {
    let tuple = json!({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}});
    let older = json!({"items": [{"type": "string"}, {"type": "integer"}]});
    check(vec![
        (
            json!({"items": {"type": "integer"}}),
            vec![json!([]), json!([1, 2])],
            vec![json!([1, "2"])],
        ),
        (tuple, vec![json!(["a", 1, 2]), json!([])], vec![json!([1]), json!(["a", "b"])]),
        (older, vec![json!(["a", 1, "c"])], vec![json!(["a", "b"])]),
        (json!({"prefixItems": [{}], "items": false}), vec![json!([1])], vec![json!([1, 2])]),
        (
            json!({"minItems": 1, "maxItems": 2}),
            vec![json!([1]), json!([1, 2])],
            vec![json!([]), json!([1, 2, 3])],
        ),
        (json!({"minItems": "1"}), vec![json!([])], vec![]),
    ]);
}

#[test]
fn values_are_checked() {
    check(vec![
        (
            json!({"enum": ["a", 1, null]}),
            vec![json!("a"), json!(1.0), json!(null)],
            vec![json!("b"), json!(2)],
        ),
        (
            json!({"const": {"a": [1, 2]}}),
            vec![json!({"a": [1, 2.0]})],
            vec![json!({"a": [1]}), json!({"b": [1, 2]})],
        ),
        (json!({"const": {"a": 1, "b": 2}}), vec![json!({"b": 2, "a": 1})], vec![json!({"a": 1})]),
        (
            json!({"minimum": 1, "maximum": 2.5}),
            vec![json!(1), json!(2.5), json!("0")],
            vec![json!(0.9), json!(3)],
        ),
        (
            json!({"minLength": 2, "maxLength": 3}),
            vec![json!("äö"), json!("äöü")],
            vec![json!("ä"), json!("äöüß")],
        ),
        (json!({"minimum": u64::MAX}), vec![json!(u64::MAX)], vec![json!(1)]),
        // In draft 4, these are not numbers.
        (json!({"minimum": 1, "exclusiveMinimum": true}), vec![json!(1)], vec![json!(0)]),
    ]);
}

#[test]
fn combinations_are_checked() {
    let string_or_integer = json!([{"type": "string"}, {"type": "integer"}]);
    let both = json!({"allOf": [{"minimum": 1}, {"maximum": 2}]});
    check(vec![
        (json!({"anyOf": string_or_integer}), vec![json!("a"), json!(1)], vec![json!(1.5)]),
        (json!({"oneOf": string_or_integer}), vec![json!("a"), json!(1)], vec![json!(1.5)]),
        // It allows both.
        (json!({"oneOf": [{"minimum": 1}, {"maximum": 2}]}), vec![json!(1)], vec![]),
        (json!({"anyOf": []}), vec![json!(1)], vec![]),
        (both, vec![json!(1.5)], vec![json!(3), json!(0)]),
    ]);
}

#[test]
fn references_are_followed() {
    let tree = json!({
        "$defs": {"node": {
            "type": "object",
            "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["children"],
        }},
        "$ref": "#/$defs/node",
    });
    let valid = json!({"children": [{"children": []}]});
    let invalid = json!({"children": [{"children": [{}]}]});
    let older = json!({"definitions": {"a/b": {"type": "string"}}, "items": {"$ref": "#/definitions/a~1b"}});
    let to_itself = json!({"$ref": "#"});
    let elsewhere = json!({"$ref": "https://example.org/schema"});
    let other_base = json!({
        "$defs": {"a": {"type": "string"}},
        "items": {"$id": "https://example.org/", "$ref": "#/$defs/a"},
    });
    check(vec![
        (tree, vec![valid], vec![invalid]),
        (older, vec![json!(["a"])], vec![json!([1])]),
        (json!({"$ref": "#/$defs/missing"}), vec![json!(1)], vec![]),
        (to_itself, vec![json!(1)], vec![]),
        (elsewhere, vec![json!(1)], vec![]),
        (other_base, vec![json!([1])], vec![]),
    ]);
}

#[test]
fn what_takes_long_is_allowed() {
    // Each level has the next one twice: 2^20 schemas without a limit.
    let mut doubling = serde_json::Map::new();
    for level in 0..20 {
        let next = json!({"$ref": format!("#/$defs/{}", level + 1)});
        doubling.insert(level.to_string(), json!({"anyOf": [next, next]}));
    }
    doubling.insert("20".to_owned(), json!({"type": "string"}));
    let schema = json!({"$defs": doubling, "anyOf": [{"$ref": "#/$defs/0"}]});
    assert!(allows(&schema, &json!(1)));
    let mut items = vec![json!(1); WORK as usize];
    items.push(json!("after what is looked at"));
    let schema = json!({"items": {"type": "integer"}});
    assert!(allows(&schema, &json!(items)));
    assert!(!allows(&schema, &json!(items[9..])));
}

/// Returns a schema and a value that it allows.
fn schema_and_value() -> impl Strategy<Value = (Value, Value)> {
    let leaf = prop_oneof![
        Just((json!({"type": "null"}), json!(null))),
        any::<bool>().prop_map(|value| (json!({"type": "boolean"}), json!(value))),
        (any::<i64>(), 0..9_i64).prop_map(|(value, more)| {
            let schema = json!({"type": "integer", "minimum": value.saturating_sub(more), "maximum": value.saturating_add(more)});
            (schema, json!(value))
        }),
        any::<f64>().prop_map(|value| (json!({"type": "number"}), json!(value)))
            .prop_filter("finite", |(_, value)| value.is_number()),
        ".{0,9}".prop_map(|value| {
            let length = value.chars().count();
            (json!({"type": ["string", "null"], "minLength": length, "maxLength": length}), json!(value))
        }),
        ("[a-c]", "[a-c]").prop_map(|(one, other)| (json!({"enum": [one, other]}), json!(other))),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let members = proptest::collection::btree_map("[a-z]{1,3}", inner.clone(), 0..4);
        let object = members.prop_map(|members| {
            let required: Vec<String> = members.keys().cloned().collect();
            let mut schemas = Map::new();
            let mut values = Map::new();
            for (name, (schema, value)) in members {
                schemas.insert(name.clone(), schema);
                values.insert(name, value);
            }
            let schema = json!({
                "type": "object", "properties": schemas, "required": required,
                "additionalProperties": false,
            });
            (schema, Value::Object(values))
        });
        let list = (inner.clone(), 0..4_usize).prop_map(|((schema, value), length)| {
            let schema = json!({"type": "array", "items": schema, "minItems": length});
            (schema, Value::Array(vec![value; length]))
        });
        let one_of_two = (inner.clone(), inner)
            .prop_map(|((schema, _), (other, value))| (json!({"anyOf": [schema, other]}), value));
        prop_oneof![object, list, one_of_two]
    })
}

proptest! {
    #[test]
    fn valid_values_are_allowed((schema, value) in schema_and_value()) {
        prop_assert!(allows(&schema, &value), "{} {}", schema, value);
    }
}
