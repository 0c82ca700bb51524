use super::*;

fn request(query: &str, content_type: Option<&str>, body: &[u8]) -> Fingerprints {
    let parts = Fingerprint::of("http").field("method", "POST").field("path", "/charges");
    parts.query(query).content(content_type, body).finish()
}

fn json(body: &[u8]) -> Fingerprints {
    request("", Some("application/json"), body)
}

#[track_caller]
fn assert_same(one: &Fingerprints, other: &Fingerprints) {
    assert_eq!(one.compare(other.current()), Sameness::Same);
    assert_eq!(one, other);
}

#[track_caller]
fn assert_different(one: &Fingerprints, other: &Fingerprints) {
    assert_eq!(one.compare(other.current()), Sameness::Different);
    assert_ne!(one, other);
}

/// The digests were computed by another program from the layout that `FingerprintBuilder` documents. If one of
/// them fails, the rules have changed: that is a new version, not a new expectation.
#[test]
fn b080_the_digests_of_version_1_are_frozen() {
    let hex = |made: Fingerprints| {
        made.current().to_bytes().iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
    };
    let http = || {
        let parts = Fingerprint::of("http").field("method", "POST").field("path", "/charges");
        let body = b" {\"note\":\"\\u0041\xc3\x85\\n\", \"amount\":10.50, \"account\":9007199254740993} ";
        parts.query("b=&a=1+2&a").content(Some("Application/JSON; charset=utf-8"), body)
    };
    let form = Fingerprint::of("http")
        .content(Some("application/x-www-form-urlencoded"), b"to=acme+%26%20co&amount=10")
        .finish();
    let payout = Fingerprint::of("queue payouts").field("tenant", "acme").body(b"pay 10").finish();
    let broken = Fingerprint::of("http").content(Some("application/json"), b"{").finish();

    assert_eq!(
        hex(Fingerprint::of("").finish()),
        "01a9c70bece7bac336c9f0c902e2e2218b35c85ada265e8864f4999a666a040a4f"
    );
    assert_eq!(hex(payout), "018fabc8c7b3c978d639c33f97f29f142ea0e76dde017acbde2cb7be08808367bb");
    assert_eq!(hex(http().finish()), "01fc7e8ccaadd610a748b71e07f4fd43729934602b6305e7da629ced811560dc7e");
    assert_eq!(
        hex(http().pepper(b"a pepper").finish()),
        "01e626ec77ea70cef73167f0375685979d41956829961adfe811b306145f2bc4f7"
    );
    assert_eq!(hex(form), "0143d892ab24ccd499c409ca9faf5bcc8347b51f4b0191a31673ebe3a5a18891e7");
    assert_eq!(hex(broken), "0120860347421bdcc9e1f9b4836e40edb634315a0c3ec40caf83327b455c16048b");
}

#[test]
fn f02_every_part_counts() {
    let base = || Fingerprint::of("http").field("method", "POST").field("path", "/charges/1");
    let first = base().query("a=1").content(Some("text/plain"), b"10").finish();
    let others = [
        Fingerprint::of("queue").field("method", "POST").field("path", "/charges/1").query("a=1"),
        Fingerprint::of("http").field("method", "PATCH").field("path", "/charges/1").query("a=1"),
        Fingerprint::of("http").field("method", "POST").field("path", "/charges/2").query("a=1"),
        base().query("a=2"),
        base(),
    ];
    for other in others {
        assert_different(&first, &other.content(Some("text/plain"), b"10").finish());
    }
    assert_different(&first, &base().query("a=1").content(Some("text/plain"), b"11").finish());
    assert_different(&first, &base().query("a=1").content(Some("application/json"), b"10").finish());
    assert_different(&first, &base().query("a=1").finish());
    assert_same(&first, &base().query("a=1").content(Some("text/plain"), b"10").finish());
}

#[test]
fn f02_the_content_type_counts_without_its_parameters() {
    let body = br#"[{"op":"remove","path":"/a"}]"#;
    let plain = request("", Some("application/json"), body);
    for same in ["application/json; charset=utf-8", "Application/JSON", " application/json ;x=\"a;b\""] {
        assert_same(&plain, &request("", Some(same), body));
    }
    for other in ["application/json-patch+json", "application/merge-patch+json", "text/plain", ""] {
        assert_different(&plain, &request("", Some(other), body));
    }
    assert_same(&request("", None, body), &request("", Some(""), body));
    assert_different(&request("", None, body), &request("", Some("text/plain"), body));
}

