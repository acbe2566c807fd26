//! Decimals among the application properties, as the service hands them on.
//!
//! The service reads application properties into values of .NET and writes them anew. Its AMQP library writes the upper bits
//! of a decimal's exponent two places too low; it reads both forms, the Python SDK only that one.

use super::sections::{self, Malformed, code};

/// The constructor of decimal128.
const DECIMAL_128: u8 = 0x94;
/// What is added to the exponent of ten (IEEE 754-2008, decimal128).
const BIAS: u16 = 6176;
/// The most digits that a decimal of .NET has behind the point.
const MAX_SCALE: u16 = 28;

/// Whether there may be a decimal among these bytes.
pub(super) fn is_possible(properties: &[u8]) -> bool {
    properties.contains(&DECIMAL_128)
}

/// Gives the decimals among the application properties of a bare message the form in which the service writes them. What
/// .NET has no decimal for stays as it is.
pub(super) fn rewrite(bare: &mut [u8]) -> Result<(), Malformed> {
    let mut at = 0;
    while at < bare.len() {
        let section = sections::section(bare, at)?;
        at = section.whole.end;
        if section.code == code::APPLICATION_PROPERTIES {
            let (mut at, count) = sections::elements(bare, &section.value)?;
            for _ in 0..count {
                let end = sections::end_of_value(bare, at)?;
                if let Some([DECIMAL_128, decimal @ ..]) = bare.get_mut(at..end) {
                    rewrite_value(decimal);
                }
                at = end;
            }
            return Ok(());
        }
    }
    Ok(())
}

fn rewrite_value(decimal: &mut [u8]) {
    // An integer of 96 bits and the exponent before it.
    let [high, low, 0, 0, ..] = decimal else {
        return;
    };
    let exponent = (u16::from(*high & 0x7f) << 7) | u16::from(*low >> 1);
    if *low & 1 == 0 && (BIAS - MAX_SCALE..=BIAS).contains(&exponent) {
        // The low byte holds the same seven bits in both forms.
        *high = (*high & 0x80) | (*high & 0x7f) >> 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Properties, application properties with one decimal, and a body.
    fn message(decimal: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x00, 0x53, 0x73, 0x45, 0x00, 0x53, 0x74, 0xc1, 0x17, 0x02];
        bytes.extend_from_slice(b"\xa1\x03dec\x94");
        bytes.extend_from_slice(decimal);
        bytes.extend_from_slice(&[0x00, 0x53, 0x75, 0xa0, 0x01, 0x94]);
        bytes
    }

    fn rewritten(hex: u128) -> u128 {
        let mut bytes = message(&hex.to_be_bytes());
        assert!(is_possible(&bytes));
        rewrite(&mut bytes).unwrap();
        let found = u128::from_be_bytes(bytes[16..32].try_into().unwrap());
        assert_eq!(bytes, message(&found.to_be_bytes()));
        found
    }

    #[test]
    fn a_decimal_of_dotnet_gets_the_form_of_the_service() {
        // 1.2345 as the Python SDK writes it, and as its decoder reads it: (0x0c << 9 | 0x1c) - 6176 = -4.
        let sent = 0x3038_0000_0000_0000_0000_0000_0000_3039;
        let read = 0x0c38_0000_0000_0000_0000_0000_0000_3039;
        assert_eq!(rewritten(sent), read);
        // The sign stays, and what has this form already.
        assert_eq!(rewritten(sent | 1 << 127), read | 1 << 127);
        assert_eq!(rewritten(read), read);
    }

    #[test]
    fn other_decimals_stay_as_they_are() {
        // 1E-29, 1E+1, infinity, 2^96.
        for decimal in [
            0x3006_0000_0000_0000_0000_0000_0000_0001,
            0x3042_0000_0000_0000_0000_0000_0000_0001,
            0x7800_0000_0000_0000_0000_0000_0000_0000,
            0x3038_0001_0000_0000_0000_0000_0000_0000,
        ] {
            assert_eq!(rewritten(decimal), decimal);
        }
    }
}
