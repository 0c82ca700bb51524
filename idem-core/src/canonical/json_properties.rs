//! Properties: against a model with exact numbers, and against `serde_json`, which shares the grammar.

use proptest::prelude::*;

use super::{
    NotCanonical, canonical_json,
    json_model::{Choices, Json, choices, json},
};

fn form(value: &Json, mut choice: Choices) -> Vec<u8> {
    let spelling = value.spell(&mut choice);
    canonical_json(spelling.as_bytes()).unwrap_or_else(|error| panic!("{error}: {spelling}"))
}

proptest! {
    #[test]
    fn f07_every_spelling_of_a_value_has_one_form(value in json(), one in choices(), other in choices()) {
        prop_assert_eq!(form(&value, one), form(&value, other));
    }

    #[test]
    fn f07_two_values_have_two_forms(one in json(), other in json(), first in choices(), second in choices()) {
        prop_assert_eq!(one == other, form(&one, first) == form(&other, second));
    }

    #[test]
    fn f07_the_smallest_change_shows(value in json(), mut change in choices(), one in choices(), other in choices()) {
        let changed = value.nudged(&mut change);
        prop_assert_ne!(&value, &changed);
        prop_assert_ne!(form(&value, one), form(&changed, other));
    }

    #[test]
    fn f07_a_form_is_its_own_form(value in json(), one in choices()) {
        let canonical = form(&value, one);
        prop_assert_eq!(canonical_json(&canonical), Ok(canonical));
    }

    #[test]
    fn f16_any_bytes_are_answered(raw in any::<Vec<u8>>()) {
        agree_with_serde_json(&raw)?;
    }

    #[test]
    fn f16_almost_json_is_answered(raw in r#"([\[\]{},:" \\]|\\u|dc|d8|[0-9]{1,4}|[-+.eE]|null|true|a|\n|é){0,24}"#) {
        agree_with_serde_json(raw.as_bytes())?;
    }

    #[test]
    fn f16_json_with_a_broken_byte_is_answered(value in json(), mut choice in choices()) {
        let mut raw = value.spell(&mut choice).into_bytes();
        let at = choice.below(raw.len());
        match choice.below(3) {
            0 => drop(raw.remove(at)),
            1 => raw[at] = br#"[]{},:"\ue0-+.x"#[choice.below(15)],
            _ => raw.insert(at, br#"[]{},:"\ue0-+.x"#[choice.below(15)]),
        }
        agree_with_serde_json(&raw)?;
    }
}

/// Both take the same texts, but for what is refused here on purpose and for numbers that overflow there. What both
/// take, they read alike, and the form still means the same.
fn agree_with_serde_json(raw: &[u8]) -> Result<(), TestCaseError> {
    match (canonical_json(raw), serde_json::from_slice::<serde_json::Value>(raw)) {
        (Ok(canonical), Ok(value)) => {
            let again =
                serde_json::from_slice(&canonical).map_err(|error| TestCaseError::fail(error.to_string()))?;
            prop_assert_eq!(without_numbers(value), without_numbers(again));
            prop_assert_eq!(canonical_json(&canonical), Ok(canonical));
        }
        (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("number out of range"), "{}", error),
        (Err(refused), Ok(_)) => {
            let on_purpose =
                matches!(refused, NotCanonical::DuplicateName { .. } | NotCanonical::TooDeep { .. });
            prop_assert!(on_purpose, "taken there, but {}", refused);
        }
        (Err(_), Err(_)) => {}
    }
    Ok(())
}

/// Numbers pass through doubles there, so only the model can judge them.
fn without_numbers(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(_) => Value::Null,
        Value::Array(items) => items.into_iter().map(without_numbers).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, member)| (name, without_numbers(member))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}
