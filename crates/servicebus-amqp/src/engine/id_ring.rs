use std::collections::{BTreeMap, VecDeque};

use super::arena::NONE;
use super::serial;

/// The unsettled deliveries of one direction of a session: delivery-id to slot.
///
/// Ids grow as a rule, so the map is an array from the oldest id on. A few deliveries that stay unsettled while many others
/// come and go would make it long and empty; they are moved to a tree then, each at most once.
#[derive(Debug)]
pub(super) struct IdRing {
    /// The id of the first element of `recent`.
    base: u64,
    recent: VecDeque<u32>,
    /// How many elements of `recent` are not [`NONE`].
    live: usize,
    old: BTreeMap<u64, u32>,
}

impl IdRing {
    /// Below this length, holes cost less than moving.
    const SHORT: usize = 1024;

    pub(super) const fn new() -> Self {
        Self {
            base: 0,
            recent: VecDeque::new(),
            live: 0,
            old: BTreeMap::new(),
        }
    }

    /// Adds an id: as a rule one that is higher than all before it. An id that is there gets the new slot.
    pub(super) fn insert(&mut self, id: u64, slot: u32) {
        if id >= self.end() {
            self.push(id, slot);
        } else if let Some(entry) = self.index(id).and_then(|index| self.recent.get_mut(index)) {
            if *entry == NONE {
                self.live += 1;
            }
            *entry = slot;
        } else {
            self.old.insert(id, slot);
        }
    }

    /// Adds an id that is higher than all before it.
    pub(super) fn push(&mut self, id: u64, slot: u32) {
        if self.recent.is_empty() {
            self.base = id;
        }
        let gap = id.saturating_sub(self.end());
        if gap > Self::SHORT as u64 {
            self.retire();
            self.base = id;
        } else {
            for _ in 0..gap {
                self.recent.push_back(NONE);
            }
        }
        self.recent.push_back(slot);
        self.live += 1;
        self.compact();
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(entry) = self.index(id).and_then(|index| self.recent.get_mut(index)) {
            if *entry != NONE {
                *entry = NONE;
                self.live -= 1;
            }
            while self.recent.front() == Some(&NONE) {
                self.recent.pop_front();
                self.base += 1;
            }
            self.compact();
        } else {
            self.old.remove(&id);
        }
    }

    pub(super) fn shrink(&mut self) {
        self.recent.shrink_to_fit();
    }

    /// The lowest id of `first..=last`, and its slot; none of an empty range.
    pub(super) fn find(&self, first: u64, last: u64) -> Option<(u64, u32)> {
        // A tree panics when it is asked for a range that ends before it begins.
        if first > last {
            return None;
        }
        if first < self.base
            && !self.old.is_empty()
            && let Some((&id, &slot)) = self.old.range(first..=last).next()
        {
            return Some((id, slot));
        }
        let from = first.max(self.base);
        let end = last.saturating_add(1).min(self.end());
        if from >= end {
            return None;
        }
        let (from, end) = (self.index(from)?, usize::try_from(end - self.base).ok()?);
        self.recent
            .range(from..end)
            .position(|slot| *slot != NONE)
            .and_then(|offset| {
                let index = from + offset;
                Some((self.base + index as u64, *self.recent.get(index)?))
            })
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.live + self.old.len()
    }

    fn end(&self) -> u64 {
        self.base + self.recent.len() as u64
    }

    fn index(&self, id: u64) -> Option<usize> {
        usize::try_from(id.checked_sub(self.base)?).ok()
    }

    fn compact(&mut self) {
        if self.recent.len() > Self::SHORT && self.recent.len() > 8 * self.live {
            self.retire();
        }
    }

    fn retire(&mut self) {
        let base = self.base;
        self.base = self.end();
        let living = self.recent.drain(..).enumerate();
        for (index, slot) in living.filter(|(_, slot)| *slot != NONE) {
            self.old.insert(base + index as u64, slot);
        }
        self.live = 0;
    }
}

