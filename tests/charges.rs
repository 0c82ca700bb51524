//! The demo's scenarios, each a test of its own, with keys in memory.

#[path = "../examples/charges/main.rs"]
#[expect(dead_code, reason = "the tests play the demo's scenarios without its printing")]
mod charges;

use charges::{scenarios, world::World};

mod memory {
    use super::*;

    macro_rules! tests {
        ($($scenario:ident)+) => {
            $(#[tokio::test]
            async fn $scenario() {
                let world = World::start().await.unwrap();
                scenarios::$scenario(&world).await.unwrap();
            })+
        };
    }
    scenarios::on_any_store!(tests);
}
