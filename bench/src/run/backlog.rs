//! A backlog of open records: sent again, and processed.

use super::Contestant;
use super::messages::rate;
use crate::Result;
use crate::database::Kind;
use crate::figures::Figure;
use crate::plan::Plan;
use crate::scenario::{RECOVERY, RESEND};
use crate::side::{Insert, Side};

/// How many handlers of the service run at once.
const WORKERS: usize = 64;

pub(super) async fn measure(
    plan: &Plan,
    kind: Kind,
    contestants: &[Contestant],
) -> Result<Vec<Figure>> {
    // Which insert a record type has makes no difference here.
    let taking_part = contestants.iter();
    let taking_part = taking_part.filter(|one| !matches!(one.side, Side::Ours(_, Insert::Own)));
    let taking_part: Vec<_> = taking_part.collect();
    let outboxes = taking_part.iter().filter(|one| one.side.is_outbox());
    let outboxes: Vec<_> = outboxes.copied().collect();
    let figures = |taking_part: &[&Contestant], scenario, messages| {
        let figure = move |contestant: &&Contestant| Figure {
            database: kind.title(),
            scenario,
            side: contestant.side,
            in_flight: 0,
            messages,
            per_second: Vec::new(),
        };
        taking_part.iter().map(figure).collect::<Vec<_>>()
    };

    if !plan.has(kind, RESEND) {
        return Ok(Vec::new());
    }
    eprintln!("{}: {} {RESEND}", kind.title(), plan.backlog);
    let mut resend = figures(&taking_part, RESEND, plan.backlog);
    for round in 0..plan.rounds {
        for (contestant, figure) in taking_part.iter().zip(&mut resend) {
            if round == 0 {
                contestant.database.reset().await?;
                contestant.database.store_open(plan.backlog).await?;
            }
            let took = contestant.contender.resend(plan.backlog).await?;
            figure.per_second.push(rate(plan.backlog, took));
        }
    }

    let (records, rounds) = plan.recovery;
    eprintln!("{}: {records} {RECOVERY}", kind.title());
    let mut recovery = figures(&outboxes, RECOVERY, records);
    for _ in 0..rounds {
        for (contestant, figure) in outboxes.iter().zip(&mut recovery) {
            contestant.database.reset().await?;
            contestant.database.store_open(records).await?;
            let took = contestant.contender.recover(records, WORKERS).await?;
            contestant.database.assert_records(records, 0).await?;
            figure.per_second.push(rate(records, took));
        }
    }
    resend.append(&mut recovery);
    Ok(resend)
}
