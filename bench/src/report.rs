//! The report: printed, and written with its charts and its raw figures.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::allocations::Allocations;
use crate::bounds::{Limit, judge};
use crate::chart;
use crate::database::Kind;
use crate::figures::Figures;
use crate::plan::Plan;
use crate::scenario::{
    PATH_EMPTY, PATH_FULL, RECOVERY, RESEND, SCENARIOS, START_EMPTY, START_FULL, Scenario,
};
use crate::{Result, chart::Chart};

/// How the figures are made. It stands beside them.
const METHOD: &str = include_str!("method.md");

pub(crate) struct Report<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) figures: Figures,
    pub(crate) allocations: Vec<Allocations>,
    pub(crate) machine: String,
}

#[derive(Serialize)]
struct Raw<'a> {
    machine: &'a str,
    rounds: usize,
    figures: &'a Figures,
    allocations: &'a [Allocations],
}

impl Report<'_> {
    pub(crate) fn print(&self) {
        println!("{}\n{}", self.tables(&[]), self.bounds());
    }

    /// Writes the page, its charts, and the raw figures.
    pub(crate) fn write(&self) -> Result {
        let folder = Path::new(self.plan.folder);
        let charts = folder.join("docs/benchmarks");
        fs::create_dir_all(&charts)?;
        fs::create_dir_all(folder.join("bench"))?;
        let drawn = chart::draw_all(&self.figures, &charts)?;
        let Plan {
            rounds,
            backlog,
            processed,
            recovery: (recovered, recoveries),
            ..
        } = self.plan;
        let page = format!(
            "# Benchmarks\n\n{METHOD}\nThis run: {}; {rounds} rounds; {backlog} open records sent again, \
             {recovered} sent again and processed in {recoveries} rounds; {processed} processed \
             rows.\n\n## Bounds\n\n{}\n{}",
            self.machine,
            self.bounds(),
            self.tables(&drawn),
        );
        let page_path = folder.join("docs/benchmarks.md");
        fs::write(&page_path, page)?;
        let raw = Raw {
            machine: &self.machine,
            rounds: *rounds,
            figures: &self.figures,
            allocations: &self.allocations,
        };
        let raw = serde_json::to_string_pretty(&raw)?;
        fs::write(folder.join("bench/figures.json"), raw + "\n")?;
        println!("written: {}", page_path.display());
        Ok(())
    }

    fn bounds(&self) -> String {
        let mut text = "| what | bound | figure | |\n|---|---|---|---|\n".to_owned();
        let only = self.plan.only.is_some();
        let bounds = judge(&self.figures, &self.allocations);
        for bound in bounds
            .iter()
            .filter(|bound| !only || bound.figure.is_some())
        {
            let limit = match bound.limit {
                Limit::AtLeast(limit) => format!("at least {limit}"),
                Limit::AtMost(limit) => format!("at most {limit}"),
            };
            let figure = bound.figure.map_or("-".to_owned(), |it| format!("{it:.2}"));
            let met = if bound.is_met() { "met" } else { "**not met**" };
            let what = &bound.what;
            let _ = writeln!(text, "| {what} | {limit} | {figure} | {met} |");
        }
        text
    }

    fn tables(&self, charts: &[Chart]) -> String {
        let mut text = String::new();
        for kind in Kind::ALL {
            for scenario in SCENARIOS.iter().filter(|scenario| {
                scenario.kinds.contains(&kind) && self.plan.has(kind, scenario.title)
            }) {
                let _ = writeln!(text, "## {}: {}\n", kind.title(), scenario.title);
                text += &self.by_in_flight(kind.title(), scenario);
                let drawn = |chart: &&Chart| chart.is_of(kind, scenario.title);
                if let Some(chart) = charts.iter().find(drawn) {
                    let _ = writeln!(text, "\n![{}](benchmarks/{})", chart.title, chart.file);
                }
                text.push('\n');
            }
        }
        text += &self.others();
        text += &self.allocations();
        text
    }

    /// Messages per second of each side, at each number in flight.
    fn by_in_flight(&self, database: &str, scenario: &Scenario) -> String {
        let mut text = "| messages per second (times the peer) |".to_owned();
        for in_flight in scenario.in_flight {
            let _ = write!(text, " {in_flight} in flight |");
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(scenario.in_flight.len()));
        for side in self.figures.sides(database, scenario.title) {
            let _ = write!(text, "| {side} |");
            for in_flight in scenario.in_flight {
                let of = (database, scenario.title, side, *in_flight);
                let median = self.figures.median(of.0, of.1, of.2, of.3);
                let times = self.figures.to_peer(of.0, of.1, of.2, of.3);
                let _ = write!(text, " {} |", cell(median, times));
            }
            text.push('\n');
        }
        text
    }

    fn others(&self) -> String {
        let mut text = "## Starts, and tables of many rows\n\n\
             | database | what | side | per second (times the peer) |\n|---|---|---|---|\n"
            .to_owned();
        let others = [
            RESEND,
            RECOVERY,
            PATH_EMPTY,
            PATH_FULL,
            START_EMPTY,
            START_FULL,
        ];
        for kind in Kind::ALL {
            for scenario in others {
                for side in self.figures.sides(kind.title(), scenario) {
                    let median = self.figures.median(kind.title(), scenario, side, 0);
                    let times = self.figures.to_peer(kind.title(), scenario, side, 0);
                    let (database, cell) = (kind.title(), cell(median, times));
                    let _ = writeln!(text, "| {database} | {scenario} | {side} | {cell} |");
                }
            }
        }
        text
    }

    fn allocations(&self) -> String {
        let mut text = "\n## Allocations\n\n\
             | message | side | allocations per message |\n|---|---|---|\n"
            .to_owned();
        for count in &self.allocations {
            let message = if count.tracked {
                "tracked publish"
            } else {
                "untracked"
            };
            let (side, per_message) = (&count.side, count.per_message);
            let _ = writeln!(text, "| {message} | {side} | {per_message:.2} |");
        }
        text
    }
}

fn cell(median: Option<f64>, times: Option<f64>) -> String {
    match (median, times) {
        (Some(median), Some(times)) => format!("{median:.0} ({times:.2})"),
        (Some(median), None) => format!("{median:.0}"),
        (None, _) => "-".to_owned(),
    }
}
