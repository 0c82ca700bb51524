//! What happens to servers and databases.

use futures_util::future::{join_all, try_join_all};
use idem::{BoxError, Decision, Record, policy::RETENTION};

use super::{
    super::{api, intent::Intent, process::ServerProcess, provider::Mood, server, world::World},
    Outcome, must,
};

/// The gateway has charged, and the server that asked it to dies: nobody here knows. Somebody looks it up and decides.
pub(crate) async fn killed_after_the_charge(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    let server = kill_during_the_call(world, &intent, Mood::SlowToAnswer).await?;
    intent.insist(server.address).await?.must_be(409, "in-doubt")?;

    let found = world.provider.find(&intent.order.reference).ok_or("the ledger holds it")?;
    decide(world, &intent, |_| Ok(Decision::Complete(api::created(&found)?))).await?;

    let got = intent.insist(server.address).await?.must_be(201, "")?;
    must(got.is_replay(), "the decided answer is replayed")?;
    world.seen(&intent, 1, "killed; after the lease 409 in-doubt; found in the ledger and completed; replay")
}

/// The same death, before the gateway did anything. Only the ledger tells the two apart.
pub(crate) async fn killed_before_the_charge(world: &World) -> Outcome {
    let intent = Intent::to("/charges");
    let server = kill_during_the_call(world, &intent, Mood::SlowToBook).await?;
    intent.insist(server.address).await?.must_be(409, "in-doubt")?;

    must(world.provider.find(&intent.order.reference).is_none(), "the ledger does not hold it")?;
    decide(world, &intent, |seen| Ok(Decision::did_not_happen(seen)?)).await?;

    let got = intent.insist(server.address).await?.must_be(201, "")?;
    must(!got.is_replay(), "the handler ran")?;
    world.seen(&intent, 1, "killed; after the lease 409 in-doubt; not in the ledger, so it may run; 201")
}

/// A handler that may run again does, with the same key for the gateway. That one is kept by the gateway, not by us.
pub(crate) async fn killed_and_resumed(world: &World) -> Outcome {
    let intent = Intent::to("/keyed-charges");
    let server = kill_during_the_call(world, &intent, Mood::SlowToAnswer).await?;
    let first = intent.insist(server.address).await?.must_be(201, "")?;
    must(!first.is_replay(), "the handler ran again")?;
    intent.send(server.address).await?.must_replay(&first)?;
    world.seen(
        &intent,
        1,
        "killed; after the lease it ran again and the gateway knew its key: 201; then a replay",
    )
}

/// Forty requests are at the gateway when every connection to the database breaks.
pub(crate) async fn database_fails_under_load(world: &World) -> Outcome {
    let routes = ["/charges", "/keyed-charges"].into_iter().cycle();
    let intents: Vec<_> = routes.take(40).map(Intent::to).collect();
    world.provider.is(Mood::SlowToAnswer);
    let calls = try_join_all(intents.iter().map(|intent| intent.insist(world.server)));
    let failure = async {
        join_all(intents.iter().map(|intent| world.provider.has_booked(&intent.order.reference))).await;
        let failed = world.database()?.fail().await;
        world.provider.is(Mood::Prompt);
        failed
    };
    let (answers, failure) = tokio::try_join!(calls, failure)?;
    for (intent, first) in intents.iter().zip(answers) {
        let again = intent.send(world.server).await?.must_be(201, "")?;
        must(again.body == first.must_be(201, "")?.body, "each keeps its answer")?;
        world.seen(intent, 1, "")?;
    }
    let first = intents.first().ok_or("forty intents")?;
    world.seen(first, 1, format!("{failure} with 40 requests at the gateway: 40 times 201, one charge each"))
}

/// A server is killed while it waits for the gateway: after the charge, or before it, as the gateway's mood has it.
/// Returns another one, which knows only what the database holds.
async fn kill_during_the_call(world: &World, intent: &Intent, mood: Mood) -> Result<ServerProcess, BoxError> {
    let process = world.server_process().await?;
    let (provider, order) = (&world.provider, &intent.order.reference);
    provider.is(mood);
    let call = intent.send(process.address);
    let kill = async {
        match mood {
            Mood::SlowToAnswer => provider.has_booked(order).await,
            Mood::Prompt | Mood::Closed | Mood::SlowToBook => provider.was_called(order).await,
        }
        process.kill().await
    };
    let (answer, killed) = tokio::join!(call, kill);
    killed?;
    must(answer.is_err(), "the client gets no answer")?;
    provider.has_no_callers().await;
    provider.is(Mood::Prompt);
    world.server_process().await
}

/// What a person or a reconciler does with an operation in doubt. Which order it stands for, a real one reads in a table
/// of its own, where the order was written down with its key before the request was sent.
async fn decide(
    world: &World,
    intent: &Intent,
    decision: impl FnOnce(&Record) -> Result<Decision, BoxError>,
) -> Result<(), BoxError> {
    let store = server::open(Some(&world.database()?.url)).await?;
    let stuck = store.stuck(1000).await?;
    let of_intent = |record: &Record| Some(record.id.key().as_str()) == intent.key.as_deref();
    let seen =
        stuck.into_iter().find(|stuck| stuck.in_doubt && of_intent(&stuck.record)).ok_or("it is in doubt")?;
    Ok(store.resolve(&seen.record, &decision(&seen.record)?, RETENTION).await?)
}
