//! Directories of files as a dataset.
//!
//! | format | a directory of |
//! |---|---|
//! | `raw_payload` | conversations: each `.jsonl` file has the bodies of one, in order |
//! | `random_pool` | pools: each request has a line of each file, drawn at random |
//! | `sagemaker_data_capture` | captures: all `.jsonl` files, also those in subdirectories |
//! | `weka_trace` | conversations: each `.json` file has one |
//! | `otel` | all files with the endings of [`OTEL`], also those in subdirectories, as one |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use base::input;
use base::setting::{InvalidSetting, Named as _};
use tokens::tokenizer::TokenCounter;

use super::lines::Lines;
use super::sagemaker::Captures;
use super::trace::Trace;
use super::weka::Documents;
use super::{
    Fault, Loaded, Opening, check_traces, inputs_json, jsonl, mooncake, named, otel, random_pool,
    sagemaker,
};
use crate::{Conversation, DatasetError, FileFormat, Seed, Text, TraceSettings, Turn};

/// How deep subdirectories are searched, which ends a circle of links.
const MAX_DEPTH: usize = 16;

/// The settings with which a directory is read.
pub(super) struct Reading<'a> {
    pub(super) format: Option<FileFormat>,
    pub(super) traces: &'a TraceSettings,
    /// Number of requests to draw from pools.
    pub(super) entries: usize,
    pub(super) counter: &'a TokenCounter,
    pub(super) seed: Seed,
}

/// Reads the files in `directory`, in the order of their names.
pub(super) fn read(directory: &Path, reading: &Reading<'_>) -> Result<Loaded, DatasetError> {
    let format = match reading.format {
        Some(format) => format,
        None => detect(directory)?,
    };
    check_traces(format, reading.traces).map_err(|fault| named(fault, directory))?;
    match format {
        FileFormat::RawPayload => conversations(directory),
        FileFormat::RandomPool => requests(directory, reading.entries, reading.seed),
        FileFormat::SageMakerDataCapture => captures(directory, reading),
        FileFormat::WekaTrace => agents(directory, reading),
        FileFormat::Otel => recorded(directory, reading),
        other => {
            let why = format!(
                "{} is a directory, but {} is read from a file; directories can have the formats \
                 otel, raw_payload, random_pool, sagemaker_data_capture and weka_trace",
                directory.display(),
                other.name()
            );
            Err(InvalidSetting::new("--input-file", why).into())
        }
    }
}

/// Detects the format from the first line of the first file.
pub(super) fn detect(directory: &Path) -> Result<FileFormat, DatasetError> {
    let found = files(directory, JSONL, true)?;
    let Some(first) = found.first() else {
        return match files(directory, JSON, false)?.first() {
            Some(document) if !has_spans(document)? => Ok(FileFormat::WekaTrace),
            None if of_otel(directory)?.is_empty() => {
                let note = format!(": the directory does not contain a .{JSONL} or .{JSON} file");
                Err(DatasetError::Empty { path: directory.to_owned(), note })
            }
            Some(_) | None => Ok(FileFormat::Otel),
        };
    };
    if has_spans(first)? {
        return Ok(FileFormat::Otel);
    }
    let members = first_line(first).map_err(|fault| named(fault, first))?;
    Ok(match members {
        Some(members) if sagemaker::FORMAT.has(&members) => FileFormat::SageMakerDataCapture,
        Some(members) if members.contains_key("messages") => FileFormat::RawPayload,
        _ => FileFormat::RandomPool,
    })
}

/// Returns whether a file has traces.
fn has_spans(path: &Path) -> Result<bool, DatasetError> {
    let opened = input::open(path).map_err(Fault::Read).and_then(|file| {
        let mut opening = Opening::read(file)?;
        opening.first_byte()?;
        Ok(otel::document::begins(&opening.bytes))
    });
    opened.map_err(|fault| named(fault, path))
}

/// Returns the object on the first line that is not blank.
fn first_line(path: &Path) -> Result<Option<Map<String, Value>>, Fault> {
    let mut opening = Opening::read(input::open(path).map_err(Fault::Read)?)?;
    let Some(start) = opening.first_byte()? else { return Ok(None) };
    let line = opening.line_at(start)?;
    Ok(line.and_then(|line| serde_json::from_slice(line).ok()))
}

