use servicebus_amqp::types::{Map, Value};

use super::Operation;
use crate::error::Result;
use crate::names::operation;
use crate::rpc::{Answer, field, protocol};
use crate::rules::{Rule, read_description};

/// Lists the rules of a subscription, page by page. An empty page is the end.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ListRules {
    skip: u32,
    top: u32,
}

/// How many rules a page has.
const PAGE: u32 = 100;

impl ListRules {
    /// The page behind the first `skip` rules.
    pub fn new(skip: u32) -> Self {
        Self { skip, top: PAGE }
    }
}

impl Operation for ListRules {
    const NAME: &'static str = operation::ENUMERATE_RULES;
    type Output = Vec<Rule>;

    fn arguments(&self) -> Map {
        let int = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        Map::new()
            .with("top", int(self.top))
            .with("skip", int(self.skip))
    }

    fn read(&self, answer: Answer) -> Result<Vec<Rule>> {
        if answer.status() == 204 {
            return Ok(Vec::new());
        }
        let map = answer.content()?;
        let read = |entry: &Value| {
            let entry = entry.as_map();
            let description = entry.and_then(|entry| entry.get("rule-description"));
            read_description(
                description.ok_or_else(|| protocol("a rule in an answer has no description"))?,
            )
        };
        let entries = field(&map, "rules", Value::as_elements)?;
        entries.iter().map(read).collect()
    }
}
