//! Group commit: operations of a name that arrive while others are under way share a transaction.

use std::collections::VecDeque;
use std::fmt::{self, Debug, Formatter};
use std::marker::PhantomData;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use scopeguard::ScopeGuard;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::connection::{Database, Transaction};
use crate::failure::Failure;
use crate::registry::Registered;
use crate::settings::Settings;
use crate::{Backend, PAGE_BYTES, PAGE_ROWS};

#[cfg(test)]
mod tests;

/// How often a task that has just woken the callers of a group lets them run, so that what they do
/// next joins the next group.
const YIELDS: usize = 3;

/// A kind of operation that can share a transaction with others of its kind.
pub(crate) trait Work: Send + Sync + 'static {
    type Operation: Send + Sync + 'static;
    type Output: Send + 'static;
    /// What a group needs before it is closed to further operations: a transaction that has begun.
    type Begun: Send;

    fn lane(&self) -> &Lane<Self::Operation, Self::Output>;

    /// How many bytes of a message an operation carries: a group has no more of them than a page of
    /// the start.
    fn bytes(operation: &Self::Operation) -> u64 {
        let _ = operation;
        0
    }

    fn begin(&self) -> impl Future<Output = Result<Self::Begun, Failure>> + Send;

    /// Runs a group, all or none of it, and returns an output for each operation, in their order.
    ///
    /// After [`Failure::Database`] and [`Failure::WriteLockHeld`] nothing of it stays: each operation
    /// is run [alone](Self::alone) then. Any other failure is that of every operation.
    fn together(
        &self,
        begun: Self::Begun,
        operations: &[Self::Operation],
    ) -> impl Future<Output = Result<Vec<Self::Output>, Failure>> + Send;

    fn alone(
        &self,
        operation: &Self::Operation,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

/// What the work on a name's records needs, on whatever task it runs.
pub(crate) struct Scope<B: Backend, R> {
    pub(crate) registered: Arc<Registered>,
    pub(crate) database: Database<B>,
    pub(crate) settings: Settings,
    record: PhantomData<fn() -> R>,
}

impl<B: Backend, R> Scope<B, R> {
    pub(crate) fn new(
        registered: &Arc<Registered>,
        database: &Database<B>,
        settings: &Settings,
    ) -> Self {
        Self {
            registered: Arc::clone(registered),
            database: database.clone(),
            settings: *settings,
            record: PhantomData,
        }
    }

    pub(crate) async fn begin(&self) -> Result<Transaction<B>, Failure> {
        self.database.begin_group(&self.settings).await
    }
}

/// Runs an operation: as `alone`, on its caller, where none of its kind is under way; otherwise what
/// `queued` makes of it, in the next group. It is committed when this returns `Ok`. Dropped, an
/// operation that was queued and has not begun is not run. Without a runtime for groups, it runs alone.
pub(crate) async fn run<W: Work>(
    lane: &Lane<W::Operation, W::Output>,
    main: Option<&Handle>,
    alone: impl Future<Output = Result<W::Output, Failure>> + Send,
    queued: impl FnOnce() -> (W, W::Operation) + Send,
) -> Result<W::Output, Failure> {
    let main = match main.map(|main| (main, lane.enter())) {
        Some((main, None)) => main,
        _alone => return alone.await,
    };
    let (work, operation) = queued();
    let (done, output) = oneshot::channel();
    if lane.join(Waiting { operation, done }) {
        // On the runtime that drives the pool, whoever the caller is.
        drop(main.spawn(drive(Arc::new(work))));
    }
    output.await.unwrap_or(Err(Failure::Interrupted))
}

/// Where the operations of one kind meet.
pub(crate) struct Lane<T, O>(Mutex<State<T, O>>);

struct State<T, O> {
    /// An operation runs on its caller.
    alone: bool,
    /// A task runs groups until nothing waits.
    driven: bool,
    waiting: VecDeque<Waiting<T, O>>,
}

struct Waiting<T, O> {
    operation: T,
    done: oneshot::Sender<Result<O, Failure>>,
}

impl<T, O> Default for Lane<T, O> {
    fn default() -> Self {
        Self(Mutex::new(State {
            alone: false,
            driven: false,
            waiting: VecDeque::new(),
        }))
    }
}

impl<T, O> Lane<T, O> {
    fn state(&self) -> MutexGuard<'_, State<T, O>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: others are under way.
    fn enter(&self) -> Option<Alone<'_, T, O>> {
        let mut state = self.state();
        if state.alone || state.driven {
            return None;
        }
        state.alone = true;
        Some(Alone(self))
    }

    /// Returns whether the caller has to start the task that runs groups.
    fn join(&self, waiting: Waiting<T, O>) -> bool {
        let mut state = self.state();
        state.waiting.push_back(waiting);
        !mem::replace(&mut state.driven, true)
    }

    fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// How many of those that wait fit a group. The first one always does.
    fn page(&self, bytes: fn(&T) -> u64) -> usize {
        let mut sum = 0;
        let state = self.state();
        let fitting = state.waiting.iter().take(PAGE_ROWS).take_while(|waiting| {
            let before = sum;
            sum += bytes(&waiting.operation);
            before == 0 || sum <= PAGE_BYTES
        });
        fitting.count()
    }

    /// The first of those that wait, at most so many, without those whose callers are gone.
    fn take(&self, most: usize) -> Vec<Waiting<T, O>> {
        let mut state = self.state();
        let taken = most.min(state.waiting.len());
        let taken = state.waiting.drain(..taken);
        taken.filter(|waiting| !waiting.done.is_closed()).collect()
    }

    /// Returns whether the task that runs groups is over: nothing waits.
    fn is_over(&self) -> bool {
        let mut state = self.state();
        state.driven = !state.waiting.is_empty();
        !state.driven
    }

    fn abandon(&self) {
        let abandoned = {
            let mut state = self.state();
            state.driven = false;
            mem::take(&mut state.waiting)
        };
        drop(abandoned);
    }
}

