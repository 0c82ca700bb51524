//! What can go wrong between a client and its money, played over TCP; the demo prints them and the tests run them.

mod crashes;
mod requests;

pub(crate) use crashes::*;
pub(crate) use requests::*;

use std::time::Duration;

use idem::BoxError;
use tokio::time::timeout;

use super::{client::Got, intent::Intent, world::World};

/// What came back, and how many charges the gateway's ledger holds of the order.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) answers: String,
    pub(crate) charges: usize,
}

pub(crate) type Outcome = Result<Seen, BoxError>;

/// Plays a scenario, or gives it up where it waits for something that never comes.
pub(crate) async fn play(scenario: impl Future<Output = Outcome>) -> Outcome {
    timeout(Duration::from_mins(2), scenario).await?
}

/// Hands the names of all scenarios that any store can play to a macro.
macro_rules! on_any_store {
    ($play:ident) => {
        $play! {
            first_call replay fifty_at_once other_body other_caller malformed_key missing_key
            gateway_closed client_hangs_up
        }
    };
}

/// Hands the names of the scenarios that need a database to a macro.
macro_rules! on_a_database {
    ($play:ident) => {
        $play! { killed_after_the_charge killed_before_the_charge killed_and_resumed database_fails_under_load }
    };
}

pub(crate) use {on_a_database, on_any_store};

/// Ends a scenario that did not go as it must.
fn must(holds: bool, what: &str) -> Result<(), BoxError> {
    if holds { Ok(()) } else { Err(format!("it does not hold that {what}").into()) }
}

impl Got {
    /// Passes on an answer of this status: the handler's for `""`, else the library's problem of that type.
    fn must_be(self, status: u16, problem: &str) -> Result<Self, BoxError> {
        if (self.status, self.problem().as_str()) == (status, problem) {
            return Ok(self);
        }
        Err(format!("expected {status} {problem}, got {} {:?}", self.status, self.body).into())
    }

    /// Passes on a replay of `first`: the same status, bytes and headers, and the marker.
    fn must_replay(self, first: &Self) -> Result<Self, BoxError> {
        must(self.is_replay() && !first.is_replay(), "only the second is a replay")?;
        must((self.status, &self.body) == (first.status, &first.body), "status and bytes are the same")?;
        must(self.lasting_headers() == first.lasting_headers(), "the headers are the same")?;
        Ok(self)
    }
}

impl World {
    /// The end of a scenario: the gateway holds exactly so many charges of this order.
    fn seen(&self, intent: &Intent, charges: usize, answers: impl Into<String>) -> Outcome {
        let booked = self.provider.charges(&intent.order.reference);
        must(booked == charges, &format!("the gateway holds {charges} of this order and not {booked}"))?;
        Ok(Seen { answers: answers.into(), charges })
    }
}
