//! What arrives is what was published; what cannot arrive is refused.

use async_nats::HeaderValue;
use idem_core::Invalid;
use idem_postgres::{JetStream, Publisher as _};
use idem_test_support::nats;

use crate::rig::{Rig, id_of, message, outgoing};

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const HEADERS: [(&str, &[u8]); 4] = [
    ("traceparent", TRACE.as_bytes()),
    ("Twice", b"first: one"),
    ("Twice", "ä, zweitens".as_bytes()),
    ("Empty", b""),
];

#[tokio::test]
async fn o03_ids_headers_and_bytes_arrive_as_they_were_published() {
    let rig = Rig::new(nats()).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let payloads =
        [Vec::new(), b"{\"a\":1}".to_vec(), every_byte, vec![0; 200_000], b"\r\nPUB x 0\r\n".to_vec()];
    let sent: Vec<_> = payloads
        .into_iter()
        .map(|payload| outgoing("order.charged", "application/octet-stream; x=\"y\"", payload, &HEADERS))
        .collect();
    for message in &sent {
        rig.publisher.publish(message).await.expect("it is acknowledged");
    }
    let taken = rig.take(sent.len()).await;
    for (taken, sent) in taken.iter().zip(&sent) {
        assert_eq!(taken.subject.as_str(), format!("{}.order.charged", rig.name));
        assert!(
            taken.payload == *sent.payload(),
            "{} bytes became {}",
            sent.payload().len(),
            taken.payload.len()
        );
        assert_eq!(id_of(taken), sent.id().to_string());
        let headers = taken.headers.as_ref().unwrap();
        let all = |name: &str| headers.get_all(name).map(HeaderValue::as_str).collect::<Vec<_>>();
        assert_eq!(all("Content-Type"), ["application/octet-stream; x=\"y\""]);
        assert_eq!(all("traceparent"), [TRACE]);
        assert_eq!(all("Twice"), ["first: one", "ä, zweitens"]);
        assert_eq!(all("Empty"), [""]);
        assert_eq!(headers.len(), 5, "nothing else: {headers:?}");
    }
}

#[tokio::test]
async fn o03_nothing_counts_as_published_that_no_stream_keeps() {
    let rig = Rig::new(nats()).await;
    let nowhere = JetStream::new(rig.context.clone()).prefix("nowhere").unwrap();
    let refused = nowhere.publish(&message("order.charged")).await.expect_err("no stream keeps it");
    assert!(refused.to_string().contains("no stream found"), "{refused}");
    let large = outgoing("order.charged", "text/plain", vec![b'x'; 1024 * 1024], &[]);
    let refused = rig.publisher.publish(&large).await.expect_err("the server takes 1 MiB with the headers");
    assert!(refused.to_string().contains("max payload"), "{refused}");
    assert_eq!(rig.kept().await, 0);
}

#[tokio::test]
async fn o03_what_cannot_be_said_to_a_server_is_refused_by_field() {
    let rig = Rig::new(nats()).await;
    let bare = JetStream::new(rig.context.clone());
    let with = |name, value| outgoing("a", "text/plain", "", &[(name, value)]);
    let cases = [
        (message("order charged"), "topic"),
        (message("order.*"), "topic"),
        (message("order..charged"), "topic"),
        (message(".charged"), "topic"),
        (message(">"), "topic"),
        (with("Nats-Msg-Id", b"another"), "header name"),
        (with("content-type", b"another"), "header name"),
        (with("a:b", b"c"), "header name"),
        (with("a", b"\xff"), "header value"),
        (with("a", b"b\r\nc: d"), "header value"),
        (outgoing("a", " text/plain", "", &[]), "content type"),
    ];
    for (message, field) in cases {
        let refused = rig.publisher.publish(&message).await.expect_err(field);
        let invalid = refused.downcast_ref::<Invalid>().map(Invalid::field);
        assert_eq!(invalid, Some(field), "{refused}");
    }
    let deep = JetStream::new(rig.context.clone()).prefix(&"x".repeat(900)).unwrap();
    let refused = deep.publish(&message(&"y".repeat(200))).await.expect_err("too long together");
    assert_eq!(refused.downcast_ref::<Invalid>().map(Invalid::field), Some("topic with its prefix"));
    // A server's own subjects are calls to it.
    let delete = message(&format!("$JS.API.STREAM.DELETE.{}", rig.name));
    let refused = bare.publish(&delete).await.expect_err("no topic");
    assert_eq!(refused.downcast_ref::<Invalid>().map(Invalid::field), Some("topic"));
    assert_eq!(rig.kept().await, 0, "the stream is there, and empty");
    for prefix in ["", "$JS", "a b", "a.", ">"] {
        let refused = JetStream::new(rig.context.clone()).prefix(prefix).expect_err(prefix);
        assert_eq!(refused.field(), "prefix");
    }
    assert_eq!(format!("{:?}", bare.prefix("shop").unwrap()), r#"JetStream { prefix: Some("shop"), .. }"#);
}
