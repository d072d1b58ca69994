use burn::prelude::*;
use burn::tensor::TensorData;
use half::{bf16, f16};

use super::layer::{Layer, Linear, QkNorm};
use crate::model::ModelError;
use crate::model::config::Config;
use crate::model::ops::{DecoderBackend, WeightMatrix, from_host};
use crate::model::weights::{Checkpoint, HalfMatrix, Weight, WeightType};

/// Reads tensors of a checkpoint onto a device.
pub(super) struct Loader<'a, B: DecoderBackend> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) device: &'a B::Device,
    /// Of matrices; vectors are f32.
    pub(super) hold: Hold,
    /// Of the layers' matrices, which are f32 then.
    pub(super) change: Option<&'a Change<'a>>,
}

/// Changes rows of weights in place, given how many elements a row has.
pub(super) type Change<'a> = dyn Fn(&mut [f32], usize) + 'a;

/// What matrices are held as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Rounded to a type.
    As(WeightType),
    /// As they are stored, where that is f16 or bf16 and the device computes with it; else as f32.
    AsStored,
}

/// Projections of one input, stacked: the name and the outputs of each.
struct Stack {
    parts: Vec<(String, usize)>,
    input: usize,
}

impl Stack {
    fn rows(&self) -> usize {
        self.parts.iter().map(|(_, output)| output).sum()
    }
}

/// The products of a layer.
struct Stacks {
    qkv: Stack,
    output: Stack,
    gate_up: Stack,
    down: Stack,
}

impl Stacks {
    fn of(config: &Config, layer: usize) -> Self {
        let (hidden, inner, shape) = (config.hidden_size, config.intermediate_size, config.head_shape());
        let stack = |input: usize, parts: &[(&str, usize)]| {
            let parts = parts.iter().map(|(part, output)| (in_layer(layer, part), *output));
            Stack { parts: parts.collect(), input }
        };
        let (q, kv) = (shape.q_width(), shape.kv_width());
        Self {
            qkv: stack(
                hidden,
                &[("self_attn.q_proj", q), ("self_attn.k_proj", kv), ("self_attn.v_proj", kv)],
            ),
            output: stack(q, &[("self_attn.o_proj", hidden)]),
            gate_up: stack(hidden, &[("mlp.gate_proj", inner), ("mlp.up_proj", inner)]),
            down: stack(inner, &[("mlp.down_proj", hidden)]),
        }
    }
}

const NORMS: [&str; 2] = ["input_layernorm.weight", "post_attention_layernorm.weight"];

fn in_layer(layer: usize, part: &str) -> String {
    format!("model.layers.{layer}.{part}")
}

