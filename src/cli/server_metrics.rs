//! The `--server-metrics` flags and the `AIPERF_SERVER_METRICS_*` variables.

use clap::Args;
use url::Url;

use base::redact::Secret;
use base::setting::named;
use base::units::Nanos;
use client::schedule::Shard;
use measure::server_metrics::{Config, EndpointConfig};
use results::artifacts::server_metrics::{Formats, JsonLayout, ServerMetricsFiles};

use super::value::{choice, seconds, seconds_above_zero};
use crate::config::{ConfigError, Environment, metrics_url};

/// A value of `--server-metrics-formats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Csv,
    Jsonl,
    Parquet,
}

named! {
    Format { "json" => Json, "csv" => Csv, "jsonl" => Jsonl, "parquet" => Parquet }
}

/// Collection of the servers' own metrics.
#[derive(Args)]
#[command(next_help_heading = "Server Metrics")]
pub(super) struct ServerMetricsArgs {
    /// Prometheus endpoints to scrape in addition to /metrics of each --url; the path defaults to
    /// /metrics. With --shard only the first process scrapes, unless this is given
    #[arg(long, value_name = "URL", num_args = 1.., value_delimiter = ',')]
    pub(super) server_metrics: Vec<String>,
    /// Do not scrape any server metrics
    #[arg(long, conflicts_with_all = ["server_metrics", "server_metrics_summary", "server_metrics_timeout"])]
    pub(super) no_server_metrics: bool,
    /// Timeout of a server metrics scrape, in seconds [default: two intervals, or longer for an
    /// endpoint that usually takes longer]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero)]
    pub(super) server_metrics_timeout: Option<f64>,
    /// File formats for server metrics; parquet includes samples of GPUs [default: json csv parquet]
    #[arg(long, value_name = "FORMAT", value_parser = choice::<Format>(), num_args = 1..,
          value_delimiter = ',')]
    pub(super) server_metrics_formats: Vec<Format>,
    /// Layout of the JSON file with server metrics
    #[arg(long, value_name = "LAYOUT", value_parser = choice::<JsonLayout>(), default_value = "nested")]
    pub(super) server_metrics_json_layout: JsonLayout,
    /// Print a table of the most important server metrics
    #[arg(long)]
    pub(super) server_metrics_summary: bool,
    /// Also compute statistics for time slices of this length, in seconds, both of requests and of
    /// server metrics
    #[arg(long, value_name = "SECONDS", value_parser = slice)]
    pub(super) slice_duration: Option<f64>,
}

/// The settings for scraping server metrics; without endpoints if scraping is off.
pub(super) fn config(
    flags: &ServerMetricsArgs,
    shard: Option<Shard>,
    servers: &[Secret<Url>],
    path: &str,
    environment: Environment<'_>,
) -> Result<Config, ConfigError> {
    // All processes would scrape the same metrics, so only the first one does.
    let is_another = shard.is_some_and(|shard| shard.index() > 0);
    let is_off = flags.no_server_metrics || is_another && flags.server_metrics.is_empty();
    let defaults = Config::default();
    let seconds = |name, default| environment.seconds(&variable(name), default);
    Ok(Config {
        local: None,
        exporters_of: defaults.exporters_of,
        endpoints: if is_off {
            Vec::new()
        } else {
            endpoints(&flags.server_metrics, servers, path)?
        },
        interval: seconds("COLLECTION_INTERVAL", defaults.interval)?,
        flush_period: flush_period(environment, defaults.flush_period)?,
        reachability_timeout: seconds("REACHABILITY_TIMEOUT", defaults.reachability_timeout)?,
        scrape_timeout: scrape_timeout(flags, environment)?,
        shutdown_delay: seconds("SHUTDOWN_DELAY", defaults.shutdown_delay)?,
        limits: defaults.limits,
    })
}

/// The full name of the variable.
fn variable(name: &str) -> String {
    format!("AIPERF_SERVER_METRICS_{name}")
}

/// The timeout of the flag, or else of the variable.
fn scrape_timeout(
    flags: &ServerMetricsArgs,
    environment: Environment<'_>,
) -> Result<Option<Nanos>, ConfigError> {
    if let Some(seconds) = flags.server_metrics_timeout {
        return Ok(Some(Nanos::from_seconds(seconds)));
    }
    let set = environment.seconds(&variable("SCRAPE_TIMEOUT"), Nanos::ZERO)?;
    Ok(Some(set).filter(|set| *set > Nanos::ZERO))
}

/// The flush period, which may be 0.
fn flush_period(environment: Environment<'_>, default: Nanos) -> Result<Nanos, ConfigError> {
    let name = variable("COLLECTION_FLUSH_PERIOD");
    let found = environment.parse(&name, "a number from 0 to 86400", |text| {
        text.parse().ok().filter(|number| (0.0..=86_400.0).contains(number))
    })?;
    Ok(found.map_or(default, Nanos::from_seconds))
}

/// `/metrics` of each server, then the endpoints given, without duplicates.
fn endpoints(
    asked: &[String],
    servers: &[Secret<Url>],
    path: &str,
) -> Result<Vec<EndpointConfig>, ConfigError> {
    let discovered = servers.iter().map(|base| metrics_url::of_server(base, path));
    let asked = asked.iter().map(|text| metrics_url::parse(text));
    let discovered = discovered.map(|url| Ok(EndpointConfig { url, is_discovered: true }));
    let asked = asked.map(|url| url.map(|url| EndpointConfig { url, is_discovered: false }));
    let mut endpoints: Vec<EndpointConfig> = Vec::new();
    for endpoint in discovered.chain(asked) {
        let endpoint = endpoint?;
        let is_same =
            |known: &&mut EndpointConfig| metrics_url::are_same(&known.url, &endpoint.url);
        match endpoints.iter_mut().find(is_same) {
            // The user's own URL wins, since it may have credentials.
            Some(known) if known.is_discovered && !endpoint.is_discovered => *known = endpoint,
            Some(_) => {}
            None => endpoints.push(endpoint),
        }
    }
    Ok(endpoints)
}

/// Parses the length of time slices, of at least a millisecond.
fn slice(text: &str) -> Result<f64, String> {
    match seconds(text)? {
        length if length >= 0.001 => Ok(length),
        _ => Err("must be at least 0.001".to_owned()),
    }
}

/// The files to write of the metrics that `scraped` collects.
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
        slice_duration: flags.slice_duration.map(Nanos::from_seconds),
    })
}
