//! The language of filters and actions, as tables.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, in its helpers too"
)]

use std::time::Duration;

use servicebus_amqp::types::{
    Described, Descriptor, Map, Message, MessageId, Properties, Symbol, Timestamp, Uuid, Value,
};
use servicebus_emulator::sql::{Action, Filter, Record};

const UUID: &str = "04030201-0605-0807-090a-0b0c0d0e0f10";

fn record() -> Record {
    let message = Message {
        properties: Some(Properties {
            message_id: Some(MessageId::String("m-1".into())),
            subject: Some("order".into()),
            content_type: Some(Symbol::from("text/plain")),
            group_id: Some("s".into()),
            ..Properties::default()
        }),
        ..Message::default()
    };
    let mut record = Record::new(&message).unwrap();
    let timespan = Described {
        descriptor: Descriptor::Name(Symbol::from("com.microsoft:timespan")),
        value: Value::Long(36_000_000_000),
    };
    let uri = Described {
        descriptor: Descriptor::Name(Symbol::from("com.microsoft:uri")),
        value: "http://a/".into(),
    };
    record.application = Map::new()
        .with("color", "red")
        .with("Size", 10)
        .with("weight", 2.5)
        .with("big", u64::MAX)
        .with("vip", true)
        .with("nothing", Value::Null)
        .with("strange name", "x")
        .with("quo\"te", "y")
        .with("percent", "50% off_now")
        .with("id", Uuid::parse_str(UUID).unwrap())
        .with("time", Timestamp::from_millis(1000))
        .with("span", timespan)
        .with("uri", uri)
        .with("list", vec![Value::from(1)])
        .with("größe", "L");
    record.time_to_live = Some(Duration::from_secs(3));
    record
}

/// What a filter is for the record: true, false or unknown (both of which do not match), or an error.
#[derive(Debug, PartialEq)]
enum Outcome {
    True,
    False,
    Unknown,
    Error,
}

