//! The settings of a phase, one row each.

use serde_json::Value;

use super::Number::{self, Real, Seconds, Whole};
use super::Rule::{self, Flag, Implied, Only, Refused, Time};
use crate::config::aiperf::input_config::{self as of, some};
use crate::schedule::config::{PhaseConfig, Replay};
use crate::schedule::{PhaseKind, StepPolicy};

/// A setting of a phase.
#[derive(Clone, Copy)]
pub(in crate::config::aiperf) struct PhaseSetting {
    /// Its path in the phase.
    pub(in crate::config::aiperf) path: &'static str,
    /// How its value in the phase `profiling` becomes flags; `None` if that phase cannot have it.
    pub(in crate::config::aiperf) profiling: Option<Rule>,
    /// The same for the phase `warmup`.
    pub(in crate::config::aiperf) warmup: Option<Rule>,
    pub(super) varied: Option<Number>,
    /// Returns the value in `input_config`; `None` if it does not have the setting.
    pub(in crate::config::aiperf) value: fn(&PhaseConfig, &Replay) -> Option<Value>,
}

const fn phase(path: &'static str, profiling: Rule, warmup: Option<Rule>) -> PhaseSetting {
    PhaseSetting { path, profiling: Some(profiling), warmup, varied: None, value: |_, _| None }
}

impl PhaseSetting {
    const fn is(self, value: fn(&PhaseConfig, &Replay) -> Option<Value>) -> Self {
        Self { value, ..self }
    }

    const fn varies(self, varied: Number) -> Self {
        Self { varied: Some(varied), ..self }
    }
}

