//! Pictures on pages, as SVG.

use std::f64::consts::LOG10_2;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use thermocline::{Error, Result};

use crate::curve::Curve;
use crate::numbers::grouped;
use crate::report::whole;

/// Width and height of a picture.
pub const SIZE: (u32, u32) = (900, 360);

/// Colours of series.
pub const COLORS: [RGBColor; 9] = [
    RGBColor(31, 97, 141),
    RGBColor(72, 160, 150),
    RGBColor(217, 138, 40),
    RGBColor(192, 72, 56),
    RGBColor(120, 98, 172),
    RGBColor(130, 144, 156),
    RGBColor(60, 70, 82),
    RGBColor(170, 190, 90),
    RGBColor(200, 130, 170),
];

/// Lines behind those of series, and around legends.
const GRID: RGBColor = RGBColor(226, 230, 234);

/// Percentiles that have labels, by their nines: 0, 50, 90, 99 % and so on.
const LABELS: [f64; 8] = [0.0, LOG10_2, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];

/// The shortest latency that a clock tells, in microseconds.
const MICROS_MIN: f64 = 0.001;

/// The shortest time that has an axis, in seconds.
const SECONDS_MIN: f64 = 0.001;

/// What is drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What drawing comes to.
pub type Drawn = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// A picture that `draw` makes.
///
/// # Errors
/// [`Error::InvalidArgument`] for what cannot be drawn.
pub fn svg(title: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    drawn(&mut svg, draw).map_err(|error| {
        Error::InvalidArgument(format!("the chart '{title}' cannot be drawn: {error}"))
    })?;
    Ok(svg)
}

fn drawn(svg: &mut String, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    draw(&root)?;
    root.present()?;
    Ok(())
}

/// The axis of percentiles, with its labels.
struct Nines {
    axis: RangedCoordf64,
    labels: Vec<f64>,
}

impl Ranged for Nines {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.labels.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

impl ValueFormatter<f64> for Nines {
    fn format(nines: &f64) -> String {
        percent(*nines)
    }
}

/// Latencies by percentile; `None` if no operation was timed.
///
/// # Errors
/// As [`svg`].
pub fn latency(curves: &[Curve]) -> Result<Option<String>> {
    let has_points = |curve: &&Curve| !curve.points.is_empty();
    let curves: Vec<&Curve> = curves.iter().filter(has_points).collect();
    if curves.is_empty() {
        return Ok(None);
    }
    svg("latency by percentile", |root| draw_curves(root, &curves)).map(Some)
}

fn draw_curves(root: &Area<'_>, curves: &[&Curve]) -> Drawn {
    let points = || curves.iter().flat_map(|curve| curve.points.iter());
    let nines = points().map(|point| point.nines).fold(1.0, f64::max);
    let micros = decades(points().map(|point| point.micros));
    let labels = LABELS.into_iter().filter(|label| *label <= nines);
    let mut area = ChartBuilder::on(root)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(90)
        .build_cartesian_2d(
            Nines {
                axis: (0.0..nines).into(),
                labels: labels.collect(),
            },
            micros.log_scale(),
        )?;
    area.configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .x_label_formatter(&|nines| percent(*nines))
        .y_label_formatter(&|micros| short(*micros))
        .x_desc("percentile")
        .y_desc("µs (log scale)")
        .draw()?;
    let mut has_names = false;
    for (curve, color) in curves.iter().zip(COLORS.into_iter().cycle()) {
        let line = curve.points.iter().map(|point| (point.nines, point.micros));
        let line: Vec<(f64, f64)> = line.collect();
        let series = area.draw_series([PathElement::new(line, color.stroke_width(2))])?;
        if !curve.name.is_empty() {
            has_names = true;
            series.label(curve.name).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 12, y + 5)], color.filled())
            });
        }
    }
    if has_names {
        area.configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.85))
            .border_style(GRID)
            .draw()?;
    }
    Ok(())
}

/// Operations a second in even steps of so many seconds.
///
/// # Errors
/// As [`svg`].
pub fn throughput(rates: &[f64], seconds: f64) -> Result<String> {
    svg("throughput over time", |root| {
        draw_rates(root, rates, seconds.max(SECONDS_MIN))
    })
}

