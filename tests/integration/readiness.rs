//! The wait for the model (`--wait-for-model-*`) with misbehaving servers.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::raw_server::{self, read_request, write};
use crate::support::run::{Run, profile};

/// A server that counts connections, and responds like a model server.
fn stranger() -> (SocketAddr, Arc<AtomicUsize>) {
    let visits = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&visits);
    let address = raw_server::serve(move |_, stream| {
        counted.fetch_add(1, Ordering::SeqCst);
        let answer = r#"{"data":[{"id":"mock-model"}]}"#;
        while read_request(stream).is_some() {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
            let length = answer.len();
            write(stream, format!("{head}content-length: {length}\r\n\r\n{answer}").as_bytes());
        }
    });
    (address, visits)
}

/// Returns a run that waits for `seconds` for the model of the server at `address`.
fn waiting(address: SocketAddr, seconds: &str, mode: &str) -> Run {
    let wait = ["--wait-for-model-timeout", seconds, "--wait-for-model-interval", "9"];
    let keys = ["--api-key", "k3y-of-mine", "--header", "X-Team: mine"];
    let given = [&wait[..], &keys, &["--wait-for-model-mode", mode, "--no-server-metrics"]];
    profile(&format!("http://{address}"), &given.concat())
}

#[test]
fn a_redirect_is_not_followed_but_named() {
    let (stranger, visits) = stranger();
    for status in [301, 302, 303, 307, 308] {
        let home = raw_server::serve(move |_, stream| {
            while read_request(stream).is_some() {
                let location = format!("http://{stranger}/v1/there?token=t0ken");
                let head = format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\n");
                write(stream, format!("{head}content-length: 0\r\n\r\n").as_bytes());
            }
        });
        for mode in ["models", "inference"] {
            let run = waiting(home, "0.2", mode);
            assert_eq!(run.exit_code(), Some(1), "{status}: {}", run.stderr());
            let expected =
                format!("{status}, a redirect to http://{stranger}/v1/there, which is not");
            assert!(run.stderr().contains(&expected), "{}", run.stderr());
            assert!(run.stderr().contains("--url") && !run.stderr().contains("t0ken"));
        }
    }
    assert_eq!(visits.load(Ordering::SeqCst), 0, "the stranger heard of us");
}

#[test]
fn an_endless_answer_is_read_up_to_a_bound() {
    let sent = Arc::new(AtomicUsize::new(0));
    let most = Arc::clone(&sent);
    let endless = raw_server::serve(move |_, stream| {
        let mut mebibytes = 0;
        if read_request(stream).is_some() {
            write(stream, b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n");
            let piece = vec![b' '; 1 << 20];
            while stream.write_all(&piece).is_ok() {
                mebibytes += 1;
            }
            most.fetch_max(mebibytes, Ordering::SeqCst);
        }
    });
    let run = waiting(endless, "5", "models");
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    assert!(run.stderr().contains("its response exceeds 64 MiB"), "{}", run.stderr());
    // Data in the sockets' buffers may exceed the limit.
    let mebibytes = sent.load(Ordering::SeqCst);
    assert!((64..=96).contains(&mebibytes), "{mebibytes} MiB");
}

#[test]
fn escape_codes_of_a_server_do_not_reach_the_terminal() {
    let rude = raw_server::serve(|_, stream| {
        while read_request(stream).is_some() {
            let words = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nerror: fake\u{9b}31m\u{202e}";
            let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\n";
            let length = words.len();
            write(stream, format!("{head}content-length: {length}\r\n\r\n{words}").as_bytes());
        }
    });
    let run = waiting(rude, "0.2", "inference");
    assert_eq!(run.exit_code(), Some(1), "{}", run.stderr());
    let said = run.stderr();
    assert!(said.contains("503 Service Unavailable"), "{said}");
    let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!said.contains(steers), "{said:?}");
    assert!(!said.contains("\nerror: fake"), "{said:?}");
}

/// A server without a list of models, whose base URL returns `status`.
fn without_models(status: &'static str) -> SocketAddr {
    raw_server::serve(move |_, stream| {
        while let Some(request) = read_request(stream) {
            let is_base = request.to_ascii_uppercase().starts_with("GET / ");
            let line = if is_base { status } else { "404 Not Found" };
            write(stream, format!("HTTP/1.1 {line}\r\ncontent-length: 0\r\n\r\n").as_bytes());
        }
    })
}

#[test]
fn a_server_that_lists_no_models_is_asked_whether_it_is_there() {
    for status in ["200 OK", "404 Not Found"] {
        let run = waiting(without_models(status), "5", "models");
        // The wait was over: the requests of the run itself failed.
        assert!(run.stderr().contains("no request succeeded"), "{status}: {}", run.stderr());
    }
    let run = waiting(without_models("503 Service Unavailable"), "0.2", "models");
    assert_eq!(run.exit_code(), Some(1));
    assert!(
        run.stderr().contains("not become available within 0.2 s: it returned status 503"),
        "{}",
        run.stderr()
    );
}
