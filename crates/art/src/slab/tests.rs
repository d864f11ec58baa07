use super::*;
use thermocline_base::budget::{Budget, Spare};

/// Fills a block so that overlapping blocks would show.
fn fill(block: NonNull<u8>, bytes: usize, tag: u8) {
    // SAFETY: the test allocated the block with this size.
    unsafe { block.write_bytes(tag, bytes) };
}

fn holds(block: NonNull<u8>, bytes: usize, tag: u8) -> bool {
    // SAFETY: as in `fill`; the block was written.
    (0..bytes).all(|i| unsafe { block.add(i).read() } == tag)
}

#[test]
fn blocks_do_not_overlap_and_are_counted() {
    let slab = Slab::new();
    let mut blocks = Vec::new();
    let mut used = 0;
    for round in 0..3000usize {
        let bytes = [
            1, 40, 48, 49, 160, 656, 1296, 2072, 5000, 8160, 8161, 20_000,
        ][round % 12];
        let block = slab.allocate(bytes).unwrap();
        assert_eq!(block.addr().get() % ALIGN, 0);
        let tag = (round as u64 & 0xff) as u8;
        fill(block, bytes, tag);
        used += slab.block_bytes(bytes) as u64;
        blocks.push((block, bytes, tag));
        if round % 3 == 2 {
            let (block, bytes, tag) = blocks.swap_remove(round * 7 % blocks.len());
            assert!(holds(block, bytes, tag));
            used -= slab.block_bytes(bytes) as u64;
            // SAFETY: allocated above and removed from the list.
            unsafe { slab.release(block, bytes) };
        }
        let usage = slab.usage();
        assert_eq!(usage.used_bytes, used);
        assert!(usage.reserved_bytes >= used);
    }
    for (block, bytes, tag) in blocks {
        assert!(holds(block, bytes, tag));
        // SAFETY: allocated above, released once.
        unsafe { slab.release(block, bytes) };
    }
    let usage = slab.usage();
    assert_eq!(usage.used_bytes, 0);
    assert!(usage.reserved_bytes <= 2 << 20, "{usage:?}");
}

#[test]
fn chunks_of_one_class_serve_another() {
    let slab = Slab::new();
    let small: Vec<_> = (0..20_000).map(|_| slab.allocate(48).unwrap()).collect();
    let before = slab.usage();
    for block in small {
        // SAFETY: allocated above, released once.
        unsafe { slab.release(block, 48) };
    }
    let free = slab.usage();
    assert!(free.reserved_bytes < before.reserved_bytes / 2, "{free:?}");
    for _ in 0..before.used_bytes / 700 {
        slab.allocate(656).unwrap();
    }
    assert!(slab.usage().reserved_bytes <= before.reserved_bytes + (256 << 10));
}

#[test]
fn every_size_has_the_smallest_class_that_fits() {
    for bytes in 1..=BLOCK_MAX {
        let class = Slab::class_of(bytes).unwrap();
        assert!(CLASSES[class] >= bytes && (class == 0 || CLASSES[class - 1] < bytes));
    }
    assert_eq!(Slab::class_of(BLOCK_MAX + 1), None);
}

#[test]
fn an_account_counts_what_is_taken_from_the_system() {
    let budget = Budget::new(1 << 30);
    let account = Account::new(budget.clone(), 1 << 30);
    let slab = Slab::charged_to(account.clone());
    let mut blocks = Vec::new();
    for round in 0..6000usize {
        let bytes = [48, 656, 2072, 8161, 20_000][round % 5];
        blocks.push((slab.allocate(bytes).unwrap(), bytes));
        if round % 2 == 1 || round > 4000 {
            let (block, bytes) = blocks.swap_remove(round * 7 % blocks.len());
            // SAFETY: allocated above and removed from the list.
            unsafe { slab.release(block, bytes) };
        }
        assert_eq!(account.used(), slab.usage().reserved_bytes);
    }
    assert!(account.used() > 1 << 20);
    drop(slab);
    assert_eq!((account.used(), budget.used()), (0, 0));

    // Refused, it takes nothing.
    let small = Account::new(Budget::new(100_000), 1 << 30);
    let slab = Slab::charged_to(small.clone());
    while slab.allocate(48).is_ok() {}
    assert!(slab.allocate(50_000).is_err());
    assert_eq!(small.used(), slab.usage().reserved_bytes);
    assert!(small.used() > 0 && small.used() <= 100_000);
}

#[test]
fn single_free_blocks_of_full_chunks_are_used_again() {
    let slab = Slab::new();
    let per_chunk = (CHUNK - HEADER) / 656;
    let blocks: Vec<_> = (0..20 * per_chunk)
        .map(|_| slab.allocate(656).unwrap())
        .collect();
    let before = slab.usage();
    for _ in 0..10 {
        for block in blocks.iter().step_by(per_chunk) {
            // SAFETY: allocated above; as the same blocks are given out again, nobody else's.
            unsafe { slab.release(*block, 656) };
        }
        let mut again: Vec<_> = (0..20).map(|_| slab.allocate(656).unwrap()).collect();
        let mut freed: Vec<_> = blocks.iter().copied().step_by(per_chunk).collect();
        again.sort();
        freed.sort();
        assert_eq!(again, freed);
    }
    assert_eq!(slab.usage(), before);
}

/// Puts may use up all but the last sixteenth of a budget; deletes must find room in that, whatever the
/// budget.
#[test]
fn the_last_sixteenth_has_room_for_deletes() {
    for limit in (16..160).map(|n| n << 16) {
        let account = Account::new(Budget::new(limit), limit);
        let slab = Slab::charged_to(account.clone());
        // Writes that were promised ahead end as near to their limit as pieces allow.
        let puts = limit - limit / 16;
        while slab.usage().reserved_bytes + Pool::extent_bytes(slab.usage().reserved_bytes) <= puts
        {
            slab.allocate(160).unwrap();
        }
        let mut deletes = 0;
        while account
            .promise(account.used() + 2048 + slab.slack_bytes(1, 96), Spare::Use)
            .is_ok()
        {
            slab.allocate(96).unwrap();
            deletes += 1;
        }
        assert!(deletes > 150, "{deletes} deletes with {limit} bytes");
    }
}
