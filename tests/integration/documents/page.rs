//! A Markdown page: its fenced blocks, headings, links and code spans.

use std::fs;
use std::path::{Path, PathBuf};

/// A fenced block.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    /// Line of the page where its text begins.
    pub(crate) line: usize,
    /// First word of the fence.
    pub(crate) language: String,
    /// The other words of the fence.
    pub(crate) notes: Vec<String>,
    /// The text between the fences.
    pub(crate) text: String,
}

impl Block {
    /// The value of a note such as `file=prompts.jsonl`.
    pub(crate) fn note(&self, name: &str) -> Option<&str> {
        self.notes.iter().find_map(|note| note.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns whether it is not to be run: `sh not-run`.
    pub(crate) fn is_not_run(&self) -> bool {
        self.notes.iter().any(|note| note == "not-run")
    }

    /// Returns its commands without comments, with continued lines joined.
    pub(crate) fn commands(&self) -> Vec<String> {
        let joined = self.text.replace("\\\n", " ");
        let lines = joined.lines().map(|line| line.split(" #").next().unwrap_or(line).trim());
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    }
}

/// A page of the documentation.
#[derive(Debug)]
pub(crate) struct Page {
    /// Its path from the root of the repository.
    pub(crate) path: PathBuf,
    /// Its blocks, in order.
    pub(crate) blocks: Vec<Block>,
    /// Its lines outside blocks, with their numbers.
    pub(crate) prose: Vec<(usize, String)>,
}

impl Page {
    /// Splits `text`.
    pub(crate) fn parse(path: PathBuf, text: &str) -> Self {
        let mut page = Self { path, blocks: Vec::new(), prose: Vec::new() };
        let mut open: Option<Block> = None;
        for (line, text) in (1..).zip(text.lines()) {
            match (&mut open, text.trim_start().strip_prefix("```")) {
                (None, Some(fence)) => {
                    let mut words = fence.split_whitespace().map(str::to_owned);
                    let language = words.next().unwrap_or_default();
                    let notes = words.collect();
                    open = Some(Block { line: line + 1, language, notes, text: String::new() });
                }
                (None, None) => page.prose.push((line, text.to_owned())),
                (Some(_), Some(_)) => page.blocks.extend(open.take()),
                (Some(block), None) => {
                    block.text.push_str(text);
                    block.text.push('\n');
                }
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", page.path.display());
        page
    }

    /// Formats a position as `path:line`, which editors recognize.
    pub(crate) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.path.display())
    }

    /// Returns the anchors of its headings.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let heading = |text: &str| text.starts_with('#').then(|| anchor(text));
        self.prose.iter().filter_map(|(_, text)| heading(text)).collect()
    }

    /// Returns the targets of its links, with their lines.
    pub(crate) fn links(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, text) in &self.prose {
            let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.map(|target| (*line, target.to_owned())));
        }
        found
    }

    /// Returns its code spans, with their lines.
    pub(crate) fn spans(&self) -> Vec<(usize, String)> {
        let mut found = Vec::new();
        for (line, text) in &self.prose {
            let spans = text.split('`').skip(1).step_by(2);
            found.extend(spans.map(|span| (*line, span.to_owned())));
        }
        found
    }
}

/// Returns the anchor that GitHub generates for a heading: lower case, without punctuation, `-` for
/// spaces.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns every page of the documentation: those in the root, and all in `docs`.
pub(crate) fn all() -> Vec<Page> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let path = directory.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                directories.extend(path.starts_with("docs").then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "md") {
                paths.push(path);
            }
        }
    }
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(root.join(&path)).unwrap();
        Page::parse(path, &text)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn a_page_is_split() {
    let text = "# The `a`'s B-c\nsee [it](x.md#y) `--z`\n```sh exit=1\na \\\n  b\n# no\n```\nend\n";
    let page = Page::parse("p.md".into(), text);
    assert_eq!(page.anchors(), ["the-as-b-c"]);
    assert_eq!(page.links(), [(2, "x.md#y".to_owned())]);
    assert_eq!(page.spans(), [(1, "a".to_owned()), (2, "--z".to_owned())]);
    let [block] = &page.blocks[..] else { panic!("{page:?}") };
    assert_eq!((block.line, block.language.as_str(), block.note("exit")), (4, "sh", Some("1")));
    assert_eq!(block.commands(), ["a    b"]);
    assert_eq!(page.prose.last().unwrap(), &(8, "end".to_owned()));
}
