//! What the outbox is meant to reach, and whether it does.

use crate::allocations::Allocations;
use crate::database::Kind;
use crate::figures::Figures;
use crate::scenario::{PATH, PATH_EMPTY, PATH_FULL, PUBLISH, START_EMPTY, START_FULL};
use crate::side::Insert::{Derived, Own};
use crate::side::{Insert, Side};
use crate::statistics::ratio;

/// A scenario, an insert, and how many times as fast as the peer.
type Asked = (&'static str, Insert, f64);

/// With 64 messages in flight, for each driver.
const TO_PEER: &[(&str, Kind, [Asked; 4])] = &[
    (
        "Rusqlite",
        Kind::Wal,
        [
            (PUBLISH, Derived, 40.0),
            (PUBLISH, Own, 10.0),
            (PATH, Derived, 20.0),
            (PATH, Own, 15.0),
        ],
    ),
    (
        "Sqlite",
        Kind::Wal,
        [
            (PUBLISH, Derived, 20.0),
            (PUBLISH, Own, 5.0),
            (PATH, Derived, 15.0),
            (PATH, Own, 6.0),
        ],
    ),
    (
        "TokioPostgres",
        Kind::Postgres,
        [
            (PUBLISH, Derived, 10.0),
            (PUBLISH, Own, 4.0),
            (PATH, Derived, 10.0),
            (PATH, Own, 4.0),
        ],
    ),
    (
        "Postgres",
        Kind::Postgres,
        [
            (PUBLISH, Derived, 8.0),
            (PUBLISH, Own, 1.0),
            (PATH, Derived, 6.0),
            (PATH, Own, 1.2),
        ],
    ),
];

/// A figure that must not be below, or above, a limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) what: String,
    pub(crate) limit: Limit,
    /// `None` where it was not measured.
    pub(crate) figure: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    /// By the figure as it is printed. What was not measured is not met.
    pub(crate) fn is_met(&self) -> bool {
        let Some(figure) = self.figure else {
            return false;
        };
        let figure = (figure * 100.0).round() / 100.0;
        match self.limit {
            Limit::AtLeast(limit) => figure >= limit,
            Limit::AtMost(limit) => figure <= limit,
        }
    }
}

/// All bounds, with what was measured.
pub(crate) fn judge(figures: &Figures, allocations: &[Allocations]) -> Vec<Bound> {
    let mut bounds = Vec::new();
    for (driver, kind, asked) in TO_PEER {
        let database = kind.title();
        for (scenario, insert, limit) in asked {
            let side = Side::Ours(driver, *insert);
            bounds.push(Bound {
                what: format!("{scenario}, {side}, 64 in flight: times the peer"),
                limit: Limit::AtLeast(*limit),
                figure: figures.to_peer(database, scenario, side, 64),
            });
        }
        for (scenario, insert) in [
            (PUBLISH, Derived),
            (PUBLISH, Own),
            (PATH, Derived),
            (PATH, Own),
        ] {
            let side = Side::Ours(driver, insert);
            let rounds = |side, in_flight| figures.rounds(database, scenario, side, in_flight);
            let compared = |(of, to): (Option<&[f64]>, Option<&[f64]>)| ratio(of?, to?);
            bounds.push(Bound {
                what: format!("{scenario}, {side}, 1 in flight: times the peer"),
                limit: Limit::AtLeast(if insert == Derived { 1.0 } else { 0.9 }),
                figure: figures.to_peer(database, scenario, side, 1),
            });
            bounds.push(Bound {
                what: format!("{scenario}, {side}, 1 in flight: time of the same work by hand"),
                limit: Limit::AtMost(1.05),
                figure: compared((rounds(Side::ByHand(driver), 1), rounds(side, 1))),
            });
            bounds.push(Bound {
                what: format!("{scenario}, {side}: 256 in flight, times 64 in flight"),
                limit: Limit::AtLeast(1.0),
                figure: compared((rounds(side, 256), rounds(side, 64))),
            });
        }
        for (what, empty, full) in [
            ("a message", PATH_EMPTY, PATH_FULL),
            ("a start", START_EMPTY, START_FULL),
        ] {
            for insert in [Derived, Own] {
                let side = Side::Ours(driver, insert);
                let rounds = |scenario| figures.rounds(database, scenario, side, 0);
                bounds.push(Bound {
                    what: format!(
                        "{what} on a table of processed rows, {side}: time of an empty one"
                    ),
                    limit: Limit::AtMost(1.1),
                    figure: rounds(empty)
                        .zip(rounds(full))
                        .and_then(|(of, to)| ratio(of, to)),
                });
            }
        }
    }
    bounds.extend(of_untracked(allocations));
    bounds
}

