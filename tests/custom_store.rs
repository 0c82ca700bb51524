//! The example of a store of one's own passes the suite that it carries.

#[path = "../examples/custom_store.rs"]
#[expect(dead_code, reason = "its main shows the store at work, which is not needed here")]
mod custom_store;
