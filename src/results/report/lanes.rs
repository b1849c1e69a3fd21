//! What lanes did over the time of a run: their requests, and what they waited for in between.

use std::path::Path;

use parquet::errors::ParquetError;

use base::setting::Named as _;
use client::schedule::Hold;

use super::chart::{Axis, Chart, Point, Series, Shape, Start, Tone};
use super::requests::millis;
use crate::artifacts::Table;

/// Maximum number of lanes that are shown.
const MAX_LANES: u32 = 64;
/// Maximum number of requests that are shown: those that started first.
const MAX_REQUESTS: usize = 20_000;
/// Where the spans of a trace's first conversation are in the row of a lane, and those of sub-agents.
const ROOT: f64 = 0.3;
const SUB_AGENT: f64 = 0.7;

/// A request that a lane sent. Times are in milliseconds since the start of the phase.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sent {
    lane: u32,
    /// The number of its trace among all that lanes began.
    session: i64,
    is_root: bool,
    start: f64,
    end: f64,
    failed: bool,
    held_by: Option<Hold>,
}

/// The requests of the first lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// In order of start.
    sent: Vec<Sent>,
    /// Number of all lanes.
    count: u32,
    /// Number of requests of the first lanes that are not in `sent`.
    left_out: usize,
}

impl Lanes {
    /// Reads the profiling phase, which started at `start_ns`, from the table at `path`.
    pub(super) fn read(path: &Path, start_ns: u64) -> Result<Self, ParquetError> {
        let mut found = Self::default();
        for group in Table::open(path)?.groups() {
            let group = group?;
            let phase = group.texts("benchmark_phase")?;
            let lane = group.integers("lane")?;
            let session = group.integers("session_num")?;
            let depth = group.integers("agent_depth")?;
            let held_by = group.texts("held_by")?;
            let error = group.texts("error_type")?;
            let code = group.integers("error_code")?;
            let start = group.integers("request_start_ns")?;
            let end = group.integers("request_end_ns")?;
            let since = |at: i64| millis(i128::from(at) - i128::from(start_ns));
            for row in 0..group.rows() {
                let lane = lane[row].and_then(|lane| u32::try_from(lane).ok());
                let (Some(lane), Some(start), Some(end)) = (lane, start[row], end[row]) else {
                    continue;
                };
                if phase[row].as_deref() != Some("profiling") {
                    continue;
                }
                found.add(Sent {
                    lane,
                    session: session[row].unwrap_or_default(),
                    is_root: depth[row].unwrap_or_default() == 0,
                    start: since(start),
                    end: since(end),
                    failed: error[row].is_some() || code[row].is_some(),
                    held_by: held_by[row].as_deref().and_then(Hold::named),
                });
            }
        }
        found.keep_first();
        Ok(found)
    }

    fn add(&mut self, sent: Sent) {
        self.count = self.count.max(sent.lane.saturating_add(1));
        if sent.lane >= MAX_LANES {
            return;
        }
        if self.sent.len() == 2 * MAX_REQUESTS {
            self.keep_first();
        }
        self.sent.push(sent);
    }

    /// Sorts the requests, and keeps those that started first.
    fn keep_first(&mut self) {
        self.sent.sort_by(|a, b| a.start.total_cmp(&b.start));
        self.left_out += self.sent.len().saturating_sub(MAX_REQUESTS);
        self.sent.truncate(MAX_REQUESTS);
    }

