use bytes::Bytes;
use servicebus_amqp::types::{Map, Message, MessageId, Properties, Timestamp};
use servicebus_emulator::broker::{
    AttachReceiver, Attached, Broker, CreateQueue, CreateSubscription, CreateTopic, Effect, Filter,
    Limits, Peek, QueueOptions, ReceiveMode, Rule, Send, SessionRequest, SetCredit, Settle,
    Settlement, SubscriptionOptions, TopicOptions,
};
use servicebus_emulator::config::Config;
use servicebus_emulator::sql::{self, Action, Record};

/// Any text as a filter and as an action, applied to a message.
pub fn sql_filter(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let last = text.chars().count() + 1;
    let message = Message {
        properties: Some(Properties {
            message_id: Some(MessageId::String("id".into())),
            subject: Some("label".into()),
            ..Properties::default()
        }),
        ..Message::default()
    };
    let mut record = Record::new(&message).unwrap();
    record.application = Map::new()
        .with("color", "red")
        .with("n", i64::MAX)
        .with("x", -1.5)
        .with("b", true);
    match sql::Filter::parse(&text, &[("p", 1.into())]) {
        Ok(filter) => {
            let first = filter.matches(&record);
            assert_eq!(first, filter.matches(&record), "the same every time");
        }
        Err(error) => assert!((1..=last).contains(&error.position()), "{error}"),
    }
    match Action::parse(&text, &[]) {
        Ok(action) => {
            let _ = action.apply(&mut record);
        }
        Err(error) => assert!((1..=last).contains(&error.position()), "{error}"),
    }
}

/// Any text as a configuration, declared if it is one.
pub fn config_json(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Config::parse(&text) {
        Ok(config) => {
            let mut broker = Broker::new(Limits::unlimited(), 1);
            let _ = config.declare(&mut broker, Timestamp::from_millis(0));
        }
        Err(error) => assert!(!error.reason().is_empty()),
    }
}

/// Any bytes as the message of a sender: through rules that look into it and change it, to a receiver, to the
/// dead-letter queue.
pub fn broker_message(data: &[u8]) {
    let Some((&format, data)) = data.split_first() else {
        return;
    };
    let now = Timestamp::from_millis(1_700_000_000_000);
    let mut broker = Broker::new(Limits::unlimited(), 1);
    let namespace = || "ns".to_owned();
    let topic = broker
        .apply(
            now,
            CreateTopic {
                namespace: namespace(),
                name: "t".into(),
                options: TopicOptions::default(),
            },
        )
        .unwrap();
    let changing = Rule {
        action: Some(
            Action::parse("SET sys.Label = 'x'; SET color = 'red'; REMOVE n", &[]).unwrap(),
        ),
        ..Rule::new(
            "r",
            Filter::Sql(sql::Filter::parse("color = 'red' OR 1=1", &[]).unwrap()),
        )
    };
    let subscription = broker
        .apply(
            now,
            CreateSubscription {
                topic,
                name: "s".into(),
                options: SubscriptionOptions::default(),
                rules: Some(vec![Rule::default_rule(), changing]),
            },
        )
        .unwrap();
    let queue = broker
        .apply(
            now,
            CreateQueue {
                namespace: namespace(),
                name: "q".into(),
                options: QueueOptions::default(),
            },
        )
        .unwrap();
    let format = if format & 1 == 0 { 0 } else { 0x8001_3700 };
    for entity in [topic, queue] {
        let payload = Bytes::copy_from_slice(data);
        let _ = broker.apply(
            now,
            Send {
                entity,
                payload,
                format,
                transaction: None,
            },
        );
    }
    for entity in [subscription, queue] {
        let mode = ReceiveMode::PeekLock;
        let attach = AttachReceiver {
            entity,
            mode,
            session: SessionRequest::None,
        };
        let Ok(Attached::Ready { consumer, .. }) = broker.apply(now, attach) else {
            panic!("only session receivers wait")
        };
        broker
            .apply(
                now,
                SetCredit {
                    consumer,
                    credit: 10,
                    drain: false,
                },
            )
            .unwrap();
        while let Some(effect) = broker.poll_effect() {
            let Effect::Deliver(delivery) = effect else {
                continue;
            };
            let bytes = delivery.message.to_bytes();
            assert!(bytes.len() <= delivery.message.encoded_len());
            let settlement = Settlement::DeadLetter {
                reason: Some("reason".into()),
                description: None,
                properties: Map::new().with("color", "blue"),
            };
            let token = delivery.token.unwrap();
            // Refused when the application properties are malformed; the message stays locked then.
            let _ = broker.apply(
                now,
                Settle {
                    entity,
                    token,
                    settlement,
                    transaction: None,
                },
            );
        }
        broker
            .apply(
                now,
                Peek {
                    entity,
                    from: 0,
                    count: 10,
                    session: None,
                },
            )
            .unwrap();
    }
}
