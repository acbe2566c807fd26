//! Rules on the wire: plain maps in requests, described lists in replies.

use servicebus_amqp::types::{ByteString, Described, Descriptor, Map, Value};

use super::arguments::Arguments;
use crate::broker::{CorrelationFilter, Error, ErrorKind, Filter, Rule};
use crate::sql;

/// Descriptors. Those of rules and actions have the same digits as those of filters, sixteen times further up.
mod code {
    pub(super) const RULE_DESCRIPTION: u64 = 0x137_0000_0004;
    pub(super) const EMPTY_ACTION: u64 = 0x137_0000_0005;
    pub(super) const SQL_ACTION: u64 = 0x137_0000_0006;
    pub(super) const SQL_FILTER: u64 = 0x13_7000_0006;
    pub(super) const TRUE_FILTER: u64 = 0x13_7000_0007;
    pub(super) const FALSE_FILTER: u64 = 0x13_7000_0008;
    pub(super) const CORRELATION_FILTER: u64 = 0x13_7000_0009;
}

/// The version of the SQL dialect, which replies state.
const COMPATIBILITY_LEVEL: i32 = 20;

/// The rule that a request describes.
pub(super) fn decode(name: ByteString, description: &Arguments<'_>) -> Result<Rule, Error> {
    let sql = description.optional_arguments("sql-filter")?;
    let correlation = description.optional_arguments("correlation-filter")?;
    let filter = match (sql, correlation) {
        (Some(sql), None) => decode_sql(&sql.text("expression")?)?,
        (None, Some(filter)) => Filter::Correlation(Box::new(decode_correlation(&filter)?)),
        (None, None) => Filter::True,
        (Some(_), Some(_)) => {
            return Err(invalid(
                "A rule has a sql-filter or a correlation-filter, not both.",
            ));
        }
    };
    let mut rule = Rule::new(name, filter);
    if let Some(action) = description.optional_arguments("sql-rule-action")?
        && let Some(text) = action
            .optional_text("expression")?
            .filter(|text| !text.is_empty())
    {
        let action = sql::Action::parse(&text, &[])
            .map_err(|error| invalid(format!("The SQL action is not valid: {error}")))?;
        rule.action = Some(action);
    }
    Ok(rule)
}

/// Clients send the true and the false filter as these expressions.
fn decode_sql(text: &str) -> Result<Filter, Error> {
    let filter = sql::Filter::parse(text, &[])
        .map_err(|error| invalid(format!("The SQL filter is not valid: {error}")))?;
    Ok(Filter::Sql(filter))
}

fn decode_correlation(filter: &Arguments<'_>) -> Result<CorrelationFilter, Error> {
    Ok(CorrelationFilter {
        correlation_id: filter.optional_text("correlation-id")?,
        message_id: filter.optional_text("message-id")?,
        to: filter.optional_text("to")?,
        reply_to: filter.optional_text("reply-to")?,
        label: filter.optional_text("label")?,
        session_id: filter.optional_text("session-id")?,
        reply_to_session_id: filter.optional_text("reply-to-session-id")?,
        content_type: filter.optional_text("content-type")?,
        properties: filter.optional_map("properties")?,
    })
}

/// A rule as replies describe it.
pub(super) fn encode(rule: &Rule) -> Value {
    let filter = match &rule.filter {
        Filter::True => described(code::TRUE_FILTER, Vec::new()),
        Filter::False => described(code::FALSE_FILTER, Vec::new()),
        Filter::Sql(filter) => sql_like(code::SQL_FILTER, filter.text()),
        Filter::Correlation(filter) => encode_correlation(filter),
    };
    let action = match &rule.action {
        None => described(code::EMPTY_ACTION, Vec::new()),
        Some(action) => sql_like(code::SQL_ACTION, action.text()),
    };
    described(
        code::RULE_DESCRIPTION,
        vec![
            filter,
            action,
            rule.name.clone().into(),
            rule.created_at.into(),
        ],
    )
}

fn sql_like(code: u64, text: &str) -> Value {
    described(code, vec![text.into(), COMPATIBILITY_LEVEL.into()])
}

fn encode_correlation(filter: &CorrelationFilter) -> Value {
    let properties: Map = filter.properties.clone();
    described(
        code::CORRELATION_FILTER,
        vec![
            filter.correlation_id.clone().into(),
            filter.message_id.clone().into(),
            filter.to.clone().into(),
            filter.reply_to.clone().into(),
            filter.label.clone().into(),
            filter.session_id.clone().into(),
            filter.reply_to_session_id.clone().into(),
            filter.content_type.clone().into(),
            properties.into(),
        ],
    )
}

fn described(code: u64, fields: Vec<Value>) -> Value {
    Value::Described(Box::new(Described {
        descriptor: Descriptor::Code(code),
        value: Value::List(fields),
    }))
}

fn invalid(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, text)
}
