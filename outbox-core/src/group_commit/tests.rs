//! What the operations of a failed group come to, where no database can be made to answer so.

use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Lane, Waiting, Work, run};
use crate::failure::Failure;
use crate::{PAGE_BYTES, PAGE_ROWS};

/// How an operation ends that is run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Well,
    WithoutAnAnswer,
    WithoutAConnection,
}

/// Work whose groups all fail.
#[derive(Clone, Default)]
struct Failing {
    lane: Arc<Lane<Ends, ()>>,
    ran: Arc<Mutex<Vec<Ends>>>,
}

impl Work for Failing {
    type Operation = Ends;
    type Output = ();
    type Begun = ();

    fn lane(&self) -> &Lane<Ends, ()> {
        &self.lane
    }

    async fn begin(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn together(&self, (): (), _: &[Ends]) -> Result<Vec<()>, Failure> {
        Err(Failure::Database("one of them is refused".into()))
    }

    async fn alone(&self, ends: &Ends) -> Result<(), Failure> {
        self.ran.lock().unwrap().push(*ends);
        match ends {
            Ends::Well => Ok(()),
            Ends::WithoutAnAnswer => Err(Failure::Unconfirmed("the connection broke".into())),
            Ends::WithoutAConnection => Err(Failure::PoolTimedOut("Fake", Duration::ZERO)),
        }
    }
}

/// What operations that meet come to, and which of them were run.
async fn outputs(operations: &[Ends]) -> (Vec<Result<(), Failure>>, Vec<Ends>) {
    let work = Failing::default();
    let main = Handle::current();
    let under_way = run::<Failing>(&work.lane, Some(&main), pending(), || {
        unreachable!("it is alone")
    });
    let mut under_way = pin!(under_way);
    assert!((&mut under_way).now_or_never().is_none());
    let operations = operations.iter().map(|&ends| {
        let queued = {
            let work = work.clone();
            move || (work, ends)
        };
        run::<Failing>(&work.lane, Some(&main), pending(), queued)
    });
    let outputs = join_all(operations).await;
    let ran = work.ran.lock().unwrap().clone();
    (outputs, ran)
}

#[tokio::test]
async fn an_answer_that_was_lost_fails_its_operation_alone() {
    let operations = [Ends::Well, Ends::WithoutAnAnswer, Ends::Well];
    let (outputs, ran) = outputs(&operations).await;
    assert_eq!(ran, operations);
    assert!(matches!(
        outputs[..],
        [Ok(()), Err(Failure::Unconfirmed(_)), Ok(())]
    ));
}

#[tokio::test]
async fn a_pool_that_is_exhausted_fails_all_that_are_left_at_once() {
    let (outputs, ran) = outputs(&[Ends::Well, Ends::WithoutAConnection, Ends::Well]).await;
    assert_eq!(ran, [Ends::Well, Ends::WithoutAConnection]);
    let timed_out = outputs[1..]
        .iter()
        .all(|output| matches!(output, Err(Failure::PoolTimedOut(..))));
    assert!(timed_out && outputs[0].is_ok());
}

#[test]
fn a_group_is_no_larger_than_a_page_unless_one_message_is() {
    let page = |messages: &[u64]| {
        let lane = Lane::<u64, ()>::default();
        for operation in messages.iter().copied() {
            let (done, _) = oneshot::channel();
            lane.join(Waiting { operation, done });
        }
        lane.page(|bytes| *bytes)
    };
    assert_eq!(page(&[PAGE_BYTES / 2; 5]), 2);
    assert_eq!(page(&[PAGE_BYTES * 2, 1]), 1);
    assert_eq!(page(&[0; PAGE_ROWS + 1]), PAGE_ROWS);
    assert_eq!(page(&[]), 0);
}
