use servicebus_amqp::types::{Bytes, TransactionalState};

use super::*;
use crate::testing::state_in;

fn all() -> [Settlement; 4] {
    [
        Settlement::Complete,
        Settlement::Abandon {
            properties: Map::new().with("p", 1u32),
        },
        Settlement::Defer {
            properties: Map::new().with("p", 1u32),
        },
        Settlement::DeadLetter(DeadLetter::new("r").description("d").property("p", 1u32)),
    ]
}

#[test]
fn b55_four_dispositions_three_outcomes() {
    let props = Map::new().with(Symbol::from("p"), 1u32);
    let [complete, abandon, defer, dead_letter] = all().map(|s| s.outcome());
    assert_eq!(complete, Outcome::Accepted);
    assert_eq!(
        abandon,
        Outcome::Modified(Box::new(Modified {
            delivery_failed: None,
            undeliverable_here: None,
            message_annotations: Some(props.clone()),
        }))
    );
    assert_eq!(
        defer,
        Outcome::Modified(Box::new(Modified {
            delivery_failed: None,
            undeliverable_here: Some(true),
            message_annotations: Some(props),
        }))
    );
    let info = Map::new()
        .with(Symbol::from("DeadLetterReason"), "r")
        .with(Symbol::from("DeadLetterErrorDescription"), "d")
        .with(Symbol::from("p"), 1u32);
    assert_eq!(
        dead_letter,
        Outcome::Rejected(Some(Box::new(AmqpError {
            condition: Symbol::from("com.microsoft:dead-letter"),
            description: None,
            info: Some(info),
        })))
    );
}

#[test]
fn b55_without_anything_to_say_the_fields_are_absent() {
    let abandon = Settlement::Abandon {
        properties: Map::new(),
    };
    assert_eq!(abandon.outcome(), Outcome::Modified(Box::default()));
    let Outcome::Rejected(Some(error)) = Settlement::DeadLetter(DeadLetter::default()).outcome()
    else {
        panic!("not rejected")
    };
    assert_eq!(error.info, None);
}

#[test]
fn b60_words_of_the_management_operation() {
    assert_eq!(
        all().map(|s| s.disposition_status()),
        ["completed", "abandoned", "defered", "suspended"]
    );
}

#[test]
fn b58_success_is_the_stated_kind_of_outcome() {
    let ok = [
        Outcome::Accepted,
        Outcome::Modified(Box::default()),
        Outcome::Modified(Box::default()),
        Outcome::Rejected(None),
    ];
    for (i, settlement) in all().iter().enumerate() {
        for (j, outcome) in ok.iter().enumerate() {
            let same = i == j || (i, j) == (1, 2) || (i, j) == (2, 1);
            let state = DeliveryState::from(outcome.clone());
            let answer = settlement.read_answer(Some(&state));
            assert_eq!(answer.is_ok(), same, "{settlement:?} {outcome:?}");
            if let Err(error) = answer {
                assert_eq!(error.kind(), ErrorKind::Protocol);
            }
        }
    }
}

#[test]
fn b58_the_service_refuses() {
    let rows = [
        (
            "com.microsoft:message-lock-lost",
            ErrorKind::MessageLockLost,
            false,
        ),
        (
            "com.microsoft:session-lock-lost",
            ErrorKind::SessionLockLost,
            false,
        ),
        ("amqp:not-found", ErrorKind::MessageLockLost, false),
        ("amqp:internal-error", ErrorKind::Other, true),
    ];
    for settlement in all() {
        for (condition, kind, transient) in rows {
            let error = Box::new(AmqpError::new(condition, "text"));
            let state = DeliveryState::from(Outcome::Rejected(Some(error)));
            let found = settlement.read_answer(Some(&state)).unwrap_err();
            assert_eq!((found.kind(), found.is_transient()), (kind, transient));
            assert_eq!(found.condition(), Some(condition));
        }
        let released = settlement.read_answer(Some(&DeliveryState::RELEASED));
        assert_eq!(released.unwrap_err().kind(), ErrorKind::MessageLockLost);
        assert!(settlement.read_answer(None).is_err());
    }
}

#[test]
fn an_answer_in_a_transaction_is_read_through() {
    let state = DeliveryState::Transactional(Box::new(TransactionalState {
        txn_id: Bytes::from_static(b"t"),
        outcome: Some(Outcome::Accepted),
    }));
    assert!(Settlement::Complete.read_answer(Some(&state)).is_ok());
    assert!(read_send_answer(Some(&state)).is_ok());
}

