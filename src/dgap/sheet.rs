use kvtune_kernels::statistics::{arg_max, divergence, log_sum_exp};

use crate::trace::top_k;

/// Candidates of each run that a position keeps: enough for the largest top K, and for what full precision favors.
pub const HELD: usize = 64;

/// What both runs of a model say at the positions of one document, under teacher forcing.
///
/// Logits are kept relative to the largest of their run, so that small types keep the gaps and a constant added to
/// all of them is gone. With T positions and `held` candidates, tables are `[T, held]`, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Candidates a row.
    pub held: usize,
    /// Ids of the largest quantized logits, largest first.
    pub ids: Vec<u32>,
    /// Their quantized logits.
    pub logits: Vec<f32>,
    /// Their full-precision logits.
    pub full: Vec<f32>,
    /// Ids of the largest full-precision logits, largest first.
    pub full_ids: Vec<u32>,
    /// Their full-precision logits.
    pub full_logits: Vec<f32>,
    /// Their quantized logits.
    pub full_quantized: Vec<f32>,
    /// One a position.
    pub rows: Vec<Row>,
}

/// The figures of one position that are over the whole vocabulary.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Row {
    /// Tokens before and at the position.
    pub length: u32,
    /// The token that comes next in the trace.
    pub next: u32,
    /// Its quantized logit.
    pub next_logit: f32,
    /// Its full-precision logit.
    pub next_full: f32,
    /// log Σ exp of the quantized logits.
    pub log_sum: f32,
    /// log Σ exp of the full-precision logits.
    pub full_log_sum: f32,
    /// Entropy of the quantized distribution, nats.
    pub entropy: f32,
    /// Jensen–Shannon divergence among the tokens that are in neither list, beyond that of their sums; bits.
    pub js_rest: f32,
    /// The same of the total variation.
    pub tv_rest: f32,
    /// The same of KL(full ‖ quantized), nats.
    pub kl_rest: f32,
}

impl Row {
    /// How many numbers a row is in a file.
    pub const WIDTH: usize = 10;

    /// As 32-bit words; ids and lengths as they are, the rest as the bits of an f32.
    pub fn words(self) -> [u32; Self::WIDTH] {
        let bits = f32::to_bits;
        [
            self.length,
            self.next,
            bits(self.next_logit),
            bits(self.next_full),
            bits(self.log_sum),
            bits(self.full_log_sum),
            bits(self.entropy),
            bits(self.js_rest),
            bits(self.tv_rest),
            bits(self.kl_rest),
        ]
    }

    /// The row of its words.
    pub fn of_words(words: [u32; Self::WIDTH]) -> Self {
        let [length, next, rest @ ..] = words;
        let [next_logit, next_full, log_sum, full_log_sum, entropy, js_rest, tv_rest, kl_rest] =
            rest.map(f32::from_bits);
        Self {
            length,
            next,
            next_logit,
            next_full,
            log_sum,
            full_log_sum,
            entropy,
            js_rest,
            tv_rest,
            kl_rest,
        }
    }
}

/// One position of a [`Sheet`].
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    /// Ids of the largest quantized logits, largest first.
    pub ids: &'a [u32],
    /// Their quantized logits.
    pub logits: &'a [f32],
    /// Their full-precision logits.
    pub full: &'a [f32],
    /// Ids of the largest full-precision logits, largest first.
    pub full_ids: &'a [u32],
    /// Their full-precision logits.
    pub full_logits: &'a [f32],
    /// Their quantized logits.
    pub full_quantized: &'a [f32],
    /// Figures over the whole vocabulary.
    pub row: Row,
}

impl Sheet {
    /// A sheet without positions.
    pub fn new(held: usize) -> Self {
        Self { held, ..Self::default() }
    }

    /// T, the number of positions.
    pub fn positions(&self) -> usize {
        self.rows.len()
    }

    /// One position.
    pub fn position(&self, index: usize) -> Position<'_> {
        let range = index * self.held..(index + 1) * self.held;
        Position {
            ids: &self.ids[range.clone()],
            logits: &self.logits[range.clone()],
            full: &self.full[range.clone()],
            full_ids: &self.full_ids[range.clone()],
            full_logits: &self.full_logits[range.clone()],
            full_quantized: &self.full_quantized[range],
            row: self.rows[index],
        }
    }

    /// All positions, in order.
    pub fn iter(&self) -> impl Iterator<Item = Position<'_>> {
        (0..self.positions()).map(|index| self.position(index))
    }

    /// Adds a position from the logits of both runs over the whole vocabulary; `length` tokens stand before and at
    /// it, and `next` follows.
    pub fn push(&mut self, quantized: &[f32], full: &[f32], length: usize, next: u32) {
        let (top, full_top) = (largest(quantized), largest(full));
        let best = top_k(quantized, self.held);
        let full_best = top_k(full, self.held);
        for &(id, logit) in &best {
            self.ids.push(id);
            self.logits.push(logit - top);
            self.full.push(full[id as usize] - full_top);
        }
        for &(id, logit) in &full_best {
            self.full_ids.push(id);
            self.full_logits.push(logit - full_top);
            self.full_quantized.push(quantized[id as usize] - top);
        }
        let both = Both::new(quantized, full);
        let mut listed: Vec<u32> = best.iter().chain(&full_best).map(|&(id, _)| id).collect();
        listed.sort_unstable();
        listed.dedup();
        let [js_rest, tv_rest, kl_rest, entropy] = both.rest(&listed).map(|value| value as f32);
        self.rows.push(Row {
            length: length as u32,
            next,
            next_logit: quantized[next as usize] - top,
            next_full: full[next as usize] - full_top,
            log_sum: (both.log_sum - f64::from(top)) as f32,
            full_log_sum: (both.full_log_sum - f64::from(full_top)) as f32,
            entropy,
            js_rest,
            tv_rest,
            kl_rest,
        });
    }
}

