//! Standard output, buffered. A reader that goes away ends the command quietly.

use std::io::{BufWriter, IsTerminal, Stdout, Write};

use serde_json::Value;

use crate::fail::{Failure, Outcome};

/// Where results go, and in which form.
pub(crate) struct Output {
    out: BufWriter<Stdout>,
    /// One JSON document instead of text.
    pub json: bool,
    /// No more text than asked for.
    pub quiet: bool,
}

impl Output {
    /// Standard output.
    pub fn new(json: bool, quiet: bool) -> Output {
        Output {
            out: BufWriter::with_capacity(64 << 10, std::io::stdout()),
            json,
            quiet,
        }
    }

    /// Writes bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Outcome {
        self.out.write_all(bytes).map_err(Failure::unwritten)
    }

    /// Writes a line of text.
    pub fn line(&mut self, text: &str) -> Outcome {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    /// Writes a JSON document, or a part of one, without a line's end.
    pub fn value(&mut self, value: &Value) -> Outcome {
        self.bytes(value.to_string().as_bytes())
    }

    /// Writes the one JSON document of a command.
    pub fn document(&mut self, value: &Value) -> Outcome {
        self.value(value)?;
        self.bytes(b"\n")
    }

    /// Ends a JSON document that was written piece by piece, in a list within an object, with these members behind the list: also
    /// if what was to be listed failed, and with that error as a last member then. So it is always one document, and who reads no
    /// exit codes sees that it was cut.
    pub fn end_list(&mut self, members: &str, listed: Outcome) -> Outcome {
        match listed {
            Ok(()) => self.line(&format!("],{members}}}")),
            Err(Failure::Failed(why)) => {
                let error = Value::from(why.as_str());
                // Perhaps it was this output that failed.
                let _ = self.line(&format!("],{members},\"error\":{error}}}"));
                Err(Failure::Failed(why))
            }
            Err(other) => Err(other),
        }
    }

    /// A line that says what was done: not in JSON and not when quiet.
    pub fn note(&mut self, text: &str) -> Outcome {
        if self.json || self.quiet {
            return Ok(());
        }
        self.line(text)
    }

    /// Hands everything to the reader now.
    pub fn finish(&mut self) -> Outcome {
        self.out.flush().map_err(Failure::unwritten)
    }

    /// Whether a person looks on.
    pub fn is_terminal(&self) -> bool {
        self.out.get_ref().is_terminal()
    }
}
