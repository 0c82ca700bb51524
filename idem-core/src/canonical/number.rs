//! The exact decimal value of a JSON number, in one spelling.

/// Appends the normal form of `number`, which must follow the JSON grammar.
///
/// The form is sign, digits without a zero at either end, and the power of ten they are multiplied with, left
/// out when it is zero: `1200` and `1.2E+3` become `12e2`, `0.50` becomes `5e-1`, every zero becomes `0`. Two
/// numbers share a form exactly when they are equal. The power is never carried out, so the cost is that
/// of the number's text, whatever its exponent.
pub(super) fn write_number(number: &str, out: &mut Vec<u8>) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, ""));
    if mantissa.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.')) {
        out.push(b'0');
        return;
    }
    let magnitude = match mantissa.strip_prefix('-') {
        Some(magnitude) => {
            out.push(b'-');
            magnitude
        }
        None => mantissa,
    };
    let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
    let whole = whole.trim_start_matches('0');
    let leading = if whole.is_empty() { fraction.trim_start_matches('0') } else { fraction };
    out.extend_from_slice(whole.as_bytes());
    out.extend_from_slice(leading.as_bytes());

    // The digits are those of a whole number now; a zero taken off its end goes into the power of ten.
    let written = out.len();
    while out.pop_if(|last| *last == b'0').is_some() {}
    let shift = (written - out.len()) as i128 - fraction.len() as i128;
    if shift == 0 && exponent.is_empty() {
        return; // the common integer, without a detour through the exponent's arithmetic
    }
    let exponent = add(exponent, shift);
    if exponent != "0" {
        out.push(b'e');
        out.extend_from_slice(exponent.as_bytes());
    }
}

/// Adds `shift` to an exponent of any length; `shift` is at most the length of a body.
fn add(exponent: &str, shift: i128) -> String {
    let (negative, digits) = match exponent.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, exponent.trim_start_matches('+')),
    };
    let digits = digits.trim_start_matches('0');
    if digits.len() <= SHORT {
        // No digits at all is the exponent that was not written: zero.
        let magnitude: i128 = digits.parse().unwrap_or(0);
        return (if negative { shift - magnitude } else { magnitude + shift }).to_string();
    }
    let sum = add_long(digits, if negative { -shift } else { shift });
    if negative { format!("-{sum}") } else { sum }
}

/// An exponent of so many digits fits an `i128` with room to spare; a longer one exceeds every possible shift.
const SHORT: usize = 30;

/// Adds digit by digit. `magnitude` is larger than `by`, so the sum keeps its sign.
fn add_long(magnitude: &str, by: i128) -> String {
    let mut carry = by;
    let mut reversed = Vec::with_capacity(magnitude.len() + 1);
    let mut push = |sum: i128| {
        reversed.extend(u32::try_from(sum.rem_euclid(10)).ok().and_then(|digit| char::from_digit(digit, 10)));
        sum.div_euclid(10)
    };
    for digit in magnitude.bytes().rev() {
        carry = push(i128::from(digit - b'0') + carry);
    }
    while carry > 0 {
        carry = push(carry);
    }
    let sum: String = reversed.into_iter().rev().collect();
    sum.trim_start_matches('0').to_owned()
}
