//! What goes when room is needed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{CacheError, CacheErrorKind};

/// Which local files go, and when.
///
/// A file that a guard keeps never goes, whatever the mode.
///
/// # Example
///
/// ```
/// use planfetch_cache::EvictionMode;
///
/// assert_eq!("clairvoyant".parse::<EvictionMode>()?, EvictionMode::Clairvoyant);
/// assert_eq!(EvictionMode::default().to_string(), "window");
/// # Ok::<(), planfetch_cache::CacheError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum EvictionMode {
    /// A file goes as soon as its last [`PrefetchGuard`](crate::PrefetchGuard) gives it up: the disk holds the window
    /// and little else. For data that does not fit the disk by far.
    ///
    /// Files that no guard ever held, as those of an earlier run and those of samples that stand in for others, go when the limit asks for it, the least recently
    /// used first.
    #[default]
    Window,
    /// Files stay until the limit is reached; then the least recently used go. For data that fits the disk, and for
    /// validation data that is read in the same order again and again while it fits.
    Pressure,
    /// Files stay until the limit is reached; then those go whose next use lies farthest in the future, as
    /// [`NextUse`] says: the policy that no other can beat (L. A. Belady, "A study of replacement algorithms for a
    /// virtual-storage computer", IBM Systems Journal, 1966). For data that fits the disk in part.
    Clairvoyant,
}

impl EvictionMode {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Window, "window"), (Self::Pressure, "pressure"), (Self::Clairvoyant, "clairvoyant")];
}

impl fmt::Display for EvictionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(mode, _)| mode == self).map_or("?", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for EvictionMode {
    type Err = CacheError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(mode, _)| *mode).ok_or_else(|| {
            CacheError::new(
                CacheErrorKind::InvalidSetting,
                format!("there is no eviction mode {text:?}; use window, pressure or clairvoyant"),
            )
        })
    }
}

/// When an object is used next, for [`EvictionMode::Clairvoyant`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum NextUse {
    /// At this place in an order that the caller keeps: any number that grows with time, such as
    /// `epoch * num_samples + position`. Numbers of 2^63 and more count as 2^63 - 1.
    At(u64),
    /// Never, or nobody knows. Such an object goes before all others.
    #[default]
    Unknown,
}

/// How much of the disk a cache may take.
///
/// # Example
///
/// ```
/// use planfetch_cache::{CacheLimit, CacheSettings};
///
/// let settings = CacheSettings { limit: CacheLimit::TotalSize(900_000_000_000), ..CacheSettings::default() };
/// assert_ne!(settings.limit, CacheLimit::Unlimited);
/// ```
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheLimit {
    /// As much as there is. What the disk refuses is read from the store into memory.
    #[default]
    Unlimited,
    /// This many bytes of objects, those on their way included.
    TotalSize(u64),
    /// As much as leaves this share of the file system free, whoever fills the rest.
    AvailableSpace {
        /// The share that stays free, in 0..1: 0.1 is a tenth.
        min_ratio: f64,
    },
}
