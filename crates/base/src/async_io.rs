//! How asynchronous reads reach the device.

/// How the reads of futures are made. What the operating system refuses falls back to the next simpler way, and the
/// store's metrics say which one is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum AsyncIo {
    /// `io_uring`: the device interrupts when a read is done.
    #[default]
    Interrupt,
    /// As [`AsyncIo::Interrupt`], and a thread of the kernel polls for new reads.
    Sqpoll,
    /// `io_uring`: the device is polled until a read is done. It needs direct I/O, and a device with queues for it.
    Iopoll,
    /// Threads that wait for one read each.
    Threads,
}

impl AsyncIo {
    /// All of them, by their places among [`ASYNC_IO`](crate::options::ASYNC_IO).
    pub const ALL: [AsyncIo; 4] = [
        AsyncIo::Interrupt,
        AsyncIo::Sqpoll,
        AsyncIo::Iopoll,
        AsyncIo::Threads,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        crate::options::ASYNC_IO[self as usize]
    }
}