fn draw_rates(root: &Area<'_>, rates: &[f64], seconds: f64) -> Drawn {
    let highest = rates.iter().copied().fold(0.0, f64::max);
    let highest = if highest > 0.0 { highest } else { 1.0 };
    let mut area = ChartBuilder::on(root)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(90)
        .build_cartesian_2d(0.0..seconds, 0.0..highest * 1.1)?;
    area.configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .x_label_formatter(&|seconds| short(*seconds))
        .y_label_formatter(&|rate| short(*rate))
        .x_desc("seconds")
        .y_desc("operations a second")
        .draw()?;
    let step = seconds / rates.len().max(1) as f64;
    let mut line = Vec::with_capacity(2 * rates.len());
    for (n, rate) in rates.iter().enumerate() {
        let from = n as f64 * step;
        line.extend([(from, *rate), (from + step, *rate)]);
    }
    area.draw_series([PathElement::new(line, COLORS[0].stroke_width(2))])?;
    Ok(())
}

/// From one power of ten to another one with all `values` between them, and a little beyond, so that both have labels.
fn decades(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (mut least, mut most) = (f64::INFINITY, MICROS_MIN);
    for value in values {
        least = least.min(value);
        most = most.max(value);
    }
    let low = least.clamp(MICROS_MIN, most).log10().floor();
    let high = most.log10().ceil().max(low + 1.0);
    10f64.powf(low) * 0.999..10f64.powf(high) * 1.001
}

/// A percentile by its nines.
fn percent(nines: f64) -> String {
    let percent = 100.0 * (1.0 - 10f64.powf(-nines));
    format!("{} %", trimmed(&format!("{percent:.4}")))
}

/// A number as short as it can be told.
fn short(value: f64) -> String {
    match value {
        value if value >= 1000.0 => grouped(whole(value)),
        value => trimmed(&format!("{value:.3}")).to_string(),
    }
}

/// A number with a point, without zeros at its end.
fn trimmed(number: &str) -> &str {
    number.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Point;

    fn curve(name: &'static str, micros: &[f64]) -> Curve {
        let nines = (0..micros.len()).map(|n| n as f64);
        let points = nines.zip(micros);
        Curve {
            name,
            points: points
                .map(|(nines, micros)| Point {
                    nines,
                    micros: *micros,
                })
                .collect(),
        }
    }

    #[test]
    fn labels_read_well() {
        let percents = [0.0, LOG10_2, 1.0, 2.0, 3.0, 6.0].map(percent);
        assert_eq!(
            percents,
            ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.9999 %"]
        );
        let numbers = [0.0, 0.001, 0.5, 10.0, 999.0, 1e6].map(short);
        assert_eq!(numbers, ["0", "0.001", "0.5", "10", "999", "1,000,000"]);
    }

    /// An axis whose powers of ten are both outside would have no label at all.
    #[test]
    fn an_axis_of_latencies_has_labels_at_both_ends() {
        for (values, low, high) in [
            (vec![2.0, 3.5], 1.0, 10.0),
            (vec![10.0], 10.0, 100.0),
            (vec![0.0, 4000.0], 0.001, 10_000.0),
        ] {
            let axis = decades(values.iter().copied());
            assert!(axis.start < low && axis.start > low * 0.99, "{axis:?}");
            assert!(axis.end > high && axis.end < high * 1.01, "{axis:?}");
        }
    }

    #[test]
    fn each_kind_has_a_line_and_a_name() {
        let curves = [
            curve("read", &[0.4, 1.0, 30.0, 2000.0]),
            curve("update", &[]),
            curve("insert", &[1.0]),
        ];
        let svg = latency(&curves).unwrap().unwrap();
        assert_eq!(svg.matches("<svg").count(), 1);
        assert!(svg.trim_end().ends_with("</svg>"));
        for said in ["read", "insert", "99.9 %", "0.1", "10,000", "µs"] {
            assert!(svg.contains(&format!(">\n{said}")), "no '{said}' in {svg}");
        }
        assert!(!svg.contains("update"));
        assert_eq!(latency(&curves[1..2]).unwrap(), None);
        let alone = latency(&[curve("", &[7.0, 7.0])]).unwrap().unwrap();
        assert!(alone.contains(">\n90 %"), "{alone}");
    }

    #[test]
    fn rates_are_drawn_also_of_a_run_that_did_nothing() {
        let svg = throughput(&[1000.0, 2000.0, 0.0], 3.0).unwrap();
        for said in ["2,000", "1", "seconds"] {
            assert!(
                svg.contains(&format!(">\n{said}\n")),
                "no '{said}' in {svg}"
            );
        }
        let nothing = throughput(&[0.0], 0.0).unwrap();
        assert!(nothing.contains("operations a second"));
    }
}
