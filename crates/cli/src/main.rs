//! The command line of Thermocline.
fn main() {}
