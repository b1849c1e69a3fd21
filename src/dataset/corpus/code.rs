//! Texts that coding agents read, made from templates: functions in several languages, JSON, logs,
//! diffs and stack traces.
//!
//! The text is always the same. Lines are indented with tabs, so that words are separated by one
//! space ([`Words`](crate::words::Words)).

use std::fmt::Write as _;
use std::sync::LazyLock;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;

use crate::Seed;

/// Length of the text in bytes, up to the end of the part that exceeds it.
const BYTES: usize = 160_000;

const VERBS: &[&str] = &[
    "load",
    "parse",
    "merge",
    "encode",
    "decode",
    "validate",
    "resolve",
    "flush",
    "schedule",
    "retry",
    "render",
    "fetch",
    "store",
    "index",
    "compact",
    "rotate",
    "verify",
    "publish",
    "drain",
    "split",
    "measure",
    "register",
    "collect",
    "normalize",
    "compare",
    "expand",
    "release",
    "open",
    "commit",
    "sample",
    "filter",
    "update",
];
const NOUNS: &[&str] = &[
    "buffer", "session", "record", "header", "token", "cursor", "segment", "shard", "batch",
    "request", "response", "window", "packet", "channel", "worker", "metric", "snapshot",
    "journal", "cache", "bucket", "column", "schema", "ledger", "invoice", "account", "customer",
    "order", "payload", "route", "socket", "handler", "policy", "quota", "lease", "replica",
    "manifest", "artifact", "pipeline", "stage", "commit", "branch", "fixture", "template",
    "profile", "queue", "region", "device", "sensor",
];
const TYPES: &[&str] = &["u64", "usize", "String", "Vec<u8>", "Duration", "bool", "i32", "f64"];
const MODULES: &[&str] = &[
    "storage",
    "network",
    "billing",
    "parser",
    "scheduler",
    "telemetry",
    "auth",
    "search",
    "render",
    "config",
    "ingest",
    "export",
];

/// Returns the text.
pub(super) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| Writer::new().write());
    &TEXT
}

struct Writer {
    rng: ChaCha8Rng,
    out: String,
}

impl Writer {
    fn new() -> Self {
        Self { rng: Seed(1).stream("dataset.code"), out: String::with_capacity(BYTES + 4096) }
    }

    fn write(mut self) -> String {
        let parts = [
            Self::rust,
            Self::python,
            Self::go,
            Self::typescript,
            Self::json,
            Self::log,
            Self::diff,
            Self::stack_trace,
            Self::shell,
        ];
        while self.out.len() < BYTES {
            let part = parts[self.rng.random_range(0..parts.len())];
            part(&mut self);
        }
        self.out
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from.choose(&mut self.rng).copied().unwrap_or_default()
    }

