//! Settings that do not have a field in AIPerf's `input_config`: `run_info.other_config`.

use serde_json::Value;

use super::super::profile::TlsArgs;
use super::{Object, shown_path};
use crate::artifacts::server_metrics::JsonLayout;
use crate::config::RunConfig;
use crate::dataset::{FileFormat, Source};
use crate::multi_run::{self, Dimension};
use crate::transport;
use crate::transport::IpVersion;
use crate::units::Nanos;

/// Builds the object. Settings without a value or default are absent.
pub(in super::super) fn build(tls: &TlsArgs, config: &RunConfig) -> Value {
    Object::default()
        .put_some("multi_run", multi_run(&config.multi_run))
        .put_some("dataset", file(config))
        .put("connections", connections(tls, &config.transport))
        .put("server_metrics", server_metrics(config))
        .put("otel", otel(config))
        .into_value()
}

/// The number of runs, and what they search for.
fn multi_run(config: &multi_run::Config) -> Option<Value> {
    let search = config.search.map(|search| {
        let [min, max] = match search.dimension {
            Dimension::Concurrency => ["concurrency_min", "concurrency_max"],
            Dimension::RequestRate => ["request_rate_min", "request_rate_max"],
        };
        Object::default()
            .put("recipe", multi_run::search::RECIPE)
            .put(min, search.dimension.load(search.min).value())
            .put(max, search.dimension.load(search.max).value())
            .put("slo_attainment_fraction", search.attainment)
            .into_value()
    });
    config.is_many().then(|| {
        Object::default()
            .put("num_runs", config.runs)
            .put("cooldown_seconds", config.cooldown.as_seconds())
            .put("confidence_level", config.confidence_level)
            .put("disable_warmup_after_first", !config.repeats_warmup)
            .put("vary_seed_per_trial", config.varies_seed)
            .put_some("search", search)
            .into_value()
    })
}

/// Settings of a dataset file.
fn file(config: &RunConfig) -> Option<Value> {
    let Source::File { format, .. } = &config.dataset.source else { return None };
    let object = Object::default()
        .put_some("format", (*format == Some(FileFormat::ShareGpt)).then_some("sharegpt"))
        .put("turn_delay_ratio", config.dataset.delay_ratio);
    Some(object.into_value())
}

fn connections(tls: &TlsArgs, transport: &transport::Config) -> Value {
    let connections = &transport.connections;
    let ip_version = match transport.ip_version {
        IpVersion::V4 => "4",
        IpVersion::V6 => "6",
        IpVersion::Any => "any",
    };
    Object::default()
        .put("limit", connections.limit)
        .put("keepalive_timeout", connections.keepalive_timeout.as_seconds())
        .put_some("dns_cache_ttl", connections.dns_cache_ttl.map(Nanos::as_seconds))
        .put("ip_version", ip_version)
        .put("quick_ack", transport.quick_ack)
        .put("kernel_timestamps", transport.kernel_timestamps)
        .put("ssl_verify", connections.tls.verify)
        .put_some("ssl_ca_cert", tls.ssl_ca_cert.as_deref().map(shown_path))
        .put_some("ssl_cert", tls.ssl_cert.as_deref().map(shown_path))
        .into_value()
}

fn server_metrics(config: &RunConfig) -> Value {
    let layout = match config.artifacts.server_metrics.json_layout {
        JsonLayout::Nested => "nested",
        JsonLayout::Flat => "flat",
    };
    Object::default()
        .put("json_layout", layout)
        .put("summary", config.show_server_metrics)
        .put("collection_interval", config.server_metrics.interval.as_seconds())
        .put_some("timeout", config.server_metrics.scrape_timeout.map(Nanos::as_seconds))
        .into_value()
}

fn otel(config: &RunConfig) -> Value {
    let telemetry = &config.telemetry;
    Object::default()
        .put("flush_interval", telemetry.interval_seconds)
        .put_some("exponential_histograms", telemetry.exponential_histograms)
        .put_some("trace_sample", telemetry.trace_sample.map(|sample| sample.to_string()))
        .into_value()
}
