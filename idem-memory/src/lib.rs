//! idem-memory