    fn noun(&mut self) -> &'static str {
        self.pick(NOUNS)
    }

    fn function(&mut self) -> String {
        format!("{}_{}", self.pick(VERBS), self.noun())
    }

    fn number(&mut self) -> u32 {
        self.rng.random_range(2..9000)
    }

    fn path(&mut self, ending: &str) -> String {
        format!("src/{}/{}_{}.{ending}", self.pick(MODULES), self.noun(), self.pick(VERBS))
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "{line}");
    }

    fn rust(&mut self) {
        let (name, item, other) = (self.function(), self.noun(), self.noun());
        let (kind, result, most) = (self.pick(TYPES), self.pick(TYPES), self.number());
        let called = self.function();
        self.line(format_args!("/// Returns the {other} of each {item} below {most}."));
        self.line(format_args!(
            "pub fn {name}({item}: &[{kind}], limit: usize) -> Result<{result}, Error> {{"
        ));
        self.line(format_args!("\tlet mut {other} = {called}({item}.len().min({most}))?;"));
        self.line(format_args!("\tfor (index, value) in {item}.iter().enumerate().take(limit) {{"));
        self.line(format_args!("\t\tif value.is_empty() {{\n\t\t\treturn Err(Error::new(\"{item} {{index}} is empty\"));\n\t\t}}"));
        self.line(format_args!(
            "\t\t{other}.push(value.{called}(index)?);\n\t}}\n\tOk({other}.finish())\n}}\n"
        ));
    }

    fn python(&mut self) {
        let (name, item, other) = (self.function(), self.noun(), self.noun());
        let (called, count) = (self.function(), self.number());
        self.line(format_args!("def {name}(self, {item}, *, timeout={count}):"));
        self.line(format_args!("\t\"\"\"Applies {called} to every {other} of the {item}.\"\"\""));
        self.line(format_args!(
            "\twith self.{other}_lock:\n\t\tfor key, {other} in sorted({item}.items()):"
        ));
        self.line(format_args!("\t\t\tif {other} is None or key not in self.{item}s:\n\t\t\t\tlogger.debug(\"skipped {item} %s\", key)\n\t\t\t\tcontinue"));
        self.line(format_args!(
            "\t\t\tself.{item}s[key] = await self.{called}({other}, timeout=timeout)"
        ));
        self.line(format_args!("\treturn len(self.{item}s)\n"));
    }

    fn go(&mut self) {
        let (item, other, verb) = (self.noun(), self.noun(), self.pick(VERBS));
        let count = self.number();
        self.line(format_args!(
            "func (s *{item}Store) {verb}(ctx context.Context, {other} string) (int, error) {{"
        ));
        self.line(format_args!("\trows, err := s.db.QueryContext(ctx, \"SELECT id, {other} FROM {item}s WHERE {other} = $1 LIMIT {count}\", {other})"));
        self.line(format_args!("\tif err != nil {{\n\t\treturn 0, fmt.Errorf(\"{verb} {item}: %w\", err)\n\t}}\n\tdefer rows.Close()"));
        self.line(format_args!("\tseen := make(map[string]int, {count})\n\tfor rows.Next() {{\n\t\tseen[{other}]++\n\t}}\n\treturn len(seen), rows.Err()\n}}\n"));
    }

    fn typescript(&mut self) {
        let (item, other, verb) = (self.noun(), self.noun(), self.pick(VERBS));
        let count = self.number();
        self.line(format_args!("export async function {verb}(options: {{ {item}: string; {other}?: number }}): Promise<void> {{"));
        self.line(format_args!("\tconst {{ {item}, {other} = {count} }} = options;\n\tconst response = await fetch(`/api/{other}s/${{{item}}}?limit=${{{other}}}`);"));
        self.line(format_args!(
            "\tif (!response.ok) throw new Error(`{verb} {item}: ${{response.status}}`);"
        ));
        self.line(format_args!(
            "\tstate.{item}s = (await response.json()).filter((it) => it.{other} > {count});\n}}\n"
        ));
    }

    fn json(&mut self) {
        let (item, other, tool) = (self.noun(), self.noun(), self.function());
        let (first, second) = (self.number(), self.number());
        let path = self.path("toml");
        self.line(format_args!("{{\"tool\": \"{tool}\", \"arguments\": {{\"path\": \"{path}\", \"{item}\": {first}, \"recursive\": true}},"));
        self.line(format_args!("\"result\": {{\"{other}s\": [{second}, {first}], \"{item}_id\": \"{first:04x}-{second:04x}\", \"truncated\": false}}}}\n"));
    }

    fn log(&mut self) {
        for _ in 0..self.rng.random_range(2..5) {
            let (module, item, verb) = (self.pick(MODULES), self.noun(), self.pick(VERBS));
            let level = self.pick(&["DEBUG", "INFO", "INFO", "WARN", "ERROR"]);
            let (at, took, count) = (self.number(), self.number(), self.number());
            self.line(format_args!("12:{:02}:{:02}.{:03} {level} {module}: {verb} of {count} {item}s took {took} ms, attempt={}", at % 60, took % 60, count % 1000, at % 7));
        }
    }

    fn diff(&mut self) {
        let (path, item, other) = (self.path("rs"), self.noun(), self.noun());
        let (at, before, after) = (self.number(), self.number(), self.number());
        let called = self.function();
        self.line(format_args!("diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -{at},4 +{at},5 @@ fn {called}()"));
        self.line(format_args!("-\tlet {item} = {other}.with_limit({before});\n+\tlet {item} = {other}.with_limit({after})?;\n+\t{item}.{called}({other});\n"));
    }

    fn stack_trace(&mut self) {
        let (item, error) =
            (self.noun(), self.pick(&["KeyError", "ValueError", "TimeoutError", "OSError"]));
        self.line(format_args!("Traceback (most recent call last):"));
        for _ in 0..self.rng.random_range(2..4) {
            let (path, at, name, called) =
                (self.path("py"), self.number(), self.function(), self.function());
            self.line(format_args!(
                "\tFile \"{path}\", line {at}, in {name}\n\t\treturn self.{called}({item})"
            ));
        }
        let value = self.number();
        self.line(format_args!("{error}: {item} {value} is not available\n"));
    }

    fn shell(&mut self) {
        let (module, item, test) = (self.pick(MODULES), self.noun(), self.function());
        let (passed, took) = (self.number(), self.number());
        self.line(format_args!("$ grep -rn {item} src/{module} | head -n {}", passed % 90 + 1));
        for _ in 0..self.rng.random_range(1..4) {
            let (path, at, called) = (self.path("rs"), self.number(), self.function());
            self.line(format_args!("{path}:{at}:\tself.{called}(&{item})?;"));
        }
        self.line(format_args!("$ cargo test {module}::{test}\ntest result: ok. {passed} passed; 0 failed; finished in {}.{:02}s\n", took / 100, took % 100));
    }
}
