//! Integration tests with real sockets and files, in a single binary.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a test says what it could not check")]
#![expect(clippy::disallowed_methods, reason = "a test limits how long it waits")]

mod ab;
mod adaptive;
mod agent_messages;
mod agents;
mod aiperf_models;
mod anonymize;
mod answers;
mod api;
mod arrivals;
mod artifacts;
#[cfg(unix)]
mod browser;
mod canaries;
mod capacity;
mod chat;
#[cfg(unix)]
mod ci_recipe;
mod cli;
mod collector;
mod combination;
#[cfg(unix)]
mod commit_messages;
mod compare;
mod config_files;
mod conformance;
mod connections;
mod dashboards;
mod dataset;
mod dialects;
mod directories;
#[cfg(unix)]
mod documents;
mod encoded_media;
mod endings;
mod endpoint;
mod events;
mod exemplars;
mod explain;
mod fresh_prompts;
mod gates;
mod gateways;
mod gen_ai_conventions;
mod gpu_telemetry;
mod highlights;
mod histogram_estimate;
mod hostile;
mod hub_datasets;
mod lane_endings;
mod lanes;
mod layout;
mod listing;
#[cfg(target_os = "linux")]
mod live_view;
mod load;
mod load_health;
mod many_runs;
mod media;
mod messages;
mod metric_sets;
mod metric_table;
mod metrics;
#[cfg(unix)]
mod mlflow;
mod mock_server;
mod models;
mod modes;
mod named_phases;
mod network_latency;
mod otel_config_file;
mod otel_replay;
mod otel_round_trip;
mod otlp_file;
mod output_health;
mod phase_datasets;
mod phases;
mod plots;
mod prefix_cache;
mod profile;
mod prompts;
mod provenance;
mod readiness;
mod recomputed;
mod referee;
mod replay;
mod report_page;
mod retrieval;
mod scrape_forwarder;
mod secrets;
mod selfcheck;
#[cfg(unix)]
mod server_control;
mod server_conventions;
mod server_metrics_run;
mod server_spans;
mod server_statistics;
mod server_timing;
mod sessions;
mod shards;
mod shards_auto;
#[cfg(unix)]
mod shell;
#[cfg(target_os = "linux")]
mod special_files;
mod steady_state;
mod support;
mod sweeps;
mod telemetry;
mod templates;
mod temporality;
mod tenants;
mod time_breakdown;
mod timeslices;
mod trace_files;
mod trace_load;
mod traces;
