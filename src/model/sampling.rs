use std::cmp::Ordering;

use kvtune_kernels::statistics::arg_max;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How the next token is chosen from the logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// What logits are divided by before they become probabilities; 0 takes the most likely token.
    pub temperature: f64,
    /// Only so many of the most likely tokens may come.
    pub top_k: Option<usize>,
    /// Only the fewest most likely tokens that together have this probability may come; 1 allows all.
    pub top_p: f64,
    /// Where the random numbers start; a prompt's own do not depend on the prompts beside it.
    pub seed: u64,
}

impl Sampling {
    /// The most likely token, always.
    pub const GREEDY: Self = Self { temperature: 0.0, top_k: None, top_p: 1.0, seed: 0 };
}

impl Default for Sampling {
    fn default() -> Self {
        Self::GREEDY
    }
}

/// Chooses the tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Sampler {
    sampling: Sampling,
    random: ChaCha8Rng,
}

/// A token with its probability, times a factor that all have in common.
type Weighted = (u32, f64);

impl Sampler {
    /// The sampler of prompt number `prompt`.
    pub fn new(sampling: Sampling, prompt: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(sampling.seed);
        random.set_stream(prompt as u64);
        Self { sampling, random }
    }

    /// The next token; of equal logits the first where the choice is greedy.
    ///
    /// # Panics
    /// Never for the logits of a model, whose vocabulary is not empty.
    pub fn choose(&mut self, logits: &[f32]) -> u32 {
        let most_likely = arg_max(logits).expect("a vocabulary is not empty") as u32;
        if self.sampling.is_greedy() {
            return most_likely;
        }
        let allowed = self.sampling.allowed(logits, logits[most_likely as usize]);
        let mut left = self.random.random::<f64>() * total(&allowed);
        for (token, weight) in allowed {
            left -= weight;
            if left < 0.0 {
                return token;
            }
        }
        most_likely
    }
}

impl Sampling {
    /// What is no number is no temperature either.
    fn is_greedy(&self) -> bool {
        self.temperature.is_nan() || self.temperature <= 0.0
    }

    /// The tokens that may come, given the largest logit.
    fn allowed(&self, logits: &[f32], largest: f32) -> Vec<Weighted> {
        let weight = |&logit: &f32| (f64::from(logit - largest) / self.temperature).exp();
        let mut allowed: Vec<Weighted> = (0..).zip(logits.iter().map(weight)).collect();
        if let Some(top_k) = self.top_k.map(|k| k.max(1)).filter(|&k| k < allowed.len()) {
            allowed.select_nth_unstable_by(top_k, most_likely_first);
            allowed.truncate(top_k);
        }
        if self.top_p < 1.0 {
            keep_nucleus(&mut allowed, self.top_p);
        }
        allowed
    }
}

fn keep_nucleus(tokens: &mut Vec<Weighted>, top_p: f64) {
    let total = total(tokens);
    // All tokens below this weight have less than 1 − p together: the nucleus is among the others, which are few.
    let least = (1.0 - top_p) * total / tokens.len() as f64;
    tokens.retain(|&(_, weight)| weight >= least);
    tokens.sort_unstable_by(most_likely_first);
    let mut before = 0.0;
    let is_inside = |&&(_, weight): &&Weighted| {
        let inside = before < top_p * total;
        before += weight;
        inside
    };
    let inside = tokens.iter().take_while(is_inside).count();
    tokens.truncate(inside.max(1));
}

fn total(tokens: &[Weighted]) -> f64 {
    tokens.iter().map(|&(_, weight)| weight).sum()
}

fn most_likely_first(a: &Weighted, b: &Weighted) -> Ordering {
    b.1.total_cmp(&a.1).then(a.0.cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probabilities 1/2, 1/8, 1/4, 1/8 at temperature 1.
    fn logits() -> Vec<f32> {
        [0.5_f32, 0.125, 0.25, 0.125].map(f32::ln).to_vec()
    }

    fn shares(sampling: Sampling) -> [f64; 4] {
        const DRAWS: usize = 20_000;
        let mut sampler = Sampler::new(sampling, 0);
        let mut counts = [0_usize; 4];
        (0..DRAWS).for_each(|_| counts[sampler.choose(&logits()) as usize] += 1);
        counts.map(|count| count as f64 / DRAWS as f64)
    }

    fn assert_near(found: [f64; 4], expected: [f64; 4]) {
        for (found, expected) in found.iter().zip(expected) {
            // Three standard deviations of a share of 20,000 draws are 0.011 at most.
            assert!((found - expected).abs() <= 0.011, "{found} for {expected}");
        }
    }

    #[test]
    fn zero_temperature_takes_the_most_likely_token() {
        assert_near(shares(Sampling::GREEDY), [1.0, 0.0, 0.0, 0.0]);
        assert_near(shares(Sampling { temperature: f64::NAN, ..Sampling::GREEDY }), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn tokens_come_as_often_as_the_model_says() {
        let sampling = Sampling { temperature: 1.0, ..Sampling::GREEDY };
        assert_near(shares(sampling), [0.5, 0.125, 0.25, 0.125]);
        // At one half the probabilities are squared: 16 : 1 : 4 : 1.
        let cold = Sampling { temperature: 0.5, ..sampling };
        assert_near(shares(cold), [16.0 / 22.0, 1.0 / 22.0, 4.0 / 22.0, 1.0 / 22.0]);
    }

    #[test]
    fn top_k_leaves_the_k_most_likely() {
        let sampling = Sampling { temperature: 1.0, top_k: Some(2), ..Sampling::GREEDY };
        assert_near(shares(sampling), [2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0]);
        let none = Sampling { top_k: Some(0), ..sampling };
        assert_near(shares(none), [1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn top_p_leaves_the_fewest_tokens_that_reach_it() {
        let sampling = Sampling { temperature: 1.0, top_p: 0.7, ..Sampling::GREEDY };
        assert_near(shares(sampling), [2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0]);
        assert_near(shares(Sampling { top_p: 0.5, ..sampling }), [1.0, 0.0, 0.0, 0.0]);
        assert_near(shares(Sampling { top_p: -1.0, ..sampling }), [1.0, 0.0, 0.0, 0.0]);
        // The third place goes to the first of two equals.
        assert_near(shares(Sampling { top_p: 0.8, ..sampling }), [4.0 / 7.0, 1.0 / 7.0, 2.0 / 7.0, 0.0]);
    }

    #[test]
    fn a_seed_and_a_prompt_fix_the_draws() {
        let draws = |seed, prompt| {
            let sampling = Sampling { temperature: 1.0, seed, ..Sampling::GREEDY };
            let mut sampler = Sampler::new(sampling, prompt);
            (0..40).map(|_| sampler.choose(&logits())).collect::<Vec<_>>()
        };
        assert_eq!(draws(3, 1), draws(3, 1));
        assert_ne!(draws(3, 1), draws(3, 2));
        assert_ne!(draws(3, 1), draws(4, 1));
    }
}
