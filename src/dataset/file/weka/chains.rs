//! Tells the requests of an agent and of its sub-agents apart, which a trace has in one list.
//!
//! Each request has its whole prompt as blocks. A request continues the chain of requests whose last
//! prompt is the beginning of its own, once that has been answered; any other one begins a chain, which
//! forks from the prompt with which it has most in common. Where an agent shortened its history, the
//! chain that begins then continues the one before it (a seam). The rules are those of AIPerf.

mod growing;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use self::growing::{Growing, grown, spliced};

/// Times of a trace that differ by less are the same, in seconds.
pub(super) const SAME_TIME: f64 = 1e-6;
/// A first request with at most so many output tokens is a preamble, such as a test of the connection.
const PREAMBLE_OUTPUT: u32 = 64;
/// A chain does not continue another one after so many seconds if they share less than half.
const LONG_GAP: f64 = 3600.0;
/// Number of chains beside each other that are a group of workers.
const GROUP: usize = 3;
/// An auxiliary request has fewer input tokens than this or than a tenth of the agent's longest.
const SMALL_INPUT: u32 = 16384;
/// A reduction, such as a summary, has fewer output tokens than this, and 20 times as many of input.
const REDUCED_OUTPUT: u32 = 4000;

/// A request of the list; times are in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Recorded<'a> {
    pub(super) start: f64,
    pub(super) end: f64,
    pub(super) input: u32,
    pub(super) output: u32,
    pub(super) model: &'a str,
    pub(super) blocks: &'a [i64],
}

/// Requests that belong to one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chain {
    /// The indices of its requests, in the order of their starts.
    pub(super) requests: Vec<usize>,
    pub(super) role: Role,
}

/// The role of a chain in its agent; numbers count from 0 and are part of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The agent itself.
    Main,
    /// A sub-agent.
    SubAgent(usize),
    /// A single short request, or one that shortens a long text.
    Auxiliary(usize),
    /// One of several sub-agents at the same time: the number of the group, and its own in the group.
    Worker(usize, usize),
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Main => Ok(()),
            Self::SubAgent(number) => write!(f, "fa:{number:03}"),
            Self::Auxiliary(number) => write!(f, "aux:{number:03}"),
            Self::Worker(group, number) => write!(f, "wg:{group:03}_{number:03}"),
        }
    }
}

/// Splits `requests` into the chain of the agent, which is the first one, and the others in the order of
/// their starts.
pub(super) fn split(requests: &[Recorded<'_>]) -> Vec<Chain> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by(|a, b| requests[*a].start.total_cmp(&requests[*b].start));
    let preamble = order.first().copied().filter(|first| is_preamble(requests, *first));
    // Requests that belong to the agent whatever their prompt.
    let is_plain = |at: &usize| Some(*at) == preamble || requests[*at].blocks.is_empty();
    let plain = order.iter().copied().filter(is_plain);
    let chains = grown(requests, order.iter().copied().filter(|at| !is_plain(at)));
    let chains = spliced(requests, chains, &order);
    let mut place = vec![0; requests.len()];
    order.iter().enumerate().for_each(|(nth, at)| place[*at] = nth);
    let mut rest = chains.into_iter();
    let mut main = rest.next().map(|chain| chain.requests).unwrap_or_default();
    main.extend(plain);
    main.sort_by_key(|at| place[*at]);
    let mut others: Vec<Growing> = rest.collect();
    others.sort_by_key(|chain| place[chain.requests[0]]);
    let roles = roles(requests, &main, &others);
    let others = others.into_iter().zip(roles);
    let others = others.map(|(chain, role)| Chain { requests: chain.requests, role });
    [Chain { requests: main, role: Role::Main }].into_iter().chain(others).collect()
}

/// Returns whether the request at `first` has nothing to do with the others.
fn is_preamble(requests: &[Recorded<'_>], first: usize) -> bool {
    let own = &requests[first];
    let others = || requests.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, it)| it);
    if own.blocks.is_empty()
        || requests.len() == 1
        || others().any(|other| other.blocks.first() == own.blocks.first())
    {
        return false;
    }
    let blocks: HashSet<i64> = own.blocks.iter().copied().collect();
    own.output <= PREAMBLE_OUTPUT
        || !others().any(|other| other.blocks.iter().any(|block| blocks.contains(block)))
}

/// Returns the roles of the chains beside the `main` one.
fn roles(requests: &[Recorded<'_>], main: &[usize], others: &[Growing]) -> Vec<Role> {
    let peak = main.iter().map(|at| requests[*at].input).max().unwrap_or(0);
    let model = main.first().map(|at| requests[*at].model);
    let groups = groups(requests, others);
    let members = groups.iter().enumerate().flat_map(|(group, members)| {
        members.iter().enumerate().map(move |(own, member)| (*member, (group, own)))
    });
    let groups: HashMap<usize, (usize, usize)> = members.collect();
    let role = |(number, chain): (usize, &Growing)| {
        let first = &requests[chain.requests[0]];
        let is_other = Some(first.model) != model || first.input < SMALL_INPUT.max(peak / 10);
        let is_reduction = (1..REDUCED_OUTPUT).contains(&first.output)
            && first.input >= SMALL_INPUT
            && u64::from(first.input) > 20 * u64::from(first.output);
        if chain.requests.len() == 1 && (is_other || is_reduction) {
            return Role::Auxiliary(number);
        }
        let group = groups.get(&number);
        group.map_or(Role::SubAgent(number), |(group, own)| Role::Worker(*group, *own))
    };
    others.iter().enumerate().map(role).collect()
}

/// Returns the groups of chains that fork at the same place and run at the same time, as numbers of
/// chains.
fn groups(requests: &[Recorded<'_>], chains: &[Growing]) -> Vec<Vec<usize>> {
    let mut forks: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for (number, chain) in chains.iter().enumerate() {
        if let Some(fork) = chain.fork {
            forks.entry(fork).or_default().push(number);
        }
    }
    let start = |number: usize| requests[chains[number].requests[0]].start;
    let end = |number: usize| {
        let ends = chains[number].requests.iter().map(|at| requests[*at].end);
        ends.fold(f64::NEG_INFINITY, f64::max)
    };
    let mut found = Vec::new();
    for members in forks.into_values() {
        // Chains are in the order of their starts.
        let mut group: Vec<usize> = Vec::new();
        let mut until = f64::NEG_INFINITY;
        for member in members {
            if start(member) >= until && !group.is_empty() {
                found.push(std::mem::take(&mut group));
            }
            until = until.max(end(member));
            group.push(member);
        }
        found.push(group);
    }
    found.retain(|group| group.len() >= GROUP);
    found.sort();
    found
}

#[cfg(test)]
mod tests;
