//! Rows under columns, as text and as Markdown. Each row says whether it is marked.

/// Columns of their widths: the first one to the left, the others to the right, a marked row behind `>`.
pub(crate) fn aligned(header: &[String], rows: &[(Vec<String>, bool)]) -> String {
    let width = |n: usize| {
        let cells = rows.iter().map(|(row, _)| &row[n]).chain([&header[n]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    let lines = rows.iter().map(|(row, marked)| (row.as_slice(), *marked));
    for (row, marked) in [(header, false)].into_iter().chain(lines) {
        text += if marked { "> " } else { "  " };
        for (n, (cell, width)) in row.iter().zip(&widths).enumerate() {
            text += &match n {
                0 => format!("{cell:<width$}"),
                _ => format!("  {cell:>width$}"),
            };
        }
        text.push('\n');
    }
    text
}

/// A table in Markdown, marked rows in bold.
pub(crate) fn markdown(header: &[String], rows: &[(Vec<String>, bool)]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(header) + &format!("|{}\n", "---|".repeat(header.len()));
    for (row, marked) in rows {
        text += &match marked {
            true => {
                let bold: Vec<String> = row.iter().map(|cell| format!("**{cell}**")).collect();
                line(&bold)
            }
            false => line(row),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let strings = |all: [&str; 2]| all.map(String::from).to_vec();
        let header = strings(["name", "n"]);
        let rows = [
            (strings(["a", "1"]), false),
            (strings(["löng one", "1,234"]), true),
        ];
        assert_eq!(
            aligned(&header, &rows),
            "  name          n\n  a             1\n> löng one  1,234\n"
        );
        assert_eq!(
            markdown(&header, &rows),
            "| name | n |\n|---|---|\n| a | 1 |\n| **löng one** | **1,234** |\n"
        );
    }
}
