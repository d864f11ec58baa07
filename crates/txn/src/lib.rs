//! Isolation: locks, deadlock detection, optimistic validation (design §12). Empty until
//! snapshots exist; a write batch is the unit of atomicity today.
#![forbid(unsafe_code)]
