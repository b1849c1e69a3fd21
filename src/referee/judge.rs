//! Judges the figures of a client by those of the server's log.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::{Figure, Figures, Key, Statistic, name, shown};

/// The relative error up to which a figure is right.
pub(crate) const TOLERANCE: f64 = 0.02;
/// How many times the error of the reference client an error may be to count as noise.
pub(crate) const NOISE: f64 = 2.0;

/// The error of the reference client above which a hazard does not let a load be reached.
const IMPOSSIBLE: f64 = 0.2;

/// What is said of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// It is right, within [`TOLERANCE`].
    Agrees,
    /// It is wrong by no more than the reference client is on this machine.
    Undecided,
    /// It is wrong.
    Differs,
}

/// A figure of a client beside the truth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Comparison {
    /// The figure.
    pub(crate) figure: Figure,
    /// Its statistic.
    pub(crate) statistic: Statistic,
    /// What the client reports, or what it was asked for.
    pub(crate) reported: f64,
    /// What the server's log says.
    pub(crate) truth: f64,
    /// The difference as a fraction of the truth, or of what was asked for; infinite if that is 0.
    #[serde(serialize_with = "finite")]
    pub(crate) error: f64,
    /// The error of the reference client, likewise.
    #[serde(serialize_with = "finite")]
    pub(crate) noise: f64,
    /// What this means.
    pub(crate) verdict: Verdict,
}

/// JSON does not have infinite numbers.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn finite<S: serde::Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Some(*value).filter(|value| value.is_finite()).serialize(serializer)
}

impl Comparison {
    /// Judges `reported` by `truth`. `allowed` is the error that chance explains, and `noise` that of
    /// the reference client.
    fn judge(
        (figure, statistic): Key,
        reported: f64,
        truth: f64,
        allowed: f64,
        noise: f64,
    ) -> Self {
        let error = relative(figure, reported - truth, truth);
        let wrong_by = error.abs();
        let is_right = if is_exact(figure) { error == 0.0 } else { wrong_by <= TOLERANCE };
        let verdict = if is_right {
            Verdict::Agrees
        } else if wrong_by <= allowed || (!figure.is_count() && wrong_by <= NOISE * noise) {
            Verdict::Undecided
        } else {
            Verdict::Differs
        };
        Self { figure, statistic, reported, truth, error, noise, verdict }
    }

    /// The figure and its error, such as `TTFT p99 +12%`.
    pub(crate) fn label(&self) -> String {
        let Self { figure, statistic, reported, truth, error, .. } = self;
        let name = name((*figure, *statistic));
        if *figure == Figure::Lateness {
            return format!("{name} {}", shown(*figure, *truth));
        }
        if is_exact(*figure) && error != &0.0 {
            return format!("{name} {} of {}", shown(*figure, *reported), shown(*figure, *truth));
        }
        format!("{name} {}", percent(*error))
    }
}

/// Requests are counted exactly.
const fn is_exact(figure: Figure) -> bool {
    matches!(figure, Figure::RequestCount | Figure::ErrorRequestCount | Figure::RequestsSent)
}

/// The latency in seconds to which shorter ones are compared: a thread of an idle machine needs some
/// tenths of a millisecond to wake up.
const SHORT: f64 = 0.02;
/// The gap in seconds to which shorter ones are compared. Events that are written together have hardly any.
const SHORT_GAP: f64 = 0.005;

/// Returns a difference from `truth` as a fraction of it.
pub(crate) fn relative(figure: Figure, difference: f64, truth: f64) -> f64 {
    let least = match figure {
        Figure::TimeToFirstToken | Figure::RequestLatency => SHORT,
        Figure::InterTokenLatency | Figure::InterChunkLatency => SHORT_GAP,
        _ => 0.0,
    };
    let of = truth.abs().max(least);
    if difference == 0.0 { 0.0 } else { difference / of }
}

/// Returns a fraction as a percentage with its sign, such as `+1.2%`.
pub(crate) fn percent(fraction: f64) -> String {
    let percent = fraction * 100.0;
    match percent.abs() {
        ..10.0 => format!("{percent:+.1}%"),
        ..100_000.0 => format!("{percent:+.0}%"),
        _ => "+∞".to_owned(),
    }
}

/// The figures of a run, as far as they are compared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observed {
    /// What the client reports.
    pub(crate) reported: Figures,
    /// What the server's log says for the client's definitions.
    pub(crate) truth: Figures,
    /// What was asked of the client: what `sent` should be.
    pub(crate) asked: Figures,
    /// How the requests were really sent.
    pub(crate) sent: Figures,
    /// The errors of these that random arrivals explain.
    pub(crate) chance: Figures,
}

/// The comparisons of a run, and those of the reference client.
pub(crate) type Comparisons = BTreeMap<Key, Comparison>;

/// Compares the figures of a run. `noise` has the errors of the reference client.
pub(crate) fn compare(observed: &Observed, noise: &Figures) -> Comparisons {
    let Observed { reported, truth, asked, sent, chance } = observed;
    let noise = |key: &Key| noise.get(key).copied().unwrap_or(0.0);
    let allowed = |key: &Key| chance.get(key).copied().unwrap_or(0.0);
    let of_client =
        reported.iter().filter_map(|(key, value)| Some((key, *value, *truth.get(key)?)));
    // A client that keeps to the load has sent what was asked for, if that is possible at all.
    let is_possible = |key: &Key| noise(key) <= IMPOSSIBLE;
    let of_load = asked.iter().filter(|(key, _)| is_possible(key));
    let of_load = of_load.filter_map(|(key, value)| Some((key, *value, *sent.get(key)?)));
    let mut all: Comparisons = of_client
        .chain(of_load)
        .map(|(key, reported, truth)| {
            (*key, Comparison::judge(*key, reported, truth, allowed(key), noise(key)))
        })
        .collect();
    all.extend(lateness(observed, &noise));
    all
}

