//! What the threads of the child have done, in files that outlive it.
//!
//! One file for each thread and store. Operation `n` (counted from 0 in this life of the child) has 16
//! bytes: the step at which it began, and the step at which it was acknowledged, doubled, plus one if
//! it was durable then. Each half is written by one system call, so a kill leaves it there or not.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use thermocline_testkit::history::commits::Outcome;

fn path(boards: &Path, store: usize, thread: usize) -> PathBuf {
    boards.join(format!("{store}-{thread}"))
}

/// One thread's notes about one store, as the child writes them.
#[derive(Debug)]
pub(crate) struct Notes(File);

impl Notes {
    pub fn create(boards: &Path, store: usize, thread: usize) -> Notes {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(path(boards, store, thread));
        Notes(file.unwrap())
    }

    pub fn begins(&self, n: u64, step: u64) {
        self.note(16 * n, step);
    }

    pub fn is_acknowledged(&self, n: u64, step: u64, durable: bool) {
        self.note(16 * n + 8, 2 * step + u64::from(durable));
    }

    fn note(&self, at: u64, word: u64) {
        self.0.write_all_at(&word.to_le_bytes(), at).unwrap();
    }
}

/// What a thread did in one store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noted {
    pub began: u64,
    pub outcome: Outcome,
    pub durable: bool,
}

/// Takes what a thread noted, and leaves nothing.
pub(crate) fn take(boards: &Path, store: usize, thread: usize) -> Vec<Noted> {
    let path = path(boards, store, thread);
    let Ok(bytes) = std::fs::read(&path) else {
        // The child died before the thread began.
        return Vec::new();
    };
    std::fs::remove_file(path).unwrap();
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    words
        .chunks(2)
        .map(|words| {
            let ended = words.get(1).copied().unwrap_or(0);
            Noted {
                began: words[0],
                outcome: match ended {
                    0 => Outcome::Unknown,
                    _ => Outcome::Acknowledged(ended / 2),
                },
                durable: ended % 2 == 1,
            }
        })
        .collect()
}
