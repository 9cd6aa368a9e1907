//! Memory for pixels that is used again.

use std::cell::RefCell;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// How many vectors a thread keeps: a decoded image, and what two transforms in a row read and write.
const MAX_KEPT: usize = 4;
/// A vector with more bytes is given back to the allocator, so that one huge image does not stay for good.
const MAX_BYTES: usize = 64 << 20;

thread_local! {
    /// Vectors that nobody uses, on the thread that let go of them.
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Pixels. When they are dropped, their memory is kept for the next image of the same thread.
///
/// A worker decodes, transforms and collates a sample on one thread, so that after its first samples it asks the
/// allocator for no memory for pixels.
pub(crate) struct Pixels {
    // Invariant: `len <= bytes.len()`; what lies behind `len` is of earlier images.
    bytes: Vec<u8>,
    len: usize,
}

impl Pixels {
    /// Returns memory of `len` bytes with any content.
    pub(crate) fn uninit(len: usize) -> Self {
        let kept = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            // The smallest that is large enough, else the largest.
            let fits = |bytes: &Vec<u8>| {
                (bytes.len() < len, if bytes.len() < len { usize::MAX - bytes.len() } else { bytes.len() })
            };
            let best = (0..free.len()).min_by_key(|&i| fits(&free[i]))?;
            Some(free.swap_remove(best))
        });
        // Fails only while the thread ends.
        let mut bytes = kept.ok().flatten().unwrap_or_default();
        if bytes.len() < len {
            // Nothing of the old content is wanted, so growing need not copy it.
            if bytes.capacity() < len {
                bytes = Vec::new();
            }
            bytes.resize(len, 0);
        }
        Self { bytes, len }
    }

    /// Returns memory of `len` zeros, for a decoder: some leave parts of a damaged image unwritten, which must not show
    /// what was there before.
    pub(crate) fn zeroed(len: usize) -> Self {
        let mut pixels = Self::uninit(len);
        pixels.fill(0);
        pixels
    }

    pub(crate) fn into_vec(mut self) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.truncate(self.len);
        self.len = 0;
        bytes
    }
}

impl From<Vec<u8>> for Pixels {
    fn from(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        Self { bytes, len }
    }
}

impl Deref for Pixels {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl DerefMut for Pixels {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl Clone for Pixels {
    fn clone(&self) -> Self {
        let mut copy = Self::uninit(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl fmt::Debug for Pixels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

impl PartialEq for Pixels {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Pixels {}

impl Drop for Pixels {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() || MAX_BYTES < bytes.capacity() {
            return;
        }
        // OK because where the thread ends, the memory is freed.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < MAX_KEPT {
                free.push(bytes);
            } else if let Some(smallest) = free.iter_mut().min_by_key(|kept| kept.len())
                && smallest.len() < bytes.len()
            {
                *smallest = bytes;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_never_shared() {
        // On a thread of its own, where no other test has left anything.
        let thread = std::thread::spawn(|| {
            let first = Pixels::uninit(1_000);
            let address = first.as_ptr();
            drop(first);
            let smaller = Pixels::uninit(10);
            assert_eq!((smaller.as_ptr(), smaller.len()), (address, 10));
            assert_ne!(Pixels::uninit(1_000).as_ptr(), address);
            drop(smaller);
            // Of the two that are kept now, each request gets the one that fits best.
            drop(Pixels::from(vec![1; 50]));
            assert_eq!(Pixels::uninit(1_000).len(), 1_000);
            assert_eq!(Pixels::from(vec![7; 3]).into_vec(), [7; 3]);
        });
        thread.join().expect("no assertion failed");
    }

    #[test]
    fn a_huge_image_is_not_kept() {
        let thread = std::thread::spawn(|| {
            drop(Pixels::uninit(MAX_BYTES + 1));
            FREE.with_borrow(|free| assert!(free.is_empty()));
            for len in 1..=2 * MAX_KEPT {
                drop(Pixels::from(vec![0; len]));
            }
            FREE.with_borrow(|free| {
                let mut lens: Vec<_> = free.iter().map(Vec::len).collect();
                lens.sort_unstable();
                assert_eq!(lens, [5, 6, 7, 8]);
            });
        });
        thread.join().expect("no assertion failed");
    }
}