/// What an untracked message allocates more than in a service without an outbox.
fn of_untracked(allocations: &[Allocations]) -> Vec<Bound> {
    let untracked = || allocations.iter().filter(|count| !count.tracked);
    let bare = Side::Bare.to_string();
    let bare = untracked().find(|count| count.side.starts_with(&bare));
    let ours = untracked().filter(|count| count.side.contains(&Derived.to_string()));
    let bound = |count: &Allocations| Bound {
        what: format!(
            "untracked message, {}: more allocations than without",
            count.side
        ),
        limit: Limit::AtMost(0.0),
        figure: bare.map(|bare| count.per_message - bare.per_message),
    };
    ours.map(bound).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figure;

    fn bound(limit: Limit, figure: Option<f64>) -> Bound {
        Bound {
            what: String::new(),
            limit,
            figure,
        }
    }

    #[test]
    fn a_bound_is_met_up_to_its_limit_as_printed() {
        assert!(bound(Limit::AtLeast(20.0), Some(19.996)).is_met());
        assert!(!bound(Limit::AtLeast(20.0), Some(19.99)).is_met());
        assert!(bound(Limit::AtMost(1.05), Some(1.054)).is_met());
        assert!(!bound(Limit::AtMost(1.05), Some(1.06)).is_met());
    }

    #[test]
    fn what_was_not_measured_is_not_met() {
        assert!(!bound(Limit::AtMost(1.0), None).is_met());
        let bounds = judge(&Figures::default(), &[]);
        assert!(bounds.iter().all(|bound| !bound.is_met()));
    }

    #[test]
    fn a_figure_is_compared_with_the_peer_and_with_the_work_by_hand() {
        let figure = |side, per_second| Figure {
            database: Kind::Wal.title(),
            scenario: PUBLISH,
            side,
            in_flight: 1,
            messages: 1,
            per_second: vec![per_second],
        };
        let mut figures = Figures::default();
        figures.add([
            figure(Side::Peer, 100.0),
            figure(Side::ByHand("Sqlite"), 150.0),
            figure(Side::Ours("Sqlite", Own), 120.0),
        ]);
        let bounds = judge(&figures, &[]);
        let measured: Vec<_> = bounds
            .iter()
            .filter(|bound| bound.figure.is_some())
            .collect();
        assert_eq!(measured.len(), 2);
        assert_eq!(measured[0].figure, Some(1.2));
        assert!(measured[0].is_met(), "{measured:?}");
        assert_eq!(measured[1].figure, Some(1.25));
        assert!(!measured[1].is_met(), "{measured:?}");
    }

    #[test]
    fn an_untracked_message_is_compared_with_a_service_without_an_outbox() {
        let count = |side: &str, per_message| Allocations {
            tracked: false,
            side: side.to_owned(),
            per_message,
        };
        let allocations = [
            count("no outbox, Postgres", 3.0),
            count("`ruststream-sqlx`, Postgres", 4.0),
            count("`Sqlite`, derived insert, Postgres", 3.0),
            count("`Rusqlite`, derived insert, Postgres", 4.0),
        ];
        let met = of_untracked(&allocations);
        let met: Vec<_> = met.iter().map(Bound::is_met).collect();
        assert_eq!(met, [true, false]);
    }
}
