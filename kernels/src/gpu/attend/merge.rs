//! The second pass: parts of one head, each under its own maximum, become its output.

use cubecl::prelude::*;

/// One cube a query head.
///
/// # Shapes
/// - `partial`, `stats`: as [`attend_kernel`](super::kernel::attend_kernel) leaves them
/// - `out`: `[lanes, kv_heads, heads, head_dim]`; zeros where a lane is empty
#[cube(launch_unchecked)]
pub(super) fn merge_kernel(
    partial: &Array<f32>,
    stats: &Array<f32>,
    out: &mut Array<f32>,
    splits: u32,
    #[comptime] head_dim: usize,
) {
    let heads = CUBE_COUNT_X;
    let kv_head = CUBE_POS_Z * CUBE_COUNT_Y + CUBE_POS_Y;
    let first = kv_head * splits * heads + CUBE_POS_X;
    let mut maximum = stats[(first * 2) as usize];
    for split in 1..splits {
        maximum = max(maximum, stats[((first + split * heads) * 2) as usize]);
    }
    let mut channel = UNIT_POS;
    while channel < comptime!(head_dim as u32) {
        let mut total = f32::new(0.0);
        let mut sum = f32::new(0.0);
        for split in 0..splits {
            let part = first + split * heads;
            let weight = (stats[(part * 2) as usize] - maximum).exp();
            total += weight * stats[(part * 2 + 1) as usize];
            sum += weight * partial[(part * comptime!(head_dim as u32) + channel) as usize];
        }
        let head = kv_head * heads + CUBE_POS_X;
        let output = select(total > f32::new(0.0), sum / total, f32::new(0.0));
        out[(head * comptime!(head_dim as u32) + channel) as usize] = output;
        channel += CUBE_DIM;
    }
}
