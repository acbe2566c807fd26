//! What a message costs in the broker alone: processor time, and memory while it is stored.
//!
//! `cargo run --release -p servicebus-emulator --example broker_cost`

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a program that measures"
)]

use bytes::Bytes;
use servicebus_amqp::types::Timestamp;
use servicebus_emulator::broker::*;

const BODY: usize = 1024;

/// Properties with a message id, and a body of 1 KB.
fn payload(n: u64) -> Bytes {
    let id = format!("message-{n:012}");
    let mut out = vec![
        0x00,
        0x53,
        0x73,
        0xc0,
        id.len() as u8 + 3,
        1,
        0xa1,
        id.len() as u8,
    ];
    out.extend(id.as_bytes());
    out.extend([0x00, 0x53, 0x75, 0xb0]);
    out.extend((BODY as u32).to_be_bytes());
    out.extend([7; BODY]);
    out.into()
}

fn resident() -> usize {
    let pages: usize = std::fs::read_to_string("/proc/self/statm")
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    pages * 4096
}

/// Nanoseconds that this thread has run: what others do on the machine does not count.
fn processor_time() -> u64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

fn main() {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let mut broker = Broker::new(Limits::unlimited(), 1);
    let entity = broker
        .apply(
            now,
            CreateQueue {
                namespace: "ns".into(),
                name: "q".into(),
                options: QueueOptions::default(),
            },
        )
        .unwrap();
    let Ok(Attached::Ready { consumer, .. }) = broker.apply(
        now,
        AttachReceiver {
            entity,
            mode: ReceiveMode::PeekLock,
            session: SessionRequest::None,
        },
    ) else {
        unreachable!("only session receivers wait")
    };

    // One at a time, the receiver with credit of 100.
    let count = 1_000_000u32;
    let payloads: Vec<_> = (0..1000).map(payload).collect();
    let mut out = bytes::BytesMut::new();
    let mut credit = 0;
    let start = processor_time();
    for n in 0..count {
        if credit == 0 {
            credit = 100;
            broker
                .apply(
                    now,
                    SetCredit {
                        consumer,
                        credit,
                        drain: false,
                    },
                )
                .unwrap();
        }
        let payload = payloads[n as usize % 1000].clone();
        broker
            .apply(
                now,
                Send {
                    entity,
                    payload,
                    format: 0,
                    transaction: None,
                },
            )
            .unwrap();
        while let Some(effect) = broker.poll_effect() {
            let Effect::Deliver(delivery) = effect else {
                continue;
            };
            credit -= 1;
            out.clear();
            delivery.message.encode(&mut out);
            let token = delivery.token.unwrap();
            let settlement = Settlement::Complete;
            broker
                .apply(
                    now,
                    Settle {
                        entity,
                        token,
                        settlement,
                        transaction: None,
                    },
                )
                .unwrap();
        }
    }
    let each = (processor_time() - start) as f64 / f64::from(count);
    println!("send, store, deliver, encode, complete: {each:.0} ns each");
    broker
        .apply(
            now,
            SetCredit {
                consumer,
                credit: 0,
                drain: false,
            },
        )
        .unwrap();

    // A million stored, then received.
    let before = resident();
    let start = processor_time();
    for n in 0..count {
        let payload = payload(n.into());
        broker
            .apply(
                now,
                Send {
                    entity,
                    payload,
                    format: 0,
                    transaction: None,
                },
            )
            .unwrap();
    }
    let each = (processor_time() - start) as f64 / f64::from(count);
    let stored = (resident() - before) as f64 / f64::from(count);
    println!(
        "stored: {stored:.0} bytes each, body of {BODY} and {:.0} more; {each:.0} ns",
        stored - BODY as f64
    );

    let start = processor_time();
    for _ in 0..count / 1000 {
        broker
            .apply(
                now,
                SetCredit {
                    consumer,
                    credit: 1000,
                    drain: false,
                },
            )
            .unwrap();
        let deliveries: Vec<_> = std::iter::from_fn(|| broker.poll_effect()).collect();
        for effect in deliveries {
            let Effect::Deliver(delivery) = effect else {
                continue;
            };
            let token = delivery.token.unwrap();
            let settlement = Settlement::Complete;
            broker
                .apply(
                    now,
                    Settle {
                        entity,
                        token,
                        settlement,
                        transaction: None,
                    },
                )
                .unwrap();
        }
    }
    let each = (processor_time() - start) as f64 / f64::from(count);
    println!("deliver and complete with a million stored: {each:.0} ns each");
    assert_eq!(broker.counts(entity).unwrap().active, 0);
}
