//! The layout of the source: modules import only from those above them.

use std::fs;
use std::path::{Path, PathBuf};

use aiperf::endpoint::EndpointType;

fn modules() -> Vec<String> {
    let lib = fs::read_to_string(root().join("lib.rs")).unwrap();
    let name = |line: &str| {
        let declaration = line.strip_prefix("pub ").unwrap_or(line);
        Some(declaration.strip_prefix("mod ")?.strip_suffix(';')?.to_owned())
    };
    lib.lines().filter_map(name).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The source files of a module: `name.rs` and all below `name/`.
fn files(module: &str) -> Vec<PathBuf> {
    let mut found = vec![root().join(format!("{module}.rs"))];
    let mut directories = vec![root().join(module)];
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// Returns the modules that `source` names after `crate::`, including `use crate::{a, b}`.
fn imports(source: &str) -> Vec<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut names = Vec::new();
    for (at, found) in source.match_indices("crate::") {
        let rest = &source[at + found.len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut item = String::new();
            for c in group.chars() {
                match c {
                    '}' if depth == 0 => break,
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    ',' if depth == 0 => names.push(std::mem::take(&mut item)),
                    _ if depth == 0 => item.push(c),
                    _ => {}
                }
            }
            names.push(item);
        } else {
            names.push(rest.to_owned());
        }
    }
    names
        .iter()
        .map(|name| name.trim_start().chars().take_while(|c| is_name(*c)).collect())
        .collect()
}

#[test]
fn imports_are_found() {
    let source =
        "use crate::units::Clock; use crate::{dataset, endpoint::{a, b}, record}; crate::cli::x()";
    assert_eq!(imports(source), ["units", "dataset", "endpoint", "record", "cli"]);
}

#[test]
fn a_module_imports_only_from_those_above_it() {
    let modules = modules();
    assert!(modules.len() > 10, "{modules:?}");
    let place = |name: &str| modules.iter().position(|module| module == name);
    for (own, module) in modules.iter().enumerate() {
        for file in files(module) {
            // Tests may use any module.
            if file.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            let source = fs::read_to_string(&file).unwrap();
            let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            for import in imports(code) {
                let Some(imported) = place(&import) else { continue };
                assert!(
                    imported <= own,
                    "{} imports {import}, which is below {module}",
                    file.display()
                );
            }
        }
    }
}

/// Each dialect is in its own file, and other code does not depend on it.
#[test]
fn every_dialect_has_a_file_of_its_own() {
    for endpoint in EndpointType::ALL {
        let name = endpoint.traits().name;
        let file = if endpoint.traits().ranks { "rankings" } else { name };
        let file = root().join(format!("endpoint/dialect/{file}.rs"));
        let source = fs::read_to_string(&file).unwrap();
        assert!(source.contains(&format!("\"{name}\"")), "{}: no {name}", file.display());
    }
    // Code that all dialects use must not name any of them, except to distinguish them.
    for file in
        files("endpoint").iter().filter(|file| !file.starts_with(root().join("endpoint/dialect")))
    {
        let source = fs::read_to_string(file).unwrap();
        let code = source.split("#[cfg(test)]").next().unwrap();
        let may = ["endpoint.rs", "detect.rs"].iter().any(|name| file.ends_with(name));
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
    let choice = root().join("platform.rs");
    let sides = ["linux", "portable"].map(|side| root().join("platform").join(side));
    for module in modules() {
        for file in files(&module) {
            let source = fs::read_to_string(&file).unwrap();
            let code = source.split("#[cfg(test)]").next().unwrap();
            let chooses = code.contains("feature = ");
            assert_eq!(chooses, file == choice, "{} chooses a platform", file.display());
            let is_platform = module == "platform";
            for word in words.iter().filter(|_| !is_platform) {
                assert!(!code.contains(word), "{} has {word}", file.display());
            }
        }
    }
    let names = |side: &Path| {
        let entries = fs::read_dir(side).unwrap().map(Result::unwrap);
        // A directory has what only one side's module consists of.
        let modules = entries.filter(|entry| entry.file_type().unwrap().is_file());
        let mut names: Vec<_> = modules.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&sides[0]), names(&sides[1]));
}

#[test]
fn no_file_is_a_mod_rs() {
    for module in modules() {
        assert!(files(&module).iter().all(|file| !file.ends_with("mod.rs")), "{module}");
    }
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

/// The files with such calls besides `src/input`, and why they may have them.
const READERS: [(&str, &str); 20] = [
    ("api/routes.rs", "its own summary"),
    ("app/chat.rs", "a line of limited length that the user types"),
    ("app/rehearsal.rs", "what its own process writes, up to a limit"),
    ("app/selfcheck/server.rs", "what its own process writes, up to a limit"),
    ("app/shards/files.rs", "its own small files"),
    ("artifacts/open.rs", "tables after their check, and lines of limited length"),
    ("artifacts/parquet/parts.rs", "its own files"),
    ("dataset/file/mapping.rs", "an `Input`"),
    ("dataset/file/mooncake.rs", "a function of this name"),
    ("dataset/file/opening.rs", "an `Input`, piece by piece"),
    ("dataset/file/otel/encoding.rs", "an `Input`, up to a limit"),
    ("dataset/media/ffmpeg.rs", "what its own process writes"),
    ("dataset/rows.rs", "tables after their check"),
    ("endpoint/sse.rs", "a function of this name"),
    ("gpu/local/amd.rs", "files of the kernel"),
    ("hub/download.rs", "a body up to a limit"),
    ("mlflow.rs", "its own file"),
    ("mlflow/client.rs", "a body up to a limit"),
    ("transport/body.rs", "bodies of limited length"),
    ("transport/client.rs", "bodies of limited length"),
];

#[test]
fn what_others_wrote_is_read_within_limits() {
    let known = |file: &str| READERS.iter().any(|(name, _)| *name == file);
    let mut found: Vec<String> = Vec::new();
    for module in modules() {
        // These read the files of the kernel, and requests of tests.
        if ["input", "platform", "mock_server"].contains(&module.as_str()) {
            continue;
        }
        for path in files(&module) {
            let name = path.strip_prefix(root()).unwrap().display().to_string();
            let source = fs::read_to_string(&path).unwrap();
            let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let is_test = ["tests", "fixture"].iter().any(|it| name.contains(it))
                || name == "artifacts/schema.rs"
                || name == "dataset/file/bombs.rs";
            if !is_test && UNLIMITED.iter().any(|call| source.contains(call)) {
                found.push(name);
            }
        }
    }
    let unknown: Vec<&String> = found.iter().filter(|file| !known(file)).collect();
    assert!(unknown.is_empty(), "use `crate::input` in {unknown:?}");
    let gone: Vec<&str> = READERS
        .iter()
        .map(|(file, _)| *file)
        .filter(|file| !found.iter().any(|it| it == file))
        .collect();
    assert!(gone.is_empty(), "remove {gone:?} from the list");
}
