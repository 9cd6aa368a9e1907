//! What a data set holds: object URIs with labels, packed, from whatever lists them.
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
//! - [`UriList`] keeps the URIs in one buffer, in a few bytes each.
//!
//! # Where an index comes from
//!
//! | source | function |
//! | --- | --- |
//! | CSV and TSV, also compressed | [`load_index_csv`], [`read_index_csv`] |
//! | Parquet (feature `arrow`) | `load_index_parquet` |
//! | Arrow record batches (feature `arrow`) | `read_index_batches` |
//! | a folder `root/<class>/<file>` | [`load_index_folder`] |
//! | the same in a bucket (feature `object_store`) | `list_index` |
//! | an index that was saved | [`SampleIndex::load`], [`SampleIndex::from_bytes`] |
//! | an iterator of URIs and labels | [`SampleIndex::from_rows`] |
//! | anything else, row by row | [`IndexBuilder`] |
//!
//! # What can be done with it
//!
//! [`filter`](SampleIndex::filter), [`select`](SampleIndex::select), [`concat`](SampleIndex::concat) and
//! [`split`](SampleIndex::split) make indices of indices, [`with_classes_of`](SampleIndex::with_classes_of) has
//! validation samples labelled as training samples are, [`describe`](SampleIndex::describe) says what one holds and
//! how fast S3 can serve it, and [`save`](SampleIndex::save) writes it so that it loads in a moment.
//!
//! # What a URI is
//!
//! A scheme, `://`, and the rest, byte for byte: nothing is percent-decoded or normalised, so that
//! `s3://bucket/a b%20~#é.jpg` names the key `a b%20~#é.jpg` and no other.
//! A local file is `file://` and its absolute path: `file:///data/cat.jpg`.
//! In a table, what has no scheme is a path relative to where the table lies, or to [`ColumnSettings::base`]; there, `.`
//! and `..` are resolved.
//!
//! # What it does not do
//!
//! It opens no object and checks no URI against a store; a [cache](https://docs.rs/planfetch-cache) does.
//!
//! # Features
//!
//! | feature | default | what it brings |
//! | --- | --- | --- |
//! | `gzip` | yes | CSV compressed with gzip (flate2) |
//! | `zstd` | yes | CSV compressed with Zstandard (ruzstd) |
//! | `arrow` | no | Parquet files, plain or compressed with Snappy, and Arrow record batches |
//! | `parquet-zstd` | no | Parquet files compressed with Zstandard; builds zstd, which is in C |
//! | `object_store` | no | listing a bucket |

#[cfg(feature = "arrow")]
mod arrow;
mod csv;
mod error;
mod folder;
mod labels;
mod sample_index;
mod table;
mod uri;
mod uri_list;

#[cfg(feature = "arrow")]
pub use crate::arrow::{load_index_parquet, read_index_batches};
pub use crate::csv::{CsvSettings, load_index_csv, read_index_csv};
pub use crate::error::IndexError;
#[cfg(feature = "object_store")]
pub use crate::folder::list_index;
pub use crate::folder::{FolderSettings, load_index_folder};
pub use crate::labels::LabelKind;
pub use crate::sample_index::{
    ClassCount, Description, IndexBuilder, PrefixSpread, SampleIndex, SampleRow, Split, SplitBy,
};
pub use crate::table::{ColumnSettings, RangeColumns};
pub use crate::uri_list::{UriCursor, UriList, UriSlice};
