//! The README and the chapters of the book, so that their code blocks are compiled and run.

#[doc = include_str!("../README.md")]
#[doc(hidden)]
pub mod readme {}

#[doc = include_str!("../book/src/guides/first-steps.md")]
#[doc(hidden)]
pub mod first_steps {}

#[doc = include_str!("../book/src/guides/own-data.md")]
#[doc(hidden)]
pub mod own_data {}
