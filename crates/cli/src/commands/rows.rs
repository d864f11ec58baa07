//! The rows of an input file: keys and values, or what is wrong with a line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::args::Format;
use crate::commands::line_ends::LineEnds;
use crate::commands::quotes::Quotes;
use crate::fail::{Failure, Outcome};
use crate::text::count;

/// The file's start that some programs write before UTF-8 text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// One row, ready to be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub line: u64,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// A row that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadRow {
    pub line: u64,
    /// What is wrong, as words that follow "line N: ".
    pub what: String,
    /// Whether it has taken all that follows along, so that leaving it out would leave out that, too.
    pub takes_all: bool,
}

impl BadRow {
    fn at(line: u64, what: String) -> BadRow {
        BadRow {
            line,
            what,
            takes_all: false,
        }
    }
}

/// What reading the next row can answer. The outer error is of the file.
pub(crate) type Next = Outcome<Option<Result<Row, BadRow>>>;

/// Reads the rows of any format.
pub(crate) enum Rows<R> {
    Separated(Box<Separated<R>>),
    Lines(Lines<R>),
}

impl<R: Read> Rows<R> {
    /// The rows of `input`, called `name` in errors, whose keys are the columns `key`.
    pub fn new(input: R, name: &str, format: Format, key: &[String]) -> Outcome<Rows<R>> {
        Ok(match format {
            Format::Csv => Rows::Separated(Box::new(Separated::new(input, name, b',', key)?)),
            Format::Tsv => Rows::Separated(Box::new(Separated::new(input, name, b'\t', key)?)),
            Format::Jsonl => Rows::Lines(Lines {
                input: BufReader::with_capacity(1 << 16, input),
                name: name.to_string(),
                line: 0,
                text: Vec::new(),
                key: key.to_vec(),
            }),
        })
    }

    /// The next row, or what is wrong with it; `None` at the end.
    pub fn next_row(&mut self) -> Next {
        match self {
            Rows::Separated(rows) => rows.next_row(),
            Rows::Lines(rows) => rows.next_row(),
        }
    }
}

/// CSV and TSV.
pub(crate) struct Separated<R> {
    reader: csv::Reader<LineEnds<Quotes<R>>>,
    delimiter: u8,
    name: String,
    columns: Vec<String>,
    key: Vec<usize>,
    record: csv::ByteRecord,
}

impl<R: Read> Separated<R> {
    fn new(input: R, name: &str, delimiter: u8, key: &[String]) -> Outcome<Separated<R>> {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .quoting(delimiter == b',')
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(LineEnds::new(Quotes::new(input)));
        let columns: Vec<String> = reader
            .headers()
            .map_err(|e| Failure::Failed(format!("cannot read the first line of {name}: {e}")))?
            .iter()
            .map(|column| column.trim_start_matches(BYTE_ORDER_MARK).to_string())
            .collect();
        if delimiter == b',' && reader.get_ref().get_ref().open_quote().is_some() {
            return Err(Failure::Failed(format!(
                "the first line of {name} opens a quote that is never closed; mend the line"
            )));
        }
        if columns.is_empty() {
            return Err(Failure::Failed(format!(
                "{name} is empty; its first line must name the columns"
            )));
        }
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].contains(column) {
                return Err(Failure::Failed(format!(
                    "the first line of {name} names column '{column}' twice; rename one"
                )));
            }
        }
        let place = |column: &String| {
            columns.iter().position(|c| c == column).ok_or_else(|| {
                Failure::Failed(format!(
                    "{name} has no column '{column}'; its columns are {}",
                    columns.join(", ")
                ))
            })
        };
        let key = key.iter().map(place).collect::<Outcome<Vec<usize>>>()?;
        Ok(Separated {
            reader,
            delimiter,
            name: name.to_string(),
            columns,
            key,
            record: csv::ByteRecord::new(),
        })
    }

    fn next_row(&mut self) -> Next {
        let there = self
            .reader
            .read_byte_record(&mut self.record)
            .map_err(|e| Failure::Failed(format!("cannot read {}: {e}", self.name)))?;
        if !there {
            return Ok(None);
        }
        let start = self.record.position().map_or(0, csv::Position::byte);
        let input = self.reader.get_mut();
        let line = input.line_at(start);
        let unclosed = input
            .get_ref()
            .open_quote()
            .filter(|_| self.delimiter == b',');
        if let Some(quote) = unclosed {
            let what = format!(
                "a quote that is opened there is never closed, and takes {} to the end of the file along",
                count(quote.lines, "more line")
            );
            return Ok(Some(Err(BadRow {
                line,
                what,
                takes_all: true,
            })));
        }
        Ok(Some(self.row(line).map_err(|what| BadRow::at(line, what))))
    }

    fn row(&self, line: u64) -> Result<Row, String> {
        if self.record.len() != self.columns.len() {
            return Err(format!(
                "it has {}, but the first line names {}",
                count(self.record.len() as u64, "field"),
                count(self.columns.len() as u64, "column")
            ));
        }
        let mut object = Map::new();
        for (column, field) in self.columns.iter().zip(&self.record) {
            let text = std::str::from_utf8(field)
                .map_err(|_| format!("column '{column}' is not UTF-8 text"))?;
            object.insert(column.clone(), Value::from(text));
        }
        let parts = self.key.iter();
        let parts: Vec<(&str, &[u8])> = parts
            .map(|&i| (self.columns[i].as_str(), &self.record[i]))
            .collect();
        Ok(Row {
            line,
            key: joined(&parts)?,
            value: Value::Object(object).to_string().into_bytes(),
        })
    }
}

