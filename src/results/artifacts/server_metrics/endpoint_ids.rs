//! Endpoints by host and port.

use std::collections::HashMap;
use std::sync::Arc;

use url::Url;

use base::redact::ShownUrl;

/// A unique short name for each of some URLs.
#[derive(Debug)]
pub(super) struct EndpointIds(HashMap<ShownUrl, Arc<str>>);

impl EndpointIds {
    /// Creates names of the form `host:port`; the whole URL if two of them share that.
    pub(super) fn from_urls(urls: &[ShownUrl]) -> Self {
        let mut shared: HashMap<Arc<str>, usize> = HashMap::new();
        for url in urls {
            *shared.entry(host_and_port(url)).or_default() += 1;
        }
        let id = |url: &ShownUrl| {
            let short = host_and_port(url);
            if shared[&short] == 1 { short } else { Arc::clone(url.text()) }
        };
        Self(urls.iter().map(|url| (url.clone(), id(url))).collect())
    }

    pub(super) fn of_url(&self, url: &ShownUrl) -> Arc<str> {
        Arc::clone(self.0.get(url).unwrap_or_else(|| url.text()))
    }
}

fn host_and_port(url: &ShownUrl) -> Arc<str> {
    let parsed = Url::parse(url).ok();
    let parts =
        parsed.as_ref().and_then(|url| Some((url.host_str()?, url.port_or_known_default()?)));
    parts.map_or_else(|| Arc::clone(url.text()), |(host, port)| Arc::from(format!("{host}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_its_host_and_port_unless_another_has_the_same() {
        let urls = [
            "http://localhost:8000/metrics",
            "https://node/metrics",
            "http://[::1]:9/metrics",
            "http://shared:1/a/metrics",
            "http://shared:1/b/metrics",
        ]
        .map(ShownUrl::new);
        let ids = EndpointIds::from_urls(&urls);
        let found = urls.each_ref().map(|url| ids.of_url(url).to_string());
        let (a, b) = (&*urls[3], &*urls[4]);
        assert_eq!(found, ["localhost:8000", "node:443", "[::1]:9", a, b]);
        let unknown = ShownUrl::new("http://unknown:1/metrics");
        assert_eq!(*ids.of_url(&unknown), *unknown);
    }
}
