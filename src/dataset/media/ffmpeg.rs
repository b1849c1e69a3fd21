//! The program `ffmpeg`, which encodes generated media.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{fs, thread};

use base::lock::Lock;
use base::platform::child;
use base::units::Clock;

use super::{MAX_FILE_BYTES, MAX_TOTAL_BYTES};

/// A file to encode.
pub(super) struct Job {
    /// Options of the standard input, before `-i pipe:0`.
    pub(super) input: Vec<String>,
    /// Data of the standard input, in parts.
    pub(super) pieces: Box<dyn Iterator<Item = Vec<u8>> + Send>,
    /// A WAV file with the sound.
    pub(super) sound: Option<Vec<u8>>,
    /// Options of the encoding, before the name of the output.
    pub(super) output: Vec<String>,
}

/// The program, and how long one run may make no progress.
#[derive(Debug, Clone)]
pub(super) struct Ffmpeg {
    program: OsString,
    patience: Duration,
}

/// Interval between checks of the program's progress.
const LOOK: Duration = Duration::from_millis(50);
/// Number of bytes written at once.
const PIECE: usize = 1 << 16;
/// Maximum size of the error output to keep; the cause comes first.
const MAX_OUTPUT_BYTES: u64 = 4096;
/// Number of lines of the error output to show.
const LINES_SHOWN: usize = 3;
/// Maximum wait for the error output after the program has ended.
const SAID_WITHIN: Duration = Duration::from_secs(1);

impl Default for Ffmpeg {
    /// Uses the program on the path. Two minutes without reading or writing a byte are longer than
    /// the slowest encoders need.
    fn default() -> Self {
        Self { program: "ffmpeg".into(), patience: Duration::from_mins(2) }
    }
}

