use std::fs::File;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use uuid::Uuid;

use base::platform::files::UnnamedFile;

use super::*;
use crate::record::{
    Ancestry, Arrival, ErrorKind, HttpTrace, RequestError, RequestRecord, ResponseBody, TurnId,
};
use crate::schedule::{Hold, PhaseKind};

const AT_ONCE: Duration = Duration::ZERO;

/// Creates a record of session `number`: a stream of three events in `bytes` bytes.
fn record(number: u64, bytes: usize, payload: &Bytes) -> RequestRecord {
    let at = Nanos(1_000_000_000_000 + number);
    let arrival = Arrival { at, read_lag: 1_500, uncertainty: 70_000 };
    let third = (bytes / 3) as u32;
    let event = |n| SseEvent { arrival, start: n * third, end: (n + 1) * third };
    RequestRecord {
        turn: TurnId { session: number, conversation: 0, turn: 0, first: 0, is_final: true },
        grown: None,
        phase: PhaseKind::Profiling,
        phase_index: 1,
        worker: 3,
        request_id: Uuid::from_u128(u128::from(number) << 70 | 5),
        correlation_id: Uuid::from_u128(u128::from(number)),
        trace_id: Uuid::from_u128(u128::from(number) << 70 | 5),
        ancestry: None,
        lane: None,
        held_by: None,
        tenant: None,
        model: "m".into(),
        url: "http://127.0.0.1:8000/v1/chat/completions".into(),
        payload: payload.clone(),
        earlier_answers: Vec::new(),
        due: Some(at),
        due_while_asleep: true,
        free_from: Nanos(5),
        issued: at,
        start: at,
        sent: Some(at),
        ack: None,
        end: at,
        status: Some(200),
        body: ResponseBody {
            bytes: vec![number as u8; bytes],
            is_event_stream: true,
            events: (0..3).map(event).collect(),
        },
        trace: HttpTrace { reason: Some("OK".into()), ..HttpTrace::default() },
        server_spans: Vec::new(),
        retry_count: 0,
        cancelled_at: None,
        error: None,
    }
}

/// Returns all records that are left in a closed queue, by session.
fn drain(queue: &RecordQueue) -> Vec<RequestRecord> {
    queue.close();
    let mut records: Vec<_> = std::iter::from_fn(|| queue.pop(AT_ONCE)).flatten().collect();
    records.sort_by_key(|record| record.turn.session);
    records
}

fn spilling(budget_bytes: usize, directory: PathBuf, payload: &Bytes) -> RecordQueue {
    RecordQueue::new(budget_bytes).spilling_to(directory, Arc::from([payload.clone()]))
}

/// Creates 500 records of more than 10,000 bytes each.
fn many(payload: &Bytes) -> Vec<RequestRecord> {
    (0..500).map(|number| record(number, 10_000 + number as usize, payload)).collect()
}

fn push_all(queue: &RecordQueue, records: &[RequestRecord]) {
    for record in records {
        queue.push(record.clone());
    }
}

#[test]
fn what_memory_has_no_room_for_comes_back_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Bytes::from_static(b"{}");
    let queue = spilling(100_000, directory.path().to_owned(), &payload);
    let records = many(&payload);
    push_all(&queue, &records);
    let stats = queue.stats();
    // Each takes 10,000 bytes plus its record, so nine fit below 100,000.
    let fit = records.iter().scan(0, |sum, record| {
        *sum += footprint(record);
        Some(*sum)
    });
    let fit = fit.take_while(|sum| *sum <= 100_000).count() as u64;
    assert!((8..=9).contains(&fit), "{fit}");
    assert_eq!((stats.spilled_records, stats.kept_over_budget), (500 - fit, 0));
    assert!(stats.spilled_bytes > (500 - fit) * 10_000);
    assert!(stats.peak_bytes <= 100_000, "{stats:?}");
    // The file is unnamed, so nothing is left behind when the process ends in any way.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!(drain(&queue), records);
    assert_eq!(queue.stats().lost, 0);
    assert_eq!(queue.stats().bytes, 0);
}

#[test]
fn a_segment_at_a_time_comes_back_into_memory() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Bytes::from_static(b"{}");
    let queue = spilling(0, directory.path().to_owned(), &payload);
    let records = many(&payload);
    push_all(&queue, &records);
    assert_eq!(queue.stats().peak_bytes, 0);
    assert_eq!(drain(&queue), records);
    // A segment has 256 KiB plus the record that completes it; footprints are slightly larger.
    let peak = queue.stats().peak_bytes;
    assert!((200_000..400_000).contains(&peak), "{peak}");
}