impl<T, O> Debug for Lane<T, O> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}

/// The operation that runs on its caller.
struct Alone<'a, T, O>(&'a Lane<T, O>);

impl<T, O> Drop for Alone<'_, T, O> {
    fn drop(&mut self) {
        self.0.state().alone = false;
    }
}

/// Runs groups until nothing waits. Where that ends early, with its runtime, or never begins there,
/// those that wait are not run.
fn drive<W: Work>(work: Arc<W>) -> impl Future<Output = ()> + Send {
    let work = scopeguard::guard(work, |work| work.lane().abandon());
    async move {
        loop {
            for _ in 0..YIELDS {
                yield_now().await;
            }
            let waiting = work.lane().waiting();
            if waiting == 0 {
                if work.lane().is_over() {
                    drop(ScopeGuard::into_inner(work));
                    return;
                }
                continue;
            }
            match work.begin().await {
                Ok(begun) => {
                    let lane = work.lane();
                    let group = lane.take(lane.page(W::bytes));
                    run_group(&work, begun, group).await;
                }
                // Those that came while it tried have not waited yet. What met the others was a
                // connection, and not each of them: they have a try each, as without a group.
                Err(failure @ Failure::Database(_)) => {
                    let group = work.lane().take(waiting).into_iter();
                    run_alone(&work, group, &failure).await;
                }
                Err(failure) => fail(&failure, work.lane().take(waiting)),
            }
        }
    }
}

async fn run_group<W: Work>(
    work: &Arc<W>,
    begun: W::Begun,
    group: Vec<Waiting<W::Operation, W::Output>>,
) {
    let (operations, callers): (Vec<_>, Vec<_>) = group
        .into_iter()
        .map(|waiting| (waiting.operation, waiting.done))
        .unzip();
    if operations.is_empty() {
        return;
    }
    // The service's own statement may panic: that is the failure of its caller.
    let together = AssertUnwindSafe(work.together(begun, &operations));
    let failure = match together.catch_unwind().await {
        Ok(Ok(outputs)) => {
            for (caller, output) in callers.into_iter().zip(outputs) {
                // A caller that is gone has its record committed all the same.
                let _ = caller.send(Ok(output));
            }
            return;
        }
        Ok(Err(failure)) => failure,
        Err(_panic) => Failure::Interrupted,
    };
    let operations = operations.into_iter().zip(callers);
    let group = operations.map(|(operation, done)| Waiting { operation, done });
    if failure.is_of_one() {
        run_alone(work, group, &failure).await;
    } else {
        fail(&failure, group);
    }
}

/// Runs the operations of a group that failed, each by itself and in their order. Where it was a lock
/// that failed it, they wait for their locks side by side.
async fn run_alone<W: Work>(
    work: &Arc<W>,
    mut group: impl Iterator<Item = Waiting<W::Operation, W::Output>>,
    failure: &Failure,
) {
    let side_by_side = matches!(failure, Failure::WriteLockHeld(..));
    while let Some(Waiting { operation, done }) = group.next() {
        if done.is_closed() {
            continue;
        }
        let work = Arc::clone(work);
        let alone = async move { work.alone(&operation).await };
        if side_by_side {
            tokio::spawn(async move { done.send(alone.await) });
            continue;
        }
        let output = AssertUnwindSafe(alone).catch_unwind().await;
        let output = output.unwrap_or(Err(Failure::Interrupted));
        let of_all = match &output {
            // The answer of its own commit was lost: the others have not begun.
            Err(Failure::Unconfirmed(_)) => None,
            Err(failure) if !failure.is_of_one() => Some(failure.share()),
            _ => None,
        };
        let _ = done.send(output);
        if let Some(failure) = of_all {
            return fail(&failure, group);
        }
    }
}

fn fail<T, O>(failure: &Failure, group: impl IntoIterator<Item = Waiting<T, O>>) {
    for waiting in group {
        let _ = waiting.done.send(Err(failure.share()));
    }
}
