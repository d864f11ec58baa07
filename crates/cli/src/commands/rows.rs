//! The rows of an input file: keys and values, or what is wrong with a line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read};

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use thermocline::limits;

use crate::args::Format;
use crate::commands::line_ends::LineEnds;
use crate::commands::quotes::Quotes;
use crate::fail::{Failure, Outcome};
use crate::interrupt;
use crate::text::{count, name_shown, names_shown};

/// The file's start that some programs write before UTF-8 text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Bytes of a row that are kept while it is read: more than a value can have, and some for spaces and line ends.
const ROW_BYTES_MAX: usize = limits::VALUE_LEN_MAX + (64 << 10);

/// Blank lines after which it is asked whether to end.
const BLANK_LINES: u64 = 1000;

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

/// What is wrong with a row of which not all was kept.
fn too_long() -> String {
    format!(
        "the row has more bytes than a value, which has at most {}",
        limits::VALUE_LEN_MAX
    )
}

/// Somebody wanted an end, though there was no row behind which that is asked.
fn interrupted() -> Failure {
    Failure::Failed("interrupted".to_string())
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
        Rows::up_to(
            (ROW_BYTES_MAX, interrupt::asked),
            input,
            name,
            (format, key),
        )
    }

    /// As [`Rows::new`]; of a row about so many bytes are kept, and reading ends once it is `asked` to.
    fn up_to(
        (row_max, asked): (usize, fn() -> bool),
        input: R,
        name: &str,
        (format, key): (Format, &[String]),
    ) -> Outcome<Rows<R>> {
        let separated = |input: R, delimiter: u8| -> Outcome<Rows<R>> {
            let input = Quotes::new(input, delimiter == b',', row_max, asked);
            let rows = Separated::new(input, name, delimiter, key)?;
            Ok(Rows::Separated(Box::new(rows)))
        };
        match format {
            Format::Csv => separated(input, b','),
            Format::Tsv => separated(input, b'\t'),
            Format::Jsonl => Ok(Rows::Lines(Lines {
                input: BufReader::with_capacity(1 << 16, input),
                name: name.to_string(),
                line: 0,
                text: Vec::new(),
                row_max,
                key: key.to_vec(),
                asked,
            })),
        }
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
    name: String,
    columns: Vec<String>,
    key: Vec<usize>,
    record: csv::ByteRecord,
}

