use std::pin::Pin;
use std::task::{Context, Wake};

use thermocline_env::real::RealStorage;
use thermocline_env::{File, OpenMode, Storage};

use super::*;
use crate::prepared::Wanted;
use crate::promise::{Pending, promise, wait_for};
use crate::range::RangeBuf;
use crate::under_way::UnderWay;

/// A read of all of a file.
fn order_of(file: &Arc<dyn File>) -> (Order, Pending<Result<RangeBuf>>) {
    let (promise, pending) = promise();
    let wanted = Wanted {
        file: file.clone(),
        offset: 0,
        len: 4,
        _held: UnderWay::default().hold(),
    };
    ((wanted, promise), pending)
}

/// What the thread has before it begins, and a file to be read. The system may refuse the ring.
fn polling() -> Option<(Polling, Arc<dyn File>, tempfile::TempDir)> {
    let with = (BufPool::new(0), Arc::new(Helpers::named("test")));
    let refusal = Arc::new(Refusal::none());
    let made = Polling::new(AsyncIo::Interrupt, with, &refusal, |_| true);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let file = RealStorage::new().open(&path, OpenMode::CreateNew).unwrap();
    file.write_at(b"some", 0).unwrap();
    Some((made.ok()?, file, folder))
}

/// Who rings while there is no room wakes the thread for nothing, with a system call, for each read that he brings.
#[test]
fn nobody_rings_where_there_is_no_room_and_all_are_answered() {
    let Some((mut polling, file, _folder)) = polling() else {
        return;
    };
    let shared = polling.shared.clone();
    let is_heard = || lock(&shared.queue).sleep == Sleep::InKernel;
    let mut pending = Vec::new();
    for _ in 0..FLIGHTS_MAX {
        assert!(polling.may_sleep() && is_heard());
        lock(&shared.queue).sleep = Sleep::Awake;
        let (order, answer) = order_of(&file);
        polling.launch(order);
        pending.push(answer);
    }
    assert!(polling.may_sleep() && !is_heard());
    let poller = Poller(shared.clone());
    let (order, answer) = order_of(&file);
    poller.read(order);
    pending.push(answer);
    assert!(polling.may_sleep() && !is_heard());
    poller.stop();
    polling.poll();
    for answer in pending {
        assert_eq!(wait_for(answer).unwrap().unwrap()[..], b"some"[..]);
    }
}

/// A task, which counts how often it is woken.
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn task() -> (Arc<Task>, Waker) {
    let task = Arc::new(Task(AtomicUsize::new(0)));
    (task.clone(), Waker::from(task))
}

#[test]
fn answers_that_follow_each_other_wake_their_task_once() {
    let ((one, of_one), (other, of_other)) = (task(), task());
    let woken = || [&one, &other].map(|task| task.0.load(Ordering::Relaxed));
    let mut wakes = Wakes::default();
    for waker in [&of_one, &of_one, &of_one, &of_other, &of_other, &of_one] {
        wakes.add(waker.clone());
    }
    assert_eq!(woken(), [1, 1]);
    drop(wakes);
    assert_eq!(woken(), [2, 1]);
}

/// A task that awaits many reads together is polled once for those that are done together.
#[test]
fn reads_that_are_done_together_wake_their_task_once() {
    let Some((mut polling, file, _folder)) = polling() else {
        return;
    };
    let (task, waker) = task();
    let mut pending = Vec::new();
    for _ in 0..8 {
        let (order, mut answer) = order_of(&file);
        let asked = Pin::new(&mut answer).poll(&mut Context::from_waker(&waker));
        assert!(asked.is_pending());
        polling.launch(order);
        pending.push(answer);
    }
    polling.give_up_on(Flights::enable);
    let mut together = Vec::new();
    while polling.under_way() > 0 {
        polling.give_up_on(Flights::submit_and_wait);
        together.push(polling.reap());
    }
    let some = together.iter().filter(|reads| **reads > 0).count();
    assert_eq!(task.0.load(Ordering::Relaxed), some, "{together:?}");
    Poller(polling.shared.clone()).stop();
    polling.poll();
    for answer in pending {
        assert_eq!(wait_for(answer).unwrap().unwrap()[..], b"some"[..]);
    }
}
