//! Compares the decoder with hyper's client, and looks at single responses.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use base::causes::find;

use super::*;
use crate::record::RequestError;

/// How a response ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Incomplete,
    Invalid,
}

/// What a client made of the bytes of a connection.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    status: Option<u16>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    end: End,
    /// Whether the connection can be used again; only asked if the response did not end by the end
    /// of the connection.
    keeps_alive: Option<bool>,
}

#[derive(Default)]
struct Received {
    status: Option<u16>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl ResponseSink for Received {
    fn head(&mut self, head: &ResponseHead<'_>) -> Result<(), RequestError> {
        assert_eq!(self.status, None, "only one final response");
        self.status = Some(head.status);
        let owned = |(name, value): (&str, &[u8])| (name.to_ascii_lowercase(), value.to_vec());
        self.headers = head.headers().map(owned).collect();
        self.headers.sort();
        Ok(())
    }

    fn data(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        assert!(!bytes.is_empty() && self.status.is_some());
        self.body.extend_from_slice(bytes);
        Ok(())
    }
}

/// Decodes `bytes` in pieces that end at `cuts`, and then the end of the connection.
fn ours(method: &Method, bytes: &[u8], cuts: &[usize]) -> Outcome {
    let mut decoder = ResponseDecoder::new(method);
    let mut received = Received::default();
    let (mut result, mut from, mut is_complete) = (Ok(Progress::More), 0, false);
    for &to in cuts.iter().chain([&bytes.len()]) {
        result = decoder.decode(&bytes[from..to], &mut received);
        if let Ok(Progress::Complete { rest }) = result {
            is_complete = true;
            assert!(rest <= to - from);
        }
        if result.is_err() || is_complete {
            break;
        }
        from = to;
    }
    let end = match result {
        Err(error) => {
            assert_eq!(error.name, "InvalidHttpResponse");
            End::Invalid
        }
        Ok(_) if decoder.close().is_err() => End::Incomplete,
        Ok(_) => End::Complete,
    };
    let Received { status, headers, body } = received;
    let keeps_alive = is_complete.then(|| decoder.keeps_alive());
    Outcome { status, headers, body, end, keeps_alive }
}

/// Returns what hyper makes of `bytes`; the connection ends after them if `closes`.
async fn hypers(method: &Method, bytes: &[u8], closes: bool) -> Outcome {
    let (client, mut server) = tokio::io::duplex(1 << 20);
    let answer = bytes.to_vec();
    let server = tokio::spawn(async move {
        // hyper refuses a response to a request that it has not sent.
        let _ = server.read(&mut [0; 1024]).await;
        server.write_all(&answer).await.unwrap();
        if closes {
            server.shutdown().await.unwrap();
        }
        server
    });
    let (mut sender, connection) = http1::handshake(TokioIo::new(client)).await.unwrap();
    let request = Request::builder().method(method.clone()).uri("/").header("host", "a");
    let response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap());
    let driver = tokio::spawn(connection);
    let (mut status, mut headers, mut body) = (None, Vec::new(), Vec::new());
    let received = async {
        let mut response = response.await?;
        status = Some(response.status().as_u16());
        let owned = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().to_owned(), value.as_bytes().to_vec())
        };
        headers = response.headers().iter().map(owned).collect();
        headers.sort();
        while let Some(frame) = response.body_mut().frame().await {
            if let Ok(data) = frame?.into_data() {
                body.extend_from_slice(&data);
            }
        }
        Ok::<_, hyper::Error>(())
    };
    let received = tokio::time::timeout(Duration::from_mins(1), received).await.unwrap();
    let end = match received {
        Ok(()) => End::Complete,
        Err(error) => {
            let is_eof = find::<std::io::Error>(&error)
                .is_some_and(|error| error.kind() == std::io::ErrorKind::UnexpectedEof);
            if error.is_incomplete_message() || is_eof { End::Incomplete } else { End::Invalid }
        }
    };
    let server = server.await.unwrap();
    // The driver ends if the connection cannot be used again.
    let keeps_alive = if closes {
        None
    } else {
        Some(tokio::time::timeout(Duration::from_mins(1), sender.ready()).await.unwrap().is_ok())
    };
    driver.abort();
    drop(server);
    Outcome { status, headers, body, end, keeps_alive }
}

fn with_hyper(method: &Method, bytes: &[u8], closes: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(hypers(method, bytes, closes))
}

