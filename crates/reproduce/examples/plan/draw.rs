//! Pictures of them.

use std::error::Error;
use std::path::Path;

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use thermocline_base::options::Preset;
use thermocline_policy::simulate::Bound;

use crate::PRESETS;
use crate::figures::{Figure, RATIOS, SIZES, SKEWS};

type Drawn<T = ()> = Result<T, Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (1100, 720);

/// Height of the title with the legend below it.
const HEAD: u32 = 64;

const FONT: &str = "sans-serif";

const COLORS: [RGBColor; 4] = [
    RGBColor(31, 97, 141),
    RGBColor(72, 160, 150),
    RGBColor(217, 138, 40),
    RGBColor(130, 144, 156),
];

/// A quantity of each figure, one panel for each size of the data.
pub struct Lines<'a> {
    pub title: &'a str,
    pub y: &'a str,
    pub range: (f64, f64),
    pub of: &'a dyn Fn(&Figure) -> f64,
}

impl Lines<'_> {
    pub fn draw(&self, figures: &[Figure], path: &Path) -> Drawn {
        let root = SVGBackend::new(path, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, body) = root.split_vertically(HEAD);
        self.legend(&head)?;
        for (size, panel) in body.split_evenly((2, 2)).iter().enumerate() {
            self.panel(figures, size, panel)?;
        }
        root.present()?;
        Ok(())
    }

    fn legend(&self, head: &Area<'_>) -> Drawn {
        head.draw(&Text::new(self.title, (20, 8), (FONT, 22)))?;
        let mut x = 20;
        for (preset, color) in PRESETS.iter().zip(COLORS) {
            let line = vec![(x, 48), (x + 28, 48)];
            head.draw(&PathElement::new(line, color.stroke_width(3)))?;
            head.draw(&Text::new(preset.name(), (x + 36, 40), (FONT, 15)))?;
            x += 150;
        }
        let styles = [("all keys alike", false), ("skew 0.9", true)];
        for (name, dashed) in styles {
            let steps: Vec<i32> = if dashed { vec![0, 12, 24] } else { vec![0] };
            let length = if dashed { 7 } else { 31 };
            for step in steps {
                let dash = vec![(x + step, 48), (x + step + length, 48)];
                head.draw(&PathElement::new(dash, BLACK.stroke_width(2)))?;
            }
            head.draw(&Text::new(name, (x + 40, 40), (FONT, 15)))?;
            x += 160;
        }
        Ok(())
    }

    fn panel(&self, figures: &[Figure], size: usize, panel: &Area<'_>) -> Drawn {
        let (least, most) = self.range;
        let x = (RATIOS[0] * 0.85..RATIOS[RATIOS.len() - 1] * 1.2).log_scale();
        let x = x.with_key_points(RATIOS.to_vec());
        let y = (least..most).log_scale();
        let mut chart = ChartBuilder::on(panel)
            .caption(format!("{} of data", SIZES[size].0), (FONT, 16))
            .margin(10)
            .x_label_area_size(44)
            .y_label_area_size(66)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .bold_line_style(RGBColor(226, 230, 234))
            .x_label_formatter(&|ratio| number(*ratio))
            .y_label_formatter(&|value| number(*value))
            .x_desc("data for each byte of persistent memory (log scale)")
            .y_desc(self.y)
            .label_style((FONT, 13))
            .axis_desc_style((FONT, 13))
            .draw()?;
        for (preset, color) in PRESETS.iter().zip(COLORS) {
            for skew in 0..SKEWS.len() {
                let own = figures
                    .iter()
                    .filter(|f| f.preset == *preset && f.size == size && f.skew == skew);
                let points = own.map(|f| (RATIOS[f.ratio], (self.of)(f).clamp(least, most)));
                let points: Vec<(f64, f64)> = points.collect();
                let style = color.stroke_width(2);
                match skew {
                    0 => chart.draw_series([PathElement::new(points.clone(), style)])?,
                    _ => {
                        let dashed = DashedPathElement::new(points.clone(), 7, 5, style);
                        chart.draw_series([dashed])?
                    }
                };
                chart.draw_series(
                    points
                        .into_iter()
                        .map(|at| Circle::new(at, 3, color.filled())),
                )?;
            }
        }
        Ok(())
    }
}

/// As short as it can be told.
fn number(value: f64) -> String {
    match value {
        v if v >= 1e4 => format!("{:.0}k", v / 1e3),
        v if v >= 10.0 => format!("{v:.0}"),
        v => format!("{v}"),
    }
}

fn color_of(bound: Bound) -> RGBColor {
    match bound {
        Bound::Device => RGBColor(214, 120, 100),
        Bound::Processors => RGBColor(226, 178, 96),
        Bound::Memory => RGBColor(150, 170, 214),
        Bound::Levels => RGBColor(150, 205, 205),
        Bound::Dram => RGBColor(190, 160, 205),
        Bound::Nothing => RGBColor(178, 214, 178),
    }
}

/// What limits each store, by colour, and what it could be written at most.
pub fn limits(figures: &[Figure], path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (head, body) = root.split_vertically(HEAD);
    let title = "What limits 50 MB/s of writes with skew 0.9, and the most that device and processors carry, in MB/s";
    head.draw(&Text::new(title, (20, 8), (FONT, 20)))?;
    let bounds = [
        Bound::Nothing,
        Bound::Device,
        Bound::Processors,
        Bound::Memory,
        Bound::Levels,
        Bound::Dram,
    ];
    let mut x = 20;
    for bound in bounds {
        let corners = [(x, 40), (x + 22, 56)];
        head.draw(&Rectangle::new(corners, color_of(bound).filled()))?;
        head.draw(&Text::new(bound.name(), (x + 30, 41), (FONT, 15)))?;
        x += 170;
    }
    let panels = body.split_evenly((2, 2));
    for (preset, panel) in PRESETS.iter().zip(&panels) {
        cells(figures, *preset, panel)?;
    }
    root.present()?;
    Ok(())
}

/// A cell for each size and ratio.
fn cells(figures: &[Figure], preset: Preset, panel: &Area<'_>) -> Drawn {
    let (left, top, width, height) = (90, 44, 84, 50);
    panel.draw(&Text::new(preset.name(), (left, 14), (FONT, 17)))?;
    let place = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let last = SKEWS.len() - 1;
    for f in figures
        .iter()
        .filter(|f| f.preset == preset && f.skew == last)
    {
        let (x, y) = (left + width * place(f.ratio), top + height * place(f.size));
        let corners = [(x, y), (x + width - 3, y + height - 3)];
        panel.draw(&Rectangle::new(
            corners,
            color_of(f.forecast.bound).filled(),
        ))?;
        let most = format!("{:.0}", f.forecast.writes_per_s_max / 1e6);
        panel.draw(&Text::new(most, (x + 8, y + 15), (FONT, 16)))?;
    }
    for (n, (name, _)) in SIZES.iter().enumerate() {
        let at = (18, top + height * place(n) + 16);
        panel.draw(&Text::new(*name, at, (FONT, 14)))?;
    }
    let bottom = top + height * place(SIZES.len());
    for (n, ratio) in RATIOS.iter().enumerate() {
        let at = (left + width * place(n) + 8, bottom + 4);
        panel.draw(&Text::new(number(*ratio), at, (FONT, 14)))?;
    }
    let what = "data for each byte of persistent memory";
    panel.draw(&Text::new(what, (left, bottom + 26), (FONT, 14)))?;
    Ok(())
}
