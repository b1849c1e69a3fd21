//! Names what a client does differently: which other way to look at the same requests explains
//! its figures.

use super::client::{Counting, Countings, Definition, End, Failed, FirstToken, Start};
use super::figure::{Figure, Key, Statistic, shown};
use super::judge::{Comparison, Comparisons, NOISE, TOLERANCE, Verdict, relative};
use super::truth::{Truth, View};

/// The distributions whose deviations are looked at, in order.
const TIMES: [Figure; 4] = [
    Figure::TimeToFirstToken,
    Figure::RequestLatency,
    Figure::InterTokenLatency,
    Figure::InterChunkLatency,
];

/// Returns a sentence for each deviation that `comparisons` show, the plainest explanation of each.
pub(crate) fn names(
    comparisons: &Comparisons,
    truth: &Truth,
    definition: &Definition,
) -> Vec<String> {
    let mut names = Vec::new();
    names.extend(requests(comparisons, truth));
    names.extend(load(comparisons));
    names.extend(tokens(comparisons, truth, definition));
    for figure in TIMES {
        names.extend(times(figure, comparisons, truth, definition));
    }
    names.extend(others(comparisons));
    names.dedup();
    names
}

fn differing(comparisons: &Comparisons, key: Key) -> Option<&Comparison> {
    comparisons.get(&key).filter(|comparison| comparison.verdict == Verdict::Differs)
}

const fn single(figure: Figure) -> Key {
    (figure, Statistic::Value)
}

/// What is wrong with the counts of requests.
fn requests(comparisons: &Comparisons, truth: &Truth) -> Option<String> {
    let found = |figure| differing(comparisons, single(figure)).map(|it| (it.reported, it.truth));
    if let Some((reported, asked)) = found(Figure::RequestCount) {
        let failed = truth.failed() as f64;
        let text = if reported == asked + failed && failed > 0.0 {
            format!("counts {failed:.0} failed requests as successful")
        } else if reported < asked {
            format!("{:.0} of {asked:.0} successful requests are missing", asked - reported)
        } else {
            format!("counts {reported:.0} successful requests, but there were {asked:.0}")
        };
        return Some(text);
    }
    let (reported, failed) = found(Figure::ErrorRequestCount)?;
    Some(format!("counts {reported:.0} failed requests, but there were {failed:.0}"))
}

/// What is wrong with the load.
fn load(comparisons: &Comparisons) -> Vec<String> {
    let found = |key| differing(comparisons, key);
    let sent = found(single(Figure::RequestsSent))
        .map(|it| format!("sends {:.0} requests, but was asked for {:.0}", it.truth, it.reported));
    let peak = found(single(Figure::Concurrency)).map(|it| {
        format!(
            "has at most {:.0} requests in flight, but was asked for {:.0}",
            it.truth, it.reported
        )
    });
    let mean = found((Figure::Concurrency, Statistic::Mean)).map(|it| {
        format!(
            "has {:.2} requests in flight on average instead of {:.0}: sends the next request late",
            it.truth, it.reported
        )
    });
    let rate = found(single(Figure::RequestRate)).map(|it| {
        format!("sends {:.1} requests per second, but was asked for {:.1}", it.truth, it.reported)
    });
    let late = found((Figure::Lateness, Statistic::P99));
    let late = late
        .filter(|_| rate.is_none())
        .map(|it| format!("sends requests late: by {} at p99", shown(Figure::Lateness, it.truth)));
    [sent, peak.or(mean), rate, late].into_iter().flatten().collect()
}

/// What is wrong with the duration, or with what else is wrong although the duration is right.
fn others(comparisons: &Comparisons) -> Option<String> {
    let figures = [
        Figure::BenchmarkDuration,
        Figure::RequestThroughput,
        Figure::OutputTokenThroughput,
        Figure::InputTokens,
    ];
    let found = figures.into_iter().find_map(|figure| differing(comparisons, single(figure)))?;
    let [reported, truth] = [found.reported, found.truth].map(|value| shown(found.figure, value));
    Some(format!("{} is {reported}, in truth {truth}", found.figure.label()))
}

/// What is wrong with the output tokens.
fn tokens(comparisons: &Comparisons, truth: &Truth, definition: &Definition) -> Option<String> {
    let key = single(Figure::OutputTokens);
    let found = differing(comparisons, key)?;
    let counting = |counting| View {
        definition: Definition { output_tokens: Countings::One(counting), ..definition.clone() },
        ..View::default()
    };
    let as_defined = View { definition: definition.clone(), ..View::default() };
    let views = [
        (counting(Counting::Events), "counts events as tokens"),
        (counting(Counting::Requested), "takes the requested number of tokens as received"),
        (counting(Counting::Content), "does not count reasoning and tool calls as output tokens"),
        (View { first_choice: true, ..as_defined.clone() }, "counts the tokens of one choice only"),
        (
            View { takes_failures: true, ..as_defined },
            "counts the tokens of failed requests as well",
        ),
    ];
    let named = fitting(views, &[found], truth).map(str::to_owned);
    Some(named.unwrap_or_else(|| {
        let [reported, truth] = [found.reported, found.truth].map(|it| shown(found.figure, it));
        format!("counts {reported} output tokens, but the server sent {truth}")
    }))
}