/// The ids that a disposition names: `first..=last` near `reference`; `None` when `last` is before `first`.
pub(super) fn range(reference: u64, first: u32, last: Option<u32>) -> Option<(u64, u64)> {
    let length = serial::distance(first, last.unwrap_or(first));
    let first = serial::extend(reference, first);
    Some((first, first + u64::try_from(length).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn all(ring: &IdRing) -> Vec<u64> {
        let mut ids = Vec::new();
        let mut from = 0;
        while let Some((id, slot)) = ring.find(from, u64::MAX - 1) {
            assert_eq!(u64::from(slot), id % 1000);
            ids.push(id);
            from = id + 1;
        }
        ids
    }

    fn push(ring: &mut IdRing, id: u64) {
        ring.push(id, u32::try_from(id % 1000).unwrap());
    }

    #[test]
    fn one_held_delivery_keeps_the_array_short() {
        let mut ring = IdRing::new();
        push(&mut ring, 5);
        for id in 6..100_000 {
            push(&mut ring, id);
            ring.remove(id);
            assert!(ring.recent.len() <= IdRing::SHORT + 1);
        }
        assert_eq!(all(&ring), [5]);
        ring.remove(5);
        assert_eq!(ring.len(), 0);
    }

    #[test]
    fn finds_old_and_recent_in_order() {
        let mut ring = IdRing::new();
        for id in 10..5_010 {
            push(&mut ring, id);
        }
        for id in 10..5_010 {
            if id % 500 != 0 {
                ring.remove(id);
            }
        }
        push(&mut ring, 9_000);
        push(&mut ring, 9_003);
        let expected: Vec<u64> = (1..=10).map(|n| n * 500).chain([9_000, 9_003]).collect();
        assert_eq!(all(&ring), expected);
        assert_eq!(ring.find(501, 999), None);
        assert_eq!(ring.find(1_001, 1_000), None);
        assert_eq!(ring.find(9_001, 9_002), None);
        assert_eq!(ring.find(4_999, 9_000).map(|(id, _)| id), Some(5_000));
    }

    #[test]
    fn takes_ids_out_of_order_and_twice() {
        let mut ring = IdRing::new();
        for id in [10, 12, 11, 12, 9, 13] {
            ring.insert(id, u32::try_from(id).unwrap());
        }
        assert_eq!(all(&ring), [9, 10, 11, 12, 13]);
        for id in [10, 11, 12, 13] {
            ring.remove(id);
        }
        ring.insert(8, 8);
        assert_eq!(all(&ring), [8, 9]);
        ring.remove(8);
        ring.remove(9);
        assert_eq!(ring.len(), 0);
    }

    #[test]
    fn a_huge_gap_costs_nothing() {
        let mut ring = IdRing::new();
        push(&mut ring, 1);
        push(&mut ring, 1 << 40);
        assert!(ring.recent.len() == 1);
        assert_eq!(all(&ring), [1, 1 << 40]);
    }

    proptest! {
        /// Whatever is held for how long, the ring is a map of ids in their order.
        #[test]
        fn it_is_a_map(steps in vec((0..4_u8, 0..600_u64, 1..40_u64), 0..40)) {
            let slot = |id: u64| u32::try_from(id % 1000).unwrap();
            let (mut ring, mut map, mut next) = (IdRing::new(), BTreeMap::new(), 1000);
            for (step, count, by) in steps {
                match step {
                    0 => for id in next..next + count {
                        // Without some, as delivery-ids of the peer may be.
                        if id % by != 1 {
                            ring.push(id, slot(id));
                            map.insert(id, slot(id));
                        }
                    },
                    // All are settled but each so many'th.
                    1 => for id in map.clone().into_keys().filter(|id| id % by != 0) {
                        ring.remove(id);
                        map.remove(&id);
                    },
                    2 => {
                        let id = next - count - 1;
                        ring.insert(id, slot(id));
                        map.insert(id, slot(id));
                    }
                    _ => {
                        let (first, end) = (next - count, next - count + by - 1);
                        let expected = map.range(first..end).next();
                        prop_assert_eq!(
                            ring.find(first, end - 1),
                            expected.map(|(id, slot)| (*id, *slot))
                        );
                    }
                }
                if step == 0 {
                    next += count;
                }
                prop_assert_eq!(ring.len(), map.len());
            }
            prop_assert_eq!(all(&ring), map.into_keys().collect::<Vec<_>>());
        }
    }

    #[test]
    fn ranges_wrap_and_do_not_run_backwards() {
        let near = serial::start(1);
        assert_eq!(
            range(near, u32::MAX, Some(1)),
            Some((serial::start(1) - 2, near))
        );
        assert_eq!(range(near, 5, None), Some((near + 4, near + 4)));
        assert_eq!(range(near, 0, Some(u32::MAX)), None);
        assert_eq!(range(near, 5, Some(4)), None);
    }
}
