//! Every cause and what is sent for it.

use std::collections::HashSet;

use http::header;

use super::*;

fn causes() -> Vec<(Rejection, u16, &'static str, Option<&'static str>)> {
    let wait = Duration::from_millis(200);
    let malformed = Invalid::new("key", "1 to 255 characters").seen(300_usize);
    vec![
        (Rejection::MissingKey, 400, "missing-key", None),
        (Rejection::MalformedKey(malformed), 400, "malformed-key", None),
        (Rejection::IncompleteBody, 400, "incomplete-body", None),
        (Rejection::BodyTooLarge { limit: Some(7) }, 413, "body-too-large", None),
        (Rejection::EarlyData, 425, "early-data", None),
        (Rejection::InProgress { retry_after: wait }, 409, "in-progress", Some("1")),
        (Rejection::InDoubt { since: SystemTime::UNIX_EPOCH }, 409, "in-doubt", Some("120")),
        (Rejection::Mismatch, 422, "mismatch", None),
        (Rejection::StoreUnavailable, 503, "store-unavailable", Some("1")),
        (Rejection::RolledBack, 503, "rolled-back", Some("1")),
        (Rejection::EffectNotDone, 503, "effect-not-done", Some("1")),
        (Rejection::OutcomeUnknown, 503, "outcome-unknown", Some("5")),
        (Rejection::HandlerPanicked, 500, "handler-panicked", None),
        (Rejection::EffectUnknown, 500, "outcome-unknown", None),
        (Rejection::Corrupt, 500, "corrupt", None),
        (Rejection::NoScope, 500, "no-scope", None),
        (Rejection::LayeredTwice, 500, "layered-twice", None),
        (Rejection::NotLayered, 500, "not-layered", None),
        (Rejection::TakenTwice, 500, "taken-twice", None),
        (Rejection::Misconfigured, 500, "misconfigured", None),
    ]
}

#[test]
fn e04_e10_each_cause_is_a_problem_document_of_its_own_type() {
    let mut types = HashSet::new();
    for (rejection, status, name, retry_after) in causes() {
        let response: Response<Bytes> = rejection.clone().response(&Style::default());
        let headers = response.headers();
        assert_eq!(response.status(), status, "{name}");
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json", "{name}");
        assert_eq!(headers[header::CACHE_CONTROL], "no-store", "{name}");
        let sent = headers.get(header::RETRY_AFTER).map(|value| value.to_str().expect("digits"));
        assert_eq!(sent, retry_after, "{name}");
        assert_eq!(
            response.extensions().get::<Rejection>(),
            Some(&rejection),
            "typed for layers further out"
        );

        let document: serde_json::Value = serde_json::from_slice(response.body()).expect("json");
        assert_eq!(document["type"], format!("urn:idem:problem:{name}"));
        assert_eq!(document["status"], status);
        for member in ["title", "detail"] {
            assert!(document[member].as_str().is_some_and(|text| !text.is_empty()), "{name}: {member}");
        }
        types.insert(document["type"].as_str().expect("text").to_owned());
    }
    assert_eq!(types.len(), causes().len() - 1, "only an unknown outcome has two causes");
}

#[test]
fn a_wiring_fault_tells_the_client_nothing_but_that() {
    for (rejection, ..) in causes().into_iter().filter(|(rejection, ..)| rejection.is_wiring_fault()) {
        let response: Response<Bytes> = rejection.response(&Style::default());
        let document: serde_json::Value = serde_json::from_slice(response.body()).expect("json");
        assert_eq!(document["detail"], "The service is put together wrongly.");
    }
}

#[test]
fn a_malformed_key_is_described_by_what_is_allowed() {
    let response: Response<Bytes> =
        Rejection::MalformedKey(Invalid::new("key", "1 to 255 characters").seen(300_usize))
            .response(&Style::default());
    let document: serde_json::Value = serde_json::from_slice(response.body()).expect("json");
    assert_eq!(document["detail"], "key must be 1 to 255 characters; seen=300.");
}
