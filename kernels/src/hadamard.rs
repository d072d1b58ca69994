//! Rotation of a head by an orthonormal Sylvester–Hadamard matrix, which spreads outliers over all channels.

use pulp::Arch;

/// Rotates each row of `head_dim` elements in place; applied twice it gives the row back, up to rounding.
///
/// Where `head_dim` is no power of two the matrix is block-diagonal in powers of two, largest first:
/// 80 = 64 + 16, 100 = 64 + 32 + 4. The blocks of an odd length end with one element that stays. A last row
/// that is shorter is rotated by its own length.
pub fn hadamard(rows: &mut [f32], head_dim: usize) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            for row in rows.chunks_mut(head_dim.max(1)) {
                rotate_blocks(row);
            }
        },
    );
}

#[inline(always)]
fn rotate_blocks(mut row: &mut [f32]) {
    while !row.is_empty() {
        let power = 1 << row.len().ilog2();
        let (block, rest) = row.split_at_mut(power);
        rotate_block(block);
        row = rest;
    }
}

/// Fast Walsh–Hadamard transform of a power of two, scaled by 1/√length.
#[inline(always)]
fn rotate_block(block: &mut [f32]) {
    let mut half = 1;
    while half < block.len() {
        for pair in block.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
    let scale = 1.0 / (block.len() as f32).sqrt();
    for x in block {
        *x *= scale;
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "powers of two keep these values exact")]
mod tests {
    use super::*;

    #[test]
    fn four_channels_by_hand() {
        let mut row = [1.0, 2.0, 3.0, 4.0];
        hadamard(&mut row, 4);
        assert_eq!(row, [5.0, -1.0, -2.0, 0.0]);
    }

    #[test]
    fn blocks_are_largest_first() {
        let mut row = [1.0, 1.0, 1.0, 1.0, 3.0, 1.0, 7.0];
        hadamard(&mut row, 7);
        let root = 2.0_f32.sqrt();
        assert_eq!(row[..4], [2.0, 0.0, 0.0, 0.0]);
        assert!((row[4] - 4.0 / root).abs() < 1e-6 && (row[5] - 2.0 / root).abs() < 1e-6);
        assert_eq!(row[6], 7.0);
    }

    /// Entry (i, j) of the matrix is (−1)^popcount(i & j) / √length inside a block.
    #[test]
    fn butterflies_equal_the_matrix() {
        for (head_dim, blocks) in
            [(64, vec![64]), (80, vec![64, 16]), (96, vec![64, 32]), (100, vec![64, 32, 4])]
        {
            let row: Vec<f32> = (0..head_dim).map(|i| ((i * 37 + 11) % 23) as f32 - 9.5).collect();
            let mut found = row.clone();
            hadamard(&mut found, head_dim);
            let mut start = 0;
            for length in blocks {
                for i in 0..length {
                    let sign = |j: usize| if (i & j).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
                    let sum: f64 = (0..length).map(|j| sign(j) * f64::from(row[start + j])).sum();
                    let expected = sum / (length as f64).sqrt();
                    assert!((f64::from(found[start + i]) - expected).abs() < 2e-5, "{head_dim}: {i}");
                }
                start += length;
            }
        }
    }

    #[test]
    fn twice_is_the_identity_and_length_is_kept() {
        for head_dim in [1, 2, 3, 24, 64, 80, 96, 100, 128] {
            let rows: Vec<f32> = (0..3 * head_dim).map(|i| ((i * 53 + 5) % 31) as f32 / 7.0 - 2.0).collect();
            let mut found = rows.clone();
            hadamard(&mut found, head_dim);
            let square = |x: &[f32]| x.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>();
            assert!((square(&found) / square(&rows) - 1.0).abs() < 1e-5);
            hadamard(&mut found, head_dim);
            for (found, row) in found.iter().zip(&rows) {
                assert!((found - row).abs() < 2e-6, "{head_dim}");
            }
        }
    }

    #[test]
    fn an_empty_head_is_no_panic() {
        hadamard(&mut [], 0);
        hadamard(&mut [1.0, 2.0], 0);
    }
}
