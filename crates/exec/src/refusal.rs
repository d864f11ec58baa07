//! What the system has refused, so that whoever asks learns why reads go in another way.

use std::io;

use thermocline_base::AsyncIo;
use thermocline_base::sync::{AtomicU64, Ordering};

/// A way of reading that the system has refused, the last one of those that were tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refused {
    /// Which one.
    pub way: AsyncIo,
    /// The error's number in the system; 0 if it has none.
    pub errno: i32,
}

/// The last refusal of a reader. Relaxed: it is only told.
#[derive(Debug)]
pub(crate) struct Refusal(AtomicU64);

impl Refusal {
    pub fn none() -> Refusal {
        Refusal(AtomicU64::new(0))
    }

    /// The system has refused this way.
    pub fn note(&self, way: AsyncIo, error: &io::Error) {
        let errno = error.raw_os_error().map_or(0, i32::unsigned_abs);
        let packed = ((way as u64 + 1) << 32) | u64::from(errno);
        self.0.store(packed, Ordering::Relaxed);
    }

    /// What was refused is tried again.
    pub fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    pub fn told(&self) -> Option<Refused> {
        let packed = self.0.load(Ordering::Relaxed);
        let way = usize::try_from(packed >> 32).ok()?.checked_sub(1)?;
        Some(Refused {
            way: *AsyncIo::ALL.get(way)?,
            errno: i32::try_from(packed & u64::from(u32::MAX)).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_refusal_is_told() {
        let refusal = Refusal::none();
        assert_eq!(refusal.told(), None);
        for (way, errno) in AsyncIo::ALL.into_iter().zip([1, 95, 22, 38]) {
            refusal.note(way, &io::Error::from_raw_os_error(errno));
            assert_eq!(refusal.told(), Some(Refused { way, errno }));
        }
        refusal.note(AsyncIo::Interrupt, &io::ErrorKind::Unsupported.into());
        let (way, errno) = (AsyncIo::Interrupt, 0);
        assert_eq!(refusal.told(), Some(Refused { way, errno }));
        refusal.forget();
        assert_eq!(refusal.told(), None);
    }
}
