//! The configuration file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::time::Duration;

use servicebus_amqp::types::Timestamp;
use servicebus_emulator::{
    broker::{Broker, Filter, Limits, Status},
    config::Config,
};

/// Everything that the official emulator's schema knows, and what is ours.
const FULL: &str = r#"{
  "UserConfig": {
    "Namespaces": [
      {
        "Name": "sbemulatorns",
        "Queues": [
          {
            "Name": "queue.1",
            "Properties": {
              "DeadLetteringOnMessageExpiration": true,
              "DefaultMessageTimeToLive": "PT30M",
              "DuplicateDetectionHistoryTimeWindow": "PT1M",
              "ForwardDeadLetteredMessagesTo": "later",
              "ForwardTo": "",
              "LockDuration": "PT5S",
              "MaxDeliveryCount": 7,
              "RequiresDuplicateDetection": true,
              "RequiresSession": true
            }
          },
          // Without properties: everything has a default.
          { "Name": "later" },
          {
            "Name": "ours",
            "Properties": {
              "Status": "ReceiveDisabled",
              "AutoDeleteOnIdle": "PT10M",
              "MaxSizeInMegabytes": 2,
              "UserMetadata": "kept out",
              "DefaultMessageTimeToLive": "P10675199DT2H48M5.4775807S",
            }
          }
        ],
        "Topics": [
          {
            "Name": "topic.1",
            "Properties": {
              "DefaultMessageTimeToLive": "PT1H",
              "DuplicateDetectionHistoryTimeWindow": "PT20S",
              "RequiresDuplicateDetection": false
            },
            "Subscriptions": [
              {
                "Name": "subscription.1",
                "Properties": {
                  "DeadLetteringOnMessageExpiration": false,
                  "DefaultMessageTimeToLive": "PT1H",
                  "LockDuration": "PT1M",
                  "MaxDeliveryCount": 3,
                  "ForwardDeadLetteredMessagesTo": "",
                  "ForwardTo": "later",
                  "RequiresSession": false
                },
                "Rules": [
                  {
                    "Name": "correlation",
                    "Properties": {
                      "FilterType": "Correlation",
                      "CorrelationFilter": {
                        "ContentType": "application/text",
                        "CorrelationId": "id1",
                        "Label": "subject1",
                        "MessageId": "msgid1",
                        "ReplyTo": "someQueue",
                        "ReplyToSessionId": "sessionId",
                        "SessionId": "session1",
                        "To": "xyz",
                        "Properties": { "a": "b", "n": 3, "yes": true }
                      }
                    }
                  },
                  {
                    "Name": "sql",
                    "Properties": {
                      "FilterType": "Sql",
                      "SqlFilter": { "SqlExpression": "sys.MessageId = '123456' AND userProp1 = 'value1'" },
                      "Action": { "SqlExpression": "SET sys.To = 'Entity'" }
                    }
                  }
                ]
              },
              { "Name": "default" }
            ]
          },
          { "Name": "nobody listens", "Subscriptions": [] }
        ]
      },
      { "Name": "second" }
    ],
    "Logging": { "Type": "File,Console" }
  }
}"#;

#[test]
fn reads_everything() {
    let config = Config::parse(FULL).unwrap();
    let namespace = &config.namespaces[0];
    let first = &namespace.queues[0].options;
    assert!(first.requires_session && first.dead_letter_on_expiration);
    assert_eq!(first.default_time_to_live, Some(Duration::from_secs(1800)));
    assert_eq!(first.duplicate_detection, Some(Duration::from_secs(60)));
    assert_eq!(first.lock_duration, Duration::from_secs(5));
    assert_eq!(first.max_delivery_count, 7);
    assert_eq!(first.forward_to, None);
    assert_eq!(first.forward_dead_lettered_to.as_deref(), Some("later"));

    let defaults = &namespace.queues[1].options;
    assert_eq!(defaults.max_delivery_count, 3);
    assert_eq!(
        defaults.default_time_to_live,
        Some(Duration::from_secs(3600))
    );
    assert_eq!(defaults.lock_duration, Duration::from_secs(60));
    assert_eq!(defaults.duplicate_detection, None);

    let ours = &namespace.queues[2].options;
    assert_eq!(ours.status, Status::ReceiveDisabled);
    assert_eq!(ours.auto_delete_on_idle, Some(Duration::from_secs(600)));
    assert_eq!(ours.max_size, Some(2 << 20));
    assert_eq!(ours.default_time_to_live, None);

    let subscriptions = &namespace.topics[0].subscriptions;
    let rules = subscriptions[0].rules.as_ref().unwrap();
    let Filter::Correlation(filter) = &rules[0].filter else {
        panic!("{:?}", rules[0])
    };
    assert_eq!(filter.reply_to_session_id.as_deref(), Some("sessionId"));
    assert_eq!(filter.properties.get("n"), Some(&3i64.into()));
    let action = rules[1].action.as_ref().unwrap();
    assert_eq!(action.text(), "SET sys.To = 'Entity'");
    assert!(subscriptions[1].rules.is_none());
    assert_eq!(config.namespaces.len(), 2);
}

