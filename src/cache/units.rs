use crate::quant::Prefill;

/// Which state of the cache each query reads.
///
/// A prompt is one unit: its queries read the cache as it stands after the whole prompt. A declared shared
/// prefix is a unit of its own. A query of the continuation at position i reads the state of i + 1 tokens.
/// So all positions of prompt and continuation can be scored in one pass that equals step-by-step decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units {
    /// One past the last token of each unit, ascending.
    ends: Vec<usize>,
    prefill: Prefill,
}

impl Units {
    /// One prompt of `prompt_len` tokens.
    pub fn prompt(prompt_len: usize, prefill: Prefill) -> Self {
        Self { ends: vec![prompt_len], prefill }
    }

    /// A prefix that many prompts share, then the rest of this prompt.
    pub fn with_prefix(prefix_len: usize, prompt_len: usize, prefill: Prefill) -> Self {
        debug_assert!(prefix_len <= prompt_len, "a prefix is part of its prompt");
        Self { ends: vec![prefix_len, prompt_len], prefill }
    }

    /// A prefix of prompts that are not known yet; a cache that holds it is forked for each of them.
    pub fn open_prefix(prefix_len: usize, prefill: Prefill) -> Self {
        Self::with_prefix(prefix_len, usize::MAX, prefill)
    }

    /// Leading tokens that the query at `position` reads as codes, where `frozen(n)` of n cached tokens are.
    pub fn frozen_for(&self, position: usize, frozen: impl Fn(usize) -> usize) -> usize {
        match self.ends.iter().find(|&&end| position < end) {
            Some(_) if self.prefill == Prefill::Exact => 0,
            Some(&end) => frozen(end),
            None => frozen(position + 1),
        }
    }

    /// Whether a query at `position` or later may read any token exact.
    pub fn reads_exact_later(&self, position: usize) -> bool {
        self.prefill == Prefill::Exact && self.ends.last().is_some_and(|&end| position < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(n: usize) -> usize {
        n / 4 * 4
    }

    #[test]
    fn a_prompt_query_reads_the_state_after_the_prompt() {
        let units = Units::prompt(9, Prefill::Dequantized);
        assert_eq!(units.frozen_for(0, blocks), 8);
        assert_eq!(units.frozen_for(8, blocks), 8);
        assert_eq!(units.frozen_for(10, blocks), 8);
        assert_eq!(units.frozen_for(11, blocks), 12);
    }

    #[test]
    fn exact_prefill_reads_no_codes_until_the_continuation() {
        let units = Units::prompt(9, Prefill::Exact);
        assert_eq!(units.frozen_for(8, blocks), 0);
        assert_eq!(units.frozen_for(9, blocks), 8);
    }

    #[test]
    fn a_shared_prefix_is_its_own_unit() {
        let units = Units::with_prefix(5, 9, Prefill::Dequantized);
        assert_eq!(units.frozen_for(4, blocks), 4);
        assert_eq!(units.frozen_for(5, blocks), 8);
    }
}
