//! The hazards: what the server does, and the load under which it does it.

use mock_server::{Nanos, parse_duration};
use serde::Serialize;

/// A way of servers, networks or loads at which clients measure wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hazard {
    /// The name on the command line.
    pub name: &'static str,
    /// What happens, in a few words.
    pub says: &'static str,
    /// The flags of `aiperf mock-server` beside those of [`PACE`], separated by spaces.
    pub(crate) server: &'static str,
    /// What is asked of the client.
    pub(crate) load: Load,
    /// Members that each request's body must have, as a JSON object.
    pub(crate) extra_body: Option<&'static str>,
    /// Whether the server's address is `https`.
    pub(crate) tls: bool,
    /// Whether only chat completions have it.
    pub(crate) is_of_chats: bool,
}

/// What is asked of a client.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Load {
    /// How requests start.
    pub(crate) arrivals: Arrivals,
    /// Number of requests.
    pub(crate) requests: u64,
    /// Number of input tokens of each.
    pub(crate) isl: u64,
    /// Number of output tokens of each.
    pub(crate) osl: u64,
}

/// How requests start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Arrivals {
    /// As soon as another one ends, with this number in flight.
    Closed(u64),
    /// At this rate per second, however many are in flight.
    Open(f64),
}

/// A closed loop of eight.
const CLOSED: Load = Load { arrivals: Arrivals::Closed(8), requests: 80, isl: 64, osl: 32 };
/// A constant rate that the server keeps up with.
const OPEN: Load = Load { arrivals: Arrivals::Open(20.0), requests: 80, isl: 64, osl: 32 };

/// The flags of the mock server where a hazard does not have others.
const PACE: [(&str, &str); 3] = [("--ttft", "50ms"), ("--itl", "5ms"), ("--jitter", "20%")];

impl Hazard {
    const fn new(name: &'static str, says: &'static str, server: &'static str) -> Self {
        Self { name, says, server, load: CLOSED, extra_body: None, tls: false, is_of_chats: false }
    }

    const fn of_chats(self) -> Self {
        Self { is_of_chats: true, ..self }
    }

    const fn under(self, load: Load) -> Self {
        Self { load, ..self }
    }

    /// Returns the flags of the mock server.
    pub(crate) fn server_flags(&self) -> Vec<&'static str> {
        let own: Vec<_> = self.server.split_whitespace().collect();
        let pace = PACE.into_iter().filter(|(flag, _)| !own.contains(flag));
        pace.flat_map(|(flag, value)| [flag, value]).chain(own.iter().copied()).collect()
    }

    /// Returns the value of a flag of the mock server that is a duration, in seconds.
    fn duration(&self, flag: &str) -> f64 {
        let flags = self.server_flags();
        let value = flags.iter().skip_while(|name| **name != flag).nth(1);
        value.and_then(|value| parse_duration(value).ok()).map_or(0.0, Nanos::as_seconds)
    }

    /// Returns roughly for how long requests are sent, in seconds.
    pub(crate) fn sending_seconds(&self) -> f64 {
        match self.load.arrivals {
            Arrivals::Closed(_) => self.seconds(),
            Arrivals::Open(rate) => self.load.requests as f64 / rate,
        }
    }

    /// Returns roughly how long the load takes if the client adds nothing, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        let Load { arrivals, requests, osl, .. } = self.load;
        let one = self.duration("--ttft") + self.duration("--itl") * osl as f64;
        match arrivals {
            Arrivals::Closed(streams) => requests.div_ceil(streams) as f64 * one,
            Arrivals::Open(rate) => requests as f64 / rate + one,
        }
    }
}

