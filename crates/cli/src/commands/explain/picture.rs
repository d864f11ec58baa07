//! Where on the page each table lies.
//!
//! # Places
//! The keys at which a column or a table begins are the *spots*, in order; a table reaches from the spot of its first key
//! to the first spot behind its last one. So two tables overlap on the page exactly where their keys do: between two
//! spots none begins. Columns are of one width, and spots are evenly spread within theirs.

use std::collections::BTreeMap;

use thermocline::{FamilyMap, PartitionRate, TableState};

/// Most columns; with more partitions each column is several of them.
const COLUMNS_MAX: usize = 64;

/// Blocks that are narrower, as a part of the page's width, are drawn as one with their neighbours.
const NARROW: f64 = 1.0 / 320.0;

/// How busy something is, from 0 to 1: the root of its rate, as a part of that of the busiest column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Heat(pub f64);

impl Heat {
    /// From deep blue over green to red, as in water.
    const COLORS: [[f64; 3]; 5] = [
        [38.0, 70.0, 120.0],
        [42.0, 125.0, 160.0],
        [96.0, 180.0, 150.0],
        [244.0, 190.0, 90.0],
        [218.0, 72.0, 48.0],
    ];

    fn rgb(self) -> [f64; 3] {
        let steps = (Self::COLORS.len() - 1) as f64;
        let at = self.0.clamp(0.0, 1.0) * steps;
        let mut color = Self::COLORS[0];
        for (n, two) in Self::COLORS.windows(2).enumerate() {
            let part = at - n as f64;
            if part >= 0.0 {
                let part = part.min(1.0);
                color = std::array::from_fn(|i| two[0][i] + (two[1][i] - two[0][i]) * part);
            }
        }
        color
    }

    /// As in a style sheet.
    pub fn color(self) -> String {
        let [r, g, b] = self.rgb();
        format!("rgb({r:.0},{g:.0},{b:.0})")
    }

    /// Whether text on it should be light.
    pub fn is_dark(self) -> bool {
        let [r, g, b] = self.rgb();
        0.3 * r + 0.6 * g + 0.1 * b < 140.0
    }
}

/// Operations a second.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Rate {
    pub reads: f64,
    pub writes: f64,
    pub updates: f64,
}

impl Rate {
    fn all(&self) -> f64 {
        self.reads + self.writes
    }
}

/// One partition, or several that lie side by side.
#[derive(Debug)]
pub(super) struct Column<'a> {
    pub start: &'a [u8],
    /// Of all of them; `None` if nothing is known.
    pub rate: Option<Rate>,
}

/// Tables that do not overlap, side by side.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub in_pm: bool,
    pub level: u8,
    pub pieces: Vec<Piece<'a>>,
}

/// A table, or several that would be too narrow, in the order of keys.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    pub tables: Vec<&'a TableState>,
    /// From 0 to 1, as the page goes from left to right.
    pub from: f64,
    pub to: f64,
    pub heat: Option<Heat>,
}

/// A family's picture.
#[derive(Debug)]
pub(super) struct Drawing<'a> {
    pub columns: Vec<Column<'a>>,
    pub partitions_a_column: usize,
    /// The busiest column's reads and writes a second, if there were any.
    pub most: Option<f64>,
    /// From above to below: those in persistent memory, and those on the SSD, come in the order of reads.
    pub rows: Vec<Row<'a>>,
}

impl<'a> Drawing<'a> {
    pub fn of(family: &'a FamilyMap) -> Drawing<'a> {
        let partitions_a_column = family.partitions.len().div_ceil(COLUMNS_MAX).max(1);
        let columns = columns(family, partitions_a_column);
        let all = columns.iter().filter_map(|column| column.rate);
        let most = all.map(|rate| rate.all()).fold(0.0, f64::max);
        let spots = Spots::of(&columns, family);
        let mut rows = rows(family, &spots);
        for piece in rows.iter_mut().flat_map(|row| &mut row.pieces) {
            piece.heat = heat(&columns, most, piece);
        }
        Drawing {
            columns,
            partitions_a_column,
            most: (most > 0.0).then_some(most),
            rows,
        }
    }
}

fn columns(family: &FamilyMap, partitions_a_column: usize) -> Vec<Column<'_>> {
    let starts = family.partitions.iter().step_by(partitions_a_column);
    let mut columns: Vec<Column<'_>> = starts.map(|start| Column { start, rate: None }).collect();
    for PartitionRate {
        start,
        reads,
        writes,
        updates,
    } in &family.rates
    {
        let behind = columns.partition_point(|column| *column.start <= **start);
        if let Some(column) = behind.checked_sub(1).and_then(|n| columns.get_mut(n)) {
            let rate = column.rate.get_or_insert_default();
            rate.reads += reads;
            rate.writes += writes;
            rate.updates += updates;
        }
    }
    columns
}

/// See the [module](self).
struct Spots<'a> {
    /// Each with where it lies, ascending.
    spots: Vec<(&'a [u8], f64)>,
}

