//! `explain -o`: the same picture as a page.
//!
//! One file that needs nothing else: no script, no font, no network. Keys run from left to right. Partitions are columns
//! of one width, whatever they hold; within a column, keys at which a table begins or ends are evenly spread. So a
//! table is as wide as it is among its neighbours, not as its bytes are many: those it tells under the pointer.
//!
//! Newer data lies above older, as reads meet it: a table of level 0 lies right below the lowest newer one that it
//! overlaps, and each deeper level is one row.

use std::fmt::Write;

use thermocline::size::format_size;
use thermocline::{FamilyMap, Metrics, TableState};
use thermocline_bench::page::text;

use super::picture::{Column, Drawing, Heat, Row};
use crate::commands::memtables;
use crate::text::{count, escape};

/// Width of the keys, in units of the drawing.
const WIDTH: f64 = 960.0;
/// Height of a row of tables, with the gap below it.
const ROW: f64 = 20.0;
const GAP: f64 = 3.0;

/// What the page says.
pub(super) struct Page<'a> {
    /// The database.
    pub title: &'a str,
    pub metrics: &'a Metrics,
    pub map: &'a [FamilyMap],
    /// What comes next, in words.
    pub next: &'a [String],
}

impl Page<'_> {
    /// All of it.
    pub fn html(&self) -> String {
        let mut html = String::new();
        let title = text(self.title);
        let _ = write!(html, "{}", HEAD.replace("TITLE", &title));
        let _ = write!(
            html,
            "<h1>{title}</h1>\n<p class=about>{}</p>\n",
            self.about()
        );
        self.next(&mut html);
        self.dram(&mut html);
        self.memtables(&mut html);
        if self.map.is_empty() {
            html.push_str("<section><h2>Tables</h2><p>There are none yet: all data is in the memtables above, or there is none.</p></section>\n");
        }
        for family in self.map {
            self.family(family, &mut html);
        }
        html.push_str("</main>\n</html>\n");
        html
    }

    fn about(&self) -> String {
        let m = self.metrics;
        let ssd: u64 = m.levels.iter().map(|level| level.bytes).sum();
        format!(
            "{} of DRAM · {} of {} of persistent memory ({}) · {} in tables on the SSD · {} in blob files",
            format_size(
                m.dram_index_bytes
                    + m.dram_tables_bytes
                    + m.dram_blocks_bytes
                    + m.dram_records_bytes
            ),
            format_size(m.pm_attached_bytes),
            format_size(m.pm_limit_bytes),
            text(m.region_kind),
            format_size(ssd),
            format_size(m.blobs.bytes),
        )
    }

    fn next(&self, html: &mut String) {
        html.push_str("<section><h2>Next</h2>\n<ul>\n");
        for sentence in self.next {
            // A key or a name in it may have colons of its own, so none is left out.
            let shown = match sentence.split_once(": ") {
                Some((what, rest)) => format!("<b>{}</b>: {}", text(what), text(rest)),
                None => text(sentence),
            };
            let _ = writeln!(html, "<li>{shown}</li>");
        }
        html.push_str("</ul></section>\n");
    }

    fn dram(&self, html: &mut String) {
        let m = self.metrics;
        let parts = [
            (
                "indexes",
                "of what lies in persistent memory",
                m.dram_index_bytes,
            ),
            (
                "open tables",
                "filters and tops of indexes",
                m.dram_tables_bytes,
            ),
            ("blocks", "cached, and buffers", m.dram_blocks_bytes),
            (
                "records",
                "of memtables that lie in DRAM",
                m.dram_records_bytes,
            ),
        ];
        budget(html, "DRAM", &parts, m.dram_limit_bytes);
    }

    fn pm(&self, html: &mut String) {
        let m = self.metrics;
        let parts = [
            (
                "written",
                "the memtable that takes the writes",
                m.pm_active_bytes,
            ),
            ("sealed", "wait to be flushed", m.pm_sealed_bytes),
            (
                "tables",
                "of level 0",
                m.pm_table_bytes.saturating_sub(m.pm_table_retired_bytes),
            ),
            (
                "dead",
                "nothing in them is alive; they go when nobody reads them, and no change feed keeps them",
                m.pm_retired_bytes + m.pm_table_retired_bytes,
            ),
        ];
        let title = match m.dram_records_bytes {
            0 => "Persistent memory",
            _ => "Records in DRAM",
        };
        budget(html, title, &parts, m.pm_limit_bytes);
    }

    fn memtables(&self, html: &mut String) {
        let m = self.metrics;
        self.pm(html);
        let mut rows = String::new();
        for (n, memtable) in m.memtables.iter().rev().enumerate() {
            let (class, state) = match (memtable.retired, memtable.sealed) {
                (true, _) => {
                    let why = memtables::why_there(m, memtable);
                    ("dead", format!("nothing in it is alive; {why}"))
                }
                (_, true) => ("sealed", "sealed: waits to be flushed".to_string()),
                _ => ("active", "takes the writes".to_string()),
            };
            let said = format!(
                "memtable {}: {state}\n{} in {}\nindex of {} in DRAM",
                memtable.id,
                count(memtable.records, "record"),
                format_size(memtable.bytes),
                format_size(memtable.index_bytes)
            );
            let name = format!("memtable {}, {}", memtable.id, format_size(memtable.bytes));
            let at = (0.0, n as f64 * ROW, WIDTH);
            block(
                &mut rows,
                at,
                &format!("memtable {class}"),
                None,
                &name,
                &said,
            );
        }
        let height = m.memtables.len() as f64 * ROW;
        html.push_str(
            "<section><h2>Memtables <small>newest first; each may have any key</small></h2>\n",
        );
        svg(html, height, &rows);
        html.push_str("</section>\n");
    }

    fn family(&self, family: &FamilyMap, html: &mut String) {
        let name = family
            .name
            .as_deref()
            .map_or("(metadata)".to_string(), text);
        let drawing = Drawing::of(family);
        let partitions = count(family.partitions.len() as u64, "partition");
        let tables = count(family.tables.len() as u64, "table");
        let _ = writeln!(
            html,
            "<section><h2>Column family {name} <small>{partitions}, {tables}{}</small></h2>",
            match drawing.partitions_a_column {
                1 => String::new(),
                n => format!("; a column is {n} partitions"),
            }
        );
        self.legend(&drawing, html);
        let mut shapes = String::new();
        let mut y = 0.0;
        for tier in [true, false] {
            let rows: Vec<&Row<'_>> = drawing
                .rows
                .iter()
                .filter(|row| row.in_pm == tier)
                .collect();
            if rows.is_empty() {
                continue;
            }
            let title = if tier { "Persistent memory" } else { "SSD" };
            let _ = writeln!(shapes, "<text class=tier x=0 y={}>{title}</text>", y + 14.0);
            y += ROW;
            let mut level = None;
            for row in rows {
                if level != Some(row.level) && !tier {
                    let _ = writeln!(
                        shapes,
                        "<text class=level x=0 y={}>level {}</text>",
                        y + 11.0,
                        row.level
                    );
                    y += 15.0;
                }
                level = Some(row.level);
                for piece in &row.pieces {
                    let at = (piece.from * WIDTH, y, (piece.to - piece.from) * WIDTH);
                    let label = format_size(piece.tables.iter().map(|t| t.bytes).sum());
                    let said = self.told(&piece.tables, row, piece.heat);
                    block(&mut shapes, at, "table", piece.heat, &label, &said);
                }
                y += ROW;
            }
            y += GAP;
        }
        let mut lines = String::new();
        columns(&drawing.columns, y, &mut lines);
        svg(html, y, &(lines + &shapes));
        html.push_str("</section>\n");
    }

    fn legend(&self, drawing: &Drawing<'_>, html: &mut String) {
        match drawing.most {
            None => html.push_str(
                "<p class=legend>Nothing is known of how often these keys are read and written: nothing was since the database was opened, \
                 nor when it was closed last.</p>\n",
            ),
            Some(most) => {
                html.push_str("<p class=legend>cold ");
                for step in 0..=8 {
                    let color = Heat(f64::from(step) / 8.0).color();
                    let _ = write!(html, "<i style=\"background:{color}\"></i>");
                }
                let _ = writeln!(
                    html,
                    " hot: up to {most:.0} reads and writes a second in a column, lately or when the database was closed</p>"
                );
            }
        }
    }

    /// What a block tells under the pointer.
    fn told(&self, tables: &[&TableState], row: &Row<'_>, heat: Option<Heat>) -> String {
        let sum = |of: fn(&TableState) -> u64| tables.iter().map(|t| of(t)).sum::<u64>();
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else {
            return String::new();
        };
        let mut said = match tables {
            [table] if row.in_pm => format!("PM table {}", table.number),
            [table] => format!("{:06}.sst", table.number),
            _ => count(tables.len() as u64, "table"),
        };
        if tables.iter().any(|table| table.is_part) {
            said.push_str(", limited to a part of the keys");
        }
        let _ = write!(
            said,
            "\nlevel {}, {}, {} of which {} deletes",
            row.level,
            format_size(sum(|t| t.bytes)),
            count(sum(|t| t.entries), "entry").replace("entrys", "entries"),
            thermocline_bench::grouped(sum(|t| t.deletes)),
        );
        let _ = write!(
            said,
            "\nfrom {} to {}",
            shown(&first.first),
            shown(&last.last)
        );
        if last.ends_before_last {
            said.push_str(", not included");
        }
        let oldest = tables.iter().map(|t| t.seqnos.0).min().unwrap_or(0);
        let newest = tables.iter().map(|t| t.seqnos.1).max().unwrap_or(0);
        let _ = write!(
            said,
            "\nage: {} to {} writes ago (of {})",
            thermocline_bench::grouped(self.metrics.seqno_visible.saturating_sub(newest)),
            thermocline_bench::grouped(self.metrics.seqno_visible.saturating_sub(oldest)),
            thermocline_bench::grouped(self.metrics.seqno_visible),
        );
        if let Some(heat) = heat {
            let _ = write!(said, "\nheat: {:.0} of 100", heat.0 * 100.0);
        }
        said
    }
}

