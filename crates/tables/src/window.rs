//! How much a cursor reads ahead.
//!
//! How long the first piece is, with what the cursor was placed at, is a guess by how far cursors lately went from a place on
//! ([`Habit`](crate::habit::Habit)): somewhat more than that. Each piece after that is four times as long as the one before, up to
//! `read.ahead_bytes`.

use thermocline_policy::tuning::{PIECE_EXPECTED_PARTS, PIECE_GROWTH};

/// See the [module](self). All in bytes.
#[derive(Debug, Default)]
pub struct Window {
    /// Passed on its way so far, with what it stands at.
    gone: u64,
    /// What it is expected to pass from its place on.
    expected: u64,
    /// Length of the last piece.
    last: u64,
}

impl Window {
    /// Of a cursor that was placed, and is expected to pass so much.
    pub fn new(expected: u64) -> Window {
        Window {
            gone: 0,
            expected,
            last: 0,
        }
    }

    /// It goes on by so much.
    pub fn go_on(&mut self, bytes: u64) {
        self.gone += bytes;
    }

    /// It has gone elsewhere, where so much lies on its way, and nothing is expected.
    pub fn begin_anew(&mut self, gone: u64) {
        *self = Window {
            gone,
            ..Window::default()
        };
    }

    /// What it has passed.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// How long a piece is to be that begins with the `len` bytes at which it stands; at most `most`.
    pub fn next_piece(&mut self, len: u64, most: u64) -> u64 {
        let before = self.gone - len.min(self.gone);
        let expected = self.expected.saturating_sub(before);
        let grown = match before {
            0 => 0,
            _ => self.last.max(len) * PIECE_GROWTH,
        };
        let piece = grown.max(expected).min(most);
        // What was expected and was too little is not multiplied at once.
        self.last = match grown >= expected {
            true => piece,
            false => piece / PIECE_EXPECTED_PARTS,
        };
        piece
    }
}
