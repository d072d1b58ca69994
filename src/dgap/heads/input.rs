use burn::prelude::*;
use burn::tensor::TensorData;

use super::Shape;

/// Steps as heads read them, in host memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Logits of the candidates less the largest: `[n, K]`.
    pub margins: Vec<f32>,
    /// Features, as they are: `[n, F]`.
    pub features: Vec<f32>,
    /// Ids of the candidates: `[n, K]`.
    pub ids: Vec<u32>,
    /// Hidden states, as they are: `[n, W]`; empty for heads that read none.
    pub hidden: Vec<f32>,
}

/// Mean and deviation of each channel over the training positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standard {
    /// Means.
    pub mean: Vec<f32>,
    /// Standard deviations, 1 where a channel does not vary.
    pub deviation: Vec<f32>,
}

impl Standard {
    /// Of rows of `width` channels each, accumulated in f64.
    pub fn of(rows: impl Iterator<Item = Vec<f32>>, width: usize) -> Self {
        let (mut count, mut sums, mut squares) = (0_u64, vec![0.0_f64; width], vec![0.0_f64; width]);
        for row in rows {
            count += 1;
            for (channel, &x) in row.iter().enumerate() {
                sums[channel] += f64::from(x);
                squares[channel] += f64::from(x) * f64::from(x);
            }
        }
        let n = count.max(1) as f64;
        let deviation = |(sum, square): (&f64, &f64)| {
            let variance = square / n - (sum / n).powi(2);
            // Less than rounding of the sums is no variation.
            if variance > 1e-10 * (1.0 + square / n) { variance.sqrt() as f32 } else { 1.0 }
        };
        Self {
            mean: sums.iter().map(|sum| (sum / n) as f32).collect(),
            deviation: sums.iter().zip(&squares).map(deviation).collect(),
        }
    }

    /// Rows with mean 0 and deviation 1, if they are like those that were measured; no more than 8 deviations off,
    /// so that no single channel rules a head.
    pub fn apply(&self, rows: &[f32]) -> Vec<f32> {
        const MOST: f32 = 8.0;
        let channels = self.mean.iter().zip(&self.deviation).cycle();
        let scaled = rows
            .iter()
            .zip(channels)
            .map(|(x, (mean, deviation))| ((x - mean) / deviation).clamp(-MOST, MOST));
        scaled.collect()
    }
}

/// Steps as heads read them, on a device.
#[derive(Clone, Debug)]
pub struct Input<B: Backend> {
    /// Logits of the candidates less the largest: `[n, K]`.
    pub margins: Tensor<B, 2>,
    /// Standardized features: `[n, F]`.
    pub features: Tensor<B, 2>,
    /// Ids of the candidates: `[n * K]`.
    pub ids: Tensor<B, 1, Int>,
    /// Standardized hidden states: `[n, W]`.
    pub hidden: Option<Tensor<B, 2>>,
    /// While C3 is trained, what its inner units are multiplied by: `[n, width]`.
    pub inner: Option<Tensor<B, 2>>,
}

impl<B: Backend> Input<B> {
    /// Puts standardized rows on a device; `hidden` may be left out for heads that read none.
    pub fn new(
        rows: &Rows,
        shape: Shape,
        features: &Standard,
        hidden: &Standard,
        device: &B::Device,
    ) -> Self {
        let n = rows.margins.len() / shape.top_k;
        let matrix = |data: Vec<f32>, width| Tensor::from_data(TensorData::new(data, [n, width]), device);
        let ids: Vec<i32> = rows.ids.iter().map(|&id| id as i32).collect();
        Self {
            margins: matrix(rows.margins.clone(), shape.top_k),
            features: matrix(features.apply(&rows.features), shape.features),
            ids: Tensor::from_data(TensorData::new(ids, [n * shape.top_k]), device),
            hidden: (!rows.hidden.is_empty()).then(|| matrix(hidden.apply(&rows.hidden), shape.inputs)),
            inner: None,
        }
    }
}

/// The model's own head, through which heads read a vector out as one number a candidate.
#[derive(Clone, Debug)]
pub struct Readout<B: Backend> {
    /// `[vocab, hidden]`
    weight: Tensor<B, 2>,
    /// Brings rows to a mean square length of one.
    scale: f64,
}

impl<B: Backend<FloatElem = f32>> Readout<B> {
    /// From the head's weight matrix `[vocab, hidden]`.
    pub fn new(weight: Tensor<B, 2>) -> Self {
        let [vocab, _] = weight.dims();
        // A sample of rows is enough for a scale, and the same for each run.
        let step = vocab.div_ceil(1024);
        let ids: Vec<i32> = (0..vocab).step_by(step).map(|id| id as i32).collect();
        let count = ids.len();
        let ids = Tensor::<B, 1, Int>::from_data(TensorData::new(ids, [count]), &weight.device());
        let squares = weight.clone().select(0, ids).powi_scalar(2).sum().into_scalar();
        let length = (f64::from(squares) / count as f64).sqrt();
        Self { weight, scale: if length > 0.0 { 1.0 / length } else { 1.0 } }
    }

    /// Where it lies.
    pub fn device(&self) -> B::Device {
        self.weight.device()
    }

    /// The same on another backend.
    pub fn map<C: Backend>(&self, to: impl Fn(Tensor<B, 2>) -> Tensor<C, 2>) -> Readout<C> {
        Readout { weight: to(self.weight.clone()), scale: self.scale }
    }
}

impl<B: Backend> Readout<B> {
    /// `w_j · y` of each candidate, with rows of about unit length.
    ///
    /// # Shapes
    /// - `y`: `[n, hidden]`; `ids`: `[n * K]`; result `[n, K]`
    pub fn read(&self, y: Tensor<B, 2>, ids: Tensor<B, 1, Int>) -> Tensor<B, 2> {
        let [n, hidden] = y.dims();
        let k = ids.dims()[0] / n;
        let rows = self.weight.clone().select(0, ids).reshape([n, k, hidden]);
        rows.matmul((y * self.scale).reshape([n, hidden, 1])).reshape([n, k])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_rows_have_mean_zero_and_deviation_one() {
        let rows = [vec![1.0, 5.0], vec![3.0, 5.0]];
        let standard = Standard::of(rows.clone().into_iter(), 2);
        assert_eq!((standard.mean.clone(), standard.deviation.clone()), (vec![2.0, 5.0], vec![1.0, 1.0]));
        assert_eq!(standard.apply(&rows.concat()), [-1.0, 0.0, 1.0, 0.0]);
    }
}
