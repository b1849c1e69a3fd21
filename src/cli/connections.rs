//! Connection settings: `--connection-reuse-strategy`, `--ssl-*` and `AIPERF_HTTP_*`.

use std::path::Path;

use url::{Host, Url};

use base::environment::InvalidVariable;
use base::input;
use base::redact::Secret;
use base::units::Nanos;
use client::transport::tls::{self, Identity};
use client::transport::{Proxies, SocketOptions, TlsError, TlsOptions};

use super::profile::TlsArgs;
use crate::config::{ConfigError, ConnectionReuse, Connections, Environment, RunConfig};

/// The connection settings of the flags and of `environment`.
pub(super) fn connections(
    reuse: ConnectionReuse,
    tls: &TlsArgs,
    environment: Environment<'_>,
) -> Result<Connections, ConfigError> {
    let defaults = Connections::default();
    let caches = environment.switch("AIPERF_HTTP_USE_DNS_CACHE", true)?;
    let ttl = seconds(environment, "AIPERF_HTTP_TTL_DNS_CACHE", 300.0)?;
    let trusts = environment.switch("AIPERF_HTTP_TRUST_ENV", false)?;
    Ok(Connections {
        limit: environment.count(LIMIT, defaults.limit)?,
        reuse,
        keepalive_timeout: seconds(environment, "AIPERF_HTTP_KEEPALIVE_TIMEOUT", 300.0)?,
        dns_cache_ttl: caches.then_some(ttl),
        sockets: sockets(environment)?,
        tls: tls_options(tls, environment)?,
        proxies: if trusts { proxies(environment)? } else { Proxies::default() },
    })
}

/// The variable of the limit on connections.
const LIMIT: &str = "AIPERF_HTTP_CONNECTION_LIMIT";

/// The limit on the connections of a run that may have `in_flight` requests at the same time, which
/// may go to any of `servers`: as configured, or else so many that none of them waits for another's
/// connection.
pub(super) fn limit(
    in_flight: Option<u64>,
    servers: usize,
    environment: Environment<'_>,
) -> Result<usize, InvalidVariable> {
    let needed = in_flight.unwrap_or(0).saturating_mul(servers as u64);
    let needed = usize::try_from(needed).unwrap_or(usize::MAX);
    environment.count(LIMIT, Connections::default().limit.max(needed))
}

/// The warning for a proxy that the environment sets and that is not used.
pub(super) fn warning(config: &RunConfig, environment: Environment<'_>) -> Option<String> {
    if config.transport.connections.proxies.are_used() {
        return None;
    }
    let unused = proxies(environment).ok()?;
    let goes_by = |url: &&Secret<Url>| !is_loopback(url.expose()) && unused.apply_to(url.expose());
    let url = config.server.urls.iter().find(goes_by)?.shown();
    Some(format!(
        "the environment sets a proxy, but requests go directly to {url}; set \
         AIPERF_HTTP_TRUST_ENV=true to use the proxy"
    ))
}

fn proxies(environment: Environment<'_>) -> Result<Proxies, ConfigError> {
    Proxies::from_environment(environment).map_err(ConfigError::Proxy)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

fn seconds(
    environment: Environment<'_>,
    name: &str,
    default: f64,
) -> Result<Nanos, InvalidVariable> {
    environment.number(name, default).map(Nanos::from_seconds)
}

fn sockets(environment: Environment<'_>) -> Result<SocketOptions, ConfigError> {
    let defaults = SocketOptions::default();
    let whole = |name, default: u32| environment.whole(name, default);
    Ok(SocketOptions {
        receive_buffer: whole("AIPERF_HTTP_SO_RCVBUF", defaults.receive_buffer)?,
        send_buffer: whole("AIPERF_HTTP_SO_SNDBUF", defaults.send_buffer)?,
        keepalive_idle: seconds(environment, "AIPERF_HTTP_TCP_KEEPIDLE", 60.0)?,
        keepalive_interval: seconds(environment, "AIPERF_HTTP_TCP_KEEPINTVL", 30.0)?,
        keepalive_count: whole("AIPERF_HTTP_TCP_KEEPCNT", defaults.keepalive_count)?,
        user_timeout: Nanos::from_millis(
            environment.number("AIPERF_HTTP_TCP_USER_TIMEOUT", 30_000.0)?,
        ),
    })
}

fn tls_options(flags: &TlsArgs, environment: Environment<'_>) -> Result<TlsOptions, ConfigError> {
    let verify = match (flags.ssl_verify, flags.no_ssl_verify) {
        (true, _) => true,
        (_, true) => false,
        _ => environment.switch("AIPERF_HTTP_SSL_VERIFY", true)?,
    };
    let authorities = match &flags.ssl_ca_cert {
        Some(path) => {
            let pem = read("--ssl-ca-cert", path)?;
            let refused = |error| unusable("--ssl-ca-cert", path, &error);
            Some(tls::authorities(&pem).map_err(refused)?)
        }
        None => None,
    };
    let identity = flags.ssl_cert.as_ref().map(|path| identity(path, flags.ssl_key.as_deref()));
    Ok(TlsOptions {
        verify,
        authorities,
        authorities_file: flags.ssl_ca_cert.clone(),
        identity: identity.transpose()?,
        certificate_file: flags.ssl_cert.clone(),
    })
}

fn identity(certificate: &Path, key: Option<&Path>) -> Result<Identity, ConfigError> {
    let chain = read("--ssl-cert", certificate)?;
    let key = key.unwrap_or(certificate);
    let key_text = read("--ssl-key", key)?;
    Identity::from_pem(&chain, &key_text).map_err(|error| match error {
        TlsError::NoKey | TlsError::Key(_) => unusable("--ssl-key", key, &error),
        _ => unusable("--ssl-cert", certificate, &error),
    })
}

fn read(flag: &'static str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    input::bytes(path, input::MAX_SETTINGS_BYTES).map_err(|error| ConfigError::File {
        flag,
        path: path.display().to_string(),
        why: error.to_string(),
    })
}

fn unusable(flag: &'static str, path: &Path, error: &TlsError) -> ConfigError {
    ConfigError::flag(flag, format!("{}: {error}", path.display()))
}
