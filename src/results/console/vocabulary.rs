//! The names by which screens and pages call a metric, everywhere the same.

use measure::metrics::metric::Metric;
use measure::metrics::tag::{self, MetricTag};

/// The name of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Without a unit, unless the unit is the name, as in `Requests/s`.
    pub name: &'static str,
    /// That for narrow terminals.
    pub short: &'static str,
    /// The unit; empty if the name has it.
    pub unit: &'static str,
}

/// Names, those for narrow terminals, and whether a unit is added.
const TERMS: &[(MetricTag, &str, &str, bool)] = &[
    (tag::TIME_TO_FIRST_TOKEN, "Time to first token", "TTFT", true),
    (tag::NETWORK_ADJUSTED_TIME_TO_FIRST_TOKEN, "TTFT less network", "TTFT-net", true),
    (tag::INTER_TOKEN_LATENCY, "Inter-token latency", "ITL", true),
    (tag::REQUEST_LATENCY, "Request latency", "Latency", true),
    (tag::EFFECTIVE_TIME_TO_FIRST_TOKEN, "TTFT from due", "TTFT-due", true),
    (tag::EFFECTIVE_LATENCY, "Latency from due", "Lat.-due", true),
    (tag::SERVER_QUEUE_TIME, "Server queue", "Queue", true),
    (tag::SERVER_PREFILL_TIME, "Server prefill", "Prefill", true),
    (tag::SERVER_QUEUE_AND_PREFILL_TIME, "Server queue+prefill", "Q+prefill", true),
    (tag::SERVER_KV_TRANSFER_TIME, "Server KV transfer", "Transfer", true),
    (tag::SERVER_DECODE_TIME, "Server decode", "Decode", true),
    (tag::SERVER_PREFILL_AND_DECODE_TIME, "Server prefill+decode", "P+decode", true),
    (tag::SERVER_KV_TRANSFER_AND_DECODE_TIME, "Server transfer+decode", "T+decode", true),
    (tag::SPEC_DECODE_ACCEPTANCE_LENGTH, "Acceptance length", "Acceptance", false),
    (tag::NETWORK_ADJUSTED_REQUEST_LATENCY, "Latency less network", "Lat.-net", true),
    (tag::NETWORK_RTT, "Network RTT", "RTT", true),
    (tag::OUTPUT_TOKEN_THROUGHPUT_PER_USER, "Output tokens/s per user", "Tok/s/user", false),
    (tag::INPUT_SEQUENCE_LENGTH, "Input tokens", "Input tokens", false),
    (tag::OUTPUT_SEQUENCE_LENGTH, "Output tokens", "Output tokens", false),
    (tag::NUM_IMAGES, "Images per request", "Images", false),
    (tag::IMAGE_LATENCY, "Time per image", "Per image", true),
    (tag::VIDEO_INFERENCE_TIME, "Video inference", "Video", true),
    (tag::AUDIO_DURATION, "Audio per request", "Audio", true),
    (tag::REQUEST_THROUGHPUT, "Requests/s", "Requests/s", false),
    (tag::GOODPUT, "Good requests/s", "Good req/s", false),
    (tag::GOOD_REQUEST_FRACTION, "Good requests", "Good", false),
    (tag::OUTPUT_TOKEN_THROUGHPUT, "Output tokens/s", "Out tokens/s", false),
    (tag::TOTAL_TOKEN_THROUGHPUT, "All tokens/s", "All tokens/s", false),
    (tag::IMAGE_THROUGHPUT, "Images/s", "Images/s", false),
    (tag::OUTPUT_TOKEN_THROUGHPUT_PER_GPU, "Output tokens/s/GPU", "Tokens/s/GPU", false),
    (tag::COST_PER_MILLION_OUTPUT_TOKENS, "Cost/Mtoken out", "Cost/Mtoken", false),
];

impl Term {
    /// Returns the name of a metric: that of AIPerf if it does not have another one.
    #[must_use]
    pub fn for_metric(metric: &Metric) -> Self {
        let unit = metric.display_unit.label();
        let known = TERMS.iter().find(|(tag, ..)| *tag == metric.tag);
        known.map_or(
            Self { name: metric.header, short: metric.short_header, unit },
            |&(_, name, short, has_unit)| Self {
                name,
                short,
                unit: if has_unit { unit } else { "" },
            },
        )
    }

    /// Returns the name with the unit, such as `Request latency (ms)`.
    #[must_use]
    pub fn label(&self) -> String {
        with_unit(self.name, self.unit)
    }

    /// Returns the name with the unit for a narrow terminal, such as `Latency (ms)`.
    #[must_use]
    pub(crate) fn short_label(&self) -> String {
        with_unit(self.short, self.unit)
    }
}

/// Adds a unit to a name: `TTFT p99` and `ms` give `TTFT p99 (ms)`.
pub(crate) fn with_unit(name: &str, unit: &str) -> String {
    match unit {
        "" => name.to_owned(),
        "ms/image" => format!("{name} (ms)"),
        unit => format!("{name} ({})", shown_unit(unit)),
    }
}

/// Returns how screens write a unit: files have those of AIPerf, such as `requests/sec`.
pub(crate) fn shown_unit(unit: &str) -> String {
    if unit == "sec" { "s".to_owned() } else { unit.replace("/sec", "/s") }
}

#[cfg(test)]
mod tests {
    use measure::metrics::Registry;

    use super::*;

    #[test]
    fn names_have_the_unit_once() {
        let term = |tag| Term::for_metric(Registry::row(tag).unwrap());
        let latency = term(tag::REQUEST_LATENCY);
        assert_eq!(latency.label(), "Request latency (ms)");
        assert_eq!(latency.short_label(), "Latency (ms)");
        assert_eq!(term(tag::REQUEST_THROUGHPUT).label(), "Requests/s");
        assert_eq!(term(tag::GOOD_REQUEST_FRACTION).label(), "Good requests");
        assert_eq!(term(tag::PREFILL_THROUGHPUT_PER_USER).unit, "tokens/sec/user");
        assert!(term(tag::PREFILL_THROUGHPUT_PER_USER).label().ends_with("(tokens/s/user)"));
        assert_eq!(term(tag::AUDIO_DURATION).label(), "Audio per request (s)");
        assert_eq!(term(tag::VIDEO_INFERENCE_TIME).label(), "Video inference (ms)");
        assert_eq!(term(tag::DECODE_DURATION).label(), "Decode Duration (ms)");
    }
}
