//! The flags for a load that follows the verdicts on its levels.

#![expect(clippy::doc_markdown, reason = "the doc comments are the --help text")]

use clap::{ArgAction, Args};

use base::setting::{Named as _, named};
use base::units::Nanos;
use client::schedule::{Adaptive, Control, StepPolicy};
use measure::metrics::metric::LatencyFrom;
use measure::multi_run::Filter;

use super::value::{above_zero, choice, positive, seconds, seconds_above_zero};
use crate::config::ConfigError;

/// A value of `--adaptive-step-policy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Bisect,
    SlaMargin,
    FixedPercentStep,
}

named! { Policy {
    "bisect" => Bisect,
    "sla_margin" => SlaMargin,
    "fixed_percent_step" => FixedPercentStep,
} }

/// A load that rises within the run as long as conditions are met.
#[derive(Args)]
#[command(next_help_heading = "Adaptive Load")]
#[expect(clippy::struct_field_names, reason = "fields have the names of their flags")]
pub(super) struct AdaptiveArgs {
    /// Raise the load within the run, up to the configured one, as long as the conditions of
    /// --adaptive-scale-sla are met; then hold the highest that meets them
    #[arg(long, requires = "adaptive_scale_sla")]
    pub(super) adaptive_scale: bool,
    /// Condition that each level of the load must meet, such as 'ttft:p95<=200ms', or ttft:p95:le:200
    /// as in AIPerf; may be repeated
    #[arg(long, value_name = "CONDITION", value_parser = Filter::parse, action = ArgAction::Append,
          requires = "adaptive_scale")]
    pub(super) adaptive_scale_sla: Vec<Filter>,
    /// What is raised: the concurrency, the prefill concurrency or the request rate [default:
    /// request_rate with --request-rate, otherwise concurrency]
    #[arg(long, value_name = "VARIABLE", value_parser = choice::<Control>(), requires = "adaptive_scale")]
    pub(super) adaptive_control_variable: Option<Control>,
    /// First level of the load [default: 1]
    #[arg(long, value_name = "LEVEL", value_parser = above_zero, requires = "adaptive_scale")]
    pub(super) adaptive_control_min: Option<f64>,
    /// Time for which each level is measured, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds_above_zero, requires = "adaptive_scale")]
    pub(super) adaptive_assessment_period: Option<f64>,
    /// Time for which the highest level that met the conditions must meet them, in seconds [default:
    /// 60]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, requires = "adaptive_scale")]
    pub(super) adaptive_sustain_duration: Option<f64>,
    /// Number of requests without which a level is measured again [default: 10]
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "adaptive_scale")]
    pub(super) adaptive_min_completed_requests: Option<u64>,
    /// By how much the load rises: it doubles, and is bisected once a level fails (bisect); in steps
    /// that grow with the distance from the conditions (sla_margin); or by a percentage
    /// (fixed_percent_step) [default: bisect]
    #[arg(long, value_name = "POLICY", value_parser = choice::<Policy>(), requires = "adaptive_scale")]
    pub(super) adaptive_step_policy: Option<Policy>,
    /// Least step with sla_margin [default: 10]
    #[arg(long, value_name = "STEP", value_parser = above_zero, requires = "adaptive_step_policy")]
    pub(super) adaptive_base_step: Option<f64>,
    /// Greatest multiple of the least step with sla_margin [default: 4]
    #[arg(long, value_name = "COUNT", value_parser = positive, requires = "adaptive_step_policy")]
    pub(super) adaptive_max_step_multiplier: Option<u64>,
    /// Step with fixed_percent_step, in percent of the level [default: 25]
    #[arg(long, value_name = "PERCENT", value_parser = above_zero, requires = "adaptive_step_policy")]
    pub(super) adaptive_step_percent: Option<f64>,
}

impl AdaptiveArgs {
    /// Returns how the load rises, if it does. `has_rate` is whether requests are sent at a rate; latencies
    /// count `from` a time.
    pub(super) fn config(
        &self,
        has_rate: bool,
        from: LatencyFrom,
    ) -> Result<Option<Adaptive>, ConfigError> {
        if !self.adaptive_scale {
            return Ok(None);
        }
        let policy = self.adaptive_step_policy.unwrap_or(Policy::Bisect);
        let is_given = [
            ("--adaptive-base-step", self.adaptive_base_step.is_some(), Policy::SlaMargin),
            (
                "--adaptive-max-step-multiplier",
                self.adaptive_max_step_multiplier.is_some(),
                Policy::SlaMargin,
            ),
            (
                "--adaptive-step-percent",
                self.adaptive_step_percent.is_some(),
                Policy::FixedPercentStep,
            ),
        ];
        for (flag, is_given, of) in is_given {
            if is_given && policy != of {
                let why = format!("requires --adaptive-step-policy {}", of.name());
                return Err(ConfigError::flag(flag, why));
            }
        }
        let default = if has_rate { Control::RequestRate } else { Control::Concurrency };
        let condition = |filter: &Filter| {
            let metric = from.judged_metric(filter.metric);
            Filter { metric, ..filter.clone() }.to_string().into()
        };
        Ok(Some(Adaptive {
            control: self.adaptive_control_variable.unwrap_or(default),
            least: self.adaptive_control_min.unwrap_or(1.0),
            window: Nanos::from_seconds(self.adaptive_assessment_period.unwrap_or(30.0)),
            sustain: Nanos::from_seconds(self.adaptive_sustain_duration.unwrap_or(60.0)),
            least_completed: self.adaptive_min_completed_requests.unwrap_or(10),
            step: match policy {
                Policy::Bisect => StepPolicy::Bisect,
                Policy::SlaMargin => StepPolicy::SlaMargin {
                    base: self.adaptive_base_step.unwrap_or(10.0),
                    most: self.adaptive_max_step_multiplier.unwrap_or(4),
                },
                Policy::FixedPercentStep => {
                    StepPolicy::FixedPercentStep(self.adaptive_step_percent.unwrap_or(25.0))
                }
            },
            conditions: self.adaptive_scale_sla.iter().map(condition).collect(),
        }))
    }
}
