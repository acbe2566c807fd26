use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::arena::NONE;

/// Numbers that we choose (channels, handles), the lowest free one first, and the slot that each stands for.
#[derive(Debug, Default)]
pub(super) struct OwnNumbers {
    slots: Vec<u32>,
    free: BinaryHeap<Reverse<u32>>,
}

impl OwnNumbers {
    /// Gives the lowest free number that is not above `max` to the slot.
    pub(super) fn allocate(&mut self, max: u32, slot: u32) -> Option<u32> {
        let next = u32::try_from(self.slots.len()).ok()?;
        match self.free.peek() {
            Some(&Reverse(number)) if number <= max => {
                self.free.pop();
                *self.slots.get_mut(number as usize)? = slot;
                Some(number)
            }
            None if next <= max => {
                self.slots.push(slot);
                Some(next)
            }
            _ => None,
        }
    }

    pub(super) fn release(&mut self, number: u32) {
        if let Some(slot) = self.slots.get_mut(number as usize)
            && *slot != NONE
        {
            *slot = NONE;
            self.free.push(Reverse(number));
        }
        if self.free.len() == self.slots.len() {
            *self = Self::default();
        }
    }

    pub(super) fn slot(&self, number: u32) -> Option<u32> {
        self.slots
            .get(number as usize)
            .copied()
            .filter(|slot| *slot != NONE)
    }

    /// The slots in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().copied().filter(|slot| *slot != NONE)
    }
}

/// Numbers that the peer chooses, and the slot that each stands for.
///
/// Numbers near the ones in use lie in an array; a far one costs a tree node and not an array up to it.
#[derive(Debug, Default)]
pub(super) struct PeerNumbers {
    dense: Vec<u32>,
    sparse: BTreeMap<u32, u32>,
}

impl PeerNumbers {
    /// How far beyond its end the array may grow for one number.
    const REACH: usize = 16;

    pub(super) fn insert(&mut self, number: u32, slot: u32) {
        let index = number as usize;
        if index >= self.dense.len() + Self::REACH {
            self.sparse.insert(number, slot);
            return;
        }
        if index >= self.dense.len() {
            self.dense.resize(index + 1, NONE);
        }
        if let Some(entry) = self.dense.get_mut(index) {
            *entry = slot;
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        if self.sparse.remove(&number).is_some() {
            return;
        }
        if let Some(entry) = self.dense.get_mut(number as usize) {
            *entry = NONE;
        }
        while self.dense.last() == Some(&NONE) {
            self.dense.pop();
        }
    }

    pub(super) fn slot(&self, number: u32) -> Option<u32> {
        match self.dense.get(number as usize) {
            Some(&slot) if slot != NONE => Some(slot),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&number).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_numbers_are_reused_lowest_first() {
        let mut numbers = OwnNumbers::default();
        let all: Vec<_> = (0..4).map(|slot| numbers.allocate(3, slot)).collect();
        assert_eq!(all, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(numbers.allocate(3, 9), None);
        numbers.release(2);
        numbers.release(1);
        assert_eq!(numbers.allocate(3, 9), Some(1));
        assert_eq!(numbers.allocate(3, 9), Some(2));
        assert_eq!(numbers.slot(1), Some(9));
    }

    #[test]
    fn a_far_number_costs_no_array() {
        let mut numbers = PeerNumbers::default();
        numbers.insert(u32::MAX, 1);
        numbers.insert(1 << 31, 2);
        numbers.insert(0, 3);
        assert!(numbers.dense.capacity() < 64);
        assert_eq!(numbers.slot(u32::MAX), Some(1));
        assert_eq!(numbers.slot(1 << 31), Some(2));
        assert_eq!(numbers.slot(0), Some(3));
        assert_eq!(numbers.slot(1), None);
        numbers.remove(u32::MAX);
        numbers.remove(0);
        assert_eq!(numbers.slot(u32::MAX), None);
        assert_eq!(numbers.slot(0), None);
    }

    #[test]
    fn a_number_that_was_far_stays_found_when_the_array_grows_past_it() {
        let mut numbers = PeerNumbers::default();
        numbers.insert(20, 1);
        for number in 0..20 {
            numbers.insert(number, 2);
        }
        numbers.insert(21, 3);
        assert_eq!(numbers.slot(20), Some(1));
        numbers.remove(20);
        assert_eq!(numbers.slot(20), None);
    }
}