    /// Returns the chart; `None` if lanes sent nothing.
    pub(super) fn chart(&self) -> Option<Chart> {
        let row = |name: &str, spans: Vec<Span>| {
            let ends = spans.into_iter().flat_map(|span| {
                let y = f64::from(span.lane) + span.place;
                [span.start, span.end].map(|at| Point::new(at / 1e3, y))
            });
            Series::new(name, Shape::Spans, ends.collect())
        };
        let requests = |is_root, place| {
            let sent = self.sent.iter().filter(move |it| it.is_root == is_root && !it.failed);
            sent.map(|it| Span::new(it, place)).collect()
        };
        let failed = self.sent.iter().filter(|it| it.failed);
        let failed = failed.map(|it| Span::new(it, if it.is_root { ROOT } else { SUB_AGENT }));
        let waits = self.waits();
        let waits_for = |wait| {
            let of_kind = waits.iter().filter(|(kind, _)| *kind == wait);
            of_kind.map(|(_, span)| *span).collect()
        };
        let mut series = vec![
            row("requests of agents", requests(true, ROOT)),
            row("requests of sub-agents", requests(false, SUB_AGENT)),
            row("waits for sub-agents", waits_for(Wait::SubAgents)),
            row("waits for other requests", waits_for(Wait::Barrier)),
            row("recorded delays", waits_for(Wait::Delay)).toned(Tone::Faint),
            row("failed requests", failed.collect()).toned(Tone::Bad),
        ];
        series.retain(|series| !series.points.is_empty());
        (!series.is_empty()).then(|| Chart {
            name: "lanes_over_time".to_owned(),
            title: "Lanes".to_owned(),
            note: self.note(),
            x: Axis::time(),
            y: Axis::new("Lane", "").from(Start::Rows),
            series,
            marks: Vec::new(),
            is_timeline: true,
        })
    }

    fn note(&self) -> String {
        let row = "The row of a lane is between its number and the next one: below, the requests of agents \
                   and what these waited for; above, those of their sub-agents, the darker the more";
        let lanes = format!("The first {MAX_LANES} of {} lanes", self.count);
        let lanes = Some(lanes).filter(|_| self.count > MAX_LANES);
        let (shown, left_out) = (self.sent.len(), self.left_out);
        let requests = format!("The first {shown} requests; {left_out} later ones are left out");
        let requests = Some(requests).filter(|_| left_out > 0);
        let parts = [Some(row.to_owned()), lanes, requests].into_iter().flatten();
        parts.collect::<Vec<_>>().join(". ")
    }

    /// Returns the times between the requests of agents, with what each lane waited for at the end of it.
    fn waits(&self) -> Vec<(Wait, Span)> {
        let mut before: Vec<Option<&Sent>> = vec![None; MAX_LANES as usize];
        let mut waits = Vec::new();
        for next in self.sent.iter().filter(|it| it.is_root) {
            let Some(last) = before.get_mut(next.lane as usize) else { continue };
            let Some(last) = last.replace(next).filter(|last| last.end < next.start) else {
                continue;
            };
            let wait = match next.held_by {
                // A lane takes the next trace once the sub-agents of the one before have ended.
                _ if last.session != next.session => Wait::SubAgents,
                Some(Hold::Join) => Wait::SubAgents,
                Some(Hold::Barrier) => Wait::Barrier,
                None => Wait::Delay,
            };
            let (start, end) = (last.end, next.start);
            waits.push((wait, Span { lane: next.lane, place: ROOT, start, end }));
        }
        waits
    }
}

/// What an agent waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The recorded time since its last response.
    Delay,
    /// The end of its sub-agents.
    SubAgents,
    /// Requests that had ended before its own in the trace.
    Barrier,
}

/// A bar of the chart, at a place in the row of its lane.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    lane: u32,
    place: f64,
    start: f64,
    end: f64,
}

