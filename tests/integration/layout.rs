//! The layout of the source.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use client::endpoint::EndpointType;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The source files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty());
    found
}

/// The name of a source file, such as `base/units.rs`.
fn name(file: &Path) -> String {
    file.strip_prefix(root()).unwrap().display().to_string()
}

/// Each dialect is in its own file, and other code does not depend on it.
#[test]
fn every_dialect_has_a_file_of_its_own() {
    for endpoint in EndpointType::ALL {
        let name = endpoint.traits().name;
        let file = if endpoint.traits().ranks { "rankings" } else { name };
        let file = root().join(format!("client/endpoint/dialect/{file}.rs"));
        let source = fs::read_to_string(&file).unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "{}: no {name}", file.display());
    }
    // Code that all dialects use must not name any of them, except to distinguish them.
    let endpoint = root().join("client/endpoint");
    let shared = files(&endpoint);
    for file in shared.iter().filter(|file| !file.starts_with(endpoint.join("dialect"))) {
        let source = fs::read_to_string(file).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        let may = ["detect.rs"].iter().any(|name| file.ends_with(name));
        assert!(may || !code.contains("dialect::"), "{} uses a dialect", file.display());
    }
}

/// Only one module calls the operating system, and the implementation is selected in one place.
#[test]
fn only_the_platform_depends_on_the_operating_system() {
    let words = [
        "rustix",
        "nix::",
        "libc",
        "std::os::",
        "signal::unix",
        "io::unix",
        "target_os",
        "cfg(unix",
        "cfg(windows",
        "(unix)",
        "/proc/",
        "/sys/",
    ];
    let choice = root().join("base/platform.rs");
    let sides = ["linux", "portable"].map(|side| root().join("base/platform").join(side));
    for file in files(&root()) {
        let source = fs::read_to_string(&file).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        let chooses = code.contains("target_os");
        assert_eq!(chooses, file == choice, "{} chooses a platform", file.display());
        let is_platform = name(&file).starts_with("base/platform");
        for word in words.iter().filter(|_| !is_platform) {
            assert!(!code.contains(word), "{} has {word}", file.display());
        }
    }
    // The public names of each module. A directory has what only one side's module consists of.
    let offered = |side: &Path| {
        let entries = fs::read_dir(side).unwrap().map(|entry| entry.unwrap().path());
        let modules = entries.filter(|entry| entry.is_file());
        modules.map(|module| (module.file_name().unwrap().to_owned(), public(&module))).collect()
    };
    let [linux, portable]: [BTreeMap<_, _>; 2] = sides.map(|side| offered(&side));
    assert_eq!(linux, portable);
}

#[test]
fn no_file_is_a_mod_rs() {
    assert!(files(&root()).iter().all(|file| !file.ends_with("mod.rs")));
}

/// Calls that read without a limit.
const UNLIMITED: [&str; 11] = [
    "read_to_end(",
    "read_to_string(",
    "read_until(",
    "read_line(",
    "fs::read(",
    "from_reader(",
    "GzDecoder",
    "Decoder::new(",
    "serde_norway::from_str",
    "serde_norway::from_slice",
    "SerializedFileReader::new(",
];

/// The files with such calls besides `src/base/input`, and why they may have them.
const READERS: [(&str, &str); 21] = [
    ("results/api/routes.rs", "its own summary"),
    ("app/chat.rs", "a line of limited length that the user types"),
    ("app/rehearsal.rs", "what its own process writes, up to a limit"),
    ("app/shards/files.rs", "its own small files"),
    ("results/artifacts/open.rs", "tables after their check, and lines of limited length"),
    ("results/artifacts/parquet/parts.rs", "its own files"),
    ("dataset/file/mapping.rs", "an `Input`"),
    ("dataset/file/mooncake.rs", "a function of this name"),
    ("dataset/file/opening.rs", "an `Input`, piece by piece"),
    ("dataset/file/otel/encoding.rs", "an `Input`, up to a limit"),
    ("dataset/media/ffmpeg.rs", "what its own process writes"),
    ("dataset/rows.rs", "tables after their check"),
    ("client/endpoint/sse.rs", "a function of this name"),
    ("measure/gpu/local/amd.rs", "files of the kernel"),
    ("referee/results.rs", "a text that was read up to a limit"),
    ("referee/server.rs", "what its own process writes, up to a limit"),
    ("tokens/hub/download.rs", "a body up to a limit"),
    ("results/mlflow.rs", "its own file"),
    ("results/mlflow/client.rs", "a body up to a limit"),
    ("client/transport/body.rs", "bodies of limited length"),
    ("client/transport/client.rs", "bodies of limited length"),
];

