//! Every call that writes, with the record it needs and the statement that does it.

use std::time::Duration;

use idem_core::{
    Claim, ClaimOutcome, ClaimRequest, Decision, KeyStore, Maintain, Origin, Record, Rerun, StoreError,
};
use idem_postgres::PostgresStore;

use super::{
    Rig,
    calls::{LEASE, LONG, RETENTION, answer, claimed, fresh, id, point, request},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    New,
    TakenOver,
    Retried,
    Expired,
    Reissued,
    Renew,
    Checkpoint,
    Complete,
    Release,
    Resolve,
}

impl Act {
    pub const ALL: [Self; 10] = [
        Self::New,
        Self::TakenOver,
        Self::Retried,
        Self::Expired,
        Self::Reissued,
        Self::Renew,
        Self::Checkpoint,
        Self::Complete,
        Self::Release,
        Self::Resolve,
    ];

    /// The name of the statement that writes.
    pub fn statement(self) -> &'static str {
        match self {
            Self::New => "claim",
            Self::TakenOver | Self::Retried => "take",
            Self::Expired => "wipe",
            Self::Reissued => "reissue",
            Self::Renew => "renew",
            Self::Checkpoint => "checkpoint",
            Self::Complete => "complete",
            Self::Release => "release",
            Self::Resolve => "resolve",
        }
    }

    /// What a claim answers that is this act.
    fn origin(self) -> Option<Origin> {
        match self {
            Self::New => Some(Origin::New),
            Self::TakenOver => Some(Origin::TakenOver),
            Self::Retried => Some(Origin::Retried),
            Self::Expired => Some(Origin::Expired),
            Self::Reissued => Some(Origin::Reissued),
            Self::Renew | Self::Checkpoint | Self::Complete | Self::Release | Self::Resolve => None,
        }
    }
}

/// A record in the state in which `act` does something, and what the call needs.
pub struct Scene {
    pub act: Act,
    pub key: String,
    means: Means,
}

enum Means {
    Request(ClaimRequest),
    Claim(Claim),
    Seen(Box<Record>),
}

impl Scene {
    pub async fn of(rig: &Rig, act: Act, key: &str) -> Self {
        let store = &rig.store;
        let means = match act {
            Act::New => Means::Request(request(key)),
            Act::TakenOver => {
                let _crashed = fresh(store, key).await;
                rig.elapse(LEASE).await;
                Means::Request(request(key))
            }
            Act::Retried => {
                let claim = fresh(store, key).await;
                store.release(&claim, RETENTION).await.expect("a release");
                Means::Request(request(key))
            }
            Act::Expired => {
                let claim = fresh(store, key).await;
                store.complete(&claim, &answer(), RETENTION).await.expect("it completes");
                rig.elapse(LONG).await;
                Means::Request(request(key))
            }
            Act::Reissued => {
                let request = request(key);
                let _unheard = claimed(store.claim(&request).await);
                Means::Request(request)
            }
            Act::Renew | Act::Checkpoint | Act::Complete | Act::Release => {
                Means::Claim(fresh(store, key).await)
            }
            Act::Resolve => {
                let claim = fresh(store, key).await;
                store.checkpoint(&claim, &point(1), Rerun::Never).await.expect("a mark");
                rig.elapse(LEASE).await;
                let seen = store.find(&id(key)).await.expect("it is found").expect("it is there");
                Means::Seen(Box::new(seen))
            }
        };
        Self { act, key: key.to_owned(), means }
    }

    /// Makes the call; a claim's answer is checked for being this act, or, where it was made `again`, the re-issue of it.
    pub async fn call(&self, store: &PostgresStore, again: bool) -> Result<(), StoreError> {
        let origin = self.send(store).await?;
        let expected = if again { self.act.origin().map(|_| Origin::Reissued) } else { self.act.origin() };
        assert_eq!(origin, expected, "{:?}", self.act);
        Ok(())
    }

    /// Makes a call of which nobody knows whether it happened before.
    pub async fn settle(&self, store: &PostgresStore) -> Result<(), StoreError> {
        let origin = self.send(store).await?;
        assert!(
            origin == self.act.origin() || origin == Some(Origin::Reissued),
            "{:?}: {origin:?}",
            self.act
        );
        Ok(())
    }

    async fn send(&self, store: &PostgresStore) -> Result<Option<Origin>, StoreError> {
        let written = match (&self.means, self.act) {
            (Means::Request(request), act) => {
                let outcome = store.claim(request).await?;
                let ClaimOutcome::Claimed(claim) = outcome else { panic!("{act:?}: {outcome:?}") };
                let record = store.find(&id(&self.key)).await?.expect("a claim leaves a record");
                let fence = (record.operation, record.token, record.attempt);
                assert_eq!(fence, (claim.fence().operation, claim.fence().token, request.attempt), "{act:?}");
                return Ok(Some(claim.origin()));
            }
            (Means::Claim(claim), Act::Renew) => store.renew(claim, LEASE * 2).await,
            (Means::Claim(claim), Act::Checkpoint) => {
                store.checkpoint(claim, &point(1), Rerun::Until(RETENTION)).await
            }
            (Means::Claim(claim), Act::Release) => store.release(claim, RETENTION).await,
            (Means::Claim(claim), _) => store.complete(claim, &answer(), RETENTION).await,
            (Means::Seen(seen), _) => {
                store.resolve(seen, &Decision::Complete(answer()), Duration::from_hours(1)).await
            }
        };
        written.map(|()| None)
    }

    /// Lets the record go on without the call: somebody else owns or decides it afterwards.
    pub async fn overtake(&self, rig: &Rig) {
        match (&self.means, self.act) {
            (_, Act::New | Act::TakenOver | Act::Retried | Act::Expired) => {}
            (Means::Seen(seen), _) => {
                let decided = rig.store.resolve(seen, &Decision::Resume(point(2)), RETENTION).await;
                return decided.expect("the first decision counts");
            }
            (Means::Request(_) | Means::Claim(_), _) => rig.elapse(LEASE).await,
        }
        let _other = claimed(rig.store.claim(&request(&self.key)).await);
    }

    pub async fn record(&self, rig: &Rig) -> Option<Record> {
        rig.store.find(&id(&self.key)).await.expect("it is found")
    }
}
