//! Converts flags and environment to a [`RunConfig`].

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::Path;

use base::redact;
use base::redact::Secret;
use base::statistics::{Percentiles, further};
use base::units::Nanos;
use client::endpoint::ContextOverflow;
use client::schedule::Shard;
use client::server_family::TimingMode;
use measure::judge;
use measure::judge::Gate;
use measure::judge::adaptive::Conditions;
use measure::metrics::metric::{LatencyFrom, Percent, Settings};
use measure::multi_run::recipe::Recipe;
use measure::otlp_receiver;
use results::api;
use results::artifacts;
use results::artifacts::layout::Layout;
use results::artifacts::server_metrics::ServerMetricsFiles;
use results::console::Ui;
use results::report::PageFile;
use results::report::plot::AutoPlot;
use results::run::Tables;

use super::distributed::Distributed;
use super::gates::{GateArgs, StopArgs};
use super::given::Given;
use super::phases::Listed;
use super::profile::{
    EndpointArgs, Histograms, OutputArgs, ProfileArgs, ServiceArgs, Stream, TokenizerArgs,
};
use super::sweep::CellOf;
use super::{
    connections, dataset, gpu, load, multi_run, network_latency, search, server, server_metrics,
    tenants, value,
};
use crate::config::{
    ConfigError, Environment, LogLevel, RunConfig, RunnerConfig, Tenants, selfcheck, tokenizer,
};

