//! How fast the recorded scrapes of real servers are parsed, compared with the minimum cost of
//! parsing them.

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use measure::server_metrics::FetchTimes;
use measure::server_metrics::exposition::{Exposition, Format};
use measure::server_metrics::snapshot::Snapshot;
use measure::server_metrics::store::Store;

use crate::{Figure, Scale, figure, median};

const CAPTURES: [(&str, &str); 4] = [
    ("vLLM", "vllm/scrapes.jsonl.gz"),
    ("Dynamo frontend", "dynamo/scrapes_frontend.jsonl.gz"),
    ("Dynamo worker", "dynamo/scrapes_worker.jsonl.gz"),
    ("llama.cpp", "llamacpp/scrapes.jsonl.gz"),
];

/// Minimum number of bytes to parse in each measurement.
const BYTES: usize = 200_000_000;

pub(crate) fn exposition(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (name, file) in CAPTURES {
        figures.extend(of(scale, name, &bodies(file)?)?);
    }
    Ok(figures)
}

fn of(scale: &Scale, name: &str, bodies: &[String]) -> anyhow::Result<Vec<Figure>> {
    let size: usize = bodies.iter().map(String::len).sum();
    let rounds = (if scale.quick { 1 } else { BYTES / size }).max(1);
    // Seconds per pass over all bodies, of which there are `rounds`.
    let seconds = |read: &dyn Fn(&str)| {
        median(scale, || {
            let begin = Instant::now();
            for body in std::iter::repeat_n(bodies, rounds).flatten() {
                read(black_box(body));
            }
            Ok(begin.elapsed().as_secs_f64() / rounds as f64)
        })
    };
    let parse =
        |body: &str| black_box(Exposition::parse(body.as_bytes(), Format::Text).map(drop)).is_ok();
    anyhow::ensure!(bodies.iter().all(|body| parse(body)), "a body of {name} does not parse");
    let copied = seconds(&|body| drop(black_box(body.to_owned())))?;
    let counted = seconds(&|body| {
        black_box(memchr::memchr_iter(b'\n', body.as_bytes()).count());
    })?;
    let parsed = seconds(&|body| {
        black_box(parse(body));
    })?;
    let theirs = seconds(&|body| {
        let lines = body.lines().map(|line| Ok(line.to_owned()));
        black_box(prometheus_parse::Scrape::parse(lines).is_ok());
    })?;
    let per_second = |seconds: f64| size as f64 / 1e6 / seconds;
    let micros = |seconds: f64| seconds * 1e6 / bodies.len() as f64;
    let (snapshot, push, bytes) = kept(scale, bodies)?;
    let mean = size as f64 / bodies.len() as f64 / 1e3;
    Ok(vec![
        figure(format!("{name}, mean body"), mean, "kB"),
        figure(format!("{name}, copied"), per_second(copied), "MB/s"),
        figure(format!("{name}, line ends counted"), per_second(counted), "MB/s"),
        figure(format!("{name}, parsed"), per_second(parsed), "MB/s"),
        figure(format!("{name}, parsed / line ends counted"), counted / parsed, ""),
        figure(format!("{name}, prometheus-parse"), per_second(theirs), "MB/s"),
        figure(format!("{name}, parsed, a body"), micros(parsed), "us"),
        figure(format!("{name}, brought to a snapshot, a body"), micros(snapshot), "us"),
        figure(format!("{name}, stored, a body"), micros(push), "us"),
        figure(format!("{name}, values kept"), bytes / 1e3, "kB"),
    ])
}

/// Returns the seconds that converting all bodies to snapshots and storing these takes, and the
/// bytes that the stored values take.
fn kept(scale: &Scale, bodies: &[String]) -> anyhow::Result<(f64, f64, f64)> {
    let read = bodies.iter().map(|body| Exposition::parse(body.as_bytes(), Format::Text));
    let expositions = read.collect::<Result<Vec<_>, _>>().context("a body does not parse")?;
    let snapshots: Vec<Snapshot<'_>> = expositions.iter().map(Snapshot::from_exposition).collect();
    let snapshot = median(scale, || {
        let begin = Instant::now();
        for exposition in &expositions {
            drop(black_box(Snapshot::from_exposition(exposition)));
        }
        Ok(begin.elapsed().as_secs_f64())
    })?;
    let mut bytes = 0;
    let push = median(scale, || {
        let mut store = Store::new(["http://a/metrics".into()]);
        let begin = Instant::now();
        for snapshot in &snapshots {
            store.push(0, FetchTimes::default(), snapshot);
        }
        let elapsed = begin.elapsed().as_secs_f64();
        bytes = store.value_bytes();
        drop(black_box(store));
        Ok(elapsed)
    })?;
    Ok((snapshot, push, bytes as f64))
}

fn bodies(file: &str) -> anyhow::Result<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let packed = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut lines)?;
    let body = |line: &str| {
        let scrape: serde_json::Value = serde_json::from_str(line)?;
        Ok(scrape["body"].as_str().context("a scrape lacks its body")?.to_owned())
    };
    lines.lines().map(body).collect()
}
