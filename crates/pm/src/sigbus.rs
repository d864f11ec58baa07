//! A page that cannot be read must not kill the process.
//!
//! Loading from a mapping whose file was truncated, or whose medium fails, raises SIGBUS. The
//! handler looks the address up in a small table of live regions; on a hit it marks the region
//! faulted, maps a zero page over the fault and returns, so that the load completes with zeros and
//! the reader, who checks the mark before acting on bytes, reports an error. A fault elsewhere goes
//! to the handler that was installed before ours. Only async-signal-safe work is done: atomics and
//! `mmap`.
//!
//! Invariants:
//!
//! - **S1** A slot's `base` is non-zero only while its mapping lives. Base and length are believed only if
//!   the slot's `version` was even and the same before and after they were read: a slot that is being given to another
//!   region would otherwise lend its length to the wrong base, and the fault of a third region would
//!   mark it in that one's place. The slot of the region that has the fault does not change meanwhile,
//!   since who accesses a region holds it.
//! - **S2** *The mark is set before the page is replaced.* So nobody sees what stands in for the page, or
//!   stores into it, without the mark being set by then.
//!
//! What other threads may do at any moment, with the region's mark M and page P:
//!
//! | another thread | before M | between M and the replacement | after it |
//! |---|---|---|---|
//! | reads P, then looks at M | has a fault of its own, and sets M itself | has a fault of its own; sees M | sees zeros, and M (S2) |
//! | reads another page, then looks at M | its bytes are right, and it sees no M, or does | sees M: an error, although its bytes are right | the same |
//! | stores to P, syncs, then looks at M | as for reading; or P was there, and is synced | the same | the store went to the zeros, the sync does nothing; it sees M, so it acknowledges nothing |
//! | has a fault on P, too | | replaces it first; then it is replaced once more | replaces zeros by zeros; what somebody stored into the first ones is lost, after M |
//!
//! The other way round (replace, then mark) a reader could take zeros for data, and a writer acknowledge
//! what went nowhere, in the instant between both. Looking at M after having read needs an order of
//! its own: a fence in [`Watch::fault`] keeps the compiler and the processor from looking first.
#![expect(unsafe_code, reason = "signal handlers have no safe interface")]

use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

use thermocline_base::Error;

const SLOTS: usize = 1024;

#[derive(Debug)]
struct Slot {
    /// Odd while base and length change (S1).
    version: AtomicUsize,
    taken: AtomicUsize,
    base: AtomicUsize,
    len: AtomicUsize,
    fault: AtomicU64,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        version: AtomicUsize::new(0),
        taken: AtomicUsize::new(0),
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        fault: AtomicU64::new(NO_FAULT),
    }
}; SLOTS];

const NO_FAULT: u64 = u64::MAX;

impl Slot {
    /// By whoever has taken the slot.
    fn change(&self, base: usize, len: usize) {
        // Partner: `covers`. SeqCst: odd first, even last, for all.
        self.version.fetch_add(1, Ordering::SeqCst);
        self.base.store(base, Ordering::SeqCst);
        self.len.store(len, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The base, if the slot's region has this address (S1).
    fn covers(&self, address: usize) -> Option<usize> {
        let version = self.version.load(Ordering::SeqCst);
        let base = self.base.load(Ordering::SeqCst);
        let len = self.len.load(Ordering::SeqCst);
        let settled = version.is_multiple_of(2) && self.version.load(Ordering::SeqCst) == version;
        (settled && base != 0 && address >= base && address - base < len).then_some(base)
    }
}

/// A region's entry in the table.
#[derive(Debug)]
pub(crate) struct Watch {
    slot: &'static Slot,
}

impl Watch {
    /// Watches `[base, base + len)`. `None` if the table is full: then a fault there kills, as it
    /// would without us, so the caller must refuse to map.
    pub fn new(base: *const u8, len: usize) -> Option<Watch> {
        install();
        let slot = TABLE.iter().find(|slot| {
            slot.taken
                .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })?;
        slot.fault.store(NO_FAULT, Ordering::Relaxed);
        slot.change(base as usize, len);
        Some(Watch { slot })
    }

    /// The error when the table is full.
    pub fn too_many() -> Error {
        Error::Busy(format!(
            "this process has {SLOTS} regions of persistent memory open, as many as can be; close some stores first"
        ))
    }

    /// The offset of the first page that could not be read, if there was one.
    #[inline]
    pub fn fault(&self) -> Option<u64> {
        // The reader's loads come first (S2); free on x86. Partner: the store in `handler`.
        fence(Ordering::Acquire);
        match self.slot.fault.load(Ordering::Relaxed) {
            NO_FAULT => None,
            offset => Some(offset),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.slot.change(0, 0);
        self.slot.taken.store(0, Ordering::Release);
    }
}

type Action = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: plain zeroed C structs filled by the calls below; the previous action is leaked
        // on purpose so that the handler can read it for as long as the process lives.
        unsafe {
            let mut previous: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut previous);
            PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = handler as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut ours.sa_mask);
            libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut());
        }
    });
}

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    for slot in &TABLE {
        let Some(base) = slot.covers(address) else {
            continue;
        };
        let page = address & !4095;
        // S2: the mark first. SeqCst: before the replacement, for all. Partner: the fence in `fault`.
        let offset = (page - base) as u64;
        let _ = slot
            .fault
            .compare_exchange(NO_FAULT, offset, Ordering::SeqCst, Ordering::SeqCst);
        #[cfg(test)]
        pause::between(page);
        // SAFETY: S1: the page lies in a live reservation of ours, so replacing it takes nothing
        // from anybody else. mmap is a bare system call, safe in a handler.
        let got = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if got != libc::MAP_FAILED {
            return;
        }
    }
    chain(signal, info, context);
}

