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
        Some(part(Stage::Connection, 3.0, 0.25)),
        // The stages are 25 ms of the server's 40 ms, and the server's 40 ms of the client's 50 ms.
        Some(part(Stage::FrontEnd, 40.0, 0.5)),
        vec![part(Stage::Queue, 5.0, 1.0), part(Stage::Prefill, 20.0, 2.0)],
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
    let found = parts(50.0, None, None, vec![part(Stage::Prefill, 20.0, 2.0)], 0.0);
    let expected = [part(Stage::Prefill, 20.0, 2.0), part(Stage::Unattributed, 30.0, 2.0)];
    assert_parts(&found, &expected);
}

#[test]
fn times_that_contradict_each_other_are_negative_parts() {
    let server = Some(part(Stage::FrontEnd, 12.0, 0.0));
    let found = parts(10.0, None, server, vec![part(Stage::Queue, 13.0, 0.0)], 0.5);
    let expected = [
        part(Stage::FrontEnd, -1.0, 0.0),
        part(Stage::Queue, 13.0, 0.0),
        part(Stage::Unattributed, -2.0, 0.5),
    ];
    assert_parts(&found, &expected);
}

#[test]
fn a_mean_requires_the_counts_of_the_client() {
    let observed = Observed { count: 8.0, sum: 2.0, rounding: 4e-6, is_reset: false };
    let found = observed.part(QUEUE, 8).unwrap();
    // 2 s and 4 us over 8 requests.
    assert_parts(&[found], &[part(Stage::FrontEnd, 250.0, 5e-4)]);
    assert_eq!(
        observed.part(QUEUE, 7),
        Err(Indivisible::OtherRequests { metric: QUEUE, server: 8.0, client: 7 })
    );
    let restarted = Observed { is_reset: true, ..observed };
    assert_eq!(restarted.part(QUEUE, 8), Err(Indivisible::Restarted(QUEUE)));
}
