//! Messages of each scenario, at each number in flight.

use std::time::Duration;

use super::Contestant;
use crate::Result;
use crate::database::Kind;
use crate::figures::Figure;
use crate::load::Load;
use crate::plan::Plan;
use crate::scenario::{SCENARIOS, Work};
use crate::side::{Insert, Side};

/// No measurement has more messages.
const MOST: f64 = 300_000.0;

pub(super) async fn measure(
    plan: &Plan,
    kind: Kind,
    contestants: &[Contestant],
    bare: &Contestant,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for scenario in SCENARIOS
        .iter()
        .filter(|scenario| scenario.kinds.contains(&kind) && plan.has(kind, scenario.title))
    {
        let taking_part: Vec<&Contestant> = match scenario.work {
            Work::Untracked => {
                let derived = contestants.iter().filter(|contestant| {
                    matches!(contestant.side, Side::Peer | Side::Ours(_, Insert::Derived))
                });
                [bare].into_iter().chain(derived).collect()
            }
            Work::Publish | Work::Path => contestants.iter().collect(),
        };
        let planned = |in_flight: &&usize| plan.in_flight.contains(in_flight);
        for &in_flight in scenario.in_flight.iter().filter(planned) {
            eprintln!(
                "{}: {}, {in_flight} in flight",
                kind.title(),
                scenario.title
            );
            let mut measured = Vec::new();
            for contestant in &taking_part {
                let messages = messages(plan, contestant, scenario.work, in_flight).await?;
                measured.push(Figure {
                    database: kind.title(),
                    scenario: scenario.title,
                    side: contestant.side,
                    in_flight,
                    messages,
                    per_second: Vec::new(),
                });
            }
            for _ in 0..plan.rounds {
                for (contestant, figure) in taking_part.iter().zip(&mut measured) {
                    let load = Load {
                        messages: figure.messages,
                        in_flight,
                    };
                    let took = once(contestant, scenario.work, load).await?;
                    figure.per_second.push(rate(load.messages, took));
                }
            }
            figures.append(&mut measured);
        }
    }
    Ok(figures)
}

/// How many messages a measurement has: by tries that get longer until one tells. The first one also
/// opens the connections.
async fn messages(
    plan: &Plan,
    contestant: &Contestant,
    work: Work,
    in_flight: usize,
) -> Result<usize> {
    let mut load = Load {
        messages: in_flight.max(16),
        in_flight,
    };
    if plan.measurement.is_zero() {
        return Ok(load.messages);
    }
    let mut took = once(contestant, work, load).await?;
    while took < plan.measurement / 5 {
        load.messages *= 4;
        took = once(contestant, work, load).await?;
    }
    let messages = rate(load.messages, took) * plan.measurement.as_secs_f64();
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and at most `MOST`"
    )]
    let messages = messages.min(MOST) as usize;
    Ok(messages.max(in_flight.max(16)))
}

/// One measurement on an empty table, and whether it did its work.
pub(super) async fn once(contestant: &Contestant, work: Work, load: Load) -> Result<Duration> {
    let database = &contestant.database;
    database.reset().await?;
    let sent = contestant.contender.messages(work, load).await;
    let sent = sent.map_err(|error| format!("{}: {error}", contestant.side))?;
    let (written, open) = match work {
        Work::Untracked => (0, 0),
        Work::Publish => (sent.messages, sent.messages),
        Work::Path => (sent.messages, 0),
    };
    let done = database.assert_records(written, open).await;
    done.map_err(|error| format!("{}: {error}", contestant.side))?;
    Ok(sent.took)
}

pub(super) fn rate(count: usize, took: Duration) -> f64 {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    f64::from(count) / took.as_secs_f64()
}