#[test]
fn what_is_discarded_is_counted_as_lost() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Bytes::from_static(b"{}");
    let queue = spilling(100_000, directory.path().to_owned(), &payload);
    push_all(&queue, &many(&payload));
    assert!(queue.pop(AT_ONCE).flatten().is_some());
    queue.discard();
    assert_eq!(queue.pop(AT_ONCE), None);
    assert_eq!((queue.stats().lost, queue.stats().bytes), (499, 0));
}

#[test]
fn shared_payloads_are_not_written_and_come_back_shared() {
    let directory = tempfile::tempdir().unwrap();
    let shared = Bytes::from(vec![b'x'; 50_000]);
    let queue = spilling(0, directory.path().to_owned(), &shared);
    let mut later = record(1, 30, &Bytes::from(vec![b'y'; 40_000]));
    later.turn.turn = 1;
    later.earlier_answers = vec![Some("an answer".into())];
    push_all(&queue, &[record(0, 30, &shared), later.clone()]);
    let written = queue.stats().spilled_bytes;
    assert!((40_000..42_000).contains(&written), "{written}");
    let records = drain(&queue);
    assert_eq!(records[0].payload.as_ptr(), shared.as_ptr());
    assert_eq!(records[1], later);
}

#[test]
fn where_no_file_can_be_made_records_stay_in_memory() {
    let payload = Bytes::from_static(b"{}");
    let queue = spilling(100_000, PathBuf::from("/nonexistent/directory"), &payload);
    let records = many(&payload);
    push_all(&queue, &records);
    let stats = queue.stats();
    assert_eq!((stats.spilled_records, stats.spilled_bytes), (0, 0));
    assert!((490..=492).contains(&stats.kept_over_budget), "{stats:?}");
    assert_eq!(drain(&queue), records);
    assert_eq!(queue.stats().lost, 0);
}

#[test]
fn a_disk_that_fills_up_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Bytes::from_static(b"{}");
    let queue = spilling(0, directory.path().to_owned(), &payload);
    let records = many(&payload);
    push_all(&queue, &records[..100]);
    // All further writes fail, because the file is open for reading only.
    let name = directory.path().join("full");
    File::create(&name).unwrap();
    queue
        .state
        .lock()
        .spill
        .as_mut()
        .unwrap()
        .set_file(UnnamedFile::from_file(File::open(&name).unwrap()));
    push_all(&queue, &records[100..]);
    let stats = queue.stats();
    assert!(stats.spilled_records > 50 && stats.spilled_records <= 100, "{stats:?}");
    assert_eq!(stats.spilled_records + stats.kept_over_budget, 500);
    assert_eq!(drain(&queue), records);
    assert_eq!(queue.stats().lost, 0);
}

#[test]
fn what_cannot_be_read_back_is_counted() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Bytes::from_static(b"{}");
    let queue = spilling(0, directory.path().to_owned(), &payload);
    push_all(&queue, &many(&payload));
    queue.state.lock().spill.as_ref().unwrap().file().unwrap().clear().unwrap();
    let back = drain(&queue);
    // The segment that was still open is complete.
    assert!(back.len() < 30, "{}", back.len());
    assert_eq!(queue.stats().lost + back.len() as u64, 500);
}

#[test]
fn a_footprint_counts_all_that_a_record_holds() {
    let payload = Bytes::from(vec![0; 1_000]);
    let bare = record(0, 0, &payload);
    let added = |change: &dyn Fn(&mut RequestRecord)| {
        let mut record = bare.clone();
        change(&mut record);
        footprint(&record) - footprint(&bare)
    };
    assert_eq!(added(&|record| record.body.bytes = Vec::with_capacity(77)), 77);
    assert_eq!(added(&|record| record.body.events = Vec::with_capacity(5)), 2 * 24);
    assert_eq!(
        added(&|record| record.earlier_answers = vec![Some("four".into()); 2]),
        2 * (4 + 16)
    );
    let chunks = |record: &mut RequestRecord| {
        record.trace.response_chunk_log = Vec::with_capacity(3);
    };
    assert_eq!(added(&chunks), 3 * 16);
    let headers = |record: &mut RequestRecord| {
        record.trace.request_headers = vec![("name".into(), "value".into())];
    };
    assert_eq!(added(&headers), 48 + 9);
    let error = |record: &mut RequestRecord| {
        record.error = Some(RequestError::new(ErrorKind::Other, "12345", "1234567"));
    };
    assert_eq!(added(&error), 12);

    let directory = tempfile::tempdir().unwrap();
    let queue = spilling(0, directory.path().to_owned(), &payload);
    // The first turn's payload belongs to the workload; an equal copy belongs to the record.
    assert_eq!(queue.footprint(&bare), footprint(&bare));
    let copied = record(0, 0, &Bytes::from(payload.to_vec()));
    assert_eq!(queue.footprint(&copied), footprint(&copied) + 1_000);
    let later = RequestRecord { turn: TurnId { turn: 1, ..bare.turn }, ..bare.clone() };
    assert_eq!(queue.footprint(&later), footprint(&later) + 1_000);
}