/// A bar of what a budget is spent on.
fn budget(html: &mut String, title: &str, parts: &[(&str, &str, u64)], limit: u64) {
    let used: u64 = parts.iter().map(|(_, _, bytes)| bytes).sum();
    let _ = writeln!(
        html,
        "<section><h2>{title} <small>{} of {}</small></h2>",
        format_size(used),
        format_size(limit)
    );
    let whole = limit.max(used).max(1) as f64;
    let mut shapes = format!(
        "<rect class=whole x=0 y=0 width={WIDTH} height={} rx=3 />\n",
        ROW - GAP
    );
    let (mut x, mut legend) = (0.0, String::new());
    for (n, (name, about, bytes)) in parts.iter().enumerate() {
        if *bytes == 0 {
            continue;
        }
        let width = *bytes as f64 / whole * WIDTH;
        let said = format!("{name}: {} {about}", format_size(*bytes));
        block(
            &mut shapes,
            (x, 0.0, width),
            &format!("part p{n}"),
            None,
            name,
            &said,
        );
        let _ = write!(
            legend,
            "<span><i class=p{n}></i>{name} {} <small>{about}</small></span> ",
            format_size(*bytes)
        );
        x += width;
    }
    svg(html, ROW, &shapes);
    let _ = writeln!(html, "<p class=legend>{legend}</p></section>");
}

