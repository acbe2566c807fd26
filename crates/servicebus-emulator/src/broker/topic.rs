//! From a topic to its subscriptions.

use servicebus_amqp::types::Map;

use super::{
    Broker, EntityId, MessageState,
    entity::Kind,
    log::{Entry, NONE},
    message::Content,
    rule::Rule,
    send::Origin,
    time::NEVER,
};
use crate::{
    names::{dead_letter, property},
    sql::{self, Record},
};

/// What the rules of a subscription make of a message.
#[derive(Debug, Default)]
struct Selection {
    /// A rule without action took it.
    plain: bool,
    /// What the actions made of it.
    changed: Vec<Content>,
    /// A filter or action failed.
    failure: Option<String>,
}

impl Broker {
    /// Copies a message into the subscriptions whose rules take it.
    pub(super) fn fan_out(
        &mut self,
        subscriptions: &[EntityId],
        content: &Content,
        origin: Origin,
    ) {
        // Decoded once, and only if a rule looks into the message.
        let mut record = None;
        for id in subscriptions {
            let Some(entity) = self.entities.get_mut(*id) else {
                continue;
            };
            let Kind::Subscription {
                rules,
                dead_letter_on_filter_error,
                ..
            } = &entity.kind
            else {
                continue;
            };
            let selection = select(rules, content, &mut record);
            let keeps_failures = *dead_letter_on_filter_error;
            if selection.plain {
                self.arrive(*id, content.clone(), origin);
            }
            for changed in selection.changed {
                self.arrive(*id, changed, origin);
            }
            if let Some(failure) = selection.failure.filter(|_| keeps_failures) {
                self.dead_letter_unfiltered(*id, content.clone(), origin, &failure);
            }
        }
    }

    fn dead_letter_unfiltered(
        &mut self,
        id: EntityId,
        content: Content,
        origin: Origin,
        failure: &str,
    ) {
        let enqueued_at = self.now;
        let Some(entity) = self.entities.get_mut(id) else {
            return;
        };
        let number = entity.log.take_number();
        let entry = Entry {
            content,
            enqueued_at,
            expires_at: NEVER,
            enqueued_sequence_number: origin.number,
            lock: NONE,
            session: NONE,
            delivery_count: 0,
            state: MessageState::Active,
            hops: origin.hops,
        };
        self.dead_letter_entry(id, number, entry, dead_letter::FILTER_EXCEPTION, failure);
    }
}

/// All rules without action make one copy together; each rule with an action makes one of its own.
fn select(
    rules: &[Rule],
    content: &Content,
    record: &mut Option<Result<Record, String>>,
) -> Selection {
    let mut selection = Selection::default();
    for rule in rules {
        let matches = match (rule.filter.is_constant(), &rule.action) {
            (Some(false), _) => continue,
            (Some(true), None) => {
                selection.plain = true;
                continue;
            }
            (None, None) if selection.plain => continue,
            _ => {
                let record = record.get_or_insert_with(|| record_of(content));
                match record {
                    Ok(record) => match rule.filter.matches(record) {
                        Ok(true) => Ok(record),
                        Ok(false) => continue,
                        Err(error) => Err(format!("Rule '{}': {error}", rule.name)),
                    },
                    Err(failure) => Err(failure.clone()),
                }
            }
        };
        let changed = matches.and_then(|record| match &rule.action {
            None => Ok(None),
            Some(action) => change(rule, action, content, record).map(Some),
        });
        match changed {
            Ok(None) => selection.plain = true,
            Ok(Some(changed)) => selection.changed.push(changed),
            Err(failure) => selection.failure = Some(failure),
        }
    }
    selection
}

fn record_of(content: &Content) -> Result<Record, String> {
    let message = content.decode().map_err(|error| error.text().to_owned())?;
    let mut record = Record::new(&message).map_err(|error| error.to_string())?;
    record.partition_key = content.partition_key().map(Into::into);
    record.time_to_live = content.time_to_live();
    record.scheduled_at = content.scheduled_at();
    Ok(record)
}

fn change(
    rule: &Rule,
    action: &sql::Action,
    content: &Content,
    record: &Record,
) -> Result<Content, String> {
    let mut record = record.clone();
    action
        .apply(&mut record)
        .map_err(|error| format!("Action of rule '{}': {error}", rule.name))?;
    let mut properties: Map = std::mem::take(&mut record.application);
    properties
        .0
        .retain(|(key, _)| key.as_text() != Some(property::RULE_NAME));
    properties.insert(property::RULE_NAME, rule.name.clone());
    content
        .with_all_properties(record.properties, &properties)
        .map_err(|error| error.text().to_owned())
}
