//! Ids as odd as producers make them.

use std::borrow::Cow;

use idem_core::ErrorKind;

use crate::rig::{LEDGER, Rig, deliver};

#[tokio::test]
async fn i01_what_the_table_cannot_hold_is_refused_before_anything_is_sent() {
    let rig = Rig::new().await;
    let long = "x".repeat(256);
    // Each é is two bytes.
    let wide = "é".repeat(128);
    for (name, seen) in [("", 0), ("a\0b", 3), ("\0", 1), (&long, 256), (&wide, 256)] {
        let mut tx = rig.begin().await;
        for (field, consumer, event) in [("consumer", name, "paid-1"), ("event", LEDGER, name)] {
            let refused = rig.store.inbox().once(&mut tx, consumer, event).await.expect_err("it is refused");
            let said = format!("{field} must be 1 to 255 bytes without NUL; seen={seen}");
            assert_eq!((refused.kind(), refused.to_string()), (ErrorKind::Invalid, said));
        }
        assert_eq!(rig.once(&mut tx, "paid-1").await.ok(), Some(true), "the transaction goes on");
        tx.rollback().await.unwrap();
    }
}

#[tokio::test]
async fn i01_ids_are_compared_byte_by_byte() {
    let rig = Rig::new().await;
    let longest = ["y".repeat(255), format!("{}é", "y".repeat(253))];
    let odd = [
        "a",
        "A",
        "a ",
        " a",
        "é",
        "e\u{301}",
        "ﬁ",
        "fi",
        "'; DROP TABLE effect; --",
        "\"",
        "\\",
        "{a,b}",
        "NULL",
        "\u{1}\u{7f}\n\t",
        "\u{202e}abc",
        "🦀",
        "0x61",
        "%",
        "\u{feff}a",
    ];
    for event in odd.into_iter().chain(longest.iter().map(String::as_str)) {
        for first in [true, false] {
            assert_eq!(rig.deliver(event).await.ok(), Some(first), "as an event: {event:?}");
            assert_eq!(deliver(&rig.store, event, "x").await.ok(), Some(first), "as a consumer: {event:?}");
        }
    }
}

#[tokio::test]
async fn i01_the_longest_names_that_do_not_compress_fit_the_index() {
    let rig = Rig::new().await;
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut noise = || -> String {
        let letters = std::iter::repeat_with(|| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + u8::try_from(state % 94).unwrap())
        });
        letters.take(255).collect()
    };
    for _ in 0..20 {
        let (consumer, event) = (noise(), noise());
        assert_eq!(deliver(&rig.store, &consumer, &event).await.ok(), Some(true));
        assert_eq!(deliver(&rig.store, &consumer, &event).await.ok(), Some(false));
    }
}

#[tokio::test]
async fn p18_the_table_refuses_impossible_rows() {
    let rig = Rig::new().await;
    assert_eq!(rig.deliver("paid-1").await.ok(), Some(true));
    for row in [
        "consumer = ''",
        "event = ''",
        "consumer = repeat('c', 256)",
        "event = repeat('é', 128)",
        "received_at = '-infinity'",
        "expires_at = 'infinity'",
    ] {
        let sql = sqlx::AssertSqlSafe(format!("UPDATE idempotency_key_inbox SET {row}"));
        let error = sqlx::query(sql).execute(&rig.direct).await.expect_err(row);
        let code = error.as_database_error().and_then(|error| error.code().map(Cow::into_owned));
        assert_eq!(code.as_deref(), Some("23514"), "{row}: {error}");
    }
}
