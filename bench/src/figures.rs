//! What was measured: every round of every figure.

use serde::Serialize;

use crate::side::Side;
use crate::statistics::{median, ratio};

/// Messages (or starts) per second, round by round.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Figure {
    pub(crate) database: &'static str,
    pub(crate) scenario: &'static str,
    #[serde(serialize_with = "text")]
    pub(crate) side: Side,
    /// Zero where it is not counted.
    pub(crate) in_flight: usize,
    /// The size of one measurement.
    pub(crate) messages: usize,
    pub(crate) per_second: Vec<f64>,
}

fn text<S: serde::Serializer>(side: &Side, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(side)
}

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Figures(Vec<Figure>);

impl Figures {
    pub(crate) fn add(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.0.extend(figures);
    }

    pub(crate) fn rounds(
        &self,
        database: &str,
        scenario: &str,
        side: Side,
        in_flight: usize,
    ) -> Option<&[f64]> {
        let found = self.0.iter().find(|figure| {
            figure.database == database
                && figure.scenario == scenario
                && figure.side == side
                && figure.in_flight == in_flight
        });
        found.map(|figure| figure.per_second.as_slice())
    }

    pub(crate) fn median(
        &self,
        database: &str,
        scenario: &str,
        side: Side,
        in_flight: usize,
    ) -> Option<f64> {
        median(self.rounds(database, scenario, side, in_flight)?)
    }

    /// How many times as fast as the peer, in the same rounds.
    pub(crate) fn to_peer(
        &self,
        database: &str,
        scenario: &str,
        side: Side,
        in_flight: usize,
    ) -> Option<f64> {
        let peer = self.rounds(database, scenario, Side::Peer, in_flight)?;
        ratio(self.rounds(database, scenario, side, in_flight)?, peer)
    }

    /// The sides of a scenario, in the order of their first figures.
    pub(crate) fn sides(&self, database: &str, scenario: &str) -> Vec<Side> {
        let mut sides = Vec::new();
        for figure in &self.0 {
            let of_it = figure.database == database && figure.scenario == scenario;
            if of_it && !sides.contains(&figure.side) {
                sides.push(figure.side);
            }
        }
        sides
    }
}
