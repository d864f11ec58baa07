//! Threads that miss one block together, where it cannot be kept, or read.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use thermocline_base::budget::Budget;
use thermocline_base::{Error, ErrorKind, SeqNo};

use super::*;
use crate::block::build::BlockBuilder;
use crate::key::KeyRef;

fn data_block(value: &[u8]) -> Arc<Block> {
    let mut builder = BlockBuilder::new(&[], 1);
    builder.add(KeyRef::new(b"key", SeqNo(1)), 1, value);
    Arc::new(builder.finish(|bytes| Block::data(bytes.to_vec())).unwrap())
}

fn key_of(store: &StoreCache) -> Key {
    Key {
        store: store.store,
        file: FileId(7),
        offset: 0,
    }
}

/// If what is not kept were for its reader alone, as many threads as wait for a block would read it one after the other, each for
/// as long as the device takes.
#[test]
fn a_block_without_room_is_read_once_for_all_who_wait() {
    // Without room in the account, and too large for the cache.
    for (charged, value_len) in [(10_000, 10), (0, 300_000)] {
        let cache = BlockCache::new(100_000);
        let account = Account::new(Budget::new(u64::MAX), 10_000);
        account.opened();
        let _others = account.charge(charged).unwrap();
        let store = cache.store_of(&account);
        let key = key_of(&store);
        let mut context = Context::from_waker(Waker::noop());
        // As a thread that comes while another one reads.
        let mut waiting = pin!(cache.blocks.get_value_or_guard_async(&key));
        let read = store.read_once(key, || {
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            Ok(data_block(&vec![7; value_len]))
        });
        let (block, was_read) = read.unwrap();
        assert!(was_read);
        let Poll::Ready(Ok(entry)) = waiting.as_mut().poll(&mut context) else {
            panic!("it would read, too");
        };
        assert!(Arc::ptr_eq(entry.what.block().unwrap(), &block));
        // It is in for nobody else, and nothing is counted for it.
        assert!(cache.blocks.peek(&key).is_none());
        let counted = (cache.bytes(), store.own.bytes(), account.charged());
        assert_eq!(counted, (0, 0, charged));
        let again = store.read_once(key, || Ok(data_block(b"another")));
        assert!(again.unwrap().1);
    }
}

/// If each waited for the one before, the last of them would hear of a broken device after as many times as it takes to fail.
#[test]
fn who_waits_for_a_read_that_fails_waits_for_nobody_else_then() {
    let cache = BlockCache::new(100_000);
    let store = cache.store();
    let key = key_of(&store);
    let mut context = Context::from_waker(Waker::noop());
    // As threads that come while another one reads.
    let mut waiting = [(); 2].map(|()| Box::pin(cache.blocks.get_value_or_guard_async(&key)));
    let read = store.read_once(key, || {
        for waiting in &mut waiting {
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        Err(Error::Closed)
    });
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Closed);
    for waiting in &mut waiting {
        let Poll::Ready(Ok(entry)) = waiting.as_mut().poll(&mut context) else {
            panic!("it waits, or others wait for it");
        };
        assert!(entry.what.block().is_none());
    }
    assert!(cache.blocks.peek(&key).is_none());
    // Each reads then; whoever comes first is kept.
    let beside = || store.read_beside(key, || Ok(data_block(b"value"))).unwrap();
    let ((first, _), (second, was_read)) = (beside(), beside());
    assert!(Arc::ptr_eq(&first, &second) && was_read);
    assert_eq!((cache.usage().misses, cache.usage().blocks), (3, 1));
}
