//! Input that may have to be waited for: a pipe, or a terminal. Another thread reads it, so whoever waits for more still learns
//! that somebody wants an end.

use std::io::{Cursor, Error, ErrorKind, Read, Result};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Bytes that are read at once, at most. That is as much as a pipe holds.
const PIECE_BYTES: usize = 64 << 10;

/// How often whoever waits asks whether somebody wants an end.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// Reads what another thread reads.
pub(super) struct Piped {
    /// An empty one is the end.
    pieces: Receiver<Result<Vec<u8>>>,
    /// The last one that has come, and how far it was read.
    piece: Cursor<Vec<u8>>,
    /// Whether somebody wants an end.
    asked: fn() -> bool,
}

impl Piped {
    /// Begins to read `input`. A read that waits ends with an error once it is `asked` to. The thread may go on to wait; it ends with the
    /// process, or once there is something that nobody takes.
    ///
    /// # Errors
    /// That of the system, if there can be no more threads.
    pub fn new(input: impl Read + Send + 'static, asked: fn() -> bool) -> Result<Piped> {
        // One is read while another one is worked on.
        let (sender, pieces) = sync_channel(1);
        thread::Builder::new().spawn(move || hand_over(input, &sender))?;
        Ok(Piped {
            pieces,
            piece: Cursor::new(Vec::new()),
            asked,
        })
    }

    fn next_piece(&self) -> Result<Vec<u8>> {
        loop {
            match self.pieces.recv_timeout(ASKED_EVERY) {
                Ok(piece) => return piece,
                // The end, or an error, has come before.
                Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
                Err(RecvTimeoutError::Timeout) if (self.asked)() => {
                    return Err(Error::other("interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Read for Piped {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let bytes = self.piece.read(buffer)?;
        if bytes > 0 || buffer.is_empty() {
            return Ok(bytes);
        }
        self.piece = Cursor::new(self.next_piece()?);
        self.piece.read(buffer)
    }
}

/// Reads to the end, or to an error, as long as somebody takes it.
fn hand_over(mut input: impl Read, to: &SyncSender<Result<Vec<u8>>>) {
    loop {
        let mut piece = vec![0; PIECE_BYTES];
        let piece = match input.read(&mut piece) {
            Ok(bytes) => {
                piece.truncate(bytes);
                Ok(piece)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let goes_on = piece.as_ref().is_ok_and(|piece| !piece.is_empty());
        if to.send(piece).is_err() || !goes_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has nothing to read until the other side of it is gone.
    struct Silent(Receiver<()>);

    impl Read for Silent {
        fn read(&mut self, _: &mut [u8]) -> Result<usize> {
            let _ = self.0.recv();
            Ok(0)
        }
    }

    #[test]
    fn who_waits_for_input_learns_that_an_end_is_wanted() {
        let (writer, reader) = sync_channel(0);
        let input = Cursor::new(b"id\n1\n".to_vec()).chain(Silent(reader));
        let mut piped = Piped::new(input, || true).unwrap();
        let mut text = String::new();
        let ended = piped.read_to_string(&mut text).unwrap_err();
        assert_eq!(ended.to_string(), "interrupted");
        drop(writer);
    }

    #[test]
    fn what_is_read_comes_whole_and_in_order() {
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * PIECE_BYTES + 7).collect();
        let mut piped = Piped::new(Cursor::new(bytes.clone()), || false).unwrap();
        let mut read = Vec::new();
        piped.read_to_end(&mut read).unwrap();
        assert!(read == bytes);
        assert_eq!(piped.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn an_error_comes_behind_what_was_read_before_it() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> Result<usize> {
                Err(Error::other("the disk is gone"))
            }
        }
        let input = Cursor::new(b"1".to_vec()).chain(Broken);
        let mut piped = Piped::new(input, || false).unwrap();
        let mut read = Vec::new();
        let error = piped.read_to_end(&mut read).unwrap_err();
        assert_eq!(
            (read, error.to_string()),
            (b"1".to_vec(), "the disk is gone".to_string())
        );
    }
}
