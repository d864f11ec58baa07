//! What is noted, against a list of all changes.

use thermocline_base::WriteBatch;
use thermocline_testkit::{Replay, Rng, seeds};

use super::*;

/// Keys of one family, and whether it tells their hashes.
struct Keys(Vec<Vec<u8>>, bool);

impl Footprint for Keys {
    fn meets(&self, change: &Changed<'_>) -> bool {
        let Keys(keys, _) = self;
        keys.iter().any(|key| match change.range {
            None => change.cf == CfId(1) && **key == *change.key,
            Some(end) => {
                change.cf == CfId(1) && *change.key <= **key && end.is_none_or(|end| **key < *end)
            }
        })
    }

    fn holds_for_all(&self, holds: &mut dyn FnMut(u64) -> bool) -> bool {
        let Keys(keys, tells) = self;
        *tells && keys.iter().all(|key| holds(key_hash(CfId(1), key)))
    }
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let len = *rng.pick(&[2, 2, 2, 2, 600]);
    let mut key = vec![0; len];
    key[0] = u8::try_from(rng.below(40)).unwrap();
    key
}

/// What somebody watches, and what it was told last.
struct Watcher {
    watching: Watching,
    checked: SeqNo,
    keys: Keys,
}

#[test]
fn it_says_what_a_list_of_all_changes_says() {
    for seed in seeds(0..20) {
        let _replay = Replay::new("-p thermocline-commit --lib recent", seed);
        let mut rng = Rng::new(seed);
        let recent = Recent::default();
        assert_eq!(recent.watch(|| 7), None);
        recent.begin(7);
        // All that was granted is visible at once here.
        let mut last = 7;
        let mut all: Vec<(u64, Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        let mut watchers: Vec<Watcher> = Vec::new();
        let (mut met, mut clean) = (0, 0);
        for _ in 0..4000 {
            match rng.below(8) {
                0 if watchers.len() < 6 => {
                    let watching = recent.watch(|| last).unwrap();
                    let keys = (0..rng.below(4)).map(|_| key(&mut rng)).collect();
                    watchers.push(Watcher {
                        checked: watching.floor,
                        watching,
                        keys: Keys(keys, rng.one_in(2)),
                    });
                }
                0..2 if !watchers.is_empty() => {
                    let at = rng.below(watchers.len());
                    recent.leave(&watchers.swap_remove(at).watching);
                }
                2..4 if !watchers.is_empty() => {
                    let at = rng.below(watchers.len());
                    let watcher = &mut watchers[at];
                    let of_all = all.iter().find(|(seqno, key, end)| {
                        *seqno > watcher.checked.0
                            && watcher.keys.meets(&Changed {
                                seqno: SeqNo(*seqno),
                                cf: CfId(1),
                                key,
                                hash: key_hash(CfId(1), key),
                                range: end.as_ref().map(|end| Some(&**end)),
                            })
                    });
                    match recent.check(watcher.checked, &watcher.keys) {
                        Ok(up_to) => {
                            assert_eq!(of_all, None);
                            assert_eq!(up_to, SeqNo(last));
                            watcher.checked = up_to;
                            clean += 1;
                        }
                        Err(Met::Change { seqno, key, .. }) => {
                            let (expected, first, _) = of_all.unwrap();
                            assert_eq!((seqno.0, &key), (*expected, first));
                            met += 1;
                        }
                        Err(Met::Forgotten(_)) => panic!("there was room for all"),
                    }
                }
                _ => {
                    let mut batch = WriteBatch::new();
                    for _ in 0..1 + rng.below(3) {
                        let (cf, name) = (CfId(1), key(&mut rng));
                        if rng.one_in(30) {
                            let end = [name[0] + 2];
                            batch.delete_range(cf, &name, Some(&end)).unwrap();
                            all.push((last + batch.len() as u64, name, Some(end.to_vec())));
                        } else {
                            batch.put(cf, &name, b"").unwrap();
                            all.push((last + batch.len() as u64, name, None));
                        }
                    }
                    // Another family's keys meet nothing.
                    batch.put(CfId(2), &key(&mut rng), b"").unwrap();
                    assert!(recent.record(SeqNo(last + 1), batch.iter(), last));
                    last += batch.len() as u64;
                }
            }
        }
        assert!(met > 50 && clean > 50, "{met} {clean}");
        // Nobody needs what lies behind everybody.
        for watcher in watchers {
            recent.leave(&watcher.watching);
        }
        let mut batch = WriteBatch::new();
        batch.put(CfId(1), b"k", b"").unwrap();
        recent.record(SeqNo(last + 1), batch.iter(), last + 1);
        assert!(recent.bytes() < 2 * CHUNK_BYTES);
    }
}

#[test]
fn what_has_no_room_is_forgotten_and_that_is_said() {
    let recent = Recent::default();
    recent.begin(0);
    let floor = recent.watch(|| 0).unwrap().floor;
    let mut batch = WriteBatch::new();
    for n in 0..1000u32 {
        let key = [&n.to_be_bytes()[..], &[1; 2000]].concat();
        batch.put(CfId(1), &key, b"").unwrap();
    }
    for round in 0..20 {
        recent.record(SeqNo(1 + round * 1000), batch.iter(), 0);
        assert!(recent.bytes() <= LOG_BYTES_MAX + CHUNK_BYTES);
    }
    let met = recent.check(floor, &Keys(vec![b"other".to_vec()], false));
    assert!(matches!(met, Err(Met::Forgotten(_))));
    // Hashes are never forgotten.
    assert!(
        recent
            .check(floor, &Keys(vec![b"other".to_vec()], true))
            .is_ok()
    );
    let newest = recent.check(SeqNo(19_500), &Keys(vec![b"other".to_vec()], false));
    assert_eq!(newest, Ok(SeqNo(20_000)));
    // Anything of a family.
    recent.record_family(SeqNo(30_000), CfId(1), 0);
    let met = recent.check(SeqNo(20_000), &Keys(vec![b"other".to_vec()], true));
    assert!(matches!(met, Err(Met::Change { seqno, .. }) if seqno.0 == 30_000));
}

#[test]
fn noting_ends_when_nobody_has_watched_for_long() {
    let recent = Recent::default();
    recent.begin(0);
    let watching = recent.watch(|| 0).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(CfId(1), b"k", b"").unwrap();
    let mut seqno = 0;
    let mut record = || {
        seqno += 1;
        recent.record(SeqNo(seqno), batch.iter(), seqno)
    };
    assert!((0..2 * IDLE_CHANGES).all(|_| record()));
    recent.leave(&watching);
    assert!(!(0..2 * IDLE_CHANGES).all(|_| record()));
    assert_eq!(recent.watch(|| 0), None);
    assert_eq!(recent.bytes(), 0);
    // It begins anew.
    recent.begin(100_000);
    let watching = recent.watch(|| 100_000).unwrap();
    assert_eq!(watching.floor, SeqNo(100_000));
}

/// Watchers come and go on many threads while others write, and noting stops and begins again: nobody is told that nothing has
/// changed where something has.
#[test]
fn nobody_misses_a_change_while_watchers_come_and_go() {
    const KEYS: u64 = 64;
    const CHANGES: u64 = 40_000;
    const WATCHERS: u64 = 3;
    let name = |n: u64| n.to_be_bytes().to_vec();
    let (recent, visible) = (Recent::default(), AtomicU64::new(0));
    // What is granted, and whether it is noted: the writer's lock.
    let writer = Mutex::new((0u64, false));
    let write = |writer: &mut (u64, bool)| {
        writer.0 += 1;
        if writer.1 {
            let mut batch = WriteBatch::new();
            batch.put(CfId(1), &name(writer.0 % KEYS), b"").unwrap();
            let seen = visible.load(Ordering::Acquire);
            writer.1 = recent.record(SeqNo(writer.0), batch.iter(), seen);
        }
        visible.store(writer.0, Ordering::Release);
    };
    let watch = || {
        let visible = || visible.load(Ordering::Acquire);
        recent.watch(visible).unwrap_or_else(|| {
            let mut writer = lock(&writer);
            recent.begin(visible());
            writer.1 = true;
            recent.watch(visible).unwrap()
        })
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while lock(&writer).0 < CHANGES {
                write(&mut lock(&writer));
            }
        });
        for n in 0..WATCHERS {
            let (watch, visible) = (&watch, &visible);
            let recent = &recent;
            scope.spawn(move || {
                let mut rng = Rng::new(n);
                while visible.load(Ordering::Acquire) < CHANGES {
                    let watching = watch();
                    let from = watching.floor.0;
                    let key = rng.below(usize::try_from(KEYS).unwrap()) as u64;
                    let keys = Keys(vec![name(key)], rng.one_in(2));
                    for _ in 0..rng.below(20) {
                        let until = visible.load(Ordering::Acquire);
                        let changed = (from + 1..=until).any(|seqno| seqno % KEYS == key);
                        let met = recent.check(watching.floor, &keys);
                        assert!(met.is_err() || !changed, "{key} in {from}..={until}");
                        std::thread::yield_now();
                    }
                    recent.leave(&watching);
                    // Sometimes nobody watches for so long that noting stops.
                    let pause = rng.below(30) as u64 * IDLE_CHANGES / 10;
                    let until = (visible.load(Ordering::Acquire) + pause).min(CHANGES);
                    while visible.load(Ordering::Acquire) < until {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
}

/// What the oldest watcher needs stays, whichever thread it and later ones began on, and goes soon when that one has ended.
#[test]
fn the_first_of_all_threads_says_what_is_needed() {
    let recent = Recent::default();
    recent.begin(0);
    let mut batch = WriteBatch::new();
    batch.put(CfId(1), &[1; 2000], b"").unwrap();
    let mut seqno = 0;
    let mut record = || {
        for _ in 0..2 * CHUNK_BYTES / 2000 {
            seqno += 1;
            assert!(recent.record(SeqNo(seqno), batch.iter(), seqno));
        }
        seqno
    };
    let watch = |visible: u64| {
        std::thread::scope(|scope| {
            let watching = scope.spawn(|| recent.watch(|| visible).unwrap());
            watching.join().unwrap()
        })
    };
    let mut watchers: Vec<_> = (0..40).map(|_| watch(record())).collect();
    let other = Keys(vec![b"other".to_vec()], false);
    while !watchers.is_empty() {
        let last = record();
        let oldest = watchers.remove(0);
        assert_eq!(recent.check(oldest.floor, &other), Ok(SeqNo(last)));
        let before = recent.bytes();
        recent.leave(&oldest);
        record();
        assert!(recent.bytes() < before + CHUNK_BYTES);
    }
    assert!(recent.bytes() < 2 * CHUNK_BYTES);
}