/// Endings of the files that are read.
const JSONL: &str = "jsonl";
const JSON: &str = "json";
const OTEL: [&str; 8] = [JSONL, JSON, "otlp", "proto", "pb", "binpb", "zst", "gz"];

/// Returns the files in `directory` whose names have this `ending`, sorted, and those in
/// subdirectories if `is_deep`.
fn files(directory: &Path, ending: &str, is_deep: bool) -> Result<Vec<PathBuf>, DatasetError> {
    let mut found = Vec::new();
    add_files(directory, ending, if is_deep { MAX_DEPTH } else { 0 }, &mut found)
        .map_err(|source| DatasetError::Read { path: directory.to_owned(), source })?;
    found.sort();
    Ok(found)
}

fn add_files(
    directory: &Path,
    ending: &str,
    depth: usize,
    found: &mut Vec<PathBuf>,
) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let kind = fs::metadata(&path)?;
        if kind.is_dir() && depth > 0 {
            add_files(&path, ending, depth - 1, found)?;
        } else if kind.is_file() && path.extension().is_some_and(|end| end == ending) {
            found.push(path);
        }
    }
    Ok(())
}

fn lines(path: &Path) -> Result<Lines<'static>, Fault> {
    let opening = Opening::read(input::open(path).map_err(Fault::Read)?)?;
    Ok(Lines::new(opening.whole()))
}

fn stem(path: &Path) -> Arc<str> {
    path.file_stem().unwrap_or_default().to_string_lossy().into()
}

/// Reads a conversation from each file. Its turns contain their history.
fn conversations(directory: &Path) -> Result<Loaded, DatasetError> {
    let mut conversations = Vec::new();
    for path in files(directory, JSONL, false)? {
        let turns = turns(&path).map_err(|fault| named(fault, &path))?;
        if !turns.is_empty() {
            let id = stem(&path);
            conversations.push(Conversation {
                id,
                standalone_turns: true,
                turns,
                ..Conversation::default()
            });
        }
    }
    Ok(conversations.into())
}

fn turns(path: &Path) -> Result<Vec<Turn>, Fault> {
    lines(path)?
        .map(|line| {
            let line = line?;
            jsonl::from_object(&line.text)
                .and_then(inputs_json::turn)
                .map_err(|why| Fault::Line(line.number, why))
        })
        .collect()
}

/// Draws `entries` requests, each of a line of every file.
fn requests(directory: &Path, entries: usize, seed: Seed) -> Result<Loaded, DatasetError> {
    let mut pools: Vec<Vec<Turn>> = Vec::new();
    for path in files(directory, JSONL, false)? {
        let pool = pool(&path).map_err(|fault| named(fault, &path))?;
        if !pool.is_empty() {
            pools.push(pool);
        }
    }
    let conversations = random_pool::of_each(pools, entries, seed);
    Ok(conversations.into())
}

/// Reads the lines of a file. Texts without a name have that of the file.
fn pool(path: &Path) -> Result<Vec<Turn>, Fault> {
    let name = stem(path);
    let loaded = jsonl::read(lines(path)?, path, jsonl::random_pool)?;
    let turns =
        loaded.conversations.into_vec().into_iter().flat_map(|conversation| conversation.turns);
    let with_name = |text: Text| match text.name() {
        Some(_) => text,
        None => text.named(Arc::clone(&name)),
    };
    let turns = turns.map(|mut turn| {
        turn.texts = std::mem::take(&mut turn.texts).into_iter().map(with_name).collect();
        turn
    });
    Ok(turns.collect())
}

fn trace<'a>(directory: &Path, reading: &Reading<'a>) -> Result<Trace<'a>, DatasetError> {
    Trace::new(reading.traces, mooncake::BLOCK_TOKENS, reading.counter, reading.seed)
        .map_err(|fault| named(fault, directory))
}

