//! Finds the sections of an encoded message, and the few fields that the broker needs, without decoding the rest
//! (AMQP 1.0 §1.2, §3.2).

use std::ops::Range;

/// Descriptor codes of the sections.
pub(super) mod code {
    pub(in super::super) const HEADER: u8 = 0x70;
    pub(in super::super) const DELIVERY_ANNOTATIONS: u8 = 0x71;
    pub(in super::super) const MESSAGE_ANNOTATIONS: u8 = 0x72;
    pub(in super::super) const PROPERTIES: u8 = 0x73;
    pub(in super::super) const APPLICATION_PROPERTIES: u8 = 0x74;
    pub(in super::super) const DATA: u8 = 0x75;
}

/// Bytes that are no message, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) at: usize,
    pub(super) what: &'static str,
}

/// One section: its code, all its bytes, and those of its value.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub(super) code: u8,
    pub(super) whole: Range<usize>,
    pub(super) value: Range<usize>,
}

fn malformed<T>(at: usize, what: &'static str) -> Result<T, Malformed> {
    Err(Malformed { at, what })
}

fn take(bytes: &[u8], at: usize, len: usize) -> Result<&[u8], Malformed> {
    at.checked_add(len)
        .and_then(|end| bytes.get(at..end))
        .map_or_else(|| malformed(at, "truncated"), Ok)
}

fn byte(bytes: &[u8], at: usize) -> Result<u8, Malformed> {
    bytes
        .get(at)
        .copied()
        .map_or_else(|| malformed(at, "truncated"), Ok)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let four = take(bytes, at, 4)?;
    Ok(four.iter().fold(0, |n, b| (n << 8) | usize::from(*b)))
}

/// Where the value at `at` ends. Linear in its bytes, whatever they are.
pub(super) fn end_of_value(bytes: &[u8], mut at: usize) -> Result<usize, Malformed> {
    // A described value is two values more, its descriptor and itself.
    let mut pending = 1usize;
    while pending > 0 {
        pending -= 1;
        let constructor = byte(bytes, at)?;
        let start = at;
        at += 1;
        let width = match constructor >> 4 {
            0x0 if constructor == 0 => {
                pending += 2;
                0
            }
            0x4 => 0,
            0x5 => 1,
            0x6 => 2,
            0x7 => 4,
            0x8 => 8,
            0x9 => 16,
            0xa | 0xc | 0xe => 1 + usize::from(byte(bytes, at)?),
            0xb | 0xd | 0xf => 4 + u32_at(bytes, at)?,
            _ => return malformed(start, "no constructor of AMQP"),
        };
        at = at.saturating_add(width);
        if at > bytes.len() {
            return malformed(start, "truncated");
        }
    }
    Ok(at)
}

/// The code of a section by its descriptor.
fn section_code(descriptor: &[u8]) -> Option<u8> {
    match *descriptor {
        [0x53, code] | [0x80, 0, 0, 0, 0, 0, 0, 0, code] => Some(code),
        [0xa3, _, ref name @ ..] | [0xb3, _, _, _, _, ref name @ ..] => match name {
            b"amqp:header:list" => Some(0x70),
            b"amqp:delivery-annotations:map" => Some(0x71),
            b"amqp:message-annotations:map" => Some(0x72),
            b"amqp:properties:list" => Some(0x73),
            b"amqp:application-properties:map" => Some(0x74),
            b"amqp:data:binary" => Some(0x75),
            b"amqp:amqp-sequence:list" => Some(0x76),
            b"amqp:amqp-value:*" => Some(0x77),
            b"amqp:footer:map" => Some(0x78),
            _ => None,
        },
        _ => None,
    }
}

/// The section at `at`.
pub(super) fn section(bytes: &[u8], at: usize) -> Result<Section, Malformed> {
    if byte(bytes, at)? != 0 {
        return malformed(at, "a section begins with a descriptor");
    }
    let (code, end) = match bytes.get(at + 1..at + 3) {
        // As everybody encodes it.
        Some(&[0x53, code]) => (Some(code), at + 3),
        _ => {
            let end = end_of_value(bytes, at + 1)?;
            let descriptor = take(bytes, at + 1, end - at - 1)?;
            (section_code(descriptor), end)
        }
    };
    let Some(code @ 0x70..=0x78) = code else {
        return malformed(at, "no section of a message");
    };
    let value_end = end_of_value(bytes, end)?;
    let form = byte(bytes, end)?;
    let fits = match code {
        0x70 | 0x73 | 0x76 => matches!(form, 0x45 | 0xc0 | 0xd0),
        0x71 | 0x72 | 0x74 | 0x78 => matches!(form, 0xc1 | 0xd1),
        0x75 => matches!(form, 0xa0 | 0xb0),
        _ => true,
    };
    if !fits {
        return malformed(end, "a section of the wrong type");
    }
    Ok(Section {
        code,
        whole: at..value_end,
        value: end..value_end,
    })
}

