//! What may change the logits of steps, before tokens are chosen from them or scored.

/// Changes the logits of steps before their tokens are chosen.
pub trait Restore: Sync {
    /// What is remembered of one sequence.
    type State: Send;

    /// Layers whose leaving hidden states are asked for, ascending.
    fn layers(&self) -> &[usize];

    /// Before the first step of a sequence: the one that continues the prompt of this number.
    fn begin(&self, prompt: usize) -> Self::State;

    /// One step of a sequence.
    fn restore(&self, state: &mut Self::State, step: Step<'_>);
}

/// A step before its token is chosen.
#[derive(Debug)]
pub struct Step<'a> {
    /// Tokens in the caches, the one fed last included.
    pub length: usize,
    /// `[hidden_size]`: the hidden state behind the final norm.
    pub last: &'a [f32],
    /// One `[hidden_size]` a layer of [`Restore::layers`], ascending, not normed.
    pub earlier: &'a [&'a [f32]],
    /// `[vocab_size]`, to be changed in place.
    pub logits: &'a mut [f32],
}

/// Leaves logits as they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsIs;

impl Restore for AsIs {
    type State = ();

    fn layers(&self) -> &[usize] {
        &[]
    }

    fn begin(&self, _prompt: usize) {}

    fn restore(&self, (): &mut (), _step: Step<'_>) {}
}

/// Something else for each prompt, or nothing, so that sequences with and without share their steps.
///
/// Logits that nothing is named for stay as they are, to the bit.
pub struct EachIts<'a, R> {
    /// One a prompt.
    of: Vec<Option<&'a R>>,
    /// All that any of them asks for.
    layers: Vec<usize>,
}

impl<'a, R: Restore> EachIts<'a, R> {
    /// One entry a prompt.
    pub fn new(of: Vec<Option<&'a R>>) -> Self {
        let mut layers: Vec<usize> =
            of.iter().flatten().flat_map(|restore| restore.layers()).copied().collect();
        layers.sort_unstable();
        layers.dedup();
        Self { of, layers }
    }
}

/// One sequence whose logits are changed.
pub struct Its<'a, R: Restore> {
    restore: &'a R,
    state: R::State,
}

impl<'a, R: Restore> Restore for EachIts<'a, R> {
    type State = Option<Its<'a, R>>;

    fn layers(&self) -> &[usize] {
        &self.layers
    }

    fn begin(&self, prompt: usize) -> Self::State {
        let restore = self.of.get(prompt).copied().flatten()?;
        Some(Its { restore, state: restore.begin(prompt) })
    }

    fn restore(&self, its: &mut Self::State, step: Step<'_>) {
        let Some(Its { restore, state }) = its else { return };
        let asked =
            self.layers.iter().zip(step.earlier).filter(|(layer, _)| restore.layers().contains(layer));
        let earlier: Vec<&[f32]> = asked.map(|(_, &states)| states).collect();
        restore.restore(state, Step { earlier: &earlier, ..step });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds to the first logit what its layer left, and how many steps there were before.
    struct Counting(Vec<usize>);

    impl Restore for Counting {
        type State = f32;

        fn layers(&self) -> &[usize] {
            &self.0
        }

        fn begin(&self, prompt: usize) -> f32 {
            prompt as f32 * 100.0
        }

        fn restore(&self, steps: &mut f32, step: Step<'_>) {
            step.logits[0] += step.earlier.iter().map(|states| states[0]).sum::<f32>() + *steps;
            *steps += 1.0;
        }
    }

    #[test]
    fn each_prompt_has_its_own_and_gets_the_layers_that_it_asked_for() {
        let (deep, shallow) = (Counting(vec![1, 5]), Counting(vec![3]));
        let all = EachIts::new(vec![Some(&deep), None, Some(&shallow)]);
        assert_eq!(all.layers(), [1, 3, 5]);
        let earlier: [&[f32]; 3] = [&[10.0], &[20.0], &[40.0]];
        let mut begun: Vec<_> = (0..4).map(|prompt| all.begin(prompt)).collect();
        let mut step = |prompt: usize| {
            let mut logits = [0.5_f32];
            let step = Step { length: 7, last: &[0.0], earlier: &earlier, logits: &mut logits };
            all.restore(&mut begun[prompt], step);
            logits[0].to_bits()
        };
        // Sums of small numbers are exact, and untouched logits stay as they are, to the bit.
        assert_eq!([0, 1, 2, 3].map(&mut step), [50.5_f32, 0.5, 220.5, 0.5].map(f32::to_bits));
        assert_eq!([0, 1, 2, 3].map(&mut step), [51.5_f32, 0.5, 221.5, 0.5].map(f32::to_bits));
    }
}