fn agents(directory: &Path, reading: &Reading<'_>) -> Result<Loaded, DatasetError> {
    let documents = Documents::new(reading.traces, reading.counter, reading.seed);
    let mut documents = documents.map_err(|fault| named(fault, directory))?;
    for path in files(directory, JSON, false)? {
        let opening = input::open(&path).map_err(Fault::Read).and_then(Opening::read);
        let read = opening.and_then(|opening| documents.read(opening.whole()));
        read.map_err(|fault| named(fault, &path))?;
    }
    documents.finish().map_err(|fault| named(fault, directory))
}

/// Returns the files that may have traces or logs.
fn of_otel(directory: &Path) -> Result<Vec<PathBuf>, DatasetError> {
    let found = OTEL.iter().map(|ending| files(directory, ending, true));
    let mut found = found.collect::<Result<Vec<_>, _>>()?.concat();
    found.sort();
    Ok(found)
}

fn recorded(directory: &Path, reading: &Reading<'_>) -> Result<Loaded, DatasetError> {
    let mut traces = otel::Traces::new(trace(directory, reading)?, reading.traces);
    for path in of_otel(directory)? {
        let opening = input::open(&path).map_err(Fault::Read).and_then(Opening::read);
        let read = opening.and_then(|opening| traces.read(opening.whole()));
        read.map_err(|fault| named(fault, &path))?;
    }
    traces.finish().map_err(|fault| named(fault, directory))
}

