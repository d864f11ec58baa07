//! Coroutines and block I/O: the executor, io_uring and its thread fallback, aligned buffers and
//! the I/O budget (design §9). Empty until the SSD tier needs it; the wall stands so that no
//! other crate grows its own threads or I/O loops in the meantime.
#![forbid(unsafe_code)]
