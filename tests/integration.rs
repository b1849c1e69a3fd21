//! One binary of tests over real sockets and real files.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test says what it could not check")]

#[path = "integration/arrivals.rs"]
mod arrivals;
#[path = "integration/artifacts.rs"]
mod artifacts;
#[path = "integration/cli.rs"]
mod cli;
#[path = "integration/collector.rs"]
mod collector;
#[path = "integration/combination.rs"]
mod combination;
#[path = "integration/conformance.rs"]
mod conformance;
#[path = "integration/connections.rs"]
mod connections;
#[path = "integration/dashboards.rs"]
mod dashboards;
#[path = "integration/dataset.rs"]
mod dataset;
#[path = "integration/dialects.rs"]
mod dialects;
#[cfg(unix)]
#[path = "integration/documents.rs"]
mod documents;
#[path = "integration/encoded_media.rs"]
mod encoded_media;
#[path = "integration/endpoint.rs"]
mod endpoint;
#[path = "integration/histogram_estimate.rs"]
mod histogram_estimate;
#[path = "integration/hostile.rs"]
mod hostile;
#[path = "integration/layout.rs"]
mod layout;
#[path = "integration/load.rs"]
mod load;
#[path = "integration/many_runs.rs"]
mod many_runs;
#[path = "integration/media.rs"]
mod media;
#[path = "integration/metric_table.rs"]
mod metric_table;
#[path = "integration/metrics.rs"]
mod metrics;
#[path = "integration/metrics_endpoint.rs"]
mod metrics_endpoint;
#[path = "integration/mock_server.rs"]
mod mock_server;
#[path = "integration/modes.rs"]
mod modes;
#[path = "integration/otlp_receiver.rs"]
mod otlp_receiver;
#[path = "integration/phases.rs"]
mod phases;
#[path = "integration/profile.rs"]
mod profile;
#[path = "integration/raw_server.rs"]
mod raw_server;
#[path = "integration/recomputed.rs"]
mod recomputed;
#[path = "integration/replay.rs"]
mod replay;
#[path = "integration/retrieval.rs"]
mod retrieval;
#[path = "integration/scrape_forwarder.rs"]
mod scrape_forwarder;
#[path = "integration/selfcheck.rs"]
mod selfcheck;
#[path = "integration/server_metrics_run.rs"]
mod server_metrics_run;
#[path = "integration/server_statistics.rs"]
mod server_statistics;
#[path = "integration/shards.rs"]
mod shards;
#[cfg(unix)]
#[path = "integration/shell.rs"]
mod shell;
#[path = "integration/telemetry.rs"]
mod telemetry;
#[path = "integration/templates.rs"]
mod templates;
#[path = "integration/timeslices.rs"]
mod timeslices;
#[path = "integration/trace_load.rs"]
mod trace_load;
#[path = "integration/traces.rs"]
mod traces;
