/// Blocks along each side of a map, at most.
const BLOCKS: usize = 64;

/// Attention of one head on one sequence, averaged over blocks of tokens.
///
/// A cell is the share of attention that the queries of a block (row) have on the keys of a block (column), mean over
/// these queries: rows sum to 1. Nothing is right of the diagonal.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionMap {
    tokens: usize,
    block: usize,
    blocks: usize,
    cells: Vec<f32>,
}

impl AttentionMap {
    /// An empty map of a sequence.
    pub fn new(tokens: usize) -> Self {
        let block = tokens.div_ceil(BLOCKS).max(1);
        let blocks = tokens.div_ceil(block);
        Self { tokens, block, blocks, cells: vec![0.0; blocks * blocks] }
    }

    /// Takes in the query at a position: its weights over the tokens that it sees, the oldest at `oldest`.
    pub fn query(&mut self, position: usize, weights: &[f32], oldest: usize) {
        let row = position / self.block;
        let queries = self.block.min(self.tokens - row * self.block) as f32;
        let cells = &mut self.cells[row * self.blocks..][..self.blocks];
        for (token, weight) in (oldest..).zip(weights) {
            cells[token / self.block] += weight / queries;
        }
    }

    /// Tokens of the sequence.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// Tokens of a block; the last one may have fewer.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Blocks along each side.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// `[blocks, blocks]`, a row a block of queries.
    pub fn cells(&self) -> &[f32] {
        &self.cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_map_sum_to_one_whatever_the_blocks() {
        for tokens in [1, 5, 64, 65, 200] {
            let mut map = AttentionMap::new(tokens);
            for position in 0..tokens {
                map.query(position, &vec![1.0 / (position + 1) as f32; position + 1], 0);
            }
            assert!(map.blocks() <= BLOCKS && map.blocks() * map.block() >= tokens);
            for row in map.cells().chunks(map.blocks()) {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-4, "{tokens} tokens: {row:?}");
            }
        }
    }

    #[test]
    fn a_cell_is_the_mean_over_its_queries() {
        let mut map = AttentionMap::new(128);
        assert_eq!((map.block(), map.blocks()), (2, 64));
        map.query(2, &[1.0, 0.0, 0.0], 0);
        map.query(3, &[0.0, 0.25, 0.75], 1);
        assert_eq!(map.cells()[64..67], [0.5, 0.5, 0.0]);
    }
}
