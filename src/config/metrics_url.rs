//! URLs of Prometheus endpoints.

use url::Url;

use base::redact::Secret;

use super::{ConfigError, url as urls};

/// Parses the URL of a Prometheus endpoint. The scheme defaults to `http://`, the path to
/// `/metrics`.
pub(crate) fn parse(text: &str) -> Result<Secret<Url>, ConfigError> {
    let mut url = urls::parse(text)?.expose().clone();
    if url.path() == "/" {
        url.set_path("/metrics");
    }
    url.set_fragment(None);
    Ok(Secret::new(url))
}

/// The conventional metrics URL of the server with the base URL `base`.
///
/// The parts that belong to the API are removed before `/metrics` is appended: the
/// endpoint's `path` if the base ends in it, a version such as `/v1`, and the query. So
/// `http://host/v1` and `http://host/v1/chat/completions` both become
/// `http://host/metrics`, and `http://host/gateway/v1` becomes
/// `http://host/gateway/metrics`. Credentials are kept.
#[must_use]
pub(crate) fn of_server(base: &Secret<Url>, path: &str) -> Secret<Url> {
    let base = base.expose();
    let path = path.split('?').next().unwrap_or_default().trim_matches('/');
    let above = base.path().trim_end_matches('/');
    let above = match above.strip_suffix(path) {
        Some(rest) if !path.is_empty() && rest.ends_with('/') => rest.trim_end_matches('/'),
        _ => above,
    };
    let above = match above.rsplit_once('/') {
        Some((rest, last)) if urls::is_version(last) => rest,
        _ => above,
    };
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    url.set_path(&format!("{above}/metrics"));
    Secret::new(url)
}

/// Whether two URLs are the same endpoint: they differ at most in credentials and in
/// `localhost` versus `127.0.0.1`.
#[must_use]
pub(crate) fn are_same(one: &Secret<Url>, other: &Secret<Url>) -> bool {
    let place = |url: &Secret<Url>| {
        let url = url.expose();
        let port = url.port_or_known_default();
        let host = url.host_str().map(|host| if host == "127.0.0.1" { "localhost" } else { host });
        let host = host.map(str::to_owned);
        (url.scheme().to_owned(), host, port, url.path().to_owned(), url.query().map(str::to_owned))
    };
    place(one) == place(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn metrics_url(base: &str) -> String {
        of_server(&urls::parse(base).unwrap(), "/v1/chat/completions").expose().to_string()
    }

    #[test]
    fn a_path_is_added_where_there_is_none() {
        let parsed = |text| parse(text).unwrap().expose().to_string();
        assert_eq!(parsed("node1:8081"), "http://node1:8081/metrics");
        assert_eq!(parsed("https://h/"), "https://h/metrics");
        assert_eq!(parsed("h/?a=b#c"), "http://h/metrics?a=b");
        assert_eq!(parsed("http://h/stats/prometheus"), "http://h/stats/prometheus");
        assert!(parse("ftp://h").is_err());
    }

    #[test]
    fn metrics_are_beside_the_api() {
        for base in [
            "h",
            "http://h/",
            "http://h/v1",
            "http://h/v1/",
            "http://h/v1/chat/completions",
            "http://h/v1/chat/completions/?api-version=1",
        ] {
            assert_eq!(metrics_url(base), "http://h/metrics", "{base}");
        }
        assert_eq!(metrics_url("http://h:81/gateway/v1"), "http://h:81/gateway/metrics");
        assert_eq!(metrics_url("http://h/gateway"), "http://h/gateway/metrics");
        assert_eq!(metrics_url("http://u:p@h/v1"), "http://u:p@h/metrics");
        assert_eq!(
            metrics_url("http://h/xv1/chat/completions"),
            "http://h/xv1/chat/completions/metrics"
        );
    }

    #[test]
    fn credentials_make_no_other_endpoint() {
        let same = |one, other| are_same(&parse(one).unwrap(), &parse(other).unwrap());
        assert!(same("http://h", "http://u:p@h:80/metrics"));
        assert!(same("localhost:8000", "http://127.0.0.1:8000/metrics"));
        assert!(!same("localhost:8000", "127.0.0.1:8001"));
        assert!(!same("http://h", "https://h"));
        assert!(!same("http://h", "http://h:81"));
        assert!(!same("http://h", "http://h/other"));
        assert!(!same("http://h", "http://h/metrics?a=b"));
    }

    proptest! {
        #[test]
        fn any_base_has_a_place(text: String, path: String) {
            if let Ok(base) = urls::parse(&text) {
                prop_assert!(of_server(&base, &path).expose().path().ends_with("/metrics"));
                prop_assert!(parse(&text).is_ok());
            }
        }
    }
}
