use std::fmt;

use servicebus_amqp::types::Uuid;

/// An entity: a queue, topic, subscription, or one of their dead-letter queues. Never reused for another entity.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntityId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// A receiving link, as the broker knows it. Never reused for another link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConsumerId {
    pub(super) slot: u32,
    pub(super) generation: u32,
}

/// The lock on one delivered message.
///
/// On a link it is the delivery tag, as the bytes of a .NET GUID (the first three fields little-endian); in
/// management requests it is an AMQP uuid.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a lock token is a uuid")]
pub struct LockToken(pub Uuid);

/// A transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TransactionId(pub(super) Uuid);

impl ConsumerId {
    /// A number that no other receiver has at the same time, and that is as small as can be.
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }
}

impl LockToken {
    /// The delivery tag of this lock.
    pub fn to_tag(self) -> [u8; 16] {
        self.0.to_bytes_le()
    }

    /// The lock that a delivery tag names; `None` unless it has 16 bytes.
    pub fn from_tag(tag: &[u8]) -> Option<Self> {
        Some(Self(Uuid::from_bytes_le(tag.try_into().ok()?)))
    }
}

impl TransactionId {
    /// The txn-id on the wire.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }

    /// The transaction that a txn-id names; `None` unless it has 16 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(Uuid::from_bytes(bytes.try_into().ok()?)))
    }
}

/// Ids that repeat with the seed, and lead to their slot without a search.
#[derive(Debug)]
pub(super) struct Ids {
    state: u64,
}

impl Ids {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// SplitMix64: every seed is good, and the sequence has full period.
    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uuid whose first four bytes are the slot; the rest is random.
    pub(super) fn uuid_for(&mut self, slot: u32) -> Uuid {
        let low = self.next();
        // The slot is the key to the table; the other 32 bits of the upper half are random too.
        let high = (u64::from(slot) << 32) | (self.next() & 0xffff_ffff);
        uuid::Builder::from_u128((u128::from(high) << 64) | u128::from(low))
            .with_version(uuid::Version::Random)
            .with_variant(uuid::Variant::RFC4122)
            .into_uuid()
    }
}

/// The slot that [`Ids::uuid_for`] put into an id.
pub(super) fn slot_of(id: Uuid) -> usize {
    (id.as_u128() >> 96) as usize
}

macro_rules! debug_id {
    ($($type:ty),*) => {
        $(impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($type), "({}.{})"), self.slot, self.generation)
            }
        })*
    };
}

debug_id!(EntityId, ConsumerId);

impl fmt::Debug for LockToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockToken({})", self.0)
    }
}

impl fmt::Debug for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TransactionId({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B56: the tag 00112233445566778899aabbccddeeff is the lock 33221100-5544-7766-8899-aabbccddeeff.
    #[test]
    fn b56_tag_is_a_dotnet_guid() {
        let tag = [
            0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd,
            0xee, 0xff,
        ];
        let token = LockToken::from_tag(&tag).unwrap();
        assert_eq!(token.0.to_string(), "33221100-5544-7766-8899-aabbccddeeff");
        assert_eq!(token.to_tag(), tag);
        assert_eq!(LockToken::from_tag(&tag[..4]), None);
    }

    #[test]
    fn ids_carry_their_slot_and_repeat_with_the_seed() {
        let (mut a, mut b) = (Ids::new(7), Ids::new(7));
        for slot in [0, 1, 77, u32::MAX] {
            let id = a.uuid_for(slot);
            assert_eq!(slot_of(id), slot as usize);
            assert_eq!(id, b.uuid_for(slot));
            assert_ne!(id, a.uuid_for(slot));
            b.uuid_for(slot);
        }
    }
}
