//! Chains while requests are added to them, in a time that is nearly proportional to the blocks of all
//! prompts.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use foldhash::fast::RandomState;

use super::{LONG_GAP, Recorded, SAME_TIME};

/// A chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Growing {
    pub(super) requests: Vec<usize>,
    /// The last request.
    pub(super) tail: usize,
    /// The request with which its first one has most blocks in common, and how many; `None` if it has
    /// none in common with any.
    pub(super) fork: Option<(usize, usize)>,
}

/// A time in seconds, in the order of all numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Time(f64);

impl Eq for Time {}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// Chains whose last prompts are the same, and of the same model.
#[derive(Default)]
struct Ends {
    /// Those whose last request had not been answered yet, by the time at which it is.
    waiting: BinaryHeap<Reverse<(Time, usize)>>,
    answered: BinaryHeap<Reverse<usize>>,
}

impl Ends {
    /// Removes and returns the first chain whose last request had been answered at `start`. It is not
    /// called with an earlier time afterwards.
    fn take(&mut self, start: f64) -> Option<usize> {
        while let Some(Reverse((end, chain))) = self.waiting.peek().copied()
            && end.0 <= start + SAME_TIME
        {
            self.waiting.pop();
            self.answered.push(Reverse(chain));
        }
        self.answered.pop().map(|Reverse(chain)| chain)
    }
}

/// The tree of the last prompts of chains. A chain only gets longer, so that its prompts stay on one path.
struct Grown<'r, 'b> {
    requests: &'r [Recorded<'b>],
    chains: Vec<Growing>,
    /// The node of a block after a node; nodes count from 1, and 0 is the root.
    nodes: HashMap<(usize, i64), usize, RandomState>,
    /// For each node, the length of the longest last prompt that passes it, and its first chain.
    longest: Vec<(usize, Reverse<usize>)>,
    ends: HashMap<(usize, &'b str), Ends, RandomState>,
}

/// Adds requests in the `order` of their starts: each to the chain that it continues, or to a new one.
pub(super) fn grown(requests: &[Recorded<'_>], order: impl Iterator<Item = usize>) -> Vec<Growing> {
    let mut grown = Grown {
        requests,
        chains: Vec::new(),
        nodes: HashMap::default(),
        longest: vec![(0, Reverse(usize::MAX))],
        ends: HashMap::default(),
    };
    order.for_each(|at| grown.add(at));
    grown.chains
}

impl Grown<'_, '_> {
    fn add(&mut self, at: usize) {
        let own = self.requests[at];
        let mut path = Vec::with_capacity(own.blocks.len());
        let mut node = 0;
        for block in own.blocks {
            let Some(next) = self.nodes.get(&(node, *block)) else { break };
            node = *next;
            path.push(node);
        }
        // The longest of the chains that end on the path.
        let mut ends = path.iter().rev();
        let chain = ends.find_map(|node| self.ends.get_mut(&(*node, own.model))?.take(own.start));
        let chain = if let Some(chain) = chain {
            self.chains[chain].requests.push(at);
            self.chains[chain].tail = at;
            chain
        } else {
            let fork = path.last().map(|node| {
                let (_, Reverse(chain)) = self.longest[*node];
                (self.chains[chain].tail, path.len())
            });
            self.chains.push(Growing { requests: vec![at], tail: at, fork });
            self.chains.len() - 1
        };
        for block in &own.blocks[path.len()..] {
            let next = self.longest.len();
            self.nodes.insert((node, *block), next);
            self.longest.push((0, Reverse(usize::MAX)));
            node = next;
            path.push(node);
        }
        for node in &path {
            let longest = &mut self.longest[*node];
            *longest = (own.blocks.len(), Reverse(chain)).max(*longest);
        }
        let ends = self.ends.entry((node, own.model)).or_default();
        ends.waiting.push(Reverse((Time(own.end), chain)));
    }
}

/// The chains that fork from a request: the model of the first request, the depth of the fork, the start,
/// and the number of the chain.
type Forks<'b> = BTreeSet<(&'b str, Reverse<usize>, Time, usize)>;

/// Appends to each chain, in the `order` of their last requests, the one that continues it with a shortened
/// history, if there is one. Returns the chains that are left, in the same order.
pub(super) fn spliced(
    requests: &[Recorded<'_>],
    chains: Vec<Growing>,
    order: &[usize],
) -> Vec<Growing> {
    let mut ending: HashMap<usize, usize> = HashMap::new();
    let mut forks: HashMap<usize, Forks<'_>> = HashMap::new();
    for (number, chain) in chains.iter().enumerate() {
        ending.insert(chain.tail, number);
        if let Some((from, depth)) = chain.fork {
            let first = &requests[chain.requests[0]];
            let fork = (first.model, Reverse(depth), Time(first.start), number);
            forks.entry(from).or_default().insert(fork);
        }
    }
    let mut chains: Vec<Option<Growing>> = chains.into_iter().map(Some).collect();
    for at in order {
        let Some(chain) = ending.get(at).copied() else { continue };
        let Some(mut of_tail) = forks.remove(at) else { continue };
        let Some(elected) = elected(&requests[*at], &of_tail) else {
            forks.insert(*at, of_tail);
            continue;
        };
        of_tail.remove(&elected);
        let Some(Some(other)) = chains.get_mut(elected.3).map(Option::take) else { continue };
        ending.remove(at);
        ending.insert(other.tail, chain);
        // The others fork from what the chain now ends with. The smaller set is added to the larger one.
        let of_other = forks.entry(other.tail).or_default();
        if of_other.len() < of_tail.len() {
            std::mem::swap(of_other, &mut of_tail);
        }
        of_other.extend(of_tail);
        if let Some(chain) = &mut chains[chain] {
            chain.requests.extend(other.requests);
            chain.tail = other.tail;
        }
    }
    // What is left of the forks says from where they are.
    for (from, of_tail) in &forks {
        for (.., number) in of_tail {
            if let Some(Some(Growing { fork: Some((place, _)), .. })) = chains.get_mut(*number) {
                *place = *from;
            }
        }
    }
    chains.into_iter().flatten().collect()
}

/// Returns the chain that continues the one with this last request: of those of its model that begin after
/// it, the one with the deepest fork, then the earliest, then the first.
fn elected<'b>(
    tail: &Recorded<'b>,
    forks: &Forks<'b>,
) -> Option<(&'b str, Reverse<usize>, Time, usize)> {
    let mut depth = usize::MAX;
    loop {
        let of_model = (tail.model, Reverse(depth), Time(f64::NEG_INFINITY), 0);
        let (model, Reverse(next), ..) = *forks.range(of_model..).next()?;
        if model != tail.model {
            return None;
        }
        depth = next;
        // A little earlier, so that the rounding of the difference decides.
        let from = (model, Reverse(depth), Time(tail.end - 2.0 * SAME_TIME), 0);
        let later = forks.range(from..).take_while(|fork| (fork.0, fork.1) == (from.0, from.1));
        let mut following = later.filter(|fork| fork.2.0 - tail.end >= -SAME_TIME);
        if let Some(first) = following.next() {
            let gap = first.2.0 - tail.end;
            if gap <= LONG_GAP || 2 * depth >= tail.blocks.len() {
                return Some(*first);
            }
        }
        depth = depth.checked_sub(1)?;
    }
}
