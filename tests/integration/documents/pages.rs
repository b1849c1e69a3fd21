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
    artifacts: "docs/artifacts.md",
    comparing: "docs/comparing.md",
    concepts: "docs/concepts.md",
    configuration: "docs/configuration.md",
    datasets: "docs/datasets.md",
    endpoints: "docs/endpoints.md",
    gates: "docs/gates.md",
    install: "docs/install.md",
    live_view: "docs/live-view.md",
    many_runs: "docs/many-runs.md",
    migration: "docs/migration.md",
    mock_server: "docs/mock-server.md",
    otlp: "docs/otlp.md",
    performance: "docs/performance.md",
    prefix_cache: "docs/prefix-cache.md",
    quick_start: "docs/quick-start.md",
    referee: "docs/referee.md",
    replay: "docs/replay.md",
    report: "docs/report.md",
    scaling: "docs/scaling.md",
    server_metrics: "docs/server-metrics.md",
}

#[test]
fn every_page_with_blocks_has_its_test() {
    let pages = page::all();
    let with_blocks = pages.iter().filter(|page| !played(page).is_empty());
    let with_blocks: BTreeSet<_> = with_blocks.map(|page| page.path.as_path()).collect();
    assert_eq!(PAGES.iter().map(Path::new).collect::<BTreeSet<_>>(), with_blocks);
}