impl<B: DecoderBackend> Loader<'_, B> {
    pub(super) fn layer(&self, config: &Config, index: usize) -> Result<Layer<B>, ModelError> {
        let hidden = config.hidden_size;
        let stacks = Stacks::of(config, index);
        let [attention_norm, mlp_norm] = NORMS.map(|norm| self.vector(&in_layer(index, norm), hidden));
        Ok(Layer {
            attention_norm: attention_norm?,
            qkv: self.linear(&stacks.qkv)?,
            qk_norm: self.qk_norm(config, index)?,
            output: self.linear(&stacks.output)?,
            mlp_norm: mlp_norm?,
            gate_up: self.linear(&stacks.gate_up)?,
            down: self.linear(&stacks.down)?,
        })
    }

    fn qk_norm(&self, config: &Config, layer: usize) -> Result<Option<QkNorm>, ModelError> {
        let weight = |part: &str| {
            let name = in_layer(layer, &format!("self_attn.{part}.weight"));
            self.checkpoint.optional_tensor(&name, &[config.head_dim])
        };
        Ok(weight("q_norm")?.zip(weight("k_norm")?).map(|(q, k)| QkNorm { q, k }))
    }

    /// The bias of a layer's keys as it stands in a cached key; `None` where there is none, or a norm follows it.
    pub(super) fn key_bias(&self, config: &Config, layer: usize) -> Result<Option<Vec<f32>>, ModelError> {
        if self.qk_norm(config, layer)?.is_some() {
            return Ok(None);
        }
        let name = in_layer(layer, "self_attn.k_proj.bias");
        self.checkpoint.optional_tensor(&name, &[config.head_shape().kv_width()])
    }

    /// Several projections of the same input, stacked; biases too, zeros where one of them has none.
    fn linear(&self, stack: &Stack) -> Result<Linear<B>, ModelError> {
        let (mut bias, mut any_bias) = (Vec::new(), false);
        for (name, output) in &stack.parts {
            match self.checkpoint.optional_tensor(&format!("{name}.bias"), &[*output])? {
                Some(part) => {
                    any_bias = true;
                    bias.extend(part);
                }
                None => bias.resize(bias.len() + output, 0.0),
            }
        }
        let bias = any_bias.then(|| from_host(bias, 1, self.device));
        let weight = match self.change {
            None => self.stacked(stack)?,
            Some(change) => self.changed(stack, change)?,
        };
        Ok(Linear { weight, bias })
    }

    fn changed(&self, stack: &Stack, change: &Change<'_>) -> Result<WeightMatrix<B>, ModelError> {
        let rows = stack.rows();
        let mut elements = self.elements(stack, rows)?;
        change(&mut elements, stack.input);
        Ok(WeightMatrix::Full(from_host(elements, rows, self.device)))
    }

    pub(super) fn matrix(
        &self,
        name: &str,
        rows: usize,
        input: usize,
    ) -> Result<WeightMatrix<B>, ModelError> {
        self.stacked(&Stack { parts: vec![(name.to_owned(), rows)], input })
    }

    fn stacked(&self, stack: &Stack) -> Result<WeightMatrix<B>, ModelError> {
        let rows = stack.rows();
        Ok(match self.held(stack) {
            WeightType::F32 => WeightMatrix::Full(from_host(self.elements(stack, rows)?, rows, self.device)),
            WeightType::F16 => {
                WeightMatrix::Half(HalfMatrix::f16(self.elements::<f16>(stack, rows)?, stack.input))
            }
            WeightType::Bf16 => {
                WeightMatrix::Half(HalfMatrix::bf16(self.elements::<bf16>(stack, rows)?, stack.input))
            }
        })
    }

    fn held(&self, stack: &Stack) -> WeightType {
        let stored = |(name, _): &(String, usize)| self.checkpoint.stored(&format!("{name}.weight"));
        match self.hold {
            Hold::As(held) => held,
            Hold::AsStored if B::HOLDS_HALVES => {
                let mut all = stack.parts.iter().map(stored);
                let first = all.next().flatten().unwrap_or_default();
                if all.all(|other| other == Some(first)) { first } else { WeightType::F32 }
            }
            Hold::AsStored => WeightType::F32,
        }
    }

    /// Whether all that a layer cannot do without is there, in its shape.
    pub(super) fn check(&self, config: &Config, index: usize) -> Result<(), ModelError> {
        let Stacks { qkv, output, gate_up, down } = Stacks::of(config, index);
        for norm in NORMS {
            self.checkpoint.check(&in_layer(index, norm), &[config.hidden_size])?;
        }
        for stack in [qkv, output, gate_up, down] {
            for (name, output) in &stack.parts {
                self.checkpoint.check(&format!("{name}.weight"), &[*output, stack.input])?;
            }
        }
        Ok(())
    }

    fn elements<W: Weight>(&self, stack: &Stack, rows: usize) -> Result<Vec<W>, ModelError> {
        let mut elements = Vec::with_capacity(rows * stack.input);
        for (name, output) in &stack.parts {
            self.checkpoint.append(&format!("{name}.weight"), &[*output, stack.input], &mut elements)?;
        }
        Ok(elements)
    }

    pub(super) fn vector(&self, name: &str, len: usize) -> Result<Tensor<B, 1>, ModelError> {
        let data = self.checkpoint.tensor(name, &[len])?;
        Ok(Tensor::from_data(TensorData::new(data, [len]), self.device))
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn_flex::Flex;

    use super::super::Decoder;
    use super::*;
    use crate::model::test_data::tiny_directory;
    use crate::model::to_host;

    #[test]
    fn a_change_meets_every_projection_of_a_layer_and_nothing_else() {
        let folder = tiny_directory(|_| {});
        let checkpoint = Checkpoint::open(folder.path()).expect("a model");
        let device = Default::default();
        let decoder: Decoder<Flex> = Decoder::load(&checkpoint, &device).expect("weights");
        let silent: Decoder<Flex> =
            Decoder::load_changed(&checkpoint, &device, &|weights, _| weights.fill(0.0)).expect("weights");
        let states = |decoder: &Decoder<Flex>| {
            to_host(decoder.forward(&[1, 4, 5], &mut decoder.full_caches()).expect("states"))
        };
        // Layers that add nothing: what comes out is the normed embedding.
        let embedded = to_host(decoder.final_norm(decoder.embed(&[1, 4, 5])));
        assert_eq!(states(&silent), embedded);
        assert_ne!(states(&decoder), embedded);
        let same = Decoder::load_changed(&checkpoint, &device, &|_, _| ()).expect("weights");
        assert_eq!(states(&same), states(&decoder));
    }

    #[test]
    fn a_change_is_told_how_long_a_row_is() {
        let folder = tiny_directory(|_| {});
        let checkpoint = Checkpoint::open(folder.path()).expect("a model");
        let seen = std::cell::RefCell::new(Vec::new());
        let change =
            |weights: &mut [f32], width: usize| seen.borrow_mut().push((weights.len() / width, width));
        Decoder::<Flex>::load_changed(&checkpoint, &Default::default(), &change).expect("weights");
        assert_eq!(seen.into_inner(), [(8 + 4 + 4, 8), (8, 8), (12 + 12, 8), (8, 12)]);
    }
}
