use super::config::Rope;

/// Cosines and sines of the rotary embedding for consecutive positions.
#[derive(Clone, Debug)]
pub struct Angles {
    /// `[positions, head_dim / 2]`
    pub cos: Vec<f32>,
    /// `[positions, head_dim / 2]`
    pub sin: Vec<f32>,
}

impl Angles {
    /// The angles of positions `start..start + len`.
    pub fn new(rope: &Rope, head_dim: usize, start: usize, len: usize) -> Self {
        Self::at(rope, head_dim, start..start + len)
    }

    /// The angles of some positions, in the order given.
    ///
    /// Position times frequency is rounded to f32 before the cosine, as the reference implementation does:
    /// at long contexts the exact product would turn keys by a visibly different angle.
    pub fn at(rope: &Rope, head_dim: usize, positions: impl IntoIterator<Item = usize>) -> Self {
        let (frequencies, scale) = rope.inverse_frequencies(head_dim);
        let mut angles = Self { cos: Vec::new(), sin: Vec::new() };
        for position in positions {
            for &frequency in &frequencies {
                let (sin, cos) = f64::from(position as f32 * frequency).sin_cos();
                angles.cos.push(cos as f32 * scale);
                angles.sin.push(sin as f32 * scale);
            }
        }
        angles
    }
}
