use super::*;

const SECOND: Nanos = Nanos(1_000_000_000);
const TIMEOUT: Nanos = Nanos(60_000_000_000);

struct TestBarrier {
    directory: tempfile::TempDir,
    settings: Uuid,
    attempt: Option<String>,
}

impl TestBarrier {
    fn new(attempt: Option<&str>) -> Self {
        let attempt = attempt.map(ToOwned::to_owned);
        Self { directory: tempfile::tempdir().unwrap(), settings: Uuid::new_v4(), attempt }
    }

    /// A process that drives this shard.
    fn shard(&self, index: u64, count: u64) -> Barrier {
        let note = Note {
            id: Uuid::new_v4(),
            settings: self.settings,
            attempt: self.attempt.clone(),
            leader: None,
            state: State::Ready,
            beat: 0,
            waited: Nanos::ZERO,
            lead: SECOND,
            clock: None,
        };
        let files = Files::create(self.directory.path()).unwrap();
        Barrier::new(files, format!("{index}/{count}").parse().unwrap(), TIMEOUT, note, false)
    }

    fn shards(&self, count: u64) -> Vec<Barrier> {
        (0..count).map(|index| self.shard(index, count)).collect()
    }
}

/// Lets each of them take steps in turn, after they have waited for the time `waited`.
fn rounds(shards: &mut [Barrier], waited: Nanos) -> Vec<Option<Agreed>> {
    let mut agreed = vec![None; shards.len()];
    for _ in 0..3 {
        for (agreed, shard) in agreed.iter_mut().zip(shards.iter_mut()) {
            if agreed.is_none() {
                *agreed = shard.step(waited).unwrap();
            }
        }
    }
    agreed
}

fn error(barrier: &mut Barrier, waited: Nanos) -> String {
    format!("{:#}", barrier.step(waited).unwrap_err())
}

#[test]
fn all_read_the_same_start_once_all_are_ready() {
    let place = TestBarrier::new(None);
    let mut shards = place.shards(4);
    assert_eq!(rounds(&mut shards[..3], Nanos::ZERO), [None, None, None]);
    assert_eq!(shards[0].missing, [3]);
    let before = wall_ns();
    let agreed = rounds(&mut shards, Nanos::ZERO);
    let first = agreed[0].clone().unwrap();
    assert_eq!(agreed, vec![Some(first.clone()); 4]);
    assert_eq!(first.members.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3]);
    // The preparation, two steps of 100 ms and 2 ms for each shard, and a second to read.
    assert!(first.start_at_ns >= before + 2_216_000_000, "{} {before}", first.start_at_ns);
    assert_eq!(first.start_at_ns % 100_000_000, 0);
    let waited = Nanos::ZERO;
    for (shard, agreed) in shards.into_iter().zip(agreed) {
        let met = shard.met(agreed.unwrap()).unwrap();
        assert_eq!((met.start_at_ns, met.warnings), (first.start_at_ns, Vec::<String>::new()));
        let Agreement { absent, waited_ms, clock } = met.agreement;
        assert_eq!((absent, waited_ms), (Vec::<u64>::new(), waited.as_millis()));
        // Both clocks are this machine's.
        let clock = clock.unwrap();
        assert!(clock.ahead_ms.abs() <= clock.error_ms, "{clock:?}");
    }
}

#[test]
fn a_single_shard_waits_for_nobody() {
    let place = TestBarrier::new(None);
    assert!(place.shard(0, 1).step(Nanos::ZERO).unwrap().is_some());
}

#[test]
fn those_that_are_ready_start_after_the_timeout() {
    let place = TestBarrier::new(Some("job 1"));
    let mut shards = place.shards(4);
    assert_eq!(rounds(&mut shards[..2], Nanos(TIMEOUT.0 - 1)), [None, None]);
    // Shard 1 was the first, and has waited long enough.
    assert!(shards[1].step(TIMEOUT).unwrap().is_none());
    let agreed = shards[0].step(SECOND).unwrap().unwrap();
    assert_eq!(shards[1].step(TIMEOUT).unwrap(), Some(agreed.clone()));
    // Those who come later do not start.
    let late = error(&mut shards[2], Nanos::ZERO);
    assert!(late.contains("shard 2 was ready too late") && late.contains("nothing was"), "{late}");
    let met = shards.remove(0).met(agreed).unwrap();
    assert_eq!(met.agreement.absent, [2, 3]);
    assert!(met.warnings[0].contains("2 of 4 shards were not ready"), "{:?}", met.warnings);
    assert!(met.warnings[0].ends_with("without them: 2, 3"), "{:?}", met.warnings);
}

#[test]
fn without_others_or_without_the_first_nothing_starts() {
    let place = TestBarrier::new(None);
    let alone = error(&mut place.shard(0, 4), TIMEOUT);
    assert!(alone.contains("none of the other 3 shards"), "{alone}");
    let place = TestBarrier::new(None);
    let mut second = place.shard(1, 4);
    assert_eq!(second.step(TIMEOUT).unwrap(), None);
    let headless = error(&mut second, TIMEOUT + GRACE);
    assert!(headless.contains("shard 0, which sets the start, was not ready"), "{headless}");
}

