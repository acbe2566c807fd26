//! Properties that hold for any value and any bytes.

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Frame, decode_frame, encode_frame};
use crate::types::{
    AmqpError, Array, Attach, Coordinator, DeliveryState, Described, Descriptor, Disposition, Flow,
    LazyMap, Map, Message, Modified, Outcome, Performative, ReceiverSettleMode, Role,
    SenderSettleMode, Source, Symbol, Target, TargetArchetype, Timestamp, TransactionalState, Uuid,
    Value,
};

/// A value of a type that holds no others. Floats are numbers, so that values are equal to themselves.
fn scalar() -> impl Strategy<Value = Value> {
    let text = ".{0,300}";
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<u8>().prop_map(Value::Ubyte),
        any::<u16>().prop_map(Value::Ushort),
        any::<u32>().prop_map(Value::Uint),
        (0..300_u32).prop_map(Value::Uint),
        any::<u64>().prop_map(Value::Ulong),
        (0..300_u64).prop_map(Value::Ulong),
        any::<i8>().prop_map(Value::Byte),
        any::<i16>().prop_map(Value::Short),
        any::<i32>().prop_map(Value::Int),
        (-200..200_i32).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Long),
        (-200..200_i64).prop_map(Value::Long),
        proptest::num::f32::NORMAL.prop_map(Value::Float),
        proptest::num::f64::NORMAL.prop_map(Value::Double),
        any::<[u8; 4]>().prop_map(Value::Decimal32),
        any::<[u8; 8]>().prop_map(Value::Decimal64),
        any::<[u8; 16]>().prop_map(Value::Decimal128),
        any::<char>().prop_map(Value::Char),
        any::<i64>().prop_map(|millis| Value::Timestamp(Timestamp::from_millis(millis))),
        any::<[u8; 16]>().prop_map(|bytes| Value::Uuid(Uuid::from_bytes(bytes))),
        vec(any::<u8>(), 0..300).prop_map(|bytes| Value::Binary(bytes.into())),
        text.prop_map(|text| Value::String(text.into())),
        text.prop_map(|text| Value::Symbol(text.into())),
    ]
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    prop_oneof![
        any::<u64>().prop_map(Descriptor::Code),
        (0..300_u64).prop_map(Descriptor::Code),
        "[a-z:]{0,20}".prop_map(|name| Descriptor::Name(name.into())),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..8).prop_map(Value::List),
            vec((inner.clone(), inner.clone()), 0..8).prop_map(|pairs| Value::Map(Map(pairs))),
            (inner.clone(), vec(inner.clone(), 0..8)).prop_map(|(first, others)| {
                // The elements that can stand in one array with the first.
                let mut elements = vec![first];
                for other in others {
                    elements.push(other);
                    if Array::new(elements.clone()).is_err() {
                        elements.pop();
                    }
                }
                Value::Array(Array::new(elements).unwrap())
            }),
            (descriptor(), inner).prop_map(|(descriptor, value)| {
                Value::Described(Box::new(Described { descriptor, value }))
            }),
        ]
    })
}

fn map() -> impl Strategy<Value = Map> {
    vec((value(), value()), 0..4).prop_map(Map)
}

fn symbols() -> impl Strategy<Value = Vec<Symbol>> {
    vec("[a-z:]{0,300}".prop_map(Symbol::from), 0..4)
}

