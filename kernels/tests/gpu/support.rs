//! The device, noise, and buffers.

use cubecl::prelude::*;
use cubecl::server::Handle;
use cubecl::wgpu::{WgpuDevice, WgpuRuntime};
use kvtune_kernels::gpu::cubecl;

pub(crate) type Client = ComputeClient<WgpuRuntime>;

/// A client of the first Vulkan device, or nothing where there is none.
pub(crate) fn client() -> Option<Client> {
    let client = std::panic::catch_unwind(|| WgpuRuntime::client(&WgpuDevice::DefaultDevice)).ok();
    if client.is_none() {
        skip();
    }
    client
}

#[allow(clippy::print_stderr, reason = "a test that was skipped says so")]
fn skip() {
    eprintln!("skipped: no Vulkan device (Debian has one in mesa-vulkan-drivers)");
}

/// Reproducible noise with an approximately normal distribution.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn uniform(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }

    pub(crate) fn next(&mut self) -> f32 {
        (0..6).map(|_| self.uniform()).sum::<f32>() * 1.4 - 4.2
    }

    pub(crate) fn take(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
}

pub(crate) fn upload(client: &Client, numbers: &[f32]) -> Handle {
    client.create_from_slice(f32::as_bytes(numbers))
}

pub(crate) fn download(client: &Client, handle: &Handle, n: usize) -> Vec<f32> {
    let bytes = client.read_one(handle.clone()).expect("the device answers");
    f32::from_bytes(&bytes)[..n].to_vec()
}

pub(crate) fn download_words(client: &Client, handle: &Handle) -> Vec<u32> {
    let bytes = client.read_one(handle.clone()).expect("the device answers");
    u32::from_bytes(&bytes).to_vec()
}
