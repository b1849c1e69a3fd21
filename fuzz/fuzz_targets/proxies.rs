//! Any proxy variables are rejected without revealing their values, or determine for every URL
//! whether it uses a proxy.
#![no_main]

use base::environment::Environment;
use client::transport::Proxies;
use libfuzzer_sys::fuzz_target;
use url::Url;

// The lines are the variables, then a URL.
fuzz_target!(|lines: &str| {
    let mut lines = lines.lines();
    let (http, https, all, no) = (lines.next(), lines.next(), lines.next(), lines.next());
    let proxies = Proxies::from_environment(Environment::new(&|name| {
        let value = match name {
            "HTTP_PROXY" => http,
            "HTTPS_PROXY" => https,
            "all_proxy" => all,
            "no_proxy" => no,
            _ => None,
        };
        value.map(str::to_owned)
    }));
    match proxies {
        Err(error) => {
            assert!(["HTTP_PROXY", "HTTPS_PROXY", "all_proxy"].contains(&error.variable));
        }
        Ok(proxies) => {
            let named = lines.next().and_then(|url| url.parse().ok());
            for url in named
                .into_iter()
                .chain(["http://a:1", "https://b"].map(|url| Url::parse(url).unwrap()))
            {
                let _ = proxies.apply_to(&url);
            }
        }
    }
});
