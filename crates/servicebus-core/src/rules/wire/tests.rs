use servicebus_amqp::types::Timestamp;

use super::*;
use crate::error::ErrorKind;
use crate::testing::hex;

fn read(digits: &str) -> Rule {
    read_description(&Value::decode(&hex(digits)).unwrap()).unwrap()
}

fn created() -> Option<std::time::SystemTime> {
    Timestamp::from_millis(1_700_000_000_000).to_system_time()
}

/// Descriptions composed by the encoder of another project from the types of the protocol guide.
#[test]
fn described_rules_are_read() {
    let sql = read(
        "00800000013700000004c0420400800000001370000006c01001a10d636f6c6f72203d20277265642700800000013700000006c00c01a1\
         095345542061203d2031a1027231830000018bcfe56800",
    );
    let mut expected = Rule::new("r1", RuleFilter::sql("color = 'red'")).action("SET a = 1");
    expected.created_at = created();
    assert_eq!(sql, expected);

    let correlation = read(
        "00800000013700000004c03f0400800000001370000009c01a09a103636964404040a1036c626c404040c10702a1016ba101760080000001\
         370000000545a1027232830000018bcfe56800",
    );
    let filter = CorrelationFilter::new()
        .correlation_id("cid")
        .subject("lbl")
        .property("k", "v");
    let mut expected = Rule::new("r2", filter);
    expected.created_at = created();
    assert_eq!(correlation, expected);

    let default = read(
        "00800000013700000004c02a0400800000001370000007450080000001370000000545a1082444656661756c74830000018bcfe56800",
    );
    let mut expected = Rule::new(crate::rules::DEFAULT_RULE, RuleFilter::True);
    expected.created_at = created();
    assert_eq!(default, expected);
}

fn described(descriptor: Descriptor, fields: Vec<Value>) -> Value {
    Value::from(Described {
        descriptor,
        value: Value::List(fields),
    })
}

#[test]
fn descriptors_may_be_symbols() {
    let name = |text: &str| Descriptor::Name(text.into());
    let filter = described(name("com.microsoft:false-filter:list"), vec![]);
    let rule = described(
        name("com.microsoft:rule-description:list"),
        vec![filter, Value::Null, "r".into()],
    );
    assert_eq!(
        read_description(&rule).unwrap(),
        Rule::new("r", RuleFilter::False)
    );
}

#[test]
fn an_unknown_filter_is_listed_and_cannot_be_added() {
    let filter = described(Descriptor::Code(0x13_7000_00ff), vec![]);
    let fields = vec![filter.clone(), Value::Null, "r".into()];
    let rule = read_description(&described(Descriptor::Code(RULE.0), fields)).unwrap();
    assert_eq!(rule.filter, RuleFilter::Unknown(filter));
    assert_eq!(rule.check().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn malformed_descriptions_are_errors() {
    let rule = |fields| described(Descriptor::Code(RULE.0), fields);
    let truth = || described(Descriptor::Code(TRUE_FILTER.0), vec![]);
    let rows = [
        Value::Null,
        described(Descriptor::Code(SQL_FILTER.0), vec!["x".into()]),
        rule(vec![]),
        rule(vec![truth(), Value::Null]),
        rule(vec![Value::Null, Value::Null, "r".into()]),
        rule(vec![truth(), truth(), "r".into()]),
        rule(vec![
            described(Descriptor::Code(SQL_FILTER.0), vec![]),
            Value::Null,
            "r".into(),
        ]),
    ];
    for value in rows {
        let error = read_description(&value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol, "{value:?}");
    }
}

#[test]
fn all_and_none_are_sql_on_the_way_out() {
    let rows = [(RuleFilter::True, "1=1"), (RuleFilter::False, "1=0")];
    for (filter, sql) in rows {
        let expected = Map::new().with("sql-filter", Map::new().with("expression", sql));
        assert_eq!(description(&Rule::new("r", filter)), expected);
    }
}

#[test]
fn what_the_service_limits_is_checked() {
    let long = "x".repeat(1025);
    let rows = [
        Rule::new("", RuleFilter::True),
        Rule::new("r".repeat(51), RuleFilter::True),
        Rule::new("a/b", RuleFilter::True),
        Rule::new("r", RuleFilter::sql(" ")),
        Rule::new("r", RuleFilter::sql(long.clone())),
        Rule::new("r", CorrelationFilter::new()),
        Rule::new("r", RuleFilter::True).action(""),
        Rule::new("r", RuleFilter::True).action(long),
    ];
    for rule in rows {
        assert_eq!(
            rule.check().unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{rule:?}"
        );
    }
    assert!(
        Rule::new("$Default", RuleFilter::sql("x".repeat(1024)))
            .check()
            .is_ok()
    );
}
