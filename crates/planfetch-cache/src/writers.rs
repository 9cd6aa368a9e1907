//! What blocks on the disk, with no more at once than the settings say.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs in the order in which they come, on as many threads of the runtime's blocking pool as may write at once.
///
/// A thread that is done takes the next job by itself. Were each handed to the pool anew when the one before has been
/// reported, a single writer of small files would idle for as long as it writes.
pub(crate) struct Writers {
    state: Mutex<State>,
    most: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    running: usize,
}

impl Writers {
    /// Makes writers of which `most` run at once.
    pub(crate) fn new(most: usize) -> Self {
        Self { state: Mutex::default(), most }
    }

    /// Runs `work` and returns what it returns. A panic in it is the caller's. Where the caller is given up before its
    /// turn has come, it does not run.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        io: &Handle,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        self.push(
            io,
            Box::new(move || {
                if !answer.is_closed() {
                    // OK because whoever has left meanwhile needs no answer.
                    let _ = answer.send(catch_unwind(AssertUnwindSafe(work)));
                }
            }),
        );
        match answered.await {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => resume_unwind(panic),
            // The runtime is ending, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }

    fn push(self: &Arc<Self>, io: &Handle, job: Job) {
        let mut state = self.lock();
        state.queue.push_back(job);
        if state.running < self.most {
            state.running += 1;
            drop(state);
            let drain = Drain(Some(Arc::clone(self)));
            drop(io.spawn_blocking(move || drain.run()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's turn to run jobs. Where it never comes, since the runtime has ended, and no other thread is left to run
/// them, all jobs go: what they hold (the directory's lock, temporary files) would stay for ever.
struct Drain(Option<Arc<Writers>>);

impl Drain {
    fn run(mut self) {
        let Some(writers) = self.0.take() else { return };
        loop {
            let mut state = writers.lock();
            let Some(job) = state.queue.pop_front() else {
                state.running -= 1;
                return;
            };
            drop(state);
            job();
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let Some(writers) = self.0.take() else { return };
        let mut state = writers.lock();
        state.running -= 1;
        let jobs = if state.running == 0 { std::mem::take(&mut state.queue) } else { VecDeque::new() };
        drop(state);
        // Without the lock: what a job holds may ask for it when it goes.
        drop(jobs);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;
    use futures::future::join_all;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap()
    }

    #[test]
    fn no_more_run_at_once_than_may_and_every_answer_comes() {
        let runtime = runtime();
        for most in [1, 3] {
            let (writers, at_once, seen) =
                (Arc::new(Writers::new(most)), Arc::new(AtomicUsize::new(0)), Arc::default());
            let jobs = (0..200).map(|i| {
                let (at_once, seen): (_, Arc<AtomicUsize>) = (Arc::clone(&at_once), Arc::clone(&seen));
                let (writers, io) = (Arc::clone(&writers), runtime.handle().clone());
                async move {
                    let work = move || {
                        seen.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        at_once.fetch_sub(1, Ordering::SeqCst);
                        i
                    };
                    writers.run(&io, work).await
                }
            });
            let jobs: Vec<_> = jobs.map(|job| runtime.spawn(job)).collect();
            let answers = runtime.block_on(join_all(jobs));
            assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
            assert!((1..=most).contains(&seen.load(Ordering::SeqCst)));
            assert!(writers.lock().queue.is_empty());
        }
    }

    #[test]
    fn a_panic_is_the_callers_and_the_next_job_runs() {
        let (runtime, writers) = (runtime(), Arc::new(Writers::new(1)));
        let (other, io) = (Arc::clone(&writers), runtime.handle().clone());
        let panicked = runtime.block_on(runtime.spawn(async move { other.run(&io, || panic!("no")).await }));
        assert!(panicked.unwrap_err().is_panic());
        assert_eq!(runtime.block_on(writers.run(runtime.handle(), || 7)), 7);
    }

    #[test]
    fn what_was_given_up_before_its_turn_does_not_run() {
        let (runtime, writers) = (runtime(), Arc::new(Writers::new(1)));
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let ran = Arc::new(AtomicUsize::new(0));
        let io = runtime.handle().clone();
        let first = {
            let (writers, io) = (Arc::clone(&writers), io.clone());
            runtime.spawn(async move { writers.run(&io, move || wait.recv().unwrap()).await })
        };
        while writers.lock().running == 0 {
            std::thread::yield_now();
        }
        let second = {
            let (writers, io, ran) = (Arc::clone(&writers), io.clone(), Arc::clone(&ran));
            runtime.spawn(async move { writers.run(&io, move || ran.fetch_add(1, Ordering::SeqCst)).await })
        };
        while writers.lock().queue.is_empty() {
            std::thread::yield_now();
        }
        second.abort();
        assert!(runtime.block_on(second).unwrap_err().is_cancelled());
        go.send(()).unwrap();
        runtime.block_on(first).unwrap();
        assert_eq!(runtime.block_on(writers.run(&io, || 1)), 1);
        assert_eq!(ran.load(Ordering::SeqCst), 0);
    }
    #[test]
    fn what_the_end_of_the_runtime_left_no_thread_for_is_let_go() {
        let (runtime, writers) = (runtime(), Arc::new(Writers::new(2)));
        let io = runtime.handle().clone();
        drop(runtime);
        let held = Arc::new(());
        for _ in 0..5 {
            let job = Arc::clone(&held);
            let answer = writers.run(&io, move || drop(job)).now_or_never();
            assert!(answer.is_none(), "nothing ran it");
            let state = writers.lock();
            assert_eq!((state.running, state.queue.len()), (0, 0));
        }
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
