//! The header `Server-Timing` (W3C, Server Timing).

use base::redact;

use super::Scale;
use super::{ServerTiming, Stages};

/// Maximum number of times that are kept under their own names, and maximum length of such a name.
const MAX_OTHER: usize = 16;
const MAX_NAME: usize = 64;

/// Returns the names in `text` with their durations in nanoseconds; those without one are left out.
pub(in crate::server_family) fn durations(text: &str) -> impl Iterator<Item = (&str, f64)> {
    split(text, ',').filter_map(|metric| {
        let mut parts = split(metric, ';').map(str::trim);
        let name = parts.next().filter(|name| !name.is_empty())?;
        let duration = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim_end().eq_ignore_ascii_case("dur").then_some(value)
        });
        Some((name, Scale::MILLISECONDS.parse(duration?.trim().trim_matches('"'))?))
    })
}

/// Splits `text` at `separator`, except in quoted strings.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |character: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match character {
            '\\' if is_quoted => is_escaped = !was_escaped,
            '"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        character == separator && !is_quoted
    })
}

/// Reads the names that say which stage they are; others are kept under their own names. What a
/// server without a family includes in a stage is not known.
pub(super) fn read(text: &str, timing: &mut ServerTiming) {
    let mut stages = Stages::default();
    let (mut first_token, mut whole) = (None, None);
    for (name, nanos) in durations(text) {
        let stage = match name.to_ascii_lowercase().replace('-', "_").as_str() {
            "queue" | "queue_time" | "queued" => &mut stages.queue,
            "prefill" | "prefill_time" => &mut stages.prefill,
            "kv_transfer" | "kv_transfer_time" => &mut stages.kv_transfer,
            "decode" | "decode_time" | "generation" | "generation_time" => &mut stages.decode,
            "inference" | "inference_time" => &mut stages.prefill_and_decode,
            "ttft" | "time_to_first_token" => &mut first_token,
            "total" | "total_time" | "e2e" => &mut whole,
            _ => {
                if timing.other.len() < MAX_OTHER {
                    let name: String = redact::printable(name).chars().take(MAX_NAME).collect();
                    timing.other.push((name, nanos));
                }
                continue;
            }
        };
        stage.get_or_insert(nanos);
    }
    if stages.prefill.is_some() || stages.decode.is_some() {
        // Otherwise the same time would be in two stages.
        stages.prefill_and_decode = None;
    }
    timing.report("server-timing", stages, first_token, whole);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_durations_and_quoted_descriptions() {
        let text = r#"miss, db;dur=53, app;dur=47.2;desc="a, b;dur=1", cache;desc="Cache \"x\", y";dur="23.2" ,x;dur=-1,;dur=2,y;DUR = 4"#;
        let found: Vec<_> = durations(text).collect();
        assert_eq!(found, [("db", 53e6), ("app", 47.2e6), ("cache", 23.2e6), ("y", 4e6)]);
    }

    #[test]
    fn well_known_names_are_stages_and_others_are_kept() {
        let mut timing = ServerTiming::default();
        let text = "Queue;dur=80, prefill;dur=30, decode;dur=500, inference;dur=530, \
                    total;dur=613, queue;dur=7, cdn-cache;desc=HIT, edge;dur=1.5";
        read(text, &mut timing);
        let expected = Stages {
            queue: Some(80e6),
            prefill: Some(30e6),
            decode: Some(500e6),
            ..Stages::default()
        };
        assert_eq!((timing.family, timing.stages), ("server-timing", expected));
        assert_eq!((timing.first_token, timing.whole), (None, Some(613e6)));
        assert_eq!(timing.other, [("edge".to_owned(), 1.5e6)]);

        let mut timing = ServerTiming::default();
        read("inference;dur=530", &mut timing);
        assert_eq!(timing.stages.prefill_and_decode, Some(530e6));

        let many: Vec<_> = (0..100).map(|at| format!("n{at};dur=1")).collect();
        let mut timing = ServerTiming::default();
        read(&many.join(","), &mut timing);
        assert_eq!((timing.other.len(), timing.has_times()), (MAX_OTHER, false));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in ".*") {
            let mut timing = ServerTiming::default();
            read(&text, &mut timing);
            proptest::prop_assert!(durations(&text).all(|(_, nanos)| nanos >= 0.0));
        }
    }
}
