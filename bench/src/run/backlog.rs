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
    let figure = |scenario| {
        move |contestant: &&Contestant| Figure {
            database: kind.title(),
            scenario,
            side: contestant.side,
            in_flight: 0,
            messages: plan.backlog,
            per_second: Vec::new(),
        }
    };
    let mut resend: Vec<_> = taking_part.iter().map(figure(RESEND)).collect();
    let mut recovery: Vec<_> = taking_part.iter().map(figure(RECOVERY)).collect();
    eprintln!("{}: {} {RESEND}", kind.title(), plan.backlog);
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
    eprintln!("{}: {} {RECOVERY}", kind.title(), plan.backlog);
    for _ in 0..plan.backlog_rounds {
        for (contestant, figure) in taking_part.iter().zip(&mut recovery) {
            contestant.database.reset().await?;
            contestant.database.store_open(plan.backlog).await?;
            let took = contestant.contender.recover(plan.backlog, WORKERS).await?;
            contestant.database.assert_records(plan.backlog, 0).await?;
            figure.per_second.push(rate(plan.backlog, took));
        }
    }
    resend.append(&mut recovery);
    Ok(resend)
}