/// How many times as exact the figures must be by another view for it to explain them.
const EXPLAINS: f64 = 2.0;
/// The same if they are not right by that view either.
const EXPLAINS_MOST: f64 = 5.0;

/// Returns the text of the view that explains `compared`: by it they are right within the noise, and far
/// more exact than by the client's definitions. Of several, the one by which they are most exact.
fn fitting<T>(
    views: impl IntoIterator<Item = (View, T)>,
    compared: &[&Comparison],
    truth: &Truth,
) -> Option<T> {
    let as_defined = compared.iter().map(|it| it.error.abs()).fold(0.0, f64::max);
    let noise = compared.iter().map(|it| it.noise).fold(0.0, f64::max);
    let error = |view: &View| {
        let figures = truth.figures(view);
        let worst = compared.iter().try_fold(0.0, |worst: f64, it| {
            let value = figures.get(&(it.figure, it.statistic))?;
            Some(worst.max(relative(it.figure, it.reported - value, it.truth).abs()))
        })?;
        let is_right = worst <= TOLERANCE.max(NOISE * noise) && worst * EXPLAINS <= as_defined;
        (is_right || worst * EXPLAINS_MOST <= as_defined).then_some(worst)
    };
    let found = views.into_iter().filter_map(|(view, text)| Some((error(&view)?, text)));
    found.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, text)| text)
}

/// What is wrong with a distribution.
fn times(
    figure: Figure,
    comparisons: &Comparisons,
    truth: &Truth,
    definition: &Definition,
) -> Option<String> {
    let of_figure: Vec<_> = Statistic::OF_DISTRIBUTION
        .into_iter()
        .filter_map(|statistic| comparisons.get(&(figure, statistic)))
        .collect();
    if of_figure.iter().all(|comparison| comparison.verdict != Verdict::Differs) {
        return None;
    }
    let label = figure.label();
    if let Some(text) = other_view(&of_figure, truth, definition) {
        return Some(format!("{label} {text}"));
    }
    if let Some(text) = shift(&of_figure) {
        return Some(format!("{label} {text}"));
    }
    let worst = of_figure
        .iter()
        .filter(|comparison| comparison.verdict == Verdict::Differs)
        .max_by(|one, other| one.error.abs().total_cmp(&other.error.abs()))?;
    let [reported, truth] = [worst.reported, worst.truth].map(|value| shown(figure, value));
    Some(format!("{label} {} is {reported}, in truth {truth}", worst.statistic.label()))
}

/// How many numbers of slowest requests, up to a twentieth of all, may be what is left out.
const MAX_LEFT_OUT: usize = 20;

/// Names the other way to look at the requests with which all statistics agree.
fn other_view(of_figure: &[&Comparison], truth: &Truth, definition: &Definition) -> Option<String> {
    let defined = |definition| View { definition, ..View::default() };
    let mut views: Vec<(View, String)> = Vec::new();
    let mut add = |view, text: &str| views.push((view, text.to_owned()));
    for (first_token, text) in [
        (FirstToken::Choice, "takes an event without text as the first token"),
        (FirstToken::Byte, "takes the first event of any kind as the first token"),
        (FirstToken::Content, "takes reasoning or a tool call as the first token"),
        (FirstToken::Text, "waits for content after the reasoning"),
    ] {
        add(defined(Definition { first_token, ..definition.clone() }), text);
    }
    for (end, text) in [
        (End::Content, "ends with the last content"),
        (End::Event, "ends with the last event, usage included"),
        (End::Stream, "ends with the stream rather than with its content"),
    ] {
        add(defined(Definition { end, ..definition.clone() }), text);
        add(defined(Definition { last_token: Some(end), ..definition.clone() }), text);
    }
    for (start, text) in [
        (Start::Call, "includes making the connection"),
        (Start::Send, "starts when the request is sent, after the connection is made"),
    ] {
        add(defined(Definition { start, ..definition.clone() }), text);
    }
    add(
        defined(Definition { failed_requests: Failed::Included, ..definition.clone() }),
        "includes failed requests",
    );
    add(
        defined(Definition { failed_requests: Failed::LeftOut, ..definition.clone() }),
        "leaves failed requests out",
    );
    let as_defined = defined(definition.clone());
    add(
        View { divides_by_events: true, ..as_defined.clone() },
        "is per event rather than per token",
    );
    let one_choice = View { first_choice: true, ..as_defined.clone() };
    add(one_choice, "is that of one choice only");
    let is_of_requests = of_figure
        .iter()
        .all(|it| matches!(it.figure, Figure::TimeToFirstToken | Figure::RequestLatency));
    let most = (truth.sent() / 20).max(1);
    let step = most.div_ceil(MAX_LEFT_OUT);
    for slowest in (step..=most).step_by(step).filter(|_| is_of_requests) {
        let view = View { without_slowest: slowest, ..as_defined.clone() };
        let share = slowest as f64 / truth.sent() as f64 * 100.0;
        views.push((view, format!("leaves out the slowest {share:.1}% of the requests")));
    }
    fitting(views, of_figure, truth)
}

