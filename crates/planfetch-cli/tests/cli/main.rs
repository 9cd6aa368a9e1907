//! The program, run as people run it: a process, its output, and its exit code.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod cache;
mod config;
mod example;
mod help;
mod index;
mod interrupt;
mod plan;
mod preview;
mod report;
mod speedtest;
mod support;