fn error() -> impl Strategy<Value = AmqpError> {
    let description = proptest::option::of(".{0,40}");
    ("[a-z:]{1,40}", description, proptest::option::of(map())).prop_map(
        |(condition, description, info)| AmqpError {
            condition: condition.into(),
            description: description.map(Into::into),
            info,
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let flag = || any::<Option<bool>>();
    prop_oneof![
        Just(Outcome::Accepted),
        Just(Outcome::Released),
        proptest::option::of(error()).prop_map(|error| Outcome::Rejected(error.map(Box::new))),
        (flag(), flag(), proptest::option::of(map())).prop_map(
            |(delivery_failed, undeliverable_here, message_annotations)| {
                Outcome::Modified(Box::new(Modified {
                    delivery_failed,
                    undeliverable_here,
                    message_annotations,
                }))
            }
        ),
        vec(any::<u8>(), 0..40).prop_map(|id| Outcome::Declared { txn_id: id.into() }),
    ]
}

fn delivery_state() -> impl Strategy<Value = DeliveryState> {
    let txn_id = vec(any::<u8>(), 0..40);
    prop_oneof![
        outcome().prop_map(DeliveryState::Outcome),
        (any::<u32>(), any::<u64>()).prop_map(|(section_number, section_offset)| {
            DeliveryState::Received {
                section_number,
                section_offset,
            }
        }),
        (txn_id, proptest::option::of(outcome())).prop_map(|(txn_id, outcome)| {
            DeliveryState::Transactional(Box::new(TransactionalState {
                txn_id: txn_id.into(),
                outcome,
            }))
        }),
        // Beyond the specification's own codes.
        (256..u64::MAX, value()).prop_map(|(code, value)| {
            DeliveryState::Unknown(Box::new(Described {
                descriptor: Descriptor::Code(code),
                value,
            }))
        }),
    ]
}

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![Just(Role::Sender), Just(Role::Receiver)]
}

fn attach() -> impl Strategy<Value = Attach> {
    let source = (
        proptest::option::of(map()),
        proptest::option::of(outcome()),
        symbols(),
    )
        .prop_map(|(filter, default_outcome, outcomes)| Source {
            filter,
            default_outcome,
            outcomes,
            ..Source::new("node")
        });
    let target = prop_oneof![
        symbols().prop_map(|capabilities| Coordinator { capabilities }.into()),
        (any::<u32>(), any::<bool>()).prop_map(|(timeout, dynamic)| {
            TargetArchetype::from(Target {
                timeout,
                dynamic,
                ..Target::default()
            })
        }),
    ];
    let optional = (
        proptest::option::of(source),
        proptest::option::of(target),
        any::<Option<u32>>(),
        any::<Option<u64>>(),
        proptest::option::of(map()),
    );
    (".{0,300}", any::<u32>(), role(), symbols(), optional).prop_map(
        |(name, handle, role, capabilities, optional)| {
            let (source, target, initial_delivery_count, max_message_size, properties) = optional;
            Attach {
                name: name.into(),
                handle,
                role,
                snd_settle_mode: SenderSettleMode::Settled,
                rcv_settle_mode: ReceiverSettleMode::Second,
                source: source.map(Box::new),
                target,
                unsettled: None,
                incomplete_unsettled: true,
                initial_delivery_count,
                max_message_size,
                offered_capabilities: capabilities,
                desired_capabilities: vec![],
                properties,
            }
        },
    )
}

fn performative() -> impl Strategy<Value = Performative> {
    let flow = (
        any::<[u32; 3]>(),
        any::<[Option<u32>; 4]>(),
        any::<[bool; 2]>(),
        proptest::option::of(map()),
    );
    let disposition = (
        role(),
        any::<u32>(),
        any::<Option<u32>>(),
        any::<[bool; 2]>(),
        proptest::option::of(delivery_state()),
    );
    prop_oneof![
        attach().prop_map(|attach| Performative::Attach(Box::new(attach))),
        flow.prop_map(
            |(windows, [expected, handle, count, credit], [drain, echo], properties)| {
                Performative::Flow(Flow {
                    next_incoming_id: expected,
                    incoming_window: windows[0],
                    next_outgoing_id: windows[1],
                    outgoing_window: windows[2],
                    handle,
                    delivery_count: count,
                    link_credit: credit,
                    available: None,
                    drain,
                    echo,
                    properties,
                })
            }
        ),
        disposition.prop_map(|(role, first, last, [settled, batchable], state)| {
            Performative::Disposition(Disposition {
                role,
                first,
                last,
                settled,
                state,
                batchable,
            })
        }),
    ]
}

proptest! {
    #[test]
    fn values_survive_a_round_trip(value in value()) {
        let mut out = BytesMut::new();
        value.encode(&mut out).unwrap();
        prop_assert_eq!(Value::decode(&out.freeze()).unwrap(), value);
    }

    #[test]
    fn maps_survive_a_round_trip(map in map()) {
        let lazy = LazyMap::from(&map);
        prop_assert_eq!(&lazy.iter().collect::<Result<Map, _>>().unwrap(), &map);
        prop_assert_eq!(&lazy.decode().unwrap(), &map);
    }

    #[test]
    fn performatives_survive_a_round_trip(performative in performative(), channel: u16) {
        let mut out = BytesMut::new();
        encode_frame(&mut out, channel, &performative);
        let frame = decode_frame(&mut out, u32::MAX).unwrap().unwrap();
        let payload = Bytes::new();
        prop_assert_eq!(frame, Frame::Amqp { channel, performative, payload });
        prop_assert!(out.is_empty());
    }

    /// Cut anywhere, a value is an error, and never another value.
    #[test]
    fn a_part_of_a_value_is_no_value(value in value(), cut: prop::sample::Index) {
        let mut out = BytesMut::new();
        value.encode(&mut out).unwrap();
        out.truncate(cut.index(out.len()));
        prop_assert!(Value::decode(&out.freeze()).is_err());
    }

    #[test]
    fn any_bytes_end_in_a_result(bytes in vec(any::<u8>(), 0..600)) {
        let input = Bytes::from(bytes);
        let _ = Value::decode(&input);
        let _ = Message::decode(input.clone());
        for kind in [0, 1] {
            let size = u32::try_from(input.len() + 8).unwrap().to_be_bytes();
            let mut frame = BytesMut::from(&size[..]);
            frame.extend_from_slice(&[2, kind, 0, 0]);
            frame.extend_from_slice(&input);
            let _ = decode_frame(&mut frame, 4096);
        }
    }
}
