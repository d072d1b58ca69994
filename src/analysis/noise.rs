//! Normal noise from seeds.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Standard normal numbers, the same for the same seed and stream on every platform.
pub(super) struct Normal(ChaCha8Rng);

impl Normal {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Self(random)
    }

    /// By Box and Muller.
    pub(super) fn draw(&mut self) -> f64 {
        let (radius, angle): (f64, f64) = (self.0.random(), self.0.random());
        // In (0, 1], whose logarithm exists.
        (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    }

    /// An even number between two.
    pub(super) fn between(&mut self, low: f64, high: f64) -> f64 {
        self.0.random_range(low..high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_mean_zero_and_variance_one() {
        let mut normal = Normal::new(3, 1);
        let draws: Vec<f64> = (0..20_000).map(|_| normal.draw()).collect();
        let mean = draws.iter().sum::<f64>() / 20_000.0;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.04, "{mean} {variance}");
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let first = |stream| Normal::new(0, stream).draw().to_bits();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }
}
