//! Users of the facade in other languages: the C ABI and what is built on it. Empty
//! until the facade is complete.
#![forbid(unsafe_code)]