/// The run, or the `cell` of a sweep, that `flags` and `environment` describe, validated.
pub(super) fn run_config(
    flags: &ProfileArgs,
    phases: &[Listed],
    given: Given<'_>,
    cell: Option<CellOf<'_>>,
    arguments: &[Cow<'_, str>],
    environment: Environment<'_>,
) -> Result<RunConfig, ConfigError> {
    let Distributed { shard, barrier, shares_directory } =
        flags.distributed.resolve(environment)?;
    let model = flags.endpoint.models.first().ok_or(ConfigError::NoModel)?;
    let endpoint = server::endpoint(&flags.endpoint, &flags.input.extra_inputs, environment)?;
    let tokenizer = tokenizer(&flags.tokenizer, model, environment);
    let mut transport = server::transport(&flags.endpoint, &flags.tls, &flags.output, environment)?;
    let server = server::config(&flags.endpoint, &flags.control, &flags.input.header, environment)?;
    let server_metrics = server_metrics::config(
        &flags.server_metrics,
        shard,
        &server.urls,
        &endpoint.path(model),
        environment,
    )?;
    let (gpu, gpu_warnings) = gpu::config(&flags.gpu, shard, environment)?;
    let network_latency =
        network_latency::config(&flags.network_latency, &server, &transport, environment)?;
    let from = flags.output.latency_from;
    let mut objectives = search::objectives(&flags.input.goodput, &flags.search)?;
    let mut multi_run = multi_run::config(flags, &objectives, given, cell)?;
    for objective in &mut objectives {
        objective.tag = from.judged_metric(objective.tag);
    }
    multi_run.count_latencies(from);
    let Tenants { tenants: shared_by, rate, concurrency } = tenants::config(flags)?;
    let mut schedule = load::schedule(flags, phases, (rate, concurrency), shard, given)?;
    transport.connections.limit =
        connections::limit(schedule.limited_in_flight(), server.urls.len(), environment)?;
    let seed = multi_run::seed(flags.input.random_seed, &flags.multi_run, &multi_run, cell);
    let lengths = tenants::lengths(&shared_by);
    let phases_of_run = &mut schedule.phases;
    let dataset = dataset::config(flags, phases, given, phases_of_run, &lengths, environment)?;
    let mut config = RunConfig {
        dataset: ::dataset::Config { random_seed: seed, ..dataset },
        canaries: flags.canaries.config(),
        tenants: shared_by,
        tokenizer,
        apply_chat_template: flags.tokenizer.apply_chat_template,
        runner: RunnerConfig {
            workers: flags.service.workers_max.map(|count| count as usize),
            processors: flags.service.record_processors.map(|count| count as usize),
            rejection_limit: flags.load.rejected_request_limit,
        },
        metrics: Settings {
            objectives,
            measures_canaries: flags.canaries.measure_canaries,
            ..settings(&flags.endpoint, &flags.output, environment)?
        },
        telemetry: telemetry(&flags.output, environment)?,
        otel_receiver: flags.output.otel_receiver.clone().map(|address| otlp_receiver::Config {
            address,
            wait: flags.output.otel_receiver_wait.unwrap_or(otlp_receiver::Config::WAIT),
        }),
        artifacts: artifacts(
            &flags.output,
            server_metrics::files(&flags.server_metrics, &server_metrics, environment)?,
        )?,
        page: page(&flags.output)?,
        auto_plot: auto_plot(&flags.output, flags.search.search_recipe)?,
        dry_run: flags.output.dry_run,
        ui: flags.service.ui,
        stats_interval: flags.service.stats_interval.map(Nanos::from_seconds),
        api: api(flags, environment)?,
        mlflow: flags.mlflow.config(environment)?,
        tables: Tables {
            trace_timing: flags.output.show_trace_timing,
            server_metrics: flags.server_metrics.server_metrics_summary,
            client: flags.output.tables,
            files: flags.output.files,
        },
        server_metrics,
        gpu,
        deployment: flags.deployment.config(),
        network_latency,
        judge: judge(
            (&flags.gates, &flags.stop),
            search::chooses(&flags.search),
            shard,
            from,
            given,
        )?,
        log_level: log_level(&flags.service),
        multi_run,
        member: None,
        cli_command: redact::command_line(arguments),
        warnings: gpu_warnings,
        selfcheck_file: selfcheck::file(environment),
        transport,
        server,
        endpoint,
        schedule,
        barrier,
        scenario: None,
    };
    complete_directory(&mut config, shard.filter(|_| shares_directory));
    add_limited_percentiles(&mut config);
    percentiles(&config.metrics.percentiles)?;
    config.check()?;
    warn(&mut config, flags, environment);
    Ok(config)
}

/// Adds the percentiles that gates and conditions limit to those that are computed.
fn add_limited_percentiles(config: &mut RunConfig) {
    let of_gates = config.judge.gates.iter().filter_map(Gate::percentile);
    let adaptive = config.schedule.phases.iter().filter_map(|phase| phase.adaptive.as_ref());
    let of_conditions = adaptive.flat_map(|it| Conditions::from_adaptive(it).percentiles());
    let others = config.multi_run.percentiles().chain(of_conditions);
    let limited = of_gates.chain(others).collect::<Vec<_>>();
    config.metrics.add_percentiles(limited);
}

/// Adds the warnings about flags that do nothing, or something else than expected.
fn warn(config: &mut RunConfig, flags: &ProfileArgs, environment: Environment<'_>) {
    let remote_code = flags.tokenizer.tokenizer_trust_remote_code.then(|| {
        "--tokenizer-trust-remote-code: aiperf never runs code from a model; the tokenizer is read \
         from its files"
            .to_owned()
    });
    let of_load = load::warning(&flags.load, &config.schedule);
    let of_search = search::warning(&flags.search);
    let of_schedule = config.schedule.warning();
    let of_connections = connections::warning(config, environment);
    let all = [of_load, remote_code].into_iter().flatten().chain(of_search);
    let all = all.chain(of_schedule).chain(of_connections).collect::<Vec<_>>();
    config.warnings.extend(all);
}

/// Sets the directory if none is given, or adds the part of the shard that `shares` it.
fn complete_directory(config: &mut RunConfig, shares: Option<Shard>) {
    if config.artifacts.directory.as_os_str().is_empty() {
        config.artifacts.directory = config.default_directory();
        // The shards of a run cannot agree on a number.
        config.artifacts.has_default_directory = config.schedule.shard.is_none();
    } else if let Some(shard) = shares {
        config.artifacts.directory.push(shard.directory());
    }
}

fn tokenizer(
    flags: &TokenizerArgs,
    model: &str,
    environment: Environment<'_>,
) -> tokens::tokenizer::Source {
    let revision = &flags.tokenizer_revision;
    match &flags.tokenizer {
        Some(name) => tokens::tokenizer::Source::parse(name).at_revision(revision),
        None => tokenizer::default_for(model, revision, environment),
    }
}

/// Returns the percentiles that are asked for, in ascending order and without duplicates.
pub(super) fn percentiles(asked: &[Percent]) -> Result<Vec<Percent>, ConfigError> {
    let mut all = asked.to_vec();
    all.sort_unstable();
    all.dedup();
    let most = Percentiles::MOST;
    if further(&all).count() > most {
        let why = format!(
            "at most {most} percentiles besides p1, p5, p10, p25, p50, p75, p90, p95 and p99 can be \
             computed, with those of gates and conditions; remove some"
        );
        return Err(ConfigError::flag("--percentiles", why));
    }
    Ok(all)
}

/// The settings of metrics, without objectives.
fn settings(
    endpoint: &EndpointArgs,
    output: &OutputArgs,
    environment: Environment<'_>,
) -> Result<Settings, ConfigError> {
    let defaults = Settings::default();
    let number = |name, default| environment.number(name, default);
    Ok(Settings {
        objectives: Vec::new(),
        usage_diff_threshold_percent: number(
            "AIPERF_METRICS_USAGE_PCT_DIFF_THRESHOLD",
            defaults.usage_diff_threshold_percent,
        )?,
        osl_mismatch_threshold_percent: number(
            "AIPERF_METRICS_OSL_MISMATCH_PCT_THRESHOLD",
            defaults.osl_mismatch_threshold_percent,
        )?,
        osl_mismatch_threshold_tokens: number(
            "AIPERF_METRICS_OSL_MISMATCH_MAX_TOKEN_THRESHOLD",
            defaults.osl_mismatch_threshold_tokens,
        )?,
        percentiles: percentiles(&output.percentiles)?,
        latency_from: output.latency_from,
        steady_state_fraction: output
            .steady_state_fraction
            .unwrap_or(defaults.steady_state_fraction),
        use_server_token_count: endpoint.use_server_token_count,
        per_chunk_usage: endpoint.per_chunk_usage,
        fixed_schedule: false,
        server_timing: endpoint.server_timing != TimingMode::Off,
        context_overflow: match environment.get("AIPERF_AGENTX_CONTEXT_OVERFLOW_SUBSTRINGS") {
            Some(list) => ContextOverflow::with_texts(list.split(',')),
            None => defaults.context_overflow,
        },
        skips_context_overflows: false,
        measures_canaries: false,
        developer_mode: environment.switch("AIPERF_DEV_MODE", false)?,
    })
}

fn telemetry(
    flags: &OutputArgs,
    environment: Environment<'_>,
) -> Result<telemetry::Config, ConfigError> {
    let has = |stream| {
        flags.stream.is_empty()
            || flags.stream.contains(&Stream::Default)
            || flags.stream.contains(&stream)
    };
    let resource_attributes = flags.otel_resource_attributes.iter().map(|text| {
        let why = "expected attributes such as name=value";
        let (name, value) = value::pair(text)
            .ok_or_else(|| ConfigError::flag("--otel-resource-attributes", why))?;
        Ok::<_, ConfigError>((name.to_owned(), value.to_owned()))
    });
    let positive = |name, default| server::positive_seconds(environment, name, default);
    let refused = |error: telemetry::TelemetryError| ConfigError::Telemetry(error.to_string());
    let trace_sample = match flags.trace_sample {
        None => telemetry::declared_trace_sample(environment).map_err(refused)?,
        given => given,
    };
    let config = telemetry::Config {
        url: flags.otel_url.clone().map(Secret::new),
        files: flags.otel_file.clone(),
        streams: telemetry::Streams { metrics: has(Stream::Metrics), timing: has(Stream::Timing) },
        metric_set: flags.otel_metrics.unwrap_or_default(),
        resource_attributes: resource_attributes.collect::<Result<_, _>>()?,
        run_name: flags.run_name.clone(),
        provider: flags.gen_ai_provider.clone(),
        exponential_histograms: flags.otel_histograms.map(|kind| kind == Histograms::Exponential),
        temporality: flags.otel_temporality,
        conventions: flags.otel_semconv,
        translates_servers: flags.otel_server_semconv,
        trace_sample,
        trace_random_flag: flags.trace_random_flag,
        passes_server_spans: flags.otel_receiver.is_some(),
        ci_run_on_metrics: flags.otel_ci_run_id,
        interval_seconds: positive("AIPERF_OTEL_FLUSH_INTERVAL_SECONDS", 2.0)?,
        timeout_seconds: positive("AIPERF_OTEL_REQUEST_TIMEOUT_SECONDS", 10.0)?,
    };
    // The exporter reads `OTEL_*` itself, since each variable has its own rules; errors in
    // them are reported here, before anything waits.
    telemetry::check(&config, environment).map_err(refused)?;
    Ok(config)
}

fn artifacts(
    output: &OutputArgs,
    server_metrics: ServerMetricsFiles,
) -> Result<artifacts::Config, ConfigError> {
    let layout = Layout::new(Path::new(""), output.profile_export_prefix.as_deref());
    if output.export_outputs_json && layout.outputs == layout.summary_json {
        let why = "with this prefix the summary is outputs.json too; choose another prefix, or \
                   remove --export-outputs-json";
        return Err(ConfigError::flag("--profile-export-prefix", why));
    }
    Ok(artifacts::Config {
        directory: output.artifact_dir.clone().unwrap_or_default(),
        has_default_directory: false,
        prefix: output.profile_export_prefix.clone(),
        overwrite: output.overwrite,
        export_level: output.export_level,
        outputs: output.export_outputs_json,
        compress_jsonl: output.compress_jsonl,
        http_trace: output.export_http_trace,
        server_metrics,
    })
}

fn page(output: &OutputArgs) -> Result<Option<PageFile>, ConfigError> {
    let page = output.page.html.clone();
    if page.is_some() && output.export_level == artifacts::ExportLevel::Summary {
        let why = "the page needs the records of requests; use --export-level records or raw";
        return Err(ConfigError::flag("--html", why));
    }
    Ok(page)
}

/// Whether charts are drawn after the run: as the flags say, or else as the recipe has it.
fn auto_plot(output: &OutputArgs, recipe: Option<Recipe>) -> Result<AutoPlot, ConfigError> {
    let is_asked = match (output.auto_plot, output.no_auto_plot) {
        (false, false) => recipe.is_some_and(Recipe::draws_charts),
        (is_asked, _) => is_asked,
    };
    if !is_asked && output.plot_required {
        let why = "no charts are drawn; add --auto-plot";
        return Err(ConfigError::flag("--plot-required", why));
    }
    if is_asked && output.export_level == artifacts::ExportLevel::Summary {
        let why = "charts need the records of requests; use --export-level records or raw, or \
                   --no-auto-plot";
        return Err(ConfigError::flag("--auto-plot", why));
    }
    Ok(AutoPlot::new(is_asked, output.plot_required))
}

/// The gates; neither a search, which judges loads by objectives, nor a shard can have any.
fn judge(
    (gates, stop): (&GateArgs, &StopArgs),
    is_search: bool,
    shard: Option<Shard>,
    from: LatencyFrom,
    given: Given<'_>,
) -> Result<judge::Config, ConfigError> {
    if is_search {
        let why = "a search judges each load by its objectives; use --goodput instead";
        given.refuse(&["GateArgs"], why)?;
    }
    if shard.is_some() {
        let why = "applies to a whole run and not to a shard; use it with aiperf report, which \
                   combines the shards";
        given.refuse(&["GateArgs", "StopArgs"], why)?;
    }
    let judge::Config { gates, junit, undecided, .. } = gates.config();
    let gates = gates.into_iter().map(|gate| gate.counting(from)).collect();
    Ok(judge::Config { gates, junit, stop_when: stop.events(), undecided })
}

/// Minimum length of the API's token, so that it cannot be guessed.
const MIN_TOKEN: usize = 16;

/// Where the progress and the results are served; only with `--api-port`.
fn api(all: &ProfileArgs, environment: Environment<'_>) -> Result<api::Config, ConfigError> {
    let flags = &all.service;
    let default = api::Config::default();
    let grace =
        environment.number("AIPERF_API_SERVER_POST_COMPLETE_GRACE", default.grace.as_seconds())?;
    let token = flags.api_token.clone().or_else(|| environment.get("AIPERF_API_TOKEN"));
    if let Some(token) = &token {
        let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < MIN_TOKEN || !is_plain {
            let why = format!("must have at least {MIN_TOKEN} characters of ASCII without spaces");
            return Err(ConfigError::flag("--api-token", why));
        }
    }
    let host = flags.api_host.clone().unwrap_or(default.host);
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_open = flags.api_port.is_some() && !is_loopback && host != "localhost";
    if is_open && token.is_none() && flags.ui == Ui::None {
        let why = "other machines need a token, which --ui none does not print; set --api-token";
        return Err(ConfigError::flag("--api-host", why));
    }
    Ok(api::Config {
        token: token.map(Secret::new),
        port: flags.api_port,
        host,
        metric_set: all.output.otel_metrics.unwrap_or_default(),
        grace: Nanos::from_seconds(grace),
    })
}

fn log_level(service: &ServiceArgs) -> LogLevel {
    match (service.extra_verbose, service.verbose) {
        (true, _) | (false, 2..) => LogLevel::Trace,
        (false, 1) => LogLevel::Debug,
        (false, 0) => service.log_level.unwrap_or(LogLevel::Info),
    }
}
