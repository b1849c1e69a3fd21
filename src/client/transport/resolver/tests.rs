use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc;

use super::*;

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Creates a resolver that returns the number of the lookup as the address, and the counter.
fn counting(ttl: Option<Nanos>) -> (Resolver, Arc<AtomicU8>) {
    let count = Arc::new(AtomicU8::new(0));
    let counter = Arc::clone(&count);
    let look_up = move |_: &str| {
        let number = counter.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, number))])
    };
    (Resolver::asking(Arc::new(look_up), ttl), count)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn host() -> Arc<str> {
    "host.example".into()
}

#[test]
fn those_who_ask_at_once_share_one_look_up() {
    let (answer, answers) = mpsc::channel();
    let answers = Lock::new(answers);
    let asked = Arc::new(AtomicU8::new(0));
    let counter = Arc::clone(&asked);
    let look_up = move |_: &str| {
        counter.fetch_add(1, Ordering::SeqCst);
        // The lookup runs until the test lets it end.
        answers.lock().recv().map_err(io::Error::other)
    };
    let resolver = Resolver::asking(Arc::new(look_up), Some(Nanos::from_seconds(300.0)));
    run(async {
        let (mut first, mut second) = (HttpTrace::default(), HttpTrace::default());
        let host = host();
        let both = async {
            tokio::join!(
                resolver.addresses(&host, &mut first),
                resolver.addresses(&host, &mut second),
                async { answer.send(vec![ADDRESS]).unwrap() }
            )
        };
        let (one, other, ()) = both.await;
        assert_eq!(one.unwrap()[..], [ADDRESS]);
        assert_eq!(other.unwrap()[..], [ADDRESS]);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        for trace in [&first, &second] {
            assert_eq!((trace.dns_cache_miss, trace.dns_cache_hit), (trace.dns_start, None));
            assert!(trace.dns_end >= trace.dns_start && trace.dns_start.is_some());
        }
        let mut later = HttpTrace::default();
        resolver.addresses(&host, &mut later).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert!(later.dns_cache_hit.is_some());
        assert_eq!((later.dns_cache_miss, later.dns_lookup()), (None, None));
    });
}

#[test]
fn addresses_are_kept_as_long_as_asked_for() {
    run(async {
        let host = host();
        // (cache time, number of lookups for two requests one after the other)
        for (ttl, look_ups) in
            [(Some(Nanos::from_seconds(300.0)), 1), (Some(Nanos::ZERO), 2), (None, 2)]
        {
            let (resolver, count) = counting(ttl);
            let mut trace = HttpTrace::default();
            resolver.addresses(&host, &mut HttpTrace::default()).await.unwrap();
            let addresses = resolver.addresses(&host, &mut trace).await.unwrap();
            assert_eq!(count.load(Ordering::SeqCst), look_ups, "{ttl:?}");
            assert_eq!(addresses[0], IpAddr::V4(Ipv4Addr::new(192, 0, 2, look_ups)));
            assert_eq!(trace.dns_cache_hit.is_some(), look_ups == 1);
            // Without a cache, nothing can miss it.
            assert_eq!(trace.dns_cache_miss.is_some(), look_ups == 2 && ttl.is_some());
            assert_eq!(trace.dns_lookup().is_some(), look_ups == 2);
        }
    });
}

#[test]
fn a_failure_is_not_kept() {
    let asked = Arc::new(AtomicU8::new(0));
    let counter = Arc::clone(&asked);
    let look_up = move |_: &str| match counter.fetch_add(1, Ordering::SeqCst) {
        0 => Err(io::Error::other("no such host")),
        _ => Ok(vec![ADDRESS]),
    };
    let resolver = Resolver::asking(Arc::new(look_up), Some(Nanos::from_seconds(300.0)));
    run(async {
        let (host, mut trace) = (host(), HttpTrace::default());
        let error = resolver.addresses(&host, &mut trace).await.unwrap_err();
        assert_eq!(error.name, "DnsError");
        assert_eq!(error.message, "cannot resolve `host.example`: no such host");
        assert!(trace.dns_start.is_some() && trace.dns_end.is_none());
        resolver.addresses(&host, &mut trace).await.unwrap();
    });
}

#[test]
fn a_look_up_that_hangs_is_given_up_and_asked_again() {
    let asked = Arc::new(AtomicU8::new(0));
    let counter = Arc::clone(&asked);
    let look_up = move |_: &str| {
        if counter.fetch_add(1, Ordering::SeqCst) == 0 {
            thread::park();
        }
        Ok(vec![ADDRESS])
    };
    let mut resolver = Resolver::asking(Arc::new(look_up), None);
    resolver.timeout = Nanos::from_millis(20.0);
    run(async {
        let (host, mut trace) = (host(), HttpTrace::default());
        let error = resolver.addresses(&host, &mut trace).await.unwrap_err();
        assert_eq!((error.kind, error.name.as_str()), (ErrorKind::Timeout, "DnsTimeout"));
        resolver.timeout = LOOK_UP_TIMEOUT;
        // The hanging lookup is younger than its timeout; age it.
        resolver.known.lock().get_mut(&host).unwrap().begun = Nanos::ZERO;
        resolver.addresses(&host, &mut trace).await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn an_address_needs_no_look_up() {
    let (resolver, count) = counting(None);
    let mut trace = HttpTrace::default();
    let found = run(resolver.addresses(&"::1".into(), &mut trace)).unwrap();
    assert_eq!(found[0], IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!((count.load(Ordering::SeqCst), trace.dns_start), (0, None));
}