#[test]
fn answers_to_a_send() {
    let rejected = |condition: &str| {
        DeliveryState::from(Outcome::Rejected(Some(Box::new(AmqpError::new(
            condition, "",
        )))))
    };
    let kind = |state: Option<DeliveryState>| {
        read_send_answer(state.as_ref()).map_err(|error| (error.kind(), error.is_transient()))
    };
    assert_eq!(kind(Some(DeliveryState::ACCEPTED)), Ok(()));
    assert_eq!(
        kind(Some(rejected("amqp:resource-limit-exceeded"))),
        Err((ErrorKind::QuotaExceeded, false))
    );
    assert_eq!(
        kind(Some(rejected("com.microsoft:server-busy"))),
        Err((ErrorKind::ServiceBusy, true))
    );
    assert_eq!(
        kind(Some(DeliveryState::RELEASED)),
        Err((ErrorKind::Other, true))
    );
    assert_eq!(kind(None), Err((ErrorKind::Uncertain, false)));
}

#[test]
fn texts_of_dead_letters_are_limited() {
    let fits = DeadLetter::new("ö".repeat(4096)).description("x".repeat(4096));
    assert!(Settlement::DeadLetter(fits).check().is_ok());
    let too_long = DeadLetter::new("x").description("x".repeat(4097));
    let error = Settlement::DeadLetter(too_long).check().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

fn stated(frame: &str) -> Outcome {
    state_in(frame).outcome().unwrap().clone()
}

/// Outcomes as official SDKs state them on the wire. Where they differ among each other: abandon and defer are those of
/// .NET, which leaves `delivery-failed` out; the keys of a dead letter's info are symbols, as those of .NET, Python and
/// Go; the description of its error is left out, as .NET, JavaScript and Go do.
#[test]
fn b55_outcomes_equal_those_of_the_official_sdks() {
    assert_eq!(
        Settlement::Complete.outcome(),
        stated("0000001a02000001005315c00d06560152014056000053244540")
    );
    let nothing = Map::new;
    assert_eq!(
        Settlement::Abandon {
            properties: nothing()
        }
        .outcome(),
        stated("0000001a02000000005315c00d05560152075207560000532745")
    );
    assert_eq!(
        Settlement::Defer {
            properties: nothing()
        }
        .outcome(),
        stated("0000001f02000000005315c012055601520752075600005327c00402405601")
    );
    // JavaScript says `undeliverable-here` false where it could say nothing.
    let theirs = stated(
        "0000003602000001005315d00000002600000005415201520142005327d000000014000000034042d10000000900000002a301705201",
    );
    let Outcome::Modified(mut theirs) = theirs else {
        panic!("{theirs:?}")
    };
    assert_eq!(theirs.undeliverable_here.take(), Some(false));
    let properties = Map::new().with("p", 1u32);
    assert_eq!(
        Settlement::Abandon { properties }.outcome(),
        Outcome::Modified(theirs)
    );
    let theirs = stated(
        "0000008702000001005315c07a0656015204405600005325c06c0100531dc06603a319636f6d2e6d6963726f736f66743a646561642d6c\
         6574746572a1087665727920626164c13e04a310446561644c6574746572526561736f6ea103626164a31a446561644c65747465724572\
         726f724465736372697074696f6ea108766572792062616440",
    );
    let Outcome::Rejected(Some(mut theirs)) = theirs else {
        panic!("{theirs:?}")
    };
    assert_eq!(theirs.description.take().as_deref(), Some("very bad"));
    assert_eq!(
        Settlement::DeadLetter(DeadLetter::new("bad").description("very bad")).outcome(),
        Outcome::Rejected(Some(theirs))
    );
}

#[test]
fn b58_a_late_settlement_on_the_wire() {
    let state = state_in(
        "0000005102000000005315c044055600520752075601005325c0360100531dc03002a31f636f6d2e6d6963726f736f66743a6d65737361\
         67652d6c6f636b2d6c6f7374a10c6c6f636b2065787069726564",
    );
    let error = Settlement::Complete.read_answer(Some(&state)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MessageLockLost);
    assert!(error.to_string().starts_with("lock expired"));
}
