//! What a walk does next, in words that mean something whatever was done before: no id that a store draws, and nothing
//! of an earlier call but "the current owner" or "the one before". So a walk can be cut short anywhere.

use std::{fmt, sync::LazyLock, time::Duration};

use idem_core::{ClaimOutcome, Key, KeyId, Origin, Rerun, Scope};

use crate::step::Reply;

/// One call, and through which handle of the store it is made.
#[derive(Clone)]
pub(super) struct Turn {
    pub(super) act: Act,
    pub(super) second: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Find(Name),
    Claim { id: Name, caller: Caller, asks: Asks, lease: Duration, retention: Duration },
    ClaimAgain { id: Name, back: usize },
    Renew { owner: Owner, lease: Duration },
    Checkpoint { owner: Owner, number: Number, point: &'static str, rerun: Rerun },
    Complete { owner: Owner, answer: Said, retention: Duration },
    Release { owner: Owner, retention: Duration },
    Resolve { seen: Sight, altered: Altered, decision: Verdict, retention: Duration },
    Sweep(u32),
    Stuck(u32),
    Elapse(Duration),
    SameAgain,
}

/// A scope and a key; `…` stands for so many letters that the name is as long as a name can be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) scope: &'static str,
    pub(super) key: &'static str,
}

/// Names that a careless store takes for one another.
pub(super) const SCOPES: [&str; 3] = ["tenant", "Tenant", "tenantk"];
pub(super) const KEYS: [&str; 6] = ["key", "KEY", "key ", "ey", "k…1", "k…2"];

/// Whose attempt id a claim carries.
#[derive(Clone, Copy, Debug)]
pub(super) enum Caller {
    New,
    /// Of the last claim of this key, with what may be another request.
    Last,
}

/// What a request is for. `Newer` knows the same request by two fingerprint versions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asks {
    Pay10,
    Pay99,
    NewerPay10,
    NewerPay99,
    OnlyNewerPay10,
}

/// Under which fence a write comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) id: Name,
    pub(super) fence: Whose,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    Current,
    /// So many owners ago.
    Former(usize),
    NextToken,
    OtherOperation,
    OfAnotherKey(Name),
    Nobody,
}

/// How a checkpoint is numbered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Next,
    /// The very point that was noted last, again.
    LastAgain,
    Used,
    Below,
    Skipping,
}

/// An answer by its status, which stands for a body too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) headers: bool,
}

/// The record that a decision is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sight {
    /// One of those in doubt.
    InDoubt(usize),
    /// What the last decision was about, as it was then.
    Decided,
    Now(Name),
    /// As it was before so many calls.
    Earlier(Name, usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Altered {
    Not,
    VersionAbove,
    VersionBelow,
    OtherOperation,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verdict {
    Complete(Said),
    Fail,
    Resume { point: &'static str, skip: u64 },
}

/// Every name with what it stands for.
static IDS: LazyLock<Vec<(Name, KeyId)>> = LazyLock::new(|| {
    let all = SCOPES.into_iter().flat_map(|scope| KEYS.into_iter().map(move |key| Name { scope, key }));
    all.map(|name| {
        let key = name.key.replace('…', &"k".repeat(Key::MAX - 2));
        let scope = Scope::new(name.scope).expect("a valid scope");
        (name, KeyId::new(scope, key.parse().expect("a valid key")))
    })
    .collect()
});

impl Name {
    pub(super) fn of(id: &KeyId) -> Option<Self> {
        IDS.iter().find(|(_, known)| known == id).map(|(name, _)| *name)
    }

    pub(super) fn id(self) -> KeyId {
        let (_, id) = IDS.iter().find(|(name, _)| *name == self).expect("every name is listed");
        id.clone()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}/{:?}", self.scope, self.key)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.act, if self.second { " on the second handle" } else { "" })
    }
}

/// An answer in a word or two; `wrote` says whether the record changed.
pub(super) fn word(reply: &Reply, wrote: bool) -> &'static str {
    match reply {
        Reply::Claim(Ok(ClaimOutcome::Claimed(claim))) => match claim.origin() {
            Origin::New => "new",
            Origin::Expired => "expired",
            Origin::Reissued => "reissued",
            Origin::Retried => "retried",
            Origin::TakenOver => "taken over",
        },
        Reply::Claim(Ok(ClaimOutcome::Completed(_))) => "completed",
        Reply::Claim(Ok(ClaimOutcome::InProgress { .. })) => "in progress",
        Reply::Claim(Ok(ClaimOutcome::InDoubt { .. })) => "in doubt",
        Reply::Claim(Ok(ClaimOutcome::Mismatch)) => "mismatch",
        Reply::Write(Ok(())) if wrote => "written",
        Reply::Write(Ok(())) | Reply::Swept(Ok(_)) => "ok",
        Reply::Found(Ok(None)) => "none",
        Reply::Found(Ok(Some(_))) => "some",
        Reply::Claim(Err(kind))
        | Reply::Write(Err(kind))
        | Reply::Swept(Err(kind))
        | Reply::Found(Err(kind)) => kind.name(),
    }
}
