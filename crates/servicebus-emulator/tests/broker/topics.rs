//! Topics, subscriptions and rules.

use servicebus_amqp::types::{Map, Value};
use servicebus_emulator::{
    broker::*,
    sql::{Action, Filter as SqlFilter},
};

use crate::support::*;

fn sql(name: &str, filter: &str, action: Option<&str>) -> Rule {
    Rule {
        action: action.map(|text| Action::parse(text, &[]).unwrap()),
        ..Rule::new(name, Filter::Sql(SqlFilter::parse(filter, &[]).unwrap()))
    }
}

fn correlation(name: &str, filter: CorrelationFilter) -> Rule {
    Rule::new(name, Filter::Correlation(Box::new(filter)))
}

fn world_with_topic() -> (World, EntityId) {
    let mut world = World::new();
    let topic = world.topic(TopicOptions::default());
    (world, topic)
}

#[test]
fn a_new_subscription_takes_everything_and_one_without_rules_nothing() {
    let (mut world, topic) = world_with_topic();
    let all = world.subscription(topic, "all", SubscriptionOptions::default(), None);
    let none = world.subscription(
        topic,
        "none",
        SubscriptionOptions::default(),
        Some(Vec::new()),
    );
    let rules = world
        .apply(EnumerateRules {
            subscription: all,
            skip: 0,
            top: 10,
        })
        .unwrap();
    assert_eq!(rules[0].name, "$Default");
    assert!(matches!(rules[0].filter, Filter::True));
    world.send(topic, &message("a"));
    assert_eq!(world.bodies(all), ["a"]);
    assert!(world.bodies(none).is_empty());
    assert_eq!(world.counts(topic).active, 0);
}

#[test]
fn each_subscription_numbers_its_own_and_keeps_that_of_the_topic() {
    let (mut world, topic) = world_with_topic();
    let all = world.subscription(topic, "all", SubscriptionOptions::default(), None);
    let some = world.subscription(
        topic,
        "some",
        SubscriptionOptions::default(),
        Some(vec![sql("r", "n = 2", None)]),
    );
    for n in 1..=2 {
        world.send(topic, &message("x").long("n", n));
    }
    let numbers =
        |stored: &StoredMessage| (stored.sequence_number(), stored.enqueued_sequence_number());
    assert_eq!(
        world.peek(all).iter().map(numbers).collect::<Vec<_>>(),
        [(1, 1), (2, 2)]
    );
    assert_eq!(
        world.peek(some).iter().map(numbers).collect::<Vec<_>>(),
        [(1, 2)]
    );
}

#[test]
fn rules_without_action_make_one_copy_and_each_action_one_more() {
    let (mut world, topic) = world_with_topic();
    let rules = vec![
        sql("plain1", "1=1", None),
        sql("first", "color = 'red'", Some("SET extra = 1")),
        sql("plain2", "color = 'red'", None),
        sql(
            "second",
            "1=1",
            Some("SET sys.Label = 'changed'; REMOVE color"),
        ),
        sql("plain3", "color = 'blue'", None),
    ];
    let subscription = world.subscription(topic, "s", SubscriptionOptions::default(), Some(rules));
    world.send(
        topic,
        &message("a").text("color", "red").subject("label").id("m"),
    );
    let copies = world.peek(subscription);
    assert_eq!(copies.len(), 3);
    let names: Vec<_> = copies
        .iter()
        .map(|copy| text_property(copy, "RuleName"))
        .collect();
    assert_eq!(
        names,
        [None, Some("first".to_owned()), Some("second".to_owned())]
    );
    assert_eq!(property(&copies[1], "extra"), Some(Value::Long(1)));
    let second = decode(&copies[2]).properties.unwrap();
    assert_eq!(second.subject.unwrap(), "changed");
    assert_eq!(property(&copies[2], "color"), None);
    for copy in &copies {
        assert_eq!(body(copy), "a");
        assert_eq!(copy.message_id().unwrap(), "m");
    }
    let plain = decode(&copies[0]).properties.unwrap();
    assert_eq!(
        plain.subject.unwrap(),
        "label",
        "a change is private to its copy"
    );
}

#[test]
fn correlation_filters_compare_all_their_conditions() {
    let (mut world, topic) = world_with_topic();
    let label = |label: &str| CorrelationFilter {
        label: Some(label.into()),
        ..CorrelationFilter::default()
    };
    let both = CorrelationFilter {
        label: Some(text("order")),
        properties: Map::new().with("color", "red"),
        ..CorrelationFilter::default()
    };
    let number = CorrelationFilter {
        properties: Map::new().with("n", 7),
        ..CorrelationFilter::default()
    };
    for (name, filter) in [
        ("label", label("order")),
        ("case", label("Order")),
        ("both", both),
        ("number", number),
    ] {
        let rules = Some(vec![correlation("r", filter)]);
        world.subscription(topic, name, SubscriptionOptions::default(), rules);
    }
    world.send(topic, &message("a").subject("order").text("color", "red"));
    world.send(topic, &message("b").subject("order").text("color", "blue"));
    // A long against an int: numbers are equal by value.
    world.send(topic, &message("c").long("n", 7));
    for (name, expected) in [
        ("label", &["a", "b"][..]),
        ("case", &[]),
        ("both", &["a"]),
        ("number", &["c"]),
    ] {
        let subscription = world.find(&format!("t/Subscriptions/{name}"));
        assert_eq!(world.bodies(subscription), expected, "{name}");
    }
}

