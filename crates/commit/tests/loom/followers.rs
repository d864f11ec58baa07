//! Leaders and followers: every request is written once, and answered.
//!
//! Seen to fail on: a lead that is made and dropped where none was won (`then_some`); a lead that does not
//! acquire, or is left without a release; a next leader that is not told; a bucket left free or unmarked
//! while somebody waits; a leader that forgets those it could not take, or took and does not write.

use thermocline_base::{Result, WriteBatch};

use crate::bucket::{Bucket, Joined, Led, Request};
use crate::check_any;
use crate::sync::{Arc, AtomicU64, Ordering, thread};

/// A bucket, and how often each thread's request was written.
struct Store {
    bucket: Bucket,
    written: [AtomicU64; 3],
    leading: AtomicU64,
    /// Most bytes that a leader takes along.
    bytes_max: u64,
}

impl Store {
    fn new(bytes_max: u64) -> Arc<Store> {
        Arc::new(Store {
            bytes_max,
            bucket: Bucket::default(),
            written: std::array::from_fn(|_| AtomicU64::new(0)),
            leading: AtomicU64::new(0),
        })
    }

    /// The engine's way of a durable write. A request is known by its bytes.
    fn commit(&self, number: usize) -> Result<()> {
        if let Some(led) = self.bucket.lead() {
            return self.lead(number, &led);
        }
        let request = Request::new(WriteBatch::new(), number as u64);
        match self.bucket.join(&request) {
            Joined::Done(result) => result,
            Joined::Leads(led) => self.lead(number, &led),
        }
    }

    fn lead(&self, number: usize, led: &Led<'_>) -> Result<()> {
        let before = self.leading.load(Ordering::Relaxed);
        assert_eq!(before, 0, "two lead");
        self.leading.store(1, Ordering::Relaxed);
        self.write(number);
        let taken = led.take(self.bytes_max);
        for request in taken.requests() {
            self.write(usize::try_from(request.bytes).unwrap());
        }
        taken.answer(|_| Ok(()));
        self.leading.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn write(&self, number: usize) {
        let written = self.written[number].load(Ordering::Relaxed);
        self.written[number].store(written + 1, Ordering::Relaxed);
    }

    /// Whoever was answered was written, and knows it.
    fn commit_and_look(&self, number: usize) {
        self.commit(number).unwrap();
        assert_eq!(self.written[number].load(Ordering::Relaxed), 1);
    }
}

fn run(threads: usize, bytes_max: u64) {
    let store = Store::new(bytes_max);
    let others: Vec<_> = (1..threads)
        .map(|number| {
            let store = Arc::clone(&store);
            thread::spawn(move || store.commit_and_look(number))
        })
        .collect();
    store.commit_and_look(0);
    others.into_iter().for_each(|other| other.join().unwrap());
    assert!(store.bucket.lead().is_some(), "the bucket is free again");
}

#[test]
fn two_writers_of_one_bucket() {
    check_any("bucket, two writers", 3, || run(2, 100));
}

#[test]
fn three_writers_of_one_bucket() {
    check_any("bucket, three writers", 2, || run(3, 100));
}

#[test]
fn a_leader_that_cannot_take_all() {
    check_any("bucket, three writers, one at a time", 2, || run(3, 2));
}

#[test]
fn a_leader_that_dies_leaves_nobody_waiting() {
    check_any("bucket, a leader dies", 3, || {
        let store = Store::new(100);
        let follower = {
            let store = Arc::clone(&store);
            thread::spawn(move || store.commit_and_look(1))
        };
        if let Some(led) = store.bucket.lead() {
            drop(led.take(100));
        }
        follower.join().unwrap();
        assert!(store.bucket.lead().is_some(), "the bucket is free again");
    });
}
