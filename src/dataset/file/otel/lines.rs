//! Who waited for whom: the requests of a session as lines of requests that follow each other, of
//! which some start others.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base::units::Nanos;

use super::call::{Call, MessageKind};
use super::collected::ActorPath;

/// A line: requests of which each was sent after the end of the one before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) requests: Vec<Request>,
    /// The line that starts this one; `None` for the first one of the session.
    pub(super) origin: Option<Origin>,
    /// The agent or tool that sends the requests; `None` for that of the session.
    actor: Option<u64>,
}

/// A request of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    /// Index of the call in the session.
    pub(super) call: usize,
    /// How many of its first messages are the input of the request before it; `None` if it does not
    /// continue that one. The next message is the response.
    pub(super) repeats: Option<usize>,
}

/// Where a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) line: usize,
    /// The request of that line after which it begins; `None` before the first one.
    pub(super) after: Option<usize>,
    /// Whether it continues the messages of that request.
    pub(super) is_fork: bool,
}

/// Returns the lines of a session, each after the one that starts it. `calls` are in the order of
/// their starts.
pub(super) fn session_lines(calls: &[Call], places: &[ActorPath]) -> Vec<Line> {
    let repeated: Vec<Option<Repeated>> = repeated(calls);
    let mut is_continued = vec![false; calls.len()];
    for found in repeated.iter().flatten() {
        is_continued[found.call] = true;
    }
    let mut session = Session {
        calls,
        is_continued: &is_continued,
        lines: Vec::new(),
        places: HashMap::new(),
        actors: HashMap::new(),
        all: Actor::default(),
        open: HashMap::new(),
    };
    for (call, (place, repeated)) in places.iter().zip(repeated).enumerate() {
        session.add(call, place, repeated);
    }
    session.lines
}

/// The request whose response another one repeats.
#[derive(Debug, Clone, Copy)]
struct Repeated {
    call: usize,
    /// The number of its messages, if they are repeated too.
    messages: Option<usize>,
}

/// Finds for each call the earlier one that it continues: its messages begin with those of the
/// earlier one, followed by a message of the model. Of several, it is the one with the most
/// messages, then one with that response, then the latest. Without one, it is the one whose response
/// or tool calls are the last among its messages.
fn repeated(calls: &[Call]) -> Vec<Option<Repeated>> {
    let mut by_input: HashMap<u64, Vec<usize>> = HashMap::new();
    let (mut by_output, mut by_tool_call) = (HashMap::new(), HashMap::new());
    let mut found = Vec::with_capacity(calls.len());
    for (at, call) in calls.iter().enumerate() {
        let input = &call.said.input;
        let mut hasher = DefaultHasher::new();
        let mut best: Option<Repeated> = None;
        for (length, message) in (1..).zip(input) {
            message.hash(&mut hasher);
            let is_answered = matches!(
                call.said.kinds.get(length),
                Some(MessageKind::Answer | MessageKind::ToolCalls)
            );
            if !is_answered {
                continue;
            }
            let Some(candidates) = by_input.get(&hasher.finish()) else { continue };
            let is_same = |other: &&usize| calls[**other].said.input[..] == input[..length];
            let said_so = |other: &&usize| calls[**other].said.output == input.get(length).copied();
            let mut same = candidates.iter().rev().filter(is_same);
            let chosen = same.clone().find(said_so).or_else(|| same.next());
            best = chosen.map(|call| Repeated { call: *call, messages: Some(length) }).or(best);
        }
        let said = input.iter().zip(&call.said.kinds).rev();
        let answered = said.filter_map(|(message, kind)| match kind {
            MessageKind::Answer | MessageKind::ToolCalls => by_output.get(message).copied(),
            MessageKind::ToolResult(id) => by_tool_call.get(id).copied(),
            MessageKind::Other => None,
        });
        let has_ended = |other: &usize| calls[*other].end <= call.start;
        let best = best.or_else(|| {
            let call = answered.into_iter().find(has_ended)?;
            Some(Repeated { call, messages: None })
        });
        by_output.extend(call.said.output.map(|output| (output, at)));
        by_tool_call.extend(call.said.tool_calls.iter().map(|id| (*id, at)));
        if !input.is_empty() {
            let mut hasher = DefaultHasher::new();
            for message in input {
                message.hash(&mut hasher);
            }
            by_input.entry(hasher.finish()).or_default().push(at);
        }
        found.push(best);
    }
    found
}

