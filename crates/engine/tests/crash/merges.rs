//! Workloads in which sealed memtables get indexes in common. Merging writes nothing; but what it finds
//! dead is dropped, what it keeps must come back from the memtables themselves, and what is flushed through
//! a merged index must be all that they had.

use thermocline_base::options::Options;
use thermocline_engine::Family;
use thermocline_env::simulated::SeededRandom;

use crate::groups::rare_write_back;
use crate::life::Life;
use crate::oracle::{Op, Step};
use crate::workload::{below, run, value};

/// A memtable for every few writes.
pub fn many_memtables(options: &mut Options) {
    rare_write_back(options);
    options.memtable.bytes_max = 1 << 10;
}

/// Keys that live long, and others that are deleted in memtables that have nothing else in the end: what
/// hides the records of a memtable that lives must not go before it. Beside a cursor, over lives that
/// close, a range tombstone and a flush.
pub fn merges(life: &mut Life, random: &SeededRandom) {
    let mut counts = [0, 0];
    for n in 0..6u8 {
        run(life, &Op::put(0, &[b'c', n], value(random, 60)));
    }
    let model = life.visible();
    let mut cursor = life.engine().cursor(Family::DEFAULT).unwrap();
    for n in 0..5u8 {
        if n % 2 == 0 {
            run(life, &Op::delete(0, &[b'c', n]));
        }
        let len = 700 + below(random, 300);
        run(life, &Op::put(0, b"hot", value(random, len)));
    }
    // It goes over to merged indexes, and sees what it saw.
    let mut more = cursor.seek_to_first().unwrap();
    for ((_, key), value) in model.data.iter().filter(|((cf, _), _)| *cf == 0) {
        assert!(more && cursor.key() == &**key && cursor.value() == &**value);
        more = cursor.next().unwrap();
    }
    drop(cursor);
    life.engine().reclaim().unwrap();
    if random.below(2) == 0 {
        counts = counted(life, counts);
        life.close().unwrap();
        life.open().unwrap();
        life.engine().reclaim().unwrap();
    }
    // What is merged is flushed as a whole; a range tombstone keeps what is older from what is younger.
    let some = Step::Clear {
        cf: 0,
        from: vec![b'c', 2],
        to: Some(vec![b'c', 4]),
    };
    run(life, &Op::Steps(vec![some]));
    for n in 6..9u8 {
        run(life, &Op::put(0, &[b'c', n], value(random, 900)));
    }
    life.engine().reclaim().unwrap();
    life.engine().flush().unwrap();
    run(life, &Op::delete(0, &[b'c', 5]));
    let [merges, dropped] = counted(life, counts);
    assert!(
        merges > 1 && dropped > 0,
        "{merges} merges, {dropped} dropped"
    );
}

fn counted(life: &Life, before: [u64; 2]) -> [u64; 2] {
    let metrics = life.engine().metrics();
    let [merges, dropped] = before;
    [merges + metrics.merges, dropped + metrics.memtables_dropped]
}
