use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::Config;

use base::units::Nanos;
use client::endpoint::ParsedResponse;
use client::record::{Ancestry, RequestError, RequestRecord, ResponseBody};
use measure::metrics::AgentCall;
use measure::metrics::fixture;
use measure::metrics::metric::{Observation, RecordValues, Value};

use super::*;

const CONVERSATION: Uuid = Uuid::from_u128(40);
const SECOND: u64 = 1_000_000_000;

/// The request of a turn, which starts and ends at these seconds, and could be sent at `ready`.
fn call(turn: usize, (ready, start, end): (u64, u64, u64), last: usize) -> MeasuredRecord {
    let mut values = RecordValues::default();
    values.set(tag::INPUT_SEQUENCE_LENGTH, Value::Scalar(10.0));
    let mut record = RequestRecord {
        request_id: Uuid::from_u128(turn as u128),
        correlation_id: CONVERSATION,
        trace_id: CONVERSATION,
        model: "m".into(),
        free_from: Nanos(ready * SECOND),
        start: Nanos(start * SECOND),
        end: Nanos(end * SECOND),
        ..measure::metrics::fixture::record(Nanos(start * SECOND), ResponseBody::default())
    };
    record.turn.turn = turn;
    // The wall clock is a thousand seconds ahead.
    let observation = Observation {
        start_wall_ns: (start + 1000) * SECOND,
        end_wall_ns: (end + 1000) * SECOND,
        values,
        ..fixture::observation()
    };
    let tools = if turn == 0 { Vec::new() } else { vec![Some("search".into()), None] };
    let agent = Some(AgentCall { is_last: turn == last, tools, ..AgentCall::default() });
    let response = ParsedResponse::default();
    MeasuredRecord { record, response, observation, is_text: true, agent }
}

fn agents() -> Agents {
    Agents::new(None, vec!["m".into()], None)
}

#[test]
fn an_agent_waits_for_its_tools() {
    let agents = agents();
    assert_eq!(agents.observe(&call(0, (0, 1, 3), 1)), None);
    // The tools took from 3 to 5 s; the request then waited for a slot.
    let agent = agents.observe(&call(1, (5, 6, 9), 1)).unwrap();
    assert_eq!((agent.start, agent.end), (1001 * SECOND, 1009 * SECOND));
    assert_eq!(
        (agent.inference_calls, agent.input_tokens, agent.output_tokens),
        (2, Some(20), None)
    );
    assert_eq!((agent.error, agent.parent, agent.model.as_deref()), (None, None, Some("m")));
    let uses = |name: &str, index| ToolUse {
        name: name.into(),
        start: 1003 * SECOND,
        end: 1005 * SECOND,
        request: Uuid::from_u128(1),
        index,
    };
    assert_eq!(agent.tools, [uses("search", 0), uses("_OTHER", 1)]);
    assert_eq!(agents.rest(), []);
}

#[test]
fn what_the_run_cuts_short_is_cancelled_and_a_failure_has_its_own_error() {
    let agents = agents();
    assert_eq!(agents.observe(&call(0, (0, 1, 3), 2)), None);
    assert_eq!(agents.rest()[0].error, Some(ErrorKind::Cancelled));
    let mut failed = call(1, (5, 6, 9), 1);
    failed.observation.error = Some(RequestError::new(ErrorKind::Http5xx, "Bad", "gateway"));
    assert_eq!(agents.observe(&call(0, (0, 1, 3), 1)), None);
    assert_eq!(agents.observe(&failed).unwrap().error, Some(ErrorKind::Http5xx));
    // The agent goes on after a failure that is not the last request's.
    failed.agent.as_mut().unwrap().is_last = false;
    for early in [call(0, (0, 1, 3), 2), failed] {
        assert_eq!(agents.observe(&early), None);
    }
    assert_eq!(agents.observe(&call(2, (9, 9, 10), 2)).unwrap().error, None);
}

#[test]
fn a_sub_agent_has_its_parent_and_a_fork_begins_later() {
    let agents = agents();
    let root = Uuid::from_u128(1);
    let mut child = call(3, (0, 1, 3), 3);
    child.record.ancestry = Some(Ancestry::of_root(root).of_child(root));
    child.agent.as_mut().unwrap().first_turn = 3;
    let agent = agents.observe(&child).unwrap();
    assert_eq!((agent.parent, agent.inference_calls), (Some(root), 1));
}

#[test]
fn names_of_tools_and_models_are_bounded() {
    let mut known = HashSet::new();
    let names: BTreeSet<_> =
        (0..200).map(|n| tool(Some(&format!("t{n}").into()), &mut known)).collect();
    assert_eq!(names.len(), MAX_TOOLS + 1);
    assert!(names.contains(OTHER));
    assert_eq!(&*tool(Some(&"x".repeat(257).into()), &mut HashSet::new()), OTHER);
    let agents = Agents::new(None, vec!["a".into(), "b".into()], None);
    assert_eq!(["b", "z"].map(|name| agents.model(name).to_string()), ["b", OTHER]);
}

proptest! {
    #![proptest_config(Config { cases: 64, ..Config::default() })]
    #[test]
    fn the_order_of_processing_does_not_matter(order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle()) {
        let turn = |turn: usize| {
            let start = 10 * turn as u64;
            call(turn, (start, start + 1, start + 5), 5)
        };
        let expected = {
            let agents = agents();
            (0..6).find_map(|at| agents.observe(&turn(at))).unwrap()
        };
        let agents = agents();
        let found: Vec<_> = order.iter().filter_map(|at| agents.observe(&turn(*at))).collect();
        prop_assert_eq!(found, [expected]);
    }
}
