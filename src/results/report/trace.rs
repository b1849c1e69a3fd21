//! The page of a trace: when its sessions start, how long its prompts are, what these share, and what
//! sessions are like.

use std::collections::HashMap;

use serde_json::json;

use base::statistics::percentile::distribution;
use dataset::{Sessions, TraceAnalysis, Tree};

use super::chart::{Axis, Chart, Mark, Point, Series, Shape, Start, rounded};
use super::distribution::{Bins, cumulative};
use super::document::{Document, Figure, Section, ShownRequests, Table};
use super::timeline::Intervals;

/// Maximum number of shapes of trees in the table.
const MAX_SHAPES: usize = 50;
/// Number of points of a distribution that is given by a formula.
const FORMULA_POINTS: u32 = 200;

/// Returns the page of the trace `name`.
pub(super) fn document(name: &str, analysis: &TraceAnalysis) -> Document {
    let sessions = analysis.sessions.as_ref();
    let arrivals = sessions.map(arrivals).unwrap_or_default();
    let mut sections = vec![
        Section::new("Arrivals", "", arrivals),
        Section::new("Lengths", "", lengths(analysis)),
        Section::new(
            "Sharing",
            "What a prefix cache that keeps everything would find.",
            sharing(analysis),
        ),
    ];
    if let Some(sessions) = sessions {
        let per_session =
            Section::new("Sessions", "", per_session(sessions)).with(vec![shapes(sessions)]);
        sections.push(per_session);
    }
    sections.retain(|section| !section.is_empty());
    Document {
        title: format!("{name} | aiperf"),
        facts: vec![("Trace", name.to_owned())],
        notices: Vec::new(),
        figures: figures(analysis),
        sections,
        requests: ShownRequests::default(),
    }
}

fn figures(analysis: &TraceAnalysis) -> Vec<Figure> {
    let figure = |title: &str, value: f64, unit: &str, detail: String| Figure {
        title: title.to_owned(),
        value,
        unit: unit.to_owned(),
        detail,
    };
    let length = |title: &str, values: &[f64]| {
        let found = distribution(|| values.iter().copied())?;
        let detail = format!("p50 {}, max {}", rounded(found.p50), rounded(found.max));
        Some(figure(title, found.sum / found.count as f64, "tokens", detail))
    };
    let requests = analysis.input.len();
    let sessions = analysis.sessions.as_ref();
    let of_sessions =
        sessions.map_or_else(String::new, |it| format!("in {} sessions", it.trees.len()));
    let hits = distribution(|| analysis.hit_rates.iter().copied());
    let hits = hits.map(|found| {
        let mean = found.sum / found.count as f64;
        figure("Mean theoretical hit rate", mean * 100.0, "%", String::new())
    });
    let variation = sessions.and_then(Sessions::variation).map(|variation| {
        let detail = "1 if sessions arrive independently, more in bursts".to_owned();
        figure("Variation of times between sessions", variation, "", detail)
    });
    let figures = [
        Some(figure("Requests", requests as f64, "", of_sessions)),
        length("Mean input length", &analysis.input),
        length("Mean output length", &analysis.output),
        hits,
        variation,
    ];
    figures.into_iter().flatten().collect()
}

/// Sessions over time, and the times between them beside those of independent arrivals.
fn arrivals(sessions: &Sessions) -> Vec<Chart> {
    let Some(last) = sessions.starts.last() else { return Vec::new() };
    let intervals = Intervals::up_to(last * 1e3, sessions.starts.len(), 0.0);
    let starts = sessions.starts.iter().map(|start| start * 1e3);
    let rate = Series::new("sessions", Shape::Steps, intervals.rate(starts));
    let over_time = Chart {
        is_timeline: true,
        ..chart(
            ("sessions_over_time", "Sessions over time"),
            format!("Starts. Intervals of {}", intervals.described()),
            (Axis::new("Time since the first session", "s"), Axis::new("Sessions", "sessions/s")),
            vec![rate],
        )
    };
    let gaps = sessions.gaps();
    let Some(found) = distribution(|| gaps.iter().copied()) else { return vec![over_time] };
    let mean = found.sum / found.count as f64;
    // The distribution of the time between independent arrivals is exponential.
    let expected = (0..FORMULA_POINTS).map(|at| {
        let share = f64::from(at) / f64::from(FORMULA_POINTS);
        Point::new(-mean * (-share).ln_1p(), share * 100.0)
    });
    let between = chart(
        ("session_gaps_cdf", "Time between sessions: share of times below a value"),
        "Above the other line for short times, and below it for long ones, if sessions arrive in bursts"
            .to_owned(),
        (Axis::new("Time between sessions", "s"), Axis::new("Times", "%")),
        vec![
            line("recorded", &gaps),
            Series::new("independent arrivals of this rate", Shape::Line, expected.collect()),
        ],
    );
    vec![over_time, between]
}

