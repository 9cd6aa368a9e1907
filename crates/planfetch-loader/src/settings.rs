//! What can be set about a loader.

use std::fmt;
use std::time::Duration;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::depth::Depth;
use crate::error::LoaderError;
use crate::on_error::OnError;

/// How a [`PrefetchingLoader`](crate::PrefetchingLoader) works ahead.
///
/// None of these settings changes which samples come in which order, or their bytes, but `on_error` where samples fail,
/// and `in_order: false`, which gives up the order of batches.
///
/// # Example
///
/// ```
/// use planfetch_loader::LoaderSettings;
///
/// let settings = LoaderSettings { num_workers: 8, batches_ahead: 400.into(), ..LoaderSettings::default() };
/// assert_eq!(settings.batches_back, 4);
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoaderSettings {
    /// The number of threads that decode. Default: the number of cores this process may use.
    ///
    /// 0 decodes on the thread that takes the batches, one sample after the other, which is for debugging.
    pub num_workers: usize,
    /// How many batches may be decoded, or be in decoding, before they are taken; all workers together. Default: 4.
    ///
    /// PyTorch's setting of this name counts per worker. Each costs the memory of a batch; too few leave workers idle
    /// while the first sample of a batch is waited for.
    pub prefetch_factor: usize,
    /// How many batches ahead of the reader objects are downloaded. Default: 200.
    ///
    /// It must cover the store's latency and its bad moments: at 10 batches a second, 200 are 20 seconds.
    /// Each costs the disk space of a batch's objects. [`BatchesAhead::Auto`] finds the number out.
    pub batches_ahead: BatchesAhead,
    /// How many bytes the objects in the window may take on disk. Default: no limit.
    ///
    /// It holds where sizes are known ([`ObjectUris::object_size`](crate::ObjectUris::object_size)), on each rank. The
    /// window then ends before it exceeds the limit, after what lies behind the reader has made room; where one batch
    /// alone exceeds it, batches are fetched one at a time, with one warning.
    pub max_ahead_bytes: Option<u64>,
    /// How many batches behind the reader stay on disk. Default: 4.
    pub batches_back: usize,
    /// After how many batches what has left the window is deleted. Default: 5.
    ///
    /// 1 keeps the disk as empty as possible; more deletes in larger groups, which costs less.
    pub prune_every: usize,
    /// How many epochs there will be, if that is known: nothing is prefetched beyond the last. Default: unknown.
    ///
    /// While it is unknown, the loader goes on into the next epoch's plan as one ends, so that the next begins at once.
    pub num_epochs: Option<u64>,
    /// What becomes of a sample that can't be loaded. Default: [`OnError::Fail`].
    pub on_error: OnError,
    /// How long a call waits for a batch before it returns [`LoaderError::Timeout`]. Default: as long as it takes.
    ///
    /// A limit tells a run that hangs from one that is slow. Too short a limit ends runs that only start up: the first
    /// batch comes when the store has answered. With `num_workers: 0` it is an error: then the call itself makes the
    /// batch.
    pub timeout: Option<Duration>,
    /// Whether batches come in plan order. Default: true.
    ///
    /// `false` gives whichever batch of the epoch is finished first, so that one slow object holds up one batch and no
    /// other; every batch still comes once an epoch. Then the order depends on timing, and a
    /// [`LoaderState`](crate::LoaderState) belongs to its rank.
    pub in_order: bool,
    /// How many bytes the batches that `prefetch_factor` counts may take together. Default: no limit.
    ///
    /// It holds where the collate tells the size of a batch ([`Collate::num_bytes`](crate::Collate::num_bytes)), from
    /// the first one on, which is made alone; one that is larger than those before may exceed it. A limit below the size
    /// of one batch leaves one at a time.
    pub max_batch_bytes: Option<u64>,
}

/// How many batches ahead of the reader objects are downloaded.
///
/// In a file of settings it is a number, or `"auto"`.
///
/// # Example
///
/// ```
/// use planfetch_loader::{BatchesAhead, LoaderSettings};
///
/// let settings: LoaderSettings = serde_json::from_str(r#"{"batches_ahead": "auto"}"#)?;
/// assert_eq!(settings.batches_ahead, BatchesAhead::Auto);
/// assert_eq!(BatchesAhead::default(), 200.into());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BatchesAhead {
    /// As many as the latency of the store and the pace of the training loop ask for, from 16 to 2,000.
    ///
    /// By Little's law, what must be under way is the pace times the latency. Both are measured at batches whose objects
    /// were late, and twice that is kept; where objects are late all the same, it grows by half, and where none was late
    /// for a while, it shrinks by a sixteenth. So a run begins with some late batches, which a fixed number avoids.
    Auto,
    /// This many, at least 1.
    Fixed(usize),
}

