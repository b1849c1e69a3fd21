//! The `--gpu-telemetry` flags and the `AIPERF_GPU_*` variables.

use std::fs;
use std::path::Path;

use clap::Args;

use base::input;
use base::redact::{Secret, ShownUrl};
use base::units::Nanos;
use client::schedule::Shard;
use measure::gpu::Config;
use measure::gpu::fields::Fields;
use measure::gpu::local::Local;
use measure::server_metrics::EndpointConfig;

use super::value::seconds;
use crate::config::{ConfigError, Environment, metrics_url};

/// The exporters that are scraped in addition to those of the user.
const DEFAULT_EXPORTERS: [&str; 2] =
    ["http://localhost:9400/metrics", "http://localhost:9401/metrics"];

/// Power, energy and utilization of GPUs.
#[derive(Args)]
#[command(next_help_heading = "GPU Telemetry")]
pub(super) struct GpuArgs {
    /// Print the telemetry of GPUs; with URLs of DCGM or AMD exporters to scrape in addition to
    /// localhost:9400 and localhost:9401, a CSV file with further fields of DCGM, or `nvml` or
    /// `amdsmi` to read the GPUs of this machine without an exporter
    #[arg(long, value_name = "URL|FILE|nvml|amdsmi", num_args = 0.., value_delimiter = ',')]
    pub(super) gpu_telemetry: Option<Vec<String>>,
    /// Do not scrape any GPU telemetry
    #[arg(long, conflicts_with_all = ["gpu_telemetry", "gpu_idle_duration"])]
    pub(super) no_gpu_telemetry: bool,
    /// Time for which idle GPUs are measured before the first request, in seconds; only if an
    /// exporter responds [default: 1]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) gpu_idle_duration: Option<f64>,
}

/// What `--gpu-telemetry` asks for.
#[derive(Default)]
struct Asked {
    endpoints: Vec<EndpointConfig>,
    fields: Fields,
    warnings: Vec<String>,
    /// Whether the GPUs of this machine are read without an exporter.
    has_local: bool,
}

/// The settings for GPU telemetry, without exporters if it is off, and warnings about them.
pub(super) fn config(
    flags: &GpuArgs,
    shard: Option<Shard>,
    environment: Environment<'_>,
) -> Result<(Config, Vec<String>), ConfigError> {
    // All processes would scrape the same exporters, so only the first one does.
    let is_another = shard.is_some_and(|shard| shard.index() > 0);
    let asked = asked(flags.gpu_telemetry.as_deref().unwrap_or_default(), environment)?;
    let is_off = flags.no_gpu_telemetry || is_another && asked.endpoints.is_empty();
    let defaults = Config::default();
    let scrapes = defaults.scrapes;
    let seconds = |name: &str, default| environment.seconds(&format!("AIPERF_GPU_{name}"), default);
    let idle = flags.gpu_idle_duration.map(Nanos::from_seconds);
    let config = Config {
        scrapes: measure::server_metrics::Config {
            endpoints: if is_off {
                Vec::new()
            } else if asked.has_local {
                asked.endpoints
            } else {
                with_defaults(asked.endpoints, environment)?
            },
            interval: seconds("COLLECTION_INTERVAL", scrapes.interval)?,
            flush_period: grace(environment, scrapes.flush_period)?,
            reachability_timeout: seconds("REACHABILITY_TIMEOUT", scrapes.reachability_timeout)?,
            shutdown_delay: seconds("SHUTDOWN_DELAY", scrapes.shutdown_delay)?,
            ..scrapes
        },
        fields: asked.fields,
        is_asked: flags.gpu_telemetry.is_some(),
        idle: idle.unwrap_or(defaults.idle),
        batch_size: environment.count("AIPERF_GPU_EXPORT_BATCH_SIZE", defaults.batch_size)?,
    };
    Ok((config, asked.warnings))
}