fn lengths(analysis: &TraceAnalysis) -> Vec<Chart> {
    let all = [
        ("input_length", "Input length", &analysis.input),
        ("output_length", "Output length", &analysis.output),
    ];
    let mut charts = Vec::new();
    for (name, title, values) in all {
        let axis = || Axis::new(title, "tokens").from(Start::Near);
        let found = distribution(|| values.iter().copied());
        let marks = found.iter().flat_map(|it| [("p50", it.p50), ("p90", it.p90), ("p99", it.p99)]);
        let marks: Vec<Mark> = marks.map(|(label, at)| Mark::x(at, label)).collect();
        let below = (format!("{name}_cdf"), format!("{title}: share of requests below a value"));
        charts.push(Chart {
            marks: marks.clone(),
            ..chart(
                (&below.0, &below.1),
                format!("{} requests", values.len()),
                (axis(), Axis::new("Requests", "%")),
                vec![line("requests", values)],
            )
        });
        let Some(bins) = Bins::from_values(|| values.iter().copied()) else { continue };
        let histogram = bins.histogram(values.iter().copied());
        let (bins, beyond) = (histogram.bins, histogram.beyond);
        let end = bins.last().map_or(0.0, |last| last.x);
        let of = (format!("{name}_histogram"), format!("{title}: histogram"));
        charts.push(Chart {
            marks: marks.into_iter().filter(|mark| mark.at <= end).collect(),
            ..chart(
                (&of.0, &of.1),
                format!("{beyond} requests are above the last bin"),
                (axis(), Axis::new("Requests", "")),
                vec![Series::new("requests", Shape::Area, bins)],
            )
        });
    }
    charts
}

fn sharing(analysis: &TraceAnalysis) -> Vec<Chart> {
    let percent: Vec<f64> = analysis.hit_rates.iter().map(|rate| rate * 100.0).collect();
    let requests = || Axis::new("Requests", "%");
    vec![
        chart(
            ("hit_rate_cdf", "Theoretical hit rate: share of requests below a value"),
            "The share of a prompt's blocks that earlier prompts began with".to_owned(),
            (Axis::new("Theoretical hit rate", "%"), requests()),
            vec![line("requests", &percent)],
        ),
        chart(
            ("shared_length_cdf", "Shared and own tokens: share of requests below a value"),
            "Shared are a prompt's first blocks that another prompt has too".to_owned(),
            (Axis::new("Length", "tokens"), requests()),
            vec![line("shared", &analysis.context), line("own", &analysis.unique)],
        ),
    ]
}

fn per_session(sessions: &Sessions) -> Vec<Chart> {
    let turns = line("turns", &sessions.each(|tree| tree.turns));
    let agents = line("sub-agents", &sessions.each(|tree| tree.agents));
    vec![chart(
        ("turns_cdf", "Turns and sub-agents: share of sessions below a value"),
        "Turns without those of sub-agents; sub-agents at any depth".to_owned(),
        (Axis::new("Number per session", ""), Axis::new("Sessions", "%")),
        vec![turns, agents],
    )]
}

