//! Copies idem-memory, with the faults that its scenarios must find.

use rewrite::Fault;

/// Every write decides on what an earlier lock showed, and writes under another one.
const TORN_STEP: Fault = Fault {
    name: "torn step",
    file: "store.rs",
    shipped: "self.shards.with(id, |records| {
            let record = records.get_mut(id);",
    flawed: "if {on} {
            let seen = self.shards.with(id, |records| records.get(id).cloned());
            let transition = decide(seen.as_ref(), self.clock.now());
            return self.shards.with(id, |records| {
                if let Some(write) = transition.write {
                    if !records.contains_key(id) {
                        self.reserve()?;
                    }
                    records.insert(id.clone(), write);
                }
                transition.answer
            });
        }
        {shipped}",
};

/// The count is read, compared, and then added to.
const COUNT_THEN_ADD: Fault = Fault {
    name: "count, then add",
    file: "store.rs",
    shipped: "self.count
            .fetch_update(",
    flawed: "if {on} && self.count.load(Ordering::Relaxed) < self.max_records {
            self.count.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        {shipped}",
};

/// Sweeping lists what is expired, and deletes what it has listed without looking again.
const LIST_THEN_DELETE: Fault = Fault {
    name: "list, then delete",
    file: "store.rs",
    shipped: "let mut swept = 0;",
    flawed: "{shipped}
        if {on} {
            let mut listed = Vec::new();
            self.shards.each(|records| {
                listed.extend(records.values().filter(|record| record.is_expired(now)).map(|record| record.id.clone()));
            });
            for id in &listed {
                swept += usize::from(self.shards.with(id, |records| records.remove(id)).is_some());
            }
            self.count.fetch_sub(swept, Ordering::Relaxed);
            return Ok(swept as u64);
        }",
};

/// Sweeping reads the count before it looks, and writes back what should be left of it.
const COUNT_WRITTEN_BACK: Fault = Fault {
    name: "count written back",
    file: "store.rs",
    shipped: "self.count.fetch_sub(swept, Ordering::Relaxed);
        Ok(",
    flawed: "if {on} {
            let count = self.count.load(Ordering::Relaxed);
            self.count.store(count - swept, Ordering::Relaxed);
            return Ok(swept as u64);
        }
        {shipped}",
};

fn main() {
    // Two locks show what 64 do, in far fewer steps.
    let fewer = ("shard.rs", "const SHARDS: usize = 64;", "const SHARDS: usize = 2;");
    let faults = [TORN_STEP, COUNT_THEN_ADD, LIST_THEN_DELETE, COUNT_WRITTEN_BACK];
    rewrite::copy("idem-memory", "scheduled::std", &[fewer], &faults);
}