impl Ffmpeg {
    /// Encodes `count` files, as many in parallel as there are cores. The result does not depend on
    /// their order. The error describes why one of them failed.
    pub(super) fn encode_all(
        &self,
        count: usize,
        job: impl Fn(usize) -> Job + Sync,
    ) -> Result<Vec<Vec<u8>>, String> {
        let (next, total) = (AtomicUsize::new(0), AtomicU64::new(0));
        let files = Lock::new(Ok(vec![Vec::new(); count]));
        let one = |index: usize| {
            let file = self.encode(job(index))?;
            let length = file.len() as u64;
            if total.fetch_add(length, Ordering::Relaxed) + length > MAX_TOTAL_BYTES {
                let most = MAX_TOTAL_BYTES >> 30;
                return Err(format!("all files together exceed {most} GiB"));
            }
            Ok(file)
        };
        let work = || loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let file = one(index);
            let mut files = files.lock();
            match (&mut *files, file) {
                (Ok(files), Ok(file)) => files[index] = file,
                (Ok(_), Err(why)) => {
                    *files = Err(why);
                    next.store(count, Ordering::Relaxed);
                }
                (Err(_), _) => return,
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from).min(count);
        thread::scope(|scope| {
            for _ in 1..cores {
                // If the system cannot start more threads, the existing ones do all the work.
                let _ = thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        files.into_inner()
    }

    /// Encodes a file; the error describes the failure.
    fn encode(&self, job: Job) -> Result<Vec<u8>, String> {
        // Formats store their length at the start, but it is known at the end, so a pipe does not
        // work.
        let directory = tempfile::Builder::new().prefix("aiperf-").tempdir();
        let directory =
            directory.map_err(|why| format!("cannot create a directory for its files: {why}"))?;
        let (sound, output) = (directory.path().join("sound.wav"), directory.path().join("output"));
        let mut command = self.command();
        command.args(&job.input).args(["-i", "pipe:0"]);
        if let Some(bytes) = &job.sound {
            fs::write(&sound, bytes).map_err(|why| format!("{}: {why}", sound.display()))?;
            command.arg("-i").arg(&sound);
        }
        command.args(["-map_metadata", "-1", "-threads", "1"]);
        command.args(["-fflags", "+bitexact", "-flags", "+bitexact"]);
        command.args(&job.output).arg(&output);
        self.run(command, job.pieces, &output)?;
        let file = fs::read(&output).map_err(|why| format!("ffmpeg wrote no file: {why}"))?;
        if file.is_empty() { Err("ffmpeg wrote an empty file".to_owned()) } else { Ok(file) }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["-nostdin", "-hide_banner", "-loglevel", "error", "-y"]);
        command.env("AV_LOG_FORCE_NOCOLOR", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Runs the program until it ends by itself or makes no progress.
    fn run(
        &self,
        mut command: Command,
        pieces: Box<dyn Iterator<Item = Vec<u8>> + Send>,
        output: &Path,
    ) -> Result<(), String> {
        let mut process = Process(command.spawn().map_err(|why| not_started(&self.program, &why))?);
        let fed = Arc::new(Fed::default());
        let said =
            process.talk(pieces, &fed).map_err(|why| format!("cannot start a thread: {why}"))?;
        let status = process.end(&fed, output, self.patience)?;
        if !status.success() {
            return Err(format!("ffmpeg failed with {status}{}", shown(&said)));
        }
        if !fed.is_all.load(Ordering::SeqCst) {
            return Err(format!("ffmpeg ended before it read all input{}", shown(&said)));
        }
        Ok(())
    }
}

fn not_started(program: &OsStr, why: &io::Error) -> String {
    if why.kind() == io::ErrorKind::NotFound {
        "ffmpeg is required, but is not in the PATH; install it (apt-get install \
         ffmpeg, dnf install ffmpeg, brew install ffmpeg), or use files in --input-file"
            .to_owned()
    } else {
        format!("cannot start {}: {why}", program.display())
    }
}

/// Returns the start of the error output, to append to a message.
fn shown(said: &Receiver<Vec<u8>>) -> String {
    let said = said.recv_timeout(SAID_WITHIN).unwrap_or_default();
    let text = String::from_utf8_lossy(&said);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<_> = lines.take(LINES_SHOWN).collect();
    if lines.is_empty() { String::new() } else { format!(": {}", lines.join("; ")) }
}

/// How much of its input the program has read.
#[derive(Debug, Default)]
struct Fed {
    bytes: AtomicU64,
    is_all: AtomicBool,
}

/// A running program, which is killed on drop.
struct Process(Child);

impl Process {
    /// Writes the input and reads the error output, each in a thread that ends with the program, so
    /// that neither blocks the other.
    fn talk(
        &mut self,
        pieces: Box<dyn Iterator<Item = Vec<u8>> + Send>,
        fed: &Arc<Fed>,
    ) -> io::Result<Receiver<Vec<u8>>> {
        let (sender, said) = mpsc::channel();
        if let (Some(input), Some(error)) = (self.0.stdin.take(), self.0.stderr.take()) {
            let fed = Arc::clone(fed);
            let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
            spawn("ffmpeg-input").spawn(move || feed(input, pieces, &fed))?;
            spawn("ffmpeg-error").spawn(move || drop(sender.send(listen(error))))?;
        }
        Ok(said)
    }

    /// Waits for the end of the program while it makes progress in reading its input or writing its
    /// output.
    fn end(&mut self, fed: &Fed, output: &Path, patience: Duration) -> Result<ExitStatus, String> {
        let end = child::watch(&self.0).map_err(|why| format!("cannot start a thread: {why}"))?;
        let (mut before, mut since) = ((0, 0), Clock::now());
        loop {
            let ended = self.0.try_wait().map_err(|why| format!("lost ffmpeg: {why}"))?;
            let written = fs::metadata(output).map_or(0, |file| file.len());
            if written > MAX_FILE_BYTES {
                let most = MAX_FILE_BYTES >> 20;
                return Err(format!("the file exceeds {most} MiB; make it smaller"));
            }
            if let Some(status) = ended {
                return Ok(status);
            }
            let now = (fed.bytes.load(Ordering::Relaxed), written);
            if now != before {
                (before, since) = (now, Clock::now());
            } else if Clock::now().since(since) > patience.into() {
                let seconds = patience.as_secs_f64();
                return Err(format!(
                    "ffmpeg neither read nor wrote anything for {seconds} s and was terminated"
                ));
            }
            // Closed at the end, which ends this pause.
            let _ = end.recv_timeout(LOOK);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The program may have ended, so that nothing is left to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes the parts; a program that ends early reports the cause itself.
fn feed(mut input: ChildStdin, pieces: impl Iterator<Item = Vec<u8>>, fed: &Fed) {
    for piece in pieces {
        for part in piece.chunks(PIECE) {
            if input.write_all(part).is_err() {
                return;
            }
            fed.bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
    // Before the input ends, and therefore before the program does.
    fed.is_all.store(true, Ordering::SeqCst);
}

/// Reads all of the error output, and returns its start.
fn listen(mut error: ChildStderr) -> Vec<u8> {
    let mut said = Vec::new();
    let first = Read::by_ref(&mut error).take(MAX_OUTPUT_BYTES).read_to_end(&mut said);
    // The rest is only read so that the program does not block.
    let _ = first.and_then(|_| io::copy(&mut error, &mut io::sink()));
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a program that runs each job's script.
    fn fake(patience: Duration) -> Ffmpeg {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fake/ffmpeg");
        Ffmpeg { program: program.into(), patience }
    }

    /// Creates a job for this shell script with a megabyte of input, more than a pipe holds.
    fn job(script: &str) -> Job {
        Job {
            input: Vec::new(),
            pieces: Box::new(std::iter::repeat_n(vec![7; 1000], 1000)),
            sound: None,
            output: vec![script.to_owned()],
        }
    }

    fn outcome(script: &str) -> Result<Vec<u8>, String> {
        fake(Duration::from_mins(1)).encode(job(script))
    }

    #[test]
    fn what_it_writes_is_the_file() {
        assert_eq!(outcome("cat > \"$output\"").unwrap(), vec![7; 1_000_000]);
    }

    #[test]
    fn it_may_say_much_before_it_reads() {
        let both = "head -c 1000000 /dev/zero >&2; cat > \"$output\"";
        assert_eq!(outcome(both).unwrap().len(), 1_000_000);
    }

    #[test]
    fn the_sound_is_a_file_beside_the_input() {
        let script = "cat > /dev/null; cp \"$input\" \"$output\"";
        let job = Job { sound: Some(b"RIFF".to_vec()), ..job(script) };
        assert_eq!(fake(Duration::from_mins(1)).encode(job).unwrap(), b"RIFF");
    }

    #[test]
    fn failures_are_told_in_its_own_words() {
        let failure = |script: &str| outcome(script).unwrap_err();
        let said = failure("echo \"Unknown encoder 'x'\" >&2; echo more >&2; exit 3");
        assert_eq!(said, "ffmpeg failed with exit status: 3: Unknown encoder 'x'; more");
        assert_eq!(failure("cat > /dev/null; exit 1"), "ffmpeg failed with exit status: 1");
        assert!(failure("kill -9 $$").contains("signal: 9"));
        assert!(failure("echo x > \"$output\"").contains("before it read all"));
        assert!(failure("cat > /dev/null").starts_with("ffmpeg wrote no file"));
        assert_eq!(failure("cat > /dev/null; : > \"$output\""), "ffmpeg wrote an empty file");
        let large = failure("cat > /dev/null; truncate -s 257M \"$output\"");
        assert_eq!(large, "the file exceeds 256 MiB; make it smaller");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let failure = |program: &str| {
            let none = Ffmpeg { program: program.into(), ..Ffmpeg::default() };
            none.encode(job("")).unwrap_err()
        };
        assert!(failure("/nonexistent/ffmpeg").contains("apt-get install ffmpeg"));
        assert!(failure("/").starts_with("cannot start /"));
    }

    #[test]
    fn one_that_stands_still_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let pid = directory.path().join("pid");
        // A process started by the script keeps the pipes open; it is not waited for.
        let script = format!("echo $$ > {}; sleep 10 & wait", pid.display());
        let said = fake(Duration::from_secs(2)).encode(job(&script)).unwrap_err();
        assert_eq!(said, "ffmpeg neither read nor wrote anything for 2 s and was terminated");
        let pid: i32 = fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    #[test]
    fn many_are_in_their_order_and_one_failure_is_all() {
        let fake = fake(Duration::from_mins(1));
        let numbered = |index: usize| {
            let script = format!("cat > /dev/null; echo {index} > \"$output\"; [ {index} != 23 ]");
            job(&script)
        };
        let files = fake.encode_all(20, numbered).unwrap();
        let expected: Vec<_> = (0..20).map(|index| format!("{index}\n").into_bytes()).collect();
        assert_eq!(files, expected);
        assert!(fake.encode_all(0, numbered).unwrap().is_empty());
        let failure = fake.encode_all(1000, numbered).unwrap_err();
        assert_eq!(failure, "ffmpeg failed with exit status: 1");
    }
}