impl BatchesAhead {
    /// Returns how many they are before anything is measured.
    pub(crate) fn initial(self) -> usize {
        match self {
            Self::Auto => Depth::MIN,
            Self::Fixed(batches) => batches,
        }
    }
}

impl Default for BatchesAhead {
    fn default() -> Self {
        Self::Fixed(200)
    }
}

impl From<usize> for BatchesAhead {
    fn from(batches: usize) -> Self {
        Self::Fixed(batches)
    }
}

/// A number, or the word `auto`.
impl Serialize for BatchesAhead {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Auto => serializer.serialize_str(AUTO),
            // OK because an index fits in 64 bits.
            Self::Fixed(batches) => serializer.serialize_u64(batches as u64),
        }
    }
}

impl<'de> Deserialize<'de> for BatchesAhead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BatchesAheadVisitor)
    }
}

const AUTO: &str = "auto";

struct BatchesAheadVisitor;

impl Visitor<'_> for BatchesAheadVisitor {
    type Value = BatchesAhead;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number of batches of at least 1, or {AUTO:?}")
    }

    fn visit_u64<E: serde::de::Error>(self, batches: u64) -> Result<BatchesAhead, E> {
        let batches = usize::try_from(batches).map_err(|_| E::invalid_value(Unexpected::Unsigned(batches), &self))?;
        Ok(BatchesAhead::Fixed(batches))
    }

    fn visit_i64<E: serde::de::Error>(self, batches: i64) -> Result<BatchesAhead, E> {
        let number = u64::try_from(batches).map_err(|_| E::invalid_value(Unexpected::Signed(batches), &self))?;
        self.visit_u64(number)
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<BatchesAhead, E> {
        if word == AUTO { Ok(BatchesAhead::Auto) } else { Err(E::invalid_value(Unexpected::Str(word), &self)) }
    }
}

impl Default for LoaderSettings {
    fn default() -> Self {
        Self {
            num_workers: std::thread::available_parallelism().map_or(2, usize::from),
            prefetch_factor: 4,
            batches_ahead: BatchesAhead::default(),
            max_ahead_bytes: None,
            batches_back: 4,
            prune_every: 5,
            num_epochs: None,
            on_error: OnError::default(),
            timeout: None,
            in_order: true,
            max_batch_bytes: None,
        }
    }
}

impl LoaderSettings {
    pub(crate) fn validate(&self) -> Result<(), LoaderError> {
        let ranges = [
            ("num_workers", self.num_workers, 0, 4_096),
            ("prefetch_factor", self.prefetch_factor, 1, 4_096),
            ("batches_ahead", self.batches_ahead.initial(), 1, 100_000_000),
            ("batches_back", self.batches_back, 0, 100_000_000),
            ("prune_every", self.prune_every, 1, 100_000_000),
        ];
        for (name, value, min, max) in ranges {
            if !(min..=max).contains(&value) {
                return Err(setting(name, value, format!("must lie in {min}..={max}")));
            }
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(setting("timeout", 0, "must be longer than 0"));
        }
        if self.num_workers == 0
            && let Some(timeout) = self.timeout
        {
            let problem = format!(
                "timeout is {timeout:?}, but with num_workers: 0 the call that waits makes the batch itself; leave timeout \
                 out, or set num_workers to 1 or more"
            );
            return Err(LoaderError::Mismatch { problem });
        }
        for (name, bytes) in [("max_batch_bytes", self.max_batch_bytes), ("max_ahead_bytes", self.max_ahead_bytes)] {
            if bytes == Some(0) {
                return Err(setting(name, 0, "must be at least 1"));
            }
        }
        Ok(())
    }
}

fn setting(name: &'static str, value: usize, allowed: impl Into<String>) -> LoaderError {
    LoaderError::Setting { name, value: value.to_string(), allowed: allowed.into() }
}
