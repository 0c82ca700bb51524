//! When a key is looked at, and what it is taken for.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Method, Request},
};
use idem_conformance::Call;
use idem_core::{Engine, Policy, Scope};
use idem_http::{IdempotencyLayer, Mode, Rejection};
use idem_memory::MemoryStore;

use crate::bench::{Bench, Caller, charge, keyed, send};

#[tokio::test(start_paused = true)]
async fn h01_the_header_is_found_in_any_case_and_under_configured_names() {
    let bench = Bench::new();
    let layer = bench
        .resumable()
        .header(HeaderName::from_static("paypal-request-id"))
        .header_alias(HeaderName::from_static("idempotency-key"));
    let app = bench.app(layer, |run| run.to_string());
    for name in ["PayPal-Request-Id", "idempotency-KEY", "IDEMPOTENCY-KEY"] {
        let request = charge().header(name, "k").body("{}".into()).expect("a request");
        assert_eq!(send(&app, request).await.text(), "1", "{name}");
    }
    assert_eq!(bench.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn h07_a_malformed_key_is_refused_even_where_keys_are_optional() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    for value in ["\"abc", "'abc'", "", "a b", "a,b", "\"\"", "?1"] {
        let got = send(&app, keyed(value)).await;
        assert_eq!((got.status, got.problem().as_str()), (400, "malformed-key"), "{value}");
    }
    assert_eq!((bench.runs(), bench.store.seen(Call::Claim)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn b066_bytes_outside_ascii_are_a_400() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().echo_key(), |_| "ran");
    for byte in (0x80..=0xff_u8).chain([b'\t']) {
        let mut request = charge().body(Body::empty()).expect("a request");
        let value = HeaderValue::from_bytes(&[b'k', byte]).expect("a header value");
        request.headers_mut().insert("idempotency-key", value);
        let got = send(&app, request).await;
        assert_eq!(got.problem(), "malformed-key");
        assert!(!got.headers.contains_key("idempotency-key"), "nothing is reflected");
    }
    assert_eq!(bench.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn h08_two_keys_are_a_400() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    let request = charge().header("idempotency-key", "k").header("idempotency-key", "k").body(Body::empty());
    assert_eq!(send(&app, request.expect("a request")).await.problem(), "malformed-key");
    assert_eq!(bench.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn h11_a_short_key_is_refused_before_the_store_is_asked() {
    let bench = Bench::new();
    let app =
        bench.app(bench.resumable().key_length(20..=255).key_format(|key| key.starts_with('a')), |_| "ran");
    for refused in ["a".repeat(19), "b".repeat(20)] {
        assert_eq!(send(&app, keyed(&refused)).await.problem(), "malformed-key");
    }
    assert_eq!(bench.store.seen(Call::Claim), 0);
    assert_eq!(send(&app, keyed(&"a".repeat(20))).await.text(), "ran");
}

#[tokio::test(start_paused = true)]
async fn h12_keys_that_differ_in_case_are_two_operations() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |run| run.to_string());
    assert_eq!(send(&app, keyed("ABC")).await.text(), "1");
    assert_eq!(send(&app, keyed("abc")).await.text(), "2");
}

#[tokio::test(start_paused = true)]
async fn h16_b068_a_client_that_begins_to_quote_gets_its_replay() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |run| run.to_string());
    for spelling in ["abc", "\"abc\"", "\"abc\";p=1"] {
        assert_eq!(send(&app, keyed(spelling)).await.text(), "1", "{spelling}");
    }
    let strict = bench.app(bench.resumable().mode(Mode::Strict), |run| run.to_string());
    assert_eq!(send(&strict, keyed("abc")).await.problem(), "malformed-key");
    assert_eq!(send(&strict, keyed("\"abc\"")).await.text(), "1");
}

#[tokio::test(start_paused = true)]
async fn h19_a_key_elsewhere_is_no_key() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().required(), |_| "ran");
    let request = Request::post("/charges?idempotency-key=k")
        .extension(Caller("acme"))
        .body(r#"{"idempotency_key":"k"}"#.into());
    assert_eq!(send(&app, request.expect("a request")).await.problem(), "missing-key");
}

#[tokio::test(start_paused = true)]
async fn h20_an_echoed_key_is_a_legal_string() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().echo_key(), |_| "ran");
    for (sent, echoed) in [("abc", "\"abc\""), (r#""a\"b\\c""#, r#""a\"b\\c""#)] {
        for _ in 0..2 {
            assert_eq!(send(&app, keyed(sent)).await.header("idempotency-key"), Some(echoed));
        }
    }
    let silent = bench.app(bench.resumable(), |_| "ran");
    assert_eq!(send(&silent, keyed("x")).await.header("idempotency-key"), None);
}

