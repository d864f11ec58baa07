//! One line between cache and image: what was taken down of it and is on its way.
//!
//! Invariant: a word of a write-back is *open* as long as neither it nor anything newer of that word
//! has reached the image. Write-backs are kept in the order in which they took the content down, and
//! the cache is newer than all of them; so whatever reaches the image closes that word in itself and
//! in all before it, and the image never goes back.

use crate::writer::Writer;

/// The words of a line.
pub(super) type Content = [u64; 8];

/// The words that reach the image.
pub(super) type Changes = [Option<u64>; 8];

/// What is on its way. The default is nothing.
#[derive(Debug, Default)]
pub(super) struct Line {
    write_backs: Vec<WriteBack>,
}

#[derive(Debug)]
struct WriteBack {
    writer: Writer,
    /// It sits in the buffer of its writer's processor, where no other writer's flush sees it.
    buffered: bool,
    content: Content,
    /// One bit for each word.
    open: u8,
}

impl Line {
    /// `writer` flushes the line, which has this content.
    pub fn flush(&mut self, writer: Writer, content: Content) {
        let hidden = self
            .write_backs
            .iter()
            .filter(|w| w.buffered && w.writer != writer)
            .fold(0, |words, w| words | w.open);
        self.write_backs.push(WriteBack {
            writer,
            buffered: false,
            content,
            open: !hidden,
        });
    }

    /// `writer` has stored the whole line past the cache.
    pub fn store_nt(&mut self, writer: Writer, content: Content) {
        self.write_backs.push(WriteBack {
            writer,
            buffered: true,
            content,
            open: u8::MAX,
        });
    }

    /// All that `writer` has taken down arrives.
    pub fn fence(&mut self, writer: Writer) -> Changes {
        let mut changes = Changes::default();
        for which in 0..self.write_backs.len() {
            if self.write_backs[which].writer == writer {
                self.close(which, u8::MAX, &mut changes);
            }
        }
        self.forget_closed();
        changes
    }

    /// How many write-backs are on their way.
    pub fn taken_down(&self) -> usize {
        self.write_backs.len()
    }

    /// Some `words` of the `which`-th write-back arrive early.
    pub fn arrive(&mut self, which: usize, words: u8) -> Changes {
        let mut changes = Changes::default();
        self.close(which, words, &mut changes);
        self.forget_closed();
        changes
    }

    /// Some `words` arrive as the cache holds them.
    pub fn evict(&mut self, words: u8, content: Content) -> Changes {
        for write_back in &mut self.write_backs {
            write_back.open &= !words;
        }
        self.forget_closed();
        std::array::from_fn(|i| (words >> i & 1 != 0).then_some(content[i]))
    }

    /// Whether nothing is on its way.
    pub fn is_settled(&self) -> bool {
        self.write_backs.is_empty()
    }

    fn close(&mut self, which: usize, words: u8, changes: &mut Changes) {
        let WriteBack { content, open, .. } = self.write_backs[which];
        let arriving = open & words;
        for (i, change) in changes.iter_mut().enumerate() {
            if arriving >> i & 1 != 0 {
                *change = Some(content[i]);
            }
        }
        for write_back in &mut self.write_backs[..=which] {
            write_back.open &= !arriving;
        }
    }

    fn forget_closed(&mut self) {
        self.write_backs.retain(|w| w.open != 0);
    }
}
