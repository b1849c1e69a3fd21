//! The path of the content in a response, in a subset of `JMESPath`.
//!
//! Supports `a.b`, `a[0]`, `a[-1]`, `a[*].b` and `"a key"`. Filters, pipes and functions are
//! rejected.

use serde_json::Value;

/// A path into JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FieldPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Member(String),
    /// An index into a list; from its end if negative.
    Item(i64),
    /// Each item of a list.
    Each,
}

impl FieldPath {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |at: &str| {
            format!(
                "{text:?} is not a valid path from {at:?} on; expected a path such as a.b[0].c or \
                 a[*].b"
            )
        };
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (step, after) = if let Some(index) = rest.strip_prefix('[') {
                let (index, after) = index.split_once(']').ok_or_else(|| wrong(rest))?;
                match index.trim() {
                    "*" => (Step::Each, after),
                    number => (Step::Item(number.parse().map_err(|_| wrong(rest))?), after),
                }
            } else {
                let name = match rest.strip_prefix('.') {
                    Some(name) if !steps.is_empty() => name,
                    None if steps.is_empty() => rest,
                    _ => return Err(wrong(rest)),
                };
                let (name, after) = member(name).ok_or_else(|| wrong(rest))?;
                (Step::Member(name), after)
            };
            steps.push(step);
            rest = after;
        }
        if steps.is_empty() { Err("the path is empty".to_owned()) } else { Ok(Self(steps)) }
    }

    /// Returns the values at the path: several if it goes through each item of a list.
    pub(super) fn find(&self, value: &Value) -> Option<Value> {
        find(&self.0, value).filter(|found| !found.is_null())
    }
}

/// Splits off a name, plain or quoted, and returns it with the rest.
fn member(text: &str) -> Option<(String, &str)> {
    if text.starts_with('"') {
        let mut names = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let name = names.next()?.ok()?;
        return Some((name, &text[names.byte_offset()..]));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins_well.then(|| (text[..end].to_owned(), &text[end..]))
}

fn find(steps: &[Step], value: &Value) -> Option<Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value.clone()) };
    match step {
        Step::Member(name) => find(rest, value.get(name)?),
        Step::Item(index) => {
            let items = value.as_array()?;
            let from_end = || items.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?);
            let at = usize::try_from(*index).ok().or_else(from_end)?;
            find(rest, items.get(at)?)
        }
        Step::Each => {
            let found = value.as_array()?.iter().filter_map(|item| find(rest, item));
            Some(Value::Array(found.filter(|item| !item.is_null()).collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn places_as_jmespath_has_them() {
        let value = json!({"a": {"b": [{"c": "x"}, {"c": "y"}, {"d": 1}]}, "a key": [1, 2]});
        for (path, expected) in [
            ("a.b[0].c", Some(json!("x"))),
            ("a.b[-2].c", Some(json!("y"))),
            ("a.b[*].c", Some(json!(["x", "y"]))),
            ("\"a key\"[1]", Some(json!(2))),
            ("a.b[3]", None),
            ("a.b[-4]", None),
            ("a.c", None),
            ("a[0]", None),
        ] {
            assert_eq!(FieldPath::parse(path).unwrap().find(&value), expected, "{path}");
        }
        assert_eq!(FieldPath::parse("[0]").unwrap().find(&json!([7])), Some(json!(7)));
    }

    #[test]
    fn other_paths_are_refused() {
        for path in
            ["", "a..b", ".a", "a[", "a[x]", "a[?b]", "a | b", "length(a)", "a.[b, c]", "\"a"]
        {
            assert!(FieldPath::parse(path).is_err(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn no_path_panics(path in r#"[a-c.\[\]0-9*"\\ -]{0,20}"#) {
            if let Ok(path) = FieldPath::parse(&path) {
                let _ = path.find(&json!({"a": [{"b": 1}], "b": [[1, 2], [3]], "c": null}));
            }
        }
    }
}
