//! Adaptive loads in AIPerf's files: `adaptiveScale` and `sla` of a phase.

use serde_norway::{Mapping, Value};

use super::file::{is_off, scalar};

/// What an `adaptive_scale` calls its settings, and the names that they have among the settings.
const NAMES: [(&str, &str); 5] = [
    ("variable", "control_variable"),
    ("min", "control_min"),
    ("max", "control_max"),
    ("min_concurrency", "control_min"),
    ("window", "assessment_period"),
];

/// Brings the adaptive load of a phase of the type `load` into the form of the settings: the greatest level
/// becomes the load of the phase, and conditions become texts.
pub(super) fn settle(phase: &mut Mapping, load: &str, key: &str) -> Result<(), String> {
    let found = phase.remove("adaptive_scale").filter(|value| !value.is_null() && !is_off(value));
    let Some(found) = found else {
        // Only an adaptive load has conditions.
        phase.remove("sla");
        return Ok(());
    };
    let Value::Mapping(found) = found else {
        return Err(format!("{key}.adaptive_scale: expected settings such as sustain_duration"));
    };
    let mut settings = Mapping::new();
    for (name, value) in found {
        match (name.as_str(), value) {
            (Some("control"), Value::Mapping(control)) => {
                control.into_iter().for_each(|(name, value)| add(&mut settings, &name, value));
            }
            (_, value) => add(&mut settings, &name, value),
        }
    }
    if let Some(Value::Mapping(strategy)) = settings.get_mut("strategy")
        && let Some(kind) = strategy.remove("type")
        && kind.as_str() != Some("ramp_until_fail")
    {
        return Err(format!("{key}.adaptive_scale.strategy.type: must be ramp_until_fail"));
    }
    // AIPerf's defaults.
    settings.entry("enabled".into()).or_insert(true.into());
    settings.entry("min_completed_requests".into()).or_insert(1.into());
    let strategy = settings.entry("strategy".into()).or_insert(Mapping::new().into());
    if let Value::Mapping(strategy) = strategy {
        strategy.entry("step_policy".into()).or_insert("sla_margin".into());
    }
    let control = settings.entry("control_variable".into()).or_insert("concurrency".into());
    let of_load = match (control.as_str(), load) {
        (Some("users"), _) => {
            return Err(format!(
                "{key}.adaptive_scale: aiperf cannot change the number of users while they run; use \
                 concurrency, prefill_concurrency or request_rate"
            ));
        }
        (Some("request_rate"), "user_centric") => "user_rate",
        (Some("request_rate"), _) => "rate",
        (Some("prefill_concurrency"), _) => "prefill_concurrency",
        _ => "concurrency",
    };
    if let Some(most) = settings.remove("control_max") {
        phase.insert(of_load.into(), most);
    }
    let own = settings.remove("sla");
    let sla = own.or_else(|| phase.remove("sla")).unwrap_or_default();
    phase.insert("sla".into(), Value::Sequence(conditions(&sla, key)?));
    phase.insert("adaptive_scale".into(), settings.into());
    Ok(())
}

fn add(settings: &mut Mapping, name: &Value, value: Value) {
    let known = NAMES.iter().find(|(theirs, _)| name.as_str() == Some(theirs));
    settings.insert(known.map_or_else(|| name.clone(), |(_, name)| (*name).into()), value);
}

/// Returns the conditions as texts: a list of `metric_tag`, `stat`, `op` and `threshold`, or a mapping of
/// metrics to statistics to operators.
fn conditions(sla: &Value, key: &str) -> Result<Vec<Value>, String> {
    let malformed = || {
        format!("{key}.sla: expected conditions such as {{request_latency: {{p95: {{le: 1000}}}}}}")
    };
    let mut texts = Vec::new();
    match sla {
        Value::Sequence(items) => {
            for item in items {
                let member = |name: &str| item.get(name).and_then(scalar);
                let metric =
                    member("metric_tag").or_else(|| member("metric")).ok_or_else(malformed)?;
                let statistic = member("stat").unwrap_or_else(|| "p95".to_owned());
                let op = member("op").ok_or_else(malformed)?;
                let threshold = member("threshold").ok_or_else(malformed)?;
                texts.push(condition(&metric, &statistic, &op, &threshold)?);
            }
        }
        Value::Mapping(metrics) => {
            for (metric, statistics) in metrics {
                for (statistic, limits) in statistics.as_mapping().ok_or_else(malformed)? {
                    for (op, threshold) in limits.as_mapping().ok_or_else(malformed)? {
                        let parts = [metric, statistic, op, threshold].map(scalar);
                        let [Some(metric), Some(statistic), Some(op), Some(threshold)] = parts
                        else {
                            return Err(malformed());
                        };
                        texts.push(condition(&metric, &statistic, &op, &threshold)?);
                    }
                }
            }
        }
        _ => return Err(malformed()),
    }
    Ok(texts.into_iter().map(Value::String).collect())
}

/// Returns a condition as `--adaptive-scale-sla` has it. AIPerf's shares of requests are limits of the error
/// rate in percent, and its goodput is the rate of successful requests.
fn condition(metric: &str, statistic: &str, op: &str, threshold: &str) -> Result<String, String> {
    let share = || {
        let share = threshold.parse::<f64>().ok();
        share.ok_or_else(|| format!("{threshold:?} is not the threshold of {metric}"))
    };
    let error_rate = |op: &str, percent: f64| format!("request_error_rate:avg:{op}:{percent}");
    match metric {
        "goodput" => Ok(format!("request_throughput:avg:{op}:{threshold}")),
        "error_rate" => Ok(error_rate(op, 100.0 * share()?)),
        "success_rate" | "goodput_ratio" => {
            let mirrored = match op {
                "ge" => "le",
                "gt" => "lt",
                "le" => "ge",
                "lt" => "gt",
                other => other,
            };
            Ok(error_rate(mirrored, 100.0 * (1.0 - share()?)))
        }
        "cancellation_rate" => Err("aiperf does not have the cancellation_rate of AIPerf's \
                                    adaptive scale; use error_rate"
            .to_owned()),
        _ => Ok(format!("{metric}:{statistic}:{op}:{threshold}")),
    }
}
