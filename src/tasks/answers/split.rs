use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Item;
use crate::trace::Split;

/// How large a part of all items each split is; only their ratios count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shares {
    /// Scored by a search.
    pub search: u32,
    /// Chooses from its front.
    pub select: u32,
    /// Read once.
    pub test: u32,
}

impl Default for Shares {
    fn default() -> Self {
        Self { search: 1, select: 1, test: 2 }
    }
}

/// Items by split, each in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    /// Scored by a search.
    pub search: Vec<Item>,
    /// Chooses from its front.
    pub select: Vec<Item>,
    /// Read once.
    pub test: Vec<Item>,
}

/// The split that an item belongs to, by a hash of its [`key`](Item::key) and the seed.
///
/// Nothing else counts: not the file it stands in, its number, the worked examples before it or how many items were
/// asked for. So a search and a test that name the same seed and shares never see the same item, even where each reads
/// a file of its own, and a question that a file holds twice is on one side both times. With no share at all every item
/// is a test item.
pub fn split_of(item: &Item, seed: u64, shares: Shares) -> Split {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(&item.key);
    let digest = hash.finalize();
    let number = digest[..8].iter().fold(0_u64, |number, &byte| number << 8 | u64::from(byte));
    let (search, select) = (u64::from(shares.search), u64::from(shares.select));
    let total = search + select + u64::from(shares.test);
    match number.checked_rem(total) {
        Some(place) if place < search => Split::Search,
        Some(place) if place < search + select => Split::Select,
        _ => Split::Test,
    }
}

/// Items apart by [`split_of`].
pub fn split(items: Vec<Item>, seed: u64, shares: Shares) -> Parts {
    let mut parts = Parts::default();
    for item in items {
        let part = match split_of(&item, seed, shares) {
            Split::Search => &mut parts.search,
            Split::Select => &mut parts.select,
            Split::Test => &mut parts.test,
        };
        part.push(item);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::{Ask, Gold, ItemPrompt, WhenLong};
    use super::*;

    fn item(index: usize, prefix: &str) -> Item {
        Item {
            id: format!("{prefix}{index}"),
            set: "s".into(),
            key: format!("question {index}"),
            prompt: ItemPrompt::Text { prefix: prefix.into(), rest: format!("question {index}") },
            ask: Ask::Write { stop: vec![], max_new_tokens: 1 },
            gold: Gold::Choice(index),
            when_long: WhenLong::Skip,
        }
    }

    #[test]
    fn an_item_is_on_one_side_whatever_stands_around_it() {
        for index in 0..100 {
            let side = split_of(&item(index, ""), 7, Shares::default());
            assert_eq!(side, split_of(&item(index, "four examples"), 7, Shares::default()));
        }
    }

    #[test]
    fn every_item_is_in_one_part_and_shares_are_kept() {
        let items: Vec<Item> = (0..4000).map(|index| item(index, "")).collect();
        let parts = split(items, 0, Shares::default());
        let counts = [&parts.search, &parts.select, &parts.test].map(Vec::len);
        assert_eq!(counts.iter().sum::<usize>(), 4000);
        // Expected 1000, 1000, 2000; the standard deviation is 32 at most.
        for (count, expected) in counts.into_iter().zip([1000_usize, 1000, 2000]) {
            assert!(count.abs_diff(expected) < 130, "{counts:?}");
        }
    }

    #[test]
    fn the_seed_moves_items_and_no_share_leaves_no_item() {
        let side = |seed| (0..50).map(|index| split_of(&item(index, ""), seed, Shares::default())).collect();
        let (first, second): (Vec<Split>, Vec<Split>) = (side(1), side(2));
        assert_ne!(first, second);
        let only = Shares { search: 1, select: 0, test: 0 };
        assert!((0..50).all(|index| split_of(&item(index, ""), 0, only) == Split::Search));
        let none = Shares { search: 0, select: 0, test: 0 };
        assert_eq!(split_of(&item(0, ""), 0, none), Split::Test);
    }
}
