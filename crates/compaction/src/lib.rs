//! One scheduler for all background work: cost models, pickers, merging, jobs, back-pressure
//! (design §9). Empty until there is more than one tier to move data between.
#![forbid(unsafe_code)]
