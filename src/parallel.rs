//! Many independent units of work on a fixed number of threads, results in order.
//!
//! Each unit runs on one thread with a thread pool of its own of size one: the engine then neither splits a
//! product nor lets a waiting thread steal another unit, so memory is bounded by the number of threads and a
//! unit's numbers cannot depend on what runs beside it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rayon::ThreadPoolBuilder;

/// `f(0), f(1), …, f(units − 1)`, up to `threads` at a time; the first error by index wins and stops the rest.
///
/// A single unit runs where it is called, with all threads of the caller's pool.
///
/// # Errors
/// The error of the unit with the lowest index among those that ran.
pub fn in_order<T: Send, E: Send>(
    threads: usize,
    units: usize,
    f: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = threads.min(units);
    if threads <= 1 && units <= 1 {
        return (0..units).map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Result<T, E>>>> = (0..units).map(|_| Mutex::new(None)).collect();
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let unit = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = results.get(unit) else { break };
            let result = f(unit);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            *slot.lock().expect("no unit panics while it holds its own slot") = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| match ThreadPoolBuilder::new().num_threads(1).build() {
                Ok(pool) => pool.install(work),
                Err(_) => work(),
            });
        }
    });
    let finished = results.into_iter().filter_map(|slot| slot.into_inner().ok().flatten());
    finished.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order_at_any_thread_count() {
        for threads in [1, 2, 7] {
            let squares = in_order(threads, 20, |i| Ok::<_, ()>(i * i));
            assert_eq!(squares, Ok((0..20).map(|i| i * i).collect()));
        }
    }

    #[test]
    fn an_error_stops_the_rest() {
        let started = AtomicUsize::new(0);
        let result = in_order(2, 10_000, |i| {
            started.fetch_add(1, Ordering::Relaxed);
            if i == 3 { Err(i) } else { Ok(()) }
        });
        assert_eq!(result, Err(3));
        assert!(started.load(Ordering::Relaxed) < 10_000);
    }

    #[test]
    fn a_unit_sees_a_pool_of_one() {
        let sizes = in_order(2, 4, |_| Ok::<_, ()>(rayon::current_num_threads()));
        assert_eq!(sizes, Ok(vec![1; 4]));
    }
}
