//! The fields of a frame in the notation of `protocol_tests::notation`, each by its path.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use protocol_tests::notation;
use servicebus_amqp::types::Message;

/// Fields whose values differ from run to run: names that are made up, numbers that count, times, tokens. They are compared
/// by their type.
const VARIES: [&str; 32] = [
    "open.container-id",
    "open.hostname",
    "open.properties.:framework",
    "open.properties.:platform",
    "open.properties.:product",
    "open.properties.:user-agent",
    "open.properties.:version",
    "sasl-init.hostname",
    "attach.name",
    "attach.handle",
    "attach.properties.:com.microsoft:timeout",
    "flow.handle",
    "flow.next-incoming-id",
    "flow.incoming-window",
    "flow.next-outgoing-id",
    "flow.delivery-count",
    "flow.link-credit",
    "transfer.handle",
    "transfer.delivery-id",
    "transfer.delivery-tag",
    "transfer.state.txn-id",
    "properties.creation-time",
    "properties.absolute-expiry-time",
    "application-properties.\"associated-link-name\"",
    "application-properties.\"com.microsoft:server-timeout\"",
    "application-properties.\"com.microsoft:tracking-id\"",
    "application-properties.\"expiration\"",
    "value[0]@0x32",
    "disposition.first",
    "disposition.last",
    "disposition.state.txn-id",
    "detach.handle",
];

/// Requests carry ids and ways back that are made up; sent messages carry those of the application.
const VARIES_IN_REQUESTS: [&str; 2] = ["properties.message-id", "properties.reply-to"];

/// Parts of values: where they begin, the rest is made up.
const VARIES_WITHIN: [&str; 8] = [
    "\"SharedAccessSignature ",
    "\"sb://",
    "\"amqps://",
    "uuid:",
    "ts:",
    "long:",
    "bin:000102",
    "\"receiver-link-",
];

/// Field, theirs and ours of those that differ; `-` is a field that is not there.
pub(crate) fn differences(theirs: &str, ours: &str) -> Vec<(String, String, String)> {
    let (theirs, ours) = (fields(theirs), fields(ours));
    let names: BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let is_request = |fields: &BTreeMap<String, String>| {
        fields.contains_key("application-properties.\"operation\"")
    };
    let requests = is_request(&theirs) && is_request(&ours);
    let absent = || "-".to_owned();
    names
        .into_iter()
        .filter_map(|name| {
            let varies = VARIES.contains(&name.as_str())
                || requests && VARIES_IN_REQUESTS.contains(&name.as_str());
            let value = |fields: &BTreeMap<String, String>| {
                fields
                    .get(name)
                    .map_or_else(absent, |value| plain(name, value, varies))
            };
            let (theirs, ours) = (value(&theirs), value(&ours));
            (theirs != ours).then(|| (name.clone(), theirs, ours))
        })
        .collect()
}

/// The value without what varies from run to run.
fn plain(name: &str, value: &str, varies: bool) -> String {
    if varies {
        return kind(value);
    }
    // The client's own end of a link has the name that it likes.
    if name.ends_with("receiver-name") || is_own_end(name, value) {
        return kind(value);
    }
    match VARIES_WITHIN
        .iter()
        .find(|start| value.starts_with(**start))
    {
        Some(start) => format!("{start}…"),
        None => value.to_owned(),
    }
}

/// Whether the address is that of the client's own end: it has a name that was made for it.
fn is_own_end(name: &str, value: &str) -> bool {
    let own = |address: &str| {
        address.len() > 36 || address == "\"ctl-source\"" || address == "\"my-receiver\""
    };
    (name == "attach.source.address" || name == "attach.target.address")
        && own(value)
        && !value.contains("://")
        && !value.ends_with("$DeadLetterQueue\"")
}

fn kind(value: &str) -> String {
    match value.split_once(':') {
        _ if value.starts_with('"') => "\"…\"".to_owned(),
        Some((kind, _)) => format!("{kind}:…"),
        None => value.to_owned(),
    }
}

/// All fields by their paths.
fn fields(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut data = 0;
    for section in split(text, ';') {
        let section = section.trim();
        if section.is_empty() {
            continue;
        }
        // A section of text: its name and its content.
        let (name, content) = match section.split_once(' ') {
            Some((name @ ("data" | "value" | "sequence"), content)) => (name, content),
            _ => {
                let end = section.find(['(', '{']).unwrap_or(section.len());
                section.split_at(end)
            }
        };
        let name = if name == "data" {
            data += 1;
            format!("data {data}")
        } else {
            name.to_owned()
        };
        walk(&name, content, &mut found);
    }
    if found
        .get("transfer.message-format")
        .is_some_and(|format| format == "uint:2147563264")
    {
        // The parts of a batch are messages.
        let parts: Vec<_> = found
            .keys()
            .filter(|key| key.starts_with("data "))
            .cloned()
            .collect();
        for part in parts {
            let content = found.remove(&part).unwrap();
            inner(&part, &content, &mut found);
        }
    }
    found
}

fn walk(path: &str, content: &str, found: &mut BTreeMap<String, String>) {
    let content = content.trim();
    let opens = content.find(['(', '{', '[']);
    let (head, rest) = content.split_at(opens.unwrap_or(content.len()));
    let closes = rest.ends_with([')', '}', ']']);
    if content.starts_with('"')
        || rest.is_empty()
        || !closes
        || head.contains(['"', ' ']) && !head.starts_with('@')
    {
        if path.ends_with(".\"message\"") && content.starts_with("bin:") {
            inner(path, content, found);
        } else {
            found.insert(path.to_owned(), content.to_owned());
        }
        return;
    }
    let inside = &rest[1..rest.len() - 1];
    let parts = split(inside, ',');
    // What is empty is there all the same, as an outcome without fields.
    if rest.starts_with('(') || inside.trim().is_empty() {
        found.insert(
            path.to_owned(),
            format!("{} there", head.trim()).trim().to_owned(),
        );
    }
    for (index, part) in parts.into_iter().enumerate() {
        let part = part.trim();
        if part.is_empty() {
            continue;
        }
        match split_once_outside(part, '=') {
            Some((name, value)) => walk(&format!("{path}.{}", name.trim()), value, found),
            None => walk(&format!("{path}[{index}]{}", head.trim()), part, found),
        }
    }
}

/// Bytes that are a message.
fn inner(path: &str, content: &str, found: &mut BTreeMap<String, String>) {
    let bytes: Bytes = protocol_tests::hex(content.strip_prefix("bin:").unwrap());
    let message = notation::message(&Message::decode(bytes).unwrap()).unwrap();
    for (name, value) in fields(&message) {
        found.insert(format!("{path} > {name}"), value);
    }
}

/// Splits where the separator is not within quotes or brackets.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((part, behind)) = split_once_outside(rest, separator) {
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts
}

fn split_once_outside(text: &str, separator: char) -> Option<(&str, &str)> {
    let (mut depth, mut quoted) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ if c == separator && depth == 0 => {
                return Some((&text[..at], &text[at + c.len_utf8()..]));
            }
            _ => {}
        }
    }
    None
}