/// Names a difference that is the same in all statistics, at least three.
fn shift(of_figure: &[&Comparison]) -> Option<String> {
    let shifts: Vec<_> = of_figure.iter().map(|it| it.reported - it.truth).collect();
    let [low, high] = [f64::min, f64::max].map(|pick| shifts.iter().copied().reduce(pick));
    let (low, high) = (low?, high?);
    let middle = low.midpoint(high);
    let is_constant = high - low <= 0.5 * middle.abs();
    let figure = of_figure.first()?.figure;
    (shifts.len() >= 3 && is_constant).then(|| {
        let by = shown(figure, middle.abs());
        let way = if middle > 0.0 { "long" } else { "short" };
        format!("is {by} too {way} in all statistics")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figures;
    use crate::judge::{Observed, compare};
    use crate::truth::tests::varied;

    /// Returns what is said of a client that reports the figures of `view`, changed by `change`.
    fn said(view: &View, change: impl Fn(&mut Figures)) -> Vec<String> {
        said_of(40, view, change)
    }

    /// The same of this number of requests.
    fn said_of(requests: u64, view: &View, change: impl Fn(&mut Figures)) -> Vec<String> {
        let truth = Truth::new((1..=requests).map(varied).collect(), 0, 9);
        let mut reported = truth.figures(view);
        change(&mut reported);
        let definition = Definition::default();
        let defined = View { definition: definition.clone(), ..View::default() };
        let observed = Observed { reported, truth: truth.figures(&defined), ..Observed::default() };
        names(&compare(&observed, &Figures::new()), &truth, &definition)
    }

    fn of(definition: Definition) -> Vec<String> {
        said(&View { definition, ..View::default() }, |_| {})
    }

    fn has(said: &[String], text: &str) -> bool {
        said.iter().any(|it| it == text)
    }

    #[test]
    fn other_definitions_are_named() {
        assert_eq!(of(Definition::default()), Vec::<String>::new());
        let of_first = |first_token| of(Definition { first_token, ..Definition::default() });
        let found = of_first(FirstToken::Choice);
        assert!(has(&found, "TTFT takes an event without text as the first token"), "{found:?}");
        let found = of_first(FirstToken::Text);
        assert!(has(&found, "TTFT waits for content after the reasoning"), "{found:?}");
        let found = of(Definition { end: End::Stream, ..Definition::default() });
        let expected = "latency ends with the stream rather than with its content";
        assert!(has(&found, expected), "{found:?}");
        let found = of(Definition { start: Start::Send, ..Definition::default() });
        let expected = "TTFT starts when the request is sent, after the connection is made";
        assert!(has(&found, expected), "{found:?}");
        let output_tokens = Countings::One(Counting::Events);
        let found = of(Definition { output_tokens, ..Definition::default() });
        assert!(has(&found, "counts events as tokens"), "{found:?}");
        assert!(has(&found, "ITL is per event rather than per token"), "{found:?}");
    }

    #[test]
    fn missing_requests_and_shifts_are_named() {
        let found = said(&View { without_slowest: 1, ..View::default() }, |_| {});
        assert!(has(&found, "1 of 40 successful requests are missing"), "{found:?}");
        assert!(has(&found, "latency leaves out the slowest 2.5% of the requests"), "{found:?}");
        let found = said_of(2000, &View { without_slowest: 100, ..View::default() }, |_| {});
        assert!(has(&found, "latency leaves out the slowest 5.0% of the requests"), "{found:?}");
        let found = said(&View::default(), |reported| {
            for ((figure, _), value) in reported {
                *value += if *figure == Figure::TimeToFirstToken { 0.005 } else { 0.0 };
            }
        });
        assert_eq!(found, ["TTFT is 5.00 ms too long in all statistics"]);
        let found = said(&View::default(), |reported| {
            reported.insert((Figure::BenchmarkDuration, Statistic::Value), 1.0);
        });
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("duration is 1.000 s, in truth "), "{found:?}");
    }
}
