//! Allocations of a message, on the thread that publishes and handles it.

use outbox_sqlite::outbox::is_on;
use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use crate::Result;
use crate::contender::{Measured, open};
use crate::database::{Database, Kind};
use crate::load::Load;
use crate::scenario::Work;
use crate::side::{Insert, POSTGRES, SQLITE, Side};

/// The fewest of so many rounds count: a wait that another thread ends earlier or later costs more
/// or less.
const ROUNDS: usize = 10;

/// What one more message costs is what so many cost more than none.
const MESSAGES: usize = 50;

/// How often a message allocates.
#[derive(Debug, Serialize, Deserialize)]
pub struct Allocations {
    pub(crate) tracked: bool,
    pub(crate) side: String,
    pub(crate) per_message: f64,
}

/// Counts on every side, with what counts the allocations of its argument on this thread.
///
/// # Errors
///
/// Whatever the work fails with.
pub fn count_allocations(measure: fn(&mut dyn FnMut()) -> u64) -> Result<Vec<Allocations>> {
    if !is_on() {
        return Err("the outbox is off: set RUSTSTREAM_SQLX_OUTBOX=on".into());
    }
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // Pools are opened, and dropped, inside of it.
    let _entered = runtime.enter();
    let of = |contender: &dyn Measured, work: Work| -> Result<f64> {
        let mut fewest = [u64::MAX; 2];
        for _ in 0..ROUNDS {
            for (fewest, messages) in fewest.iter_mut().zip([MESSAGES, 2 * MESSAGES]) {
                let load = Load {
                    messages,
                    in_flight: 1,
                };
                let mut done = None;
                let count = measure(&mut || {
                    done = Some(runtime.block_on(contender.messages(work, load)));
                });
                done.ok_or("nothing was measured")??;
                *fewest = count.min(*fewest);
            }
        }
        let [once, twice] = fewest.map(|count| f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
        Ok((twice - once) / f64::from(u32::try_from(MESSAGES)?))
    };

    let mut counts = Vec::new();
    let derived = |side: &&Side| matches!(side, Side::Peer | Side::Ours(_, Insert::Derived));
    let sqlite = SQLITE.iter().map(|side| (side, Kind::Wal));
    let postgres = POSTGRES.iter().map(|side| (side, Kind::Postgres));
    let tracking = sqlite.chain(postgres).filter(|(side, _)| derived(side));
    for (side, kind) in [(&Side::Bare, Kind::Wal)].into_iter().chain(tracking) {
        // An untracked message needs no database, so none is there.
        let url = match kind {
            Kind::Postgres => "postgres://127.0.0.1:1/none",
            Kind::Wal | Kind::Rollback => "sqlite://none",
        };
        let contender = open(*side, kind, url)?;
        counts.push(Allocations {
            tracked: false,
            side: format!("{side}, {}", kind.title()),
            per_message: of(&*contender, Work::Untracked)?,
        });
    }
    for side in SQLITE {
        let database = runtime.block_on(Database::create(Kind::Wal, "", 0))?;
        let contender = open(*side, Kind::Wal, database.url())?;
        counts.push(Allocations {
            tracked: true,
            side: side.to_string(),
            per_message: of(&*contender, Work::Publish)?,
        });
    }
    Ok(counts)
}
