//! The limits on open files and connections.

use base::platform::limits;

/// Minimum number of open files for a run without connections: its own, those of its
/// threads and timers, and some for libraries.
const MIN_FILES: u64 = 40;

/// Raises the limit on open files as far as the system permits, since each connection needs
/// one.
///
/// # Errors
/// If the limit is too low for any run.
pub(super) fn raise_file_limit() -> anyhow::Result<()> {
    if let Some(most) = limits::raise_open_files().filter(|most| *most < MIN_FILES) {
        anyhow::bail!(
            "only {most} open files are allowed, but a run needs at least {MIN_FILES} plus \
             one for each connection; raise the limit (ulimit -n)"
        );
    }
    Ok(())
}

/// Returns a warning if not every one of `in_flight` requests can have a connection, because of the
/// `limit` of connections or that of open files.
pub(super) fn too_few_connections(in_flight: Option<u64>, limit: u64) -> Option<String> {
    fewer_than(in_flight?, limit, limits::open_files())
}

fn fewer_than(in_flight: u64, limit: u64, files: Option<u64>) -> Option<String> {
    let connections = files.map_or(u64::MAX, |files| files.saturating_sub(MIN_FILES));
    if in_flight > limit {
        return Some(format!(
            "the limit of {limit} connections makes some of the {in_flight} requests in flight wait \
             in the client; raise or unset AIPERF_HTTP_CONNECTION_LIMIT"
        ));
    }
    (in_flight > connections).then(|| {
        format!(
            "up to {in_flight} requests are in flight at the same time, but the limit on open files \
             only allows about {connections} connections, so requests will fail; raise it (ulimit \
             -n) or lower the load"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_in_flight_needs_a_connection_and_a_file() {
        let files = Some(4000 + MIN_FILES);
        let needs = |in_flight, limit| fewer_than(in_flight, limit, files);
        assert_eq!(needs(2500, 2500), None);
        assert_eq!(needs(4000, 4000), None);
        assert!(needs(2501, 2500).unwrap().contains("the limit of 2500 connections"));
        assert!(needs(4001, 4001).unwrap().contains("about 4000 connections"));
        assert_eq!(fewer_than(4001, 4001, None), None);
    }
}
