use proptest::{collection, prelude::*};

use super::{
    canonical_pairs,
    json_model::{Choices, choices},
};

fn form(raw: &str) -> Vec<u8> {
    canonical_pairs(raw.as_bytes(), &[])
}

#[track_caller]
fn assert_agree(spellings: &[&str]) {
    for spelling in spellings {
        assert_eq!(form(spelling), form(spellings[0]), "{spelling}");
    }
}

#[track_caller]
fn assert_all_differ(queries: &[&str]) {
    for (nth, one) in queries.iter().enumerate() {
        for other in &queries[nth + 1..] {
            assert_ne!(form(one), form(other), "{one} and {other}");
        }
    }
}

#[test]
fn f17_names_are_sorted_and_equal_names_keep_their_order() {
    assert_agree(&["a=1&b=2", "b=2&a=1"]);
    assert_agree(&["a=1&a=2&b=3", "a=1&b=3&a=2", "b=3&a=1&%61=2"]);
    assert_all_differ(&["a=1&a=2", "a=2&a=1", "a=1", "a=2", "a=12", "a=1%26a=2", "a=1&b=2", "a=2&b=1"]);
}

#[test]
fn f17_escapes_are_undone_once() {
    assert_agree(&["a=%20", "a=+", "%61=%20"]);
    assert_agree(&["a=%2B", "a=%2b"]);
    assert_agree(&["n=%C3%A9", "n=é"]);
    assert_all_differ(&["a=+", "a=%2B", "a=%2520", "a=%20%20", "a="]);
    assert_all_differ(&["a%3D1", "a=1", "a%261=", "a&1="]);
    assert_all_differ(&["a=%FF", "a=%FE", "a=%EF%BF%BD"]);
    assert_all_differ(&["a=%C3%A9", "a=e%CC%81", "A=%C3%A9"]);
}

#[test]
fn b078_a_flag_an_empty_value_and_nothing_differ() {
    assert_all_differ(&["", "a", "a=", "=", "=a", "a==", "a=a", "a&a", "a&a="]);
    assert_agree(&["", "&", "&&"]);
    assert_agree(&["a=1&b", "&a=1&&b&"]);
}

#[test]
fn f17_a_broken_escape_stays_as_it_was_written() {
    assert_all_differ(&["a=%zz", "a=%25zz", "a=%ZZ", "a=%", "a=%25", "a=%4", "a=%254", "a=%+1", "a=%25+1"]);
    assert_all_differ(&["%zz=1", "%25zz=1"]);
    assert_all_differ(&["a=%zz+", "a=%zz%20"]);
    assert_agree(&["a=%zz&b=+", "b=%20&a=%zz"]);
}

#[test]
fn f17_ignored_names_are_left_out_after_decoding() {
    let ignoring = |raw: &str| canonical_pairs(raw.as_bytes(), &["_", "utm source"]);
    assert_eq!(ignoring("a=1&_=2&utm+source=x&utm%20source&%5f"), form("a=1"));
    assert_eq!(ignoring("_=1"), form(""));
    assert_eq!(ignoring("__=1&UTM+source=2&a=_"), form("__=1&UTM+source=2&a=_"));
    assert_ne!(ignoring("a=1&_=2"), ignoring("a=2&_=2"));
}

#[test]
fn f05_the_pairs_do_not_run_into_each_other() {
    assert_eq!(form("b=&a"), b"\x01\0\0\0\0\0\0\0\x01a\0\x01\0\0\0\0\0\0\0\x01b\x01\0\0\0\0\0\0\0\0");
    assert_all_differ(&["ab=c", "a=bc", "abc=", "abc", "a=b&c", "a&b=c", "a&b&c"]);
}

type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Few names, so that some repeat; a pair without a name and a value would be no pair.
fn pairs() -> impl Strategy<Value = Pairs> {
    let bytes = |letters: Vec<u8>| collection::vec(prop::sample::select(letters), 0..3);
    let value = prop::option::of(prop_oneof![bytes(b"a=&%+ 4".to_vec()), collection::vec(any::<u8>(), 0..4)]);
    let pair = (bytes(b"ab&".to_vec()), value)
        .prop_filter("no pair", |(name, value)| !name.is_empty() || value.is_some());
    collection::vec(pair, 0..6)
}

fn spell(pairs: &Pairs, choice: &mut Choices) -> Vec<u8> {
    let mut word = |bytes: &[u8]| -> Vec<u8> {
        let spelt = bytes.iter().map(|byte| match (choice.below(3), byte) {
            (0, b' ') => b"+".to_vec(),
            (0, plain) if !b"%+&=".contains(plain) => vec![*plain],
            (1, byte) => format!("%{byte:02x}").into_bytes(),
            (_, byte) => format!("%{byte:02X}").into_bytes(),
        });
        spelt.collect::<Vec<_>>().concat()
    };
    let mut spelt = Vec::new();
    for (name, value) in pairs {
        let mut pair = word(name);
        if let Some(value) = value {
            pair.push(b'=');
            pair.extend(word(value));
        }
        spelt.push(pair);
    }
    spelt.join(&b'&')
}

fn sorted(pairs: &Pairs) -> Pairs {
    let mut sorted = pairs.clone();
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    sorted
}

proptest! {
    #[test]
    fn f17_lists_agree_exactly_when_they_mean_the_same(
        (one, other) in pairs().prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
        third in pairs(),
        mut choice in choices(),
    ) {
        let form = |pairs: &Pairs, choice: &mut Choices| canonical_pairs(&spell(pairs, choice), &[]);
        let of_one = form(&one, &mut choice);
        prop_assert_eq!(sorted(&one) == sorted(&other), of_one == form(&other, &mut choice));
        prop_assert_eq!(sorted(&one) == sorted(&third), of_one == form(&third, &mut choice));
        prop_assert_eq!(&of_one, &form(&one, &mut choice));
    }

    #[test]
    fn f17_any_bytes_have_a_form(raw in any::<Vec<u8>>(), almost in "[a%=&+0-9]{0,20}") {
        canonical_pairs(&raw, &[]);
        prop_assert_eq!(canonical_pairs(almost.as_bytes(), &["a"]).is_empty(), almost.split('&').all(is_a_or_empty));
    }
}

/// Nothing, or a pair named `a` in one of the spellings that the alphabet above allows.
fn is_a_or_empty(piece: &str) -> bool {
    let name = piece.split('=').next().unwrap_or_default();
    piece.is_empty() || name == "a" || name == "%61"
}
