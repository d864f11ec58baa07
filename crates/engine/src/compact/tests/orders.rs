//! Jobs that run side by side and end in every order, while the machine may stop: at each moment between two ends everything is
//! there, and of jobs that have not ended nothing is left.
//!
//! Explorations of crashes run one job after the other, and threads in random orders seldom meet these moments. Here each job
//! waits at a gate before the first sync of a table of its own, and the test opens the gates one by one.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, Sender, channel};

use thermocline_base::{CfOptions, Site, Steps};
use thermocline_env::File;
use thermocline_env::hooks::{Hooked, Hooks};
use thermocline_sst::sites::TABLE_WRITTEN;

use super::faults::files;
use super::*;

const ROUNDS: u8 = 6;

const KEYS: u8 = 50;

const ORDERS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// Where a job waits.
struct Gate {
    arrives: Sender<()>,
    opens: Receiver<()>,
}

thread_local! {
    /// Of the job of this thread, until it comes by.
    static GATE: Cell<Option<Gate>> = const { Cell::new(None) };
}

/// A store without threads of its own makes the syncs of a job on the thread of the job.
#[derive(Debug)]
struct Gates;

impl Hooks for Gates {
    fn sync(&self, file: &dyn File, site: Site) -> thermocline_base::Result<()> {
        if site == TABLE_WRITTEN
            && let Some(Gate { arrives, opens }) = GATE.take()
        {
            arrives.send(()).unwrap();
            // The test then waits for those alone that have not come by.
            drop(arrives);
            opens.recv().unwrap();
        }
        file.sync(site)
    }
}

/// What a killed process leaves now, and what a power cut does.
fn left(machine: &Machine) -> Vec<World> {
    let pm = machine.world().sim.expect("it is simulated");
    let world = |fs, sim| World {
        env: Env::simulated(fs, 8),
        sim: Some(sim),
        shadow: None,
        background: false,
    };
    let killed = world(machine.fs.image_killed(Steps::new()), pm.fork(Steps::new()));
    let cut = |how: usize| {
        let fs = match how {
            0 => machine.fs.image_none(Steps::new()),
            1 => machine.fs.image_all(Steps::new()),
            _ => machine.fs.image_random(3, Steps::new()),
        };
        let mut rng = Rng::new(5);
        let image = pm.crash();
        let sim = image.build(PM, Steps::new(), |_, word| match how {
            0 => 0,
            1 => word.candidates.len() - 1,
            _ => rng.below(word.candidates.len()),
        });
        world(fs, sim)
    };
    [killed].into_iter().chain((0..3).map(cut)).collect()
}

/// Each key has what was written last, in all families.
fn check(engine: &Engine, families: &[CfId]) {
    for &cf in families {
        for n in 0..KEYS {
            let found = engine.get(cf, &[n], <[u8]>::to_vec).unwrap();
            assert_eq!(found, Some(vec![ROUNDS; 100]), "{n} of {cf:?}");
        }
    }
}

/// Opens what is left in each case, and compacts on there.
fn check_left(machine: &Machine, families: &[CfId]) {
    for world in left(machine) {
        let engine = Engine::open(world.clone(), Path::new("/db"), tiny()).unwrap();
        check(&engine, families);
        assert_eq!(version_of(&engine).file_count(), files(&world));
        while engine.compact_once().unwrap() {}
        check(&engine, families);
    }
}

fn end_in(order: [usize; 3]) {
    let machine = Machine::new(PM);
    let world = machine.world();
    let world = World {
        env: Env {
            storage: Hooked::new(world.env.storage.clone(), Arc::new(Gates)),
            ..world.env
        },
        ..world
    };
    let engine = Engine::open(world, Path::new("/db"), tiny()).unwrap();
    let made = ["a", "b"].map(|name| engine.family(name, &CfOptions::default()).unwrap().id);
    let families = [CfId::DEFAULT, made[0], made[1]];
    for round in 1..=ROUNDS {
        for cf in families {
            for n in 0..KEYS {
                put(&engine, cf, &[n], &[round; 100]);
            }
        }
        flush(&engine);
    }
    let compactor = &engine.inner.compactor;
    let jobs = families.map(|_| compactor.picker.take_due().expect("each family has much"));
    let mut of: Vec<CfId> = jobs.iter().map(Job::family).collect();
    of.sort();
    assert_eq!(of, families);
    std::thread::scope(|scope| {
        let (arrives, arrived) = channel();
        let mut running = Vec::new();
        for job in jobs {
            let (key, opens) = channel();
            let gate = Gate {
                arrives: arrives.clone(),
                opens,
            };
            let runs = scope.spawn(move || {
                GATE.set(Some(gate));
                compactor.run(job).unwrap();
            });
            running.push(Some((key, runs)));
        }
        // So a job that ends without coming by its gate fails the test, which would wait for it for ever.
        drop(arrives);
        for _ in order {
            arrived.recv().unwrap();
        }
        check_left(&machine, &families);
        for nth in order {
            let (key, runs) = running[nth].take().expect("each ends once");
            key.send(()).unwrap();
            runs.join().unwrap();
            check(&engine, &families);
            check_left(&machine, &families);
        }
    });
    while engine.compact_once().unwrap() {}
    check(&engine, &families);
}

#[test]
fn jobs_that_end_in_every_order_are_whole_after_a_crash_between_them() {
    for order in ORDERS {
        end_in(order);
    }
}
