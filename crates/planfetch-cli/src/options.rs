//! Groups of options that commands share. A group is a table of the settings file; see `config`.

mod cache;
mod images;
mod plan;
mod source;
mod store;
mod window;

pub(crate) use cache::{CacheOptions, OpenCache};
pub(crate) use images::ImageOptions;
pub(crate) use plan::{PlanOptions, Strategy};
pub(crate) use source::{Selected, SourceOptions, is_table};
pub(crate) use store::StoreOptions;
pub(crate) use window::WindowOptions;

// Clap takes a comment on a group for the description of the command that it is part of, so groups have none.