/// All hazards, in the order of the table.
pub const ALL: &[Hazard] = &[
    Hazard::new("closed-loop", "no hazard: eight requests in flight", ""),
    Hazard::new("open-loop", "no hazard: 20 requests per second", "").under(OPEN),
    Hazard::new("tokens-per-event", "four tokens in each event", "--tokens-per-chunk 4"),
    Hazard::new("role-first", "an event with only the role comes at once", "--early-role")
        .of_chats(),
    Hazard::new("empty-first", "an event with an empty text comes at once", "--empty-first"),
    Hazard::new(
        "reasoning-content",
        "reasoning in `reasoning_content`, then content",
        "--reasoning-tokens 16",
    )
    .of_chats(),
    Hazard::new(
        "reasoning",
        "reasoning in `reasoning`, then content",
        "--reasoning-tokens 16 --reasoning-place reasoning",
    )
    .of_chats(),
    Hazard::new(
        "think",
        "reasoning between `<think>` and `</think>` in the content",
        "--reasoning-tokens 16 --reasoning-place think",
    )
    .of_chats(),
    Hazard::new(
        "usage-tail",
        "an event with usage and no choice ends every stream, asked for or not",
        "--always-usage",
    ),
    Hazard::new("no-usage", "usage is never reported", "--no-usage"),
    Hazard::new("tool-calls", "the output is a tool call", "--tool-calls").of_chats(),
    Hazard::new(
        "error-in-stream",
        "an error event in every tenth stream, whose status is 200",
        "--fault every=10:error=8",
    ),
    Hazard::new(
        "status-503",
        "the status 503 for every tenth request",
        "--fault every=10:status=503",
    ),
    Hazard::new(
        "status-429",
        "the status 429 for every tenth request",
        "--fault every=10:status=429",
    ),
    Hazard::new(
        "cut",
        "the connection is closed midway in every tenth stream",
        "--fault every=10:cut=8",
    ),
    Hazard::new(
        "stall",
        "500 ms of silence in every fortieth stream",
        "--fault every=40:stall=8,500ms",
    ),
    Hazard::new("long-prompt", "prompts of 50,000 tokens", "").under(Load {
        arrivals: Arrivals::Closed(2),
        requests: 16,
        isl: 50_000,
        osl: 32,
    }),
    Hazard {
        tls: true,
        ..Hazard::new("slow-tls", "a TLS handshake that takes 100 ms", "--tls-delay 100ms")
    },
    Hazard::new(
        "nagle",
        "40 ms between two writes, as with Nagle's algorithm",
        "--write-interval 40ms",
    ),
    Hazard::new("late-accept", "connections are accepted 100 ms late", "--accept-delay 100ms"),
    Hazard::new("thousand-streams", "1,000 requests in flight, 50 ms between tokens", "--itl 50ms")
        .under(Load { arrivals: Arrivals::Closed(1000), requests: 2000, ..CLOSED }),
    Hazard::new(
        "fast-rejects",
        "requests beyond four in flight get the status 429 at once",
        "--fault all,above=4:status=429",
    )
    .under(Load { requests: 400, ..CLOSED }),
    Hazard::new(
        "beyond-capacity",
        "40 requests per second at a server that completes 19",
        "--max-concurrent 4",
    )
    .under(Load { arrivals: Arrivals::Open(40.0), requests: 120, ..OPEN }),
    Hazard::new("late-end", "the stream ends 60 ms after the last content", "--end-delay 60ms"),
    Hazard::new("gateway", "a gateway passes eight events on at once", "--chunks-together 8"),
    Hazard {
        extra_body: Some(r#"{"n":2}"#),
        ..Hazard::new("two-choices", "two choices for each request (n = 2)", "")
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_times_are_those_of_the_pace() {
        let names: BTreeSet<_> = ALL.iter().map(|hazard| hazard.name).collect();
        assert_eq!(names.len(), ALL.len());
        let find = |name| ALL.iter().find(|hazard| hazard.name == name).unwrap();
        let seconds = |name| find(name).seconds();
        // Ten waves of 50 + 32 * 5 ms; 80 at 20 per second and one response.
        assert!((seconds("closed-loop") - 2.1).abs() < 1e-9);
        assert!((seconds("open-loop") - 4.21).abs() < 1e-9);
        // Two waves of 50 + 32 * 50 ms.
        assert!((seconds("thousand-streams") - 3.3).abs() < 1e-9);
        let flags = find("thousand-streams").server_flags();
        assert_eq!(flags, ["--ttft", "50ms", "--jitter", "20%", "--itl", "50ms"]);
    }
}
