//! The environment for a page's blocks: a directory, servers at the documented addresses, and
//! `aiperf` on the path.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mock_server::{Config, MockServer};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::page::Block;
use crate::support::hub::{CONVERTED, Hub, exgentic_session, golden};
use crate::support::left_out::{left_out, python};
use crate::support::otlp_receiver::OtlpReceiver;
use crate::support::port::free_port;
use crate::support::run::search_path;

/// Time limit for a block.
const BOUND: Duration = Duration::from_mins(30);

/// Python code that runs the statements of a file with `DuckDB`, in order.
const SQL: &str = "import duckdb, sys; print(duckdb.sql(open(sys.argv[1]).read()))";

/// The environment while a page is run.
pub(crate) struct Stage {
    directory: TempDir,
    /// Actual port of `localhost:8000`: a server started here, or by the page.
    server: u16,
    _servers: [MockServer; 2],
    /// Actual port of `localhost:8001`.
    second: u16,
    grpc: OtlpReceiver,
    http: OtlpReceiver,
    hub: SocketAddr,
    /// Leaders of process groups with processes that may still run.
    left: Vec<Child>,
}

impl Stage {
    /// Creates an empty directory and servers that respond immediately.
    pub(crate) fn new() -> Self {
        let [first, second] = [(), ()].map(|()| MockServer::start(Config::default()).unwrap());
        Self {
            directory: TempDir::new().unwrap(),
            server: port(&first),
            second: port(&second),
            _servers: [first, second],
            grpc: OtlpReceiver::grpc(),
            http: OtlpReceiver::http(),
            hub: hub().start(),
            left: Vec::new(),
        }
    }

    /// Processes the block as a reader would: runs it or writes its file. Returns a description of
    /// any failure.
    pub(crate) fn play(&mut self, block: &Block) -> Result<(), String> {
        if let Some(file) = block.note("file") {
            fs::write(self.directory.path().join(file), self.addressed(&block.text)).unwrap();
            return Ok(());
        }
        if starts_server(block) {
            // From here on, the server that the page started has this address.
            self.server = free_port();
        }
        let text = self.addressed(&block.text);
        match block.language.as_str() {
            "sh" => {
                if let Some(program) = missing_program(block) {
                    left_out(program);
                    return Ok(());
                }
                let mut bash = Command::new("bash");
                bash.args(["-euo", "pipefail", "-c", &text]);
                self.run(bash, block.note("exit").unwrap_or("0"))?;
                if starts_server(block) { self.wait_for_server() } else { Ok(()) }
            }
            "python" | "sql" => {
                let Some(python) = python() else { return Ok(()) };
                let script = self.directory.path().join(".script");
                fs::write(&script, text).unwrap();
                let mut command = Command::new(python);
                if block.language == "sql" {
                    command.args(["-c", SQL]);
                }
                command.arg(script);
                self.run(command, "0")
            }
            _ => Ok(()),
        }
    }

    /// Replaces the documented addresses with the actual ones.
    fn addressed(&self, text: &str) -> String {
        let http = format!("localhost:{}/v1", self.http.address().port());
        let addresses = [
            ("localhost:8000", format!("localhost:{}", self.server)),
            ("--port 8000", format!("--port {}", self.server)),
            ("localhost:8001", format!("localhost:{}", self.second)),
            ("localhost:4317", format!("localhost:{}", self.grpc.address().port())),
            ("localhost:4318/v1", http.clone()),
            // Another port would mean gRPC without a path.
            ("localhost:4318", format!("{http}/metrics")),
        ];
        // Through placeholders, in case an actual port begins like a documented one.
        let marked = addresses
            .iter()
            .zip('\u{e000}'..)
            .fold(text.to_owned(), |text, (pair, mark)| text.replace(pair.0, &mark.to_string()));
        addresses
            .iter()
            .zip('\u{e000}'..)
            .fold(marked, |text, (pair, mark)| text.replace(mark, &pair.1))
    }

    /// Runs `command`; its exit code must be one of `expected`, such as `0,1`.
    fn run(&mut self, mut command: Command, expected: &str) -> Result<(), String> {
        let has_background = command.get_args().any(|text| text.to_string_lossy().contains("&\n"));
        let output = self.directory.path().join(".output");
        let file = File::create(&output).unwrap();
        let child = command
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", search_path())
            .env("HOME", self.directory.path())
            .env("LANG", "C.UTF-8")
            .env("HF_ENDPOINT", format!("http://{}", self.hub))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0)
            .spawn();
        let mut child = child.map_err(|error| format!("{command:?}: {error}"))?;
        let status = wait(&mut child);
        if status.is_none() || has_background {
            self.left.push(child);
        }
        let code = match status.map(|status| status.code()) {
            Some(Some(code)) => code.to_string(),
            Some(None) => "of a signal".to_owned(),
            None => return Err(format!("not done after {BOUND:?}\n{}", last_lines(&output))),
        };
        if expected.split(',').any(|allowed| allowed == code) {
            return Ok(());
        }
        Err(format!("exit code {code}, not {expected}\n{}", last_lines(&output)))
    }

    /// Waits until the server that a page started is ready, before the next block.
    fn wait_for_server(&self) -> Result<(), String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.server));
        let bound = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            if Instant::now() > bound {
                return Err("its server does not listen".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in &self.left {
            // Also ends processes that a page leaves in the background.
            if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

/// The hub, with the datasets in the documentation.
fn hub() -> Hub {
    let session = exgentic_session("a", "claude_code", Some("swebench"));
    let commit = "4b8ad4ab198438e5a170f9171c19c6a2cf7c1814";
    Hub::default()
        .with("Exgentic/agent-llm-traces-v2", commit, "data/train.jsonl", session.as_bytes())
        .with("openai/gsm8k", CONVERTED, "main/test/0000.parquet", &golden("gsm8k.parquet"))
        .with("org/chat", CONVERTED, "default/train/0000.parquet", &golden("chat.parquet"))
}

/// Returns whether the block starts the server at `localhost:8000`.
fn starts_server(block: &Block) -> bool {
    let is_start = |command: &String| command.contains("aiperf mock-server");
    block.language == "sh" && block.commands().iter().any(is_start)
}

/// Returns a program that the block needs and that is not installed.
fn missing_program(block: &Block) -> Option<&'static str> {
    const NEEDED: &[(&str, &str)] =
        &[("--video-width", "ffmpeg"), ("--audio-format mp3", "ffmpeg"), ("jq ", "jq")];
    let needed = NEEDED.iter().filter(|(text, _)| block.text.contains(text));
    needed.map(|(_, program)| *program).find(|program| !is_on_path(program))
}

fn wait(child: &mut Child) -> Option<ExitStatus> {
    let bound = Instant::now() + BOUND;
    while Instant::now() < bound {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

fn last_lines(output: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(output).unwrap()).into_owned();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

fn port(server: &MockServer) -> u16 {
    let url = url::Url::parse(&server.url()).unwrap();
    url.port().unwrap()
}

fn is_on_path(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|directory| directory.join(program).is_file())
}