/// JSON lines.
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    name: String,
    line: u64,
    text: Vec<u8>,
    key: Vec<String>,
}

impl<R: Read> Lines<R> {
    fn next_row(&mut self) -> Next {
        loop {
            self.text.clear();
            let read = self
                .input
                .read_until(b'\n', &mut self.text)
                .map_err(|e| Failure::Failed(format!("cannot read {}: {e}", self.name)))?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.text.trim_ascii().is_empty() {
                continue;
            }
            let line = self.line;
            return Ok(Some(self.row().map_err(|what| BadRow::at(line, what))));
        }
    }

    fn row(&self) -> Result<Row, String> {
        let text = std::str::from_utf8(&self.text).map_err(|_| "it is not UTF-8 text")?;
        let text = text.trim_start_matches(BYTE_ORDER_MARK).trim();
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|e| {
            // The parser's own "at line 1 column N" would contradict the file's line.
            let what = e.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            format!("it is not a JSON object: {what} (column {})", e.column())
        })?;
        let part = |column: &String| match object.get(column) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) if number.is_f64() => decimal(column, number, text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string()),
            Some(Value::Null) | None => Err(format!("it has no '{column}'")),
            Some(_) => Err(format!("'{column}' is a list or an object, not a key")),
        };
        let parts = self.key.iter().map(part).collect::<Result<Vec<_>, _>>()?;
        let parts = self.key.iter().zip(&parts);
        let parts: Vec<(&str, &[u8])> = parts
            .map(|(column, part)| (column.as_str(), part.as_bytes()))
            .collect();
        Ok(Row {
            line: self.line,
            key: joined(&parts)?,
            value: text.as_bytes().to_vec(),
        })
    }
}

/// The key that these parts of a row make, each with its column. Only the last one may have a `/`: else the parts of two rows could
/// differ and their keys not, and one row would take the other's place.
fn joined(parts: &[(&str, &[u8])]) -> Result<Vec<u8>, String> {
    if parts.iter().all(|(_, part)| part.is_empty()) {
        return Err("the key is empty".to_string());
    }
    let ahead = parts.split_last().map_or(&[][..], |(_, ahead)| ahead);
    if let Some((column, _)) = ahead.iter().find(|(_, part)| part.contains(&b'/')) {
        return Err(format!(
            "'{column}' has a '/', by which the columns of the key are joined; only the last of them may have one"
        ));
    }
    let parts: Vec<&[u8]> = parts.iter().map(|(_, part)| *part).collect();
    Ok(parts.join(b"/".as_slice()))
}

