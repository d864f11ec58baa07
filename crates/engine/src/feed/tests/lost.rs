//! What a crash takes, and who has seen it.

use super::*;

/// What feeds of a store that is opened for reading give, three groups of which were durable before a crash.
fn read_only() -> Vec<(u64, u64)> {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    (0..3).for_each(|key| put(&engine, key));
    put_with(&engine, 3, Durability::Buffered);
    put_with(&engine, 4, Durability::Buffered);
    let only_reads = Options {
        read_only: true,
        ..options()
    };
    let machine = machine.killed();
    let crashed = open(&machine, &only_reads);
    let mut feed = since(&crashed, 0);
    let given = groups(&mut feed);
    assert_eq!(feed.position(), given.last().unwrap().1);
    // They can be read there, and whoever has been given them before may ask.
    assert_eq!(crashed.metrics().visible, 5);
    assert_eq!(groups(&mut since(&crashed, 5)), []);
    assert!(crashed.changes_since(6).is_err());
    drop((feed, crashed));
    // Who writes has made all of it durable.
    let engine = open(&machine, &options());
    let all: Vec<(u64, u64)> = (1..6).map(|seqno| (seqno, seqno)).collect();
    assert_eq!(groups(&mut since(&engine, 0)), all);
    engine.close().unwrap();
    drop(engine);
    assert_eq!(groups(&mut since(&open(&machine, &only_reads), 0)), all);
    given
}

#[test]
fn who_opens_for_reading_gives_what_is_known_to_be_durable() {
    assert_eq!(read_only(), [(1, 1), (2, 2), (3, 3)]);
    let _bug = plant(Bug::FeedTrustsWhatIsRead);
    assert_eq!(read_only().len(), 5);
}

#[test]
fn what_an_open_has_made_durable_is_given_after_another_crash() {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    (0..3).for_each(|key| put(&engine, key));
    let machine = machine.killed();
    // Opened, and killed before anything that says how much is durable.
    let again = open(&machine, &options());
    again.work_ahead().unwrap();
    let machine = machine.killed();
    let only_reads = Options {
        read_only: true,
        ..options()
    };
    let crashed = open(&machine, &only_reads);
    let given = groups(&mut since(&crashed, 0));
    assert_eq!(given, [(1, 1), (2, 2), (3, 3)]);
    drop((engine, again));
}

/// Asks since each seqno that a crash has taken, and each that was not taken.
fn asked() -> (bool, Vec<u64>) {
    let machine = Machine::new(PM);
    let engine = open(&machine, &options());
    (0..3).for_each(|key| put(&engine, key));
    let machine = machine.killed();
    drop(engine);
    let engine = open(&machine, &options());
    // Where a feed stands before anything is written is right.
    let feed = since(&engine, 3);
    assert_eq!(feed.position(), 3);
    let at_once = engine.changes_since(4).is_ok();
    let trail = engine.inner.memtables.hold_writer_up().open_trail();
    let base = trail.chain.base;
    assert!(base > 10, "{base}");
    assert_eq!(groups(&mut since(&engine, base - 1)), []);
    put(&engine, 4);
    put(&engine, 5);
    let rest = [(base, base), (base + 1, base + 1)];
    for (from, wanted) in [
        (3, &rest[..]),
        (base - 1, &rest),
        (base, &rest[1..]),
        (base + 1, &[]),
    ] {
        assert_eq!(groups(&mut since(&engine, from)), wanted, "{from}");
    }
    let accepted = |engine: &Engine| -> Vec<u64> {
        let lost = [4, 5, base / 2, base - 2];
        let is_accepted = |since: &u64| match engine.changes_since(*since) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                assert!(error.to_string().contains("has no such change"), "{error}");
                false
            }
        };
        lost.into_iter().filter(is_accepted).collect()
    };
    let now = accepted(&engine);
    // By the next opening, too, and one after a crash.
    engine.close().unwrap();
    drop(engine);
    let reopened = open(&machine, &options());
    assert_eq!(accepted(&reopened), now);
    assert_eq!(groups(&mut since(&reopened, base - 1)), rest);
    assert_eq!(accepted(&open(&machine.killed(), &options())), now);
    (at_once, now)
}

#[test]
fn who_has_seen_what_a_crash_took_is_told() {
    assert_eq!(asked(), (false, vec![]));
    let _bug = plant(Bug::FeedAcceptsLost);
    let (at_once, later) = asked();
    assert!(at_once && later.len() == 4);
}
