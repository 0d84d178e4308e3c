//! A table of many processed rows, against an empty one: a message's time, and a start's.

use std::time::Instant;

use super::Contestant;
use super::messages::{once, rate};
use crate::Result;
use crate::database::Kind;
use crate::figures::Figure;
use crate::load::Load;
use crate::plan::Plan;
use crate::scenario::{PATH_EMPTY, PATH_FULL, START_EMPTY, START_FULL, Work};

/// One start is too short to be measured.
const STARTS: usize = 20;

const IN_FLIGHT: usize = 64;

pub(super) async fn measure(
    plan: &Plan,
    kind: Kind,
    empty: &[Contestant],
    full: &[Contestant],
) -> Result<Vec<Figure>> {
    eprintln!(
        "{}: {} processed rows, and none",
        kind.title(),
        plan.processed
    );
    let load = Load {
        messages: if plan.measurement.is_zero() { 64 } else { 1000 },
        in_flight: IN_FLIGHT,
    };
    let mut figures = Vec::new();
    for full in full {
        let empty = empty.iter().find(|empty| empty.side == full.side);
        let empty = empty.ok_or("a side has no empty table")?;
        for (scenario, messages) in [
            (PATH_EMPTY, load.messages),
            (PATH_FULL, load.messages),
            (START_EMPTY, STARTS),
            (START_FULL, STARTS),
        ] {
            figures.push(Figure {
                database: kind.title(),
                scenario,
                side: full.side,
                in_flight: 0,
                messages,
                per_second: Vec::new(),
            });
        }
        // The first of several rounds opens connections, and reads what the next ones find in memory.
        let tries = usize::from(plan.rounds > 1);
        for round in 0..plan.rounds + tries {
            let rates = [
                path(empty, load).await?,
                path(full, load).await?,
                starts(empty).await?,
                starts(full).await?,
            ];
            if round >= tries {
                for (figure, rate) in figures.iter_mut().rev().zip(rates.iter().rev()) {
                    figure.per_second.push(*rate);
                }
            }
        }
    }
    Ok(figures)
}

async fn path(contestant: &Contestant, load: Load) -> Result<f64> {
    let took = once(contestant, Work::Path, load).await?;
    Ok(rate(load.messages, took))
}

async fn starts(contestant: &Contestant) -> Result<f64> {
    contestant.database.reset().await?;
    let began = Instant::now();
    for _ in 0..STARTS {
        contestant.contender.resend(0).await?;
    }
    Ok(rate(STARTS, began.elapsed()))
}
