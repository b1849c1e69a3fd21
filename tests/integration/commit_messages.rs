//! `scripts/commit-messages` reports each message that breaks a rule of CONTRIBUTING.md, and no
//! other.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A repository with a first commit, after which the range under test begins.
struct Repository(TempDir);

impl Repository {
    fn new() -> Self {
        let repository = Self(tempfile::tempdir().unwrap());
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository.commit(1, "Begin");
        repository.git(&["tag", "start"]);
        repository
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        // Neither the user's settings nor a hook's repository apply.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
        command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
        let output = command.current_dir(self.path()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }

    /// Commits a new file with so many lines.
    fn commit(&self, lines: usize, message: &str) {
        let text = format!("{message:?}\n").repeat(lines);
        let name = format!("{lines}-{}", message.len());
        fs::write(self.path().join(name), text).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    /// Checks the commits after the first one.
    fn check(&self) -> (Option<i32>, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/commit-messages");
        let mut command = Command::new(script);
        command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
        let Output { status, stdout, stderr } =
            command.arg("start..HEAD").current_dir(self.path()).output().unwrap();
        assert!(stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
        (status.code(), String::from_utf8(stdout).unwrap())
    }
}

#[test]
fn messages_that_follow_the_rules_pass() {
    let repository = Repository::new();
    assert_eq!(
        repository.check(),
        (Some(0), "0 commit messages follow CONTRIBUTING.md\n".to_owned())
    );
    // 72 characters, and more bytes.
    repository.commit(20, &format!("State {} µs", "x".repeat(63)));
    repository.commit(21, "Merge the two tables of units\n\nThey had the same rows.");
    repository.commit(500, "Split the parser\n\nIt took 4 ms.\n\nReviewed-by: t <t@localhost>");
    assert_eq!(
        repository.check(),
        (Some(0), "3 commit messages follow CONTRIBUTING.md\n".to_owned())
    );
}

#[test]
fn each_broken_rule_is_reported() {
    let cases = [
        (1, format!("State {} µs", "x".repeat(64)), "the subject has 73 characters"),
        (1, "state the unit".to_owned(), "must start with a capital letter"),
        (1, "State the unit.".to_owned(), "must not end with a full stop"),
        (1, "Merge branch 'units'".to_owned(), "must state what changes"),
        (1, "Merge pull request 7 from units".to_owned(), "must state what changes"),
        (21, "State the unit".to_owned(), "changes 21 lines; state in the body why"),
        (22, "State it\n\nSigned-off-by: t <t@localhost>".to_owned(), "changes 22 lines"),
    ];
    let repository = Repository::new();
    for (lines, message, _) in &cases {
        repository.commit(*lines, message);
    }
    let (code, output) = repository.check();
    assert_eq!(code, Some(1), "{output}");
    let reported: Vec<_> = output.lines().collect();
    assert_eq!(reported.len(), cases.len(), "{output}");
    for (line, (_, message, fault)) in reported.iter().zip(&cases) {
        let subject = message.lines().next().unwrap();
        assert!(line.contains(&format!("\"{subject}\": ")) && line.contains(fault), "{line}");
    }
}
