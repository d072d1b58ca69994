use std::iter::Sum;
use std::ops::Add;

/// Bytes that a cache has allocated, by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Codes.
    pub codes: usize,
    /// Scales and zero points, or whatever two numbers a group has.
    pub metadata: usize,
    /// Tokens at full precision: the residual, all tokens of a side of 16 bits, room to grow included.
    pub exact: usize,
    /// The first tokens, where the scheme keeps them.
    pub sinks: usize,
}

impl Memory {
    /// All of it.
    pub fn bytes(&self) -> usize {
        self.codes + self.metadata + self.exact + self.sinks
    }
}

impl Add for Memory {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            codes: self.codes + other.codes,
            metadata: self.metadata + other.metadata,
            exact: self.exact + other.exact,
            sinks: self.sinks + other.sinks,
        }
    }
}

impl Sum for Memory {
    fn sum<I: Iterator<Item = Self>>(memories: I) -> Self {
        memories.fold(Self::default(), Add::add)
    }
}
