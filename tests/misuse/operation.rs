//! An operation ends once, by value, and only the library says that it has. Whether it may run twice is said, not assumed.

use idem::{Completed, Error, Operation, Policy, StoredResponse};

pub(crate) async fn ends_once(op: Operation) -> Result<Completed, Error> {
    let done = op.complete(StoredResponse::new(201, "charged")?).await?;
    #[cfg(misuse)]
    op.complete(StoredResponse::new(201, "charged")?).await?; //~ E0382
    Ok(done)
}

pub(crate) async fn is_over_after_its_end(op: Operation) -> Result<Completed, Error> {
    let fence = op.fence();
    let done = op.complete(StoredResponse::json(201, &fence.token)?).await?;
    #[cfg(misuse)]
    op.lost().await; //~ E0382
    Ok(done)
}

pub(crate) async fn has_one_owner(op: Operation) -> Result<Completed, Error> {
    #[cfg(misuse)]
    let other = op.clone(); //~ E0599
    op.complete(StoredResponse::new(201, "charged")?).await
}

#[cfg(forgery)]
pub(crate) fn forges_its_end() -> Completed {
    Completed { _private: () } //~ E0451
}

pub(crate) fn says_what_a_crash_means() -> [Policy; 2] {
    #[cfg(misuse)]
    let policy = Policy::default(); //~ E0599
    [Policy::resumable(), Policy::opaque()]
}
