//! A file that is written once, from its beginning to its end.

use std::path::Path;
use std::sync::Arc;

use thermocline_base::planted::{self, Bug};
use thermocline_base::{Error, Result, Site};
use thermocline_env::meter::Meter;
use thermocline_env::{File, OpenMode, Storage};

/// Bytes that are collected before they are written, unless somebody wants more or less.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// Collects bytes and writes them in large pieces at offsets that are multiples of a piece, but for the
/// one that follows a sync.
///
/// After a failed write or sync nothing is known of the file, and every later call fails.
#[derive(Debug)]
pub(crate) struct Output {
    file: Arc<dyn File>,
    /// Bytes of the file that are written.
    written: u64,
    pending: Vec<u8>,
    /// Bytes of a piece.
    chunk: usize,
    failed: bool,
    /// Counts the time of writing, for a job.
    meter: Option<Arc<Meter>>,
}

impl Output {
    /// Makes the file, which must not exist, to be written in pieces of `chunk` bytes.
    pub fn create(storage: &dyn Storage, path: &Path, chunk: usize) -> Result<Output> {
        Ok(Output {
            file: storage.open(path, OpenMode::CreateNew)?,
            written: 0,
            pending: Vec::new(),
            chunk,
            failed: false,
            meter: None,
        })
    }

    /// Counts from now on how long writing takes.
    pub fn metered(&mut self, meter: Arc<Meter>) {
        self.meter = Some(meter);
    }

    /// Writes from now on into the file that `wrap` makes of its own.
    pub fn wrap(&mut self, wrap: impl FnOnce(Arc<dyn File>) -> Arc<dyn File>) {
        self.file = wrap(self.file.clone());
    }

    fn write(&self, bytes: &[u8]) -> Result<()> {
        let write = || self.file.write_at(bytes, self.written);
        match &self.meter {
            Some(meter) => meter.writing(write),
            None => write(),
        }
    }

    pub fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// Where the next byte will lie.
    pub fn len(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.pending.capacity()
    }

    /// Fails if an earlier call did.
    pub fn check(&self) -> Result<()> {
        if self.failed {
            let path = self.file.path().display();
            return Err(Error::Poisoned(format!("a write to {path} failed")));
        }
        Ok(())
    }

    fn noted<T>(&mut self, answer: Result<T>) -> Result<T> {
        self.failed |= answer.is_err();
        answer
    }

    pub fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.check()?;
        // After a sync the next piece is a shorter one, and those behind it begin at multiples again.
        let past = usize::try_from(self.written % self.chunk as u64).expect("less than a piece");
        let mut piece = self.chunk - past;
        while self.pending.len() + bytes.len() >= piece {
            let (now, later) = bytes.split_at(piece - self.pending.len());
            piece = self.chunk;
            bytes = later;
            if self.pending.is_empty() {
                let answer = self.write(now);
                self.noted(answer)?;
                self.written += now.len() as u64;
            } else {
                self.pending.extend_from_slice(now);
                self.flush()?;
            }
        }
        self.pending.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends zeros.
    pub fn pad(&mut self, len: usize) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        self.append(&ZEROS[..len])
    }

    /// Writes what is collected.
    pub fn flush(&mut self) -> Result<()> {
        self.check()?;
        if !self.pending.is_empty() {
            let answer = self.write(&self.pending);
            self.noted(answer)?;
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        Ok(())
    }

    /// Writes what is collected and makes it all durable.
    pub fn sync(&mut self, site: Site) -> Result<()> {
        self.flush()?;
        if planted::active(Bug::ForgetTableSync) {
            return Ok(());
        }
        let sync = || self.file.sync(site);
        let answer = match &self.meter {
            Some(meter) => meter.syncing(sync),
            None => sync(),
        };
        self.noted(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use thermocline_base::Steps;
    use thermocline_base::stages::Stages;
    use thermocline_base::sync::{AtomicU64, Ordering};
    use thermocline_env::Clock;
    use thermocline_env::sim::SimFs;
    use thermocline_testkit::Rng;

    /// A clock on which nothing takes longer than to look at it.
    #[derive(Debug, Default)]
    struct Looks(AtomicU64);

    impl Clock for Looks {
        fn now_ns(&self) -> u64 {
            self.0.fetch_add(1, Ordering::Relaxed)
        }
        fn sleep_ms(&self, _: u64) {}
        fn unix_s(&self) -> u64 {
            0
        }
    }

    #[test]
    fn writes_and_syncs_are_metered() {
        let fs = SimFs::new(Steps::new());
        let meter = Arc::new(Meter::new(Arc::new(Looks::default())));
        let mut out = Output::create(&fs, Path::new("/file"), 10).unwrap();
        out.append(&[1; 25]).unwrap();
        out.metered(meter.clone());
        let spent = |writes, syncs| Stages {
            writing: Duration::from_nanos(writes),
            syncing: Duration::from_nanos(syncs),
            ..Stages::default()
        };
        out.append(&[1; 4]).unwrap();
        assert_eq!(meter.stages(), spent(0, 0));
        out.append(&[1; 12]).unwrap();
        assert_eq!(meter.stages(), spent(2, 0));
        out.sync(Site("test")).unwrap();
        out.sync(Site("test")).unwrap();
        assert_eq!(meter.stages(), spent(3, 2));
    }

    #[test]
    fn pieces_begin_at_multiples_again_after_a_sync() {
        let path = Path::new("/file");
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let fs = SimFs::new(Steps::new());
            let mut out = Output::create(&fs, path, CHUNK_BYTES).unwrap();
            let (mut all, mut synced) = (Vec::new(), 0);
            for _ in 0..40 {
                let most = 1 << rng.below(20);
                let len = rng.below(most);
                let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64().to_le_bytes()[0]).collect();
                out.append(&bytes).unwrap();
                all.extend_from_slice(&bytes);
                assert_eq!(out.len(), all.len() as u64);
                let whole = out.written.is_multiple_of(CHUNK_BYTES as u64);
                assert!(whole || out.written == synced, "at {}", out.written);
                if rng.one_in(4) {
                    out.sync(Site("test")).unwrap();
                    synced = out.written;
                    assert_eq!(synced, all.len() as u64);
                }
            }
            out.flush().unwrap();
            assert_eq!(fs.contents(path).unwrap(), all);
        }
    }
}
