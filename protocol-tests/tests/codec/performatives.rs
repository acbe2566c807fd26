//! Cases of real trouble with frames and their performatives, by their ids.

use bytes::{BufMut, Bytes, BytesMut};
use protocol_tests::hex;
use servicebus_amqp::codec::{
    Frame, FrameError, decode_frame, encode_frame, encode_transfer, transfer_len,
};
use servicebus_amqp::types::{
    Attach, Begin, Close, Detach, Disposition, End, Flow, Open, Performative, ReceiverSettleMode,
    Role, SaslFrame, SenderSettleMode, Transfer, condition,
};

use crate::golden::only_frame;
use crate::hostile::framed;

fn performative(digits: &str) -> Performative {
    let frame = only_frame(&hex(digits));
    let Frame::Amqp { performative, .. } = frame else {
        unreachable!("{frame:?}");
    };
    performative
}

/// The performative of these fields, written as a list of the smallest form.
fn composed(descriptor: u8, fields: &str) -> Performative {
    let fields = hex(fields);
    let mut body = BytesMut::from(&[0x00, 0x53, descriptor, 0xc0][..]);
    body.put_u8(u8::try_from(fields.len()).unwrap());
    body.put_slice(&fields);
    let Frame::Amqp { performative, .. } = only_frame(&framed(0, &body)) else {
        unreachable!("no performative");
    };
    performative
}

#[test]
fn b08_missing_and_null_fields() {
    for digits in [
        "0000001102000000 005310 c0 04 01 a10173",
        "0000001a02000000 005310 c0 0d 0a a10173 404040404040404040",
    ] {
        let expected = Open {
            container_id: "s".into(),
            hostname: None,
            max_frame_size: 4_294_967_295,
            channel_max: 65_535,
            idle_time_out: None,
            outgoing_locales: vec![],
            incoming_locales: vec![],
            offered_capabilities: vec![],
            desired_capabilities: vec![],
            properties: None,
        };
        assert_eq!(performative(digits), Performative::Open(Box::new(expected)));
    }
    for fields in [
        "04 40 43 5201 5202",
        "05 40 43 5201 5202 40",
        "08 40 43 5201 5202 40404040",
    ] {
        let expected = Begin {
            remote_channel: None,
            next_outgoing_id: 0,
            incoming_window: 1,
            outgoing_window: 2,
            handle_max: 4_294_967_295,
            offered_capabilities: vec![],
            desired_capabilities: vec![],
            properties: None,
        };
        assert_eq!(
            composed(0x11, fields),
            Performative::Begin(Box::new(expected))
        );
    }
    for fields in [
        "03 a1016c 43 41",
        "0a a1016c 43 41 40404040404040",
        "0e a1016c 43 41 4040404040404040404040",
    ] {
        let expected = Attach {
            name: "l".into(),
            handle: 0,
            role: Role::Receiver,
            snd_settle_mode: SenderSettleMode::Mixed,
            rcv_settle_mode: ReceiverSettleMode::First,
            source: None,
            target: None,
            unsettled: None,
            incomplete_unsettled: false,
            initial_delivery_count: None,
            max_message_size: None,
            offered_capabilities: vec![],
            desired_capabilities: vec![],
            properties: None,
        };
        assert_eq!(
            composed(0x12, fields),
            Performative::Attach(Box::new(expected))
        );
    }
    for fields in [
        "04 40 5201 5202 5203",
        "0b 40 5201 5202 5203 40404040404040",
    ] {
        let expected = Flow {
            incoming_window: 1,
            next_outgoing_id: 2,
            outgoing_window: 3,
            ..Flow::default()
        };
        assert_eq!(composed(0x13, fields), Performative::Flow(expected));
    }
    for fields in ["01 43", "0b 43 40404040404040404040"] {
        assert_eq!(
            composed(0x14, fields),
            Performative::Transfer(Transfer::default())
        );
    }
    for fields in ["02 42 43", "06 42 43 40404040"] {
        let expected = Disposition {
            role: Role::Sender,
            first: 0,
            last: None,
            settled: false,
            state: None,
            batchable: false,
        };
        assert_eq!(composed(0x15, fields), Performative::Disposition(expected));
    }
    for fields in ["01 43", "03 43 40 40"] {
        let expected = Detach {
            handle: 0,
            closed: false,
            error: None,
        };
        assert_eq!(composed(0x16, fields), Performative::Detach(expected));
    }
    for fields in ["00", "01 40"] {
        assert_eq!(composed(0x17, fields), Performative::End(End::default()));
        assert_eq!(
            composed(0x18, fields),
            Performative::Close(Close::default())
        );
    }
}

/// A mandatory field may be neither.
#[test]
fn b08_mandatory_fields() {
    for (descriptor, fields, path) in [
        (0x10, "00", "open.container-id"),
        (0x10, "01 40", "open.container-id"),
        (0x11, "02 40 43", "begin.incoming-window"),
        (0x12, "02 a1016c 43", "attach.role"),
        (0x13, "03 40 43 43", "flow.outgoing-window"),
        (0x14, "00", "transfer.handle"),
        (0x15, "01 41", "disposition.first"),
        (0x16, "01 40", "detach.handle"),
    ] {
        let fields = hex(fields);
        let size = u8::try_from(fields.len()).unwrap();
        let body = [&[0x00, 0x53, descriptor, 0xc0, size], &fields[..]].concat();
        let result = decode_frame(&mut BytesMut::from(&framed(0, &body)[..]), 512);
        let Err(FrameError::Body(error)) = result else {
            unreachable!("{result:?}");
        };
        assert_eq!(error.path(), path);
        assert_eq!(
            error.to_string().split(" (").next().unwrap(),
            format!("{path}: mandatory, but null or missing")
        );
        assert_eq!(error.condition(), condition::INVALID_FIELD);
    }
}

