//! Room for reads and writes of jobs: no place is given twice, nobody waits beside room, and whoever is out of patience
//! has one place, whether it was given it meanwhile or not. (Loom reports a deadlock when nobody can go on.)

use std::time::Duration;

use thermocline_testkit::loom::{AtomicUsize, Ordering, SeqCst, check, thread};

use crate::budget::Budget;
use crate::sync::Arc;

/// A budget, and what jobs do with their places.
struct Device {
    budget: Budget,
    under_way: AtomicUsize,
    most: usize,
}

impl Device {
    /// One that jobs keep busy with so many at most.
    fn new(most: usize) -> Arc<Device> {
        Arc::new(Device {
            budget: Budget::default(),
            under_way: AtomicUsize::new(0),
            most,
        })
    }

    /// A read or a write, in a place that was taken.
    fn work(&self) {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        assert!(before < self.most, "{before} were under way already");
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        self.budget.leave(false);
    }

    /// A write that waits for room as long as it takes.
    fn write(&self, depth: usize) {
        self.budget.enter_within(depth, || None);
        self.work();
    }

    /// A write that has waited long enough when it begins to wait.
    fn write_impatiently(&self, depth: usize) {
        self.budget.enter_within(depth, || Some(Duration::ZERO));
        self.work();
    }

    /// A read that is made later if there is no room.
    fn read(&self, depth: usize) {
        if self.budget.enter_if_room(depth) {
            self.work();
        }
    }

    /// Nothing is left of anybody.
    fn assert_idle(&self) {
        let budget = &self.budget;
        assert_eq!(
            (budget.taken(), budget.waiting(), budget.clients()),
            (0, 0, 0)
        );
        assert!(!budget.is_awaited());
    }
}

fn spawn(device: &Arc<Device>, f: impl FnOnce(&Device) + 'static) -> thread::JoinHandle<()> {
    let device = Arc::clone(device);
    thread::spawn(move || f(&device))
}

fn check_any(name: &str, preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    check(name, Some(preemptions), SeqCst::Weaker, model);
}

#[test]
fn no_place_is_given_twice() {
    check_any("room, two writes and a read", 3, || {
        let device = Device::new(1);
        let writes = [(), ()].map(|()| spawn(&device, |device| device.write(1)));
        device.read(1);
        writes.into_iter().for_each(|write| write.join().unwrap());
        device.assert_idle();
    });
    check_any("room, three writes in two places", 2, || {
        let device = Device::new(2);
        let writes = [(), ()].map(|()| spawn(&device, |device| device.write(2)));
        device.write(2);
        writes.into_iter().for_each(|write| write.join().unwrap());
        device.assert_idle();
    });
}

/// A write waits for `clients` reads of readers, each of which ends on a thread of its own.
fn readers_make_room(clients: usize) {
    let device = Device::new(1);
    let shard = device.budget.enter_clients(clients);
    let write = spawn(&device, |device| device.write(1));
    let ends = move |device: &Device| device.budget.leave_clients(shard, 1);
    let others: Vec<_> = (1..clients).map(|_| spawn(&device, ends)).collect();
    device.budget.leave_clients(shard, 1);
    others.into_iter().for_each(|other| other.join().unwrap());
    write.join().unwrap();
    device.assert_idle();
}

/// A write waits for two readers that are counted in shards of their own. One of them begins meanwhile.
fn readers_of_two_shards_make_room() {
    let device = Device::new(1);
    let shard = device.budget.enter_clients(1);
    let other = spawn(&device, move |device| {
        let own = device.budget.enter_clients(1);
        assert_ne!(own, shard);
        device.budget.leave_clients(own, 1);
    });
    let write = spawn(&device, |device| device.write(1));
    device.budget.leave_clients(shard, 1);
    other.join().unwrap();
    write.join().unwrap();
    device.assert_idle();
}

#[test]
fn no_reader_that_ends_leaves_a_write_waiting() {
    for seq_cst in [SeqCst::FenceBefore, SeqCst::FenceAfter] {
        for clients in [1, 2] {
            let name = format!("room, a write behind {clients} readers ({seq_cst:?})");
            let model = move || readers_make_room(clients);
            check(&name, Some(3), seq_cst, model);
        }
        let name = format!("room, a write behind readers of two shards ({seq_cst:?})");
        check(&name, Some(2), seq_cst, readers_of_two_shards_make_room);
    }
}

#[test]
fn who_is_out_of_patience_has_one_place() {
    check_any("room, one without patience", 3, || {
        let device = Device::new(2);
        device.budget.enter(false);
        let impatient = spawn(&device, |device| device.write_impatiently(1));
        device.work();
        impatient.join().unwrap();
        device.assert_idle();
    });
    check_any("room, one with patience and one without", 2, || {
        let device = Device::new(2);
        device.budget.enter(false);
        let impatient = spawn(&device, |device| device.write_impatiently(1));
        let patient = spawn(&device, |device| device.write(1));
        device.work();
        impatient.join().unwrap();
        patient.join().unwrap();
        device.assert_idle();
    });
}

#[test]
fn others_wait_for_the_first() {
    check_any("room, a write behind the first", 3, || {
        let device = Device::new(1);
        device.under_way.fetch_add(1, Ordering::Relaxed);
        device.budget.enter(true);
        let write = spawn(&device, |device| device.write(8));
        device.under_way.fetch_sub(1, Ordering::Relaxed);
        device.budget.leave(true);
        write.join().unwrap();
        device.assert_idle();
    });
}
