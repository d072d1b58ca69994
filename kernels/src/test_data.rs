//! Numbers for tests.

/// Numbers between −½ and ½ that look random; the same for the same seed.
pub(crate) fn noise(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 - 0.5
    };
    std::iter::repeat_with(next).take(len).collect()
}
