//! How far an operation has come, and until when a new owner may run it again.

use std::{fmt, time::Duration};

use bytes::Bytes;

use crate::Invalid;

/// A committed note of how far an operation has come.
///
/// Checkpoints of one operation are numbered over all its owners, from 1; a store writes one only if its number is
/// higher than the last. So a late statement never undoes a later one.
///
/// **Source:** B. Leach, "Implementing Stripe-like Idempotency Keys in Postgres" (recovery points).
#[derive(Clone, PartialEq, Eq)]
pub struct RecoveryPoint {
    checkpoint: u64,
    name: String,
    data: Bytes,
}

impl RecoveryPoint {
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 255;
    /// The most data, in bytes: what a resumed run needs, not what it produced.
    pub const MAX_DATA: usize = 1 << 20;

    /// Checkpoint number `checkpoint`, reached at `name`, with what a resumed run needs.
    ///
    /// # Errors
    /// [`Invalid`] if the number is 0 or above `i64::MAX`, the name empty, longer than [`Self::MAX_NAME`] bytes or
    /// with a NUL, or the data larger than [`Self::MAX_DATA`] bytes.
    pub fn new(checkpoint: u64, name: impl Into<String>, data: impl Into<Bytes>) -> Result<Self, Invalid> {
        let (name, data) = (name.into(), data.into());
        if checkpoint == 0 || i64::try_from(checkpoint).is_err() {
            return Err(Invalid::new("checkpoint", "a number from 1 to i64::MAX").seen(checkpoint));
        }
        if name.is_empty() || name.len() > Self::MAX_NAME || name.contains('\0') {
            return Err(
                Invalid::new("recovery point name", "1 to 255 bytes of text without NUL").seen(name.len())
            );
        }
        if data.len() > Self::MAX_DATA {
            return Err(Invalid::new("recovery point data", "at most 1048576 bytes").seen(data.len()));
        }
        Ok(Self { checkpoint, name, data })
    }

    /// Its number among the checkpoints of the operation.
    pub fn checkpoint(&self) -> u64 {
        self.checkpoint
    }

    /// The point's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What a resumed run needs.
    pub fn data(&self) -> &Bytes {
        &self.data
    }
}

/// Shows the number and the name, never the data.
impl fmt::Debug for RecoveryPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryPoint")
            .field("checkpoint", &self.checkpoint)
            .field("name", &self.name)
            .field("data_bytes", &self.data.len())
            .finish()
    }
}

/// Until when a *new* owner may run the work again, as told with each checkpoint.
///
/// The engine marks an opaque handler with [`Never`](Self::Never) and takes a mark back with
/// [`Always`](Self::Always). The others are for effects that carry a key of the provider's, which remembers it for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rerun {
    /// Any time: no effect is open.
    Always,
    /// Until this long after the store's now: the first mark of a keyed effect. The earlier of two ends wins.
    Until(Duration),
    /// Never: the first mark of an effect that carries no key.
    Never,
    /// As before: the mark of an effect that is already marked. Refused with `TooLate` once that time is over.
    Again,
    /// As before: a result is recorded while another mark is open. It never raises.
    Keep,
}
