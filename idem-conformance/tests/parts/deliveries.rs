//! An inbox.

use idem_conformance::{async_trait, parts::deliveries::Deliveries};
use idem_core::BoxError;

use crate::{database::Flaw, trial::Toy};

#[async_trait]
impl Deliveries for Toy {
    async fn deliver(&self, consumer: &str, event: &str, fails: bool) -> Result<bool, BoxError> {
        let consumer = if self.0.has(Flaw::SharesMarkers) { "all" } else { consumer };
        let folded = event.to_lowercase();
        let event = if self.0.has(Flaw::FoldsCase) { &folded } else { event };
        let marker = (consumer.to_owned(), event.to_owned());
        if self.0.has(Flaw::ChecksThenInserts) {
            let known = self.0.tables.lock().await.markers.contains(&marker);
            tokio::task::yield_now().await;
            if known {
                return Ok(false);
            }
        }
        let mut tables = self.0.tables.lock().await;
        let first = self.0.has(Flaw::ChecksThenInserts) || !tables.markers.contains(&marker);
        if self.0.has(Flaw::MarkerBeside) && first {
            tables.markers.push(marker.clone());
        }
        if fails {
            return Err("the effect failed".into());
        }
        if first {
            if !self.0.has(Flaw::ForgetsMarkers) {
                tables.markers.push(marker);
            }
            tables.effects += 1;
        }
        Ok(first)
    }

    async fn effects(&self) -> u64 {
        self.0.tables.lock().await.effects
    }
}
