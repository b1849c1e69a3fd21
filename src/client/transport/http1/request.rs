//! The head of a request.

use std::io::Write;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderName, Method};

/// Room for the head of a usual request.
const USUAL_SIZE: usize = 768;

/// Returns the head of a request to `target` with a body of `length` bytes. `headers` passes on the
/// headers; a length or a coding among them is replaced by those of the body.
pub(in crate::transport) fn head(
    method: &Method,
    target: &str,
    length: usize,
    headers: impl FnOnce(&mut dyn FnMut(&HeaderName, &[u8])),
) -> Vec<u8> {
    let mut head = Vec::with_capacity(USUAL_SIZE);
    head.extend_from_slice(method.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(target.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    headers(&mut |name, value| {
        if *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING {
            head.extend(capitalized(name.as_str()));
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        }
    });
    // A body without a length would have none; a method that usually has a body states that too.
    if length > 0 || matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        // Writing to a vector does not fail.
        let _ = write!(head, "Content-Length: {length}\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Returns the name of a header as it is sent, as in `X-Request-Id`.
pub(in crate::transport) fn as_sent(name: &str) -> String {
    capitalized(name).map(char::from).collect()
}

/// Returns the bytes of `name` with capitals at its beginning and after each hyphen.
fn capitalized(name: &str) -> impl Iterator<Item = u8> {
    let mut begins = true;
    name.bytes().map(move |byte| {
        let is_first = std::mem::replace(&mut begins, byte == b'-');
        if is_first { byte.to_ascii_uppercase() } else { byte }
    })
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HOST};

    use super::*;

    #[test]
    fn a_request_states_the_length_of_its_body_once() {
        let written = |method, length| {
            let head = head(&method, "/v1/chat?x=1", length, |each| {
                each(&HOST, b"localhost:8000");
                each(&CONTENT_LENGTH, b"7");
                each(&TRANSFER_ENCODING, b"chunked");
                each(&HeaderName::from_static("x-request-id"), b"abc");
                each(&ACCEPT, b"*/*");
            });
            String::from_utf8(head).unwrap()
        };
        let headers = "Host: localhost:8000\r\nX-Request-Id: abc\r\nAccept: */*\r\n";
        assert_eq!(
            written(Method::POST, 12),
            format!("POST /v1/chat?x=1 HTTP/1.1\r\n{headers}Content-Length: 12\r\n\r\n")
        );
        assert_eq!(
            written(Method::POST, 0),
            format!("POST /v1/chat?x=1 HTTP/1.1\r\n{headers}Content-Length: 0\r\n\r\n")
        );
        assert_eq!(written(Method::GET, 0), format!("GET /v1/chat?x=1 HTTP/1.1\r\n{headers}\r\n"));
    }
}