/// Hands a fault that is not ours to whoever handled SIGBUS before.
fn chain(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.load(Ordering::Acquire);
    // SAFETY: `previous` is the leaked box from `install`, or null; a handler address in it was
    // installed by somebody for exactly this call. Restoring the default and returning repeats the
    // fault, which then ends the process as it should.
    unsafe {
        if !previous.is_null() {
            let action = (*previous).sa_sigaction;
            if action != libc::SIG_DFL && action != libc::SIG_IGN {
                if (*previous).sa_flags & libc::SA_SIGINFO != 0 {
                    std::mem::transmute::<usize, Action>(action)(signal, info, context);
                } else {
                    std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(action)(signal);
                }
                return;
            }
        }
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
    }
}

/// Lets a test stop the handler between its two steps.
#[cfg(test)]
pub(crate) mod pause {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    static PAGE: AtomicUsize = AtomicUsize::new(0);
    static REACHED: AtomicBool = AtomicBool::new(false);
    static GO_ON: AtomicBool = AtomicBool::new(false);

    /// The first fault on this page is to stop.
    pub fn at(page: usize) {
        PAGE.store(page, Ordering::SeqCst);
    }

    /// Called by the handler.
    pub fn between(page: usize) {
        let stops = PAGE.compare_exchange(page, 0, Ordering::SeqCst, Ordering::SeqCst);
        if stops.is_ok() {
            REACHED.store(true, Ordering::SeqCst);
            while !GO_ON.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
        }
    }

    /// Returns when a fault has stopped.
    pub fn wait() {
        while !REACHED.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }

    /// Lets it go on.
    pub fn end() {
        GO_ON.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slot that changes hands never lends one region's length to another's base (S1).
    #[test]
    fn a_slot_covers_what_one_of_its_regions_has() {
        let slot = Slot {
            version: AtomicUsize::new(0),
            taken: AtomicUsize::new(1),
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            fault: AtomicU64::new(NO_FAULT),
        };
        // One is small, the other is large and lies elsewhere.
        let (small, large) = ((1 << 20, 1 << 12), (1 << 30, 1 << 24));
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (slot, done) = (&slot, &done);
            let watch = scope.spawn(move || {
                while !done.load(Ordering::SeqCst) {
                    // Behind the small one, and as far behind its base as the large one reaches.
                    assert_eq!(slot.covers(small.0 + (1 << 13)), None);
                    let found = slot.covers(large.0 + (1 << 13));
                    assert!(found.is_none_or(|base| base == large.0));
                }
            });
            for _ in 0..200_000 {
                slot.change(small.0, small.1);
                slot.change(0, 0);
                slot.change(large.0, large.1);
                slot.change(0, 0);
            }
            done.store(true, Ordering::SeqCst);
            watch.join().unwrap();
        });
        slot.change(small.0, small.1);
        assert_eq!(slot.covers(small.0), Some(small.0));
        assert_eq!(slot.covers(small.0 + small.1 - 1), Some(small.0));
        assert_eq!(slot.covers(small.0 + small.1), None);
        assert_eq!(slot.covers(small.0 - 1), None);
    }
}
