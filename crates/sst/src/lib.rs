//! Tables and blob files on SSD: blocks, filters, indexes, writer and reader (design §8). Empty
//! until the SSD tier is built.
#![forbid(unsafe_code)]
