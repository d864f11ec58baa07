//! What the operating system says this process used.

/// Processor time and memory of this process so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Time on processors, in user and system mode, in seconds.
    pub cpu_seconds: f64,
    /// Most resident memory at any time, in bytes.
    pub rss_bytes_max: u64,
}

/// What it has used so far; nothing if it does not say.
pub fn usage() -> Usage {
    let mut raw = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writing one `rusage`, which is all that the call does.
    let answer = unsafe { libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr()) };
    if answer != 0 {
        return Usage::default();
    }
    // SAFETY: every field is an integer, so the zeroed value is one, and the call filled it.
    let raw = unsafe { raw.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Usage {
        cpu_seconds: seconds(raw.ru_utime) + seconds(raw.ru_stime),
        // Linux counts in KiB.
        rss_bytes_max: u64::try_from(raw.ru_maxrss).unwrap_or(0) * 1024,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_grows() {
        let before = super::usage();
        let held = std::hint::black_box(vec![1u8; 64 << 20]);
        let after = super::usage();
        assert!(after.cpu_seconds >= before.cpu_seconds);
        assert!(after.rss_bytes_max >= 64 << 20, "{after:?} {}", held.len());
    }
}
