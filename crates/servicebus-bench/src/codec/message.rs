//! The message that is measured: what a Service Bus receiver gets for an order of about 1 KB.

use bytes::Bytes;
use servicebus_amqp::types::{
    Body, Header, LazyMap, Map, Message, MessageId, Properties, Symbol, Timestamp, Transfer, Uuid,
};

/// A moment in 2026, in milliseconds.
const ENQUEUED: i64 = 1_790_000_000_000;
const MINUTE: i64 = 60_000;

pub(super) fn message() -> Message {
    let annotations = Map::new()
        .with(
            Symbol::from_static("x-opt-enqueued-time"),
            Timestamp::from_millis(ENQUEUED),
        )
        .with(
            Symbol::from_static("x-opt-sequence-number"),
            4_294_967_342_i64,
        )
        .with(
            Symbol::from_static("x-opt-locked-until"),
            Timestamp::from_millis(ENQUEUED + MINUTE),
        )
        .with(Symbol::from_static("x-opt-message-state"), 0_i32);
    let application_properties = Map::new()
        .with("event-type", "order-placed")
        .with("schema-version", 3_i32)
        .with("tenant", "contoso-north")
        .with("total", 129.95_f64)
        .with("express", true)
        .with("placed-at", Timestamp::from_millis(ENQUEUED - MINUTE));
    Message {
        header: Some(Header {
            durable: Some(true),
            priority: Some(4),
            ttl: Some(1_209_600_000),
            first_acquirer: None,
            delivery_count: Some(0),
        }),
        message_annotations: Some(LazyMap::from(annotations)),
        properties: Some(Properties {
            message_id: Some(MessageId::String("order-17-placed".into())),
            subject: Some("order".into()),
            content_type: Some(Symbol::from_static("application/json")),
            creation_time: Some(Timestamp::from_millis(ENQUEUED)),
            ..Properties::default()
        }),
        application_properties: Some(LazyMap::from(application_properties)),
        body: Body::Data(Bytes::from(vec![b'x'; 1024])),
        ..Message::default()
    }
}

/// The transfer that brings it: the tag is a lock token.
pub(super) fn transfer() -> Transfer {
    Transfer {
        handle: 1,
        delivery_id: Some(4_711),
        delivery_tag: Some(Bytes::copy_from_slice(
            Uuid::from_u128(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef).as_bytes(),
        )),
        message_format: Some(0),
        settled: Some(false),
        batchable: true,
        ..Transfer::default()
    }
}
