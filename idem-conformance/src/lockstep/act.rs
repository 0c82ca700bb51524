//! What a walk does next, in words that mean something whatever was done before: no id that a store draws, and nothing
//! of an earlier call but "the current owner" or "the one before". So a walk can be cut short anywhere.

use std::{fmt, sync::LazyLock, time::Duration};

use idem_core::{
    Decision, Fingerprint, Fingerprints, Key, KeyId, Record, RecoveryPoint, Rerun, Scope, StoredRequest,
    StoredResponse,
};

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

impl Asks {
    pub(super) fn fingerprints(self) -> Fingerprints {
        // The two requests differ in the last byte only.
        let of = |version, last| {
            let mut bytes = [0xa7; 33];
            (bytes[0], bytes[32]) = (version, last);
            Fingerprint::from_bytes(bytes)
        };
        let (pay_10, pay_99) = (|version| of(version, 10), |version| of(version, 99));
        match self {
            Self::Pay10 => Fingerprints::new(pay_10(1)),
            Self::Pay99 => Fingerprints::new(pay_99(1)),
            Self::NewerPay10 => Fingerprints::new(pay_10(2)).accept(pay_10(1)),
            Self::NewerPay99 => Fingerprints::new(pay_99(2)).accept(pay_99(1)),
            Self::OnlyNewerPay10 => Fingerprints::new(pay_10(2)),
        }
    }
}

impl Said {
    pub(super) fn response(self) -> StoredResponse {
        let body: &[u8] = match self.status {
            201 => b"{\"ok\":true}",
            200 => b"\xff\0\xfe",
            204 => b"",
            _ => b"null",
        };
        let response = StoredResponse::new(self.status, body).expect("a valid status");
        if self.headers {
            return response.header("x-b", "2").header("link", &b"\xe9"[..]).header("x-b", "1");
        }
        response
    }
}

impl Verdict {
    pub(super) fn about(self, seen: &Record) -> Decision {
        match self {
            Self::Complete(said) => Decision::Complete(said.response()),
            Self::Fail => Decision::Fail,
            Self::Resume { point: name, skip } => Decision::Resume(point(seen.checkpoint + 1 + skip, name)),
        }
    }
}

/// What a claim with this lease stores of its request: the two are drawn as one, and claims of a key differ in it.
pub(super) fn stored(lease: Duration) -> Option<StoredRequest> {
    let (route, data): (_, &[u8]) = match lease.as_secs() {
        30 => ("charges", b"\0\xff"),
        600 => ("caf\u{e9}", b""),
        _ => return None,
    };
    Some(StoredRequest::new(route, data).expect("a valid request"))
}

pub(super) fn point(number: u64, name: &str) -> RecoveryPoint {
    let data: &[u8] = match name {
        "charging" => b"\0\xff",
        "charged" => b"",
        _ => b"{}",
    };
    RecoveryPoint::new(number, name, data).expect("a valid point")
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
