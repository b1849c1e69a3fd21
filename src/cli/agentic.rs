//! The flags of a load of lanes that replay recorded trees of conversations.

use clap::{ArgGroup, Args};

use base::units::Nanos;
use client::schedule::PhaseKind;
use client::schedule::config::{
    Agentic, AgenticPart, EntryRange, Limit, LoadPattern, PhaseConfig, StopCondition,
};

use super::load_args::WarmupArgs;
use super::value::{positive, ratio, seconds, seconds_above_zero, seconds_or_inf};
use crate::config::ConfigError;

/// How lanes replay the trees of agents.
#[derive(Args)]
#[command(next_help_heading = "Agentic Replay",
          group = ArgGroup::new("drained").multiple(true))]
pub(super) struct AgenticArgs {
    /// Replay the traces of agents in as many lanes as --concurrency, each of which replays one trace
    /// with its sub-agents after the other, the first from its middle
    #[arg(long, visible_alias = "agentic-replay", requires = "recorded", group = "drained",
          conflicts_with_all = ["request_rate", "request_rate_series", "user_centric_rate", "fixed_schedule",
          "fixed_schedule_auto_offset", "fixed_schedule_start_offset", "fixed_schedule_end_offset",
          "open_loop_strict", "phase", "tenants", "warmup_request_count", "warmup_duration",
          "num_warmup_sessions", "concurrency_ramp_duration"])]
    pub(super) agentic: bool,
    /// Earliest place at which lanes enter their first traces, as a fraction of a trace's duration
    /// [default: 0.25]
    #[arg(long, value_name = "RATIO", value_parser = ratio, requires = "agentic")]
    trajectory_start_min_ratio: Option<f64>,
    /// Latest place at which lanes enter their first traces [default: 0.75]
    #[arg(long, value_name = "RATIO", value_parser = ratio, requires = "agentic")]
    trajectory_start_max_ratio: Option<f64>,
    /// Number of recorded requests that each lane sends before the measurement, without delays and for
    /// one output token each, to fill the server's cache
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "agentic",
          conflicts_with = "agentic_cache_warmup_duration")]
    warmup_requests_per_lane: Option<u64>,
    /// Seconds for which lanes send such requests before the measurement
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "agentic")]
    agentic_cache_warmup_duration: Option<f64>,
    /// Maximum time for the requests of the warmup to finish before the measurement, in seconds, or inf
    /// [default: that of --warmup-grace-period; otherwise inf, or with --agentic-cache-warmup-duration
    /// the longer of --benchmark-grace-period and that duration, up to 300]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_or_inf, requires = "agentic")]
    agentic_warmup_grace_period: Option<f64>,
    /// Send the first requests of all lanes at once in each phase, instead of at their recorded
    /// distances
    #[arg(long, requires = "agentic")]
    burst_phase_starts: bool,
    /// Maximum time without any request in flight, in seconds, after which all waiting requests move to
    /// an earlier time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "agentic")]
    system_idle_gap_cap_seconds: Option<f64>,
}

impl AgenticArgs {
    /// The phases of the load, if it is asked for: primers, a warmup of the cache, and the replay, whose
    /// other settings `measured` has. `tree_idle_cap` limits the time in which a tree is idle.
    pub(super) fn phases(
        &self,
        measured: PhaseConfig,
        warmup: &WarmupArgs,
        tree_idle_cap: Option<f64>,
    ) -> Result<Vec<PhaseConfig>, ConfigError> {
        if measured.stop.is_unset() {
            let why = "lanes begin another trace whenever one is over; add --benchmark-duration";
            return Err(ConfigError::flag("--agentic", why));
        }
        let load = |part| {
            Ok::<_, ConfigError>(LoadPattern::Agentic(Agentic {
                part,
                entry: self.entry()?,
                bursts: self.burst_phase_starts,
                system_idle_cap: self.system_idle_gap_cap_seconds.map(Nanos::from_seconds),
                tree_idle_cap: tree_idle_cap.map(Nanos::from_seconds),
            }))
        };
        let replay = PhaseConfig {
            load: load(AgenticPart::Replay)?,
            concurrency: measured.concurrency.or(Some(Limit::constant(1))),
            ..measured
        };
        let grace = self.grace_period(warmup, replay.grace_period);
        let before = |name: &str, part| {
            Ok::<_, ConfigError>(PhaseConfig {
                name: Some(name.into()),
                kind: PhaseKind::Warmup,
                load: load(part)?,
                stop: StopCondition {
                    duration: match part {
                        AgenticPart::CacheDuration(duration) => Some(duration),
                        _ => None,
                    },
                    ..StopCondition::default()
                },
                grace_period: grace,
                cancellation: None,
                failed_request_threshold: None,
                ..replay.clone()
            })
        };
        let mut phases = vec![before("primers", AgenticPart::Primers)?];
        if let Some(part) = self.cache_part() {
            phases.push(before("cache_warmup", part)?);
        }
        phases.push(replay);
        Ok(phases)
    }

    fn entry(&self) -> Result<EntryRange, ConfigError> {
        let default = EntryRange::MIDDLE;
        let min = self.trajectory_start_min_ratio.unwrap_or(default.min);
        let max = self.trajectory_start_max_ratio.unwrap_or(default.max);
        if min > max {
            let why = format!("must be at most --trajectory-start-max-ratio ({max}), got {min}");
            return Err(ConfigError::flag("--trajectory-start-min-ratio", why));
        }
        Ok(EntryRange { min, max })
    }

    fn cache_part(&self) -> Option<AgenticPart> {
        let requests = self.warmup_requests_per_lane.map(AgenticPart::CacheRequests);
        requests.or_else(|| {
            let duration = self.agentic_cache_warmup_duration.map(Nanos::from_seconds);
            duration.map(AgenticPart::CacheDuration)
        })
    }

    /// The time that the requests of a warmup have to finish: the flag's, or that of the `warmup`, or
    /// what follows from the duration of the warmup and the grace period of the `measured` phase;
    /// `None` waits as long as the timeout of each request allows.
    fn grace_period(&self, warmup: &WarmupArgs, measured: Option<Nanos>) -> Option<Nanos> {
        const MOST: f64 = 300.0;
        if let Some(seconds) = self.agentic_warmup_grace_period.or(warmup.warmup_grace_period) {
            return seconds.is_finite().then(|| Nanos::from_seconds(seconds));
        }
        let duration = Nanos::from_seconds(self.agentic_cache_warmup_duration?.min(MOST));
        measured.map(|grace| grace.max(duration))
    }
}
