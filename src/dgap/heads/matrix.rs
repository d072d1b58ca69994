use burn::prelude::*;
use burn::tensor::TensorData;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A named matrix of a head, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Its name inside the head.
    pub name: String,
    /// Rows and columns.
    pub shape: [usize; 2],
    /// Elements.
    pub data: Vec<f32>,
}

impl Matrix {
    /// Zeros.
    pub fn zeros(name: &str, rows: usize, cols: usize) -> Self {
        Self { name: name.to_owned(), shape: [rows, cols], data: vec![0.0; rows * cols] }
    }

    /// Uniform with the variance 2 / rows, which keeps the size of what passes through (He et al., 2015).
    pub fn random(name: &str, rows: usize, cols: usize, random: &mut ChaCha8Rng) -> Self {
        let bound = (6.0 / rows as f32).sqrt();
        let data = (0..rows * cols).map(|_| random.random_range(-bound..bound)).collect();
        Self { name: name.to_owned(), shape: [rows, cols], data }
    }

    /// On a device.
    pub fn tensor<B: Backend>(&self, device: &B::Device) -> Tensor<B, 2> {
        Tensor::from_data(TensorData::new(self.data.clone(), self.shape), device)
    }
}
