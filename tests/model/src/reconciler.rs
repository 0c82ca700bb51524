//! The reconciler: it looks a record in doubt up, asks the providers, and settles it some time later.

use crate::{
    machine::{self, Mark, Row, Settled},
    model::Model,
    rule::Rule,
    sometimes::Sometimes,
    store::RECONCILER,
    world::{EFFECTS, Reconciler, Reply, Statement, World},
};

impl Model {
    /// Whether there is something to look up. It waits until no call can be under way any more.
    pub(crate) fn may_look(&self, world: &World) -> bool {
        world.reconciler == Reconciler::Waiting
            && world.row.is_some_and(|row| machine::is_in_doubt(&row, world.clock))
            && (world.calls_due().next().is_none() || self.breaks(Rule::ResolveWaits))
    }

    /// Reads the record and asks the providers.
    pub(crate) fn look(world: &mut World) {
        let Some(row) = world.row else { return };
        let happened = world.window(world.known.lives).called;
        // What no resolution compares is left out of the state.
        let seen = Row { attempt: 0, lease: 0, rerun: 0, expires: 0, ..row };
        world.reconciler = Reconciler::Looked { seen, happened };
    }

    /// What may be decided of it.
    pub(crate) fn decisions(&self, seen: &Row, happened: [bool; EFFECTS]) -> Vec<Settled> {
        let journal = seen.journal();
        let mut settled = journal;
        for effect in journal.open() {
            settled.0[effect] = if happened[effect] { Mark::Result(RECONCILER) } else { Mark::Blank };
        }
        if self.breaks(Rule::ResolveRecords) {
            settled = journal;
        }
        let mut decisions = vec![Settled::Resume { number: seen.checkpoint + 1, journal: settled }];
        let open_happened = journal.open().any(|effect| happened[effect]);
        let all = (0..self.effects.len()).all(|effect| matches!(settled.0[effect], Mark::Result(_)));
        if all {
            decisions.push(Settled::Complete(RECONCILER));
        }
        if !open_happened && (!journal.holds_result() || self.breaks(Rule::FailNothingRecorded)) {
            decisions.push(Settled::Fail);
        }
        decisions
    }

    /// The call that settles it.
    pub(crate) fn resolution(seen: Row, decision: Settled) -> Statement {
        Statement::Resolve { seen: Row { journal: None, ..seen }, decision }
    }

    /// Sends the resolution and has its answer.
    pub(crate) fn resolve(&self, world: &mut World, seen: Row, decision: Settled) -> Option<()> {
        let reply = self.land(world, Self::resolution(seen, decision))?;
        if reply == Reply::Lost {
            self.reached(Sometimes::ResolveLost);
        }
        world.reconciler = Reconciler::Over;
        Some(())
    }
}