#[test]
fn what_an_earlier_run_left_counts_for_nothing() {
    // Killed after the agreement, and requeued: with the attempt's name, and without any.
    for attempts in [["job 1, restart 0", "job 1, restart 1"].map(Some), [None, None]] {
        let mut place = TestBarrier::new(attempts[0]);
        let first = rounds(&mut place.shards(3), Nanos::ZERO)[0].clone().unwrap();
        place.attempt = attempts[1].map(ToOwned::to_owned);
        let mut again = place.shards(3);
        // Neither its files make shards ready, nor is its start theirs.
        assert_eq!(rounds(&mut again[..1], Nanos::ZERO), [None]);
        assert_eq!(again[0].missing, [1, 2]);
        assert_eq!(rounds(&mut again[1..], Nanos::ZERO), [None, None]);
        let agreed = rounds(&mut again, Nanos::ZERO);
        let second = agreed[0].clone().unwrap();
        assert_ne!(second.members, first.members);
        assert_eq!(agreed, vec![Some(second); 3]);
    }
}

/// Without an attempt's name a late shard cannot tell the start of its run from that of an earlier one.
#[test]
fn a_late_shard_without_a_name_of_the_attempt_gives_up_in_the_end() {
    let place = TestBarrier::new(None);
    let mut shards = place.shards(3);
    assert_eq!(rounds(&mut shards[..2], Nanos::ZERO), [None, None]);
    assert!(rounds(&mut shards[..2], TIMEOUT).iter().all(Option::is_some));
    assert_eq!(shards[2].step(TIMEOUT).unwrap(), None);
    let late = error(&mut shards[2], TIMEOUT + GRACE);
    assert!(
        late.contains("did not set a start for shard 2") && late.contains("Z, without"),
        "{late}"
    );
}

#[test]
fn other_settings_are_another_run() {
    let mut place = TestBarrier::new(None);
    let mut first = place.shard(0, 2);
    place.settings = Uuid::new_v4();
    let mut second = place.shard(1, 2);
    for _ in 0..3 {
        assert_eq!(first.step(Nanos::ZERO).unwrap(), None);
        assert_eq!(second.step(Nanos::ZERO).unwrap(), None);
    }
    let other = error(&mut second, TIMEOUT + GRACE);
    assert!(other.contains("shard 0 has other settings than shard 1"), "{other}");
    assert!(error(&mut first, TIMEOUT).contains("none of the other 1 shards"));
}

/// As the pod that replaces a killed one of a Kubernetes Job, which does not name the attempt.
#[test]
fn a_restarted_shard_does_not_wait_for_those_that_send() {
    let place = TestBarrier::new(None);
    let mut shards = place.shards(2);
    let agreed = rounds(&mut shards, Nanos::ZERO).remove(1).unwrap();
    let mut restarted = place.shard(1, 2);
    let mut note = shards.remove(0).note;
    note.state = State::Running;
    let files = Files::create(place.directory.path()).unwrap();
    files.tell(0, &note).unwrap();
    assert_eq!(restarted.step(Nanos::ZERO).unwrap(), None);
    // A process that was killed leaves a file that does not change.
    assert_eq!(restarted.step(Nanos::ZERO).unwrap(), None);
    note.beat += 1;
    files.tell(0, &note).unwrap();
    let refused = error(&mut restarted, Nanos::ZERO);
    assert!(refused.contains("started without shard 1; nothing"), "{refused}");
    assert_eq!(files.agreed(), Some(agreed));
}

#[test]
fn a_restarted_first_shard_does_not_join_those_that_send() {
    let place = TestBarrier::new(None);
    let mut shards = place.shards(2);
    let agreed = rounds(&mut shards, Nanos::ZERO).remove(1).unwrap();
    let mut restarted = place.shard(0, 2);
    let mut note = shards.remove(1).note;
    note.state = State::Running;
    let files = Files::create(place.directory.path()).unwrap();
    files.tell(1, &note).unwrap();
    assert_eq!(restarted.step(Nanos::ZERO).unwrap(), None);
    note.beat += 1;
    files.tell(1, &note).unwrap();
    let refused = error(&mut restarted, Nanos::ZERO);
    assert!(refused.contains("shard 1 is sending already"), "{refused}");
    assert_eq!(files.agreed(), Some(agreed));
}

#[test]
fn an_interrupted_shard_is_not_counted_on() {
    let place = TestBarrier::new(None);
    let mut first = place.shard(0, 2);
    first.step(Nanos::ZERO).unwrap();
    let second = place.shard(1, 2);
    let files = second.files.clone();
    let interrupter = base::interrupt::Interrupter::default();
    let interrupt = interrupter.interrupt();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| second.meet(&interrupt).unwrap().is_none());
        while files.heard(1).is_none() {
            std::thread::yield_now();
        }
        interrupter.signal();
        assert!(waits.join().unwrap());
    });
    assert_eq!(files.heard(1), None);
    assert_eq!(first.step(Nanos::ZERO).unwrap(), None);
    assert_eq!(first.missing, [1]);
}

#[test]
fn clocks_that_differ_are_a_warning_of_the_first_shard() {
    let place = TestBarrier::new(None);
    let mut shards = place.shards(3);
    let agreed = rounds(&mut shards, Nanos::ZERO).remove(0).unwrap();
    let ahead = ClockOffset { ahead_ms: 350.0, error_ms: 6.0 };
    let note = Note { clock: Some(ahead), ..shards[2].note.clone() };
    shards[0].files.tell(2, &note).unwrap();
    let warnings = shards.remove(0).met(agreed).unwrap().warnings;
    assert!(warnings[0].contains("the clock of shard 2 is 3"), "{warnings:?}");
}
