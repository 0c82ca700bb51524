//! `std`, with shuttle's locks and atomics and hashes that are the same in every run.

pub use ::std::*;

/// Whether a fault is switched on. Here, since the rewritten files know this module.
pub fn fault(name: &str) -> bool {
    crate::FAULT.get() == Some(name)
}

pub mod sync {
    pub use ::std::sync::{Arc, LazyLock, OnceLock, PoisonError};
    pub use shuttle::sync::{Mutex, MutexGuard, atomic};
}

pub mod hash {
    pub use ::std::hash::*;

    /// Not random: a schedule that is replayed must meet the same locks.
    pub type RandomState = BuildHasherDefault<DefaultHasher>;
}
