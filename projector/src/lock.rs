//! Locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a value that is never left half-changed, even by a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
