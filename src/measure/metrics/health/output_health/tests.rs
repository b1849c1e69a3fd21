use client::record::{ErrorKind, RequestError};
use client::schedule::PhaseKind;

use super::*;
use crate::metrics::metric::RecordValues;
use crate::metrics::output::{CanaryAnswer, Output};

fn observation(faults: &[Fault], canary: Option<CanaryAnswer>) -> Observation {
    let mut output = Output { canary, ..Output::default() };
    for fault in faults {
        output.faults.insert(*fault);
    }
    Observation {
        phase: PhaseKind::Profiling,
        start_wall_ns: 7,
        end_wall_ns: 9,
        requested_output_tokens: None,
        missing_answers: 0,
        output,
        error: None,
        values: RecordValues::default(),
    }
}

const SOURCE: Source<'_> = Source { request_id: Some(Uuid::from_u128(5)), worker: Some("w") };

/// Returns what is found in so many outputs, of which so many in the middle have `fault`, and so many of the
/// first.
fn found(fault: Fault, outputs: usize, count: usize, first: usize) -> OutputHealth {
    let mut counts = OutputCounts::default();
    for at in 0..outputs {
        let is_faulty = at < first || (at >= outputs / 2 && at < outputs / 2 + count);
        let faults = [fault];
        counts.observe(&observation(&faults[..usize::from(is_faulty)], None), SOURCE);
    }
    counts.judge().unwrap()
}

#[test]
fn few_faults_that_a_model_may_have_by_itself_are_not_a_reason() {
    // By scipy.stats.binom.sf(count - 1, 2000, 1/5000): 0.0079 for 3, 0.00077 for 4.
    let three = found(Fault::Repetition, 2000, 3, 0);
    assert_eq!((three.verdict, three.corrupted_outputs), (Some(Verdict::Valid), 0));
    let four = found(Fault::Repetition, 2000, 4, 0);
    assert_eq!((four.verdict, four.corrupted_outputs), (Some(Verdict::Suspect), 4));
    assert_eq!(four.to_string(), "suspect: 4 of 2000 outputs repeat the same text until their end");
    assert_eq!(
        four.faults,
        [FaultCount { fault: Fault::Repetition, count: 4, first: 0, is_reason: true }]
    );
    // What the protocol forbids is the server's.
    assert_eq!(found(Fault::AfterEnd, 2000, 3, 0).verdict, Some(Verdict::Valid));
    assert_eq!(found(Fault::AfterEnd, 2000, 4, 0).verdict, Some(Verdict::Invalid));
}

#[test]
fn few_outputs_do_not_have_a_verdict() {
    // By scipy.stats.binom.sf(1, 100, 1/5000): 0.0002.
    assert_eq!(found(Fault::Blank, 100, 2, 0).verdict, Some(Verdict::Suspect));
    assert_eq!(found(Fault::Blank, 99, 2, 0).verdict, None);
    assert_eq!(found(Fault::Blank, 99, 0, 0).to_string(), "too few outputs to tell");
    assert_eq!(found(Fault::Crosstalk, 1, 1, 0).verdict, Some(Verdict::Invalid));
    assert_eq!(OutputCounts::default().judge(), None);
}

#[test]
fn what_the_first_outputs_have_too_is_usual() {
    // The upper end of the interval of 5 of 100, 99.9%, is 15.5%. By scipy.stats.binom.sf(count - 1, 1900, that):
    // 0.0011 for 345, 0.0009 for 346.
    assert_eq!(found(Fault::Repetition, 2000, 345, 5).verdict, Some(Verdict::Valid));
    assert_eq!(found(Fault::Repetition, 2000, 346, 5).verdict, Some(Verdict::Suspect));
    assert_eq!(found(Fault::Repetition, 2000, 0, 4).verdict, Some(Verdict::Suspect));
    assert_eq!(found(Fault::Repetition, 2000, 0, 5).verdict, Some(Verdict::Valid));
}

#[test]
fn one_quoted_marker_is_a_security_finding() {
    let health = found(Fault::Crosstalk, 2000, 1, 0);
    assert_eq!((health.verdict, health.corrupted_outputs), (Some(Verdict::Invalid), 1));
    assert_eq!(health.names_of_reasons().as_deref(), Some("crosstalk"));
    assert!(health.reasons[0].advice.starts_with("treat it as a security finding"));
}

#[test]
fn answers_to_canaries_are_counted() {
    let mut counts = OutputCounts::default();
    let answer = |common, differing| {
        Some(CanaryAnswer { number: 1, common_tokens: Some(common), differing_tokens: differing })
    };
    for _ in 0..98 {
        counts.observe(&observation(&[], answer(40, None)), SOURCE);
    }
    counts.observe(&observation(&[], answer(12, Some(41))), SOURCE);
    let one = observation(&[Fault::CanaryWrong, Fault::WrongScript], answer(3, Some(40)));
    counts.observe(&one, SOURCE);
    let mut expected =
        CanaryCounts { answered: 100, differing: 2, wrong: 1, least_common_tokens: Some(3) };
    let health = counts.judge().unwrap();
    assert_eq!((health.verdict, health.canaries), (Some(Verdict::Suspect), Some(expected)));
    assert_eq!(health.corrupted_outputs, 1);
    counts.observe(&one, SOURCE);
    expected = CanaryCounts { answered: 101, differing: 3, wrong: 2, ..expected };
    let health = counts.judge().unwrap();
    assert_eq!((health.verdict, health.canaries), (Some(Verdict::Invalid), Some(expected)));
    assert_eq!(health.names_of_reasons().as_deref(), Some("canary_wrong,wrong_script"));
    // Each of the two has both faults.
    assert_eq!(health.corrupted_outputs, 2);
    assert_eq!(
        health.to_string(),
        "invalid: 2 of 101 outputs are wrong answers to canaries that the idle server answered correctly, and 1 more"
    );
}

#[test]
fn answers_that_only_vary_are_valid() {
    let mut counts = OutputCounts::default();
    for at in 0..100 {
        let differing_tokens = (at < 30).then_some(40);
        let canary = CanaryAnswer { number: 1, common_tokens: Some(at), differing_tokens };
        counts.observe(&observation(&[], Some(canary)), SOURCE);
    }
    assert_eq!(
        counts.judge().unwrap().to_string(),
        "valid (100 outputs, 30 of 100 canaries answered differently from the idle server)"
    );
}

#[test]
fn the_first_requests_with_a_fault_are_examples() {
    let health = found(Fault::Blank, 200, 9, 0);
    let example = Example {
        fault: Fault::Blank,
        x_request_id: Uuid::from_u128(5),
        request_start_ns: 7,
        server_worker_id: Some("w".to_owned()),
    };
    assert_eq!(health.examples, vec![example; 3]);
}

#[test]
fn failed_requests_do_not_have_outputs() {
    let mut counts = OutputCounts::default();
    let error = Some(RequestError::new(ErrorKind::Timeout, "", ""));
    counts.observe(&Observation { error: error.clone(), ..observation(&[], None) }, SOURCE);
    assert_eq!(counts.judge(), None);
    counts.observe(&Observation { error, ..observation(&[Fault::Leaked], None) }, SOURCE);
    assert_eq!(counts.judge().unwrap().verdict, Some(Verdict::Invalid));
}
