//! The charts of a run.

use measure::metrics::Registry;
use measure::metrics::metric::{Metric, MetricResult, Statistic};
use measure::metrics::tag;

use super::{LATENCIES, Run, ValueOf};
use crate::console::Term;
use crate::report::chart::{Axis, Chart, Mark, Point, Series, Shape, Spread, Start, Tone, axis};
use crate::report::distribution::{Bins, Histogram, cumulative};
use crate::report::requests::Request;
use crate::report::server;
use crate::report::timeline::Percentiles;

impl Run<'_> {
    /// Returns the distributions of latencies.
    pub(super) fn latencies(&self) -> Vec<Chart> {
        let unanswered = self.unanswered();
        let mut charts = Vec::new();
        for (tag, value_of) in LATENCIES {
            let Some(metric) = Registry::row(tag) else { continue };
            let values = || self.requests.iter().filter_map(|request| value_of(&request));
            let values = || values().filter(|value| value.is_finite());
            // Only the duration of a failed request is known.
            let has_failed = tag == tag::REQUEST_LATENCY;
            let failed = || {
                let failed = self.requests.iter().filter(|request| !request.succeeded());
                failed.filter(move |_| has_failed).map(|request| request.duration)
            };
            let count = values().count();
            let count_failed = if has_failed { self.requests.failed() } else { 0 };
            let note = format!("{count} requests")
                + &match count_failed {
                    0 => String::new(),
                    count => format!(", and {count} that {unanswered}, from start to end"),
                };

            let line = |name, points| Series::new(name, Shape::Line, points);
            let mut series = vec![line("successful", cumulative(values))];
            if count_failed > 0 {
                series.push(line(unanswered, cumulative(failed)).toned(Tone::Bad));
            }
            charts.push(self.cumulative(metric, &note, series));

            let mut beyond = 0;
            let mut series = Vec::new();
            if let Some(bins) = Bins::from_values(|| values().chain(failed())) {
                let mut area = |name, histogram: Histogram| {
                    beyond += histogram.beyond;
                    Series::new(name, Shape::Area, histogram.bins)
                };
                if count > 0 {
                    series.push(area("successful", bins.histogram(values())));
                }
                if count_failed > 0 {
                    series.push(area(unanswered, bins.histogram(failed())).toned(Tone::Bad));
                }
            }
            charts.push(self.histogram(metric, &note, series, beyond));
        }
        charts
    }

    /// Returns what became of the requests that did not succeed.
    fn unanswered(&self) -> &'static str {
        match (self.report.failed(), self.report.cancelled()) {
            (_, 0) => "failed",
            (0, _) => "were cancelled",
            _ => "failed or were cancelled",
        }
    }

    /// Returns the percentiles of a metric that are marked.
    fn marks(&self, metric: &Metric) -> Vec<Mark> {
        let distribution = self.result(metric.tag).and_then(|result| result.stats.distribution);
        let Some(found) = distribution else { return Vec::new() };
        let marks =
            [("p50", found.p50), ("p90", found.p90), ("p95", found.p95), ("p99", found.p99)];
        let marks = marks.into_iter().map(|(label, at)| (label.to_owned(), at));
        let own = found.further.iter().map(|(percent, at)| (format!("p{percent}"), at));
        let marks = marks.chain(own).filter(|(_, at)| at.is_finite());
        marks.map(|(label, at)| Mark::x(at, label)).collect()
    }

    fn cumulative(&self, metric: &Metric, note: &str, series: Vec<Series>) -> Chart {
        Chart {
            name: format!("{}_cdf", metric.tag),
            title: format!("{}: share of requests below a value", Term::for_metric(metric).name),
            note: note.to_owned(),
            x: axis(metric).from(Start::Near),
            y: Axis::new("Requests", "%"),
            series,
            marks: self.marks(metric),
            is_timeline: false,
        }
    }

    /// Returns a histogram with `beyond` requests above its last bin.
    fn histogram(&self, metric: &Metric, note: &str, series: Vec<Series>, beyond: usize) -> Chart {
        let above = match beyond {
            0 => String::new(),
            1 => ", and 1 request above the last bin".to_owned(),
            _ => format!(", and {beyond} requests above the last bin"),
        };
        let end = series
            .iter()
            .filter_map(|series| series.points.last())
            .map(|last| last.x)
            .fold(0.0, f64::max);
        let mut marks = self.marks(metric);
        marks.retain(|mark| mark.at <= end);
        Chart {
            name: format!("{}_histogram", metric.tag),
            title: format!("{}: histogram", Term::for_metric(metric).name),
            note: note.to_owned() + &above,
            x: axis(metric).from(Start::Near),
            y: Axis::new("Requests", ""),
            series,
            marks,
            is_timeline: false,
        }
    }

    /// Returns the charts over the time of the run.
    pub(super) fn timelines(&self) -> Vec<Chart> {
        let all = || self.requests.iter();
        let intervals = self.intervals;
        if self.requests.is_empty() {
            return Vec::new();
        }
        let successful = || all().filter(Request::succeeded);
        let steps = |name: &str, points| Series::new(name, Shape::Steps, points);
        let lengths = || format!("Intervals of {}", intervals.described());
        let mut charts = vec![
            over_time(
                "request_rate_over_time",
                "Request rate",
                &format!("Requests by their start, and by their end. {}", lengths()),
                Axis::new("Requests", "requests/s"),
                vec![
                    steps("started", intervals.rate(all().map(|request| request.start))),
                    steps("completed", intervals.rate(successful().map(|request| request.end()))),
                ],
            ),
            over_time(
                "output_tokens_over_time",
                "Output token throughput",
                &format!(
                    "The output tokens of each request, spread evenly from its first token to its \
                     end. {}",
                    lengths()
                ),
                Axis::new("Output tokens", "tokens/s"),
                vec![steps(
                    "output tokens",
                    intervals.flow(successful().filter_map(|request| {
                        let first = request.start + request.ttft.unwrap_or(0.0);
                        Some((first, request.end(), request.osl?))
                    })),
                )],
            ),
            over_time(
                "in_flight_over_time",
                "Requests in flight",
                &format!("Mean number. {}", lengths()),
                Axis::new("Requests", ""),
                vec![steps("in flight", intervals.in_flight(all()))],
            ),
        ];
        for (tag, value) in LATENCIES {
            let Some(metric) = Registry::row(tag) else { continue };
            let values = all().filter_map(|request| Some((request.start, value(&request)?)));
            let [p50, p99] = intervals.percentiles(values, [50.0, 99.0]);
            let series = |name, found: Percentiles| {
                Series::new(name, Shape::Line, found.points).within(found.within, Spread::Band)
            };
            charts.push(over_time(
                &format!("{tag}_over_time"),
                Term::for_metric(metric).name,
                &format!(
                    "Of the requests that started in an interval; shaded, where a percentile would \
                     be with other requests (95%), if enough started. {}",
                    lengths()
                ),
                axis(metric),
                vec![series("p50", p50), series("p99", p99)],
            ));
        }
        charts.extend(self.slices().into_iter().chain(self.gaps()));
        let of_class = |class: u32| all().filter(move |request| request.class == Some(class));
        let errors = (0..).zip(&self.requests.classes);
        charts.push(over_time(
            "errors_over_time",
            "Failed requests",
            &format!("By the end of the request. {}", lengths()),
            Axis::new("Failed requests", "requests/s"),
            errors
                .map(|(class, name)| {
                    steps(name, intervals.rate(of_class(class).map(|request| request.end())))
                })
                .collect(),
        ));
        let worst = |value: ValueOf| {
            let values = all().filter_map(|request| Some((request.start, value(&request)?)));
            let [max] = intervals.percentiles(values, [100.0]);
            max.points
        };
        charts.push(over_time(
            "client_delays_over_time",
            "Delays by the client",
            &format!(
                "The longest of an interval: from due to started, and from the arrival of an event to \
                 its read. {}",
                lengths()
            ),
            Axis::new("Delay", "ms"),
            vec![
                Series::new("schedule slip", Shape::Line, worst(|request| request.slip)),
                Series::new("read lag", Shape::Line, worst(|request| request.read_lag)),
            ],
        ));
        for chart in &mut charts {
            chart.series.retain(|series| series.points.iter().any(|point| point.y.is_some()));
        }
        charts
    }

    /// Returns the times between content events.
    fn gaps(&self) -> Option<Chart> {
        let heat = self.gaps.as_ref()?.heat()?;
        let note = format!(
            "The time between two consecutive content events of a request, at the arrival of the \
             second one; the stronger the colour, the more: 1 to {} in a rectangle",
            heat.most()
        );
        let axis = Axis::new("Gap", "ms").from(Start::Log);
        let series = Series::heat("gaps", heat)?;
        let (name, title) = ("inter_token_gaps_over_time", "Gaps between content events");
        Some(over_time(name, title, &note, axis, vec![series]))
    }

    pub(super) fn server(&self) -> Vec<Chart> {
        let Some(metrics) = &self.report.server_metrics else { return Vec::new() };
        let outcome = &self.report.outcome;
        server::charts(metrics, outcome.start_wall_ns, outcome.end_wall_ns)
    }

    /// Returns the requests one by one.
    pub(super) fn scatters(&self) -> Vec<Chart> {
        let time = |request: &Request| Some(request.start / 1e3);
        let latency = Axis::new("Request latency", "ms");
        let tokens = |title: &str| Axis::new(title, "tokens").from(Start::Near);
        let mut over_time = self.scatter(
            "requests",
            "Requests by start",
            Axis::time(),
            latency.clone(),
            time,
            |request| Some(request.latency.unwrap_or(request.duration)),
        );
        over_time.is_timeline = true;
        let isl = self.scatter(
            "latency_by_input_length",
            "Time to first token by input length",
            tokens("Input length"),
            Axis::new("Time to first token", "ms"),
            |request| request.isl,
            |request| request.ttft,
        );
        let osl = self.scatter(
            "latency_by_output_length",
            "Request latency by output length",
            tokens("Output length"),
            latency,
            |request| request.osl,
            |request| request.latency,
        );
        vec![over_time, isl, osl]
    }

    /// Returns the time to first token of each request, as AIPerf draws it.
    pub(super) fn first_tokens(&self) -> Vec<Chart> {
        let Some(metric) = Registry::row(tag::TIME_TO_FIRST_TOKEN) else { return Vec::new() };
        let by_start = self.scatter(
            "ttft_timeline",
            "Time to first token by start",
            Axis::time(),
            axis(metric),
            |request| Some(request.start / 1e3),
            |request| request.ttft,
        );
        let mut by_number = self.scatter(
            "ttft_over_time",
            "Time to first token by number of the request",
            Axis::new("Number of the request, by start", ""),
            axis(metric),
            |_| None,
            |request| request.ttft,
        );
        let shown = self.sample.shown.iter();
        let points =
            shown.filter_map(|(at, request)| Some(Point::new(*at as f64 + 1.0, request.ttft?)));
        by_number.series = vec![Series::new("successful", Shape::Points, points.collect())];
        vec![by_number, Chart { is_timeline: true, ..by_start }]
    }

    /// Returns the latencies of each group of turns.
    pub(super) fn turns(&self) -> Vec<Chart> {
        let groups = &self.report.breakdowns.by_turn;
        let first = |name: &str| {
            name.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<f64>().ok()
        };
        let chart = |tag| {
            let metric = Registry::row(tag)?;
            let series = ["p50", "p99"].map(|statistic| {
                let known = groups.iter().filter_map(|group| {
                    let point = Point::new(first(&group.name)?, group.value(tag, statistic)?);
                    Some((point, group.name.to_string()))
                });
                let (points, labels) = known.unzip();
                Series { labels, ..Series::new(statistic, Shape::Line, points) }
            });
            Some(Chart {
                name: format!("{tag}_by_turn"),
                title: format!("{} by turn", Term::for_metric(metric).name),
                note: "Of the requests at a position in their conversation, from 1".to_owned(),
                x: Axis::new("Turn", ""),
                y: axis(metric),
                series: series.into(),
                marks: Vec::new(),
                is_timeline: false,
            })
        };
        [tag::TIME_TO_FIRST_TOKEN, tag::REQUEST_LATENCY].into_iter().filter_map(chart).collect()
    }

    /// Returns the latencies of each time slice (`--slice-duration`).
    fn slices(&self) -> Vec<Chart> {
        let Some(slices) = &self.report.slices else { return Vec::new() };
        let start = self.report.outcome.start_wall_ns;
        let seconds = |wall_ns: u64| wall_ns.saturating_sub(start) as f64 / 1e9;
        let slices: Vec<_> = slices.iter().collect();
        let named = [("ttft", tag::TIME_TO_FIRST_TOKEN), ("itl", tag::INTER_TOKEN_LATENCY)];
        let chart = |(name, tag)| {
            let metric = Registry::row(tag)?;
            let series = ["avg", "p50", "p99"].map(|name| {
                let statistic = Statistic::named(name);
                let value = |results: &[MetricResult]| {
                    let result = results.iter().find(|result| result.metric.tag == tag)?;
                    statistic?.value_in(&result.stats).filter(|value| value.is_finite())
                };
                let starts = slices.iter().map(|(slice, results)| Point {
                    x: seconds(slice.start_ns),
                    y: value(results),
                });
                let end = slices
                    .last()
                    .map(|(slice, results)| Point { x: seconds(slice.end_ns), y: value(results) });
                Series::new(name, Shape::Steps, starts.chain(end).collect())
            });
            let header = Term::for_metric(metric).name;
            let (name, title) = (format!("timeslices_{name}"), format!("{header} by time slice"));
            let note = "Of the requests that started in each slice";
            Some(over_time(&name, &title, note, axis(metric), series.into()))
        };
        named.into_iter().filter_map(chart).collect()
    }

    fn scatter(
        &self,
        name: &str,
        title: &str,
        x: Axis,
        y: Axis,
        x_of: impl Fn(&Request) -> Option<f64>,
        y_of: impl Fn(&Request) -> Option<f64>,
    ) -> Chart {
        let names =
            std::iter::once("successful").chain(self.requests.classes.iter().map(String::as_str));
        let mut series: Vec<Series> = names
            .enumerate()
            .map(|(at, name)| {
                let series = Series::new(name, Shape::Points, Vec::new());
                if at == 1 { series.toned(Tone::Bad) } else { series }
            })
            .collect();
        for (place, request) in (0..).zip(self.sample.shown.values()) {
            if let (Some(x), Some(y)) = (x_of(request), y_of(request)) {
                let series = &mut series[request.class.map_or(0, |class| class as usize + 1)];
                series.points.push(Point::new(x, y));
                series.requests.push(place);
            }
        }
        series.retain(|series| !series.points.is_empty());
        Chart {
            name: name.to_owned(),
            title: title.to_owned(),
            note: self.about_sample(),
            x,
            y,
            series,
            marks: Vec::new(),
            is_timeline: false,
        }
    }
}

fn over_time(name: &str, title: &str, note: &str, y: Axis, series: Vec<Series>) -> Chart {
    Chart {
        name: name.to_owned(),
        title: title.to_owned(),
        note: note.to_owned(),
        x: Axis::time(),
        y,
        series,
        marks: Vec::new(),
        is_timeline: true,
    }
}
