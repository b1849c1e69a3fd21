//! Host addresses with a cache. Lookups run on their own threads, because the system's resolver
//! blocks and cannot be stopped.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread;

use tokio::sync::watch;

use base::lock::Lock;
use base::platform::exhaustion::Exhausted;
use base::units::{Clock, Nanos};

use super::IpVersion;
use super::exhaustion;
use crate::record::{ErrorKind, HttpTrace, RequestError};

/// Timeout of a lookup. By default the system's resolver itself stops after two attempts of 5 s at
/// each of up to three servers.
const LOOK_UP_TIMEOUT: Nanos = Nanos(30_000_000_000);

/// Looks up the addresses of a host; blocks.
type LookUp = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// The addresses, or the error of the lookup.
type Answer = Result<Arc<[IpAddr]>, Refusal>;

/// The resource that the client lacks, if that is the cause, and the message of the resolver.
type Refusal = (Option<Exhausted>, Arc<str>);

/// Resolves hosts for all clients of a process. Concurrent lookups of the same host are shared.
pub(super) struct Resolver {
    look_up: Arc<LookUp>,
    /// How long addresses are cached; `None` disables the cache.
    ttl: Option<Nanos>,
    timeout: Nanos,
    known: Lock<HashMap<Arc<str>, Entry>>,
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resolver").field("ttl", &self.ttl).finish_non_exhaustive()
    }
}

/// A lookup: `None` while it runs, then its end and its result.
#[derive(Clone)]
struct Entry {
    begun: Nanos,
    outcome: watch::Receiver<Option<(Nanos, Answer)>>,
}

/// Where the addresses of a host come from.
enum Lookup {
    /// From the cache.
    Addresses(Arc<[IpAddr]>),
    /// From a lookup that is in progress.
    Soon(Entry),
}

impl Resolver {
    /// Creates a resolver that uses the system's resolver and caches for `ttl`.
    pub(super) fn new(ip_version: IpVersion, ttl: Option<Nanos>) -> Self {
        Self::asking(Arc::new(move |host: &str| system_addresses(host, ip_version)), ttl)
    }

    fn asking(look_up: Arc<LookUp>, ttl: Option<Nanos>) -> Self {
        Self { look_up, ttl, timeout: LOOK_UP_TIMEOUT, known: Lock::default() }
    }

    /// Returns the addresses of `host`, at least one, and records the lookup in `trace`.
    pub(super) async fn addresses(
        &self,
        host: &Arc<str>,
        trace: &mut HttpTrace,
    ) -> Result<Arc<[IpAddr]>, RequestError> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(Arc::from([ip]));
        }
        let now = Clock::now();
        let entry = match self.find(host, now)? {
            Lookup::Addresses(addresses) => {
                trace.dns_cache_hit = Some(now);
                return Ok(addresses);
            }
            Lookup::Soon(entry) => entry,
        };
        trace.dns_cache_miss = self.ttl.map(|_| now);
        trace.dns_start = Some(now);
        let answer = self.wait(entry).await.map_err(|()| {
            let seconds = self.timeout.as_seconds();
            let message = format!("cannot resolve `{host}`: no response within {seconds} s");
            RequestError::new(ErrorKind::Timeout, "DnsTimeout", message)
        })?;
        let addresses = answer.map_err(|(exhausted, why)| match exhausted {
            Some(exhausted) => exhaustion::error(exhausted, &format!("cannot resolve `{host}`")),
            None => dns_error(host, &why),
        })?;
        trace.dns_end = Some(Clock::now());
        Ok(addresses)
    }

    /// Returns the cached addresses, or a lookup that is in progress or starts now. A lookup past
    /// its timeout is ignored.
    fn find(&self, host: &Arc<str>, now: Nanos) -> Result<Lookup, RequestError> {
        let mut known = self.known.lock();
        if let Some(entry) = known.get(host) {
            match &*entry.outcome.borrow() {
                None if now.since(entry.begun) < self.timeout => {
                    return Ok(Lookup::Soon(entry.clone()));
                }
                Some((at, Ok(addresses))) if self.ttl.is_some_and(|ttl| now.since(*at) < ttl) => {
                    return Ok(Lookup::Addresses(Arc::clone(addresses)));
                }
                _ => {}
            }
        }
        let entry = self.begin(host, now)?;
        known.insert(Arc::clone(host), entry.clone());
        Ok(Lookup::Soon(entry))
    }

    /// Starts a lookup.
    fn begin(&self, host: &Arc<str>, now: Nanos) -> Result<Entry, RequestError> {
        let (sender, outcome) = watch::channel(None);
        let (look_up, name) = (Arc::clone(&self.look_up), Arc::clone(host));
        let work = move || {
            let answer: Answer = match look_up(&name) {
                Ok(addresses) => Ok(addresses.into()),
                Err(error) => Err((exhaustion::of_lookup(&error), error.to_string().into())),
            };
            sender.send_replace(Some((Clock::now(), answer)));
        };
        // Not joined, so that a hanging resolver does not delay the end of the run.
        thread::Builder::new()
            .name("dns".to_owned())
            .spawn(work)
            .map_err(|error| dns_error(host, &error.to_string()))?;
        Ok(Entry { begun: now, outcome })
    }

    /// Waits for a lookup to end, up to the timeout.
    async fn wait(&self, mut entry: Entry) -> Result<Answer, ()> {
        let ended = entry.outcome.wait_for(Option::is_some);
        match tokio::time::timeout(self.timeout.into(), ended).await {
            Ok(Ok(outcome)) => outcome.as_ref().map(|(_, answer)| answer.clone()).ok_or(()),
            // The thread panicked.
            Ok(Err(_)) => Ok(Err((None, "the lookup ended unexpectedly".into()))),
            Err(_) => Err(()),
        }
    }
}

fn dns_error(host: &str, why: &str) -> RequestError {
    let message = format!("cannot resolve `{host}`: {why}");
    RequestError::new(ErrorKind::Other, "DnsError", message)
}

fn system_addresses(host: &str, ip_version: IpVersion) -> io::Result<Vec<IpAddr>> {
    let mut ips: Vec<IpAddr> = (host, 0).to_socket_addrs()?.map(|address| address.ip()).collect();
    ips.retain(|ip| match ip_version {
        IpVersion::V4 => ip.is_ipv4(),
        IpVersion::V6 => ip.is_ipv6(),
        IpVersion::Any => true,
    });
    ips.dedup();
    if ips.is_empty() {
        Err(io::Error::other("the name does not have an address of the requested IP version"))
    } else {
        Ok(ips)
    }
}

#[cfg(test)]
mod tests;
