//! GPU kernels against scalar code, on whatever Vulkan device there is; Mesa's lavapipe is a CPU.

mod attend;
mod packed;
mod quantize;
mod refuse;
mod support;
