use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use client::server_family::{ALL, Families, PrefixCounters, SeriesKind, ServerFamily, Speculation};

use super::exposition::{Exposition, Format};
use super::snapshot::Snapshot;

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_owned()
}

/// A metric that a family names, and the kinds that it may have.
type Named = (&'static str, &'static [SeriesKind]);

const CUMULATIVE: &[SeriesKind] = &[SeriesKind::Counter, SeriesKind::Histogram];

/// Returns the metrics that `family` names, except those of earlier versions.
fn named(family: &ServerFamily) -> Vec<Named> {
    let kinds = |kind| match kind {
        SeriesKind::Gauge => &[SeriesKind::Gauge][..],
        SeriesKind::Counter => &[SeriesKind::Counter],
        _ => &[SeriesKind::Histogram],
    };
    let watched = family.watched.iter().map(|watched| (watched.name, kinds(watched.kind)));
    let counts = family.counts.iter().flat_map(|count| [Some(count.metric), count.cached]);
    let times = family.times.stages_and_totals().chain(family.times.further.iter().copied());
    let times = times.map(|time| Some(time.metric));
    let counter = family.times.counter.map(|(metric, _)| metric);
    let more = [family.times.transfer.map(|time| time.metric), family.worker_label.map(|of| of.0)];
    let cumulative = counts.chain(times).chain([counter]).chain(more).flatten();
    let mut all: Vec<Named> =
        watched.chain(cumulative.map(|metric| (metric, CUMULATIVE))).collect();
    if let Some(PrefixCounters { queries, hits }) = family.prefix_cache {
        all.extend(queries.iter().chain(hits).map(|name| (*name, CUMULATIVE)));
    }
    match family.speculation {
        Some(Speculation::Counters { drafts, drafted, accepted, accepted_at }) => {
            let counters = [drafts, drafted, accepted, accepted_at];
            all.extend(counters.map(|name| (name, kinds(SeriesKind::Counter))));
        }
        Some(Speculation::Gauges { rate, length }) => {
            all.extend([rate, length].map(|name| (name, kinds(SeriesKind::Gauge))));
        }
        None => {}
    }
    all
}

/// Returns the names in earlier versions that `family` knows.
fn earlier(family: &ServerFamily) -> impl Iterator<Item = &'static str> {
    family.watched.iter().filter_map(|watched| watched.earlier)
}

/// Returns the metrics in the recordings of servers.
fn recorded() -> BTreeMap<String, SeriesKind> {
    let recordings =
        ["vllm/scrapes", "dynamo/scrapes_frontend", "dynamo/scrapes_worker", "llamacpp/scrapes"];
    let mut all = BTreeMap::new();
    for recording in recordings {
        let path = root().join(format!("tests/golden/{recording}.jsonl.gz"));
        let mut lines = String::new();
        let packed = fs::File::open(path).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut lines).unwrap();
        let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        let body = last["body"].as_str().unwrap();
        let exposition = Exposition::parse(body.as_bytes(), Format::Text).unwrap();
        let families = Snapshot::from_exposition(&exposition).families;
        all.extend(families.iter().map(|family| (family.name.to_string(), family.kind)));
    }
    all
}

/// Returns the file that declares `family`.
fn file(family: &ServerFamily) -> PathBuf {
    let module = family.name.replace(['-', '.'], "_");
    root().join(format!("src/client/server_family/{module}.rs"))
}

#[test]
fn a_family_names_its_own_metrics_which_are_recorded_or_cited() {
    let recorded = recorded();
    for family in ALL {
        let source = fs::read_to_string(file(family)).unwrap();
        let is_cited = source.contains("//! Source");
        for (name, kinds) in named(family) {
            assert!(name.starts_with(family.prefix), "{name} of {}", family.name);
            assert!(!name.ends_with("_total"), "files have {name} without _total");
            match recorded.get(name) {
                Some(kind) => assert!(kinds.contains(kind), "{name} is a {kind:?}"),
                None => assert!(is_cited, "{name} is not recorded, and no source is cited"),
            }
        }
        for name in earlier(family) {
            assert!(name.starts_with(family.prefix) && is_cited, "{name} of {}", family.name);
        }
    }
}

#[test]
fn a_family_has_a_file_and_a_name_of_its_own() {
    let files: BTreeSet<PathBuf> = ALL.iter().map(|family| file(family)).collect();
    let directory = fs::read_dir(root().join("src/client/server_family")).unwrap();
    let shared = ["declaration.rs", "timing.rs", "timing"];
    let found: BTreeSet<PathBuf> = directory
        .map(|entry| entry.unwrap().path())
        .filter(|path| shared.iter().all(|name| !path.ends_with(name)))
        .collect();
    assert_eq!(files, found);
    for (at, family) in ALL.iter().enumerate() {
        for other in &ALL[at + 1..] {
            let starts = |a: &str, b: &str| a.starts_with(b) || b.starts_with(a);
            assert!(!starts(family.prefix, other.prefix), "{} {}", family.name, other.name);
            assert!(family.title != other.title, "{}", family.title);
        }
    }
}

#[test]
fn the_documentation_has_the_metrics_that_are_compared_and_divided() {
    let page = fs::read_to_string(root().join("docs/server-metrics.md")).unwrap();
    let has = |name: &str| page.contains(&format!("`{name}`"));
    for family in ALL.iter().filter(|family| !family.watched.is_empty()) {
        assert!(page.contains(&format!("| {} ", family.title)), "{}", family.title);
        for metric in family.counts.iter().map(|count| count.metric) {
            assert!(has(metric), "{metric}");
        }
        for time in family.times.stages_and_totals() {
            assert!(has(time.metric), "{}", time.metric);
        }
    }
}

#[test]
fn a_front_end_precedes_the_engines_behind_it() {
    let names = |prefixes: &[&str]| {
        let found = Families::found(|family| prefixes.contains(&family.prefix));
        let names = |families: &[&ServerFamily]| {
            families.iter().map(|family| family.name).collect::<Vec<_>>()
        };
        let front_end = found.front_end().map(|family| family.name);
        (names(found.outermost()), front_end, names(found.engines()))
    };
    let expected = (vec!["dynamo"], Some("dynamo"), vec!["vllm"]);
    assert_eq!(names(&["vllm:", "dynamo_"]), expected);
    let expected = (vec!["vllm", "triton"], None, vec!["vllm", "triton"]);
    assert_eq!(names(&["nv_", "vllm:"]), expected);
    assert_eq!(names(&[]), (vec![], None, vec![]));
}