/// The lines of a session so far.
struct Session<'a> {
    calls: &'a [Call],
    /// Whether a later call continues each call.
    is_continued: &'a [bool],
    lines: Vec<Line>,
    /// The line of each call, and the place in it.
    places: HashMap<usize, (usize, usize)>,
    actors: HashMap<Option<u64>, Actor>,
    /// All agents together.
    all: Actor,
    /// The lines that each line has started, and for which none of its requests has waited.
    open: HashMap<usize, Vec<usize>>,
}

/// The lines of an agent, or of a tool.
#[derive(Default)]
struct Actor {
    first: Option<usize>,
    /// When the last request of each line ended, for lines whose last request none continues.
    free: BTreeSet<(u64, usize)>,
    /// When each request ended, with its line and its place there; of those that ended at the same
    /// time, the first is the greatest.
    ended: BTreeSet<(u64, Reverse<(usize, usize)>)>,
}

impl Session<'_> {
    fn add(&mut self, call: usize, place: &ActorPath, repeated: Option<Repeated>) {
        let actor = place.actors.first().copied();
        if let Some(Repeated { call: earlier, messages }) = repeated
            && let Some((line, at)) = self.places.get(&earlier).copied()
        {
            let request = Request { call, repeats: messages };
            if at + 1 == self.lines[line].requests.len() {
                return self.append(line, request);
            }
            if messages.is_some() {
                // The line has already gone on otherwise.
                let origin = Origin { line, after: Some(at), is_fork: true };
                return self.begin(request, Some(origin), actor);
            }
        }
        let request = Request { call, repeats: None };
        let start = self.calls[call].start;
        // The first line of the same agent whose requests have ended, and that no call continues.
        let free = self
            .actors
            .get(&actor)
            .and_then(|own| own.free.range(..=(start, usize::MAX)).map(|(_, line)| *line).min());
        match free {
            Some(line) => self.append(line, request),
            None => self.begin(request, self.origin(start, place), actor),
        }
    }

    fn append(&mut self, line: usize, request: Request) {
        self.close_ended(line, self.calls[request.call].start);
        let Line { requests, actor, .. } = &mut self.lines[line];
        let (at, end) = (requests.len(), self.calls[request.call].end);
        let last = requests.last().map(|last| (self.calls[last.call].end, line));
        self.places.insert(request.call, (line, at));
        requests.push(request);
        let own = self.actors.entry(*actor).or_default();
        for set in [own, &mut self.all] {
            set.first.get_or_insert(line);
            set.ended.insert((end, Reverse((line, at))));
            if let Some(last) = last {
                set.free.remove(&last);
            }
            if !self.is_continued[request.call] {
                set.free.insert((end, line));
            }
        }
    }

    /// Closes the lines that `line` has started and that ended before `start`: its next request
    /// waits for them, so that they do not go on after it.
    fn close_ended(&mut self, line: usize, start: u64) {
        let mut closing = Vec::new();
        if let Some(open) = self.open.get_mut(&line) {
            let (lines, calls) = (&self.lines, self.calls);
            let has_ended = |line: &usize| {
                lines[*line].requests.last().is_some_and(|last| calls[last.call].end <= start)
            };
            closing.extend(open.extract_if(.., |line| has_ended(line)));
        }
        while let Some(line) = closing.pop() {
            closing.extend(self.open.remove(&line).unwrap_or_default());
            let Line { requests, actor, .. } = &self.lines[line];
            for set in self.actors.get_mut(actor).into_iter().chain([&mut self.all]) {
                for (at, request) in requests.iter().enumerate() {
                    let end = self.calls[request.call].end;
                    set.ended.remove(&(end, Reverse((line, at))));
                    set.free.remove(&(end, line));
                }
            }
        }
    }

    fn begin(&mut self, request: Request, origin: Option<Origin>, actor: Option<u64>) {
        if let Some(Origin { line, .. }) = origin {
            self.open.entry(line).or_default().push(self.lines.len());
        }
        self.lines.push(Line { requests: Vec::new(), origin, actor });
        self.append(self.lines.len() - 1, request);
    }

    /// Returns where a line begins that starts at `start`: after the last request that had ended, of
    /// the same agent, or else of the next one around it, or else of any.
    fn origin(&self, start: u64, place: &ActorPath) -> Option<Origin> {
        let around = place.actors.iter().map(|actor| Some(*actor)).chain([None]);
        let mut known = around.filter_map(|actor| self.actors.get(&actor));
        let nearest = known.find(|actor| !actor.ended.is_empty());
        let lines = nearest.unwrap_or(&self.all);
        let origin = |line, after| Origin { line, after, is_fork: false };
        let ended = lines.ended.range(..=(start, Reverse((0, 0)))).next_back();
        match ended {
            Some((_, Reverse((line, at)))) => Some(origin(*line, Some(*at))),
            None => lines.first.map(|line| origin(line, None)),
        }
    }
}

