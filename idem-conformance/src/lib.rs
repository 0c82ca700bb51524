//! idem-conformance
