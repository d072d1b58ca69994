use crate::codec::CodecOptionsError;

/// A launch that was refused before anything was put on the device's queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// No such codec, on any device.
    #[error(transparent)]
    Codec(#[from] CodecOptionsError),
    /// A codec that only the CPU has.
    #[error(
        "no GPU kernel for `{codec}`, expected uniform codes with `zero: float`, or two levels at 1 bit\n\nhint: run with the packed cache of the CPU, or change the scheme"
    )]
    NoKernel {
        /// The option that asks for it, as schemes spell it.
        codec: &'static str,
    },
    /// Sizes that the kernels are not written for.
    #[error("`{what}` is {found}, expected {expected}")]
    Shape {
        /// What is of that size.
        what: &'static str,
        /// Its size.
        found: usize,
        /// Sizes that there are kernels for.
        expected: String,
    },
    /// Keys where values belong, or the other way round.
    #[error("the first store must be packed as keys, the second as values")]
    Sides,
    /// A buffer shorter than its shape says.
    #[error("the buffer of `{what}` has {found} bytes, expected at least {expected}")]
    Buffer {
        /// What it holds.
        what: &'static str,
        /// Bytes it has.
        found: u64,
        /// Bytes that the shape asks for.
        expected: u64,
    },
    /// Tokens that a lane cannot hold, or that are not what it holds.
    #[error("lane {lane}: {what} is {found}, expected {expected}")]
    Lane {
        /// Number of the lane, from 0.
        lane: usize,
        /// Which count.
        what: &'static str,
        /// The count.
        found: usize,
        /// What it may be.
        expected: String,
    },
    /// Something that the device lacks.
    #[error("the device has {found} {what}, expected at least {expected}")]
    Device {
        /// What there is too little of.
        what: &'static str,
        /// How much there is.
        found: usize,
        /// How much the kernel needs.
        expected: usize,
    },
    /// Numbers in f64, which the codec of two levels takes its means in.
    #[error(
        "the device has no f64, which two levels need\n\nhint: set `one_bit: rtn`, or use no 1-bit layer"
    )]
    NoF64,
}

/// A group whose codes are meaningless because its numbers do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("lane {lane}, KV head {head}: {kind}")]
pub struct Fault {
    /// Number of the lane, from 0.
    pub lane: usize,
    /// Number of the KV head, from 0.
    pub head: usize,
    /// What is wrong.
    pub kind: FaultKind,
}

/// Why a group cannot be coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// NaN or infinity.
    #[error("a group holds NaN or infinity")]
    NotFinite,
    /// Scale, zero or level beyond f16, or a range beyond f32.
    #[error("the range of a group does not fit its metadata\n\nhint: set `metadata: f32`")]
    Range,
}