/// Digits of which no two decimal numbers are the same binary one.
const DIGITS_MAX: usize = 15;

/// A number of the row `text` that is no integer of 64 bits, as a part of a key: as short as it can be. One with more digits than are told
/// apart is refused, since another row's might become the same key. So is one that is so near to 0 that fewer are, or none.
fn decimal(column: &str, number: &Number, text: &str) -> Result<String, String> {
    let raw: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(text).map_err(|e| e.to_string())?;
    let written = raw.get(column).map_or("", |raw| raw.get());
    let (digits, _) = written.split_once(['e', 'E']).unwrap_or((written, ""));
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_start_matches('0').len();
    let is_normal = number.as_f64().is_some_and(f64::is_normal);
    match digits {
        1.. if !is_normal => Err(format!(
            "'{column}' is a number so near to 0 that a key does not keep its digits; write it as a text, in quotes"
        )),
        0..=DIGITS_MAX => Ok(number.to_string()),
        many => Err(format!(
            "'{column}' is a number of {many} digits, of which a key keeps {DIGITS_MAX}; write it as a text, in quotes"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str, format: Format, key: &[&str]) -> Vec<Result<(u64, String, String), u64>> {
        let key: Vec<String> = key.iter().map(ToString::to_string).collect();
        let mut rows = Rows::new(text.as_bytes(), "input", format, &key).unwrap();
        let mut all = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            all.push(match row {
                Ok(row) => Ok((
                    row.line,
                    String::from_utf8(row.key).unwrap(),
                    String::from_utf8(row.value).unwrap(),
                )),
                Err(bad) => Err(bad.line),
            });
        }
        all
    }

    fn row(line: u64, key: &str, value: &str) -> Result<(u64, String, String), u64> {
        Ok((line, key.to_string(), value.to_string()))
    }

    #[test]
    fn csv_with_quotes_and_a_mark_and_bad_lines() {
        let text =
            "\u{feff}id,name\r\n1,\"a, \"\"b\"\"\"\r\n2\r\n\r\n3,\"two\nlines\"\n4,d\n,e\n5,x,y\n";
        assert_eq!(
            rows(text, Format::Csv, &["id"]),
            [
                row(2, "1", r#"{"id":"1","name":"a, \"b\""}"#),
                Err(3),
                row(5, "3", r#"{"id":"3","name":"two\nlines"}"#),
                row(7, "4", r#"{"id":"4","name":"d"}"#),
                Err(8),
                Err(9),
            ]
        );
    }

    #[test]
    fn a_quote_that_is_never_closed_is_told_where_it_begins() {
        let bad = |text: &str, format| {
            let key = ["id".to_string()];
            let mut rows = Rows::new(text.as_bytes(), "input", format, &key).unwrap();
            let mut good = 0;
            while let Some(row) = rows.next_row().unwrap() {
                match row {
                    Ok(_) => good += 1,
                    Err(bad) => return (good, Some((bad.line, bad.takes_all, bad.what))),
                }
            }
            (good, None)
        };
        let (good, found) = bad("id,name\n1,a\n2,\"b\n3,c\n4,d\n", Format::Csv);
        let (line, takes_all, what) = found.unwrap();
        assert_eq!((good, line, takes_all), (1, 3, true));
        assert!(what.contains("2 more lines"), "{what}");
        // At the end of the file, and in the first line.
        assert_eq!(bad("id,name\n1,\"", Format::Csv).1.unwrap().0, 2);
        assert_eq!(bad("id,name\n\"1,x", Format::Csv).1.unwrap().0, 2);
        // These are closed, or none.
        for text in [
            "id,n\n1,\"a\"\n",
            "id,n\n1,\"a\"",
            "id,n\n1,a\"b\n",
            "id,n\n1,\"a\"\"\"",
        ] {
            assert_eq!(bad(text, Format::Csv), (1, None), "{text:?}");
        }
        assert_eq!(bad("id\tn\n1\t\"b\n2\tc\n", Format::Tsv), (2, None));
    }

    #[test]
    fn tsv_does_not_quote_and_keys_join() {
        assert_eq!(
            rows("a\tb\nx\t\"y\n\tz\n", Format::Tsv, &["b", "a"]),
            [
                row(2, "\"y/x", r#"{"a":"x","b":"\"y"}"#),
                row(3, "z/", r#"{"a":"","b":"z"}"#),
            ]
        );
    }

    #[test]
    fn json_lines_stay_as_they_are() {
        let text = "{\"id\":1.50,\"v\":[1]}\n\n{\"id\":\"x\"}\n{\"id\":null}\n[1]\n{\"id\":[]}\n{";
        assert_eq!(
            rows(text, Format::Jsonl, &["id"]),
            [
                row(1, "1.5", "{\"id\":1.50,\"v\":[1]}"),
                row(3, "x", "{\"id\":\"x\"}"),
                Err(4),
                Err(5),
                Err(6),
                Err(7),
            ]
        );
    }

    #[test]
    fn numbers_that_are_not_told_apart_are_no_keys() {
        let text = "{\"id\":18446744073709551615}\n{\"id\":12345678901234567890123}\n\
                    {\"id\":-0.001234567890123450}\n{\"id\":1e3}\n{\"id\":\"12345678901234567890123\"}\n\
                    {\"id\":0.10000000000000000001}";
        let keys = rows(text, Format::Jsonl, &["id"]).into_iter();
        let keys: Vec<Result<String, u64>> = keys.map(|row| row.map(|row| row.1)).collect();
        let there = |key: &str| Ok(key.to_string());
        assert_eq!(
            keys,
            [
                there("18446744073709551615"),
                Err(2),
                Err(3),
                there("1000.0"),
                there("12345678901234567890123"),
                Err(6)
            ]
        );
    }

    #[test]
    fn only_the_last_column_of_a_key_may_have_what_joins_them() {
        let csv = "a,b\nx,y/z\nx/y,z\n";
        let jsonl = "{\"a\":\"x\",\"b\":\"y/z\"}\n{\"a\":\"x/y\",\"b\":\"z\"}\n";
        for (text, format, bad) in [(csv, Format::Csv, 3), (jsonl, Format::Jsonl, 2)] {
            let keys = rows(text, format, &["a", "b"]).into_iter();
            let keys: Vec<Result<String, u64>> = keys.map(|row| row.map(|row| row.1)).collect();
            assert_eq!(keys, [Ok("x/y/z".to_string()), Err(bad)]);
            let alone = rows(text, format, &["a"]);
            assert!(alone.iter().all(Result::is_ok));
        }
    }

    #[test]
    fn numbers_so_near_to_0_that_they_are_taken_for_others_are_no_keys() {
        let text = "{\"id\":1e-400}\n{\"id\":2e-400}\n{\"id\":-4e-324}\n{\"id\":0.0}\n{\"id\":0e-400}\n\
                    {\"id\":0.25}";
        let keys = rows(text, Format::Jsonl, &["id"]).into_iter();
        let keys: Vec<Result<String, u64>> = keys.map(|row| row.map(|row| row.1)).collect();
        let there = |key: &str| Ok(key.to_string());
        let expected = [
            Err(1),
            Err(2),
            Err(3),
            there("0.0"),
            there("0.0"),
            there("0.25"),
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn columns_must_be_there_and_once() {
        let open = |text: &'static str, key: &str| match Rows::new(
            text.as_bytes(),
            "f.csv",
            Format::Csv,
            &[key.to_string()],
        ) {
            Err(Failure::Failed(text)) => text,
            _ => String::new(),
        };
        assert!(open("a,b\n", "c").contains("a, b"));
        assert!(open("a,a\n", "a").contains("twice"));
        assert!(open("", "a").contains("empty"));
    }
}
