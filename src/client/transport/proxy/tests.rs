use super::*;

fn proxies(variables: &[(&'static str, &str)]) -> Result<Proxies, ProxyError> {
    Proxies::from_environment(Environment::new(&|name| {
        variables.iter().find(|(have, _)| *have == name).map(|(_, value)| (*value).to_owned())
    }))
}

fn way(proxies: &Proxies, url: &str) -> Option<String> {
    let target = Target::new(&Url::parse(url).unwrap()).unwrap();
    let found = proxies.on_the_way_to(&target);
    assert_eq!(found.is_some(), proxies.apply_to(&Url::parse(url).unwrap()));
    found.map(|proxy| format!("{proxy:?}"))
}

#[test]
fn each_scheme_has_its_proxy() {
    let proxies = proxies(&[
        ("HTTP_PROXY", "http://plain.example:3128"),
        ("https_proxy", "secure.example"),
        ("ALL_PROXY", "http://any.example"),
        ("NO_PROXY", "internal.example, 10.0.0.0/8"),
    ])
    .unwrap();
    let way = |url| way(&proxies, url);
    assert_eq!(way("http://model.example/v1").as_deref(), Some("plain.example:3128"));
    assert_eq!(way("https://model.example/v1").as_deref(), Some("secure.example:80"));
    assert_eq!(way("http://a.internal.example/v1"), None);
    assert_eq!(way("https://10.1.2.3:8000/v1"), None);
    assert!(way("https://11.1.2.3:8000/v1").is_some());
}

#[test]
fn one_for_all_and_none_at_all() {
    let all = proxies(&[("all_proxy", "http://[::1]:8080")]).unwrap();
    assert_eq!(way(&all, "https://model.example/").as_deref(), Some("::1:8080"));
    assert_eq!(way(&all, "http://model.example/").as_deref(), Some("::1:8080"));
    assert_eq!(way(&proxies(&[]).unwrap(), "http://model.example/"), None);
    assert_eq!(way(&Proxies::default(), "http://model.example/"), None);
}

#[test]
fn credentials_are_sent_and_never_shown() {
    let proxies = proxies(&[("HTTPS_PROXY", "http://user:p%40ss@proxy.example:3128")]).unwrap();
    let target = Target::new(&Url::parse("https://model.example/v1").unwrap()).unwrap();
    let proxy = proxies.on_the_way_to(&target).unwrap();
    // base64 of `user:p@ss`.
    assert_eq!(
        String::from_utf8(proxy.connect_request(&target.authority())).unwrap(),
        "CONNECT model.example:443 HTTP/1.1\r\nHost: model.example:443\r\n\
         Proxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n"
    );
    let shown = format!("{proxies:?} {proxy:?} {:?}", proxy.authorization);
    assert!(!shown.contains("dXNlcjpwQHNz") && !shown.contains("p%40ss"), "{shown}");
}

#[test]
fn what_is_not_an_http_proxy_is_refused_by_its_variable() {
    for value in ["socks5://proxy.example", "https://proxy.example", "ftp://x", "http://", "a b"] {
        let error = proxies(&[("all_proxy", value)]).unwrap_err();
        assert_eq!(error.variable, "all_proxy", "{value}");
    }
    let error = proxies(&[("HTTP_PROXY", "socks5://user:hunter2@proxy.example")]).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}