#[test]
fn f04_a_record_is_compared_with_the_fingerprint_of_its_own_version() {
    let [mut old, mut newer] = [[7; 33], [8; 33]];
    [old[0], newer[0]] = [0, 2];
    let [old, newer] = [Fingerprint::from_bytes(old), Fingerprint::from_bytes(newer)];
    let current = json(b"1").current();
    let carried = Fingerprints::new(current).accept(old);

    assert_eq!(carried.compare(current), Sameness::Same);
    assert_eq!(carried.compare(old), Sameness::Same);
    assert_eq!(carried.compare(json(b"2").current()), Sameness::Different);
    assert_eq!(carried.compare(newer), Sameness::NotComparable);
    assert!(carried.accepts(old) && !carried.accepts(newer));
    assert_eq!(Fingerprints::new(current).compare(old), Sameness::NotComparable);
    assert_eq!(carried.current(), current);
    assert_eq!(carried.iter().collect::<Vec<_>>(), [current, old]);
}

#[test]
fn f04_several_fingerprints_of_one_version_are_accepted_each_once() {
    let peppered = |pepper: &[u8]| Fingerprint::of("http").pepper(pepper).body(b"1").finish();
    let (new, old, older) = (peppered(b"new"), peppered(b"old"), peppered(b"older"));
    let carried = new.clone().accept(old.current()).accept(old.current()).accept(new.current());

    assert_eq!(carried.iter().collect::<Vec<_>>(), [new.current(), old.current()]);
    assert!(carried.accepts(old.current()) && carried.accepts(new.current()));
    assert_eq!(carried.compare(older.current()), Sameness::Different);
}

#[test]
fn f05_parts_do_not_run_into_each_other() {
    let fields = |parts: &[(&str, &str)]| {
        let start = Fingerprint::of("http");
        parts.iter().fold(start, |builder, (name, value)| builder.field(name, value)).finish()
    };
    let all = [
        fields(&[]),
        fields(&[("", "")]),
        fields(&[("", ""), ("", "")]),
        fields(&[("path", "ab"), ("query", "")]),
        fields(&[("path", "a"), ("query", "b")]),
        fields(&[("path", "a"), ("query", "")]),
        fields(&[("path", "")]),
        fields(&[("pathab", "")]),
        fields(&[("path", "ab")]),
        Fingerprint::of("http").body(b"").finish(),
        Fingerprint::of("http").body(b"").body(b"").finish(),
        Fingerprint::of("http").body(b"a").body(b"").finish(),
        Fingerprint::of("http").body(b"").body(b"a").finish(),
        Fingerprint::of("http").query("").finish(),
        Fingerprint::of("http").form_body(b"").finish(),
        Fingerprint::of("httpf").finish(),
    ];
    for (nth, one) in all.iter().enumerate() {
        for other in all.iter().skip(nth + 1) {
            assert_different(one, other);
        }
    }
}

#[test]
fn b082_separators_inside_values_separate_nothing() {
    let keyed =
        |tenant: &str, key: &str| Fingerprint::of("queue").field("tenant", tenant).field("key", key).finish();
    assert_different(&keyed("a:b", "c"), &keyed("a", "b:c"));
    assert_different(&keyed("a", ""), &keyed("", "a"));
    assert_different(&keyed("a\0", "b"), &keyed("a", "\0b"));

    let path = |path: &str, query: &str| Fingerprint::of("http").field("path", path).query(query).finish();
    assert_different(&path("/a%3Fb=1", ""), &path("/a", "b=1"));
    assert_different(&path("/a?b=1", ""), &path("/a", "b=1"));
}

#[test]
fn f05_fields_of_different_names_may_come_in_any_order() {
    let start = || Fingerprint::of("job");
    let one = start().field("a", "1").field("b", "2").body(b"x").finish();
    assert_same(&one, &start().body(b"x").field("b", "2").field("a", "1").finish());
    assert_different(&one, &start().field("a", "2").field("b", "1").body(b"x").finish());

    let first_then_second = start().field("a", "1").field("a", "2").finish();
    assert_different(&first_then_second, &start().field("a", "2").field("a", "1").finish());
}

#[test]
fn f06_json_is_compared_by_value_and_everything_else_by_its_bytes() {
    let one = br#"{"a":1,"b":[2]}"#;
    let other = b"{\n  \"b\": [2.0],\n  \"a\": 1\n}\n";
    for content_type in ["application/json", "application/vnd.api+json", "APPLICATION/PROBLEM+JSON"] {
        let content_type = Some(content_type);
        assert_same(&request("", content_type, one), &request("", content_type, other));
    }
    for content_type in [Some("text/plain"), Some("application/jsonp"), Some("multipart/form-data"), None] {
        assert_different(&request("", content_type, one), &request("", content_type, other));
        assert_same(&request("", content_type, one), &request("", content_type, one));
    }
}

