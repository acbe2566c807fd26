use std::collections::{BTreeMap, VecDeque};

use super::log::Entry;

/// How many places without a message cost less than moving the messages around them.
const SHORT: usize = 256;

/// Messages by number.
///
/// Numbers grow as a rule and most messages go in the order in which they came, so they lie in a row from the oldest on.
/// A few that stay while many others come and go would make the row long and empty; they are moved to a tree then, each at
/// most once.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// The number of the first place of the row. All numbers in the tree are below it.
    base: i64,
    row: VecDeque<Option<Entry>>,
    /// How many places of the row are taken.
    taken: usize,
    old: BTreeMap<i64, Entry>,
}

impl Messages {
    /// Adds a message; its number is as a rule higher than all before it.
    pub(super) fn insert(&mut self, number: i64, entry: Entry) {
        if self.row.is_empty() && number >= self.base {
            self.base = number;
        }
        match self.place(number) {
            None => drop(self.old.insert(number, entry)),
            Some(place) if place < self.row.len() => {
                if let Some(place) = self.row.get_mut(place) {
                    self.taken += usize::from(place.is_none());
                    *place = Some(entry);
                }
            }
            Some(place) => {
                if place - self.row.len() > SHORT {
                    self.retire();
                    self.base = number;
                } else {
                    self.row.resize_with(place, || None);
                }
                self.row.push_back(Some(entry));
                self.taken += 1;
                self.compact();
            }
        }
    }

    pub(super) fn remove(&mut self, number: i64) -> Option<Entry> {
        let Some(place) = self.place(number) else {
            return self.old.remove(&number);
        };
        let entry = self.row.get_mut(place)?.take()?;
        self.taken -= 1;
        while let Some(None) = self.row.front() {
            self.row.pop_front();
            self.base += 1;
        }
        self.compact();
        Some(entry)
    }

    pub(super) fn get(&self, number: i64) -> Option<&Entry> {
        match self.place(number) {
            Some(place) => self.row.get(place)?.as_ref(),
            None => self.old.get(&number),
        }
    }

    pub(super) fn get_mut(&mut self, number: i64) -> Option<&mut Entry> {
        match self.place(number) {
            Some(place) => self.row.get_mut(place)?.as_mut(),
            None => self.old.get_mut(&number),
        }
    }

    /// Messages with at least this number, in order.
    pub(super) fn range(&self, from: i64) -> impl Iterator<Item = (i64, &Entry)> {
        let skipped = self.place(from).unwrap_or(0).min(self.row.len());
        let row = (self.base..).zip(self.row.iter()).skip(skipped);
        self.old
            .range(from..)
            .map(|(number, entry)| (*number, entry))
            .chain(row.filter_map(|(number, entry)| Some((number, entry.as_ref()?))))
    }

    pub(super) fn len(&self) -> usize {
        self.taken + self.old.len()
    }

    /// The place of a number in the row, which may end before it; `None` for those in the tree.
    fn place(&self, number: i64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.base)?).ok()
    }

    fn compact(&mut self) {
        if self.row.len() > SHORT && self.row.len() > 4 * self.taken {
            self.retire();
        }
        let capacity = self.row.capacity();
        if capacity > 4 * SHORT && capacity > 8 * self.row.len() {
            self.row.shrink_to(2 * self.row.len());
        }
    }

    /// Moves the messages of the row to the tree.
    fn retire(&mut self) {
        let numbers = self.base..;
        self.base = self.base.saturating_add_unsigned(self.row.len() as u64);
        let row = numbers.zip(self.row.drain(..));
        self.old
            .extend(row.filter_map(|(number, entry)| Some((number, entry?))));
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::{MessageState, message::Content};

    fn entry() -> Entry {
        let content = Content::parse(&[0x00, 0x53, 0x75, 0xa0, 0]).unwrap();
        Entry {
            content,
            enqueued_at: Default::default(),
            expires_at: Default::default(),
            enqueued_sequence_number: 0,
            lock: 0,
            session: 0,
            delivery_count: 0,
            state: MessageState::Active,
            hops: 0,
        }
    }

    fn numbers(messages: &Messages, from: i64) -> Vec<i64> {
        let numbers: Vec<_> = messages.range(from).map(|(number, _)| number).collect();
        for number in &numbers {
            assert!(messages.get(*number).is_some());
        }
        numbers
    }

    #[test]
    fn a_few_that_stay_keep_the_row_short() {
        let mut messages = Messages::default();
        for number in 1..100_000 {
            messages.insert(number, entry());
            if number % 20_000 != 0 {
                assert!(messages.remove(number).is_some());
            }
            assert!(messages.row.len() <= SHORT + 1);
        }
        let left = [20_000, 40_000, 60_000, 80_000];
        assert_eq!(numbers(&messages, 0), left);
        assert_eq!(numbers(&messages, 40_001), left[2..]);
        for number in left {
            assert!(messages.remove(number).is_some());
            assert!(messages.remove(number).is_none());
        }
        assert_eq!(messages.len(), 0);
    }

    #[test]
    fn numbers_come_in_any_order_and_far_apart() {
        let mut messages = Messages::default();
        for number in [7, 1_000_000, 5, 1_000_002, 1_000_001, 6, 1 << 40] {
            messages.insert(number, entry());
        }
        let all = [5, 6, 7, 1_000_000, 1_000_001, 1_000_002, 1 << 40];
        assert_eq!(numbers(&messages, i64::MIN), all);
        assert_eq!(numbers(&messages, 1_000_001), all[4..]);
        assert_eq!(messages.len(), all.len());
        for (removed, number) in all.into_iter().enumerate() {
            assert!(messages.get_mut(number).is_some());
            assert!(messages.remove(number).is_some());
            assert_eq!(numbers(&messages, 0), all[removed + 1..]);
        }
    }

    #[test]
    fn memory_is_given_back() {
        let mut messages = Messages::default();
        (1..=100_000).for_each(|number| messages.insert(number, entry()));
        (1..100_000).for_each(|number| drop(messages.remove(number)));
        assert!(messages.row.capacity() <= 4 * SHORT);
        assert_eq!(numbers(&messages, 0), [100_000]);
    }
}
