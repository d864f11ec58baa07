//! How the tour talks: chapters, indented sentences, a table at the end.

use serde_json::{Map, Value};

use crate::fail::Outcome;
use crate::output::Output;

/// Width of a line of text.
const WIDTH: usize = 88;

/// The narrator. In JSON it stays silent and prints what was measured at the end.
pub(crate) struct Story<'a> {
    pub output: &'a mut Output,
    bold: bool,
    chapter: u32,
    measured: Vec<(String, String)>,
    values: Map<String, Value>,
}

impl<'a> Story<'a> {
    /// A narrator on `output`.
    pub fn new(output: &'a mut Output) -> Story<'a> {
        Story {
            bold: output.is_terminal() && std::env::var_os("NO_COLOR").is_none(),
            output,
            chapter: 0,
            measured: Vec::new(),
            values: Map::new(),
        }
    }

    /// A title.
    pub fn title(&mut self, text: &str) -> Outcome {
        let text = if self.bold {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_string()
        };
        self.output.note(&text)?;
        self.output.finish()
    }

    /// Begins a chapter.
    pub fn chapter(&mut self, name: &str) -> Outcome {
        self.chapter += 1;
        self.output.note("")?;
        self.title(&format!("{}  {name}", self.chapter))
    }

    /// A paragraph, wrapped.
    pub fn say(&mut self, text: &str) -> Outcome {
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + word.chars().count() + 4 > WIDTH {
                self.output.note(&format!("   {line}"))?;
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.output.note(&format!("   {line}"))?;
        self.output.finish()
    }

    /// A line as it is, further in.
    pub fn show(&mut self, text: &str) -> Outcome {
        self.output.note(&format!("     {text}"))?;
        self.output.finish()
    }

    /// Remembers a row of the final table, and its value by a name for JSON.
    pub fn measure(&mut self, label: &str, text: String, name: &str, value: impl Into<Value>) {
        self.measured.push((label.to_string(), text));
        self.values.insert(name.to_string(), value.into());
    }

    /// Remembers a value for JSON only.
    pub fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.values.insert(name.to_string(), value.into());
    }

    /// Prints what was measured.
    pub fn end(&mut self) -> Outcome {
        if self.output.json {
            let document = Value::Object(std::mem::take(&mut self.values));
            return self.output.document(&document);
        }
        self.output.note("")?;
        self.title("What was measured")?;
        for (label, text) in std::mem::take(&mut self.measured) {
            self.output.line(&format!("   {label:<34} {text}"))?;
        }
        self.output.finish()
    }
}