/// The chunkings of whole exchanges are in `captures`.
#[test]
fn b09_small_frames_need_no_further_byte() {
    let end = hex("0000000c 02000000 00 53 17 45");
    let mut input = BytesMut::from(&end[..11]);
    assert_eq!(decode_frame(&mut input, 512), Ok(None));
    input.extend_from_slice(&end[11..]);
    assert!(matches!(
        decode_frame(&mut input, 512),
        Ok(Some(Frame::Amqp {
            performative: Performative::End(_),
            ..
        }))
    ));
    let mut input = BytesMut::from(&hex("00000008 02000000")[..]);
    assert_eq!(
        decode_frame(&mut input, 512),
        Ok(Some(Frame::Empty { channel: 0 }))
    );
}

#[test]
fn b11_multiple_fields() {
    let mechanisms = |digits: &str| {
        let Frame::Sasl(SaslFrame::Mechanisms(frame)) = only_frame(&hex(digits)) else {
            unreachable!("no mechanisms");
        };
        frame.mechanisms
    };
    assert_eq!(
        mechanisms("0000001702010000 005340 c0 0a 01 a3074d535342434253"),
        ["MSSBCBS"]
    );
    // One array of four symbols of the large form.
    let large =
        "0000003f02010000 005340 c0 32 01 e0 2f 04 b3 00000007 4d535342434253 00000005 504c41494e
                 00000009 414e4f4e594d4f5553 00000008 45585445524e414c";
    assert_eq!(
        mechanisms(large),
        ["MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL"]
    );

    for (capabilities, expected) in [
        ("40", &[][..]),
        ("e0 02 00 a3", &[]),
        ("e0 01 00", &[]),
        ("a3 01 63", &["c"]),
        ("e0 04 01 a3 01 63", &["c"]),
        ("f0 0000000e 00000002 b3 00000001 63 00000000", &["c", ""]),
    ] {
        let capabilities = hex(capabilities);
        let fields = [&hex("a10173 40 40 40 40 40 40")[..], &capabilities].concat();
        let size = u8::try_from(fields.len() + 1).unwrap();
        let body = [&[0x00, 0x53, 0x10, 0xc0, size, 8], &fields[..]].concat();
        let frame = only_frame(&framed(0, &body));
        let Frame::Amqp {
            performative: Performative::Open(open),
            ..
        } = frame
        else {
            unreachable!("{frame:?}");
        };
        assert_eq!(open.offered_capabilities, expected, "{capabilities:?}");
    }
}

/// The frames of a delivery can be cut to size before they are written.
#[test]
fn b25_frames_of_a_small_size() {
    let mut transfer = Transfer {
        handle: 300,
        delivery_id: Some(70_000),
        delivery_tag: Some(Bytes::from_static(&[7; 16])),
        message_format: Some(0),
        settled: Some(false),
        more: true,
        ..Transfer::default()
    };
    let body = Bytes::from(vec![1; 10_000]);
    let mut left = body.clone();
    let mut stream = BytesMut::new();
    while !left.is_empty() {
        transfer.more = true;
        let room = 512 - transfer_len(&transfer);
        let payload = left.split_to(room.min(left.len()));
        transfer.more = !left.is_empty();
        let start = stream.len();
        encode_transfer(&mut stream, 9, &transfer, payload.len());
        stream.extend_from_slice(&payload);
        assert!(stream.len() - start <= 512);
        transfer = Transfer {
            handle: 300,
            ..Transfer::default()
        };
    }
    let mut received = BytesMut::new();
    let mut frames = 0;
    while let Some(frame) = decode_frame(&mut stream, 512).unwrap() {
        let Frame::Amqp {
            channel: 9,
            performative: Performative::Transfer(transfer),
            payload,
        } = frame
        else {
            unreachable!("{frame:?}");
        };
        assert_eq!(transfer.delivery_id, (frames == 0).then_some(70_000));
        received.extend_from_slice(&payload);
        assert_eq!(transfer.more, received.len() < body.len());
        frames += 1;
    }
    assert_eq!(received, body);
}

/// Clients exist that read open, begin and attach by position: all fields are there.
#[test]
fn b108_performatives_in_full() {
    let open = performative("0000001102000000 005310 c0 04 01 a10173");
    let begin = composed(0x11, "04 40 43 5201 5202");
    let attach = composed(0x12, "03 a1016c 43 41");
    for (performative, count, explicit) in [
        (open, 10, "40 70ffffffff 60ffff 40"),
        (begin, 8, "40 43 5201 5202 70ffffffff 40"),
        (attach, 14, "43 41 5002 5000 40"),
    ] {
        let mut out = BytesMut::new();
        encode_frame(&mut out, 0, &performative);
        assert_eq!(out[13], count);
        let explicit = hex(explicit);
        assert!(out.windows(explicit.len()).any(|window| window == explicit));
        let Frame::Amqp {
            performative: again,
            ..
        } = only_frame(&out.freeze())
        else {
            unreachable!("no performative");
        };
        assert_eq!(again, performative);
    }
}