impl<'a> Spots<'a> {
    fn of(columns: &[Column<'a>], family: &'a FamilyMap) -> Spots<'a> {
        let firsts = family.tables.iter().map(|table| &table.first[..]);
        let ends = family.tables.iter().filter(|table| table.ends_before_last);
        let keys = firsts.chain(ends.map(|table| &table.last[..]));
        let mut keys: Vec<&[u8]> = keys
            .chain(columns.iter().map(|column| column.start))
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let mut spots = Vec::with_capacity(keys.len());
        let mut rest = &keys[..];
        for (n, column) in columns.iter().enumerate() {
            // The first column begins with the empty key.
            let next = columns.get(n + 1).map(|next| next.start);
            let len = next.map_or(rest.len(), |next| rest.partition_point(|key| *key < next));
            let (within, behind) = rest.split_at(len);
            rest = behind;
            debug_assert!(within.first().is_none_or(|key| *key == column.start));
            // What begins the column takes no room of its own where a table begins later.
            let extra = usize::from(within.len() > 1 && !begins_at(family, column.start));
            let room = (within.len() - extra).max(1) as f64;
            let place = |(i, key): (usize, &&'a [u8])| {
                let within = i.saturating_sub(extra) as f64 / room;
                (*key, (n as f64 + within) / columns.len() as f64)
            };
            spots.extend(within.iter().enumerate().map(place));
        }
        Spots { spots }
    }

    /// From which spot to which one a table reaches.
    fn span(&self, table: &TableState) -> (usize, usize) {
        let from = self.spots.partition_point(|(key, _)| **key < *table.first);
        let to = self
            .spots
            .partition_point(|(key, _)| match table.ends_before_last {
                true => **key < *table.last,
                false => **key <= *table.last,
            });
        (from, to.max(from + 1))
    }

    fn place(&self, spot: usize) -> f64 {
        self.spots.get(spot).map_or(1.0, |(_, place)| *place)
    }
}

fn begins_at(family: &FamilyMap, key: &[u8]) -> bool {
    family.tables.iter().any(|table| table.first == key)
}

/// Tables, newest first, each as high as those that are newer let it.
fn rows<'a>(family: &'a FamilyMap, spots: &Spots<'_>) -> Vec<Row<'a>> {
    /// What a row has: by the first spot, the one behind, and the table.
    type Spans<'a> = BTreeMap<usize, (usize, &'a TableState)>;
    let mut rows: BTreeMap<(bool, u8), Vec<Spans<'a>>> = BTreeMap::new();
    for table in &family.tables {
        let (from, to) = spots.span(table);
        // Persistent memory comes first.
        let of_level = rows.entry((!table.in_pm, table.level)).or_default();
        let meets = |row: &Spans<'_>| {
            let before = row.range(..to).next_back();
            before.is_some_and(|(_, (end, _))| *end > from)
        };
        let row = of_level.iter().rposition(meets).map_or(0, |row| row + 1);
        if row == of_level.len() {
            of_level.push(Spans::new());
        }
        of_level[row].insert(from, (to, table));
    }
    let rows = rows.into_iter().flat_map(|((on_ssd, level), rows)| {
        rows.into_iter().map(move |row| {
            let pieces = row.into_iter().map(|(from, (to, table))| Piece {
                tables: vec![table],
                from: spots.place(from),
                to: spots.place(to),
                heat: None,
            });
            Row {
                in_pm: !on_ssd,
                level,
                pieces: wide(pieces),
            }
        })
    });
    rows.collect()
}

/// The same with narrow ones joined.
fn wide<'a>(pieces: impl Iterator<Item = Piece<'a>>) -> Vec<Piece<'a>> {
    let mut wide: Vec<Piece<'a>> = Vec::new();
    for piece in pieces {
        match wide.last_mut() {
            Some(last) if last.to - last.from < NARROW && piece.to - last.from < 2.0 * NARROW => {
                last.tables.extend(piece.tables);
                last.to = piece.to;
            }
            _ => wide.push(piece),
        }
    }
    wide
}