fn largest(logits: &[f32]) -> f32 {
    arg_max(logits).map_or(0.0, |index| logits[index])
}

/// Two distributions over one vocabulary.
struct Both<'a> {
    quantized: &'a [f32],
    full: &'a [f32],
    log_sum: f64,
    full_log_sum: f64,
}

impl<'a> Both<'a> {
    fn new(quantized: &'a [f32], full: &'a [f32]) -> Self {
        Self { quantized, full, log_sum: log_sum_exp(quantized), full_log_sum: log_sum_exp(full) }
    }

    /// `(p, q)` of one token, full precision first.
    fn pair(&self, id: usize) -> (f64, f64) {
        let p = (f64::from(self.full[id]) - self.full_log_sum).exp();
        (p, (f64::from(self.quantized[id]) - self.log_sum).exp())
    }

    /// What the divergences of the tokens that are not `listed` (ascending) lose when those are one bin:
    /// Jensen–Shannon (bits), total variation, KL (nats). Then the entropy of the quantized distribution, nats.
    fn rest(&self, listed: &[u32]) -> [f64; 4] {
        let mut listed = listed.iter().peekable();
        let (mut js, mut tv, mut p_sum, mut q_sum) = (0.0, 0.0, 0.0, 0.0);
        let (mut listed_kl, mut entropy) = (0.0, 0.0);
        for id in 0..self.full.len() {
            let (p, q) = self.pair(id);
            entropy -= q * (f64::from(self.quantized[id]) - self.log_sum);
            if listed.next_if(|&&listed| listed as usize == id).is_some() {
                listed_kl += super::drift::kl_term(p, q);
                continue;
            }
            js += super::drift::js_term(p, q);
            tv += (p - q).abs() / 2.0;
            p_sum += p;
            q_sum += q;
        }
        let kl = divergence(self.full, self.full_log_sum, self.quantized, self.log_sum);
        [
            (js - super::drift::js_term(p_sum, q_sum)).max(0.0),
            (tv - (p_sum - q_sum).abs() / 2.0).max(0.0),
            (kl - listed_kl - super::drift::kl_term(p_sum, q_sum)).max(0.0),
            entropy,
        ]
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "copies and powers of two are exact")]
mod tests {
    use super::*;

    #[test]
    fn logits_are_relative_to_the_largest_of_their_run() {
        let mut sheet = Sheet::new(2);
        sheet.push(&[1.0, 3.0, 2.0, -1.0], &[10.0, 10.5, 12.0, 0.0], 7, 3);
        let position = sheet.position(0);
        assert_eq!(
            (position.ids, position.logits, position.full),
            (&[1, 2][..], &[0.0, -1.0][..], &[-1.5, 0.0][..])
        );
        assert_eq!((position.full_ids, position.full_quantized), (&[2, 1][..], &[-1.0, 0.0][..]));
        assert_eq!((position.row.length, position.row.next), (7, 3));
        assert_eq!((position.row.next_logit, position.row.next_full), (-4.0, -12.0));
    }

    #[test]
    fn a_constant_leaves_no_trace() {
        let (quantized, full) = ([1.0, 3.0, 2.0, -1.0, 0.5], [10.0, 10.5, 12.0, 0.0, 8.0]);
        let (mut plain, mut shifted) = (Sheet::new(2), Sheet::new(2));
        plain.push(&quantized, &full, 1, 0);
        shifted.push(&quantized.map(|z| z + 8.0), &full.map(|z| z - 4.0), 1, 0);
        assert_eq!(plain.logits, shifted.logits);
        assert!((plain.rows[0].log_sum - shifted.rows[0].log_sum).abs() < 1e-6);
        assert!((plain.rows[0].entropy - shifted.rows[0].entropy).abs() < 1e-6);
    }

    #[test]
    fn a_row_is_the_words_it_becomes() {
        let mut sheet = Sheet::new(2);
        sheet.push(&[1.0, 3.0, 2.0], &[0.0, 0.5, 2.0], 3, 1);
        assert_eq!(Row::of_words(sheet.rows[0].words()), sheet.rows[0]);
    }
}
