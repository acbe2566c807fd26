//! Serial numbers (RFC 1982) of 32 bits, and their extension to 64.

/// How far `to` is ahead of `from`; negative when it is behind.
pub(super) fn distance(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from).cast_signed()
}

/// The number of 64 bits whose lower half is `number` and that is nearest to `reference`.
pub(super) fn extend(reference: u64, number: u32) -> u64 {
    reference.wrapping_add_signed(distance(truncate(reference), number).into())
}

/// The lower half: what goes on the wire.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the wire has the lower half"
)]
pub(super) fn truncate(number: u64) -> u32 {
    number as u32
}

/// Where a counter of 64 bits starts: high enough that every number near it can be extended.
pub(super) fn start(number: u32) -> u64 {
    (1 << 32) + u64::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_wrap() {
        assert_eq!(distance(0xffff_fffe, 1), 3);
        assert_eq!(distance(1, 0xffff_fffe), -3);
        assert_eq!(distance(7, 7), 0);
    }

    #[test]
    fn extends_across_the_wrap() {
        let reference = start(u32::MAX);
        assert_eq!(extend(reference, 2), reference + 3);
        assert_eq!(extend(reference, u32::MAX - 5), reference - 5);
        assert_eq!(truncate(extend(reference, 2)), 2);
    }
}