/// Polls a future once.
fn is_ready(future: impl Future<Output = ()>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::pin!(future).poll(&mut context).is_ready()
}

#[test]
fn sends_are_held_back_from_half_of_the_budget_until_a_sixteenth_is_processed() {
    let payload = Bytes::new();
    let size = footprint(&record(0, 9_000, &payload));
    let queue = RecordQueue::new(4 * size);
    for number in 0..2 {
        queue.push(record(number, 9_000, &payload));
        assert!(is_ready(queue.room()));
    }
    queue.push(record(2, 9_000, &payload));
    assert!(!is_ready(queue.room()));
    assert_eq!(queue.stats().pauses, 1);
    assert!(queue.pop(AT_ONCE).unwrap().is_some());
    // Half of the budget.
    assert!(!is_ready(queue.room()));
    assert!(queue.pop(AT_ONCE).unwrap().is_some());
    assert!(is_ready(queue.room()));
    for number in 3..5 {
        assert!(is_ready(queue.room()));
        queue.push(record(number, 9_000, &payload));
    }
    assert!(!is_ready(queue.room()));
    queue.close();
    assert!(is_ready(queue.room()));
}

#[test]
fn a_loop_is_stuck_from_its_wait_for_room_until_there_is_some() {
    let payload = Bytes::new();
    let queue = RecordQueue::new(2 * footprint(&record(0, 9_000, &payload)));
    let stalled = || queue.state.lock().stalled_at;
    for number in 0..2 {
        queue.push(record(number, 9_000, &payload));
    }
    // A full queue does not hinder an open loop.
    assert_eq!(stalled(), None);
    assert!(!is_ready(queue.room()));
    let first = stalled();
    assert!(!is_ready(queue.room()));
    assert!(first.is_some() && stalled() == first, "the second wait does not start it anew");
    std::thread::scope(|scope| {
        // It waits for what is left of the time, during which nothing makes room.
        assert!(scope.spawn(|| queue.is_stuck_for(Duration::from_millis(20))).join().unwrap());
        assert!(Clock::now().since(first.unwrap()) >= Nanos::from_millis(20.0));
        queue.pop(AT_ONCE);
        assert_eq!(stalled(), first, "half of the budget is not room");
        queue.pop(AT_ONCE);
        assert_eq!(stalled(), None);
        let waiter = scope.spawn(|| queue.is_stuck_for(AT_ONCE));
        queue.close();
        assert!(!waiter.join().unwrap());
    });
}

#[test]
fn many_threads_spill_and_read_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let payload = Bytes::from_static(b"{}");
    let queue = spilling(50_000, directory.path().to_owned(), &payload);
    let mut sessions = std::thread::scope(|scope| {
        let (queue, payload) = (&queue, &payload);
        let push = |first: u64| {
            scope.spawn(move || {
                for number in first..first + 1_000 {
                    queue.push(record(number, 3_000, payload));
                }
            })
        };
        let writers: Vec<_> = [0, 1_000, 2_000].map(push).into();
        let read = || {
            scope.spawn(move || {
                let records = std::iter::from_fn(|| queue.pop(Duration::from_millis(10)));
                records.flatten().map(|record| record.turn.session).collect::<Vec<_>>()
            })
        };
        let readers = [read(), read()];
        for writer in writers {
            writer.join().unwrap();
        }
        queue.close();
        readers.map(|reader| reader.join().unwrap()).concat()
    });
    sessions.sort_unstable();
    assert_eq!(sessions, (0..3_000).collect::<Vec<u64>>());
}

fn nanos() -> impl Strategy<Value = Nanos> {
    any::<u64>().prop_map(Nanos)
}

fn instant() -> impl Strategy<Value = Option<Nanos>> {
    option::of(nanos())
}

fn body() -> impl Strategy<Value = ResponseBody> {
    let event =
        (nanos(), any::<[u32; 4]>()).prop_map(|(at, [read_lag, uncertainty, start, end])| {
            SseEvent { arrival: Arrival { at, read_lag, uncertainty }, start, end }
        });
    (vec(any::<u8>(), 0..300), any::<bool>(), vec(event, 0..20)).prop_map(
        |(bytes, is_event_stream, events)| ResponseBody { bytes, is_event_stream, events },
    )
}