fn outcome(text: &str) -> Outcome {
    let matches = |text: &str| {
        Filter::parse(text, &[])
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .matches(&record())
    };
    match (matches(text), matches(&format!("NOT ({text})"))) {
        (Ok(true), Ok(false)) => Outcome::True,
        (Ok(false), Ok(true)) => Outcome::False,
        (Ok(false), Ok(false)) => Outcome::Unknown,
        (Err(_), Err(_)) => Outcome::Error,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn filters() {
    use Outcome::{Error, False, True, Unknown};
    let table = [
        // Constants and logic.
        ("1=1", True),
        ("1=0", False),
        ("TRUE", True),
        ("not true", False),
        ("NOT NOT TRUE", True),
        ("TRUE AND FALSE OR TRUE", True),
        ("TRUE OR FALSE AND FALSE", True),
        ("(TRUE OR FALSE) AND FALSE", False),
        // Properties, their scopes and their names.
        ("color = 'red'", True),
        ("COLOR = 'red'", True),
        ("user.color = 'red'", True),
        ("color = 'RED'", False),
        ("color <> 'blue'", True),
        ("color != 'red'", False),
        ("sys.Label = 'order'", True),
        ("sys.label = 'order'", True),
        ("SYS.MessageId = 'm-1'", True),
        ("sys.SessionId = 's'", True),
        ("sys.ContentType = 'text/plain'", True),
        ("sys.CorrelationId = 'c'", Unknown),
        ("sys.CorrelationId IS NULL", True),
        ("sys.NoSuchThing = 1", Error),
        ("[strange name] = 'x'", True),
        ("\"strange name\" = 'x'", True),
        ("\"quo\"\"te\" = 'y'", True),
        ("größe = 'L'", True),
        ("property('color') = 'red'", True),
        ("p('co' + 'lor') = 'red'", True),
        ("property(missing) = 'red'", Unknown),
        ("property(1) = 'red'", Error),
        // Three values.
        ("missing = 1", Unknown),
        ("nothing = 1", Unknown),
        ("missing = NULL", Unknown),
        ("missing = missing", Unknown),
        ("missing = 1 AND TRUE", Unknown),
        ("missing = 1 AND FALSE", False),
        ("missing = 1 OR TRUE", True),
        ("missing = 1 OR FALSE", Unknown),
        ("NOT missing", Unknown),
        ("missing IS NULL", True),
        ("nothing IS NULL", True),
        ("color IS NULL", False),
        ("color IS NOT NULL", True),
        ("EXISTS(color)", True),
        ("EXISTS(nothing)", True),
        ("EXISTS(missing)", False),
        ("exists(sys.Label)", True),
        ("EXISTS(sys.To)", False),
        ("NOT EXISTS(missing)", True),
        // Numbers.
        ("Size = 10", True),
        ("size = 10.0", True),
        ("size > 9 AND size >= 10 AND size < 11 AND size <= 10", True),
        ("weight = 2.5", True),
        ("weight = 25e-1", True),
        ("weight > size", False),
        ("big > 9223372036854775807", True),
        ("big + 1 > big", True),
        ("2 + 3 * 4 = 14", True),
        ("(2 + 3) * 4 = 20", True),
        ("7 / 2 = 3", True),
        ("7 % 4 = 3", True),
        ("7.0 / 2 = 3.5", True),
        ("-size = -10", True),
        ("- - size = +10", True),
        ("10 - 3 - 2 = 5", True),
        (".5 = 0.5", True),
        ("size / 0 = 1", Error),
        ("missing + 1 = 1", Unknown),
        ("-missing = 1", Unknown),
        // Types that do not go together.
        ("color > 3", Error),
        ("color = 3", Error),
        ("vip = 1", Error),
        ("vip = TRUE", True),
        ("vip", True),
        ("color", Error),
        ("color AND TRUE", Error),
        ("-color = 1", Error),
        ("color + 1 = 1", Error),
        ("list = 1", Unknown),
        ("color + '!' = 'red!'", True),
        // Other types.
        ("id = '04030201-0605-0807-090a-0b0c0d0e0f10'", True),
        ("id = 'no uuid'", Error),
        ("time = time", True),
        ("span = span", True),
        ("sys.TimeToLive = span", False),
        ("uri = 'http://a/'", True),
        ("newid() <> '00000000-0000-0000-0000-000000000000'", True),
        // IN.
        ("color IN ('blue', 'red')", True),
        ("color IN ('blue')", False),
        ("color NOT IN ('blue')", True),
        ("missing IN ('blue')", Unknown),
        ("color IN ('blue', missing)", Unknown),
        ("color IN ('red', missing)", True),
        ("size IN (9, 10.0)", True),
        ("color IN (1)", Error),
        // LIKE.
        ("color LIKE 'r%'", True),
        ("color LIKE '%d'", True),
        ("color LIKE 'r_d'", True),
        ("color LIKE 'r_'", False),
        ("color LIKE 'R%'", False),
        ("color LIKE 'e'", False),
        ("color LIKE '%'", True),
        ("'' LIKE '%'", True),
        ("'' LIKE '_'", False),
        ("color NOT LIKE 'b%'", True),
        ("'aXbXc' LIKE 'a%X%c'", True),
        ("'aaab' LIKE '%aab'", True),
        ("percent LIKE '50\\% off%' ESCAPE '\\'", True),
        ("percent LIKE '50!% off!_now' ESCAPE '!'", True),
        ("'50x off_now' LIKE '50!% off!_now' ESCAPE '!'", False),
        ("color LIKE 'r' ESCAPE 'ab'", Error),
        ("missing LIKE 'r'", Unknown),
        ("size LIKE '1'", Error),
        // Text.
        ("'it''s' = 'it''s'", True),
        ("'b' > 'a'", True),
    ];
    for (text, expected) in table {
        assert_eq!(outcome(text), expected, "{text}");
    }
}

#[test]
fn parameters_take_the_place_of_their_names() {
    let filter = Filter::parse(
        "color = @Color AND size < @limit AND @none IS NULL OR color = @COLOR",
        &[("color", "red".into()), ("limit", 11.into())],
    );
    assert_eq!(
        filter.unwrap_err().to_string(),
        "there is no parameter @none (at character 38)"
    );
    let parameters = [("color", Value::from("red")), ("limit", 11.into())];
    let filter = Filter::parse("color = @Color AND size < @limit", &parameters).unwrap();
    assert!(filter.matches(&record()).unwrap());
}

#[test]
fn what_is_no_filter_says_where() {
    let deep = format!("{}TRUE{}", "(".repeat(40), ")".repeat(40));
    let not = format!("{}TRUE", "NOT ".repeat(40));
    let long = format!("a = '{}'", "x".repeat(1100));
    let table = [
        ("", 1, "expected an expression, found the end"),
        ("color =", 8, "expected an expression, found the end"),
        ("color = 'red", 9, "text without an end"),
        ("[color = 1", 1, "name without an end"),
        ("color == 1", 8, "expected an expression, found '='"),
        ("color = 1 1", 11, "expected the end, found 1"),
        ("color = 1)", 10, "expected the end, found ')'"),
        ("(color = 1", 11, "expected ')', found the end"),
        ("color & 1", 7, "unexpected '&'"),
        ("a = 1 AND", 10, "expected an expression, found the end"),
        ("AND = 1", 1, "expected an expression, found AND"),
        ("1 IS NULL", 3, "only a property can be compared with NULL"),
        ("a IS 3", 6, "expected NULL, found 3"),
        ("a IN ()", 7, "expected an expression, found ')'"),
        ("a IN 1", 6, "expected '(', found 1"),
        ("nothing(1) = 1", 1, "there is no function 'nothing'"),
        (
            "foo.bar = 1",
            1,
            "expected sys or user before '.', found 'foo'",
        ),
        ("a = 99999999999999999999", 5, "an integer beyond 64 bits"),
        ("a = 1e999", 5, "a number out of range"),
        ("a = 1x", 5, "a number that runs into a name"),
        ("a = @", 5, "a parameter without a name"),
        ("[] = 1", 1, "an empty name"),
        (&deep, 34, "nested more than 32 deep"),
        (&not, 133, "nested more than 32 deep"),
        (&long, 1025, "longer than 1024 characters"),
    ];
    for (text, position, message) in table {
        let error = Filter::parse(text, &[]).unwrap_err();
        assert_eq!(
            (error.position(), error.message()),
            (position, message),
            "{text}"
        );
    }
}

#[test]
fn long_runs_of_one_operator_are_no_nesting() {
    let text = format!("1{} = 300", " + 1".repeat(250));
    assert!(
        !Filter::parse(&text, &[])
            .unwrap()
            .matches(&record())
            .unwrap()
    );
    let text = format!("TRUE{}", " AND 1=1".repeat(120));
    assert!(
        Filter::parse(&text, &[])
            .unwrap()
            .matches(&record())
            .unwrap()
    );
}

fn changed(text: &str) -> Result<Record, String> {
    let mut record = record();
    let action = Action::parse(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
    action
        .apply(&mut record)
        .map(|()| record)
        .map_err(|error| error.to_string())
}

#[test]
fn actions() {
    let table: [(&str, &str, Option<Value>); 12] = [
        ("SET new = 1", "new", Some(Value::Long(1))),
        ("SET new = 'a' + 'b'", "new", Some("ab".into())),
        ("SET new = 1.5", "new", Some(1.5.into())),
        ("SET new = TRUE", "new", Some(true.into())),
        ("set COLOR = 'blue';", "color", Some("blue".into())),
        // An int stays an int, a double a double.
        ("SET size = size + 1", "Size", Some(Value::Int(11))),
        ("SET weight = 3", "weight", Some(3.0.into())),
        ("SET size = 4294967296", "Size", Some(Value::Long(1 << 32))),
        ("SET color = missing", "color", Some("red".into())),
        ("REMOVE color", "color", None),
        (
            "SET a = 1; SET b = a + 1; REMOVE a",
            "b",
            Some(Value::Long(2)),
        ),
        ("SET a = 1 SET b = sys.Label", "b", Some("order".into())),
    ];
    for (text, name, expected) in table {
        let record = changed(text).unwrap();
        assert_eq!(record.application.get(name), expected.as_ref(), "{text}");
    }
    let record = changed(
        "SET sys.Label = 'new'; SET sys.CorrelationId = sys.MessageId; REMOVE sys.SessionId",
    );
    let properties = record.unwrap().properties;
    assert_eq!(properties.subject.unwrap(), "new");
    assert_eq!(
        properties.correlation_id,
        Some(MessageId::String("m-1".into()))
    );
    assert_eq!(properties.group_id, None);
}

#[test]
fn actions_that_fail() {
    for (text, message) in [
        (
            "SET sys.NoSuchThing = 1",
            "there is no system property 'NoSuchThing'",
        ),
        (
            "SET sys.SequenceNumber = 1",
            "sys.SequenceNumber cannot be changed",
        ),
        (
            "SET sys.Label = TRUE",
            "sys.Label is text and cannot be set to a boolean",
        ),
        (
            "SET a = sys.NoSuchThing",
            "there is no system property 'NoSuchThing'",
        ),
        (
            "SET a = color * 2",
            "one cannot reckon with text and a number",
        ),
    ] {
        assert_eq!(changed(text).unwrap_err(), message, "{text}");
    }
    let many = "SET a = 1;".repeat(33);
    for (text, position, message) in [
        ("", 1, "expected SET or REMOVE, found the end"),
        ("color = 1", 1, "expected SET or REMOVE, found 'color'"),
        ("SET color", 10, "expected '=', found the end"),
        ("SET = 1", 5, "expected the name of a property, found '='"),
        ("REMOVE 1", 8, "expected the name of a property, found 1"),
        (&many, 321, "more than 32 statements"),
    ] {
        let error = Action::parse(text, &[]).unwrap_err();
        assert_eq!(
            (error.position(), error.message()),
            (position, message),
            "{text}"
        );
    }
}
