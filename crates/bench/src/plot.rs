//! Pictures on pages, as SVG.

use plotters::coord::Shift;
use plotters::prelude::*;
use thermocline::{Error, Result};

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
