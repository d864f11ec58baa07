//! All that ran as one page, with plots.

use std::fmt::Write;

use plotters::prelude::*;
use thermocline_base::Result;
use thermocline_bench::page::{END, begin, table, text};
use thermocline_bench::plot::{Area, COLORS, Drawn, SIZE, svg};

use crate::{Chart, Experiment, Outcome};

/// What the page is about.
const HEADING: &str = "What the papers found, and what is found here";

/// One page that needs nothing else.
///
/// # Errors
/// As [`svg`].
pub fn page(outcomes: &[(&Experiment, Outcome)]) -> Result<String> {
    let mut html = begin("thermocline reproduce", HEADING);
    for (experiment, outcome) in outcomes {
        let _ = writeln!(
            html,
            "<section><h2>{} <small>{}</small></h2>\n<p>{}</p>\n<p class=scale>{}</p>",
            text(experiment.title),
            text(&experiment.id()),
            text(experiment.claim),
            text(&outcome.scale)
        );
        html.push_str("<table><tr><th>claim</th><th>paper</th><th>here</th><th>shape</th></tr>\n");
        for check in &outcome.checks {
            let (class, word) = match check.holds {
                true => ("holds", "holds"),
                false => ("fails", "does not hold"),
            };
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class={class}>{word}</td></tr>",
                text(&check.what),
                text(&check.paper),
                text(&check.ours)
            );
        }
        html.push_str("</table>\n");
        for chart in &outcome.charts {
            html.push_str(&svg(&chart.title, |root| draw(root, chart))?);
        }
        for of in &outcome.tables {
            let _ = writeln!(html, "<h3>{}</h3>", text(&of.title));
            html.push_str(&table("numbers", &of.columns, &of.rows));
        }
        html.push_str("</section>\n");
    }
    html.push_str(END);
    Ok(html)
}

/// How much higher than the highest bar an axis is, so that the legend of so many series hides none.
fn headroom(series: usize) -> f64 {
    let legend = 16.0 * (series as f64 + 1.0);
    // Without caption, margins and labels.
    let plot = f64::from(SIZE.1) - 90.0;
    1.1 / (1.0 - (legend / plot).min(0.7))
}

/// Bars in groups.
fn draw(root: &Area<'_>, chart: &Chart) -> Drawn {
    let values = chart.series.iter().flat_map(|series| &series.values);
    let highest = values.copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let groups = chart.groups.len();
    let mut area = ChartBuilder::on(root)
        .caption(&chart.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(
            0.0..groups as f64,
            0.0..highest * headroom(chart.series.len()),
        )?;
    let name = |x: &f64| {
        let group = (0..groups).find(|group| (*group as f64 + 0.5 - x).abs() < 1e-6);
        group.map_or(String::new(), |group| chart.groups[group].clone())
    };
    area.configure_mesh()
        .disable_x_mesh()
        .x_labels(2 * groups + 1)
        .x_label_formatter(&name)
        .x_desc(&chart.x)
        .y_desc(&chart.y)
        .draw()?;
    let width = 0.8 / chart.series.len().max(1) as f64;
    for (n, series) in chart.series.iter().enumerate() {
        let color = COLORS[n % COLORS.len()];
        let bar = |(group, value): (usize, &f64)| {
            let x = group as f64 + 0.1 + n as f64 * width;
            Rectangle::new([(x, 0.0), (x + width * 0.92, *value)], color.filled())
        };
        area.draw_series(series.values.iter().enumerate().map(bar))?
            .label(&series.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled()));
    }
    area.configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 206, 212))
        .draw()?;
    Ok(())
}
