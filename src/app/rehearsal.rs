//! Tries third-party tokenizers and templates first in a separate process with limits. They
//! may be broken or malicious in ways that no check in this process would survive, such as
//! overflowing the stack or exhausting memory.
//!
//! The process is this program with the same arguments. If it ends normally, even with an
//! error, this process continues and finds the same result itself.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use anyhow::{Context, bail};

use base::platform::{limits, process};
use client::endpoint::{self, Endpoint, EndpointType};
use dataset::{Conversation, Dataset, Part, Source, Turn};
use tokens::hub::Hub;
use tokens::tokenizer::{self, TokenCounter};

use super::outcome::Outcome;
use super::profile;
use crate::cli;
use crate::config::{Benchmark, Environment, RunConfig};

/// The first argument of the trial process.
pub(super) const FLAG: &str = "--rehearsal";

/// Memory limit for a tokenizer: five times what the largest ones in use need.
const MAX_TOKENIZER_BYTES: u64 = 2 << 30;
/// Additional memory limit for rendering a template.
const MAX_TEMPLATE_BYTES: u64 = 1 << 30;
/// CPU time limits for loading a tokenizer and for rendering a template, in seconds.
const MAX_TOKENIZER_SECONDS: u64 = 60;
const MAX_TEMPLATE_SECONDS: u64 = 5;
/// Stack size of the trial, smaller than that of any thread that uses the tokenizer.
const STACK_BYTES: usize = 1536 << 10;
/// Maximum number of bytes to read of the process's output.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;
/// Exit code of the process after a panic, as Rust's own.
const PANICKED: i32 = 101;

/// Tries the tokenizer and the templates of `benchmark`, which was made from `arguments`.
pub(super) fn hold(benchmark: &Benchmark, arguments: &[OsString]) -> anyhow::Result<()> {
    let needs_none = |config: &RunConfig| {
        config.tokenizer == tokenizer::Source::Builtin && !has_template(config)
    };
    if benchmark.each().all(needs_none) {
        return Ok(());
    }
    let mut process = Command::new(process::own_program())
        .arg(FLAG)
        .args(arguments.iter().skip(1))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start the process that tries the tokenizer")?;
    let (mut said, mut stage) = (String::new(), String::new());
    let read = |from: &mut dyn Read, into: &mut String| {
        // Ends at invalid UTF-8; the text is only for a message.
        let _ = from.take(MAX_OUTPUT_BYTES).read_to_string(into);
    };
    if let Some(mut stderr) = process.stderr.take() {
        read(&mut stderr, &mut said);
    }
    if let Some(mut stdout) = process.stdout.take() {
        read(&mut stdout, &mut stage);
    }
    let status = process.wait()?;
    if status.code().is_some_and(|code| code != PANICKED) {
        return Ok(());
    }
    let what = match stage.lines().last() {
        Some("template") => "the template".to_owned(),
        _ => format!("the tokenizer {}", benchmark.config.tokenizer),
    };
    bail!(
        "{what} cannot be used: in a trial process it {}; use one that you trust",
        reason(status, &said, what == "the template")
    )
}

/// Why the process did not end normally.
fn reason(status: ExitStatus, said: &str, is_template: bool) -> String {
    let (memory, seconds) = if is_template {
        (MAX_TEMPLATE_BYTES, MAX_TEMPLATE_SECONDS)
    } else {
        (MAX_TOKENIZER_BYTES, MAX_TOKENIZER_SECONDS)
    };
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    if said.contains("memory allocation of") {
        return format!("used more than {} GiB of memory", memory >> 30);
    }
    if said.contains("overflowed its stack") {
        return "overflowed the stack".to_owned();
    }
    if status.code() == Some(PANICKED) {
        return format!("failed: {last}");
    }
    if limits::exceeded_cpu_time(status) {
        return format!("used more than {seconds} s of CPU time");
    }
    format!("crashed ({status}) {last}")
}

fn has_template(config: &RunConfig) -> bool {
    config.apply_chat_template || config.endpoint.endpoint_type == EndpointType::TEMPLATE
}

/// Runs in the trial process.
pub(super) fn rehearse(arguments: Vec<OsString>) -> anyhow::Result<Outcome> {
    let cli::Command::Profile(benchmark) = cli::parse(arguments)? else { return Ok(Outcome::Done) };
    limits::without_core_dump();
    // The cells of a sweep have the same tokenizer, but may have different templates.
    let try_all = move || {
        let others = benchmark.each().skip(1).filter(|config| has_template(config));
        std::iter::once(&benchmark.config).chain(others).try_for_each(try_out)
    };
    let work = thread::Builder::new().stack_size(STACK_BYTES).spawn(try_all)?;
    // A panic has printed its message.
    work.join().unwrap_or_else(|_| std::process::exit(PANICKED))?;
    Ok(Outcome::Done)
}

fn try_out(config: &RunConfig) -> anyhow::Result<()> {
    begin("tokenizer")?;
    limits::allow(MAX_TOKENIZER_BYTES, MAX_TOKENIZER_SECONDS);
    let counter = TokenCounter::load(&config.tokenizer, Environment::process())?;
    counter.try_out();
    if !has_template(config) {
        return Ok(());
    }
    begin("template")?;
    limits::allow(MAX_TEMPLATE_BYTES, MAX_TEMPLATE_SECONDS);
    let counter = profile::counter(config)?;
    let endpoint = endpoint::build(&config.endpoint);
    let _ = counter.wrapping();
    render(&*endpoint, &counter, &sample());
    begin("dataset")?;
    limits::lift();
    // A pipe can be read only once.
    let is_pipe =
        |part: &Part| matches!(&part.source, Source::File { path, .. } if !path.is_file());
    if config.dataset.parts.iter().any(is_pipe) {
        return Ok(());
    }
    let tokenizes = config.endpoint.endpoint_type.traits().tokenizes_input;
    let dataset =
        Dataset::load(&config.dataset, &counter, tokenizes, &Hub::new(Environment::process()))?;
    begin("template")?;
    for conversation in &dataset.conversations {
        limits::allow(MAX_TEMPLATE_BYTES, MAX_TEMPLATE_SECONDS);
        render(&*endpoint, &counter, conversation);
    }
    Ok(())
}

/// Renders the most expensive texts of `conversation`.
fn render(endpoint: &dyn Endpoint, counter: &TokenCounter, conversation: &Conversation) {
    // Errors are reported by the main process.
    let _ = endpoint.check(conversation);
    let last = conversation.len().saturating_sub(1);
    let answers = vec![Some(Arc::from("")); last];
    let body = endpoint.request_body(conversation, last, &answers);
    if let Some(chat) = endpoint::chat_messages(&body) {
        let _ = counter.chat_text(&chat.messages, &chat.tools);
    }
}

fn sample() -> Conversation {
    let turn = Turn { texts: vec!["Hello".to_owned().into()], ..Turn::default() };
    Conversation { turns: vec![turn], ..Conversation::default() }
}

/// Prints what is tried next.
fn begin(stage: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{stage}").and_then(|()| out.flush())
}
