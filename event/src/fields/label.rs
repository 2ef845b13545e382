//! Normalisation of labels, so that equivalent ones become the same text.

use std::borrow::Cow;

/// Returns a label in its stored form: without white space around it, `True` and `FALSE` as `true` and `false`, and
/// an integer such as `1.0` without its point. So equivalent labels are equal, whichever library wrote them.
#[inline]
pub fn plain_label(label: &str) -> Cow<'_, str> {
    let label = label.trim();
    let is = |word: &str| label.eq_ignore_ascii_case(word);
    match label.as_bytes() {
        [b't' | b'T' | b'f' | b'F', ..] if is("true") || is("false") => match label.as_bytes()[0] | 0x20 {
            b't' => Cow::Borrowed("true"),
            _ => Cow::Borrowed("false"),
        },
        [.., b'.' | b'0'] => whole_number(label).unwrap_or(Cow::Borrowed(label)),
        _ => Cow::Borrowed(label),
    }
}

/// Returns `1` for `1.0`, `1.` and `1.00`; `None` if it is no such number.
fn whole_number(label: &str) -> Option<Cow<'_, str>> {
    let (whole, fraction) = label.split_once('.')?;
    let digits = whole.strip_prefix('-').unwrap_or(whole);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_whole || fraction.bytes().any(|byte| byte != b'0') {
        return None;
    }
    let is_zero = digits.bytes().all(|byte| byte == b'0');
    Some(Cow::Borrowed(if is_zero { digits } else { whole }))
}

/// Returns whether two labels are equivalent. Events stored before labels were normalised may hold any.
#[inline]
pub fn same_label(one: &str, other: &str) -> bool {
    one == other || plain_label(one) == plain_label(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_mean_the_same_are_the_same() {
        for (label, plain) in [
            ("1.0", "1"),
            ("1.", "1"),
            ("-2.00", "-2"),
            ("-0.0", "0"),
            ("10", "10"),
            (" 1.0\t", "1"),
            ("True", "true"),
            ("FALSE", "false"),
            ("true", "true"),
            ("yes ", "yes"),
            ("\u{a0}yes", "yes"),
            ("Yes", "Yes"),
            ("1.5", "1.5"),
            ("v1.0", "v1.0"),
            ("1.0.0", "1.0.0"),
            (".0", ".0"),
            ("1e0", "1e0"),
            ("truely", "truely"),
            ("", ""),
            ("  ", ""),
        ] {
            assert_eq!(plain_label(label), plain, "{label:?}");
            assert!(same_label(label, plain));
            assert_eq!(plain_label(plain), plain, "a plain label stays as it is");
        }
        assert!(!same_label("1", "true") && !same_label("Yes", "yes"));
    }
}