/// That of the columns over which it lies, each by how much of it that is.
fn heat(columns: &[Column<'_>], most: f64, piece: &Piece<'_>) -> Option<Heat> {
    if most <= 0.0 {
        return None;
    }
    let width = 1.0 / columns.len() as f64;
    let over = columns.iter().enumerate().map(|(n, column)| {
        let (from, to) = (n as f64 * width, (n + 1) as f64 * width);
        let part = (piece.to.min(to) - piece.from.max(from)).max(0.0);
        part * column.rate.map_or(0.0, |rate| rate.all())
    });
    let rate = over.sum::<f64>() / (piece.to - piece.from).max(f64::MIN_POSITIVE);
    Some(Heat((rate / most).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(number: u64, level: u8, in_pm: bool, first: &str, last: &str) -> TableState {
        TableState {
            number,
            level,
            in_pm,
            first: first.into(),
            last: last.into(),
            ends_before_last: false,
            is_part: false,
            bytes: 1,
            entries: 1,
            deletes: 0,
            seqnos: (1, 2),
        }
    }

    fn family(partitions: &[&str], tables: Vec<TableState>) -> FamilyMap {
        FamilyMap {
            family: 0,
            name: Some("default".into()),
            partitions: partitions
                .iter()
                .map(|start| start.as_bytes().to_vec())
                .collect(),
            rates: Vec::new(),
            tables,
        }
    }

    /// Of each row: whether it is in persistent memory, its level, and its tables with their places in hundredths.
    fn drawn(family: &FamilyMap) -> Vec<String> {
        let rows = Drawing::of(family).rows;
        let row = |row: Row<'_>| {
            let pieces = row.pieces.iter().map(|piece| {
                let numbers: Vec<String> =
                    piece.tables.iter().map(|t| t.number.to_string()).collect();
                format!(
                    "{}@{:.0}-{:.0}",
                    numbers.join("+"),
                    piece.from * 100.0,
                    piece.to * 100.0
                )
            });
            let tier = if row.in_pm { "pm" } else { "ssd" };
            format!(
                "{tier}{} {}",
                row.level,
                pieces.collect::<Vec<_>>().join(" ")
            )
        };
        rows.into_iter().map(row).collect()
    }

    #[test]
    fn tables_lie_below_newer_ones_that_they_overlap_and_as_wide_as_their_keys() {
        let tables = vec![
            table(9, 0, false, "a", "f"),
            table(8, 0, true, "m", "z"),
            table(7, 0, true, "a", "c"),
            table(6, 0, true, "b", "m"),
            table(5, 1, false, "a", "c"),
            table(4, 1, false, "d", "m"),
        ];
        // Spots: a, b, d, m.
        assert_eq!(
            drawn(&family(&[""], tables)),
            [
                "pm0 7@0-50 8@75-100",
                "pm0 6@25-100",
                "ssd0 9@0-75",
                "ssd1 5@0-50 4@50-100"
            ]
        );
    }

    #[test]
    fn columns_have_one_width_and_limits_are_spots() {
        let mut part = table(2, 1, false, "a", "k");
        part.ends_before_last = true;
        let tables = vec![
            part,
            table(3, 1, false, "k", "p"),
            table(4, 1, false, "t", "u"),
        ];
        assert_eq!(
            drawn(&family(&["", "k", "s"], tables)),
            ["ssd1 2@0-33 3@33-67 4@67-100"]
        );
        // Without a table a column has nothing, and nothing is nothing.
        assert_eq!(drawn(&family(&["", "k"], vec![])), [""; 0]);
        let one = vec![table(1, 2, false, "", "")];
        assert_eq!(drawn(&family(&["", "k"], one)), ["ssd2 1@0-50"]);
    }

    #[test]
    fn thousands_of_tables_and_partitions_are_drawn_as_some() {
        let key = |n: u64| format!("{n:05}");
        let tables = (0..9_000).map(|n| table(n, 1, false, &key(n * 2), &key(n * 2 + 1)));
        let starts: Vec<String> = std::iter::once(String::new())
            .chain((1..9_000).map(|n| key(n * 2)))
            .collect();
        let starts: Vec<&str> = starts.iter().map(String::as_str).collect();
        let family = family(&starts, tables.collect());
        let drawing = Drawing::of(&family);
        assert_eq!(
            (drawing.columns.len(), drawing.partitions_a_column),
            (64, 141)
        );
        let [row] = &drawing.rows[..] else {
            panic!("{:?}", drawing.rows.len());
        };
        assert!(
            (200..700).contains(&row.pieces.len()),
            "{}",
            row.pieces.len()
        );
        let tables: usize = row.pieces.iter().map(|piece| piece.tables.len()).sum();
        assert_eq!(tables, 9_000);
        assert!(
            row.pieces
                .windows(2)
                .all(|two| two[0].to <= two[1].from + 1e-9)
        );
    }

    #[test]
    fn heat_is_that_of_the_columns_below_a_table() {
        let mut family = family(
            &["", "k"],
            vec![
                table(1, 1, false, "a", "b"),
                table(2, 1, false, "k", "l"),
                table(3, 2, false, "a", "l"),
            ],
        );
        let heat = |family: &FamilyMap| -> Vec<Option<Heat>> {
            let rows = Drawing::of(family).rows;
            rows.iter()
                .flat_map(|row| &row.pieces)
                .map(|piece| piece.heat)
                .collect()
        };
        assert_eq!(heat(&family), [None; 3]);
        family.rates = vec![PartitionRate {
            start: b"k".to_vec(),
            reads: 900.0,
            writes: 99.0,
            updates: 0.0,
        }];
        let [Some(cold), Some(hot), Some(both)] = heat(&family)[..] else {
            panic!("all are known");
        };
        assert_eq!((cold, hot), (Heat(0.0), Heat(1.0)));
        assert!((0.70..0.71).contains(&both.0), "{both:?}");
        assert_eq!(cold.color(), "rgb(38,70,120)");
        assert_eq!(hot.color(), "rgb(218,72,48)");
        assert!(cold.is_dark() && !Heat(0.75).is_dark());
    }
}
