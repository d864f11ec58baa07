//! A page that cannot be read must not kill the process.
//!
//! Loading from a mapping whose file was truncated, or whose medium fails, raises SIGBUS. The
//! handler looks the address up in a small table of live regions; on a hit it marks the region
//! faulted, maps a zero page over the fault and returns, so that the load completes with zeros and
//! the reader, who checks the mark before acting on bytes, reports an error. A fault elsewhere goes
//! to the handler that was installed before ours.
//!
//! Invariant **S1**: a slot's `base` is non-zero exactly while its mapping lives; it is written last
//! on registering and cleared first on leaving. Only async-signal-safe work is done: atomics and
//! `mmap`.
#![expect(unsafe_code, reason = "signal handlers have no safe interface")]

use std::sync::Once;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use thermocline_base::Error;

const SLOTS: usize = 1024;

#[derive(Debug)]
struct Slot {
    taken: AtomicUsize,
    base: AtomicUsize,
    len: AtomicUsize,
    fault: AtomicU64,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        taken: AtomicUsize::new(0),
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        fault: AtomicU64::new(NO_FAULT),
    }
}; SLOTS];

const NO_FAULT: u64 = u64::MAX;

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
        slot.len.store(len, Ordering::Relaxed);
        // Partner: the acquire load in `handler`.
        slot.base.store(base as usize, Ordering::Release);
        Some(Watch { slot })
    }

    /// The error when the table is full.
    pub fn too_many() -> Error {
        Error::Busy("this process has too many regions open at once".into())
    }

    /// The offset of the first page that could not be read, if there was one.
    #[inline]
    pub fn fault(&self) -> Option<u64> {
        // Relaxed: the handler ran on the reading thread, between its load and this one.
        match self.slot.fault.load(Ordering::Relaxed) {
            NO_FAULT => None,
            offset => Some(offset),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.slot.base.store(0, Ordering::Release);
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
        let base = slot.base.load(Ordering::Acquire);
        if base == 0 || address < base || address >= base + slot.len.load(Ordering::Relaxed) {
            continue;
        }
        let page = address & !4095;
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
            let offset = (page - base) as u64;
            let _ =
                slot.fault
                    .compare_exchange(NO_FAULT, offset, Ordering::Release, Ordering::Relaxed);
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
