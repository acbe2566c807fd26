//! The list of the Python SDK's live tests with what is expected of each.

use std::collections::BTreeMap;

/// What is expected of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    Pass,
    /// It cannot pass here, for this reason.
    Fail(String),
    /// The suite itself leaves it out, for this reason.
    Skip(String),
    /// It passes or fails as the SDK's own threads meet, for this reason; a failure counts as ignored.
    Race(String),
}

/// The tests by name, in a file of lines `pass NAME`, and `fail`, `skip` or `race` with `NAME # REASON`.
pub(crate) fn parse(text: &str) -> Result<BTreeMap<String, Expected>, String> {
    let mut tests = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fail = |why: &str| format!("line {}: {why}: {line}", index + 1);
        let (word, rest) = line.split_once(' ').ok_or_else(|| fail("no test"))?;
        let (name, reason) = match rest.split_once(" # ") {
            Some((name, reason)) => (name.trim(), Some(reason.trim().to_owned())),
            None => (rest.trim(), None),
        };
        let expected = match (word, reason) {
            ("pass", None) => Expected::Pass,
            ("fail", Some(reason)) => Expected::Fail(reason),
            ("skip", Some(reason)) => Expected::Skip(reason),
            ("race", Some(reason)) => Expected::Race(reason),
            ("fail" | "skip" | "race", None) => return Err(fail("no reason")),
            _ => return Err(fail("neither pass, nor fail, skip or race with a reason")),
        };
        if tests.insert(name.to_owned(), expected).is_some() {
            return Err(fail("twice"));
        }
    }
    Ok(tests)
}
