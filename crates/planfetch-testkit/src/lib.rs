//! What planfetch's tests stand on: an S3 server with faults and counters, and fixtures.
//!
//! ```
//! use planfetch_testkit::S3Server;
//!
//! let server = S3Server::start();
//! server.put("pets", "cat.txt", b"meow");
//! assert!(server.endpoint().starts_with("http://127.0.0.1:"));
//! assert_eq!(server.counts().requests, 0);
//! ```
//!
//! - [`S3Server`] speaks the real protocol over real HTTP, checks request signatures, and counts.
//! - [`Fault`] is what can go wrong, [`FaultRule`] says when and for which objects.
//! - [`fixtures`] makes images and indexes.
//! - [`kill_after_lines`] kills a program in the middle of its work.
//! - [`eventually`] waits for what other threads do, on a machine that may be busy.
//!
//! It is for tests and benchmarks: its functions panic when the test machine fails them.

#![expect(clippy::missing_panics_doc, reason = "everything here panics when the test machine fails it")]

mod fault;
mod fault_body;
pub mod fixtures;
mod kill;
mod memory_store;
mod server;
mod wait;

pub use crate::fault::{Fault, FaultRule, Occurrence};
pub use crate::kill::{kill_after_lines, random_steps};
pub use crate::server::{ACCESS_KEY, Counts, S3Server, SECRET_KEY};
pub use crate::wait::{eventually, pause};