/// Compares how late requests are sent with the interval between two.
fn lateness(observed: &Observed, noise: &impl Fn(&Key) -> f64) -> Option<(Key, Comparison)> {
    let interval = 1.0 / observed.asked.get(&(Figure::RequestRate, Statistic::Value))?;
    let key = (Figure::Lateness, Statistic::P99);
    let late = *observed.sent.get(&key)?;
    let mut judged = Comparison::judge(key, interval + late, interval, 0.0, noise(&key));
    (judged.reported, judged.truth) = (0.0, late);
    Some((key, judged))
}

/// Orders runs by their worst figure, the better one first.
pub(crate) fn order(one: &Comparisons, other: &Comparisons) -> Ordering {
    let [one, other] = [one, other].map(worst);
    let rank = |run: Option<&Comparison>| run.map(|worst| (worst.verdict, worst.error.abs()));
    rank(one).partial_cmp(&rank(other)).unwrap_or(Ordering::Equal)
}

/// Returns the figure that is most wrong.
pub(crate) fn worst(comparisons: &Comparisons) -> Option<&Comparison> {
    comparisons.values().max_by(|one, other| {
        one.verdict.cmp(&other.verdict).then(one.error.abs().total_cmp(&other.error.abs()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTFT: Key = (Figure::TimeToFirstToken, Statistic::P99);

    fn verdict(key: Key, reported: f64, truth: f64, noise: f64) -> (Verdict, String) {
        let judged = Comparison::judge(key, reported, truth, 0.0, noise);
        (judged.verdict, judged.label())
    }

    #[test]
    fn errors_are_judged_by_the_tolerance_and_the_noise() {
        assert_eq!(verdict(TTFT, 0.0509, 0.05, 0.0), (Verdict::Agrees, "TTFT p99 +1.8%".into()));
        assert_eq!(verdict(TTFT, 0.0485, 0.05, 0.01).0, Verdict::Differs);
        assert_eq!(
            verdict(TTFT, 0.0485, 0.05, 0.02),
            (Verdict::Undecided, "TTFT p99 -3.0%".into())
        );
        // 0.6 ms of 20 ms, though the truth is 0.2 ms.
        assert_eq!(verdict(TTFT, 0.0008, 0.0002, 0.0).1, "TTFT p99 +3.0%");
        // 0.15 ms of 5 ms, though the truth is 0.
        let gap = (Figure::InterChunkLatency, Statistic::P50);
        assert_eq!(verdict(gap, 0.000_15, 0.0, 0.0).1, "ICL p50 +3.0%");
        let tokens = (Figure::OutputTokens, Statistic::Value);
        assert_eq!(verdict(tokens, 640.0, 2560.0, 9.0).0, Verdict::Differs);
        assert_eq!(verdict(tokens, 2559.0, 2560.0, 0.0).0, Verdict::Agrees);
        let requests = (Figure::RequestCount, Statistic::Value);
        let one_less = (Verdict::Differs, "successful requests 79 of 80".into());
        assert_eq!(verdict(requests, 79.0, 80.0, 1.0), one_less);
        let failed = (Figure::ErrorRequestCount, Statistic::Value);
        assert_eq!(verdict(failed, 0.0, 0.0, 0.0).0, Verdict::Agrees);
        let infinite = Comparison::judge(failed, 3.0, 0.0, 0.0, 0.0);
        assert_eq!(infinite.label(), "failed requests 3 of 0");
        assert!(serde_json::to_string(&infinite).unwrap().contains(r#""error":null"#));
    }

    #[test]
    fn the_load_is_compared_with_what_was_asked_for() {
        let key = |figure| (figure, Statistic::Value);
        let observed = Observed {
            asked: [(key(Figure::RequestRate), 20.0), (key(Figure::RequestsSent), 80.0)].into(),
            sent: [
                (key(Figure::RequestRate), 19.0),
                (key(Figure::RequestsSent), 80.0),
                ((Figure::Lateness, Statistic::P99), 0.004),
            ]
            .into(),
            chance: [(key(Figure::RequestRate), 0.3)].into(),
            ..Observed::default()
        };
        let compared = compare(&observed, &Figures::new());
        assert_eq!(compared[&key(Figure::RequestRate)].verdict, Verdict::Undecided);
        assert_eq!(compared[&key(Figure::RequestsSent)].verdict, Verdict::Agrees);
        // 4 ms of 50 ms.
        let late = &compared[&(Figure::Lateness, Statistic::P99)];
        assert!((late.error - 0.08).abs() < 1e-9);
        assert_eq!((late.verdict, late.label()), (Verdict::Differs, "lateness p99 4.00 ms".into()));
        assert_eq!(worst(&compared), Some(late));
        // The reference client does not send so many either.
        let noise = [(key(Figure::RequestsSent), 0.5)].into();
        let compared = compare(&observed, &noise);
        assert!(!compared.contains_key(&key(Figure::RequestsSent)));
    }

    #[test]
    fn the_run_whose_worst_figure_is_least_wrong_is_first() {
        let run = |reported| {
            let judged = Comparison::judge(TTFT, reported, 0.05, 0.0, 0.0);
            Comparisons::from([(TTFT, judged)])
        };
        assert_eq!(order(&run(0.05), &run(0.06)), Ordering::Less);
        assert_eq!(order(&run(0.06), &run(0.055)), Ordering::Greater);
        assert_eq!(order(&run(0.04), &run(0.055)), Ordering::Greater);
    }
}
