use anyhow::{Context as _, ensure};
use azservicebus::administration::{CorrelationRuleFilter, SqlRuleAction, SqlRuleFilter};
use azservicebus::prelude::*;

use crate::{Client, NEVER, SOON};

/// Rules are listed, removed and made, and decide what a subscription gets.
pub(crate) async fn rules(
    client: &mut Client,
    topic: &str,
    subscription: &str,
) -> anyhow::Result<()> {
    let mut rules = client.create_rule_manager(topic, subscription).await?;
    let names: Vec<String> = rules
        .get_rules()
        .await
        .context("list")?
        .into_iter()
        .map(|rule| rule.name)
        .collect();
    ensure!(names == ["$Default"], "rules at first: {names:?}");
    rules.delete_rule("$Default").await.context("delete")?;
    let filter = CorrelationRuleFilter::builder().subject("wanted").build();
    rules
        .create_rule("subject", filter)
        .await
        .context("create a correlation rule")?;
    let filter = SqlRuleFilter::new("sys.Label = 'also' AND sys.CorrelationId = '7'");
    let action = SqlRuleAction::new("SET sys.Label = 'changed'");
    rules
        .create_rule("sql", (filter, action))
        .await
        .context("create an SQL rule")?;
    let mut names: Vec<String> = rules
        .get_rules()
        .await?
        .into_iter()
        .map(|rule| rule.name)
        .collect();
    names.sort();
    ensure!(names == ["sql", "subject"], "rules at last: {names:?}");

    let mut sender = client.create_sender(topic, Default::default()).await?;
    for (subject, correlation) in [
        ("unwanted", "7"),
        ("wanted", "1"),
        ("also", "7"),
        ("also", "8"),
    ] {
        let mut message = ServiceBusMessage::new(subject);
        message.set_subject(subject.to_owned());
        message.set_correlation_id(correlation.to_owned());
        sender.send_message(message).await?;
    }
    let mut receiver = client
        .create_receiver_for_subscription(topic, subscription, Default::default())
        .await?;
    for (body, subject) in [("wanted", "wanted"), ("also", "changed")] {
        let message = receiver
            .receive_message_with_max_wait_time(SOON)
            .await?
            .context("a copy")?;
        ensure!(
            message.body()? == body.as_bytes(),
            "body {:?} is not {body}",
            message.body()?
        );
        ensure!(
            message.subject() == Some(subject),
            "subject {:?} is not {subject}",
            message.subject()
        );
        receiver.complete_message(&message).await?;
    }
    ensure!(
        receiver
            .receive_message_with_max_wait_time(NEVER)
            .await?
            .is_none(),
        "two copies, no more"
    );
    receiver.dispose().await?;
    rules.dispose().await?;
    sender.dispose().await?;
    Ok(())
}
