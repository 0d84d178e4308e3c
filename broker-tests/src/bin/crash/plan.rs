//! What happens in a round: chosen by its seed alone.

use std::fmt;
use std::time::Duration;

use broker_tests::Kind;
use fastrand::Rng;

/// A process of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Publisher,
    Receiver,
    /// A publisher that only sends again what is open.
    Resender,
}

/// Where the library lets a process end, and how many times it comes there soon. A receiver
/// publishes, too, but less.
const PUBLISHING: [(&str, u64); 2] = [("after_commit", 60), ("before_send", 60)];
const RECEIVING: [(&str, u64); 5] = [
    ("after_fetch", 60),
    ("after_handler", 60),
    ("before_mark", 60),
    ("after_commit", 6),
    ("before_send", 6),
];

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// SIGKILL after that time.
    Kill(Role, Duration),
    /// The process is ended in order, and its next instance ends when it has reached a point of the
    /// library so many times.
    Crash(Role, &'static str, u64),
    /// The broker is killed after that time and started again.
    Broker(Duration),
    /// As above, the database's server.
    Database(Duration),
}

/// A round.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) events: Vec<Event>,
    /// How long a process stays away after its end.
    pub(crate) away: Duration,
    /// How long the load goes on after the last event.
    pub(crate) rest: Duration,
    /// Who sends the rest again when the load is off: the receiver itself, or a process beside it.
    pub(crate) last: Role,
}

impl Plan {
    pub(crate) fn new(seed: u64, kind: Kind) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut events = Vec::new();
        for _ in 0..rng.u8(1..=3) {
            events.push(event(&mut rng, kind));
        }
        // A subscription comes back some time after its broker does: the receiver starts anew then.
        let lost_broker = events.iter().any(|event| matches!(event, Event::Broker(_)));
        let last = if lost_broker || rng.bool() {
            Role::Receiver
        } else {
            Role::Resender
        };
        Self {
            events,
            away: milliseconds(&mut rng, 100),
            rest: milliseconds(&mut rng, 400),
            last,
        }
    }
}

fn event(rng: &mut Rng, kind: Kind) -> Event {
    let victims = if kind == Kind::Postgres { 8 } else { 7 };
    match rng.u8(0..victims) {
        victim @ 0..=1 => Event::Kill(role(victim), milliseconds(rng, 600)),
        victim @ 2..=5 => {
            let role = role(victim % 2);
            let points: &[_] = match role {
                Role::Receiver => &RECEIVING,
                _ => &PUBLISHING,
            };
            let (point, most) = points[rng.usize(..points.len())];
            Event::Crash(role, point, rng.u64(1..=most))
        }
        6 => Event::Broker(milliseconds(rng, 300)),
        _ => Event::Database(milliseconds(rng, 300)),
    }
}

fn role(victim: u8) -> Role {
    if victim == 0 {
        Role::Publisher
    } else {
        Role::Receiver
    }
}

fn milliseconds(rng: &mut Rng, most: u64) -> Duration {
    Duration::from_millis(rng.u64(..most))
}

impl Role {
    /// As the process is told.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Publisher => "publisher",
            Self::Receiver => "receiver",
            Self::Resender => "resender",
        }
    }
}

impl Event {
    /// What was killed, for the report.
    pub(crate) const fn victim(&self) -> &'static str {
        match self {
            Self::Kill(role, _) => role.name(),
            Self::Crash(_, point, _) => point,
            Self::Broker(_) => "broker",
            Self::Database(_) => "database",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(role, after) => write!(f, "kill the {} after {after:?}", role.name()),
            Self::Crash(role, point, time) => {
                write!(f, "the {} ends at {point}@{time}", role.name())
            }
            Self::Broker(after) => write!(f, "restart the broker after {after:?}"),
            Self::Database(after) => write!(f, "restart the database after {after:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_round_each_time() {
        for seed in 0..100 {
            let plans = [(); 2].map(|()| format!("{:?}", Plan::new(seed, Kind::Postgres)));
            assert_eq!(plans[0], plans[1]);
        }
    }

    #[test]
    fn every_victim_and_every_point_comes_up() {
        let plans = (0..10_000).map(|seed| Plan::new(seed, Kind::Postgres));
        let events: Vec<Event> = plans.flat_map(|plan| plan.events).collect();
        for victim in ["publisher", "receiver", "broker", "database"] {
            assert!(
                events.iter().any(|event| event.victim() == victim),
                "{victim}"
            );
        }
        let roles = [
            (Role::Publisher, &PUBLISHING[..]),
            (Role::Receiver, &RECEIVING),
        ];
        for (role, points) in roles {
            for (point, most) in points {
                for times in [1, *most] {
                    let crash = Event::Crash(role, point, times);
                    assert!(events.contains(&crash), "{crash}");
                }
            }
        }
    }

    #[test]
    fn a_file_has_no_server_to_kill() {
        let plans = (0..1000).map(|seed| Plan::new(seed, Kind::Sqlite));
        let mut events = plans.flat_map(|plan| plan.events);
        assert!(!events.any(|event| matches!(event, Event::Database(_))));
    }
}
