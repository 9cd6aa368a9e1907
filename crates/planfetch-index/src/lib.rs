//! What a data set holds: object URIs with labels, packed, read from CSV.
//!
//! ```
//! use planfetch_index::{CsvSettings, read_index_csv};
//!
//! let csv = "s3_uri,label\ns3://photos/cat/1.jpg,0\ns3://photos/dog/1.jpg,1\n";
//! let index = read_index_csv(csv.as_bytes(), "train.csv", &CsvSettings::default())?;
//! assert_eq!(index.len(), 2);
//! assert_eq!(index.uri(1).as_deref(), Some("s3://photos/dog/1.jpg"));
//! assert_eq!(index.label(1), Some(1));
//! # Ok::<(), planfetch_index::IndexError>(())
//! ```
//!
//! - [`SampleIndex`] is the list of samples: row `i` is the sample with id `i`. A clone shares the rows.
//! - [`load_index_csv`] reads one from a file, [`read_index_csv`] from any reader,
//!   [`SampleIndex::from_rows`] from any iterator of URIs and labels.
//! - [`UriList`] keeps the URIs in one buffer.
//!
//! # What a URI is
//!
//! A scheme, `://`, and the rest, byte for byte: nothing is percent-decoded or normalised, so that
//! `s3://bucket/a b%20~#é.jpg` names the key `a b%20~#é.jpg` and no other.
//! A local file is `file://` and its absolute path: `file:///data/cat.jpg`.
//!
//! # What it does not do
//!
//! It opens no object and checks no URI against a store; a [cache](https://docs.rs/planfetch-cache) does.

mod csv;
mod error;
mod sample_index;
mod uri_list;

pub use crate::csv::{CsvSettings, LabelKind, load_index_csv, read_index_csv};
pub use crate::error::IndexError;
pub use crate::sample_index::SampleIndex;
pub use crate::uri_list::UriList;
