use super::*;

const SECOND: Nanos = Nanos(1_000_000_000);

fn adaptive(control: Control, least: f64, step: StepPolicy, sustain: u64) -> Adaptive {
    let sustain = Nanos(sustain * SECOND.0);
    Adaptive {
        control,
        least,
        window: SECOND,
        sustain,
        least_completed: 1,
        step,
        conditions: vec![],
    }
}

/// Returns the levels of the windows of a server that meets the conditions up to `limit`, with the margin
/// `1 - level / limit`, and how the search ends.
fn path(config: &Adaptive, most: f64, limit: f64) -> (Vec<f64>, AdaptiveEnd) {
    driven(config, most, |level| {
        if level <= limit {
            Finding::Passed { margin: 1.0 - level / limit }
        } else {
            Finding::Failed
        }
    })
}

fn driven(
    config: &Adaptive,
    most: f64,
    mut finding: impl FnMut(f64) -> Finding,
) -> (Vec<f64>, AdaptiveEnd) {
    let mut controller = Controller::new(config, most);
    let mut levels = Vec::new();
    for _ in 0..1000 {
        let level = controller.level();
        levels.push(level);
        if let Some(end) = controller.judge(finding(level), SECOND) {
            return (levels, end);
        }
    }
    panic!("the controller does not end: {levels:?}");
}

#[test]
fn bisection_finds_the_highest_level_that_passes_and_holds_it() {
    let config = adaptive(Control::Concurrency, 1.0, StepPolicy::Bisect, 2);
    let sustained = AdaptiveEnd::Sustained;
    assert_eq!(path(&config, 64.0, 6.0), (vec![1., 2., 4., 8., 6., 7., 6., 6.], sustained));
    assert_eq!(path(&config, 64.0, 1.0), (vec![1., 2., 1., 1.], sustained));
    // 12 is clipped from 16 and fails: 8 passes, then 10, then 11.
    let expected = vec![1., 2., 4., 8., 12., 10., 11., 11., 11.];
    assert_eq!(path(&config, 12.0, 11.0), (expected, sustained));
    let at_once = adaptive(Control::Concurrency, 1.0, StepPolicy::Bisect, 0);
    assert_eq!(path(&at_once, 64.0, 2.0), (vec![1., 2., 4., 3.], sustained));
}

#[test]
fn bisection_of_a_rate_ends_within_five_percent() {
    let config = adaptive(Control::RequestRate, 1.0, StepPolicy::Bisect, 1);
    // The gap is 0.25 of 5.25 or 4.8%, where it was 0.5 of 5.5 or 9.1%.
    let expected = vec![1., 2., 4., 8., 6., 5., 5.5, 5.25, 5.];
    assert_eq!(path(&config, 100.0, 5.1), (expected, AdaptiveEnd::Sustained));
}

#[test]
fn steps_follow_the_margin_or_are_a_percentage() {
    let margin = StepPolicy::SlaMargin { base: 10.0, most: 4 };
    let config = adaptive(Control::Concurrency, 1.0, margin, 1);
    // Margins at 1, 31 and 51 of 60: 0.98, 0.48 and 0.15; four times them, 3.9, 1.9 and 0.6, as whole
    // numbers of at least 1: steps of 30, 10, 10, 10.
    let expected = vec![1., 31., 41., 51., 61., 51.];
    assert_eq!(path(&config, 500.0, 60.0), (expected, AdaptiveEnd::Sustained));
    let percent = adaptive(Control::Concurrency, 10.0, StepPolicy::FixedPercentStep(25.0), 1);
    // 25% of 10, 13 and 17 are 2.5, 3.25 and 4.25.
    let expected = vec![10., 13., 17., 22., 17.];
    assert_eq!(path(&percent, 500.0, 20.0), (expected, AdaptiveEnd::Sustained));
    // A margin of more than 1 is possible for lower limits; the multiple is limited.
    let far = |level| {
        if level < 100.0 { Finding::Passed { margin: 7.0 } } else { Finding::Failed }
    };
    let (levels, _) = driven(&config, 500.0, far);
    assert_eq!(levels[..4], [1., 41., 81., 121.]);
}

#[test]
fn a_load_that_never_fails_or_always_fails_ends() {
    for step in [
        StepPolicy::Bisect,
        StepPolicy::SlaMargin { base: 10.0, most: 4 },
        StepPolicy::FixedPercentStep(50.0),
    ] {
        let config = adaptive(Control::Concurrency, 2.0, step, 5);
        let (levels, end) = path(&config, 20.0, 1e9);
        assert_eq!((levels.last(), end), (Some(&20.0), AdaptiveEnd::NotSaturated));
        assert_eq!(path(&config, 20.0, 1.0), (vec![2.0], AdaptiveEnd::NoneSustainable));
    }
}

#[test]
fn a_level_that_is_not_sustained_is_lowered_once() {
    let margin = StepPolicy::SlaMargin { base: 10.0, most: 1 };
    let config = adaptive(Control::Concurrency, 1.0, margin, 2);
    // The windows' verdicts in order: 1, 11, 21 pass, 31 fails; then 21 is held.
    let run = |verdicts: &str| {
        let mut verdicts = verdicts.chars();
        driven(&config, 500.0, |_| match verdicts.next().unwrap() {
            'p' => Finding::Passed { margin: 0.0 },
            'f' => Finding::Failed,
            _ => Finding::TooFew,
        })
    };
    let held = |more: &[f64]| [&[1., 11., 21., 31.][..], more].concat();
    assert_eq!(run("pppfpp"), (held(&[21., 21.]), AdaptiveEnd::Sustained));
    // The time of the higher level does not count for the lower one.
    assert_eq!(run("pppfpfpp"), (held(&[21., 21., 11., 11.]), AdaptiveEnd::Sustained));
    assert_eq!(run("pppffpf"), (held(&[21., 11., 11.]), AdaptiveEnd::FailedAgain));
    assert_eq!(run("pff"), (vec![1., 11., 1.], AdaptiveEnd::FailedAtLeast));
    // Windows with too few requests are repeated, five times in succession at most.
    assert_eq!(run("p..p...pf.pp").0, [1., 11., 11., 11., 21., 21., 21., 21., 31., 21., 21., 21.]);
    assert_eq!(run("p....."), (vec![1., 11., 11., 11., 11., 11.], AdaptiveEnd::TooFewRequests));
}

#[test]
fn the_result_is_the_level_held_and_the_lowest_that_failed() {
    let config = adaptive(Control::Concurrency, 1.0, StepPolicy::Bisect, 1);
    let mut controller = Controller::new(&config, 64.0);
    let mut end = None;
    while end.is_none() {
        let has_passed = controller.level() <= 6.0;
        let finding = if has_passed { Finding::Passed { margin: 0.0 } } else { Finding::Failed };
        end = controller.judge(finding, SECOND);
    }
    assert_eq!((controller.passing(), controller.failing()), (Some(6.0), Some(7.0)));
}
