//! Where the time goes: what the training loop waited for, and what each part did.

pub(crate) mod cause;
pub(crate) mod charge;
#[cfg(feature = "metrics")]
pub(crate) mod export;
pub(crate) mod fetch;
pub(crate) mod ledger;
pub(crate) mod report;
pub(crate) mod summary;
pub(crate) mod trace;
pub(crate) mod verdict;