/// Responses that are valid, nearly valid, or not.
fn responses() -> impl Strategy<Value = Vec<u8>> {
    let interim = select(vec![
        "",
        "",
        "",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
    ]);
    let status = select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 200\r\n",
        "HTTP/1.0 200 OK\r\n",
        "HTTP/1.1 204 No Content\r\n",
        "HTTP/1.1 304 Not Modified\r\n",
        "HTTP/1.1 429 Slow down, please\r\n",
        "HTTP/1.1 503 \u{e4}\r\n",
        "HTTP/1.1 999 ?\n",
        "HTTP/1.1 099 ?\r\n",
        "HTTP/2 200 OK\r\n",
        "\r\nHTTP/1.1 200 OK\r\n",
    ]);
    let header = select(vec![
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\n",
        "content-length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 6\r\n",
        "Content-Length:\r\n",
        "Content-Length: 99999999999999999999\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\n",
        "transfer-encoding: gzip, Chunked\r\n",
        "Transfer-Encoding: gzip\r\n",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "Connection: x, Close\r\n",
        "Content-Type: text/event-stream\r\n",
        "X-Empty:\r\n",
        "X-Odd: \t a b \t\r\n",
        "X-Latin: \u{e4}\r\n",
        "X Space: 1\r\n",
        "X-Line: 1\n",
        "X-Folded: 1\r\n 2\r\n",
    ]);
    let body = select(vec![
        "",
        "hello",
        "hello more",
        "5\r\nhello\r\n0\r\n\r\n",
        "5;name=value\r\nhello\r\n05 \r\nworld\r\n0\r\nX-Trailer: 1\r\nY: 2\r\n\r\n",
        "A\r\n0123456789\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\nhello\n0\n\n",
        "fffffffffffffffff\r\nhello",
        "0\r\nnot a trailer\r\n\r\n",
        "0\r\n\r\n",
        "3\r\nhel\r\n0\r\nX: y\r\r\n\r\n",
    ]);
    let headers = prop::collection::vec(header, 0..4);
    let change = prop::option::weighted(0.3, (any::<Index>(), any::<u8>(), 0..3_u8));
    (interim, status, headers, body, change, any::<Index>(), any::<bool>()).prop_map(
        |(interim, status, headers, body, change, end, is_cut)| {
            let text = format!("{interim}{status}{}\r\n{body}", headers.concat());
            let mut bytes = text.into_bytes();
            if let Some((at, byte, how)) = change {
                let at = at.index(bytes.len());
                match how {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    _ => drop(bytes.remove(at)),
                }
            }
            if is_cut {
                bytes.truncate(end.index(bytes.len() + 1));
            }
            bytes
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_response_is_what_hyper_makes_of_it_wherever_it_is_split(
        bytes in responses(),
        cuts in prop::collection::vec(any::<Index>(), 0..6),
        asks_for_head in prop::bool::weighted(0.1),
    ) {
        let method = if asks_for_head { Method::HEAD } else { Method::POST };
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let found = ours(&method, &bytes, &cuts);
        let all: Vec<usize> = (0..bytes.len()).collect();
        let byte_by_byte = ours(&method, &bytes, &all);
        prop_assert_eq!(&byte_by_byte, &found);
        let expected = with_hyper(&method, &bytes, true);
        prop_assert_eq!(Outcome { keeps_alive: None, ..byte_by_byte }, expected);
        if found.keeps_alive == Some(true) {
            // Bytes after the response make the connection useless; the decoder tells their number.
            let mut received = Received::default();
            let mut decoder = ResponseDecoder::new(&method);
            let whole = decoder.decode(&bytes, &mut received).unwrap();
            let expected = with_hyper(&method, &bytes, false);
            prop_assert_eq!(Some(whole == Progress::Complete { rest: 0 }), expected.keeps_alive);
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        cut in any::<Index>(),
    ) {
        let cut = cut.index(bytes.len() + 1);
        let whole = ours(&Method::POST, &bytes, &[]);
        prop_assert_eq!(ours(&Method::POST, &bytes, &[cut]), whole);
    }
}

#[test]
fn the_end_of_the_connection_ends_a_body_without_a_length() {
    let found = ours(&Method::POST, b"HTTP/1.1 200 OK\r\n\r\nhello", &[]);
    assert_eq!((found.body.as_slice(), found.end), (&b"hello"[..], End::Complete));
    assert_eq!(found.keeps_alive, None);
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello";
    assert_eq!(ours(&Method::POST, bytes, &[]).end, End::Incomplete);
}

#[test]
fn endless_heads_and_extensions_are_refused() {
    let mut head = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    head.resize(80 << 10, b'x');
    let cuts: Vec<usize> = (0..head.len()).step_by(1000).collect();
    assert_eq!(ours(&Method::POST, &head, &cuts).end, End::Invalid);
    let mut many = "HTTP/1.1 200 OK\r\n".to_owned();
    many.extend((0..101).map(|number| format!("x{number}: 1\r\n")));
    assert_eq!(ours(&Method::POST, many.as_bytes(), &[]).end, End::Invalid);
    let mut body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;".to_vec();
    body.resize(17 << 10, b'x');
    assert_eq!(ours(&Method::POST, &body, &[]).end, End::Invalid);
}
