//! Plays the scenarios and prints what came back.

use idem::BoxError;

use super::{
    scenarios::{self, Outcome},
    world::World,
};

/// Plays every scenario that this store can play, one line each.
///
/// # Errors
/// If one did not go as it must; the others are played all the same.
pub(crate) async fn play() -> Result<(), BoxError> {
    let world = World::start().await?;
    let mut failed = 0;
    println!("keys in memory, charges in the gateway's own ledger");
    macro_rules! play {
        ($($scenario:ident)+) => {
            $(failed += print(stringify!($scenario), scenarios::$scenario(&world).await);)+
        };
    }
    scenarios::on_any_store!(play);
    if failed > 0 { Err(format!("{failed} scenarios did not go as they must").into()) } else { Ok(()) }
}

fn print(name: &str, outcome: Outcome) -> usize {
    let name = name.replace('_', " ");
    match outcome {
        Ok(seen) => println!("ok     {name:<26} charges: {}  {}", seen.charges, seen.answers),
        Err(error) => {
            println!("FAILED {name:<26} {error}");
            return 1;
        }
    }
    0
}
