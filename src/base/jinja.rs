//! Bounded execution of Jinja templates, from the user or from a model.

mod json;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde::Serialize;

/// Maximum number of instructions of one rendering. A message of a chat takes a few hundred.
const FUEL: u64 = 5_000_000;
/// Maximum nesting depth of calls, loops and conditions.
const MAX_DEPTH: usize = 120;
/// Maximum size in bytes of a template and of its output.
const MAX_BYTES: usize = 64 << 20;
/// Name of the only template in an environment.
const NAME: &str = "template";

/// A parsed template. Clones share it.
#[derive(Clone)]
pub struct Template(Arc<Environment<'static>>);

/// Returns an environment with all limits set except for the size of a single variable. The caller
/// decides what it provides to templates.
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
    /// Parses `source`, to be rendered in `environment`. The error contains the line.
    pub fn new(mut environment: Environment<'static>, source: String) -> Result<Self, String> {
        if source.len() > MAX_BYTES {
            return Err(format!("it exceeds {} MiB", MAX_BYTES >> 20));
        }
        environment.add_template_owned(NAME, source).map_err(|error| explain(&error))?;
        Ok(Self(Arc::new(environment)))
    }

    /// Returns the variables that the template uses, but neither sets nor gets from its
    /// environment.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let Ok(template) = self.0.get_template(NAME) else { return Vec::new() };
        let mut names: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        names.retain(|name| self.0.globals().all(|(global, _)| global != name));
        names.sort();
        names
    }

    /// Renders the template with `context`. The error contains the line.
    pub fn render(&self, context: impl Serialize) -> Result<String, String> {
        let mut output = Bounded(Vec::new());
        let context = minijinja::Value::from(Serde(context));
        self.0
            .get_template(NAME)
            .and_then(|template| template.render_captured_to(context, &mut output).map(drop))
            .map_err(|error| explain(&error))?;
        String::from_utf8(output.0).map_err(|_| "its output is not valid UTF-8".to_owned())
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").finish_non_exhaustive()
    }
}

/// Variables, and the templates that use them. All renderings together have the limit of steps of one template.
#[derive(Debug)]
pub struct Variables {
    environment: Environment<'static>,
    steps: u64,
}

impl Default for Variables {
    fn default() -> Self {
        let mut environment = environment();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        // As a text of several lines ends in a file.
        let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
        environment.set_syntax(syntax.unwrap_or_default());
        Self { environment, steps: FUEL }
    }
}

impl Variables {
    /// Forgets all variables, but not the steps that were taken.
    #[must_use]
    pub fn emptied(self) -> Self {
        Self { steps: self.steps, ..Self::default() }
    }

    /// Sets a variable, of which templates may use members too.
    pub fn set(&mut self, name: &str, value: impl Serialize) {
        let value = minijinja::Value::from(Serde(value));
        self.environment.add_global(name.to_owned(), value);
    }

    /// Returns the names that `source` uses but does not set.
    #[must_use]
    pub fn used(&self, source: &str) -> Vec<String> {
        let template = self.environment.template_from_str(source);
        let used = template.map(|template| template.undeclared_variables(false));
        let mut names: Vec<String> = used.unwrap_or_default().into_iter().collect();
        names.sort();
        names
    }

    /// Renders `source`. The error contains the line, and the names that are not set.
    ///
    /// # Errors
    ///
    /// Fails if it is not a template, uses a name that is not set, or exceeds the limits.
    pub fn render(&mut self, source: &str) -> Result<String, String> {
        self.environment.set_fuel(Some(self.steps));
        let mut output = Bounded(Vec::new());
        let rendered = self.environment.template_from_str(source).and_then(|template| {
            let rendered = template.render_captured_to((), &mut output)?;
            Ok(rendered.state().fuel_levels().map_or(0, |(_, left)| left))
        });
        self.steps = rendered.map_err(|error| {
            let is_set = |name: &String| self.environment.globals().any(|(it, _)| it == name);
            let unknown: Vec<String> =
                self.used(source).into_iter().filter(|name| !is_set(name)).collect();
            let why = explain(&error);
            // An operator names the type of its operands.
            if unknown.is_empty() || !why.contains("undefined") {
                return why;
            }
            format!("{} is not set", unknown.join(", "))
        })?;
        String::from_utf8(output.0).map_err(|_| "its output is not valid UTF-8".to_owned())
    }
}

/// A text of limited length.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.0.len() + piece.len() > MAX_BYTES {
            let why = format!("its output exceeds {} MiB", MAX_BYTES >> 20);
            return Err(io::Error::other(why));
        }
        self.0.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the line and description of an error.
fn explain(error: &Error) -> String {
    let what = match error.kind() {
        ErrorKind::OutOfFuel => format!("it exceeds {FUEL} steps"),
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
        // Expected values from json.dumps.
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
        // Python's json.dumps rejects it too.
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
                "line 1: it exceeds 5000000 steps",
            ),
            (
                "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}".to_owned(),
                "recursion limit exceeded",
            ),
            (
                format!(
                    "{{% set s = 'x' * 99999 %}}{{% for a in {all} %}}{{{{ s }}}}{{% endfor %}}"
                ),
                "its output exceeds 64 MiB",
            ),
            (format!("{{{{ {}1", "(".repeat(9999)), "line 1: "),
            ("{{ 'x' * 1000000000 }}".to_owned(), "line 1: "),
        ] {
            let error = render(&source).unwrap_err();
            assert!(error.contains(why), "{error}");
            assert!(error.len() < 10_000, "{error}");
        }
    }

    #[test]
    fn templates_share_variables_and_steps() {
        let mut variables = Variables::default();
        variables.set("n", 4);
        variables.set("phases", json!({"main": {"rate": 1.5}}));
        for (source, expected) in [
            ("{{ n * 2 }}", "8"),
            ("{{ n // 3 }} {{ n / 8 }}\n", "1 0.5\n"),
            ("{{ phases.main.rate }}", "1.5"),
            ("{% if n > 3 %}many{% else %}few{% endif %}", "many"),
            ("{{ other | default(7) }}", "7"),
        ] {
            assert_eq!(variables.render(source).as_deref(), Ok(expected), "{source}");
        }
        assert_eq!(variables.used("{{ a + b.c }}{% set d = 1 %}{{ d }}"), ["a", "b"]);
        assert_eq!(variables.render("{{ a + n }}").unwrap_err(), "a is not set");
        // 300,000 iterations each, of several steps: nine are more than all may have together.
        let loops = "{% for i in range(600) %}{% for j in range(500) %}{% endfor %}{% endfor %}";
        let ends: Vec<bool> = (0..9).map(|_| variables.render(loops).is_ok()).collect();
        assert!(ends[0] && !ends[8], "{ends:?}");
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
