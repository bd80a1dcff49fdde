//! Lists of peers by available room. The best peer is found, and a peer is moved, in constant time.

/// Available room of a peer, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Level {
    /// Some of the peer's workers are idle.
    Idle = 0,
    /// The peer may have more tasks in flight.
    Open = 1,
    /// The peer gets no more tasks.
    Shut = 2,
}

const NOBODY: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Link {
    level: Level,
    previous: u32,
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Ends {
    head: u32,
    tail: u32,
}

/// The lists of peers. A peer that is `Shut` is in none of them.
#[derive(Debug)]
pub(crate) struct PeerBuckets {
    links: Vec<Link>,
    lists: [Ends; 2],
}

impl Default for PeerBuckets {
    fn default() -> Self {
        Self { links: Vec::new(), lists: [Ends { head: NOBODY, tail: NOBODY }; 2] }
    }
}

impl PeerBuckets {
    /// Adds a peer entry, which is `Shut`.
    pub fn extend(&mut self) {
        self.links.push(Link { level: Level::Shut, previous: NOBODY, next: NOBODY });
    }

    /// Returns the level of a peer.
    pub fn of(&self, place: usize) -> Level {
        self.links[place].level
    }

    /// Returns the first peer of the best list.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        let head =
            if self.lists[0].head == NOBODY { self.lists[1].head } else { self.lists[0].head };
        (head != NOBODY).then_some(head as usize)
    }

    /// Returns the next peer with room after `place`.
    pub fn next(&self, place: usize) -> Option<usize> {
        let Link { level, next, .. } = self.links[place];
        let next = if next == NOBODY && level == Level::Idle { self.lists[1].head } else { next };
        (next != NOBODY).then_some(next as usize)
    }

    /// Returns true if some peer has idle workers.
    #[inline]
    pub fn has_idle(&self) -> bool {
        self.lists[0].head != NOBODY
    }

    /// Moves a peer to the end of the list of `level`, unless it is in that list.
    #[inline]
    pub fn put(&mut self, place: usize, level: Level) {
        if self.links[place].level != level {
            self.remove(place);
            self.append(place, level);
        }
    }

    /// Moves a peer to the end of its list.
    pub fn rotate(&mut self, place: usize) {
        let level = self.links[place].level;
        self.remove(place);
        self.append(place, level);
    }

    fn append(&mut self, place: usize, level: Level) {
        self.links[place].level = level;
        let Some(ends) = self.lists.get_mut(level as usize) else { return };
        let here = u32::try_from(place).unwrap_or(NOBODY);
        let tail = std::mem::replace(&mut ends.tail, here);
        if tail == NOBODY {
            ends.head = here;
        } else {
            self.links[tail as usize].next = here;
        }
        let link = &mut self.links[place];
        link.previous = tail;
        link.next = NOBODY;
    }

    fn remove(&mut self, place: usize) {
        let Link { level, previous, next } = self.links[place];
        let Some(ends) = self.lists.get_mut(level as usize) else { return };
        if previous == NOBODY {
            ends.head = next;
        } else {
            self.links[previous as usize].next = next;
        }
        if next == NOBODY {
            ends.tail = previous;
        } else {
            self.links[next as usize].previous = previous;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_of_the_best_list_comes_first_and_turns_are_taken() {
        let mut levels = PeerBuckets::default();
        (0..3).for_each(|_| levels.extend());
        assert_eq!(levels.first(), None);
        levels.put(0, Level::Open);
        levels.put(1, Level::Open);
        assert_eq!(levels.first(), Some(0));
        levels.rotate(0);
        assert_eq!(levels.first(), Some(1));
        levels.put(2, Level::Idle);
        assert_eq!((levels.first(), levels.has_idle()), (Some(2), true));
        levels.put(2, Level::Shut);
        assert_eq!((levels.first(), levels.has_idle()), (Some(1), false));
    }

    proptest! {
        #[test]
        fn lists_hold_who_belongs_to_them(moves in prop::collection::vec((0usize..5, 0u8..4), 1..80)) {
            let mut levels = PeerBuckets::default();
            (0..5).for_each(|_| levels.extend());
            let mut model: [Vec<usize>; 2] = Default::default();
            for (place, what) in moves {
                let level = match what {
                    0 => Level::Idle,
                    1 => Level::Open,
                    2 => Level::Shut,
                    _ => levels.of(place),
                };
                if levels.of(place) != level || what == 3 {
                    model.iter_mut().for_each(|list| list.retain(|&one| one != place));
                    if let Some(list) = model.get_mut(level as usize) {
                        list.push(place);
                    }
                }
                if what == 3 { levels.rotate(place) } else { levels.put(place, level) }
                let best = model[0].first().or(model[1].first()).copied();
                prop_assert_eq!(levels.first(), best);
                prop_assert_eq!(levels.has_idle(), !model[0].is_empty());
            }
        }
    }
}