/// The most frequent shapes of trees.
fn shapes(sessions: &Sessions) -> Table {
    let mut counts: HashMap<Tree, u64> = HashMap::new();
    for tree in &sessions.trees {
        *counts.entry(*tree).or_default() += 1;
    }
    let different = counts.len();
    let mut counts: Vec<(Tree, u64)> = counts.into_iter().collect();
    counts.sort_by_key(|(tree, count)| (std::cmp::Reverse(*count), *tree));
    counts.truncate(MAX_SHAPES);
    let row = |(Tree { turns, agents, depth }, count)| {
        vec![json!(turns), json!(agents), json!(depth), json!(count)]
    };
    let columns = ["Turns", "Sub-agents", "Levels of sub-agents", "Sessions"];
    Table {
        title: "Shapes of sessions".to_owned(),
        note: format!("The {} most frequent of {different}", counts.len()),
        columns: columns.map(str::to_owned).into(),
        rows: counts.into_iter().map(row).collect(),
        requests: Vec::new(),
    }
}

/// The cumulative distribution of `values`.
fn line(name: &str, values: &[f64]) -> Series {
    Series::new(name, Shape::Line, cumulative(|| values.iter().copied()))
}

fn chart(
    (name, title): (&str, &str),
    note: String,
    (x, y): (Axis, Axis),
    series: Vec<Series>,
) -> Chart {
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        note,
        x,
        y,
        series,
        marks: Vec::new(),
        is_timeline: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart_names(section: &Section) -> Vec<&str> {
        section.charts.iter().map(|chart| &*chart.name).collect()
    }

    fn names(document: &Document) -> Vec<(&str, Vec<&str>)> {
        document.sections.iter().map(|it| (&*it.title, chart_names(it))).collect()
    }

    fn lengths_only() -> TraceAnalysis {
        TraceAnalysis {
            input: vec![100.0, 300.0],
            context: vec![64.0, 64.0],
            unique: vec![36.0, 236.0],
            hit_rates: vec![0.0, 0.2],
            ..TraceAnalysis::default()
        }
    }

    #[test]
    fn a_trace_of_lengths_has_no_sessions() {
        let document = document("t", &lengths_only());
        let expected = [
            ("Lengths", vec!["input_length_cdf", "input_length_histogram"]),
            ("Sharing", vec!["hit_rate_cdf", "shared_length_cdf"]),
        ];
        assert_eq!(names(&document), expected);
        let figures: Vec<(&str, f64)> =
            document.figures.iter().map(|it| (&*it.title, it.value)).collect();
        let expected =
            [("Requests", 2.0), ("Mean input length", 200.0), ("Mean theoretical hit rate", 10.0)];
        assert_eq!(figures, expected);
    }

    #[test]
    fn sessions_are_drawn_with_their_arrivals_and_shapes() {
        let tree = |turns, agents| Tree { turns, agents, depth: agents.min(1) };
        let sessions = Sessions {
            trees: vec![tree(1, 0), tree(3, 2), tree(1, 0), tree(2, 0)],
            starts: vec![0.0, 1.0, 2.0, 9.0],
        };
        let analysis = TraceAnalysis { sessions: Some(sessions), ..lengths_only() };
        let document = document("t", &analysis);
        let found = names(&document);
        assert_eq!(found[0], ("Arrivals", vec!["sessions_over_time", "session_gaps_cdf"]));
        assert_eq!(found[3], ("Sessions", vec!["turns_cdf"]));
        let rate = &document.sections[0].charts[0].series[0].points;
        // So few sessions are in a single interval.
        assert_eq!(rate, &[Point::new(0.0, 4.0 / 9.0), Point::new(9.0, 4.0 / 9.0)]);
        // A mean of 3 s: half of independent arrivals are less than 3 ln 2 apart.
        let expected = &document.sections[0].charts[1].series[1].points;
        let half = expected.iter().find(|point| point.y == Some(50.0)).unwrap();
        assert!((half.x - 3.0 * 2.0_f64.ln()).abs() < 1e-12, "{half:?}");
        let table = &document.sections[3].tables[0];
        let rows = [[1, 0, 0, 2], [2, 0, 0, 1], [3, 2, 1, 1]];
        assert_eq!(json!(table.rows), json!(rows));
        assert!(document.figures.iter().any(|it| it.detail == "in 4 sessions"));
    }
}