/// The settings of a phase.
pub(in crate::config::aiperf) const PHASE: &[PhaseSetting] = &[
    phase("name", Implied, Some(Implied)).is(|phase, _| some(phase.name())),
    phase("kind", Implied, Some(Implied)).is(|phase, _| some(phase.kind.as_str())),
    phase("type", Implied, Some(Implied)).is(|phase, _| some(of::phase_type(phase))),
    phase("timing_mode", Implied, None)
        .is(|phase, _| of::lanes(phase).and_then(|_| some(phase.load.name()))),
    phase("agentic", Flag("agentic"), None),
    phase("trajectory_start_min_ratio", Flag("trajectory-start-min-ratio"), None)
        .is(|phase, _| some(of::lanes(phase)?.entry.min)),
    phase("trajectory_start_max_ratio", Flag("trajectory-start-max-ratio"), None)
        .is(|phase, _| some(of::lanes(phase)?.entry.max)),
    phase("burst_phase_starts", Flag("burst-phase-starts"), None)
        .is(|phase, _| of::switch(of::lanes(phase)?.bursts)),
    phase("system_idle_gap_cap_seconds", Time("system-idle-gap-cap-seconds"), None)
        .is(|phase, _| of::seconds(of::lanes(phase)?.system_idle_cap?)),
    phase("warmup_requests_per_lane", Flag("warmup-requests-per-lane"), None),
    phase("agentic_cache_warmup_duration", Time("agentic-cache-warmup-duration"), None),
    phase("agentic_warmup_grace_period", Time("agentic-warmup-grace-period"), None),
    phase("arrivals", Flag("arrival-pattern"), Some(Flag("warmup-arrival-pattern"))),
    phase("smoothness", Flag("arrival-smoothness"), None).is(|phase, _| of::smoothness(phase)),
    phase(
        "rate_ramp",
        Time("request-rate-ramp-duration"),
        Some(Time("warmup-request-rate-ramp-duration")),
    )
    .is(|phase, _| of::ramp(of::rate(phase)?.ramp)),
    phase("rate", Flag("request-rate"), Some(Flag("warmup-request-rate")))
        .varies(Real)
        .is(|phase, _| phase.rate().and_then(some)),
    phase("user_rate", Flag("user-centric-rate"), Some(Flag("warmup-user-centric-rate"))),
    phase("rate_series.path", Flag("request-rate-series"), None),
    phase("rate_series.points", Refused("name a file with path"), None)
        .is(|phase, _| of::rate_series(phase)),
    phase("users", Flag("num-users"), Some(Flag("warmup-num-users")))
        .varies(Whole)
        .is(|phase, _| of::users(phase)),
    phase(
        "fixed_schedule",
        Flag("fixed-schedule"),
        Some(Refused("a warmup cannot have a schedule; use a concurrency")),
    ),
    phase("auto_offset", Flag("fixed-schedule-auto-offset"), None)
        .is(|phase, replay| of::fixed(phase, replay).and_then(of::auto_offset)),
    phase("start_offset", Flag("fixed-schedule-start-offset"), None)
        .is(|phase, replay| of::fixed(phase, replay)?.from.map(of::millis)),
    phase("end_offset", Flag("fixed-schedule-end-offset"), None)
        .is(|phase, replay| of::fixed(phase, replay)?.until.map(of::millis)),
    phase("exclude_from_results", Only(&["false"]), Some(Only(&["true"])))
        .is(|phase, _| some(phase.kind == PhaseKind::Warmup)),
    phase("requests", Flag("request-count"), Some(Flag("warmup-request-count")))
        .varies(Whole)
        .is(|phase, _| phase.stop.requests.and_then(some)),
    phase("sessions", Flag("num-sessions"), Some(Flag("num-warmup-sessions")))
        .varies(Whole)
        .is(|phase, _| phase.stop.sessions.and_then(some)),
    phase("duration", Time("benchmark-duration"), Some(Time("warmup-duration")))
        .varies(Seconds)
        .is(|phase, _| phase.stop.duration.and_then(of::seconds)),
    phase("grace_period", Time("benchmark-grace-period"), Some(Time("warmup-grace-period")))
        .is(|phase, _| of::grace_period(phase)),
    phase("concurrency", Flag("concurrency"), Some(Flag("warmup-concurrency")))
        .varies(Whole)
        .is(|phase, _| some(phase.concurrency?.most)),
    phase(
        "concurrency_ramp",
        Time("concurrency-ramp-duration"),
        Some(Time("warmup-concurrency-ramp-duration")),
    )
    .is(|phase, _| of::ramp(phase.concurrency?.ramp)),
    phase(
        "prefill_concurrency",
        Flag("prefill-concurrency"),
        Some(Flag("warmup-prefill-concurrency")),
    )
    .varies(Whole)
    .is(|phase, _| some(phase.prefill_concurrency?.most)),
    phase(
        "prefill_ramp",
        Time("prefill-concurrency-ramp-duration"),
        Some(Time("warmup-prefill-concurrency-ramp-duration")),
    )
    .is(|phase, _| of::ramp(phase.prefill_concurrency?.ramp)),
    phase("cancellation.rate", Flag("request-cancellation-rate"), None)
        .is(|phase, _| some(phase.cancellation?.percent)),
    phase("cancellation.delay", Time("request-cancellation-delay"), None)
        .is(|phase, _| of::seconds(phase.cancellation?.delay)),
    phase("failed_request_threshold", Flag("failed-request-threshold"), None)
        .is(|phase, _| phase.failed_request_threshold.and_then(some)),
    phase("end_failed_sessions", Flag("end-failed-sessions"), None)
        .is(|phase, _| of::switch(phase.end_failed_sessions)),
    phase("seamless", Refused("only one of several phases can be seamless"), None)
        .is(|phase, _| of::switch(phase.seamless)),
    phase("adaptive_scale.enabled", Flag("adaptive-scale"), None)
        .is(|phase, _| phase.adaptive.as_ref().and_then(|_| some(true))),
    phase("adaptive_scale.control_variable", Flag("adaptive-control-variable"), None)
        .is(|phase, _| some(phase.adaptive.as_ref()?.control)),
    phase("adaptive_scale.control_min", Flag("adaptive-control-min"), None)
        .is(|phase, _| some(phase.adaptive.as_ref()?.least)),
    phase("adaptive_scale.assessment_period", Time("adaptive-assessment-period"), None)
        .is(|phase, _| of::seconds(phase.adaptive.as_ref()?.window)),
    phase("adaptive_scale.sustain_duration", Time("adaptive-sustain-duration"), None)
        .is(|phase, _| of::seconds(phase.adaptive.as_ref()?.sustain)),
    phase("adaptive_scale.min_completed_requests", Flag("adaptive-min-completed-requests"), None)
        .is(|phase, _| some(phase.adaptive.as_ref()?.least_completed)),
    phase("adaptive_scale.strategy.step_policy", Flag("adaptive-step-policy"), None)
        .is(|phase, _| some(phase.adaptive.as_ref()?.step.name())),
    phase("adaptive_scale.strategy.base_step", Flag("adaptive-base-step"), None)
        .is(|phase, _| of::margin(phase).and_then(|(base, _)| some(base))),
    phase(
        "adaptive_scale.strategy.max_step_multiplier",
        Flag("adaptive-max-step-multiplier"),
        None,
    )
    .is(|phase, _| of::margin(phase).and_then(|(_, most)| some(most))),
    phase("adaptive_scale.strategy.step_percent", Flag("adaptive-step-percent"), None).is(
        |phase, _| match phase.adaptive.as_ref()?.step {
            StepPolicy::FixedPercentStep(percent) => some(percent),
            _ => None,
        },
    ),
    phase("sla", Flag("adaptive-scale-sla"), None).is(|phase, _| of::conditions(phase)),
];
