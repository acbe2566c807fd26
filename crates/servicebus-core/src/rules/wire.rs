//! Rules on the wire: plain maps on the way to the service, described lists on the way back.

use servicebus_amqp::types::{Described, Descriptor, Map, Value};

use super::{CorrelationFilter, Rule, RuleFilter};
use crate::error::Result;
use crate::rpc::protocol;

// Rules and actions are `0x137_0000_000N`, filters `0x13_7000_000N`: the same digits, one place apart.
const RULE: Type = Type(0x0000_0137_0000_0004, "com.microsoft:rule-description:list");
const EMPTY_ACTION: Type = Type(
    0x0000_0137_0000_0005,
    "com.microsoft:empty-rule-action:list",
);
const SQL_ACTION: Type = Type(0x0000_0137_0000_0006, "com.microsoft:sql-rule-action:list");
const SQL_FILTER: Type = Type(0x0000_0013_7000_0006, "com.microsoft:sql-filter:list");
const TRUE_FILTER: Type = Type(0x0000_0013_7000_0007, "com.microsoft:true-filter:list");
const FALSE_FILTER: Type = Type(0x0000_0013_7000_0008, "com.microsoft:false-filter:list");
const CORRELATION_FILTER: Type = Type(
    0x0000_0013_7000_0009,
    "com.microsoft:correlation-filter:list",
);

/// What the SDKs send for "all" and "none": there is no map for these two filters.
const ALWAYS: &str = "1=1";
const NEVER: &str = "1=0";

struct Type(u64, &'static str);

impl Type {
    fn describes(&self, value: &Described) -> bool {
        match &value.descriptor {
            Descriptor::Code(code) => *code == self.0,
            Descriptor::Name(name) => *name == self.1,
            _ => false,
        }
    }
}

/// The description of a rule to add.
pub(crate) fn description(rule: &Rule) -> Map {
    let expression = |sql: &str| Map::new().with("expression", sql);
    let mut map = match &rule.filter {
        RuleFilter::True => Map::new().with("sql-filter", expression(ALWAYS)),
        RuleFilter::False => Map::new().with("sql-filter", expression(NEVER)),
        RuleFilter::Sql(sql) => Map::new().with("sql-filter", expression(sql)),
        RuleFilter::Correlation(filter) => {
            Map::new().with("correlation-filter", correlation(filter))
        }
        // Refused by `Rule::check`.
        RuleFilter::Unknown(_) => Map::new(),
    };
    if let Some(sql) = &rule.action {
        map.insert("sql-rule-action", expression(sql));
    }
    map
}

fn correlation(filter: &CorrelationFilter) -> Map {
    let texts = [
        ("correlation-id", &filter.correlation_id),
        ("message-id", &filter.message_id),
        ("to", &filter.to),
        ("reply-to", &filter.reply_to),
        ("label", &filter.subject),
        ("session-id", &filter.session_id),
        ("reply-to-session-id", &filter.reply_to_session_id),
        ("content-type", &filter.content_type),
    ];
    let mut map = Map::new();
    for (key, text) in texts {
        map.insert(key, text.as_deref());
    }
    map.with("properties", filter.application_properties.clone())
}

/// Reads the description of a rule that is there.
pub(crate) fn read_description(value: &Value) -> Result<Rule> {
    let fields = match value {
        Value::Described(described) if RULE.describes(described) => fields(described),
        _ => None,
    }
    .ok_or_else(|| protocol("the description of a rule is of another type"))?;
    let field = |index: usize| fields.get(index).unwrap_or(&Value::Null);
    let name = field(2)
        .as_text()
        .ok_or_else(|| protocol("the description of a rule has no name"))?;
    Ok(Rule {
        name: name.to_owned(),
        filter: read_filter(field(0))?,
        action: read_action(field(1))?,
        created_at: field(3).as_timestamp().and_then(|t| t.to_system_time()),
    })
}

fn read_filter(value: &Value) -> Result<RuleFilter> {
    let Value::Described(described) = value else {
        return Err(protocol("the filter of a rule is of another type"));
    };
    if TRUE_FILTER.describes(described) {
        return Ok(RuleFilter::True);
    }
    if FALSE_FILTER.describes(described) {
        return Ok(RuleFilter::False);
    }
    if SQL_FILTER.describes(described) {
        return Ok(RuleFilter::Sql(expression(described)?));
    }
    if !CORRELATION_FILTER.describes(described) {
        return Ok(RuleFilter::Unknown(value.clone()));
    }
    let fields = fields(described).ok_or_else(|| protocol("the filter of a rule has no fields"))?;
    let text = |index: usize| {
        let text = fields.get(index).and_then(Value::as_text);
        text.map(str::to_owned)
    };
    Ok(RuleFilter::Correlation(CorrelationFilter {
        correlation_id: text(0),
        message_id: text(1),
        to: text(2),
        reply_to: text(3),
        subject: text(4),
        session_id: text(5),
        reply_to_session_id: text(6),
        content_type: text(7),
        application_properties: fields
            .get(8)
            .and_then(Value::as_map)
            .cloned()
            .unwrap_or_default(),
    }))
}

fn read_action(value: &Value) -> Result<Option<String>> {
    match value {
        Value::Described(described) if SQL_ACTION.describes(described) => {
            expression(described).map(Some)
        }
        Value::Described(described) if EMPTY_ACTION.describes(described) => Ok(None),
        Value::Null => Ok(None),
        _ => Err(protocol("the action of a rule is of another type")),
    }
}

fn expression(described: &Described) -> Result<String> {
    let text = fields(described).and_then(|fields| fields.first()?.as_text());
    text.map(str::to_owned)
        .ok_or_else(|| protocol("a SQL filter or action has no expression"))
}

fn fields(described: &Described) -> Option<&[Value]> {
    match &described.value {
        Value::List(fields) => Some(fields),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
