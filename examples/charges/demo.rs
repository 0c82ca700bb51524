//! Plays the scenarios and prints what came back.

use idem::BoxError;

use super::{
    scenarios::{self, Outcome},
    world::{Database, World},
};

/// Plays every scenario that this store can play, one line each.
///
/// # Errors
/// If one did not go as it must; the others are played all the same.
pub(crate) async fn play(database: Option<Database>) -> Result<(), BoxError> {
    let (place, on_database) = (if database.is_some() { "Postgres" } else { "memory" }, database.is_some());
    let world = World::start(database).await?;
    let mut failed = 0;
    println!("keys in {place}, charges in the gateway's own ledger");
    macro_rules! play {
        ($($scenario:ident)+) => {
            $(failed += print(stringify!($scenario), scenarios::play(scenarios::$scenario(&world)).await);)+
        };
    }
    scenarios::on_any_store!(play);
    if on_database {
        scenarios::on_a_database!(play);
    } else {
        println!(
            "not played: killed servers and a failing database; they need --postgres or --store postgres://…"
        );
    }
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
