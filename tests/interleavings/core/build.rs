//! Copies idem-core, with the faults that its scenarios must find.

use rewrite::Fault;

const FAULTS: [Fault; 12] = [
    Fault {
        name: "a waiter keeps its place",
        file: "engine/task.rs",
        shipped: "drop(permit);
                    tokio::time::sleep(pause.min(left)).await;",
        flawed: "if {on} {
            tokio::time::sleep(pause.min(left)).await;
            drop(permit);
        } else {
            {shipped}
        }",
    },
    Fault {
        name: "a hang-up is not seen",
        file: "engine/task.rs",
        shipped: "!hung_up()",
        flawed: "({on} || {shipped})",
    },
    // What was claimed when the time-out struck is nobody's.
    Fault {
        name: "a time-out over a claim",
        file: "engine/task.rs",
        shipped: "settle_claim(&*self.store, &request, policy.settle_span()).await",
        flawed: "if {on} && !policy.wait_span().is_zero() {
            let claim = settle_claim(&*self.store, &request, policy.settle_span());
            match timeout_at(deadline, claim).await {
                Ok(claimed) => claimed,
                Err(_) => return Ok(Claimed::Answer(LOST)),
            }
        } else {
            {shipped}
        }",
    },
    Fault {
        name: "a run in its caller",
        file: "engine/prepared.rs",
        shipped: "drop(tokio::spawn(run.instrument(span)));",
        flawed: "let () = if {on} { run.instrument(span).await } else { {shipped} };",
    },
    Fault {
        name: "an end in its caller",
        file: "run.rs",
        shipped: "let end = async move { run.end().await }.in_current_span();",
        flawed: "if {on} {
            return run.end().await;
        }
        {shipped}",
    },
    // Drained between the two, it is open still.
    Fault {
        name: "open, then a place",
        file: "engine/admission.rs",
        shipped: "let entered = self.runs.send_if_modified(|runs| {
            let open = runs.stage == Stage::Open;",
        flawed: "let seen = self.runs.borrow().stage;
        {shipped}
            let open = if {on} { seen == Stage::Open } else { open };",
    },
    // Whoever is dropped while it waits stays counted.
    Fault {
        name: "counted, then a place",
        file: "engine/admission.rs",
        shipped: "let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| refused())?;",
        flawed: "if {on} {
            self.runs.send_modify(|runs| runs.running += 1);
        }
        {shipped}
        if {on} {
            return Ok(Permit { _permit: permit, count: Count { runs: Arc::clone(&self.runs), pinned: false } });
        }",
    },
    // Refused the pin, it hands on a key whose mark says that it may have run.
    Fault {
        name: "a mark, then a pin",
        file: "engine/task.rs",
        shipped: "if !permit.pin() {",
        flawed: "if {on} {
            if let Err(stopped) = mark(run).await {
                return Some(stopped);
            }
        }
        {shipped}",
    },
    // Two ends begin: each believes that its answer is the one.
    Fault {
        name: "running, then an end",
        file: "run.rs",
        shipped: "let mut ledger = self.ledger();
        if !matches!(*ledger, Ledger::Running) {",
        flawed: "if {on} && matches!(*self.ledger(), Ledger::Running) {
            *self.ledger() = end;
            return Ok(());
        }
        {shipped}",
    },
    // The signal between the two is missed.
    Fault {
        name: "look, then subscribe",
        file: "engine/admission.rs",
        shipped: "let _ = self.runs.subscribe().wait_for(|runs| runs.stage == Stage::Aborting).await;",
        flawed: "if {on} {
            if self.runs.borrow().stage != Stage::Aborting {
                let _ = self.runs.subscribe().changed().await;
            }
            return;
        }
        {shipped}",
    },
    // The renewal that is under way lands after the end.
    Fault {
        name: "an end beside a renewal",
        file: "heartbeat.rs",
        shipped: "self.stop = None;",
        flawed: "{shipped}
        if {on} {
            self.task.abort();
            return;
        }",
    },
    Fault {
        name: "a loser believes itself",
        file: "run.rs",
        shipped: "Err(error) => {
                *self.ledger() = self.failed(&error);",
        flawed: "Err(error) if {on} && error.kind() == StoreErrorKind::ClaimLost => {
                *self.ledger() = done;
                Ok(())
            }
            {shipped}",
    },
];

fn main() {
    rewrite::copy("idem-core", "tokio::std", &[], &FAULTS);
}
