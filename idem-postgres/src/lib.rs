//! idem-postgres
