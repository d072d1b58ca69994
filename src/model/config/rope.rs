use std::f64::consts::TAU;

/// Rotary position embedding: its base and how it is stretched.
#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    /// Base of the frequencies, `rope_theta`.
    pub theta: f64,
    /// How frequencies are changed for contexts longer than the first training's.
    pub scaling: Scaling,
}

/// A change to the rotary frequencies, in the parameters of Hugging Face's `rope_parameters`.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// None.
    Default,
    /// All frequencies divided by one factor.
    Linear {
        /// The divisor.
        factor: f64,
    },
    /// Low frequencies divided, high ones kept, a ramp between (Llama 3.1).
    Llama3 {
        /// Divisor of the low frequencies.
        factor: f64,
        /// Wavelengths above `original / low_freq_factor` count as low frequencies.
        low_freq_factor: f64,
        /// Wavelengths below `original / high_freq_factor` count as high frequencies.
        high_freq_factor: f64,
        /// Context of the first training, tokens.
        original_max_position_embeddings: usize,
    },
    /// Per-dimension interpolation with a scale on cos and sin (YaRN, Peng et al., arXiv:2309.00071).
    Yarn {
        /// Divisor of the interpolated frequencies.
        factor: f64,
        /// Context of the first training, tokens.
        original_max_position_embeddings: usize,
        /// Rotations within the original context above which a frequency is kept.
        beta_fast: f64,
        /// Rotations below which it is interpolated.
        beta_slow: f64,
        /// Whether the ramp's ends are rounded to whole dimensions.
        truncate: bool,
        /// Scale on cos and sin, resolved from `attention_factor`, `mscale` and `factor`.
        attention_factor: f64,
    },
    /// Each frequency divided by its own factor: what a GGUF file carries as `rope_freqs.weight`.
    Factors(Vec<f32>),
}

impl Rope {
    /// Names of the scalings that can be read.
    pub const KNOWN: &str = "default, linear, llama3, yarn";

    /// Inverse frequencies, `head_dim / 2` of them, in radians per token, and the scale on cos and sin.
    ///
    /// Computed in f64 and rounded once. Source: the `_compute_*_rope_parameters` functions of transformers.
    pub fn inverse_frequencies(&self, head_dim: usize) -> (Vec<f32>, f32) {
        let plain: Vec<f64> =
            (0..head_dim / 2).map(|i| self.theta.powf(-2.0 * i as f64 / head_dim as f64)).collect();
        let scaled = self.scale(plain, head_dim);
        (scaled.into_iter().map(|frequency| frequency as f32).collect(), self.attention_scale())
    }

    fn attention_scale(&self) -> f32 {
        match self.scaling {
            Scaling::Yarn { attention_factor, .. } => attention_factor as f32,
            _ => 1.0,
        }
    }

    fn scale(&self, plain: Vec<f64>, head_dim: usize) -> Vec<f64> {
        match &self.scaling {
            Scaling::Default => plain,
            Scaling::Linear { factor } => plain.into_iter().map(|f| f / factor).collect(),
            Scaling::Factors(factors) => {
                plain.into_iter().zip(factors).map(|(f, &factor)| f / f64::from(factor)).collect()
            }
            &Scaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: original,
            } => {
                let context = original as f64;
                let one = |f| llama3(f, factor, low_freq_factor, high_freq_factor, context);
                plain.into_iter().map(one).collect()
            }
            &Scaling::Yarn { factor, .. } => {
                let (low, high) = self.yarn_ramp(head_dim);
                let blend = |(i, f): (usize, f64)| {
                    let interpolated = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    f / factor * interpolated + f * (1.0 - interpolated)
                };
                plain.into_iter().enumerate().map(blend).collect()
            }
        }
    }

    /// First and last dimension pair of YaRN's ramp.
    fn yarn_ramp(&self, head_dim: usize) -> (f64, f64) {
        let Scaling::Yarn { original_max_position_embeddings, beta_fast, beta_slow, truncate, .. } =
            self.scaling
        else {
            return (0.0, 1.0);
        };
        let (dim, context) = (head_dim as f64, original_max_position_embeddings as f64);
        // The pair that turns `rotations` times within the original context.
        let pair = |rotations: f64| dim * (context / (rotations * TAU)).ln() / (2.0 * self.theta.ln());
        let (low, high) = (pair(beta_fast), pair(beta_slow));
        let (low, high) = if truncate { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(dim - 1.0));
        // As in transformers: an empty ramp becomes a step.
        if (high - low).abs() < f64::EPSILON { (low, high + 0.001) } else { (low, high) }
    }
}

