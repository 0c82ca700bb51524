//! Starts every part, kills each in turn while charges are on their way, and counts what came of them.

use std::{collections::BTreeMap, env, fs, path::PathBuf, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use idem::{BoxError, PostgresStore};
use idem_test_support::{Nats, Postgres};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use super::{
    broker::{self, NOWHERE},
    parts::{Again, Part, Victim},
    provider,
    shopper::{self, Answer},
    verdict::{Seen, complaints},
};

/// A wait that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_mins(2);

const TABLES: &str = "
CREATE TABLE draft (id bigserial PRIMARY KEY, reference text NOT NULL);
CREATE TABLE orders (draft bigint NOT NULL, reference text NOT NULL, charge text NOT NULL);
CREATE TABLE delivery (event text NOT NULL);
CREATE TABLE mail (event text NOT NULL, reference text NOT NULL);";

/// Everything that runs, and where it leaves its traces.
struct Chain {
    postgres: Postgres,
    nats: Nats,
    folder: PathBuf,
    pool: PgPool,
    gateway: Part,
    apis: Vec<Part>,
    relay: Part,
    consumer: Part,
    clients: Vec<Part>,
    /// The first operation of each client.
    firsts: Vec<usize>,
}

/// Plays it and prints the table.
///
/// # Errors
/// If anything is missing or there twice, or does not come to its end.
pub(crate) async fn play(operations: usize, kills: usize, again: Again) -> Result<(), BoxError> {
    let began = Instant::now();
    let mut chain = Chain::start(operations, again).await?;
    let mut killed: BTreeMap<&'static str, usize> = BTreeMap::new();
    for number in 0..kills {
        let due = (number + 1) * operations / (kills + 2);
        chain.reach("SELECT count(*) FROM orders", due).await?;
        // A kill after the last mail would show nothing.
        if chain.count("SELECT count(*) FROM mail").await.is_ok_and(|mails| mails >= operations) {
            return Err(format!("all was over before kill {}", number + 1).into());
        }
        let victim = chain.victim(number);
        *killed.entry(victim.name()).or_default() += 1;
        victim.kill().await?;
    }
    chain.finish(operations).await?;
    let seen = chain.look(operations).await?;
    chain.end()?;
    print(&seen, &killed, began.elapsed());
    let complaints = complaints(&seen);
    if complaints.is_empty() {
        return Ok(());
    }
    for complaint in complaints.iter().take(20) {
        println!("FAILED {complaint}");
    }
    Err(format!("{} things are not as they must be", complaints.len()).into())
}

impl Chain {
    async fn start(operations: usize, again: Again) -> Result<Self, BoxError> {
        let postgres = Postgres::builder().setting("fsync", "on").start().await;
        let nats = Nats::own().await;
        let (database, broker) = (postgres.url(), nats.url());
        let folder = env::temp_dir().join(format!("idem-chain-{}", Uuid::new_v4().simple()));
        fs::create_dir(&folder)?;
        let store = PostgresStore::connect(&database).await?;
        store.migrate().await?;
        store.check().await?;
        sqlx::raw_sql(TABLES).execute(store.pool()).await?;
        broker::stream(&broker::connect(&broker).await?).await?;

        let ledger = folder.join("ledger").display().to_string();
        let listen = NOWHERE.to_string();
        let gateway =
            Part::start("gateway", again, &[("ledger", ledger), ("listen", listen.clone())]).await?;
        let mut apis = Vec::new();
        for _ in 0..2 {
            let address = gateway.address.to_string();
            let options = [("database", database.clone()), ("gateway", address), ("listen", listen.clone())];
            apis.push(Part::start("api", again, &options).await?);
        }
        let both = [("database", database), ("broker", broker)];
        let relay = Part::start("relay", again, &both).await?;
        let consumer = Part::start("consumer", again, &both).await?;
        let addresses = apis.iter().map(|api| api.address.to_string()).collect::<Vec<_>>().join(",");
        let (half, mut clients) = (operations / 2, Vec::new());
        for (first, count) in [(0, half), (half, operations - half)] {
            let options = [
                ("apis", addresses.clone()),
                ("folder", folder.display().to_string()),
                ("first", first.to_string()),
                ("count", count.to_string()),
            ];
            clients.push(Part::start("client", again, &options).await?);
        }
        let (pool, firsts) = (store.pool().clone(), vec![0, half]);
        Ok(Self { postgres, nats, folder, pool, gateway, apis, relay, consumer, clients, firsts })
    }

    /// Each part in turn.
    fn victim(&mut self, number: usize) -> Victim<'_> {
        let ([first_api, second_api], [first_client, second_client]) =
            (self.apis.as_mut_slice(), self.clients.as_mut_slice())
        else {
            return Victim::Database(&self.postgres);
        };
        match number % 12 {
            0 => Victim::Part(first_api),
            1 | 7 => Victim::Part(&mut self.gateway),
            2 | 8 => Victim::Part(&mut self.relay),
            3 | 9 => Victim::Part(&mut self.consumer),
            4 => Victim::Part(first_client),
            5 => Victim::Broker(&self.nats),
            6 => Victim::Part(second_api),
            10 => Victim::Part(second_client),
            _ => Victim::Database(&self.postgres),
        }
    }

    async fn count(&self, sql: &'static str) -> Result<usize, BoxError> {
        let count: i64 = sqlx::query_scalar(sql).fetch_one(&self.pool).await?;
        Ok(usize::try_from(count)?)
    }

    /// Waits until so many are counted; the database may be down meanwhile.
    async fn reach(&self, sql: &'static str, count: usize) -> Result<(), BoxError> {
        let reached = async {
            while !self.count(sql).await.is_ok_and(|seen| seen >= count) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        Ok(timeout(PATIENCE, reached).await.map_err(|_| format!("never {count}: {sql}"))?)
    }

    /// Waits until every operation is answered, and everything that follows has happened.
    async fn finish(&self, operations: usize) -> Result<(), BoxError> {
        let answered = async {
            while self.answers()?.len() < operations {
                sleep(Duration::from_millis(20)).await;
            }
            Ok::<_, BoxError>(())
        };
        timeout(PATIENCE, answered).await.map_err(|_| "not every operation was answered")??;
        self.reach("SELECT count(*) FROM mail", operations).await?;
        self.reach("SELECT count(*) FROM idempotency_key_outbox WHERE published_at IS NOT NULL", operations)
            .await
    }

    fn answers(&self) -> Result<Vec<Answer>, BoxError> {
        let files = self.firsts.iter().map(|first| shopper::answers_file(&self.folder, *first));
        Ok(files.map(|file| shopper::answers(&file)).collect::<Result<Vec<_>, _>>()?.concat())
    }

    async fn look(&self, operations: usize) -> Result<Seen, BoxError> {
        let answers = self.answers()?;
        let apis: Vec<_> = self.apis.iter().map(|api| api.address).collect();
        let again = answers.iter().map(|it| shopper::ask(&apis, it.reference.clone(), it.key.clone()));
        let replays = stream::iter(again).buffer_unordered(8).try_collect().await?;
        let (ledger, _) = provider::read(&self.folder.join("ledger"))?;
        let context = broker::connect(&self.nats.url()).await?;
        let published = broker::stream(&context).await?.get_info().await?.state.messages;
        let payloads =
            "SELECT convert_from(payload, 'UTF8')::json ->> 'reference' FROM idempotency_key_outbox";
        let unpublished = "SELECT count(*) FROM idempotency_key_outbox WHERE published_at IS NULL";
        Ok(Seen {
            operations: (0..operations).map(|number| format!("order-{number:05}")).collect(),
            charges: ledger.into_iter().map(|entry| entry.charge.reference).collect(),
            orders: self.all("SELECT reference FROM orders").await?,
            messages: self.all(payloads).await?,
            unpublished: self.count(unpublished).await?,
            published: usize::try_from(published)?,
            deliveries: self.count("SELECT count(*) FROM delivery").await?,
            mails: self.all("SELECT reference FROM mail").await?,
            answers,
            replays,
        })
    }

    async fn all(&self, sql: &str) -> Result<Vec<String>, BoxError> {
        Ok(sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&self.pool).await?)
    }

    fn end(self) -> Result<(), BoxError> {
        Ok(fs::remove_dir_all(&self.folder)?)
    }
}

fn print(seen: &Seen, killed: &BTreeMap<&'static str, usize>, took: Duration) {
    let kills = killed.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ");
    println!("{:<34}{:>7}", "operations", seen.operations.len());
    println!("{:<34}{:>7}   {kills}", "kills", killed.values().sum::<usize>());
    println!("{:<34}{:>7}", "charges at the gateway", seen.charges.len());
    println!("{:<34}{:>7}", "orders", seen.orders.len());
    println!("{:<34}{:>7}", "messages in the outbox", seen.messages.len());
    println!("{:<34}{:>7}", "messages published", seen.published);
    println!("{:<34}{:>7}", "deliveries to the consumer", seen.deliveries);
    println!("{:<34}{:>7}", "effects of the consumer", seen.mails.len());
    println!("{:<34}{:>7}", "answers", seen.answers.len());
    println!("{:<34}{:>7}", "same keys, same bytes once more", seen.replays.len());
    println!("took {} s", took.as_secs());
}
