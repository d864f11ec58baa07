//! Draws what stores of all sizes may expect, by the model of `policy`: the pictures and the table of `docs/plan.md`.
//!
//! ```text
//! cargo run --release -p thermocline-reproduce --features examples --example plan -- docs/plan
//! ```
//!
//! It takes some minutes. The pictures are the same in every run.

mod draw;
mod figures;

use std::error::Error;
use std::path::PathBuf;

use figures::{Figure, RATIOS, SIZES, SKEWS, all};
use thermocline_base::options::Preset;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or("docs/plan".into());
    let folder = PathBuf::from(folder);
    if !folder.is_dir() {
        // Said before it takes minutes.
        return Err(format!("{} is no folder", folder.display()).into());
    }
    let figures = all();
    table(&figures);
    let amplification = |figure: &Figure| figure.forecast.write_amplification;
    draw::Lines {
        title: "Write amplification",
        y: "bytes of tables on the SSD for each byte written",
        range: (0.1, 1000.0),
        of: &amplification,
    }
    .draw(&figures, &folder.join("amplification.svg"))?;
    let resident = |figure: &Figure| 100.0 * figure.forecast.ideal.resident_writes;
    draw::Lines {
        title: "Resident share, weighed by how often keys are written",
        y: "% found in persistent memory or memtables",
        range: (0.01, 100.0),
        of: &resident,
    }
    .draw(&figures, &folder.join("resident.svg"))?;
    let wait = |figure: &Figure| figure.wait_ms.max(0.01);
    draw::Lines {
        title: "Longest wait at 70 % of what device and processors carry",
        y: "ms for a write of 16 KiB (0.01 is none)",
        range: (0.01, 1e5),
        of: &wait,
    }
    .draw(&figures, &folder.join("delay.svg"))?;
    draw::limits(&figures, &folder.join("limits.svg"))?;
    Ok(())
}

/// The figures as a table, for the page.
fn table(figures: &[Figure]) {
    println!(
        "| preset | data | data/PM | skew | write amplification | resident | wait at 70 % | most | limit |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for figure in figures {
        let forecast = &figure.forecast;
        println!(
            "| {} | {} | {} | {} | {:.1} | {:.1} % | {:.1} ms | {:.0} MB/s | {} |",
            figure.preset.name(),
            SIZES[figure.size].0,
            RATIOS[figure.ratio],
            SKEWS[figure.skew],
            forecast.write_amplification,
            100.0 * forecast.ideal.resident_writes,
            figure.wait_ms,
            forecast.writes_per_s_max / 1e6,
            forecast.bound.name(),
        );
    }
}

/// Those that are drawn.
const PRESETS: [Preset; 4] = [
    Preset::Thermocline,
    Preset::GlobalIndex,
    Preset::PmBlade,
    Preset::Leveled,
];
