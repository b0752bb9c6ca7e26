//! The words of connections that the kernel polls while a thread sleeps for a short time.

use hal::idle_poll::{MAX_WORDS, Watched};

/// The words that the kernel polls in a short sleep.
#[derive(Default)]
pub struct Words {
    list: [Watched; MAX_WORDS],
    count: usize,
}

impl Words {
    /// Adds some words; false if there was no room.
    pub fn push(&mut self, words: &[Watched]) -> bool {
        match self.list.get_mut(self.count..self.count + words.len()) {
            Some(place) => {
                place.copy_from_slice(words);
                self.count += words.len();
                true
            }
            None => false,
        }
    }

    /// All of them.
    pub fn get(&self) -> &[Watched] {
        &self.list[..self.count]
    }
}