fn captures(directory: &Path, reading: &Reading<'_>) -> Result<Loaded, DatasetError> {
    let mut captures = Captures::new(trace(directory, reading)?);
    for path in files(directory, JSONL, true)? {
        let read = lines(&path).and_then(|lines| captures.read(lines));
        read.map_err(|fault| named(fault, &path))?;
    }
    captures.finish().map_err(|fault| named(fault, directory))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn directory(files: &[(&str, &str)]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        directory
    }

    fn load(
        files: &[(&str, &str)],
        format: Option<FileFormat>,
    ) -> Result<Vec<Conversation>, DatasetError> {
        let directory = directory(files);
        let reading = Reading {
            format,
            traces: &TraceSettings::default(),
            entries: 60,
            counter: &TokenCounter::builtin(),
            seed: Seed(5),
        };
        read(directory.path(), &reading).map(|loaded| loaded.conversations.into_vec())
    }

    #[test]
    fn each_file_of_bodies_is_a_conversation() {
        let body =
            |text: &str| format!(r#"{{"messages": [{{"role": "user", "content": "{text}"}}]}}"#);
        let files = [
            ("b.jsonl", format!("{}\n\n{}\n", body("b1"), body("b2"))),
            ("a.jsonl", format!("\u{feff}{}", body("a1"))),
            ("c.jsonl", String::new()),
            ("notes.txt", "no JSON".to_owned()),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(n, c)| (*n, c.as_str())).collect();
        let read = load(&files, None).unwrap();
        let ids: Vec<&str> = read.iter().map(|conversation| &*conversation.id).collect();
        assert_eq!(ids, ["a", "b"]);
        assert!(read.iter().all(|conversation| conversation.standalone_turns));
        let last = read[1].turns[1].raw_payload.as_ref().unwrap();
        assert_eq!(last.get(), r#"{"messages":[{"role":"user","content":"b2"}]}"#);
    }

    #[test]
    fn requests_are_drawn_from_all_pools() {
        let files = [
            ("queries.jsonl", "{\"text\": \"q0\"}\n{\"text\": \"q1\"}\n"),
            ("passages.jsonl", r#"{"texts": [{"name": "passage", "contents": ["p0", "p1"]}]}"#),
        ];
        let read = load(&files, None).unwrap();
        assert_eq!(read.len(), 60);
        let mut first = 0;
        for conversation in &read {
            let texts = &conversation.turns[0].texts;
            let names: Vec<_> = texts.iter().map(|text| text.name().unwrap()).collect();
            assert_eq!(names, ["passage", "passage", "queries"]);
            first += usize::from(texts[2].to_string() == "q0");
        }
        // Expected 30, standard deviation sqrt(60 / 4) = 3.9.
        assert!(first.abs_diff(30) < 16, "{first}");
    }

    #[test]
    fn captures_are_found_in_subdirectories() {
        let capture = |second: u32| {
            format!(
                r#"{{"eventMetadata": {{"inferenceTime": "2026-11-21T15:04:{second:02}Z"}},
                "captureData": {{"endpointInput": {{"encoding": "JSON", "data":
                "{{\"messages\": [{{\"role\": \"user\", \"content\": \"{second}\"}}]}}"}}}}}}"#
            )
            .replace('\n', " ")
        };
        let (late, early) = (capture(9), capture(2));
        let read = load(&[("x/a.jsonl", &late), ("x/y/b.jsonl", &early)], None).unwrap();
        let times: Vec<_> =
            read.iter().map(|c| c.turns[0].timestamp.unwrap().as_seconds()).collect();
        assert_eq!(times, [0.0, 7.0]);
    }

    #[test]
    fn each_document_of_an_agent_is_a_conversation() {
        let document = |id: &str| {
            format!(
                r#"{{"id": "{id}", "block_size": 16, "hash_id_scope": "local",
                "requests": [{{"t": 0, "type": "n", "in": 20, "out": 2, "hash_ids": [1, 2]}}]}}"#
            )
        };
        let (a, b) = (document("a"), document("b"));
        let read = load(&[("2.json", &a), ("1.json", &b), ("x.txt", "")], None).unwrap();
        let ids: Vec<&str> = read.iter().map(|conversation| &*conversation.id).collect();
        assert_eq!(ids, ["b", "a"]);
        let twice = load(&[("1.json", &a), ("2.json", &a)], None).unwrap_err().to_string();
        assert!(twice.contains("2.json, entry 1: the id \"a\" is already used"), "{twice}");
    }

    #[test]
    fn traces_of_all_files_are_one() {
        let trace = |id: u32, start: u32| {
            let end = start + 2;
            format!(
                r#"{{"resourceSpans": [{{"scopeSpans": [{{"spans": [{{"traceId": "a", "spanId": "{id}",
                "startTimeUnixNano": {start}, "endTimeUnixNano": {end}, "attributes": [
                {{"key": "gen_ai.usage.output_tokens", "value": {{"intValue": "{id}"}}}},
                {{"key": "gen_ai.input.messages", "value": {{"stringValue":
                "[{{\"role\": \"user\", \"content\": \"x\"}}]"}}}}]}}]}}]}}]}}"#
            )
        };
        let (late, early) = (trace(2, 10), trace(1, 5));
        let files = [
            ("traces-2026-11-25T10-00-00.000.jsonl", &*late),
            ("parts/traces.json", &*early),
            ("notes.txt", "no traces"),
        ];
        let read = load(&files, None).unwrap();
        let [conversation] = &read[..] else { panic!("{read:?}") };
        let turns: Vec<_> =
            conversation.turns.iter().map(|turn| (turn.max_tokens, turn.delay.0)).collect();
        assert_eq!(turns, [(Some(1), 0), (Some(2), 3)]);
        let wrong = [("a.jsonl", &*late), ("b.jsonl", "{\n\"spans\": 3}")];
        let wrong = load(&wrong, None).unwrap_err().to_string();
        assert!(wrong.contains("b.jsonl, line 2: invalid type"), "{wrong}");
    }

    #[test]
    fn faults_have_the_file_and_other_formats_are_refused() {
        let wrong = load(&[("a.jsonl", "{\"messages\": []}\n3\n")], None).unwrap_err().to_string();
        assert!(wrong.contains("a.jsonl, line 2: not a JSON object"), "{wrong}");
        let format = Some(FileFormat::MooncakeTrace);
        let refused = load(&[("a.jsonl", "{}")], format).unwrap_err().to_string();
        assert!(refused.contains("mooncake_trace is read from a file"), "{refused}");
        let empty = load(&[("data", "{}")], None).unwrap_err().to_string();
        assert!(
            empty.ends_with(": the directory does not contain a .jsonl or .json file"),
            "{empty}"
        );
    }
}
