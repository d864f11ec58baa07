use thermocline_base::WriteBatch;

use crate::bucket::{Bucket, Joined, Request};
use crate::sync::{Arc, lock};

fn request(bytes: u64) -> Arc<Request> {
    Request::new(WriteBatch::new(), bytes)
}

#[test]
fn those_who_wait_are_taken_along_up_to_a_size() {
    let bucket = Arc::new(Bucket::default());
    let led = bucket.lead().unwrap();
    assert!(bucket.lead().is_none());
    let waiters: Vec<_> = [10, 20, 30]
        .map(|bytes| {
            let (bucket, before) = (bucket.clone(), lock(&bucket.queue).len());
            let watched = bucket.clone();
            let thread = std::thread::spawn(move || match bucket.join(&request(bytes)) {
                Joined::Done(result) => result.map(|()| 0),
                Joined::Leads(led) => {
                    let taken = led.take(100);
                    let followers = taken.requests().len();
                    taken.answer(|_| Ok(()));
                    Ok(followers)
                }
            });
            while lock(&watched.queue).len() == before {
                std::thread::yield_now();
            }
            thread
        })
        .into_iter()
        .collect();
    let taken = led.take(35);
    assert_eq!(taken.requests().len(), 2);
    taken.answer(|_| Ok(()));
    drop(led);
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
    assert!(bucket.lead().is_some(), "the bucket is free again");
}

#[test]
fn a_leader_that_dies_owes_its_followers_an_answer() {
    let bucket = Arc::new(Bucket::default());
    let led = bucket.lead().unwrap();
    let joining = bucket.clone();
    let follower = std::thread::spawn(move || match joining.join(&request(1)) {
        Joined::Done(result) => result.unwrap_err().to_string(),
        Joined::Leads(_) => "it led".into(),
    });
    while lock(&bucket.queue).is_empty() {
        std::thread::yield_now();
    }
    drop(led.take(100));
    drop(led);
    assert!(follower.join().unwrap().contains("outcome is unknown"));
    assert!(bucket.lead().is_some());
}
