use kvtune_kernels::statistics::Deviation;
use serde::{Deserialize, Serialize};

use crate::precision::PrecisionPair;

/// Which mean of relative errors drives pruning and clustering; both are always measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Σ|x − x̂| / Σ|x| (**ours**): not ruled by elements near zero.
    #[default]
    L1,
    /// mean(|x − x̂| / |x|), as the paper writes it, with |x| floored at 1e-6 · rms(x).
    Elementwise,
}

/// The errors of one layer, or of one of its heads, at one pair; unitless, 0 = lossless.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Keys, by `l1`.
    pub e_k_l1: f64,
    /// Keys, by `elementwise`.
    pub e_k_elementwise: f64,
    /// Values, by `l1`.
    pub e_v_l1: f64,
    /// Values, by `elementwise`.
    pub e_v_elementwise: f64,
    /// Attention weights: mean |a − â| over the entries a query may see.
    pub e_a: f64,
    /// Attention outputs before the output projection, by `l1`.
    pub e_o_l1: f64,
    /// Attention outputs, by `elementwise`.
    pub e_o_elementwise: f64,
}

impl Errors {
    /// The attention-output error by one metric.
    pub fn e_o(&self, metric: Metric) -> f64 {
        match metric {
            Metric::L1 => self.e_o_l1,
            Metric::Elementwise => self.e_o_elementwise,
        }
    }
}

/// Sums behind [`Errors`] of one layer at one pair, head by head; sums of several prompts add up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerErrors {
    /// By KV head.
    pub keys: Vec<Deviation>,
    /// By KV head.
    pub values: Vec<Deviation>,
    /// Σ|a − â| and number of visible entries, by query head.
    pub attention: Vec<(f64, u64)>,
    /// By query head.
    pub outputs: Vec<Deviation>,
}

impl LayerErrors {
    /// Takes in another prompt's sums.
    pub fn add(&mut self, other: &Self) {
        add_each(&mut self.keys, &other.keys);
        add_each(&mut self.values, &other.values);
        add_each(&mut self.outputs, &other.outputs);
        self.attention.resize(other.attention.len(), (0.0, 0));
        for (mine, theirs) in self.attention.iter_mut().zip(&other.attention) {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
    }

    /// The whole layer.
    pub fn errors(&self) -> Errors {
        let attention = self.attention.iter().fold((0.0, 0), |sum, head| (sum.0 + head.0, sum.1 + head.1));
        errors(&pooled(&self.keys), &pooled(&self.values), attention, &pooled(&self.outputs))
    }

    /// One query head, with the KV head that it reads.
    pub fn head(&self, head: usize) -> Errors {
        let kv_head = head * self.keys.len() / self.outputs.len();
        errors(&self.keys[kv_head], &self.values[kv_head], self.attention[head], &self.outputs[head])
    }

    /// Number of query heads.
    pub fn n_heads(&self) -> usize {
        self.outputs.len()
    }
}

/// Takes in another part's sums, head by head.
pub(super) fn add_each(mine: &mut Vec<Deviation>, theirs: &[Deviation]) {
    mine.resize(theirs.len(), Deviation::default());
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        mine.add(theirs);
    }
}

fn pooled(heads: &[Deviation]) -> Deviation {
    let mut sum = Deviation::default();
    for head in heads {
        sum.add(head);
    }
    sum
}

fn errors(keys: &Deviation, values: &Deviation, attention: (f64, u64), outputs: &Deviation) -> Errors {
    Errors {
        e_k_l1: l1(keys),
        e_k_elementwise: elementwise(keys),
        e_v_l1: l1(values),
        e_v_elementwise: elementwise(values),
        e_a: attention.0 / attention.1.max(1) as f64,
        e_o_l1: l1(outputs),
        e_o_elementwise: elementwise(outputs),
    }
}

/// 0 when nothing differs, even from an all-zero reference; infinite when only the reference is zero.
fn l1(deviation: &Deviation) -> f64 {
    if deviation.absolute > 0.0 { deviation.absolute / deviation.magnitude } else { 0.0 }
}

fn elementwise(deviation: &Deviation) -> f64 {
    if deviation.absolute > 0.0 { deviation.relative / deviation.elements as f64 } else { 0.0 }
}

/// The sums of every layer at every pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The pairs, in the order of a layer's row.
    pub pairs: Vec<PrecisionPair>,
    /// `[layer][pair]`
    pub layers: Vec<Vec<LayerErrors>>,
}

impl Table {
    /// Takes in another prompt's sums; both tables are of the same pairs.
    pub fn add(&mut self, other: &Self) {
        if self.layers.is_empty() {
            *self = other.clone();
            return;
        }
        for (mine, theirs) in self.layers.iter_mut().flatten().zip(other.layers.iter().flatten()) {
            mine.add(theirs);
        }
    }

    /// Several prompts as one: l1 pools sums, elementwise means run over all elements.
    pub fn pooled<'a>(tables: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut pooled = Self::default();
        for table in tables {
            pooled.add(table);
        }
        pooled
    }

    /// e_o of every layer at one pair.
    pub fn output_errors(&self, pair: usize, metric: Metric) -> Vec<f64> {
        self.layers.iter().map(|layer| layer[pair].errors().e_o(metric)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "quotients of small integers by powers of two are exact")]
mod tests {
    use super::*;

    fn deviation(absolute: f64, magnitude: f64, relative: f64, elements: u64) -> Deviation {
        Deviation { absolute, magnitude, relative, elements }
    }

    fn layer(outputs: Vec<Deviation>) -> LayerErrors {
        let one = vec![deviation(1.0, 2.0, 3.0, 2)];
        LayerErrors { keys: one.clone(), values: one, attention: vec![(1.0, 4), (3.0, 4)], outputs }
    }

    #[test]
    fn l1_pools_sums_over_heads_and_prompts() {
        let mut sum = layer(vec![deviation(1.0, 4.0, 0.5, 2), deviation(3.0, 4.0, 1.5, 2)]);
        assert_eq!(sum.errors().e_o_l1, 0.5);
        assert_eq!(sum.errors().e_o_elementwise, 0.5);
        assert_eq!(sum.errors().e_a, 0.5);
        sum.add(&layer(vec![deviation(0.0, 4.0, 0.0, 2), deviation(0.0, 4.0, 0.0, 2)]));
        assert_eq!(sum.errors().e_o_l1, 0.25);
        assert_eq!(sum.head(1).e_o_l1, 3.0 / 8.0);
        assert_eq!(sum.head(1).e_a, 0.75);
    }

    #[test]
    fn an_all_zero_layer_is_lossless_when_it_stays_zero() {
        let zero = layer(vec![deviation(0.0, 0.0, 0.0, 2)]);
        assert_eq!(zero.errors().e_o_l1, 0.0);
    }
}
