//! What the tests of this package share: recorded bytes and their notation, foreign programs, the emulator.
#![forbid(unsafe_code)]

pub mod captures;
pub mod emulator;
pub mod golden;
pub mod notation;
pub mod peers;
pub mod trial;

/// The bytes that hexadecimal digits spell; white space between them is passed over.
///
/// # Panics
///
/// When there is anything else: the digits are part of a test.
#[must_use]
pub fn hex(digits: &str) -> bytes::Bytes {
    let digits: Vec<u8> = digits
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| {
            let digit = c.to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            digit.unwrap_or_else(|| unreachable!("no hexadecimal digit: {c:?}"))
        })
        .collect();
    assert!(digits.len().is_multiple_of(2), "half a byte is left over");
    digits
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect()
}

/// Runs the example of the emulator's README, which needs the client.
#[cfg(doctest)]
#[doc = include_str!("../../crates/servicebus-emulator/README.md")]
struct EmulatorReadme;
