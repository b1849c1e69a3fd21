//! The settings of a phase, one row each.

use super::Number::{Real, Seconds, Whole};
use super::Rule::{Flag, Implied, Only, Ramp, Refused, Time};
use super::{Setting, row};

/// The settings of a phase.
pub(in crate::config::aiperf) const PHASE: &[Setting] = &[
    row("name", Implied).in_warmup(Implied).at("aiperf.name"),
    row("kind", Implied).in_warmup(Implied).at("kind"),
    row("type", Implied).in_warmup(Implied).at("aiperf.type"),
    row("timing_mode", Implied).at("aiperf.timing_mode"),
    row("agentic", Flag("agentic")),
    row("trajectory_start_min_ratio", Flag("trajectory-start-min-ratio"))
        .at("load.agentic.entry.min"),
    row("trajectory_start_max_ratio", Flag("trajectory-start-max-ratio"))
        .at("load.agentic.entry.max"),
    row("burst_phase_starts", Flag("burst-phase-starts")).sparse("load.agentic.bursts", "false"),
    row("system_idle_gap_cap_seconds", Time("system-idle-gap-cap-seconds"))
        .at("load.agentic.system_idle_cap"),
    row("arrivals", Flag("arrival-pattern")).in_warmup(Flag("warmup-arrival-pattern")),
    row("smoothness", Flag("arrival-smoothness")).at("load.rate.pattern.gamma.shape"),
    row("rate_ramp", Ramp("request-rate-ramp-duration"))
        .in_warmup(Ramp("warmup-request-rate-ramp-duration"))
        .at("load.rate.ramp"),
    row("rate", Flag("request-rate"))
        .in_warmup(Flag("warmup-request-rate"))
        .varies(&[Real])
        .at("aiperf.rate"),
    row("user_rate", Flag("user-centric-rate")).in_warmup(Flag("warmup-user-centric-rate")),
    row("rate_series.path", Flag("request-rate-series")),
    row("rate_series.points", Refused("name a file with path")).at("aiperf.points"),
    row("users", Flag("num-users"))
        .in_warmup(Flag("warmup-num-users"))
        .varies(&[Whole])
        .at("load.user_centric.users"),
    row("fixed_schedule", Flag("fixed-schedule"))
        .in_warmup(Refused("a warmup cannot have a schedule; use a concurrency")),
    row("auto_offset", Flag("fixed-schedule-auto-offset")).at("aiperf.schedule.auto_offset"),
    row("start_offset", Flag("fixed-schedule-start-offset")).at("aiperf.schedule.start_offset"),
    row("end_offset", Flag("fixed-schedule-end-offset")).at("aiperf.schedule.end_offset"),
    row("exclude_from_results", Only(&["false"])).in_warmup(Only(&["true"])).at("aiperf.is_warmup"),
    row("requests", Flag("request-count"))
        .in_warmup(Flag("warmup-request-count"))
        .varies(&[Whole])
        .at("stop.requests"),
    row("sessions", Flag("num-sessions"))
        .in_warmup(Flag("num-warmup-sessions"))
        .varies(&[Whole])
        .at("stop.sessions"),
    row("duration", Time("benchmark-duration"))
        .in_warmup(Time("warmup-duration"))
        .varies(&[Seconds])
        .at("stop.duration"),
    row("grace_period", Time("benchmark-grace-period"))
        .in_warmup(Time("warmup-grace-period"))
        .at("aiperf.grace_period"),
    row("concurrency", Flag("concurrency"))
        .in_warmup(Flag("warmup-concurrency"))
        .varies(&[Whole])
        .at("concurrency.most"),
    row("concurrency_ramp", Ramp("concurrency-ramp-duration"))
        .in_warmup(Ramp("warmup-concurrency-ramp-duration"))
        .at("concurrency.ramp"),
    row("prefill_concurrency", Flag("prefill-concurrency"))
        .in_warmup(Flag("warmup-prefill-concurrency"))
        .varies(&[Whole])
        .at("prefill_concurrency.most"),
    row("prefill_ramp", Ramp("prefill-concurrency-ramp-duration"))
        .in_warmup(Ramp("warmup-prefill-concurrency-ramp-duration"))
        .at("prefill_concurrency.ramp"),
    row("cancellation.rate", Flag("request-cancellation-rate")).at("cancellation.percent"),
    row("cancellation.delay", Time("request-cancellation-delay")).at("cancellation.delay"),
    row("failed_request_threshold", Flag("failed-request-threshold"))
        .at("failed_request_threshold"),
    row("end_failed_sessions", Flag("end-failed-sessions")).sparse("end_failed_sessions", "false"),
    row("seamless", Refused("only one of several phases can be seamless")).at("seamless"),
    row("adaptive_scale.enabled", Flag("adaptive-scale")).at("aiperf.adapts"),
    row("adaptive_scale.control_variable", Flag("adaptive-control-variable"))
        .at("adaptive.control"),
    row("adaptive_scale.control_min", Flag("adaptive-control-min")).at("adaptive.least"),
    row("adaptive_scale.assessment_period", Time("adaptive-assessment-period"))
        .at("adaptive.window"),
    row("adaptive_scale.sustain_duration", Time("adaptive-sustain-duration"))
        .at("adaptive.sustain"),
    row("adaptive_scale.min_completed_requests", Flag("adaptive-min-completed-requests"))
        .at("adaptive.least_completed"),
    row("adaptive_scale.strategy.step_policy", Flag("adaptive-step-policy"))
        .at("aiperf.step_policy"),
    row("adaptive_scale.strategy.base_step", Flag("adaptive-base-step"))
        .at("adaptive.step.sla_margin.base"),
    row("adaptive_scale.strategy.max_step_multiplier", Flag("adaptive-max-step-multiplier"))
        .at("adaptive.step.sla_margin.most"),
    row("adaptive_scale.strategy.step_percent", Flag("adaptive-step-percent"))
        .at("adaptive.step.fixed_percent_step"),
    row("sla", Flag("adaptive-scale-sla")).at("aiperf.conditions"),
    row("agentic_warmup_grace_period", Time("agentic-warmup-grace-period"))
        .at("aiperf.warmup.grace_period"),
    row("warmup_requests_per_lane", Flag("warmup-requests-per-lane")).at("aiperf.warmup.requests"),
    row("agentic_cache_warmup_duration", Time("agentic-cache-warmup-duration"))
        .at("aiperf.warmup.duration"),
];