/// Where partitions begin.
fn columns(columns: &[Column<'_>], height: f64, shapes: &mut String) {
    for (n, column) in columns.iter().enumerate() {
        let width = WIDTH / columns.len() as f64;
        let x = n as f64 * width;
        let mut said = format!("partition from {}", shown(column.start));
        if let Some(rate) = column.rate {
            let _ = write!(
                said,
                "\n{:.0} reads, {:.0} writes and {:.0} updates a second",
                rate.reads, rate.writes, rate.updates
            );
        }
        let _ = writeln!(
            shapes,
            "<rect class=column x={x:.2} y=0 width={width:.2} height={height:.1}><title>{}</title></rect>",
            text(&said)
        );
    }
}

/// A rectangle with a name, if there is room for it, and a text under the pointer.
fn block(
    shapes: &mut String,
    (x, y, width): (f64, f64, f64),
    class: &str,
    heat: Option<Heat>,
    name: &str,
    said: &str,
) {
    let height = ROW - GAP;
    // Two that touch are told apart, and none is too narrow to be pointed at.
    let shown = (width - 1.0).max(0.8);
    let style = heat.map_or(String::new(), |heat| {
        format!(" style=\"fill:{}\"", heat.color())
    });
    let _ = write!(
        shapes,
        "<g class=\"{class}\"><title>{}</title><rect x={x:.2} y={y:.1} width={shown:.2} height={height} rx=2{style} />",
        text(said)
    );
    if width > 7.0 * name.chars().count() as f64 {
        let ink = match heat {
            Some(heat) if heat.is_dark() => " class=light",
            _ => "",
        };
        let _ = write!(
            shapes,
            "<text{ink} x={:.2} y={:.1}>{}</text>",
            x + 5.0,
            y + 12.5,
            text(name)
        );
    }
    shapes.push_str("</g>\n");
}

fn svg(html: &mut String, height: f64, shapes: &str) {
    let _ = writeln!(
        html,
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=img>\n{shapes}</svg>",
        height.max(1.0)
    );
}

/// A key for people: escaped, and not too long.
fn shown(key: &[u8]) -> String {
    /// Bytes of a key that are shown.
    const MOST: usize = 40;
    if key.is_empty() {
        return "the first key".to_string();
    }
    let mut text = String::new();
    escape(&key[..key.len().min(MOST)], &mut text);
    if key.len() > MOST {
        let _ = write!(text, "… ({} bytes)", key.len());
    }
    text
}

const HEAD: &str = include_str!("head.html");

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys like `order:42` are as common as any.
    #[test]
    fn what_comes_next_is_told_with_every_colon() {
        let next = ["slice from order:42 on: 3 MiB", "a: b: c", "none"].map(String::from);
        let page = Page {
            title: "db",
            metrics: &Metrics::default(),
            map: &[],
            next: &next,
        };
        let html = page.html();
        for said in [
            "<li><b>slice from order:42 on</b>: 3 MiB</li>",
            "<li><b>a</b>: b: c</li>",
            "<li>none</li>",
        ] {
            assert!(html.contains(said), "no '{said}' in\n{html}");
        }
    }

    /// Of 3 MiB in tables 2 are compacted and still read. Whoever counts those as tables and as dead says that 5 MiB are taken.
    #[test]
    fn tables_that_are_compacted_and_read_count_once() {
        let metrics = Metrics {
            pm_table_bytes: 3 << 20,
            pm_table_retired_bytes: 2 << 20,
            pm_limit_bytes: 8 << 20,
            ..Metrics::default()
        };
        let page = Page {
            title: "db",
            metrics: &metrics,
            map: &[],
            next: &[],
        };
        let html = page.html();
        for said in [
            "Persistent memory <small>3 MiB of 8 MiB<",
            "tables 1 MiB <",
            "dead 2 MiB <",
        ] {
            assert!(html.contains(said), "no '{said}' in\n{html}");
        }
    }
}
