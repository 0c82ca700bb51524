//! Copies idem-core, with the faults that its scenarios must find.

fn main() {
    rewrite::copy("idem-core", "tokio::std", &[], &[]);
}
