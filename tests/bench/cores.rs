//! How the client scales with its cores: the closed loop and streams with one worker, two, four, and so
//! on, up to half of the client's cores. The other half is for the threads that process records.

use std::fs;

use crate::client::{Run, profile_on};
use crate::machine::{Server, allowed};
use crate::{Figure, Scale, figure, median};

/// Connections of each worker.
const CONNECTIONS: usize = 64;

/// The cores of the two sides.
struct Split {
    server: Vec<usize>,
    client: Vec<usize>,
}

impl Split {
    /// Gives each side half of `cores`, whose `siblings` are on the same side: cores with the same number
    /// there share the units of one core. A single core is shared.
    fn of(cores: &[usize], siblings: impl Fn(usize) -> usize) -> Self {
        let mut sorted = cores.to_vec();
        sorted.sort_by_key(|core| (siblings(*core), *core));
        let mut middle = sorted.len() / 2;
        let is_torn = |at: usize| {
            at > 0 && at < sorted.len() && siblings(sorted[at - 1]) == siblings(sorted[at])
        };
        // Two siblings are better torn than one side left without cores.
        if sorted.len() > 2 {
            while is_torn(middle) {
                middle -= 1;
            }
        }
        let (server, client) = sorted.split_at(middle.max(1).min(sorted.len()));
        let client = if client.is_empty() { server } else { client };
        Self { server: server.to_vec(), client: client.to_vec() }
    }
}

/// Returns the first of the logical cores that share the units of `core`.
fn first_sibling(core: usize) -> usize {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let list = fs::read_to_string(path).unwrap_or_default();
    let first = list.split([',', '-', '\n']).next().unwrap_or_default();
    first.parse().unwrap_or(core)
}

/// Returns the numbers of workers to try on `cores`, each with a number of processors.
fn steps(cores: usize) -> Vec<(usize, usize)> {
    let most = (cores / 2).max(1);
    let powers = (0..).map(|power| 1 << power).take_while(|workers| *workers < most);
    powers
        .chain([most])
        .map(|workers| (workers, cores.saturating_sub(workers).clamp(1, workers)))
        .collect()
}

/// The rates with each number of workers, and their efficiency compared with one worker.
pub(crate) fn cores(scale: &Scale) -> anyhow::Result<Vec<Figure>> {
    let split = Split::of(&allowed(), first_sibling);
    let threads = split.server.len().to_string();
    let server = Server::start_on(&split.server, &["--threads", &threads])?;
    println!("  server on cores {:?}, client on cores {:?}", split.server, split.client);
    if split.client.len() < 2 {
        println!("  one worker only, since the client has a single core");
    }
    let (requests, streams, tokens) =
        if scale.quick { (500, 50, 20) } else { (100_000, 5_000, 200) };
    let mut figures = Vec::new();
    let mut first = [None; 2];
    for (workers, processors) in steps(split.client.len()) {
        let flags = |requests: usize| {
            format!(
                "--workers-max {workers} --record-processors {processors} --concurrency {} \
                 --request-count {} --isl 100 --num-prompts 100",
                CONNECTIONS * workers,
                requests * workers
            )
        };
        let run = |flags: String| profile_on(&split.client, &server.url, &flags);
        let mut nodes = None;
        let closed = median(scale, || {
            let run = run(format!("{} --osl 16", flags(requests)))?;
            nodes = Some(numa_nodes(&run));
            run.metric("request_throughput")
        })?;
        let events = median(scale, || {
            let run = run(format!("{} --osl {tokens} --streaming", flags(streams)))?;
            Ok(run.metric("request_throughput")? * f64::from(tokens))
        })?;
        if let Some(nodes) = nodes.filter(|_| first[0].is_none()) {
            println!("  the client's cores are of NUMA nodes {nodes}");
        }
        let who = format!("workers {workers}, processors {processors}");
        for (at, (rate, unit)) in [(closed, "req/s"), (events, "events/s")].into_iter().enumerate()
        {
            let one = *first[at].get_or_insert(rate);
            figures.push(figure(format!("{who}, {unit}"), rate, unit));
            figures.push(figure(
                format!("{who}, {unit}, efficiency"),
                rate / one / workers as f64,
                "of one worker",
            ));
        }
    }
    Ok(figures)
}

/// Returns the NUMA nodes of the cores that the run had, by its own description.
fn numa_nodes(run: &Run) -> String {
    run.member("/run_info/host/numa_nodes")
        .map_or_else(|| "unknown".to_owned(), ToString::to_string)
}
