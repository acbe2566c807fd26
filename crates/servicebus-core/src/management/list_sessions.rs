use std::time::SystemTime;

use servicebus_amqp::types::{Map, Timestamp, Value};

use super::{Operation, elements};
use crate::error::Result;
use crate::names::operation;
use crate::rpc::Answer;
use crate::time::PAST_END_OF_TIME;

/// Lists sessions, page by page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListSessions {
    updated_after: Timestamp,
    skip: u32,
    top: u32,
}

/// Ids of sessions, and where the next page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionPage {
    /// The ids. None is the end.
    pub ids: Vec<String>,
    /// What to skip for the next page.
    pub next: u32,
}

/// How many sessions a page has.
const PAGE: u32 = 100;

impl ListSessions {
    /// Sessions that have messages.
    pub fn with_messages() -> Self {
        Self {
            updated_after: PAST_END_OF_TIME,
            skip: 0,
            top: PAGE,
        }
    }

    /// Sessions whose state was set after this time.
    pub fn updated_after(time: SystemTime) -> Self {
        Self {
            updated_after: Timestamp::from(time),
            ..Self::with_messages()
        }
    }

    /// Leaves this many out: [`SessionPage::next`] of the page before.
    #[must_use]
    pub fn skip(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }
}

impl Operation for ListSessions {
    const NAME: &'static str = operation::GET_MESSAGE_SESSIONS;
    type Output = SessionPage;

    fn arguments(&self) -> Map {
        let int = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        Map::new()
            .with("last-updated-time", self.updated_after)
            .with("skip", int(self.skip))
            .with("top", int(self.top))
    }

    fn read(&self, answer: Answer) -> Result<SessionPage> {
        let end = SessionPage {
            ids: Vec::new(),
            next: self.skip,
        };
        if answer.is_nothing() {
            return Ok(end);
        }
        let map = answer.content()?;
        // Spelled so on the wire.
        if map.get("sessions-ids").is_none_or(Value::is_null) {
            return Ok(end);
        }
        let ids = elements(&map, "sessions-ids", |id| id.as_text().map(str::to_owned))?;
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        Ok(SessionPage {
            next: self.skip.saturating_add(count),
            ids,
        })
    }
}
