//! JSON values with exact numbers, and a writer that spells each value in one of its many ways: the reference
//! that the canonical form is compared with.

use std::collections::BTreeMap;

use proptest::{collection, prelude::*};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

/// `digits` times ten to the `power`, without zeros at either end of `digits`; zero has no digits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decimal {
    negative: bool,
    digits: String,
    power: i64,
}

impl Decimal {
    fn new(negative: bool, digits: &str, power: i64) -> Self {
        let digits = digits.trim_start_matches('0');
        let trimmed = digits.trim_end_matches('0');
        if trimmed.is_empty() {
            return Self { negative: false, digits: String::new(), power: 0 };
        }
        let power = power + i64::try_from(digits.len() - trimmed.len()).unwrap();
        Self { negative, digits: trimmed.to_owned(), power }
    }
}

pub(super) fn json() -> impl Strategy<Value = Json> {
    let power = prop_oneof![4 => -5..5_i64, 2 => -400..400_i64, 1 => i64::MIN / 2..i64::MAX / 2];
    let number = (any::<bool>(), "[0-9]{0,3}|[0-9]{15,25}", power)
        .prop_map(|(negative, digits, power)| Decimal::new(negative, &digits, power));
    let leaf = prop_oneof![
        1 => Just(Json::Null),
        1 => any::<bool>().prop_map(Json::Bool),
        5 => number.prop_map(Json::Number),
        3 => text().prop_map(Json::Text),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..5).prop_map(Json::Array),
            collection::btree_map(text(), inner, 0..5).prop_map(Json::Object),
        ]
    })
}

fn text() -> impl Strategy<Value = String> {
    let awkward =
        prop::sample::select(vec!['\0', '\n', '"', '\\', '/', '\u{7f}', 'å', '\u{30a}', '\u{fb33}', '😂']);
    let letter = prop_oneof![3 => prop::char::range('a', 'c'), 2 => awkward, 1 => any::<char>()];
    collection::vec(letter, 0..4).prop_map(String::from_iter)
}

impl Json {
    /// Another value, one small change away; `choice` picks the change.
    pub(super) fn nudged(&self, choice: &mut Choices) -> Self {
        let mut other = self.clone();
        match &mut other {
            Self::Null => other = Self::Bool(false),
            Self::Bool(flag) => *flag = !*flag,
            Self::Number(number) => *number = number.nudged(choice),
            Self::Text(text) if choice.below(2) == 0 => text.push('\u{30a}'),
            Self::Text(text) => text.insert(0, '0'),
            Self::Array(items) => match (choice.below(3), items.len()) {
                (0, length @ 1..) => {
                    let nth = choice.below(length);
                    items[nth] = items[nth].nudged(choice);
                }
                (1, 1..) => drop(items.pop()),
                _ => items.push(Self::Null),
            },
            Self::Object(members) => {
                let name = members.keys().nth(choice.below(members.len().max(1))).cloned();
                match (choice.below(3), name) {
                    (0, Some(name)) => {
                        members.entry(name).and_modify(|member| *member = member.nudged(choice));
                    }
                    (1, Some(name)) => drop(members.remove(&name)),
                    (_, name) => {
                        let longer =
                            members.keys().fold(name.unwrap_or_default(), |all, name| all + name) + "x";
                        members.insert(longer, Self::Null);
                    }
                }
            }
        }
        other
    }

    /// The value in a spelling made of `choice`.
    pub(super) fn spell(&self, choice: &mut Choices) -> String {
        let spelt = match self {
            Self::Null => "null".to_owned(),
            Self::Bool(flag) => flag.to_string(),
            Self::Number(number) => number.spell(choice),
            Self::Text(text) => spell_text(text, choice),
            Self::Array(items) => {
                let items: Vec<_> = items.iter().map(|item| item.spell(choice)).collect();
                format!("[{}{}]", choice.space(), items.join(","))
            }
            Self::Object(members) => {
                let mut spelt = Vec::new();
                for (name, member) in members {
                    let name = [choice.space(), &spell_text(name, choice), choice.space()].concat();
                    let at = choice.below(spelt.len() + 1);
                    spelt.insert(at, format!("{name}:{}", member.spell(choice)));
                }
                format!("{{{}{}}}", choice.space(), spelt.join(","))
            }
        };
        [choice.space(), &spelt, choice.space()].concat()
    }
}

impl Decimal {
    fn nudged(&self, choice: &mut Choices) -> Self {
        let Self { negative, digits, power } = self;
        match choice.below(4) {
            _ if digits.is_empty() => Self::new(choice.below(2) == 0, "1", *power),
            0 => Self::new(!negative, digits, *power),
            1 => Self::new(*negative, digits, power + 1),
            2 => Self::new(*negative, digits, power - 1),
            _ => Self::new(*negative, &format!("{digits}1"), power - 1),
        }
    }

    fn spell(&self, choice: &mut Choices) -> String {
        let is_zero = self.digits.is_empty();
        let zeros = if is_zero { 1 } else { choice.below(3) };
        let digits = [self.digits.as_str(), &"0".repeat(zeros)].concat();
        let fraction = choice.below(digits.len() + 3);
        let padded = format!("{}{digits}", "0".repeat((fraction + 1).saturating_sub(digits.len())));
        let (whole, rest) = padded.split_at(padded.len() - fraction);
        let mantissa = if fraction == 0 { whole.to_owned() } else { format!("{whole}.{rest}") };

        let sign = if self.negative || is_zero && choice.below(2) == 0 { "-" } else { "" };
        let shift = i64::try_from(fraction).unwrap() - i64::try_from(zeros).unwrap();
        let exponent = if is_zero { shift } else { self.power + shift };
        if exponent == 0 && choice.below(2) == 0 {
            return [sign, &mantissa].concat();
        }
        let letter = ["e", "E"][choice.below(2)];
        let exponent_sign = if exponent < 0 { "-" } else { ["", "+"][choice.below(2)] };
        let exponent = exponent.unsigned_abs();
        format!("{sign}{mantissa}{letter}{exponent_sign}{}{exponent}", "0".repeat(choice.below(2) * 40))
    }
}

fn spell_text(text: &str, choice: &mut Choices) -> String {
    let mut spelt = String::from('"');
    for letter in text.chars() {
        let short = match letter {
            '"' => Some(r#"\""#),
            '\\' => Some(r"\\"),
            '/' => Some(r"\/"),
            '\n' => Some(r"\n"),
            _ => None,
        };
        let may_stand = letter >= ' ' && letter != '"' && letter != '\\';
        match (choice.below(3), short) {
            (0, Some(short)) => spelt.push_str(short),
            (1, _) if may_stand => spelt.push(letter),
            (how, _) => {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let escape = format!("\\u{unit:04x}");
                    spelt += &if how == 2 { escape } else { escape.to_uppercase().replace('U', "u") };
                }
            }
        }
    }
    spelt.push('"');
    spelt
}

/// An endless row of small choices.
#[derive(Debug, Clone)]
pub(super) struct Choices {
    drawn: Vec<u8>,
    next: usize,
}

pub(super) fn choices() -> impl Strategy<Value = Choices> {
    collection::vec(any::<u8>(), 1..64).prop_map(|drawn| Choices { drawn, next: 0 })
}

impl Choices {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let drawn = self.drawn[self.next % self.drawn.len()];
        self.next += 1;
        usize::from(drawn) % bound
    }

    fn space(&mut self) -> &'static str {
        ["", "", " ", "\n\t\r"][self.below(4)]
    }
}
