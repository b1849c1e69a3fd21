//! Jinja templates, of the user's or of a model's: run within bounds.

mod json;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;

/// Instructions that one rendering may take. A message of a chat takes some
/// hundreds.
const FUEL: u64 = 5_000_000;
/// Calls, loops and conditions that may stand in each other.
const MAX_DEPTH: usize = 120;
/// Longest template, and longest text that one may make.
const MAX_BYTES: usize = 64 << 20;
/// Name of the one template of an environment.
const NAME: &str = "template";

/// A template that is ready to be rendered. Clones share it.
#[derive(Clone)]
pub struct Template(Arc<Environment<'static>>);

/// An environment without any bound left open but the length of one variable's
/// text; what it offers to templates is the caller's matter.
#[must_use]
pub fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(MAX_DEPTH);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.add_filter("tojson", json::tojson);
    environment
}

impl Template {
    /// Reads `source`, to be rendered in `environment`. The error names the line.
    pub fn new(mut environment: Environment<'static>, source: String) -> Result<Self, String> {
        if source.len() > MAX_BYTES {
            return Err(format!("it is longer than {} MiB", MAX_BYTES >> 20));
        }
        environment.add_template_owned(NAME, source).map_err(|error| explain(&error))?;
        Ok(Self(Arc::new(environment)))
    }

    /// Variables that the template uses and neither sets nor gets from its environment.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let Ok(template) = self.0.get_template(NAME) else { return Vec::new() };
        let mut names: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        names.retain(|name| self.0.globals().all(|(global, _)| global != name));
        names.sort();
        names
    }

    /// The text that the template makes of `context`. The error names the line.
    pub fn render(&self, context: impl Serialize) -> Result<String, String> {
        let mut output = Bounded(Vec::new());
        let context = minijinja::Value::from(Serde(context));
        self.0
            .get_template(NAME)
            .and_then(|template| template.render_captured_to(context, &mut output).map(drop))
            .map_err(|error| explain(&error))?;
        String::from_utf8(output.0).map_err(|_| "it makes no UTF-8".to_owned())
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").finish_non_exhaustive()
    }
}

/// Text up to a length.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.0.len() + piece.len() > MAX_BYTES {
            let why = format!("it makes more than {} MiB of text", MAX_BYTES >> 20);
            return Err(io::Error::other(why));
        }
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The line and what is wrong with it.
fn explain(error: &Error) -> String {
    let what = match error.kind() {
        ErrorKind::OutOfFuel => format!("it takes more than {FUEL} steps"),
        kind => {
            error.detail().map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}"))
        }
    };
    let cause = std::error::Error::source(error);
    let what = cause.map_or_else(|| what.clone(), |cause| format!("{what}: {cause}"));
    match error.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn render(source: &str) -> Result<String, String> {
        Template::new(environment(), source.to_owned())?.render(json!({"text": "a <b>\n"}))
    }

    #[test]
    fn nothing_is_escaped_and_python_is_understood() {
        assert_eq!(render("{{ text.strip().upper() }} {{ text[:1] }}").unwrap(), "A <B> a");
    }

    #[test]
    fn json_is_as_python_writes_it() {
        let json = |options| {
            render(&format!("{{{{ {{'b': [1, 'é<\\n', none], 'a': {{}}}}|tojson{options} }}}}"))
        };
        // By json.dumps.
        for (options, expected) in [
            ("", r#"{"b": [1, "é<\n", null], "a": {}}"#),
            ("(ensure_ascii=true)", r#"{"b": [1, "\u00e9<\n", null], "a": {}}"#),
            ("(sort_keys=true)", r#"{"a": {}, "b": [1, "é<\n", null]}"#),
            ("(separators=(',', ':'))", r#"{"b":[1,"é<\n",null],"a":{}}"#),
            ("(indent=1)", "{\n \"b\": [\n  1,\n  \"é<\\n\",\n  null\n ],\n \"a\": {}\n}"),
        ] {
            assert_eq!(json(options).unwrap(), expected);
        }
        assert!(json("(depth=1)").unwrap_err().starts_with("line 1: "));
        // Python's refuses it too.
        assert_eq!(render("{{ nothing|tojson }}").unwrap_err(), "line 1: undefined value");
        assert_eq!(render("{{ nothing|default(none)|tojson }}").unwrap(), "null");
    }

    #[test]
    fn errors_name_the_line() {
        assert!(render("a\n{% if %}").unwrap_err().starts_with("line 2: syntax error"));
        let unknown = render("a\n\n{{ text|nothing }}").unwrap_err();
        assert!(unknown.starts_with("line 3: unknown filter"), "{unknown}");
    }

    #[test]
    fn hostile_templates_come_to_an_end() {
        let all = "range(100000)";
        for (source, why) in [
            (
                format!("{{% for a in {all} %}}{{% for b in {all} %}}{{% endfor %}}{{% endfor %}}"),
                "line 1: it takes more than 5000000 steps",
            ),
            (
                "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}".to_owned(),
                "recursion limit exceeded",
            ),
            (
                format!(
                    "{{% set s = 'x' * 99999 %}}{{% for a in {all} %}}{{{{ s }}}}{{% endfor %}}"
                ),
                "it makes more than 64 MiB of text",
            ),
            (format!("{{{{ {}1", "(".repeat(9999)), "line 1: "),
            ("{{ 'x' * 1000000000 }}".to_owned(), "line 1: "),
        ] {
            let error = render(&source).unwrap_err();
            assert!(error.contains(why), "{error}");
            assert!(error.len() < 10_000, "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_template_panics(
            source in r"(\{\{|\}\}|\{%|%\}|for|if|endif|endfor|set|text|\[|\]|\||tojson|[ a-z0-9.:('*-]){0,40}"
        ) {
            let _ = render(&source);
        }
    }
}
