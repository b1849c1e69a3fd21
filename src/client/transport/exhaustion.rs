//! Resources that the client lacks when it fails to connect.

use std::io;

use base::platform::exhaustion::Exhausted;
use base::platform::limits;

use crate::record::{ErrorKind, RequestError};

/// Returns the cause of the lookup error `error`. If the resolver cannot open its files, it only
/// reports a failure.
pub(super) fn of_lookup(error: &io::Error) -> Option<Exhausted> {
    Exhausted::from_error(error).or_else(limits::exhausted_for_files)
}

/// Returns the error of a request that failed for lack of a resource; `what` names the failed step.
pub(super) fn error(lacks: Exhausted, what: &str) -> RequestError {
    let (name, why) = match lacks {
        Exhausted::Descriptors => (
            "TooManyOpenFiles",
            "the client ran out of file descriptors; raise its limit (ulimit -n), or lower \
             --concurrency or AIPERF_HTTP_CONNECTION_LIMIT",
        ),
        Exhausted::SystemDescriptors => (
            "TooManyOpenFiles",
            "the client's machine ran out of file descriptors; raise fs.file-max",
        ),
        Exhausted::Ports => (
            "NoLocalPort",
            "the client ran out of local ports; reuse connections \
             (--connection-reuse-strategy pooled), or widen net.ipv4.ip_local_port_range",
        ),
    };
    RequestError::new(ErrorKind::Other, name, format!("{what}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_resource_is_reported_with_advice() {
        let error = error(Exhausted::Descriptors, "cannot connect to a:1");
        assert_eq!((error.kind, &*error.name), (ErrorKind::Other, "TooManyOpenFiles"));
        assert!(error.message.starts_with("cannot connect to a:1: the client ran out of file"));
    }
}
