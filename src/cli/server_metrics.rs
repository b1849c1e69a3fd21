//! `--server-metrics` and its kin, and `AIPERF_SERVER_METRICS_*`.

use clap::Args;

use super::profile::ProfileArgs;
use super::value::{Choice, above_zero};
use crate::artifacts::server_metrics::{Formats, JsonLayout, ServerMetricsFiles};
use crate::config::{ConfigError, Environment, TransportConfig, metrics_url};
use crate::server_metrics::{Config, EndpointConfig};
use crate::units::Nanos;

const FORMATS: Choice<Format> = Choice(&[
    ("json", Format::Json),
    ("csv", Format::Csv),
    ("jsonl", Format::Jsonl),
    ("parquet", Format::Parquet),
]);
const LAYOUTS: Choice<JsonLayout> =
    Choice(&[("nested", JsonLayout::Nested), ("flat", JsonLayout::Flat)]);

/// A name given to `--server-metrics-formats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Csv,
    Jsonl,
    Parquet,
}

/// What is asked of the servers' own metrics.
#[derive(Args)]
#[command(next_help_heading = "Server Metrics")]
pub(super) struct ServerMetricsArgs {
    /// Prometheus endpoints to scrape beside /metrics of each --url; without a path /metrics is
    /// meant. Of several processes with --shard only the first scrapes, unless this is given
    #[arg(long, value_name = "URL", num_args = 1.., value_delimiter = ',')]
    pub(super) server_metrics: Vec<String>,
    /// Scrape nothing
    #[arg(long)]
    pub(super) no_server_metrics: bool,
    /// Files of the server's metrics [default: json csv parquet]
    #[arg(long, value_name = "FORMAT", value_parser = FORMATS, num_args = 1..,
          value_delimiter = ',')]
    pub(super) server_metrics_formats: Vec<Format>,
    /// Layout of the JSON file
    #[arg(long, value_name = "LAYOUT", value_parser = LAYOUTS, default_value = "nested")]
    pub(super) server_metrics_json_layout: JsonLayout,
    /// Show a table of the server's metrics that are worth a look
    #[arg(long)]
    pub(super) server_metrics_summary: bool,
    /// Statistics of slices of time of this length too, in seconds: of requests and of the
    /// server's metrics
    #[arg(long, value_name = "SECONDS", value_parser = above_zero)]
    pub(super) slice_duration: Option<f64>,
}

/// Where the server's metrics are scraped, and how often: nowhere where they are off.
pub(super) fn config(
    flags: &ProfileArgs,
    transport: &TransportConfig,
    path: &str,
    environment: Environment<'_>,
) -> Result<Config, ConfigError> {
    // All processes would see the same: one of them looks.
    let is_another = flags.distributed.shard.is_some_and(|shard| shard.index() > 0);
    let flags = &flags.server_metrics;
    only_when_on(flags)?;
    let is_off = flags.no_server_metrics || is_another && flags.server_metrics.is_empty();
    let defaults = Config::default();
    let seconds = |name, default| environment.seconds(&variable(name), default);
    Ok(Config {
        endpoints: if is_off {
            Vec::new()
        } else {
            endpoints(&flags.server_metrics, transport, path)?
        },
        interval: seconds("COLLECTION_INTERVAL", defaults.interval)?,
        flush_period: flush_period(environment, defaults.flush_period)?,
        reachability_timeout: seconds("REACHABILITY_TIMEOUT", defaults.reachability_timeout)?,
        scrape_timeout: seconds("SCRAPE_TIMEOUT", defaults.scrape_timeout)?,
        shutdown_delay: seconds("SHUTDOWN_DELAY", defaults.shutdown_delay)?,
    })
}

/// The full name of a variable.
fn variable(name: &str) -> String {
    format!("AIPERF_SERVER_METRICS_{name}")
}

/// Zero is no wait at all.
fn flush_period(environment: Environment<'_>, default: Nanos) -> Result<Nanos, ConfigError> {
    let name = variable("COLLECTION_FLUSH_PERIOD");
    let found = environment.parse(&name, "a number from 0 to 86400", |text| {
        text.parse().ok().filter(|number| (0.0..=86_400.0).contains(number))
    })?;
    Ok(found.map_or(default, Nanos::from_seconds))
}

/// Refuses what would be without effect.
fn only_when_on(flags: &ServerMetricsArgs) -> Result<(), ConfigError> {
    let given = [
        ("--server-metrics", !flags.server_metrics.is_empty()),
        ("--server-metrics-summary", flags.server_metrics_summary),
    ];
    match given.iter().find(|(_, is_given)| *is_given && flags.no_server_metrics) {
        Some((flag, _)) => {
            let why = "--no-server-metrics turns off what it asks for: leave one of the two out";
            Err(ConfigError::flag(flag, why))
        }
        None => Ok(()),
    }
}

/// `/metrics` of each server, then those asked for; each once.
fn endpoints(
    asked: &[String],
    transport: &TransportConfig,
    path: &str,
) -> Result<Vec<EndpointConfig>, ConfigError> {
    let discovered = transport.urls.iter().map(|base| metrics_url::of_server(base, path));
    let asked = asked.iter().map(|text| metrics_url::parse(text));
    let discovered = discovered.map(|url| Ok(EndpointConfig { url, is_discovered: true }));
    let asked = asked.map(|url| url.map(|url| EndpointConfig { url, is_discovered: false }));
    let mut endpoints: Vec<EndpointConfig> = Vec::new();
    for endpoint in discovered.chain(asked) {
        let endpoint = endpoint?;
        let is_same =
            |known: &&mut EndpointConfig| metrics_url::are_same(&known.url, &endpoint.url);
        match endpoints.iter_mut().find(is_same) {
            // What was asked for is what the user knows: credentials too.
            Some(known) if known.is_discovered && !endpoint.is_discovered => *known = endpoint,
            Some(_) => {}
            None => endpoints.push(endpoint),
        }
    }
    Ok(endpoints)
}

/// Length of the slices, if there are to be any.
fn slice_duration(flags: &ServerMetricsArgs) -> Result<Option<Nanos>, ConfigError> {
    match flags.slice_duration {
        Some(seconds) if seconds < 0.001 => {
            let why = "slices as short as that say nothing: give at least 0.001";
            Err(ConfigError::flag("--slice-duration", why))
        }
        found => Ok(found.map(Nanos::from_seconds)),
    }
}

/// Which files there are of what `scraped` says.
pub(super) fn files(
    flags: &ServerMetricsArgs,
    scraped: &Config,
    environment: Environment<'_>,
) -> Result<ServerMetricsFiles, ConfigError> {
    let defaults = ServerMetricsFiles::default();
    let has = |format| flags.server_metrics_formats.contains(&format);
    let formats = if flags.server_metrics_formats.is_empty() {
        defaults.formats
    } else {
        Formats {
            json: has(Format::Json),
            csv: has(Format::Csv),
            jsonl: has(Format::Jsonl),
            parquet: has(Format::Parquet),
        }
    };
    Ok(ServerMetricsFiles {
        formats,
        json_layout: flags.server_metrics_json_layout,
        batch_size: environment.count(&variable("EXPORT_BATCH_SIZE"), defaults.batch_size)?,
        endpoints: scraped.endpoints.iter().map(EndpointConfig::shown).collect(),
        slice_duration: slice_duration(flags)?,
    })
}
