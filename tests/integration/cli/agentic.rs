//! The flags of lanes that replay traces.

use base::units::Nanos;
use client::schedule::PhaseKind;
use client::schedule::config::{
    Agentic, AgenticPart, EntryRange, Limit, LoadPattern, PhaseConfig, StopCondition,
    UseOfTimestamps,
};

use super::{profile, refusal};

const TRACES: &str = "--hf-weka-dataset a/b";

fn seconds(number: u64) -> Nanos {
    Nanos(number * 1_000_000_000)
}

/// Returns the phases of a run of 60 s with `flags`.
fn phases(flags: &str) -> Vec<PhaseConfig> {
    let all = format!("{TRACES} --agentic --benchmark-duration 60 {flags}");
    profile(&all).schedule.phases
}

fn agentic(phase: &PhaseConfig) -> Agentic {
    match phase.load {
        LoadPattern::Agentic(agentic) => agentic,
        _ => panic!("{phase:?}"),
    }
}

fn parts(phases: &[PhaseConfig]) -> Vec<(PhaseKind, &str, AgenticPart, Option<Nanos>)> {
    let part = |phase: &PhaseConfig| agentic(phase).part;
    phases.iter().map(|it| (it.kind, it.name(), part(it), it.grace_period)).collect()
}

#[test]
fn lanes_are_primed_before_they_replay() {
    use PhaseKind::{Profiling, Warmup};
    let all = phases("");
    let grace = Some(seconds(30));
    assert_eq!(
        parts(&all),
        [
            (Warmup, "primers", AgenticPart::Primers, None),
            (Profiling, "profiling", AgenticPart::Replay, grace)
        ]
    );
    // AIPerf's defaults.
    let expected = Agentic {
        part: AgenticPart::Replay,
        entry: EntryRange { min: 0.25, max: 0.75 },
        bursts: false,
        system_idle_cap: None,
        tree_idle_cap: None,
    };
    assert_eq!(agentic(&all[1]), expected);
    assert_eq!(all[0].stop, StopCondition::default());
    assert_eq!(all[1].stop.duration, Some(seconds(60)));
    assert_eq!(
        all.iter().map(|it| it.concurrency).collect::<Vec<_>>(),
        [Some(Limit::constant(1)); 2]
    );
    let lanes = phases("--concurrency 8 --failed-request-threshold 0.1");
    assert!(lanes.iter().all(|it| it.concurrency == Some(Limit::constant(8))));
    let thresholds: Vec<_> = lanes.iter().map(|it| it.failed_request_threshold).collect();
    assert_eq!(thresholds, [None, Some(0.1)]);
}

#[test]
fn each_flag_sets_its_part_of_the_load() {
    let flags = "--trajectory-start-min-ratio 0.1 --trajectory-start-max-ratio 0.2 \
                 --burst-phase-starts --system-idle-gap-cap-seconds 10 \
                 --trace-idle-gap-cap-seconds 300 --warmup-requests-per-lane 10";
    let all = phases(flags);
    for phase in &all {
        let Agentic { part: _, entry, bursts, system_idle_cap, tree_idle_cap } = agentic(phase);
        assert_eq!(entry, EntryRange { min: 0.1, max: 0.2 });
        assert!(bursts);
        assert_eq!([system_idle_cap, tree_idle_cap], [10, 300].map(|it| Some(seconds(it))));
    }
    assert_eq!(parts(&all)[1].1, "cache_warmup");
    assert_eq!(parts(&all)[1].2, AgenticPart::CacheRequests(10));
    // Lanes limit the idle time while they replay; other loads, when the traces are read.
    let caps = |flags: &str| {
        let replay = profile(&format!("{TRACES} --trace-idle-gap-cap-seconds 300 {flags}"));
        (replay.schedule.replay.session_gap_cap, replay.schedule.replay.schedule)
    };
    assert_eq!(caps("--agentic --benchmark-duration 60"), (None, UseOfTimestamps::Never));
    assert_eq!(caps("").0, Some(seconds(300)));
}

#[test]
fn the_warmup_waits_as_long_as_its_flags_say() {
    let graces = |flags: &str| -> Vec<Option<Nanos>> {
        let all = phases(flags);
        let warmups = all.iter().filter(|phase| phase.kind == PhaseKind::Warmup);
        warmups.map(|phase| phase.grace_period).collect()
    };
    assert_eq!(graces("--warmup-grace-period 1800"), [Some(seconds(1800))]);
    assert_eq!(
        graces("--agentic-warmup-grace-period 5 --warmup-grace-period 9"),
        [Some(seconds(5))]
    );
    assert_eq!(graces("--agentic-warmup-grace-period inf --warmup-grace-period 9"), [None]);
    // max(benchmark grace, min(duration, 300))
    for (flags, expected) in [
        ("--agentic-cache-warmup-duration 20", Some(seconds(30))),
        ("--agentic-cache-warmup-duration 90", Some(seconds(90))),
        ("--agentic-cache-warmup-duration 900", Some(seconds(300))),
        ("--agentic-cache-warmup-duration 900 --benchmark-grace-period 400", Some(seconds(400))),
        ("--agentic-cache-warmup-duration 900 --benchmark-grace-period inf", None),
    ] {
        assert_eq!(graces(flags), [expected; 2], "{flags}");
    }
    let part = parts(&phases("--agentic-cache-warmup-duration 20"))[1].2;
    assert_eq!(part, AgenticPart::CacheDuration(seconds(20)));
}

#[test]
fn what_lanes_cannot_do_is_refused() {
    for (flags, why) in [
        ("--agentic --benchmark-duration 9", "--public-dataset"),
        ("--hf-weka-dataset a/b --agentic", "--agentic: lanes begin another trace"),
        ("--hf-weka-dataset a/b --burst-phase-starts", "--agentic"),
        ("--hf-weka-dataset a/b --warmup-grace-period 9", "drained|--warmup-duration|--agentic"),
    ] {
        let told = refusal(flags);
        assert!(why.split('|').any(|why| told.contains(why)), "{flags}: {told}");
    }
    let start = format!("{TRACES} --agentic --benchmark-duration 60");
    for (flags, why) in [
        ("--request-rate 5", "'--request-rate <RATE>'"),
        ("--warmup-request-count 5", "'--warmup-request-count <COUNT>'"),
        ("--warmup-requests-per-lane 1 --agentic-cache-warmup-duration 5", "cannot be used with"),
        ("--trajectory-start-min-ratio 0.8", "must be at most --trajectory-start-max-ratio (0.75)"),
        ("--trajectory-start-max-ratio 1.5", "must be at most 1"),
        ("--warmup-requests-per-lane 0", "--warmup-requests-per-lane"),
    ] {
        let told = refusal(&format!("{start} {flags}"));
        assert!(told.contains(why), "{flags}: {told}");
    }
}