/// The time to wait for energy counters after the run, which may be 0.
fn grace(environment: Environment<'_>, default: Nanos) -> Result<Nanos, ConfigError> {
    let expected = "a whole number of nanoseconds, at most a day";
    let found = environment.parse("AIPERF_GPU_FINAL_SCRAPE_GRACE_NS", expected, |text| {
        text.parse().ok().filter(|nanos: &u64| *nanos <= 86_400_000_000_000)
    })?;
    Ok(found.map_or(default, Nanos))
}

fn asked(items: &[String], environment: Environment<'_>) -> Result<Asked, ConfigError> {
    let mut asked = Asked::default();
    let wrong = |why: String| Err(ConfigError::flag("--gpu-telemetry", why));
    for item in items {
        let item = item.trim();
        if let Some(local) = Local::named(&item.to_ascii_lowercase()) {
            let sysfs = environment.get("AIPERF_GPU_SYSFS");
            let url = local.url(sysfs.as_deref());
            let url = url.map(Secret::new);
            let endpoint = url.map(|url| EndpointConfig { url, is_discovered: false });
            asked.endpoints.extend(endpoint);
            asked.has_local = true;
            continue;
        }
        match item.to_ascii_lowercase().as_str() {
            // The live view always shows GPUs.
            "" | "dashboard" => {}
            _ if Path::new(item).extension().is_some_and(|end| end.eq_ignore_ascii_case("csv")) => {
                let errors = asked.fields.extend(&read(item)?);
                asked.warnings.extend(errors.iter().map(|error| format!("{item}: {error}")));
            }
            _ if item.contains(':') => {
                let url = metrics_url::parse(item)?;
                asked.endpoints.push(EndpointConfig { url, is_discovered: false });
            }
            _ => {
                return wrong(format!(
                    "{:?} is neither a URL nor a CSV file; write host:port or http://host:port",
                    ShownUrl::new(item)
                ));
            }
        }
    }
    Ok(asked)
}

fn read(path: &str) -> Result<String, ConfigError> {
    let failed =
        |why: String| ConfigError::File { flag: "--gpu-telemetry", path: path.to_owned(), why };
    let found = fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if !found.is_file() {
        return Err(failed("it is not a file".to_owned()));
    }
    input::text(Path::new(path), input::MAX_SETTINGS_BYTES)
        .map_err(|error| failed(error.to_string()))
}

/// The usual exporters, then the `given` ones, without duplicates.
fn with_defaults(
    given: Vec<EndpointConfig>,
    environment: Environment<'_>,
) -> Result<Vec<EndpointConfig>, ConfigError> {
    let mut endpoints: Vec<EndpointConfig> = Vec::new();
    let usual = usual(environment)?.into_iter();
    let usual = usual.map(|url| EndpointConfig { url, is_discovered: true });
    for endpoint in usual.chain(given) {
        let is_same =
            |known: &&mut EndpointConfig| metrics_url::are_same(&known.url, &endpoint.url);
        match endpoints.iter_mut().find(is_same) {
            // The user's own URL wins, since it may have credentials.
            Some(known) if !endpoint.is_discovered => *known = endpoint,
            Some(_) => {}
            None => endpoints.push(endpoint),
        }
    }
    Ok(endpoints)
}

/// The usual exporters, which the environment may change: a list in JSON, or separated by commas.
fn usual(environment: Environment<'_>) -> Result<Vec<Secret<url::Url>>, ConfigError> {
    let name = "AIPERF_GPU_DEFAULT_DCGM_ENDPOINTS";
    let expected = "a list of URLs, in JSON or separated by commas";
    let found = environment.parse(name, expected, |text| {
        let listed: Vec<String> = if text.starts_with('[') {
            serde_json::from_str(text).ok()?
        } else {
            text.split(',').map(|url| url.trim().to_owned()).collect()
        };
        listed.iter().map(|url| metrics_url::parse(url).ok()).collect::<Option<Vec<_>>>()
    })?;
    match found {
        Some(urls) => Ok(urls),
        None => DEFAULT_EXPORTERS.iter().map(|url| metrics_url::parse(url)).collect(),
    }
}
