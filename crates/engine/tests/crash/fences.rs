//! A fence that fails: the write says so, the store takes no more writes and goes on reading, and
//! the next open finds what was acknowledged.

use std::io::Write;

use thermocline_base::{Error, ErrorKind};
use thermocline_env::simulated::SeededRandom;

use crate::life::{Life, options};
use crate::oracle::{Change, Op};
use crate::raw::HERE;
use crate::snapshot::{Budget, Snapshot};

fn ops(seed: u64) -> Vec<Op> {
    let random = SeededRandom::new(seed);
    let mut ops = vec![Op::Family("red".into())];
    for n in 0..24u8 {
        let len = usize::try_from(random.below(300)).unwrap();
        let change = |cf| Change {
            cf,
            key: vec![n % 7],
            value: (n % 5 != 4).then(|| vec![n; len].into()),
        };
        ops.push(Op::Write(vec![change(0), change(1)]));
        if n % 8 == 5 {
            // Larger than an item.
            let part = |k| Change {
                cf: u16::from(k % 2),
                key: vec![k],
                value: Some(vec![n; 500].into()),
            };
            ops.push(Op::Write((0..10).map(part).collect()));
        }
    }
    ops
}

/// Lets fence `n` from the opening on, and all after it, fail. Whether any did.
fn fail_at(n: u64, seed: u64) -> bool {
    let mut options = options();
    options.memtable.bytes_max = 1 << 10;
    options.memtable.item_bytes_max = 4 << 10;
    let mut life = Life::fresh(&options, seed);
    life.open().unwrap();
    life.pm.fail_fence_in(n);
    let failed = ops(seed).iter().find_map(|op| {
        let error = life.run(op).err()?;
        Some((op.clone(), error))
    });
    let Some((op, error)) = failed else {
        return false;
    };
    assert!(
        matches!(error, Error::Poisoned(_)),
        "fence {n}: the failed fence came out as {error}"
    );
    let allowed = life.tracker.lock().unwrap().expect().allowed;
    let refused = life.run(&Op::put(0, b"later", *b"x")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Poisoned, "fence {n}: {refused}");
    // The tracker has the later write in flight now, which left no trace.
    let mut expect = life.tracker.lock().unwrap().expect();
    expect.allowed = allowed;
    let shown = life.dump(&expect.allowed).unwrap();
    assert_eq!(shown, *expect.allowed[0], "fence {n}: reads go on");
    let visible = life.engine().visible();
    let mut now = Snapshot::of(&life, HERE);
    now.expect = expect;
    for state in now.states(Budget::NARROW, None, n) {
        let mut again = now.life(&state, &options, n + 1);
        again
            .recover()
            .unwrap_or_else(|why| panic!("fence {n}, {op:?}, {state:?}: {why}"));
        assert!(again.run(&Op::put(0, b"later", *b"x")).unwrap());
        assert!(again.engine().visible() > visible);
    }
    // Closing cannot seal what may be broken; there is nothing to seal before the first write.
    let recorded = visible.0 > 0;
    assert!(
        life.close().is_err() || !recorded,
        "fence {n}: closing sealed"
    );
    true
}

#[test]
fn a_failed_fence_poisons_the_store_and_the_next_open_recovers() {
    let mut fences = 0;
    for seed in [3, 4] {
        let mut n = 0;
        while fail_at(n, seed) {
            n += 1;
        }
        fences += n;
    }
    let _ = writeln!(
        std::io::stderr(),
        "crash exploration, {fences} failed fences"
    );
    assert!(fences > 100, "{fences}");
}
