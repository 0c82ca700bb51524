//! Whatever a statement lacks, it still is one: a damage that the server refuses would prove nothing.

use std::collections::HashMap;

use idem_test_support::postgres;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::split::Damage;
use crate::{PostgresStore, Settings, sql::Sql};

/// Has the server prepare and plan every damaged statement, for values of the types of the sound one; returns for each
/// damage whether the server plans to do the very same.
pub(super) async fn same_plans(damages: &[Damage]) -> Vec<bool> {
    let database = postgres().database().await;
    let store = PostgresStore::with(database.pool(1).await, Settings::new());
    store.migrate().await.expect("a table");
    let mut connection = store.pool().acquire().await.expect("a connection");
    run(&mut connection, "SET plan_cache_mode = force_generic_plan").await;
    let table = store.settings.qualified();
    let sound = Sql::of(&table);
    let mut plans = HashMap::new();
    for (name, text) in sound.each() {
        let types = types(&mut connection, text).await;
        plans.insert(name, (plan(&mut connection, text, &types).await, types));
    }
    let mut same = Vec::new();
    for damage in damages {
        let left = damage.statements(&table);
        let mut all_same = true;
        for ((name, text), (_, sound)) in left.each().into_iter().zip(sound.each()) {
            if text != sound {
                let (planned, types) = &plans[name];
                all_same &= plan(&mut connection, text, types).await == *planned;
            }
        }
        same.push(all_same);
    }
    same
}

/// The types of its parameters.
async fn types(connection: &mut PgConnection, text: &str) -> Vec<String> {
    run(connection, &format!("PREPARE one AS {text}")).await;
    let sql = "SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = 'one'";
    let types = sqlx::query_scalar(sql).persistent(false).fetch_one(&mut *connection).await;
    run(connection, "DEALLOCATE one").await;
    types.expect("it is prepared")
}

/// How the server would run it.
async fn plan(connection: &mut PgConnection, text: &str, types: &[String]) -> Vec<String> {
    let (declared, nulls) = (types.join(", "), vec!["NULL"; types.len()].join(", "));
    run(connection, &format!("PREPARE one ({declared}) AS {text}")).await;
    let explain = format!("EXPLAIN (VERBOSE, COSTS OFF) EXECUTE one ({nulls})");
    let lines = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_all(&mut *connection).await;
    let lines = lines.unwrap_or_else(|error| panic!("it cannot be run: {error}\n{text}"));
    run(connection, "DEALLOCATE one").await;
    lines.iter().map(|line| line.get(0)).collect()
}

async fn run(connection: &mut PgConnection, sql: &str) {
    let done = sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await;
    done.unwrap_or_else(|error| panic!("{error}\n{sql}"));
}