#[tokio::test(start_paused = true)]
async fn a01_methods_that_are_not_covered_pass_untouched() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().required(), |run| run.to_string());
    for method in [Method::GET, Method::PUT] {
        for _ in 0..2 {
            let mut request = keyed("\"broken");
            *request.method_mut() = method.clone();
            let got = send(&app, request).await;
            assert_eq!((got.status, got.is_replay()), (200, false));
        }
    }
    assert_eq!((bench.runs(), bench.store.seen(Call::Claim)), (4, 0));

    let mut request = keyed("k");
    *request.method_mut() = Method::PATCH;
    send(&app, request).await;
    assert_eq!(bench.store.seen(Call::Claim), 1, "patch is covered");
}

#[tokio::test(start_paused = true)]
async fn a01_without_a_key_an_optional_route_runs_every_time() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |run| run.to_string());
    for expected in ["1", "2"] {
        assert_eq!(send(&app, charge().body(Body::empty()).expect("a request")).await.text(), expected);
    }
    assert_eq!(bench.store.seen(Call::Claim), 0);
}

#[tokio::test(start_paused = true)]
async fn a02_e01_a_required_key_that_is_missing_is_a_400() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().required(), |_| "ran");
    let got = send(&app, charge().body(Body::empty()).expect("a request")).await;
    assert_eq!((got.status, got.problem().as_str()), (400, "missing-key"));
    assert_eq!(got.rejection, Some(Rejection::MissingKey));
    assert_eq!(bench.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a03_put_can_be_covered() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().methods([Method::PUT]), |run| run.to_string());
    for _ in 0..2 {
        let mut request = keyed("k");
        *request.method_mut() = Method::PUT;
        assert_eq!(send(&app, request).await.text(), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn a04_a05_a10_the_same_key_in_two_scopes_is_two_operations() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |run| run.to_string());
    let by = |caller| {
        let request = Request::post("/charges").extension(Caller(caller)).header("idempotency-key", "k");
        request.body(Body::empty()).expect("a request")
    };
    for (caller, expected) in [("acme", "1"), ("tenant:7/user:9", "2"), ("acme/sandbox", "3"), ("acme", "1")]
    {
        assert_eq!(send(&app, by(caller)).await.text(), expected, "{caller}");
    }
}

#[tokio::test(start_paused = true)]
async fn a06_without_a_scope_nothing_runs() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable(), |_| "ran");
    let request = Request::post("/charges").header("idempotency-key", "k").body(Body::empty());
    let got = send(&app, request.expect("a request")).await;
    assert_eq!((got.status, got.problem().as_str()), (500, "no-scope"));
    assert_eq!((bench.runs(), bench.store.seen(Call::Claim)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn b070_a_rotated_credential_of_one_account_still_replays() {
    let bench = Bench::new();
    // What the scope sees is the account that authentication found, whatever the credential was.
    let app = bench.app(bench.resumable(), |run| run.to_string());
    for credential in ["Bearer one", "Bearer two"] {
        let request =
            charge().header("authorization", credential).header("idempotency-key", "k").body(Body::empty());
        assert_eq!(send(&app, request.expect("a request")).await.text(), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn a09_endpoints_can_have_keys_of_their_own() {
    let bench = Bench::new();
    let engine = Engine::new(MemoryStore::new());
    let layer = IdempotencyLayer::new(engine, Policy::resumable(), |parts| {
        let caller = parts.extensions.get::<Caller>()?.0;
        Scope::join([caller, parts.method.as_str(), parts.uri.path()]).ok()
    });
    let app = bench.app(layer, |run| run.to_string());
    let mut patch = keyed("k");
    *patch.method_mut() = Method::PATCH;
    assert_eq!(send(&app, keyed("k")).await.text(), "1");
    assert_eq!(send(&app, patch).await.text(), "2", "an operation of its own");
    assert_eq!(send(&app, keyed("k")).await.text(), "1");
}

#[tokio::test(start_paused = true)]
async fn a11_early_data_is_too_early_for_a_charge() {
    let bench = Bench::new();
    let app = bench.app(bench.resumable().methods([Method::POST, Method::GET]), |_| "ran");
    let early = |method: Method, flag: &str| {
        let request = charge().method(method).header("early-data", flag).header("idempotency-key", "k");
        request.body(Body::empty()).expect("a request")
    };
    let got = send(&app, early(Method::POST, "1")).await;
    assert_eq!((got.status, got.problem().as_str()), (425, "early-data"));
    assert_eq!((bench.runs(), bench.store.seen(Call::Claim)), (0, 0));
    assert_eq!(send(&app, early(Method::GET, "1")).await.status, 200, "a safe method may be early");
    assert_eq!(
        send(&app, early(Method::POST, "0")).await.status,
        422,
        "not early; the key is that of the get"
    );
    assert_eq!(send(&app, keyed("other")).await.status, 200);
}
