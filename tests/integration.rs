//! What holds across crates.

mod determinism;
mod e2e;
mod faults;
mod restart;
mod support;
mod tidy;
