//! Work that threads share because its parts do not depend on each other.

use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

/// Most threads, since each needs memory of its own.
const MOST_THREADS: usize = 16;

/// Returns the number of threads that can run at the same time.
#[must_use]
pub fn threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS)
}

/// Returns what `work` returns on a thread of its own with this name, or that it panicked.
///
/// # Errors
///
/// Fails if the system does not start the thread.
pub fn apart<T: Send>(
    name: &str,
    work: impl FnOnce() -> T + Send,
) -> io::Result<thread::Result<T>> {
    apart_on(thread::Builder::new().name(name.to_owned()), work)
}

fn apart_on<T: Send>(
    thread: thread::Builder,
    work: impl FnOnce() -> T + Send,
) -> io::Result<thread::Result<T>> {
    thread::scope(|scope| Ok(thread.spawn_scoped(scope, work)?.join()))
}

/// Returns `part(0)` to `part(count - 1)`, computed by this thread and others, `threads` in all; by
/// fewer if the system does not start them.
pub fn in_order<T: Send>(threads: usize, count: usize, part: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            if at >= count {
                return done;
            }
            done.push((at, part(at)));
        }
    };
    let mut all = thread::scope(|scope| {
        let start = || thread::Builder::new().name("statistics".to_owned());
        let others = 1..threads.min(count);
        let others: Vec<_> =
            others.filter_map(|_| start().spawn_scoped(scope, work).ok()).collect();
        let mut all = work();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn parts_are_in_order_and_done_once() {
        for threads in [0, 1, 3, 40] {
            let squares = in_order(threads, 20, |at| at * at);
            assert_eq!(squares, (0..20).map(|at| at * at).collect::<Vec<_>>());
        }
        assert!(in_order(4, 0, |at| at).is_empty());
    }

    #[test]
    fn parts_are_done_at_the_same_time() {
        // Each part waits for the other two.
        let all = Barrier::new(3);
        let leaders = in_order(3, 3, |_| all.wait().is_leader());
        assert_eq!(leaders.iter().filter(|is_leader| **is_leader).count(), 1);
    }

    #[test]
    fn a_thread_that_is_not_started_is_an_error() {
        assert_eq!(apart("test", || 7).unwrap().unwrap(), 7);
        assert!(apart("test", || panic!("on the thread")).unwrap().is_err());
        // More memory than a process can have.
        let thread = thread::Builder::new().stack_size(1 << 50);
        assert!(apart_on(thread, || ()).is_err());
    }

    #[test]
    #[should_panic(expected = "part 7")]
    fn a_panic_is_passed_on() {
        in_order(2, 9, |at| assert!(at != 7, "part {at}"));
    }
}