impl Span {
    const fn new(sent: &Sent, place: f64) -> Self {
        Self { lane: sent.lane, place, start: sent.start, end: sent.end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn root(lane: u32, session: i64, start: f64, end: f64, held_by: Option<Hold>) -> Sent {
        Sent { lane, session, is_root: true, start, end, failed: false, held_by }
    }

    const fn sub_agent(lane: u32, session: i64, start: f64, end: f64) -> Sent {
        Sent { is_root: false, ..root(lane, session, start, end, None) }
    }

    fn lanes(sent: impl IntoIterator<Item = Sent>) -> Lanes {
        let mut lanes = Lanes::default();
        sent.into_iter().for_each(|sent| lanes.add(sent));
        lanes.keep_first();
        lanes
    }

    /// Start, end and y of a span.
    type Shown = (f64, f64, f64);

    /// Returns the spans of each series.
    fn spans(chart: &Chart) -> Vec<(&str, Vec<Shown>)> {
        let span = |ends: &[Point]| {
            assert_eq!(ends[0].y, ends[1].y);
            (ends[0].x, ends[1].x, ends[0].y.unwrap())
        };
        let spans_of = |series: &Series| series.points.chunks(2).map(span).collect();
        chart.series.iter().map(|series| (&*series.name, spans_of(series))).collect()
    }

    #[test]
    fn a_lane_is_a_row_of_requests_and_waits() {
        // Lane 0: an agent starts a sub-agent, waits for it, is delayed, waits for another request, fails,
        // and the next trace begins once a sub-agent in the background has ended. Lane 1 waits for nothing.
        let failed = Sent { failed: true, ..root(0, 0, 6_000.0, 7_000.0, Some(Hold::Barrier)) };
        let sent = [
            root(1, 1, 0.0, 500.0, None),
            root(0, 0, 0.0, 1_000.0, None),
            sub_agent(0, 0, 1_500.0, 3_000.0),
            root(0, 0, 3_000.0, 4_000.0, Some(Hold::Join)),
            root(0, 0, 4_500.0, 5_000.0, None),
            failed,
            sub_agent(0, 0, 6_500.0, 8_000.0),
            root(0, 2, 8_000.0, 9_000.0, None),
            root(1, 1, 500.0, 900.0, None),
        ];
        let chart = lanes(sent).chart().unwrap();
        let expected = [
            (
                "requests of agents",
                vec![
                    (0.0, 0.5, 1.3),
                    (0.0, 1.0, 0.3),
                    (0.5, 0.9, 1.3),
                    (3.0, 4.0, 0.3),
                    (4.5, 5.0, 0.3),
                    (8.0, 9.0, 0.3),
                ],
            ),
            ("requests of sub-agents", vec![(1.5, 3.0, 0.7), (6.5, 8.0, 0.7)]),
            ("waits for sub-agents", vec![(1.0, 3.0, 0.3), (7.0, 8.0, 0.3)]),
            ("waits for other requests", vec![(5.0, 6.0, 0.3)]),
            ("recorded delays", vec![(4.0, 4.5, 0.3)]),
            ("failed requests", vec![(6.0, 7.0, 0.3)]),
        ];
        assert_eq!(spans(&chart), expected);
        assert!(!chart.note.contains("first"), "{}", chart.note);
    }

    #[test]
    fn lanes_and_requests_beyond_a_number_are_left_out_and_counted() {
        // 100 lanes with 1000 requests each, which end in another order.
        let at = |place: u32| (place * 7_001) % 100_000;
        let sent = (0..100_000).map(at).map(|place| {
            let start = f64::from(place);
            root(place % 100, 0, start, start + 50.0, None)
        });
        let lanes = lanes(sent);
        assert_eq!((lanes.count, lanes.sent.len()), (100, MAX_REQUESTS));
        assert!(lanes.sent.iter().all(|it| it.lane < 64));
        // 64 of 100 requests are of shown lanes: 312 full rounds are 19,968, and 32 more.
        assert_eq!(lanes.sent.last().map(|it| it.start), Some(31_231.0));
        assert_eq!(lanes.left_out, 44_000);
        let note = lanes.chart().unwrap().note;
        assert!(note.contains(". The first 64 of 100 lanes. "), "{note}");
        assert!(
            note.ends_with("The first 20000 requests; 44000 later ones are left out"),
            "{note}"
        );
        assert!(Lanes::default().chart().is_none());
    }
}
