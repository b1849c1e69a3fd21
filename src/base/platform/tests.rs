//! What `linux` and `portable` have in common.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvError, TryRecvError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::Background;
use super::alarm::Alarm;
use super::exhaustion::Exhausted;
use super::files::{UnnamedFile, is_device};
use super::receive::Receiver;
use super::terminal::Terminal;
use super::{child, clock, cores, host, limits, process, receive, replace, signals, socket};

fn block_on<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let test = async { tokio::time::timeout(Duration::from_secs(20), test).await };
    runtime.block_on(test).unwrap()
}

#[test]
fn no_clock_goes_back() {
    for clock in [clock::monotonic_ns, clock::thread_cpu_ns, clock::process_cpu_ns] {
        let before = clock();
        assert!((0..1000).all(|_| clock() >= before));
    }
    let begin = clock::monotonic_ns();
    std::thread::sleep(Duration::from_millis(2));
    assert!(clock::monotonic_ns() >= begin + 2_000_000);
}

#[test]
fn an_alarm_rings_at_the_instant_that_it_was_set_to_last() {
    block_on(async {
        let alarm = Alarm::new().unwrap();
        let start = clock::monotonic_ns();
        for after in [3_000_000, 5_000_000, 0] {
            alarm.set(start + 3_600_000_000_000);
            alarm.set(start + after);
            alarm.rings().await.unwrap();
            assert!(clock::monotonic_ns() >= start + after);
        }
    });
}

#[test]
fn the_end_of_a_child_is_told_and_its_status_is_left() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let ended = child::watch(&child).unwrap();
    assert_eq!(ended.try_recv(), Err(TryRecvError::Empty));
    drop(child.stdin.take());
    assert_eq!(ended.recv(), Err(RecvError));
    assert!(child.try_wait().unwrap().unwrap().success());
    // That of one that was waited for, too.
    assert_eq!(child::watch(&child).unwrap().recv(), Err(RecvError));
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

#[test]
fn a_receiver_reads_what_there_is_and_its_end() {
    block_on(async {
        receive::keep_stamping();
        let (ours, theirs) = connected().await;
        let mut receiver = Receiver::new(&ours, true);
        let mut buffer = [0; 8];
        let nothing = receiver.receive(&ours, &mut buffer).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        theirs.writable().await.unwrap();
        assert_eq!(theirs.try_write(b"abc").unwrap(), 3);
        ours.readable().await.unwrap();
        assert_eq!(receiver.receive(&ours, &mut buffer).unwrap().bytes, 3);
        assert_eq!(&buffer[..3], b"abc");
        socket::shutdown_write(&theirs).unwrap();
        ours.readable().await.unwrap();
        assert_eq!(receiver.receive(&ours, &mut buffer).unwrap().bytes, 0);
    });
}

#[test]
fn sockets_take_the_options() {
    block_on(async {
        let options = TcpSocket::new_v4().unwrap();
        socket::set_keepalive_idle(&options, Duration::from_secs(7)).unwrap();
        socket::set_keepalive_interval(&options, Duration::from_secs(3)).unwrap();
        socket::set_keepalive_count(&options, 4).unwrap();
        socket::set_user_timeout(&options, 12_500).unwrap();
        socket::acknowledge(&connected().await.0).unwrap();
    });
}

#[test]
fn an_unnamed_file_is_read_where_it_was_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = UnnamedFile::in_directory(directory.path()).unwrap();
    file.write_all_at(b"world", 6).unwrap();
    file.write_all_at(b"hello ", 0).unwrap();
    let mut bytes = [0; 11];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"hello world");
    assert!(file.read_exact_at(&mut bytes, 1).is_err());
    drop(file);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_file_is_replaced_as_a_whole_or_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a");
    replace::check(&path).unwrap();
    replace::replace(&path, |out| out.write_all(b"one")).unwrap();
    let failed = replace::replace(&path, |out| {
        out.write_all(b"two")?;
        Err(io::Error::other("no more"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no more");
    assert_eq!(fs::read(&path).unwrap(), b"one");
    assert!(replace::check(directory.path()).is_err());
    let unfinished = replace::beside(&path).unwrap().into_temp_path().keep().unwrap();
    assert!(unfinished.exists());
    replace::clear_temporary(directory.path());
    assert!(!unfinished.exists() && path.exists());
}

#[test]
fn a_file_is_neither_a_device_nor_a_terminal() {
    let file = tempfile::tempfile().unwrap();
    assert!(!is_device(file.metadata().unwrap().file_type()));
    assert!(!file.is_terminal() && file.size().is_none());
}

#[test]
fn a_thread_may_be_kept_to_its_cores() {
    let allowed = cores::allowed();
    cores::keep_to(&[]).unwrap();
    cores::keep_to(&allowed).unwrap();
    assert_eq!(cores::allowed(), allowed);
}

#[test]
fn the_machine_has_names() {
    for name in [host::name(), host::kernel(), host::system()] {
        assert!(!name.is_empty());
    }
    assert_ne!(host::processor().as_deref(), Some(""));
    assert_ne!(host::memory_bytes(), Some(0));
    assert_ne!(limits::memory_bytes(), Some(0));
}

#[test]
fn an_exhausted_machine_is_told_from_a_peer_that_refuses() {
    let exhausted = |code| Exhausted::from_error(&io::Error::from_raw_os_error(code));
    assert_eq!(exhausted(24), Some(Exhausted::Descriptors));
    assert_eq!(exhausted(23), Some(Exhausted::SystemDescriptors));
    let other: io::Error = std::net::TcpListener::bind("203.0.113.1:1").unwrap_err();
    assert_eq!(Exhausted::from_error(&other), Some(Exhausted::Ports));
    assert_eq!(Exhausted::from_error(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
    assert_eq!(Exhausted::from_error(&io::Error::other("no address")), None);
    assert_eq!(limits::exhausted_for_files(), None);
}

#[test]
fn a_child_can_be_ended() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    process::terminate(&mut child).unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success() && !limits::exceeded_cpu_time(status));
}

#[test]
fn this_program_is_found() {
    let mut start = [0; 4];
    File::open(process::own_program()).unwrap().read_exact(&mut start).unwrap();
    process::yield_to_measurement(Background::Queued);
    signals::survive_full_files().unwrap();
    assert!(limits::raise_open_files().is_none_or(|most| most > 0));
}
