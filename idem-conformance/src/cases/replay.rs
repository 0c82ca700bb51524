//! Giving the stored answer again: byte for byte, and without touching it.

use bytes::Bytes;
use idem_core::{ClaimOutcome, KeyId, Origin, StoredResponse};

use crate::{
    bench::{Bench, LEASE, MARGIN, RETENTION, answer, request},
    step::{Reply, Step},
};

/// Ends a fresh key with this answer.
async fn stored(bench: &Bench, response: &StoredResponse) -> KeyId {
    let id = bench.id();
    let owner = bench.take(&id).await;
    assert_eq!(bench.complete(&owner, response).await, Ok(()), "{response:?} can be stored");
    id
}

/// Stores it and asks for it on both connections.
async fn comes_back(bench: &Bench, response: &StoredResponse) {
    let id = stored(bench, response).await;
    for store in [&bench.store, &bench.other] {
        match Step::Claim(request(&id)).call(&**store).await {
            Reply::Claim(Ok(ClaimOutcome::Completed(replayed))) => {
                assert_eq!(replayed.status(), response.status());
                assert!(replayed.headers() == response.headers(), "{response:?}: other headers");
                assert!(replayed.body() == response.body(), "{response:?}: another body");
            }
            other => panic!("{response:?} came back as {other:?}"),
        }
    }
}

fn with_body(body: impl Into<Bytes>) -> StoredResponse {
    StoredResponse::new(200, body).expect("a valid status")
}

pub(super) async fn replay_is_the_same_every_time(bench: &Bench) {
    let first = answer("the answer").header("location", "/charges/7");
    let id = stored(bench, &first).await;
    for _ in 0..20 {
        assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(again) if again == first));
    }
}

pub(super) async fn replay_writes_nothing(bench: &Bench) {
    let id = stored(bench, &answer("the answer")).await;
    bench.elapse(RETENTION / 2).await;
    let before = bench.record(&id).await;
    for _ in 0..20 {
        Step::Claim(request(&id)).call(&*bench.store).await;
    }
    assert_eq!(bench.record(&id).await, before);
}

pub(super) async fn replay_lasts_as_long_as_retention(bench: &Bench) {
    let id = stored(bench, &answer("the answer")).await;
    bench.elapse(RETENTION.saturating_sub(MARGIN)).await;
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(_)));
    bench.elapse(LEASE + MARGIN * 2).await;
    assert_eq!(bench.take(&id).await.origin(), Origin::Expired, "swept or not, it is over");
}

pub(super) async fn replay_keeps_every_byte_of_the_body(bench: &Bench) {
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    let bodies: [&[u8]; 12] = [
        b"",
        b"x",
        b"\0",
        b"a\0b",
        b"\xff",
        b"\xff\xfe\x00\x80",
        b"\\x41",
        b"\r\n\r\n",
        b"{\"b\":1,\"a\":1e2,\"a\":2, \"u\":\"\\u0000\"}\n",
        "\u{e9} e\u{301} \u{1f4b6}".as_bytes(),
        b"null",
        &every_byte,
    ];
    for body in bodies {
        comes_back(bench, &with_body(body.to_vec())).await;
    }
}

pub(super) async fn replay_takes_a_large_body(bench: &Bench) {
    let noise: Vec<u8> = (0_u32..1 << 20).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    comes_back(bench, &with_body(noise)).await;
}

pub(super) async fn replay_tells_no_body_from_an_empty_one(bench: &Bench) {
    let none = StoredResponse::new(204, "").expect("a valid status");
    for response in [none, with_body(""), with_body("null"), with_body("{}")] {
        comes_back(bench, &response).await;
    }
}

pub(super) async fn replay_keeps_headers_as_they_were(bench: &Bench) {
    let many = (0..50).fold(with_body(""), |response, n| response.header(format!("x-{n}"), format!("{n}")));
    let responses = [
        with_body("")
            .header("link", "</1>")
            .header("etag", "\"x\"")
            .header("link", "</2>")
            .header("link", "</1>"),
        with_body("").header("z", "1").header("a", "2").header("m", "3"),
        with_body("").header("x-empty", "").header("x-empty", ""),
        with_body("").header("x-obs-text", &b"caf\xe9 \xff\x80"[..]),
        with_body("").header("x-odd", "a\tb, \"c\"; {d} \\ '"),
        with_body("").header("x-long", "v".repeat(8000)),
        with_body(""),
        many,
    ];
    for response in responses {
        comes_back(bench, &response).await;
    }
}

pub(super) async fn replay_keeps_the_status(bench: &Bench) {
    for status in
        [200, 201, 202, 204, 206, 226, 299, 303, 308, 400, 402, 404, 409, 422, 429, 451, 500, 503, 599]
    {
        comes_back(bench, &StoredResponse::new(status, "").expect("a valid status")).await;
    }
}

pub(super) async fn replay_is_of_the_owner_that_ended_it(bench: &Bench) {
    let id = bench.id();
    let old = bench.take(&id).await;
    bench.hand_on(&old).await;
    let new = bench.take(&id).await;
    assert!(bench.complete(&old, &answer("old")).await.is_err());
    bench.complete(&new, &answer("new")).await.expect("complete");
    assert!(matches!(bench.ask(&id).await, ClaimOutcome::Completed(stored) if stored == answer("new")));
}

pub(super) async fn replay_is_whole_or_not_there(bench: &Bench) {
    for round in 0..100 {
        let id = bench.id();
        let owner = bench.take(&id).await;
        let end = Step::Complete(owner, answer(&format!("{round} ").repeat(500)), RETENTION);
        bench.race(&[end, Step::Claim(request(&id)), Step::Claim(request(&id))]).await;
    }
}