#[test]
fn declares_entities_whose_targets_come_later() {
    let text = FULL.replace("nobody listens", "nobody");
    let config = Config::parse(&text).unwrap();
    let mut broker = Broker::new(Limits::unlimited(), 1);
    config
        .declare(&mut broker, Timestamp::from_millis(0))
        .unwrap();
    for path in ["queue.1", "topic.1/Subscriptions/subscription.1", "nobody"] {
        broker.resolve("sbemulatorns", path).unwrap();
    }
}

#[test]
fn what_the_broker_refuses_has_its_path() {
    let config = Config::parse(FULL).unwrap();
    let mut broker = Broker::new(Limits::unlimited(), 1);
    let error = config
        .declare(&mut broker, Timestamp::from_millis(0))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "UserConfig.Namespaces[0].Topics[1]: The name 'nobody listens' contains ' '; letters, digits and . - _ / ~ are allowed."
    );
    let text = FULL.replace(r#""ForwardTo": "later""#, r#""ForwardTo": "nowhere""#);
    let config = Config::parse(&text.replace("nobody listens", "nobody")).unwrap();
    let mut broker = Broker::new(Limits::unlimited(), 1);
    let error = config
        .declare(&mut broker, Timestamp::from_millis(0))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "UserConfig.Namespaces[0].Topics[0].Subscriptions[0]: SubCode=40400. The forwarding target 'nowhere' does not exist."
    );
}

#[test]
fn mistakes_have_a_path_and_a_reason() {
    const QUEUE: &str = "UserConfig.Namespaces[0].Queues[0].Properties";
    const RULE: &str = "UserConfig.Namespaces[0].Topics[0].Subscriptions[0].Rules[1].Properties";
    let table = [
        (
            r#""LockDuration": "PT5S""#,
            r#""LockDuration": "5s""#,
            format!("{QUEUE}.LockDuration"),
            "no ISO 8601 duration",
        ),
        (
            r#""LockDuration": "PT5S""#,
            r#""LockDuration": "PT6M""#,
            format!("{QUEUE}.LockDuration"),
            "longer than 5 minutes",
        ),
        (
            r#""LockDuration": "PT5S""#,
            r#""LockDuration": "PT0S""#,
            format!("{QUEUE}.LockDuration"),
            "longer than zero",
        ),
        (
            r#""LockDuration": "PT5S""#,
            r#""LockDurations": "PT5S""#,
            format!("{QUEUE}.LockDurations"),
            "unknown field `LockDurations`, expected one of",
        ),
        (
            r#""MaxDeliveryCount": 7"#,
            r#""MaxDeliveryCount": 0"#,
            format!("{QUEUE}.MaxDeliveryCount"),
            "at least 1",
        ),
        (
            r#""MaxDeliveryCount": 7"#,
            r#""MaxDeliveryCount": "7""#,
            format!("{QUEUE}.MaxDeliveryCount"),
            "invalid type: string",
        ),
        (
            r#""MaxDeliveryCount": 7"#,
            r#""MaxDeliveryCount": 7, "MaxDeliveryCount": 8"#,
            format!("{QUEUE}.MaxDeliveryCount"),
            "appears twice",
        ),
        (
            r#""FilterType": "Sql""#,
            r#""FilterType": "SQLFilter""#,
            RULE.to_owned(),
            "unknown variant `SQLFilter`, expected `Correlation` or `Sql`",
        ),
        (
            r#""FilterType": "Sql""#,
            r#""FilterType": "Correlation""#,
            RULE.to_owned(),
            "no CorrelationFilter",
        ),
        (
            "sys.MessageId = '123456'",
            "sys.MessageId ==",
            RULE.to_owned(),
            "expected an expression, found '=' (at character 16)",
        ),
        (
            "SET sys.To = 'Entity'",
            "DROP x",
            RULE.to_owned(),
            "expected SET or REMOVE",
        ),
        (
            r#""Name": "second""#,
            r#""Names": "second""#,
            "UserConfig.Namespaces[1].Names".to_owned(),
            "unknown field `Names`",
        ),
        (
            r#"{ "Name": "second" }"#,
            "{}",
            "UserConfig.Namespaces[1]".to_owned(),
            "missing field `Name`",
        ),
        (
            r#""File,Console""#,
            r#""Printer""#,
            "UserConfig.Logging.Type".to_owned(),
            "unknown variant `Printer`",
        ),
        (
            r#""UserConfig""#,
            r#""userConfig""#,
            "userConfig".to_owned(),
            "unknown field",
        ),
    ];
    for (old, new, path, reason) in table {
        assert!(FULL.contains(old), "{old}");
        let error = Config::parse(&FULL.replacen(old, new, 1)).unwrap_err();
        assert!(
            error.path().starts_with(&path) && error.reason().contains(reason),
            "{new}: {error}"
        );
    }
}

#[test]
fn what_is_no_json_has_line_and_column() {
    for (text, reason) in [
        ("", "The file is empty."),
        ("// nothing", "The file is empty."),
        ("{\n  \"UserConfig\": [ }", "line 2 column 19"),
        ("{ UserConfig: 1 }", "line 1 column 3"),
        ("{} {}", "line 1 column 4"),
    ] {
        let error = Config::parse(text).unwrap_err();
        assert_eq!(error.path(), "");
        assert!(error.reason().contains(reason), "{text}: {error}");
    }
    let deep = "[".repeat(100_000);
    assert!(Config::parse(&deep).is_err());
}
