//! The `--network-latency` flags and the `AIPERF_NETWORK_LATENCY_*` variables.

use clap::Args;

use base::units::Nanos;
use client::network_latency::{Config, Probing};
use client::transport;

use super::value::{millis_above_zero, seconds};
use crate::config::{ConfigError, Environment, ServerConfig};

/// Minimum interval in seconds, so that probes are not a load themselves.
const MIN_INTERVAL: f64 = 0.01;

/// Latencies without the network's round trip.
#[derive(Args)]
#[command(next_help_heading = "Network Latency")]
#[expect(clippy::struct_field_names, reason = "the names are those of the flags")]
pub(super) struct NetworkLatencyArgs {
    /// Measure the round-trip time to the servers with TCP connects during the run, and report
    /// latencies without it beside the measured ones
    #[arg(long, conflicts_with = "network_latency_mean")]
    pub(super) network_latency_automatic: bool,
    /// Round-trip time to the servers in milliseconds, to report latencies without it beside the
    /// measured ones
    #[arg(long, value_name = "MS", value_parser = millis_above_zero)]
    pub(super) network_latency_mean: Option<f64>,
    /// Time between two connects to a server, in seconds, at least 0.01; requires
    /// --network-latency-automatic [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = interval,
          requires = "network_latency_automatic")]
    pub(super) network_latency_ping_interval: Option<f64>,
}

/// How the round-trip time of the network is known, if it is asked for.
pub(super) fn config(
    flags: &NetworkLatencyArgs,
    server: &ServerConfig,
    transport: &transport::Config,
    environment: Environment<'_>,
) -> Result<Option<Config>, ConfigError> {
    let probing = probing(flags, environment)?;
    if let Some(mean) = flags.network_latency_mean {
        return Ok(Some(Config::Mean(Nanos::from_millis(mean))));
    }
    if !flags.network_latency_automatic {
        return Ok(None);
    }
    let proxies = &transport.connections.proxies;
    if let Some(url) = server.urls.iter().find(|url| proxies.apply_to(url.expose())) {
        let why = format!(
            "requests to {} go through a proxy, and a TCP connect would measure the distance of the \
             proxy; use --network-latency-mean",
            url.shown()
        );
        return Err(ConfigError::flag("--network-latency-automatic", why));
    }
    Ok(Some(Config::Automatic(probing)))
}

/// When the servers are connected to.
fn probing(
    flags: &NetworkLatencyArgs,
    environment: Environment<'_>,
) -> Result<Probing, ConfigError> {
    let Probing { interval, timeout, min_successes, top_up } = Probing::default();
    let expected = "a number of seconds, at least 0.01";
    let usual = "AIPERF_NETWORK_LATENCY_DEFAULT_PROBE_INTERVAL";
    let usual = environment.parse(usual, expected, |text| self::interval(text).ok())?;
    let given = flags.network_latency_ping_interval.or(usual);
    let seconds = |name, default| environment.seconds(name, default);
    Ok(Probing {
        interval: given.map_or(interval, Nanos::from_seconds),
        timeout: seconds("AIPERF_NETWORK_LATENCY_CONNECT_TIMEOUT", timeout)?,
        min_successes: environment.count("AIPERF_NETWORK_LATENCY_MIN_SAMPLES", min_successes)?,
        top_up: seconds("AIPERF_NETWORK_LATENCY_COMPLETE_TOPUP_TIMEOUT", top_up)?,
    })
}

/// Parses the time between two connects.
fn interval(text: &str) -> Result<f64, String> {
    let interval = seconds(text)?;
    if interval < MIN_INTERVAL {
        return Err(format!("expected at least {MIN_INTERVAL} seconds"));
    }
    Ok(interval)
}
