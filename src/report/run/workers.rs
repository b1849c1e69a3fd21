//! The table of the workers that answered.

use serde_json::json;

use super::Run;
use crate::metrics::breakdown::{MeanLatency, Pace, Worker};
use crate::metrics::tag;
use crate::metrics::time_breakdown::Stage;
use crate::report::chart::rounded;
use crate::report::document::Table;

impl Run<'_> {
    /// Returns the workers compared with each other, if there are several.
    pub(super) fn workers(&self) -> Option<Table> {
        let found = self.report.breakdowns.workers.as_ref()?;
        let latencies =
            [(tag::TIME_TO_FIRST_TOKEN, "Mean TTFT"), (tag::REQUEST_LATENCY, "Mean latency")];
        let of_latencies = latencies.iter().flat_map(|(_, name)| {
            let titles = ["(ms)", "from (ms)", "to (ms)", "differs"];
            titles.map(|title| format!("{name} {title}"))
        });
        let first = ["Worker", "Requests (%)", "Output tokens (%)", "Largest stage"];
        let row = |worker: &Worker| {
            let of = |latency: Option<&MeanLatency>| {
                let interval = latency.and_then(|latency| latency.interval_ms);
                [
                    json!(latency.map(|latency| latency.mean_ms)),
                    json!(interval.map(|[low, _]| low)),
                    json!(interval.map(|[_, high]| high)),
                    json!(latency.and_then(|latency| latency.finding).map(Pace::as_str)),
                ]
            };
            let shares = [Some(worker.request_share), worker.output_token_share];
            let [requests, tokens] = shares.map(|share| share.map(|share| 100.0 * share));
            let stage = worker.largest_stage.map(Stage::title);
            let first = [json!(worker.name), json!(requests), json!(tokens), json!(stage)];
            let means = latencies.iter().flat_map(|(metric, _)| of(worker.latency(*metric)));
            first.into_iter().chain(means).collect()
        };
        let tokens = found
            .imbalance
            .output_tokens
            .map(|tokens| format!(", and {} of output tokens", rounded(tokens)));
        Some(Table {
            title: "Workers".to_owned(),
            note: format!(
                "The largest load divided by the mean load is {} of requests{}. Intervals have 95%; a \
                 worker differs if its mean is shown to be above or below those of the workers in \
                 the middle.",
                rounded(found.imbalance.requests),
                tokens.unwrap_or_default()
            ),
            columns: first.map(str::to_owned).into_iter().chain(of_latencies).collect(),
            rows: found.workers.iter().map(row).collect(),
            requests: Vec::new(),
        })
    }
}