#[test]
fn what_others_wrote_is_read_within_limits() {
    let known = |file: &str| READERS.iter().any(|(name, _)| *name == file);
    let mut found: Vec<String> = Vec::new();
    // These read the files of the kernel, and requests of tests.
    let unlimited = ["base/input", "base/platform", "mock-server/"];
    let sources = files(&root()).into_iter();
    for path in sources.filter(|path| !unlimited.iter().any(|own| name(path).starts_with(own))) {
        let name = name(&path);
        let source = fs::read_to_string(&path).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let is_test = ["tests", "fixture"].iter().any(|it| name.contains(it))
            || name == "results/artifacts/schema.rs"
            || name == "dataset/file/bombs.rs"
            || name.ends_with("build.rs");
        if !is_test && UNLIMITED.iter().any(|call| source.contains(call)) {
            found.push(name);
        }
    }
    let unknown: Vec<&String> = found.iter().filter(|file| !known(file)).collect();
    assert!(unknown.is_empty(), "use `base::input` in {unknown:?}");
    let gone: Vec<&str> = READERS
        .iter()
        .map(|(file, _)| *file)
        .filter(|file| !found.iter().any(|it| it == file))
        .collect();
    assert!(gone.is_empty(), "remove {gone:?} from the list");
}

/// The words of the code of `files`, without comments.
fn words(files: &[PathBuf]) -> HashSet<String> {
    let mut words = HashSet::new();
    for file in files {
        let source = fs::read_to_string(file).unwrap();
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        let split = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
        words.extend(split.map(str::to_owned));
    }
    words
}

/// The name of the public function, constant or module that a line declares. Types and fields may be
/// public because a signature or a literal needs them.
fn declared(line: &str) -> Option<String> {
    let declaration = line.trim_start().strip_prefix("pub ")?;
    let plain = declaration.replace("const fn ", "fn ").replace("async fn ", "fn ");
    let keyword =
        ["fn ", "const ", "static ", "mod "].iter().find(|word| plain.starts_with(**word))?;
    let name =
        plain.strip_prefix(keyword)?.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    // A macro names it.
    (!name.is_empty()).then(|| name.to_owned())
}

/// The public functions, constants and modules of a file, but for those of its tests.
fn public(file: &Path) -> BTreeSet<String> {
    let source = fs::read_to_string(file).unwrap();
    source.split("#[cfg(test)]").next().unwrap().lines().filter_map(declared).collect()
}

/// A public name that only its own crate uses can be private, and then the compiler finds out if
/// nothing uses it.
#[test]
fn a_public_name_has_a_user_in_another_crate() {
    let is_crate = |path: &PathBuf| path.join("Cargo.toml").exists();
    let entries = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path());
    let crates: Vec<PathBuf> = entries.filter(is_crate).collect();
    assert!(crates.len() > 5, "{crates:?}");
    let top = root().parent().unwrap().to_owned();
    let program =
        files(&root()).into_iter().filter(|file| !crates.iter().any(|own| file.starts_with(own)));
    let mut program: Vec<PathBuf> = program.collect();
    program.extend(files(&top.join("tests")));
    program.extend(files(&top.join("fuzz/fuzz_targets")));
    let program = words(&program);
    let words_of: Vec<HashSet<String>> = crates.iter().map(|own| words(&files(own))).collect();
    let mut unused = Vec::new();
    for (at, own) in crates.iter().enumerate() {
        let is_used = |name: &str| {
            let mut others = words_of.iter().enumerate().filter(|(other, _)| *other != at);
            program.contains(name) || others.any(|(_, words)| words.contains(name))
        };
        for file in files(own) {
            let source = fs::read_to_string(&file).unwrap();
            let alone = source.lines().filter_map(declared).filter(|declared| !is_used(declared));
            unused.extend(alone.map(|declared| format!("{}: {declared}", name(&file))));
        }
    }
    assert!(unused.is_empty(), "make these pub(crate): {unused:#?}");
}
