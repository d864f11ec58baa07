use std::thread::JoinHandle;

use thermocline_base::{Result, WriteBatch};

use crate::bucket::{Bucket, Joined, Request};
use crate::sync::{Arc, lock};

fn request(bytes: u64) -> Arc<Request> {
    Request::new(WriteBatch::new(), bytes)
}

/// Joins behind a leader, in a thread of its own, and is in the queue on return. One that leads takes all followers, and
/// tells how many.
fn join_behind(bucket: &Arc<Bucket>, bytes: u64) -> JoinHandle<Result<usize>> {
    let (joining, before) = (bucket.clone(), lock(&bucket.queue).len());
    let thread = std::thread::spawn(move || match joining.join(&request(bytes)) {
        Joined::Done(result) => result.map(|()| 0),
        Joined::Leads(led) => {
            let taken = led.take(100);
            let followers = taken.requests().len();
            taken.answer(|_| Ok(()));
            Ok(followers)
        }
    });
    while lock(&bucket.queue).len() == before {
        std::thread::yield_now();
    }
    thread
}

#[test]
fn those_who_wait_are_taken_along_up_to_a_size() {
    let bucket = Arc::new(Bucket::default());
    let led = bucket.lead().unwrap();
    assert!(bucket.lead().is_none());
    let waiters = [10, 20, 30].map(|bytes| join_behind(&bucket, bytes));
    let taken = led.take(35);
    assert_eq!(taken.requests().len(), 2);
    taken.answer(|_| Ok(()));
    drop(led);
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
    assert!(bucket.lead().is_some(), "the bucket is free again");
}

/// What a follower hears of a leader that has taken it and dies then.
fn after_the_death(is_granted: bool) -> Result<usize> {
    let bucket = Arc::new(Bucket::default());
    let led = bucket.lead().unwrap();
    let follower = join_behind(&bucket, 1);
    let taken = led.take(100);
    if is_granted {
        taken.granted();
    }
    drop(taken);
    drop(led);
    let heard = follower.join().unwrap();
    assert!(bucket.lead().is_some(), "the bucket is free again");
    heard
}

#[test]
fn a_leader_that_dies_owes_its_followers_an_answer() {
    let error = after_the_death(true).unwrap_err().to_string();
    assert!(error.contains("outcome is unknown"), "{error}");
}

/// They come back in the order in which they came, before those who came meanwhile, and lead themselves.
#[test]
fn followers_of_a_leader_that_dies_before_its_grant_come_back() {
    assert_eq!(after_the_death(false).unwrap(), 0);
    let bucket = Arc::new(Bucket::default());
    let led = bucket.lead().unwrap();
    let waiters = [10, 20, 30].map(|bytes| join_behind(&bucket, bytes));
    drop(led.take(35));
    let taken = led.take(100);
    let bytes = taken.requests().iter().map(|request| request.bytes);
    assert_eq!(bytes.collect::<Vec<_>>(), [10, 20, 30]);
    drop(taken);
    drop(led);
    let followers = waiters.map(|waiter| waiter.join().unwrap().unwrap());
    assert_eq!(followers, [2, 0, 0]);
}
