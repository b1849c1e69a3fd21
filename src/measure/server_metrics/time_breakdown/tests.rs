use super::*;

fn part(stage: Stage, mean_ms: f64, bound_ms: f64) -> Part {
    Part { stage, mean_ms, bound_ms }
}

fn assert_parts(found: &[Part], expected: &[Part]) {
    let stages = |parts: &[Part]| parts.iter().map(|part| part.stage).collect::<Vec<_>>();
    assert_eq!(stages(found), stages(expected));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found.mean_ms - expected.mean_ms).abs() < 1e-9, "{found:?} {expected:?}");
        assert!((found.bound_ms - expected.bound_ms).abs() < 1e-9, "{found:?} {expected:?}");
    }
}

#[test]
fn what_is_not_in_a_stage_is_in_the_front_end_or_unattributed() {
    let found = parts(
        50.0,
        [Some(part(Stage::Connection, 3.0, 0.25)), None],
        // The stages are 25 ms of the server's 40 ms, and the server's 40 ms of the client's 50 ms.
        [None, Some(part(Stage::Server, 40.0, 0.5))],
        &[Some(part(Stage::Queue, 5.0, 1.0)), Some(part(Stage::Prefill, 20.0, 2.0))],
        10.0,
    );
    let expected = [
        part(Stage::Connection, 3.0, 0.25),
        part(Stage::FrontEnd, 15.0, 3.5),
        part(Stage::Queue, 5.0, 1.0),
        part(Stage::Prefill, 20.0, 2.0),
        // 0.25 + 3.5 + 1 + 2, and the error of the arrival.
        part(Stage::Unattributed, 7.0, 16.75),
    ];
    assert_parts(&found, &expected);
}

#[test]
fn without_the_servers_total_the_rest_is_unattributed() {
    let stages = [Some(part(Stage::Prefill, 20.0, 2.0))];
    let found = parts(50.0, [None, None], [None, None], &stages, 0.0);
    let expected = [part(Stage::Prefill, 20.0, 2.0), part(Stage::Unattributed, 30.0, 2.0)];
    assert_parts(&found, &expected);
}

/// The server's decode of 30 ms has an end token of 4 ms, after the 50 ms of the client.
#[test]
fn the_end_token_is_not_in_the_latency() {
    let stages = [Some(part(Stage::Queue, 10.0, 0.5)), Some(part(Stage::Decode, 30.0, 0.5))];
    let end_token = part(Stage::EndToken, -4.0, 0.0);
    let found = parts(50.0, [None, Some(end_token)], [None, None], &stages, 0.0);
    let rest = part(Stage::Unattributed, 14.0, 1.0);
    let expected = [stages[0].unwrap(), stages[1].unwrap(), end_token, rest];
    assert_parts(&found, &expected);
}

#[test]
fn what_an_engine_does_not_divide_is_not_its_front_end() {
    let stages = [Some(part(Stage::Queue, 5.0, 1.0)), None];
    let engine = Some(part(Stage::Server, 30.0, 0.5));
    let found = parts(50.0, [None, None], [None, engine], &stages, 0.0);
    let expected = [
        part(Stage::Queue, 5.0, 1.0),
        part(Stage::Server, 25.0, 1.5),
        part(Stage::Unattributed, 20.0, 2.5),
    ];
    assert_parts(&found, &expected);
}

#[test]
fn a_frontend_is_what_its_total_exceeds_the_engines_by() {
    let totals = [Some(part(Stage::Server, 40.0, 0.25)), Some(part(Stage::Server, 30.0, 0.5))];
    let found = parts(50.0, [None, None], totals, &[None, None], 0.0);
    let expected = [
        part(Stage::FrontEnd, 10.0, 0.75),
        part(Stage::Server, 30.0, 0.5),
        part(Stage::Unattributed, 10.0, 1.25),
    ];
    assert_parts(&found, &expected);
    // With all stages, what the engine does beside them belongs to the front end, too.
    let stages = [Some(part(Stage::Queue, 5.0, 0.0)), Some(part(Stage::Prefill, 20.0, 0.0))];
    let found = parts(50.0, [None, None], totals, &stages, 0.0);
    let expected = [
        part(Stage::FrontEnd, 15.0, 0.25),
        part(Stage::Queue, 5.0, 0.0),
        part(Stage::Prefill, 20.0, 0.0),
        part(Stage::Unattributed, 10.0, 0.25),
    ];
    assert_parts(&found, &expected);
    // A frontend alone does not show what it does itself.
    let found = parts(50.0, [None, None], [totals[0], None], &[None, None], 0.0);
    let expected = [part(Stage::Server, 40.0, 0.25), part(Stage::Unattributed, 10.0, 0.25)];
    assert_parts(&found, &expected);
}

#[test]
fn times_that_contradict_each_other_are_negative_parts() {
    let engine = Some(part(Stage::Server, 12.0, 0.0));
    let stages = [Some(part(Stage::Queue, 13.0, 0.0))];
    let found = parts(10.0, [None, None], [None, engine], &stages, 0.5);
    let expected = [
        part(Stage::FrontEnd, -1.0, 0.0),
        part(Stage::Queue, 13.0, 0.0),
        part(Stage::Unattributed, -2.0, 0.5),
    ];
    assert_parts(&found, &expected);
}

#[test]
fn a_mean_requires_the_counts_of_the_client() {
    let time = seconds("queue_seconds");
    let observed = Observed { count: Some(8.0), sum: 2.0, rounding: 4e-6, is_reset: false };
    let found =
        |observed: Observed, zeros, requests| observed.part(Stage::Queue, time, zeros, requests);
    // 2 s and 4 us over 8 requests.
    let expected = part(Stage::Queue, 250.0, 5e-4);
    assert_parts(&[found(observed, false, 8).unwrap()], &[expected]);
    let other = |client| {
        let (metric, quantity) = (time.metric, "requests");
        Err(Indivisible::OtherRequests { metric, quantity, server: 8.0, client })
    };
    assert_eq!(found(observed, false, 7), other(7.0));
    assert_eq!(found(observed, false, 10), other(10.0));
    // Two more requests for which the time was 0.
    assert_parts(&[found(observed, true, 10).unwrap()], &[part(Stage::Queue, 200.0, 4e-4)]);
    assert_eq!(found(observed, true, 7), other(7.0));
    let counter = Observed { count: None, ..observed };
    assert_parts(&[found(counter, false, 8).unwrap()], &[expected]);
    let restarted = Observed { is_reset: true, ..observed };
    assert_eq!(found(restarted, false, 8), Err(Indivisible::Restarted(time.metric)));
}
