//! What a decoder does between its matrix products, in one pass each over contiguous rows.
//!
//! Loops are written in lanes of 16 so that the compiler vectorizes them for the widest instruction set
//! the processor has (chosen at run time by `pulp`); sums run over fixed lanes, so a result does not depend on
//! the instruction set.

use pulp::Arch;

const LANES: usize = 16;

/// `out = x / rms(x) * weight` for each row of `weight.len()` elements.
///
/// rms(x) = √(mean x² + eps). Source: Zhang & Sennrich 2019, as Llama uses it.
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let width = weight.len();
    Arch::new().dispatch(|| {
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let scale = 1.0 / (sum(x, |v| v * v) / width as f32 + eps).sqrt();
            for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                *out = x * scale * weight;
            }
        }
    });
}

/// Rotary embedding in place: each head's halves turn by the angles of the row's position.
///
/// # Shapes
/// - `x`: rows of `n_heads * head_dim`, `stride` apart; row r has the angles `cos[r]`, `sin[r]`
/// - `cos`, `sin`: `[rows, head_dim / 2]`
///
/// Source: RoFormer (Su et al. 2021), in the half-rotating layout of Hugging Face checkpoints.
pub fn rotate(x: &mut [f32], stride: usize, n_heads: usize, head_dim: usize, cos: &[f32], sin: &[f32]) {
    let half = head_dim / 2;
    Arch::new().dispatch(|| {
        let angles = cos.chunks_exact(half).zip(sin.chunks_exact(half));
        for (row, (cos, sin)) in x.chunks_mut(stride).zip(angles) {
            for head in row[..n_heads * head_dim].chunks_exact_mut(head_dim) {
                let (low, high) = head.split_at_mut(half);
                for i in 0..half {
                    let (a, b) = (low[i], high[i]);
                    low[i] = a * cos[i] - b * sin[i];
                    high[i] = b * cos[i] + a * sin[i];
                }
            }
        }
    });
}

/// `silu(gate) * up` in the place of the gates; each row holds `width` gates, then `width` ups.
pub fn silu_mul(gate_up: &mut [f32], width: usize) {
    Arch::new().dispatch(|| {
        for row in gate_up.chunks_exact_mut(2 * width) {
            let (gate, up) = row.split_at_mut(width);
            for (gate, &up) in gate.iter_mut().zip(&*up) {
                *gate = *gate / (1.0 + exp(-*gate)) * up;
            }
        }
    });
}

/// Softmax of one row in place.
pub fn softmax(row: &mut [f32]) {
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            for x in row.iter_mut() {
                *x = exp(*x - top);
            }
            let scale = 1.0 / sum(row, |v| v);
            for x in row.iter_mut() {
                *x *= scale;
            }
        },
    );
}

/// Σ f(x) over fixed lanes.
#[inline(always)]
fn sum(x: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(x);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|&x| f(x)).sum::<f32>()
}

/// eˣ within 2 units in the last place, branch-free: 2ⁿ · e^r with |r| ≤ ln 2 / 2 and a polynomial of degree 6.
///
/// Below −87.3 the result is 0 rather than denormal, above 88.7 it is infinite.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 · 2²³: adding it rounds to an integer
    let clamped = x.clamp(-88.0, 89.0);
    let shifted = clamped * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = clamped - n * 0.693_359_4 + n * 2.121_944_4e-4; // ln 2 in two parts
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_199_9e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 0.5;
    let e = p * (r * r) + r + 1.0;
    // In two factors, so that neither exponent leaves the normal range.
    let exponent = shifted.to_bits() as i32 - MAGIC.to_bits() as i32;
    let half = exponent >> 1;
    let rest = exponent - half;
    let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
    let value = e * power(half) * power(rest);
    if x < -87.3 { 0.0 } else { value }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "these values are exact")]
mod tests {
    use super::*;

    #[test]
    fn rms_norm_by_hand() {
        let mut out = [0.0; 4];
        rms_norm(&[3.0, 4.0, 0.0, 0.0], &[1.0, 2.0], 0.0, &mut out);
        let rms = 12.5_f32.sqrt();
        assert!((out[0] - 3.0 / rms).abs() < 1e-6 && (out[1] - 8.0 / rms).abs() < 1e-6);
        assert!(out[2].is_nan(), "a zero row without eps has no direction");
        rms_norm(&[0.0, 0.0], &[1.0, 2.0], 1e-6, &mut out[..2]);
        assert_eq!(out[..2], [0.0, 0.0]);
    }

    #[test]
    fn rotation_turns_each_pair_of_halves() {
        let mut x = [1.0, 0.0, 0.0, 2.0, 7.0];
        let quarter = (0.0, 1.0);
        rotate(&mut x, 5, 1, 4, &[quarter.0, 1.0], &[quarter.1, 0.0]);
        assert_eq!(
            x,
            [0.0, 0.0, 1.0, 2.0, 7.0],
            "the first pair by 90°, the second by 0°, the rest untouched"
        );
    }

    #[test]
    fn exp_is_close_everywhere() {
        let mut x = -87.0_f32;
        while x < 88.5 {
            let (found, expected) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((found / expected - 1.0).abs() < 3e-7, "exp({x}) = {found}, expected {expected}");
            x += 0.0137;
        }
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn softmax_sums_to_one_and_survives_large_scores() {
        let mut row: Vec<f32> = (0..37).map(|i| 1e4 + i as f32).collect();
        softmax(&mut row);
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        assert!((row[36] / row[35] - 1.0_f32.exp()).abs() < 1e-5);
    }

    #[test]
    fn silu_by_hand() {
        let mut row = [0.0, 1.0, 5.0, 3.0];
        silu_mul(&mut row, 2);
        assert_eq!([row[0], row[2], row[3]], [0.0, 5.0, 3.0]);
        assert!((row[1] - 3.0 / (1.0 + (-1.0_f32).exp())).abs() < 1e-6);
    }
}
