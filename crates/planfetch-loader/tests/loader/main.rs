//! The loader as a whole, on samples without objects: order, resume, errors, ranks, settings.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod checkpoint;
mod collates;
mod on_error;
mod parts;
mod peek;
mod ranks;
mod resume;
mod settings;
mod support;
