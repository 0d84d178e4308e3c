//! Charts: messages per second by the number in flight, a line for each side.

use std::path::Path;

use plotters::prelude::*;

use crate::Result;
use crate::database::Kind;
use crate::figures::Figures;
use crate::scenario::SCENARIOS;
use crate::side::Side;

/// A chart that was drawn.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) file: String,
}

impl Chart {
    fn new(kind: Kind, scenario: &str) -> Self {
        let title = format!("{}: {scenario}", kind.title());
        let words: Vec<_> = title.split(|c: char| !c.is_alphanumeric()).collect();
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        let file = format!("{}.svg", words.join("-").to_lowercase());
        Self { title, file }
    }

    pub(crate) fn is_of(&self, kind: Kind, scenario: &str) -> bool {
        self.title == Self::new(kind, scenario).title
    }
}

/// Draws each scenario on each database.
pub(crate) fn draw_all(figures: &Figures, folder: &Path) -> Result<Vec<Chart>> {
    let mut charts = Vec::new();
    for scenario in SCENARIOS {
        for kind in scenario.kinds {
            let chart = Chart::new(*kind, scenario.title);
            let lines = figures.sides(kind.title(), scenario.title).into_iter();
            let lines = lines.map(|side| {
                let point = |in_flight: usize| {
                    let median = figures.median(kind.title(), scenario.title, side, in_flight)?;
                    Some((f64::from(u32::try_from(in_flight).ok()?), median))
                };
                (
                    side,
                    scenario
                        .in_flight
                        .iter()
                        .copied()
                        .filter_map(point)
                        .collect(),
                )
            });
            draw(
                &chart,
                &lines.collect::<Vec<_>>(),
                &folder.join(&chart.file),
            )?;
            charts.push(chart);
        }
    }
    Ok(charts)
}

type Line = (Side, Vec<(f64, f64)>);

fn draw(chart: &Chart, lines: &[Line], file: &Path) -> Result {
    let rates = lines
        .iter()
        .flat_map(|(_, points)| points)
        .map(|point| point.1);
    let (least, most) = rates.fold((f64::MAX, 0.0_f64), |(least, most), rate| {
        (least.min(rate), most.max(rate))
    });
    if most == 0.0 {
        return Err(format!("{} was not measured", chart.title).into());
    }
    let text = |error: DrawingAreaErrorKind<_>| error.to_string();
    let area = SVGBackend::new(file, (900, 480)).into_drawing_area();
    area.fill(&WHITE).map_err(text)?;
    let x = (1.0..256.0_f64).log_scale();
    let y = (least * 0.8..most * 1.25).log_scale();
    // By hand: what measures a text to place a legend is not built in.
    let (area, legend) = area.split_horizontally(660);
    let mut axes = ChartBuilder::on(&area)
        .caption(&chart.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(x, y)
        .map_err(text)?;
    axes.configure_mesh()
        .x_desc("in flight")
        .y_desc("messages per second")
        .x_label_formatter(&|in_flight| format!("{in_flight:.0}"))
        .y_label_formatter(&|rate| format!("{rate:.0}"))
        .label_style(("sans-serif", 16))
        .light_line_style(WHITE)
        .draw()
        .map_err(text)?;
    for (at, (side, points)) in (0..).zip(lines) {
        let style = ShapeStyle::from(&Palette99::pick(at)).stroke_width(2);
        let line = LineSeries::new(points.iter().copied(), style).point_size(3);
        axes.draw_series(line).map_err(text)?;
        let y = 50 + 22 * i32::try_from(at)?;
        let key = PathElement::new([(0, y), (18, y)], style);
        legend.draw(&key).map_err(text)?;
        let name = side.to_string().replace('`', "");
        let name = Text::new(name, (26, y - 7), ("sans-serif", 16));
        legend.draw(&name).map_err(text)?;
    }
    area.present().map_err(text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::PATH;

    #[test]
    fn a_chart_s_file_is_named_after_it() {
        let chart = Chart::new(Kind::Rollback, PATH);
        assert_eq!(chart.title, "SQLite, rollback journal: whole path");
        assert_eq!(chart.file, "sqlite-rollback-journal-whole-path.svg");
        assert!(chart.is_of(Kind::Rollback, PATH) && !chart.is_of(Kind::Wal, PATH));
    }

    #[test]
    fn a_chart_has_a_line_for_each_side() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("chart.svg");
        let chart = Chart::new(Kind::Wal, PATH);
        let line = |side, rate| (side, vec![(1.0, rate), (64.0, 2.0 * rate)]);
        let lines = [
            line(Side::Peer, 1000.0),
            line(Side::ByHand("Sqlite"), 2000.0),
        ];
        draw(&chart, &lines, &file).unwrap();
        let drawn = std::fs::read_to_string(&file).unwrap();
        for text in ["ruststream-sqlx", "by hand, as Sqlite", &chart.title] {
            assert!(drawn.contains(text), "{text} is not in {drawn}");
        }
        for colour in [0, 1].map(|at| Palette99::pick(at).to_rgba().rgb()) {
            let colour = format!("#{:02X}{:02X}{:02X}", colour.0, colour.1, colour.2);
            let line = |text: &&str| text.starts_with("<polyline") && text.contains(&colour);
            assert!(drawn.lines().any(|text| line(&text)), "no line in {colour}");
        }
    }
}