#[test]
fn rules_are_added_and_removed_for_later_messages() {
    let (mut world, topic) = world_with_topic();
    let subscription = world.subscription(topic, "s", SubscriptionOptions::default(), None);
    world.send(topic, &message("1"));
    let remove = |name: &str| RemoveRule {
        subscription,
        name: name.into(),
    };
    world.apply(remove("$default")).unwrap();
    let error = world.apply(remove("$Default")).unwrap_err();
    assert_eq!(error.status(), 404);
    world.send(topic, &message("2"));
    let add = |rule| AddRule { subscription, rule };
    world.apply(add(sql("r", "1=1", None))).unwrap();
    let error = world.apply(add(sql("R", "1=1", None))).unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:entity-already-exists");
    assert_eq!(error.status(), 409);
    let error = world
        .apply(add(correlation("empty", CorrelationFilter::default())))
        .unwrap_err();
    assert_eq!(error.condition(), "com.microsoft:argument-error");
    world.send(topic, &message("3"));
    assert_eq!(world.bodies(subscription), ["1", "3"]);
}

#[test]
fn a_filter_that_fails_dead_letters_or_passes_over() {
    let (mut world, topic) = world_with_topic();
    for (name, dead_letter_on_filter_error) in [("keeps", true), ("drops", false)] {
        let options = SubscriptionOptions {
            dead_letter_on_filter_error,
            ..SubscriptionOptions::default()
        };
        let rules = Some(vec![sql("r", "color > 3", None)]);
        world.subscription(topic, name, options, rules);
    }
    world.send(topic, &message("a").text("color", "red"));
    for (name, expected) in [("keeps", 1), ("drops", 0)] {
        let subscription = world.find(&format!("t/Subscriptions/{name}"));
        assert_eq!(world.counts(subscription).active, 0);
        assert_eq!(world.counts(subscription).dead_letter, expected, "{name}");
    }
    let dead_letters = world.find("t/Subscriptions/keeps/$DeadLetterQueue");
    let dead = world.peek(dead_letters).pop().unwrap();
    assert_eq!(
        text_property(&dead, "DeadLetterErrorDescription").unwrap(),
        "Rule 'r': text cannot be compared with a number"
    );
}

#[test]
fn a_message_without_session_is_dead_lettered_by_a_subscription_with_sessions() {
    let (mut world, topic) = world_with_topic();
    let options = SubscriptionOptions {
        requires_session: true,
        ..SubscriptionOptions::default()
    };
    world.subscription(topic, "s", options, None);
    world.send(topic, &message("a"));
    let dead_letters = world.find("t/Subscriptions/s/$DeadLetterQueue");
    let dead = world.peek(dead_letters).pop().unwrap();
    assert_eq!(
        text_property(&dead, "DeadLetterReason").unwrap(),
        "Session id is null."
    );
    assert_eq!(
        text_property(&dead, "DeadLetterErrorDescription").unwrap(),
        "Session enabled entity doesn't allow a message whose session identifier is null."
    );
}

#[test]
fn b110_subscriptions_of_one_topic_have_their_own_limits() {
    let (mut world, topic) = world_with_topic();
    for (name, max_delivery_count) in [("one", 1), ("two", 2)] {
        let options = SubscriptionOptions {
            max_delivery_count,
            ..SubscriptionOptions::default()
        };
        let subscription = world.subscription(topic, name, options, None);
        world.send(topic, &message("a"));
        let receiver = world.receiver(subscription);
        let mut attempts = 0;
        while world.counts(subscription).dead_letter == 0 {
            let delivery = world.receive(receiver).unwrap();
            world.abandon(subscription, &delivery);
            attempts += 1;
        }
        assert_eq!(attempts, max_delivery_count, "{name}");
    }
}

#[test]
fn sending_to_a_subscription_and_receiving_from_a_topic_are_refused() {
    let (mut world, topic) = world_with_topic();
    let subscription = world.subscription(topic, "s", SubscriptionOptions::default(), None);
    let error = world.try_send(subscription, &message("a")).unwrap_err();
    assert_eq!(error.condition(), "amqp:not-allowed");
    assert!(
        error
            .text()
            .starts_with("Cannot create a message sender for a subscription.")
    );
    let error = world
        .try_attach(topic, ReceiveMode::PeekLock, SessionRequest::None)
        .unwrap_err();
    assert_eq!(error.condition(), "amqp:not-allowed");
}
