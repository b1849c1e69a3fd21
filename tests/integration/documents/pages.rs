//! Every block of every page runs: a test for each page, so that they run at the same time.

use std::collections::BTreeSet;
use std::path::Path;

use super::{assert_none, page, page_at, play, played};

/// Declares a test for each page, and their paths.
macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path,)*];

        $(
            #[test]
            fn $name() {
                assert_none(&play(&page_at($path)));
            }
        )*
    };
}

pages! {
    readme: "README.md",
    ab: "docs/ab.md",
    agentic: "docs/agentic.md",
    artifacts: "docs/artifacts.md",
    capacity: "docs/capacity.md",
    comparing: "docs/comparing.md",
    concepts: "docs/concepts.md",
    configuration: "docs/configuration.md",
    datasets: "docs/datasets.md",
    endpoints: "docs/endpoints.md",
    explain: "docs/explain.md",
    gates: "docs/gates.md",
    gpu_telemetry: "docs/gpu-telemetry.md",
    http_api: "docs/http-api.md",
    live_view: "docs/live-view.md",
    many_runs: "docs/many-runs.md",
    migration: "docs/migration.md",
    mock_server: "docs/mock-server.md",
    multimodal: "docs/multimodal.md",
    network_latency: "docs/network-latency.md",
    otel_traces: "docs/otel-traces.md",
    otlp: "docs/otlp.md",
    performance: "docs/performance.md",
    plots: "docs/plots.md",
    prefix_cache: "docs/prefix-cache.md",
    prompts: "docs/prompts.md",
    quick_start: "docs/quick-start.md",
    replay: "docs/replay.md",
    report: "docs/report.md",
    scaling: "docs/scaling.md",
    scenarios: "docs/scenarios.md",
    server_control: "docs/server-control.md",
    server_metrics: "docs/server-metrics.md",
    server_spans: "docs/server-spans.md",
    templates: "docs/templates.md",
    tenants: "docs/tenants.md",
    traces: "docs/traces.md",
}

#[test]
fn every_page_with_blocks_has_its_test() {
    let pages = page::all();
    let with_blocks = pages.iter().filter(|page| !played(page).is_empty());
    let with_blocks: BTreeSet<_> = with_blocks.map(|page| page.path.as_path()).collect();
    assert_eq!(PAGES.iter().map(Path::new).collect::<BTreeSet<_>>(), with_blocks);
}