fn trace() -> impl Strategy<Value = HttpTrace> {
    let chunks = || vec((nanos(), any::<u64>()), 0..5);
    let headers = || vec((".*", ".*"), 0..4);
    // An address and its port. Scopes of IPv6 addresses are neither kept nor exported.
    let address = || option::of(any::<(std::net::IpAddr, u16)>().prop_map(Into::into));
    let stamps = (instant(), instant(), instant(), instant());
    let logs = (chunks(), chunks(), headers(), headers());
    (stamps, any::<[u64; 4]>(), logs, (address(), address()), option::of(".*")).prop_map(
        |(stamps, counts, logs, addresses, reason)| HttpTrace {
            pool_wait_start: stamps.0,
            dns_cache_miss: stamps.1,
            send_start: stamps.2,
            error_at: stamps.3,
            request_chunks: counts[0],
            response_bytes: counts[1],
            socket_reads: counts[2],
            kernel_stamps: counts[3],
            request_chunk_log: logs.0,
            response_chunk_log: logs.1,
            request_headers: logs.2,
            response_headers: logs.3,
            local_addr: addresses.0,
            remote_addr: addresses.1,
            reason: reason.map(Into::into),
            ..HttpTrace::default()
        },
    )
}

fn error() -> impl Strategy<Value = RequestError> {
    let kind = prop_oneof![
        Just(ErrorKind::Timeout),
        Just(ErrorKind::Http5xx),
        Just(ErrorKind::Cancelled),
        Just(ErrorKind::Other),
    ];
    (option::of(any::<u16>()), ".*", ".*", option::of(".*"), kind).prop_map(
        |(code, name, message, cause, kind)| RequestError { code, name, message, cause, kind },
    )
}

fn records() -> impl Strategy<Value = RequestRecord> {
    let turn = (any::<u64>(), 0..3_usize, 0..2_usize, any::<bool>());
    let ids = (any::<u128>(), any::<u128>(), ".*", vec(any::<u8>(), 0..100));
    let address = "https?://(u:p@)?[a-z]{1,9}(:[1-9][0-9]{0,3})?(/[a-z]{0,9}([?]key=[a-z]{0,9})?)?";
    let times = (instant(), nanos(), nanos(), instant(), nanos(), instant());
    let answers = vec(option::of(".*".prop_map(Arc::<str>::from)), 0..3);
    let rest = (option::of(any::<u16>()), any::<u32>(), option::of(error()), any::<bool>());
    (turn, (ids, address), times, answers, body(), trace(), rest).prop_map(
        |(turn, (ids, address), times, earlier_answers, body, trace, rest)| RequestRecord {
            turn: TurnId {
                session: turn.0,
                conversation: turn.1,
                turn: turn.2,
                first: turn.2 / 2,
                is_final: turn.3,
            },
            grown: None,
            phase: if rest.3 { PhaseKind::Warmup } else { PhaseKind::Profiling },
            phase_index: rest.1,
            worker: rest.1 / 2,
            request_id: Uuid::from_u128(ids.0),
            correlation_id: Uuid::from_u128(ids.1),
            trace_id: Uuid::from_u128(ids.0 ^ ids.1),
            ancestry: rest.3.then(|| {
                Ancestry::of_root(Uuid::from_u128(ids.1)).of_child(Uuid::from_u128(ids.0))
            }),
            lane: rest.0.map(u32::from),
            held_by: rest.0.map(|it| if it % 2 == 0 { Hold::Join } else { Hold::Barrier }),
            tenant: turn.3.then(|| ids.2.as_str().into()),
            model: ids.2.as_str().into(),
            url: address.as_str().into(),
            payload: ids.3.into(),
            earlier_answers,
            due: times.0,
            due_while_asleep: turn.3,
            free_from: times.1,
            issued: times.1,
            start: times.2,
            sent: times.3,
            ack: times.3,
            end: times.4,
            status: rest.0,
            body,
            trace,
            server_spans: Vec::new(),
            retry_count: rest.1,
            cancelled_at: times.5,
            error: rest.2,
        },
    )
}

proptest! {
    #[test]
    fn a_record_is_the_same_after_its_way_through_bytes(one in records(), two in records()) {
        let shared = [Bytes::from_static(b"first"), one.payload.clone()];
        let mut bytes = codec::encode(&one, &shared).unwrap();
        let first = bytes.len();
        bytes.extend(codec::encode(&two, &shared).unwrap());
        let (back, rest) = codec::decode(&bytes, &shared).unwrap();
        prop_assert_eq!(back, one);
        prop_assert_eq!(rest.len(), bytes.len() - first);
        let (back, rest) = codec::decode(rest, &shared).unwrap();
        prop_assert_eq!(back, two);
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn what_is_not_a_frame_is_refused(one in records(), cut in any::<prop::sample::Index>()) {
        let bytes = codec::encode(&one, &[]).unwrap();
        let cut = cut.index(bytes.len());
        prop_assert!(codec::decode(&bytes[..cut], &[]).is_err());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = codec::decode(&bytes, &[]);
    }
}
