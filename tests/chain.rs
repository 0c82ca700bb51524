//! The chain's demo in its short form, and what its verdict makes of ledgers that are not right.

#[path = "../examples/chain/main.rs"]
#[expect(dead_code, reason = "the tests start it in another way")]
mod chain;

use std::{env, iter};

use chain::{
    Arguments, demo,
    verdict::{Seen, complaints},
};
use clap::Parser as _;
use idem::BoxError;
use tokio::process::Command;

#[tokio::test]
async fn s03_every_part_is_killed_and_each_charge_and_each_mail_is_there_once() {
    demo::play(120, 12, command).await.unwrap();
}

#[test]
fn n01_whatever_is_missing_or_there_twice_is_told() {
    let well = well();
    assert!(complaints(&well).is_empty());
    let lists: [fn(&mut Seen) -> &mut Vec<String>; 4] =
        [|it| &mut it.charges, |it| &mut it.orders, |it| &mut it.messages, |it| &mut it.mails];
    for list in lists {
        let (mut missing, mut twice, mut strange) = (well.clone(), well.clone(), well.clone());
        list(&mut missing).pop();
        list(&mut twice).push("order-1".to_owned());
        list(&mut strange).push("order-7".to_owned());
        for seen in [missing, twice, strange] {
            assert_eq!(complaints(&seen).len(), 1, "{seen:?}");
        }
    }
    let mut another = well.clone();
    another.replays[0].body.push(' ');
    assert_eq!(complaints(&another), ["order-0: the same key is answered in another way"]);
    assert_eq!(complaints(&Seen { unpublished: 1, ..well.clone() }).len(), 1);
    assert_eq!(complaints(&Seen { answers: Vec::new(), ..well }).len(), 2);
}

/// Two operations, as they must be.
fn well() -> Seen {
    let all = vec!["order-0".to_owned(), "order-1".to_owned()];
    let answers: Vec<_> = all
        .iter()
        .map(|reference| chain::shopper::Answer {
            reference: reference.clone(),
            key: format!("key of {reference}"),
            status: 201,
            body: "{}".to_owned(),
        })
        .collect();
    Seen {
        operations: all.clone(),
        charges: all.clone(),
        orders: all.clone(),
        messages: all.clone(),
        mails: all,
        replays: answers.clone(),
        answers,
        ..Seen::default()
    }
}

const ARGUMENTS: &str = "CHAIN_ARGUMENTS";

/// This test program again, as one part: its one test that is otherwise ignored.
fn command(arguments: &[String]) -> Result<Command, BoxError> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["part", "--exact", "--ignored", "--nocapture"]);
    command.env(ARGUMENTS, arguments.join("\n"));
    Ok(command)
}

#[tokio::test]
#[ignore = "a part of the chain, in a process of its own"]
async fn part() {
    let arguments = env::var(ARGUMENTS).unwrap();
    let arguments = iter::once("chain").chain(arguments.lines());
    chain::run(Arguments::try_parse_from(arguments).unwrap(), command).await.unwrap();
}
