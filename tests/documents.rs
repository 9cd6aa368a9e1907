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

#[doc = include_str!("../book/src/guides/resume.md")]
#[doc(hidden)]
pub mod resume {}

#[doc = include_str!("../book/src/guides/several-gpus.md")]
#[doc(hidden)]
pub mod several_gpus {}

#[doc = include_str!("../book/src/guides/augmentation.md")]
#[doc(hidden)]
pub mod augmentation {}

#[doc = include_str!("../book/src/guides/imagenet.md")]
#[doc(hidden)]
pub mod imagenet {}

#[doc = include_str!("../book/src/guides/class-balance.md")]
#[doc(hidden)]
pub mod class_balance {}

#[doc = include_str!("../book/src/guides/validation.md")]
#[doc(hidden)]
pub mod validation {}

#[doc = include_str!("../book/src/guides/sizing.md")]
#[doc(hidden)]
pub mod sizing {}
