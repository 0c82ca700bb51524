//! A process is killed at every point at which its operation can stand, and what comes of the operation is counted.
//!
//! The points are the statements that it sends, each before the server sees it and after the server has run it, and the
//! points of its call to the provider. Another process goes on an hour later.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test's helpers fail like the test itself, it owns its tasks, and what it saw is a table"
)]

mod case;
mod provider;
mod shop;

use std::env;

use case::{Case, Point, Side, statements};
use idem::PostgresStore;
use provider::Stop;
use shop::Kind;

const ARGUMENTS: &str = "CRASHES_ARGUMENTS";

#[tokio::test]
async fn s03_a_natural_effect_is_called_again_after_a_doubt() {
    kill_everywhere(Kind::Natural).await;
}

#[tokio::test]
async fn s03_a_keyed_effect_is_charged_once_wherever_the_process_dies() {
    kill_everywhere(Kind::Keyed).await;
}

#[tokio::test]
async fn s03_an_effect_at_most_once_is_in_doubt_where_it_may_have_happened() {
    kill_everywhere(Kind::AtMostOnce).await;
}

/// The taker dies as well, in its claim.
#[tokio::test]
async fn s03_a_process_that_dies_while_it_takes_over_changes_nothing() {
    for kind in [Kind::Natural, Kind::Keyed, Kind::AtMostOnce] {
        let mark = if kind == Kind::Natural { "commit the step" } else { "mark" };
        for side in [Side::Before, Side::After] {
            let mut case = Case::new(kind, None).await;
            case.die_at(&statements(kind), mark, Side::After).await;
            case.elapse().await;
            case.die_at(&["claim"], "claim", side).await;
            case.elapse().await;
            let may_have_happened = kind == Kind::AtMostOnce;
            case.settle(&format!("{kind:?}, taking over, {side:?}"), may_have_happened).await;
        }
    }
}

async fn kill_everywhere(kind: Kind) {
    let statements = statements(kind);
    let mut points: Vec<Point> = Stop::ALL.map(Point::Call).into();
    for name in &statements {
        points.extend([Side::Before, Side::After].map(|side| Point::Statement(name, side)));
    }
    for point in points {
        let case = match point {
            Point::Call(stop) => {
                let mut case = Case::new(kind, Some(stop)).await;
                case.die_in_the_call().await;
                case
            }
            Point::Statement(name, side) => {
                let mut case = Case::new(kind, None).await;
                case.die_at(&statements, name, side).await;
                case
            }
        };
        case.elapse().await;
        let told = case.settle(&format!("{kind:?}, {point:?}"), point.is_a_doubt(kind)).await;
        println!("{kind:?} | {point} | {told}");
    }
}

/// This test program again, to be killed.
#[tokio::test]
#[ignore = "the process that is killed"]
async fn process() {
    let arguments = env::var(ARGUMENTS).unwrap();
    let [database, provider, kind] = arguments.lines().collect::<Vec<_>>().try_into().unwrap();
    let store = PostgresStore::connect(database).await.unwrap();
    drop(shop::run(&store, provider.parse().unwrap(), kind.parse().unwrap()).await);
}