/// One frequency under Llama 3's scaling.
fn llama3(frequency: f64, factor: f64, low: f64, high: f64, context: f64) -> f64 {
    let wavelength = TAU / frequency;
    if wavelength < context / high {
        return frequency;
    }
    if wavelength > context / low {
        return frequency / factor;
    }
    let kept = (context / wavelength - low) / (high - low);
    (1.0 - kept) * frequency / factor + kept * frequency
}

/// YaRN's scale on cos and sin where no `attention_factor` is given.
///
/// `0.1 · ln(factor) + 1`; with both `mscale` and `mscale_all_dim` (not zero), the quotient of two such terms.
pub(super) fn yarn_attention_factor(factor: f64, mscale: Option<f64>, mscale_all_dim: Option<f64>) -> f64 {
    let term = |mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
    match (mscale.filter(|&m| m != 0.0), mscale_all_dim.filter(|&m| m != 0.0)) {
        (Some(one), Some(all)) => term(one) / term(all),
        _ => term(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(theta: f64, scaling: Scaling, head_dim: usize) -> Vec<f32> {
        Rope { theta, scaling }.inverse_frequencies(head_dim).0
    }

    #[test]
    fn plain_frequencies_fall_geometrically() {
        assert_eq!(frequencies(10_000.0, Scaling::Default, 8), [1.0, 0.1, 0.01, 0.001]);
    }

    #[test]
    fn linear_divides_all_and_factors_divide_each() {
        assert_eq!(frequencies(100.0, Scaling::Linear { factor: 4.0 }, 4), [0.25, 0.025]);
        assert_eq!(frequencies(100.0, Scaling::Factors(vec![1.0, 2.0]), 4), [1.0, 0.05]);
    }

    #[test]
    fn llama3_keeps_high_divides_low_and_blends_between() {
        let scaling = Scaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 64,
        };
        // Wavelengths 6.28, 62.8 (between 16 and 64), 628.
        let found = frequencies(1000.0, scaling, 6);
        let kept = (64.0 / (TAU / 0.1) - 1.0) / 3.0;
        let blended = (1.0 - kept) * 0.1 / 8.0 + kept * 0.1;
        assert_eq!(found, [1.0, blended as f32, 0.01 / 8.0]);
    }

    #[test]
    fn yarn_keeps_fast_pairs_and_interpolates_slow_ones() {
        let scaling = Scaling::Yarn {
            factor: 2.0,
            original_max_position_embeddings: 128,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            attention_factor: yarn_attention_factor(2.0, None, None),
        };
        let rope = Rope { theta: 1e6, scaling };
        // dim 16: pair(32) = 16·ln(128/201)/27.6 < 0 → 0; pair(1) = 16·ln(20.37)/27.63 = 1.745 → 2.
        let (found, scale) = rope.inverse_frequencies(16);
        let plain = Rope { theta: 1e6, scaling: Scaling::Default }.inverse_frequencies(16).0;
        assert!((found[0] / plain[0] - 1.0).abs() < 1e-6);
        assert!((found[1] / plain[1] - 0.75).abs() < 1e-6);
        assert!((2..8).all(|i| (found[i] / plain[i] - 0.5).abs() < 1e-6));
        assert!((f64::from(scale) - (0.1 * 2f64.ln() + 1.0)).abs() < 1e-7);
    }

    #[test]
    fn two_mscales_give_a_quotient() {
        let quotient = yarn_attention_factor(40.0, Some(0.707), Some(1.0));
        let expected = (0.0707 * 40f64.ln() + 1.0) / (0.1 * 40f64.ln() + 1.0);
        assert!((quotient - expected).abs() < 1e-12);
        assert!((yarn_attention_factor(0.5, None, None) - 1.0).abs() < 1e-12);
    }
}
