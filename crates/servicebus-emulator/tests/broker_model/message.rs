//! Messages of the models: their name is their body, which never changes.

use bytes::Bytes;
use servicebus_amqp::types::Timestamp;
use servicebus_emulator::broker::StoredMessage;

/// An encoded message: header with time to live, scheduled time, session, and its name as body.
pub(crate) fn encode(
    name: u32,
    session: Option<&str>,
    ttl: Option<u32>,
    at: Option<Timestamp>,
) -> Bytes {
    let mut out = Vec::new();
    if let Some(ttl) = ttl {
        out.extend([0x00, 0x53, 0x70, 0xc0, 8, 3, 0x40, 0x40, 0x70]);
        out.extend(ttl.to_be_bytes());
    }
    if let Some(at) = at {
        let key = b"x-opt-scheduled-enqueue-time";
        out.extend([
            0x00,
            0x53,
            0x72,
            0xc1,
            key.len() as u8 + 12,
            2,
            0xa3,
            key.len() as u8,
        ]);
        out.extend(key);
        out.push(0x83);
        out.extend(at.as_millis().to_be_bytes());
    }
    if let Some(session) = session {
        out.extend([0x00, 0x53, 0x73, 0xc0, session.len() as u8 + 13, 11]);
        out.extend([0x40; 10]);
        out.extend([0xa1, session.len() as u8]);
        out.extend(session.as_bytes());
    }
    out.extend([0x00, 0x53, 0x75, 0xa0, 4]);
    out.extend(name.to_be_bytes());
    out.into()
}

pub(crate) fn name(message: &StoredMessage) -> u32 {
    let bare = message.bare();
    u32::from_be_bytes(bare[bare.len() - 4..].try_into().unwrap())
}

pub(crate) fn pick<T>(from: &[T], n: u8) -> Option<&T> {
    from.get(usize::from(n) % from.len().max(1))
}
