//! Rules of subscriptions.

use servicebus::{CorrelationFilter, ErrorKind, Message, Rule, RuleFilter, Subscription};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn rules_are_added_listed_and_removed() {
    let world = World::new().await;
    world.topic("t", &["s"]);
    let rules = world.client.rules(Subscription::new("t", "s"));
    let names = |rules: &[Rule]| {
        let mut names: Vec<String> = rules.iter().map(|rule| rule.name.clone()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(&soon(rules.list()).await.unwrap()), ["$Default"]);
    soon(rules.remove("$Default")).await.unwrap();
    let red = Rule::new("red", CorrelationFilter::new().subject("red"));
    soon(rules.add(red.clone())).await.unwrap();
    let error = soon(rules.add(red)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityAlreadyExists);
    let large = Rule::new("large", RuleFilter::sql("size > 10")).action("SET tagged = 'yes'");
    soon(rules.add(large)).await.unwrap();
    let listed = soon(rules.list()).await.unwrap();
    assert_eq!(names(&listed), ["large", "red"]);

    let sender = world.client.sender("t");
    soon(sender.send(Message::new("1").subject("red")))
        .await
        .unwrap();
    soon(sender.send(Message::new("2").property("size", 11)))
        .await
        .unwrap();
    soon(sender.send(Message::new("3").property("size", 9)))
        .await
        .unwrap();
    let receiver = world.client.receiver(Subscription::new("t", "s"));
    let messages = soon(receiver.receive_batch(5, secs(1))).await.unwrap();
    assert_eq!(texts(&messages), ["1", "2"]);
    let tagged = messages[1].property("tagged");
    assert_eq!(tagged, Some("yes".into()));

    let error = soon(rules.remove("nothing")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EntityNotFound);
    let error = soon(rules.add(Rule::new("bad", RuleFilter::sql("size >"))))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}