impl<R: Read> Separated<R> {
    fn new(input: Quotes<R>, name: &str, delimiter: u8, key: &[String]) -> Outcome<Separated<R>> {
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .quoting(delimiter == b',')
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(LineEnds::new(input));
        let columns: Vec<String> = reader
            .headers()
            .map_err(|e| Failure::Failed(format!("cannot read the first line of {name}: {e}")))?
            .iter()
            .map(|column| column.trim_start_matches(BYTE_ORDER_MARK).to_string())
            .collect();
        let input = reader.get_mut().get_mut();
        if input.take_cut() {
            return Err(Failure::Failed(format!(
                "the first line of {name}: {}; mend the line",
                too_long()
            )));
        }
        if input.open_quote().is_some() {
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
                    "the first line of {name} names column '{}' twice; rename one",
                    name_shown(column)
                )));
            }
        }
        let place = |column: &String| {
            columns.iter().position(|c| c == column).ok_or_else(|| {
                Failure::Failed(format!(
                    "{name} has no column '{}'; its columns are {}",
                    name_shown(column),
                    names_shown(&columns)
                ))
            })
        };
        let key = key.iter().map(place).collect::<Outcome<Vec<usize>>>()?;
        Ok(Separated {
            reader,
            name: name.to_string(),
            columns,
            key,
            record: csv::ByteRecord::new(),
        })
    }

    fn next_row(&mut self) -> Next {
        self.reader.get_mut().get_mut().begin_row();
        let read = self.reader.read_byte_record(&mut self.record);
        let start = self.record.position().map_or(0, csv::Position::byte);
        let input = self.reader.get_mut();
        match read {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if input.get_ref().is_interrupted() => return Err(interrupted()),
            Err(why) if input.get_ref().is_too_long() => {
                return Ok(Some(Err(BadRow {
                    line: input.line_at(start),
                    what: why.to_string(),
                    takes_all: true,
                })));
            }
            Err(e) => {
                let text = format!("cannot read {}: {e}", self.name);
                return Err(Failure::Failed(text));
            }
        }
        let line = input.line_at(start);
        if input.get_mut().take_cut() {
            return Ok(Some(Err(BadRow::at(line, too_long()))));
        }
        if let Some(quote) = input.get_ref().open_quote() {
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
                .map_err(|_| format!("column '{}' is not UTF-8 text", name_shown(column)))?;
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
    /// Bytes of it that are kept, at most.
    row_max: usize,
    key: Vec<String>,
    /// Whether somebody wants an end.
    asked: fn() -> bool,
}

impl<R: Read> Lines<R> {
    fn next_row(&mut self) -> Next {
        let mut blank = 0u64;
        loop {
            let read = self
                .read_line()
                .map_err(|e| Failure::Failed(format!("cannot read {}: {e}", self.name)))?;
            let is_whole = read.ok_or_else(interrupted)?;
            if self.text.is_empty() {
                return Ok(None);
            }
            self.line += 1;
            if !is_whole {
                return Ok(Some(Err(BadRow::at(self.line, too_long()))));
            }
            if self.text.trim_ascii().is_empty() {
                blank += 1;
                // They are no rows, behind which the caller asks. There may be no end of them.
                if blank.is_multiple_of(BLANK_LINES) && (self.asked)() {
                    return Err(interrupted());
                }
                continue;
            }
            let line = self.line;
            return Ok(Some(self.row().map_err(|what| BadRow::at(line, what))));
        }
    }

    /// Reads a line into the text, which is empty behind the last one. Returns whether all of it is kept; `None` if somebody
    /// wants an end.
    fn read_line(&mut self) -> std::io::Result<Option<bool>> {
        self.text.clear();
        let most = self.row_max as u64 + 1;
        let mut kept = self.input.by_ref().take(most);
        kept.read_until(b'\n', &mut self.text)?;
        let is_whole = self.text.len() <= self.row_max || self.text.ends_with(b"\n");
        let goes_on = is_whole || self.skip_line()?;
        Ok(goes_on.then_some(is_whole))
    }

    /// Passes over the rest of a line. There may be no end of it: returns whether nobody wants one.
    fn skip_line(&mut self) -> std::io::Result<bool> {
        while !(self.asked)() {
            let piece = match self.input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                piece => piece?,
            };
            let end = piece.iter().position(|byte| *byte == b'\n');
            let (passed, is_last) = match end {
                Some(at) => (at + 1, true),
                None => (piece.len(), piece.is_empty()),
            };
            self.input.consume(passed);
            if is_last {
                return Ok(true);
            }
        }
        Ok(false)
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
            Some(Value::Null) | None => Err(format!("it has no '{}'", name_shown(column))),
            Some(_) => Err(format!(
                "'{}' is a list or an object, not a key",
                name_shown(column)
            )),
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
            "'{}' has a '/', by which the columns of the key are joined; only the last of them may have one",
            name_shown(column)
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
    let column = || name_shown(column);
    match digits {
        1.. if !is_normal => Err(format!(
            "'{}' is a number so near to 0 that a key does not keep its digits; write it as a text, in quotes",
            column()
        )),
        0..=DIGITS_MAX => Ok(number.to_string()),
        many => Err(format!(
            "'{}' is a number of {many} digits, of which a key keeps {DIGITS_MAX}; write it as a text, in quotes",
            column()
        )),
    }
}

#[cfg(test)]
mod tests;
