//! The CPU's part of persistence: writing lines back, fencing, non-temporal copies.
//!
//! One of the module's few places with `unsafe`. Invariant **C1**: every pointer range given to a
//! function here lies within a live mapping of a region (checked by `region`).
#![expect(unsafe_code, reason = "cache control has no safe interface")]

use std::sync::OnceLock;

/// The instruction that writes a line back, chosen once per process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteBack {
    /// `clwb`: writes back, may keep the line.
    Clwb,
    /// `clflushopt`: writes back and evicts, unordered.
    ClflushOpt,
    /// `clflush`: writes back and evicts, ordered.
    Clflush,
    /// No such instruction: a full fence only. Right where caches are within the persistence
    /// domain, or where nothing outlives the process anyway.
    #[cfg(not(target_arch = "x86_64"))]
    FenceOnly,
}

/// Whether this processor can be told to write a line back. Where it cannot, a DAX mapping is made durable
/// by `msync`, like any other file.
pub(crate) const WRITES_BACK: bool = cfg!(target_arch = "x86_64");

pub(crate) fn write_back() -> WriteBack {
    static CHOSEN: OnceLock<WriteBack> = OnceLock::new();
    *CHOSEN.get_or_init(detect)
}

#[cfg(target_arch = "x86_64")]
fn detect() -> WriteBack {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let leaf7 = if __cpuid(0).eax >= 7 {
        __cpuid_count(7, 0).ebx
    } else {
        0
    };
    if leaf7 & (1 << 24) != 0 {
        WriteBack::Clwb
    } else if leaf7 & (1 << 23) != 0 {
        WriteBack::ClflushOpt
    } else {
        WriteBack::Clflush
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn detect() -> WriteBack {
    WriteBack::FenceOnly
}

/// Starts writing back the lines of `[ptr, ptr + len)`.
///
/// # Safety
/// C1.
pub(crate) unsafe fn flush(ptr: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::asm;
        let mut line = ptr as usize & !63;
        let end = ptr as usize + len;
        let how = write_back();
        while line < end {
            // SAFETY: C1: the line holds at least one byte of the mapped range, and these
            // instructions change no memory contents. Not `nomem`: earlier stores must not sink
            // below the write-back.
            unsafe {
                match how {
                    WriteBack::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack)),
                    WriteBack::ClflushOpt => {
                        asm!("clflushopt [{}]", in(reg) line, options(nostack));
                    }
                    WriteBack::Clflush => asm!("clflush [{}]", in(reg) line, options(nostack)),
                }
            }
            line += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (ptr, len);
}

/// Waits until this thread's write-backs and non-temporal stores have reached the persistence
/// domain.
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `sfence` has no operands and no preconditions on x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Copies `src` to `dst` past the cache. `dst` and the length are multiples of 64.
///
/// # Safety
/// C1 for `[dst, dst + src.len())`, and nobody reads or writes that range meanwhile.
pub(crate) unsafe fn copy_nt(dst: *mut u8, src: &[u8]) {
    debug_assert!((dst as usize).is_multiple_of(64) && src.len().is_multiple_of(64));
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let mut at = 0;
        while at < src.len() {
            // SAFETY: C1 for the destination, aligned to 16 as it is to 64; the source is a slice
            // whose length is a multiple of 64.
            unsafe {
                let from = src.as_ptr().add(at).cast::<__m128i>();
                let to = dst.add(at).cast::<__m128i>();
                _mm_stream_si128(to, _mm_loadu_si128(from));
                _mm_stream_si128(to.add(1), _mm_loadu_si128(from.add(1)));
                _mm_stream_si128(to.add(2), _mm_loadu_si128(from.add(2)));
                _mm_stream_si128(to.add(3), _mm_loadu_si128(from.add(3)));
            }
            at += 64;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: C1; the ranges cannot overlap because the source is not in the region.
    unsafe {
        dst.copy_from_nonoverlapping(src.as_ptr(), src.len());
        flush(dst, src.len());
    }
}

/// Asks the CPU to load the line at `ptr`.
pub(crate) fn prefetch(ptr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint: it faults on no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(ptr.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = ptr;
}
