use slab::Slab;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;

/// Values in slots that are used again, each use under a generation of its own, and lists that run through them.
#[derive(Debug)]
pub(super) struct Arena<T> {
    entries: Slab<Entry<T>>,
    generation: u32,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    generation: u32,
    previous: u32,
    next: u32,
}

/// A list of entries of an [`Arena`]; an entry is in at most one.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    pub(super) first: u32,
    last: u32,
    pub(super) len: u32,
}

impl List {
    pub(super) const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        len: 0,
    };
}

impl<T> Arena<T> {
    pub(super) const fn new() -> Self {
        Self {
            entries: Slab::new(),
            generation: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a value; gives its slot and generation.
    pub(super) fn insert(&mut self, value: T) -> (u32, u32) {
        self.generation = self.generation.wrapping_add(1);
        let slot = self.entries.insert(Entry {
            value,
            generation: self.generation,
            previous: NONE,
            next: NONE,
        });
        // A slot per frame that a peer sent or per call of the application: 2^32 of them do not fit memory.
        (u32::try_from(slot).unwrap_or(NONE), self.generation)
    }

    pub(super) fn get(&self, slot: u32) -> Option<&T> {
        Some(&self.entries.get(slot as usize)?.value)
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut T> {
        Some(&mut self.entries.get_mut(slot as usize)?.value)
    }

    /// Whether the slot is still in the use that the generation names.
    pub(super) fn is_current(&self, slot: u32, generation: u32) -> bool {
        self.entries
            .get(slot as usize)
            .is_some_and(|entry| entry.generation == generation)
    }

    pub(super) fn generation(&self, slot: u32) -> u32 {
        self.entries
            .get(slot as usize)
            .map_or(0, |entry| entry.generation)
    }

    /// Makes keys of the slot's present use stale.
    pub(super) fn renew(&mut self, slot: u32) {
        self.generation = self.generation.wrapping_add(1);
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            entry.generation = self.generation;
        }
    }

    /// Removes a value that is in no list.
    pub(super) fn remove(&mut self, slot: u32) -> Option<T> {
        self.entries
            .try_remove(slot as usize)
            .map(|entry| entry.value)
    }

    /// Gives back the memory of slots past the last one in use.
    pub(super) fn shrink(&mut self) {
        self.entries.shrink_to_fit();
    }

    pub(super) fn for_each(&mut self, mut change: impl FnMut(&mut T)) {
        for (_, entry) in &mut self.entries {
            change(&mut entry.value);
        }
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = u32> {
        self.entries
            .iter()
            .map(|(slot, _)| u32::try_from(slot).unwrap_or(NONE))
    }

    /// Appends an entry that is in no list.
    pub(super) fn link(&mut self, list: &mut List, slot: u32) {
        if let Some(last) = self.entries.get_mut(list.last as usize) {
            last.next = slot;
        } else {
            list.first = slot;
        }
        if let Some(entry) = self.entries.get_mut(slot as usize) {
            entry.previous = list.last;
            entry.next = NONE;
        }
        list.last = slot;
        list.len += 1;
    }

    /// Takes an entry out of the list that it is in.
    pub(super) fn unlink(&mut self, list: &mut List, slot: u32) {
        let Some(entry) = self.entries.get(slot as usize) else {
            return;
        };
        let (previous, next) = (entry.previous, entry.next);
        match self.entries.get_mut(previous as usize) {
            Some(entry) => entry.next = next,
            None => list.first = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(entry) => entry.previous = previous,
            None => list.last = previous,
        }
        list.len -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(arena: &Arena<char>, list: &List) -> String {
        let mut text = String::new();
        let mut slot = list.first;
        while let Some(entry) = arena.entries.get(slot as usize) {
            text.push(entry.value);
            slot = entry.next;
        }
        assert_eq!(text.len(), list.len as usize);
        text
    }

    #[test]
    fn lists_unlink_anywhere() {
        let mut arena = Arena::new();
        let mut list = List::EMPTY;
        let all: Vec<u32> = "abcd"
            .chars()
            .map(|c| {
                let (slot, _) = arena.insert(c);
                arena.link(&mut list, slot);
                slot
            })
            .collect();
        assert_eq!(slots(&arena, &list), "abcd");
        for (slot, left) in [(1, "acd"), (0, "cd"), (3, "c"), (2, "")] {
            arena.unlink(&mut list, all[slot]);
            arena.remove(all[slot]);
            assert_eq!(slots(&arena, &list), left);
        }
        let (slot, _) = arena.insert('e');
        arena.link(&mut list, slot);
        assert_eq!(slots(&arena, &list), "e");
    }

    #[test]
    fn a_reused_slot_has_another_generation() {
        let mut arena = Arena::new();
        let (slot, generation) = arena.insert('a');
        arena.remove(slot);
        assert!(!arena.is_current(slot, generation));
        let (again, next) = arena.insert('b');
        assert_eq!(slot, again);
        assert!(!arena.is_current(slot, generation) && arena.is_current(slot, next));
        arena.renew(slot);
        assert!(!arena.is_current(slot, next));
    }
}