#[test]
fn f16_a_broken_json_body_is_compared_by_its_bytes() {
    for broken in [&b"{"[..], b"", b"NaN", br#"{"a":1,"a":2}"#, br#""\ud800""#, b"\xff", b"\xef\xbb\xbf1"] {
        let mut spaced = broken.to_vec();
        spaced.push(b' ');
        assert_same(&json(broken), &json(broken));
        assert_different(&json(broken), &json(&spaced));
    }
    assert_different(&json(br#"{"a":1,"a":2}"#), &json(br#"{"a":2,"a":1}"#));
    assert_different(&json(br#"{"a":1,"a":2}"#), &json(br#"{"a":2}"#));
}

#[test]
fn f16_exact_bytes_never_equal_a_canonical_form() {
    let text = br#"{"a":1}"#;
    let exact = Fingerprint::of("job").body(text).finish();
    assert_different(&exact, &Fingerprint::of("job").json_body(text).finish());

    let pairs = crate::canonical::canonical_pairs(b"a=1", &[]);
    let exact = Fingerprint::of("job").body(&pairs).finish();
    assert_different(&exact, &Fingerprint::of("job").form_body(b"a=1").finish());
    let query = Fingerprint::of("job").query("a=1").finish();
    assert_different(&query, &Fingerprint::of("job").form_body(b"a=1").finish());
}

#[test]
fn f17_b078_the_query_counts_by_what_it_means() {
    let query = |query: &str| request(query, None, b"");
    assert_same(&query("a=1&b=2"), &query("b=2&a=1"));
    assert_same(&query("a=%20"), &query("a=+"));
    assert_different(&query("dry=1"), &query(""));
    assert_different(&query("a=1&a=2"), &query("a=2&a=1"));
    assert_different(&query("a"), &query("a="));

    let ignoring = |query: &str| Fingerprint::of("http").query_ignoring(query, &["utm_source", "_"]).finish();
    assert_same(&ignoring("a=1&utm%5Fsource=mail&_=3"), &ignoring("_=4&a=1"));
    assert_different(&ignoring("a=1&b=2"), &ignoring("a=1"));
    assert_same(&ignoring("a=1&_=4"), &Fingerprint::of("http").query("a=1").finish());
}

#[test]
fn f18_forms_follow_the_query_and_multipart_its_bytes() {
    let form = |body: &[u8]| request("", Some("application/x-www-form-urlencoded; charset=UTF-8"), body);
    assert_same(&form(b"to=acme&amount=10"), &form(b"amount=1%30&to=acme"));
    assert_different(&form(b"amount=10"), &form(b"amount=11"));

    let multipart = |body: &[u8]| request("", Some("multipart/form-data; boundary=x"), body);
    assert_different(&multipart(b"to=acme&amount=10"), &multipart(b"amount=10&to=acme"));
}

#[test]
fn f19_a_pepper_changes_the_digest() {
    let charge = || Fingerprint::of("http").json_body(b"4242");
    let plain = charge().finish();
    let peppered = charge().pepper(b"one").finish();

    assert_eq!(plain.current().to_bytes().len(), 33);
    assert_different(&plain, &peppered);
    assert_different(&peppered, &charge().pepper(b"two").finish());
    assert_different(&plain, &charge().pepper(b"").finish());
    assert_same(&peppered, &Fingerprint::of("http").pepper(b"one").json_body(b"4242").finish());
    assert_different(&peppered, &Fingerprint::of("http").pepper(b"one").json_body(b"4243").finish());
}

#[test]
fn f21_a_request_may_be_told_by_selected_fields_alone() {
    let selected =
        |order: u64, _note: &str| Fingerprint::of("charge").field("order", order.to_be_bytes()).finish();
    assert_same(&selected(7, "first try"), &selected(7, "second try"));
    assert_different(&selected(7, ""), &selected(8, ""));
}

#[test]
fn bytes_come_back_as_they_went() {
    let made = json(b"1").current();
    assert_eq!(made.version(), 1);
    assert_eq!(made.to_bytes()[0], 1);
    assert_eq!(Fingerprint::from_bytes(made.to_bytes()), made);

    let unknown = [255; 33];
    assert_eq!(Fingerprint::from_bytes(unknown).to_bytes(), unknown);
    assert_eq!(Fingerprint::from_bytes(unknown).version(), 255);
}

#[test]
fn debug_shows_no_digest_and_no_part() {
    let mut bytes = [0xab; 33];
    bytes[0] = 3;
    let made = Fingerprint::from_bytes(bytes);
    assert_eq!(format!("{made:?}"), "Fingerprint(v3)");
    assert_eq!(
        format!("{:?}", Fingerprints::new(made)),
        "Fingerprints { current: Fingerprint(v3), older: [] }"
    );

    let builder = Fingerprint::of("http").field("card", "4242").body(b"secret").pepper(b"pepper");
    assert_eq!(format!("{builder:?}"), "FingerprintBuilder { parts: 2, peppered: true, .. }");
}