/// The elements of the list or map that is `value`: where the first begins, and how many there are.
pub(super) fn elements(bytes: &[u8], value: &Range<usize>) -> Result<(usize, usize), Malformed> {
    let at = value.start;
    let (first, count) = match byte(bytes, at)? {
        0x45 => (at + 1, 0),
        0xc0 | 0xc1 => (at + 3, usize::from(byte(bytes, at + 2)?)),
        0xd0 | 0xd1 => (at + 9, u32_at(bytes, at + 5)?),
        _ => return malformed(at, "neither list nor map"),
    };
    // Every element has a constructor.
    if first > value.end || count > value.end - first {
        return malformed(at, "more elements than bytes");
    }
    Ok((first, count))
}

/// The bytes within a binary.
pub(super) fn binary(bytes: &[u8], value: &Range<usize>) -> Result<Range<usize>, Malformed> {
    match byte(bytes, value.start)? {
        0xa0 => Ok(value.start + 2..value.end),
        0xb0 => Ok(value.start + 5..value.end),
        _ => malformed(value.start, "expected a binary"),
    }
}

/// The text of a string or symbol; `None` for null.
pub(super) fn text<'a>(
    bytes: &'a [u8],
    value: &Range<usize>,
) -> Result<Option<&'a str>, Malformed> {
    let start = match byte(bytes, value.start)? {
        0x40 => return Ok(None),
        0xa1 | 0xa3 => value.start + 2,
        0xb1 | 0xb3 => value.start + 5,
        _ => return malformed(value.start, "expected text"),
    };
    match bytes.get(start..value.end).map(str::from_utf8) {
        Some(Ok(text)) => Ok(Some(text)),
        _ => malformed(value.start, "not UTF-8"),
    }
}

/// A timestamp in milliseconds; `None` for null.
pub(super) fn timestamp(bytes: &[u8], value: &Range<usize>) -> Result<Option<i64>, Malformed> {
    match bytes.get(value.clone()) {
        Some([0x40]) => Ok(None),
        Some([0x83, millis @ ..]) => match <[u8; 8]>::try_from(millis) {
            Ok(millis) => Ok(Some(i64::from_be_bytes(millis))),
            Err(_) => malformed(value.start, "expected a timestamp"),
        },
        _ => malformed(value.start, "expected a timestamp"),
    }
}

/// An unsigned integer of any width up to 32 bits; `None` for null.
pub(super) fn uint(bytes: &[u8], value: &Range<usize>) -> Result<Option<u32>, Malformed> {
    match bytes.get(value.clone()) {
        Some([0x40]) => Ok(None),
        Some([0x43]) => Ok(Some(0)),
        Some([0x50 | 0x52, n]) => Ok(Some((*n).into())),
        Some([0x70, a, b, c, d]) => Ok(Some(u32::from_be_bytes([*a, *b, *c, *d]))),
        _ => malformed(value.start, "expected an unsigned integer"),
    }
}

/// A boolean; `None` for null.
pub(super) fn boolean(bytes: &[u8], value: &Range<usize>) -> Result<Option<bool>, Malformed> {
    match bytes.get(value.clone()) {
        Some([0x40]) => Ok(None),
        Some([0x41] | [0x56, 1]) => Ok(Some(true)),
        Some([0x42] | [0x56, 0]) => Ok(Some(false)),
        _ => malformed(value.start, "expected a boolean"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_sections_by_code_and_by_name() {
        // header list0, then data "hi" under its symbolic descriptor.
        let mut bytes = vec![0x00, 0x53, 0x70, 0x45, 0x00, 0xa3, 16];
        bytes.extend_from_slice(b"amqp:data:binary");
        bytes.extend_from_slice(&[0xa0, 2, b'h', b'i']);
        let header = section(&bytes, 0).unwrap();
        assert_eq!((header.code, header.whole.clone()), (code::HEADER, 0..4));
        let data = section(&bytes, header.whole.end).unwrap();
        assert_eq!(data.code, code::DATA);
        assert_eq!(&bytes[binary(&bytes, &data.value).unwrap()], b"hi");
        assert_eq!(data.whole.end, bytes.len());
    }

    #[test]
    fn malformed_bytes_are_errors() {
        for bytes in [
            &[][..],
            &[0x00],
            &[0x40],
            &[0x00, 0x53, 0x70],
            &[0x00, 0x53, 0x10, 0x45],
            &[0x00, 0x53, 0x70, 0xc0, 0xff],
            &[0x00, 0x53, 0x75, 0xb0, 0xff, 0xff, 0xff, 0xff],
            &[0x00, 0x53, 0x70, 0x41],
            &[0x00, 0x53, 0x77, 0x01],
        ] {
            assert!(section(bytes, 0).is_err(), "{bytes:02x?}");
        }
        // A claim of 2^32 - 1 elements in no bytes.
        let list = [0xd0, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff];
        assert!(elements(&list, &(0..list.len())).is_err());
        // A tower of descriptors ends with the bytes.
        assert!(end_of_value(&[0; 100_000], 0).is_err());
    }
}
