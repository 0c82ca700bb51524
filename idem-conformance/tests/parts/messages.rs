//! An outbox and its relay.

use std::sync::Arc;

use idem_conformance::{
    async_trait,
    parts::messages::{Messages, Open, Sink},
};

use crate::{
    database::{Database, Flaw, Row},
    trial::Toy,
};

struct Transaction {
    database: Database,
    added: Vec<u64>,
}

#[async_trait]
impl Open for Transaction {
    async fn add(&mut self, payload: &str, key: Option<&str>) -> String {
        let mut tables = self.database.tables.lock().await;
        let seq = tables.number();
        let row = Row {
            seq,
            id: format!("id-{seq}"),
            payload: payload.to_owned(),
            key: key.map(ToOwned::to_owned),
            published: false,
            taken: false,
        };
        let id = row.id.clone();
        tables.open.push(row);
        self.added.push(seq);
        id
    }

    async fn commit(self: Box<Self>) {
        let mut tables = self.database.tables.lock().await;
        let open = std::mem::take(&mut tables.open);
        let (own, others): (Vec<_>, Vec<_>) = open.into_iter().partition(|row| self.added.contains(&row.seq));
        tables.open = others;
        tables.messages.extend(own);
        tables.messages.sort_by_key(|row| row.seq);
    }

    async fn roll_back(self: Box<Self>) {
        if self.database.has(Flaw::KeepsRolledBack) {
            return self.commit().await;
        }
        let mut tables = self.database.tables.lock().await;
        tables.open.retain(|row| !self.added.contains(&row.seq));
    }
}

impl Database {
    /// Takes the next message that is due, if there is one.
    async fn take(&self, refused: &[u64]) -> Option<Row> {
        let mut tables = self.tables.lock().await;
        let cursor = if self.has(Flaw::Cursor) { tables.cursor } else { 0 };
        let open = if self.has(Flaw::SeesOpen) { tables.open.clone() } else { Vec::new() };
        let waits = |row: &Row, all: &[Row]| {
            row.key.is_some()
                && all.iter().any(|other| other.key == row.key && other.seq < row.seq && !other.published)
        };
        let all = tables.messages.clone();
        let is_due = |row: &Row| {
            !row.published
                && (!row.taken || self.has(Flaw::NoLease))
                && !refused.contains(&row.seq)
                && row.seq > cursor
                && (self.has(Flaw::NoOrder) || !waits(row, &all))
        };
        if let Some(row) = tables.messages.iter_mut().find(|row| is_due(row)) {
            row.taken = true;
            row.published |= self.has(Flaw::MarksFirst);
            return Some(row.clone());
        }
        open.into_iter().find(|row| !refused.contains(&row.seq))
    }

    /// Notes what was published.
    async fn mark(&self, seq: u64) {
        if self.has(Flaw::NeverMarks) {
            return;
        }
        let mut tables = self.tables.lock().await;
        tables.cursor = tables.cursor.max(seq);
        let up_to = self.has(Flaw::MarksUpTo);
        for row in tables.messages.iter_mut().filter(|row| row.seq == seq || up_to && row.seq < seq) {
            row.published = true;
        }
    }

    async fn pass(&self, sink: Sink, dies: bool) {
        let mut refused = Vec::new();
        while let Some(row) = self.take(&refused).await {
            let tried = if self.has(Flaw::NewIdEachTry) { self.tables.lock().await.number() } else { 0 };
            let id = if tried > 0 { format!("{}-{tried}", row.id) } else { row.id.clone() };
            let (sink, payload) = (Arc::clone(&sink), row.payload.clone());
            // As a broker would: somewhere else, and not at once.
            let takes = tokio::task::spawn_blocking(move || sink(&payload, &id)).await.expect("no panic");
            if dies {
                return;
            }
            refused.push(row.seq);
            if takes {
                self.mark(row.seq).await;
            } else if self.has(Flaw::StopsAtPoison) {
                return;
            }
        }
    }
}

#[async_trait]
impl Messages for Toy {
    async fn begin(&self) -> Box<dyn Open> {
        Box::new(Transaction { database: self.0.clone(), added: Vec::new() })
    }

    async fn relay(&self, sink: Sink) {
        self.0.pass(sink, false).await;
    }

    async fn relay_and_die(&self, sink: Sink) {
        self.0.pass(sink, true).await;
    }
}