/// When the lines of a session end, and who waits for that.
pub(super) struct Times {
    /// When each line ends, with all that it starts.
    ends: Vec<u64>,
    /// For each line, the request of the one that starts it which waits for its end: the first that
    /// started after it.
    pub(super) joins: Vec<Option<usize>>,
    /// When the last of those ended that a request of a line waits for.
    joined: HashMap<(usize, usize), u64>,
}

impl Times {
    pub(super) fn new(lines: &[Line], calls: &[Call]) -> Self {
        let own = |line: &Line| line.requests.iter().map(|request| calls[request.call].end).max();
        let mut ends: Vec<u64> = lines.iter().map(|line| own(line).unwrap_or(0)).collect();
        // A line comes after the one that starts it.
        for at in (0..lines.len()).rev() {
            if let Some(origin) = lines[at].origin {
                ends[origin.line] = ends[origin.line].max(ends[at]);
            }
        }
        let mut times = Self { ends, joins: vec![None; lines.len()], joined: HashMap::new() };
        for (at, line) in lines.iter().enumerate() {
            let Some(Origin { line: parent, after, .. }) = line.origin else { continue };
            let (requests, end) = (&lines[parent].requests, times.ends[at]);
            // The requests of a line are in the order of their starts.
            let later = requests.partition_point(|request| calls[request.call].start < end);
            let later = later.max(after.map_or(1, |after| after + 1));
            if later < requests.len() {
                times.joins[at] = Some(later);
                let joined = times.joined.entry((parent, later)).or_default();
                *joined = end.max(*joined);
            }
        }
        times
    }

    /// Returns the time between the end of what the request at `place` of the line `at` waited for,
    /// and its start; zero for the first one of the session.
    pub(super) fn delay(&self, lines: &[Line], calls: &[Call], at: usize, place: usize) -> Nanos {
        let call_at = |line: usize, place: usize| &calls[lines[line].requests[place].call];
        let before = match (place.checked_sub(1), lines[at].origin) {
            (Some(before), _) => call_at(at, before).end,
            (None, None) => return Nanos::ZERO,
            (None, Some(origin)) => begin(lines, calls, origin),
        };
        let joined = self.joined.get(&(at, place)).copied().unwrap_or(0);
        Nanos(call_at(at, place).start.saturating_sub(before.max(joined)))
    }
}

/// Returns when what a line begins with is over.
fn begin(lines: &[Line], calls: &[Call], mut origin: Origin) -> u64 {
    loop {
        let requests = &lines[origin.line].requests;
        match (origin.after, lines[origin.line].origin) {
            (Some(after), _) => return calls[requests[after].call].end,
            (None, None) => return requests.first().map_or(0, |first| calls[first.call].start),
            // A line comes after the one that starts it.
            (None, Some(before)) => origin = before,
        }
    }
}
